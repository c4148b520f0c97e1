//! `relight events`: what happened, a line each, now and as it goes on.

use std::collections::VecDeque;

use relight_core::event::Event;
use relight_runtime::operations::view::EventView;
use relight_store::{EventQuery, Store, StoreError};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::supervision::cannot_wait;
use crate::arguments::other::EventsArguments;
use crate::block_on_with;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::terminal_filter;

/// How many are in memory at a time.
const PAGE: usize = 1_000;
/// How much of a detail stands in a line.
const DETAIL_CHARS_MAX: usize = 100;

pub(crate) fn run(environment: &Environment, arguments: &EventsArguments) -> Outcome {
    if arguments.newest == 0 && !arguments.follow {
        return Err(nothing_asked_for());
    }
    let engine = environment.engine()?;
    let store = engine.store().as_ref();
    let runtime = crate::runtime().map_err(|error| cannot_wait(&error))?;
    let reader = EventReader {
        environment,
        arguments,
        store,
    };
    block_on_with(&runtime, async {
        let start = reader.start().await?;
        let (printed, end) = reader.print_after(start).await?;
        if printed == 0 {
            reader.say_that_there_is_nothing();
        }
        if arguments.follow {
            reader.follow(end).await
        } else {
            Ok(0)
        }
    })
}

/// `-n 0` means what comes from now on, which only whoever follows gets.
pub(super) fn nothing_asked_for() -> Failure {
    Failure::new(Exit::Usage, "-n 0 shows nothing without --follow")
        .hint("give a number from 1, or add -f for what comes from now on")
}

struct EventReader<'a> {
    environment: &'a Environment,
    arguments: &'a EventsArguments,
    store: &'a dyn Store,
}

impl EventReader<'_> {
    fn query(&self, after: u64, limit: usize, newest: bool) -> EventQuery {
        let EventsArguments {
            task, agent, kinds, ..
        } = self.arguments;
        let (task, agent, kinds) = (task.clone(), agent.clone(), kinds.clone());
        EventQuery {
            after,
            before: None,
            task,
            agent,
            kinds,
            limit,
            newest,
        }
    }

    /// After which event the printing starts.
    async fn start(&self) -> Result<u64, StoreError> {
        if let Some(after) = self.arguments.after {
            return Ok(after);
        }
        let wanted = self.arguments.newest;
        if self.arguments.all {
            return Ok(0);
        }
        if wanted == 0 {
            return self.store.newest_event().await;
        }
        if wanted <= PAGE {
            let found = self.store.events(self.query(0, wanted, true)).await?;
            return Ok(found.first().map_or(0, |event| event.id - 1));
        }
        self.start_of_many(wanted).await
    }

    /// Reads all once for their numbers, so that however many are wanted, only a page is in memory.
    async fn start_of_many(&self, wanted: usize) -> Result<u64, StoreError> {
        let mut newest: VecDeque<u64> = VecDeque::new();
        let mut after = 0;
        loop {
            let page = self.store.events(self.query(after, PAGE, false)).await?;
            for event in &page {
                newest.push_back(event.id);
                if newest.len() > wanted {
                    newest.pop_front();
                }
                after = event.id;
            }
            if page.len() < PAGE {
                return Ok(newest.front().map_or(0, |first| first - 1));
            }
        }
    }

    /// Prints everything wanted that came after; answers how many, and up to where all was seen.
    async fn print_after(&self, start: u64) -> Result<(u64, u64), StoreError> {
        // Looked at first: what comes meanwhile is either printed below or has a larger number.
        let newest = self.store.newest_event().await?;
        let (mut printed, mut after) = (0, start);
        loop {
            let page = self.store.events(self.query(after, PAGE, false)).await?;
            for event in &page {
                self.print(event);
                after = event.id;
                printed += 1;
            }
            if page.len() < PAGE {
                return Ok((printed, after.max(newest)));
            }
        }
    }

    async fn follow(&self, mut after: u64) -> Outcome {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::new(Exit::Io, format!("cannot listen: {error}")))
        };
        let mut interrupted = listen(SignalKind::interrupt())?;
        let mut terminated = listen(SignalKind::terminate())?;
        end_when_nobody_reads();
        loop {
            tokio::select! {
                changed = self.store.changed(after) => changed?,
                _ = interrupted.recv() => return Ok(0),
                _ = terminated.recv() => return Ok(0),
            }
            (_, after) = self.print_after(after).await?;
        }
    }

    fn print(&self, event: &Event) {
        if self.environment.json {
            output::json_line(&EventView::from(event.clone()));
        } else {
            output::line(&line(event));
        }
    }

    fn say_that_there_is_nothing(&self) {
        let EventsArguments {
            task,
            agent,
            kinds,
            after,
            follow,
            ..
        } = self.arguments;
        let is_narrow = task.is_some() || agent.is_some() || !kinds.is_empty() || after.is_some();
        let text = match (is_narrow, *follow) {
            (_, true) => "nothing yet; waiting",
            (true, false) => "no such events; relight events --all shows every one",
            (false, false) => "no events yet; relight task start ID makes the first",
        };
        output::note(self.environment, text);
    }
}

/// A write would tell, but the next event may be days away.
pub(super) fn end_when_nobody_reads() {
    let named = std::thread::Builder::new().name("relight-reader".to_owned());
    // Without the thread the next write ends it.
    let _ = named.spawn(|| {
        let out = std::io::stdout();
        // Nothing is asked for: only a closed or broken output ends the wait.
        let mut wanted = [PollFd::new(&out, PollFlags::empty())];
        if poll(&mut wanted, None).is_ok() {
            std::process::exit(0);
        }
    });
}

fn line(event: &Event) -> String {
    let none = || "–".to_owned();
    let agent = event.agent.as_ref().map(ToString::to_string);
    let task = event
        .task
        .as_ref()
        .map(ToString::to_string)
        .or(agent)
        .unwrap_or_else(none);
    let step = event.step.as_ref().map_or_else(none, ToString::to_string);
    let (at, kind) = (event.at.to_string(), event.kind.as_str());
    let detail = detail(&event.detail);
    let text = format!(
        "{at:<24}  {:>6}  {kind:<18}  {task}  {step}  {detail}",
        event.id
    );
    terminal_filter::clean(&one_line(text.trim_end()))
}

/// The detail as `name=value`, without what is empty; a change as `from → to`.
fn detail(value: &Value) -> String {
    let mut words = Vec::new();
    if let Value::Object(fields) = value {
        let change = fields
            .get("from")
            .and_then(Value::as_str)
            .zip(fields.get("to"));
        if let Some((from, to)) = change {
            words.push(format!("{from} → {}", word(to)));
        }
        let rest = fields.iter().filter(|(name, _)| {
            change.is_none() || (name.as_str() != "from" && name.as_str() != "to")
        });
        let rest = rest.filter(|(_, value)| !value.is_null());
        words.extend(rest.map(|(name, value)| format!("{name}={}", word(value))));
    } else if !value.is_null() {
        words.push(word(value));
    }
    output::shorten(&words.join(" "), DETAIL_CHARS_MAX)
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn one_line(text: &str) -> String {
    text.replace('\n', "\\n").replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use relight_core::event::EventKind;
    use relight_core::ids::TaskId;
    use relight_core::time::Time;
    use serde_json::json;

    use super::*;

    fn event(kind: EventKind, detail: Value) -> Event {
        let task = Some(TaskId::new("report-7").unwrap());
        Event {
            id: 12,
            at: Time::from_ms(1_000),
            kind,
            agent: None,
            task,
            step: None,
            fence: None,
            detail,
        }
    }

    #[test]
    fn a_line_shows_the_change_and_leaves_out_what_is_empty() {
        let change = json!({"from": "created", "to": "in_progress", "reason": null});
        let lines = [
            line(&event(EventKind::TaskStatus, change)),
            line(&event(
                EventKind::TaskCreated,
                json!({"title": null, "agent": "writer"}),
            )),
            line(&event(EventKind::StepsCleared, Value::Null)),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        1970-01-01T00:00:01Z          12  task.status         report-7  –  created → in_progress
        1970-01-01T00:00:01Z          12  task.created        report-7  –  agent=writer
        1970-01-01T00:00:01Z          12  step.cleared        report-7  –
        ");
    }

    #[test]
    fn an_agents_text_stays_on_its_line_and_is_cut() {
        let detail = json!({"reason": format!("a\n\u{1b}[2Jb{}", "é".repeat(200))});
        let text = line(&event(EventKind::TaskStatus, detail));
        assert!(
            text.contains(r"reason=a\n\u{1b}[2Jb") && text.ends_with("é…"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }
}
