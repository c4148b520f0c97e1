//! `relight ps --watch`: what an operator keeps open. Read again when the store changes, drawn again when
//! the terminal's size does and once a second for the ages; the store is not asked for that.

use std::io::Write as _;
use std::time::Duration;

use relight_core::time::Time;
use relight_runtime::inflight::Inflight;
use relight_runtime::operations::needs::NeedsMe;
use relight_runtime::os::clock;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::super::events::end_when_nobody_reads;
use super::super::operate;
use super::super::overview::StatusOverview;
use super::super::supervision::cannot_wait;
use crate::arguments::agent::PsArguments;
use crate::block_on_with;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// A busy store is not read more often than this.
const READ_EVERY: Duration = Duration::from_millis(250);
/// How often ages are drawn anew.
const AGES_EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(environment: &Environment, arguments: &PsArguments) -> Outcome {
    if !environment.json && !output::is_terminal() {
        let text = "--watch draws on a terminal, and standard output is not one";
        return Err(Failure::new(Exit::Usage, text)
            .hint("relight ps --watch --json prints one line for each change"));
    }
    let context = operate::context(environment)?;
    let runtime = crate::runtime().map_err(|error| cannot_wait(&error))?;
    block_on_with(&runtime, async {
        let mut ends = Ends::new().map_err(|error| cannot_wait(&error))?;
        let mut resized = signal(SignalKind::window_change()).map_err(|e| cannot_wait(&e))?;
        end_when_nobody_reads();
        let screen = (!environment.json).then(Screen::open);
        let store = context.engine.store();
        loop {
            // Looked at first: what comes meanwhile has a larger number.
            let seen = store.newest_event().await?;
            let mut overview = StatusOverview::read(&context, super::query(arguments)).await?;
            overview
                .agents
                .retain(|agent| super::is_wanted(arguments, agent));
            if environment.json {
                print_line(&overview);
            }
            let read_again_at = Instant::now() + READ_EVERY;
            let changed = async {
                store.changed(seen).await?;
                sleep_until(read_again_at).await;
                Ok::<(), Failure>(())
            };
            tokio::pin!(changed);
            loop {
                if let Some(screen) = &screen {
                    screen.draw(environment, &overview);
                }
                tokio::select! {
                    changed = &mut changed => {
                        changed?;
                        break;
                    }
                    _ = resized.recv() => {}
                    () = tokio::time::sleep(AGES_EVERY), if screen.is_some() => {}
                    () = ends.next() => return Ok(0),
                }
            }
        }
    })
}

fn print_line(overview: &StatusOverview) {
    output::json_line(&json!({
        "items": overview.agents,
        "inflight": overview.inflight,
        "needs_me": overview.needs,
        "needs_me_total": overview.needs_total,
        "draining_since": overview.draining_since,
        "at": clock::now(),
    }));
}

/// Ctrl-C, SIGTERM, and the end of the session.
struct Ends([Signal; 3]);

impl Ends {
    fn new() -> std::io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn next(&mut self) {
        let [interrupted, terminated, hung_up] = &mut self.0;
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
            _ = hung_up.recv() => {}
        }
    }
}

/// The other screen of the terminal. Dropped, the terminal is as it was.
struct Screen;

impl Screen {
    fn open() -> Self {
        write("\x1b[?1049h\x1b[?25l");
        Self
    }

    fn draw(&self, environment: &Environment, overview: &StatusOverview) {
        let (columns, rows) = output::terminal_size().unwrap_or((80, 24));
        let lines = lines(
            overview,
            clock::now(),
            (columns, rows),
            output::has_colours(environment),
        );
        let mut text = "\x1b[H".to_owned();
        for (at, line) in lines.iter().enumerate() {
            text += line;
            text += "\x1b[K";
            // A line break after the last row would scroll.
            if at + 1 < lines.len() {
                text += "\r\n";
            }
        }
        write(&(text + "\x1b[J"));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        write("\x1b[?25h\x1b[?1049l");
    }
}

/// Where it cannot be drawn, nobody looks.
fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// What fits: half of the screen is for agents, the rest for work and for what needs somebody.
fn lines(
    overview: &StatusOverview,
    now: Time,
    (columns, rows): (usize, usize),
    has_colours: bool,
) -> Vec<String> {
    let needs: Vec<String> = overview
        .needs
        .iter()
        .flat_map(|need| need_lines(need, now))
        .collect();
    let work = work_lines(&overview.inflight, now);
    let title = title(overview, now, columns);
    // Titles, and an empty line before each part.
    let left = rows.saturating_sub(6);
    let needs = at_most(needs, left / 3);
    let work = at_most(work, left / 4);
    let agents = match overview.agents.is_empty() {
        true => vec!["no agents".to_owned()],
        false => super::table(&overview.agents, false, now, Some(columns), has_colours)
            .lines()
            .map(str::to_owned)
            .collect(),
    };
    let agents = at_most(agents, left.saturating_sub(needs.len() + work.len()));
    let cut = |line: String| match line.chars().count() > columns {
        true => output::shorten(&line, columns.saturating_sub(1)),
        false => line,
    };
    let bold = |title: String| match has_colours {
        true => format!("\x1b[1m{title}\x1b[0m"),
        false => title,
    };
    let mut all = vec![bold(cut(title)), String::new()];
    // It was laid out to fit, and its colours count as characters.
    all.extend(agents);
    for (title, lines) in [("work in flight", work), ("needs me", needs)] {
        let title = match lines.is_empty() {
            true => format!("{title}: nothing"),
            false => format!("{title}:"),
        };
        all.extend([String::new(), bold(title)]);
        all.extend(lines.into_iter().map(cut));
    }
    all.truncate(rows);
    all
}

/// What can be left out is, where it does not fit.
fn title(overview: &StatusOverview, now: Time, columns: usize) -> String {
    let states: Vec<String> = overview
        .agents_by_state()
        .iter()
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    let draining = match overview.draining_since {
        Some(since) => format!(" · draining for {}", now.since(since).rough()),
        None => String::new(),
    };
    let states = match states.is_empty() {
        true => "no agents".to_owned(),
        false => states.join(", "),
    };
    let at = super::to_second(now);
    let begin = format!("relight · {states}{draining}");
    let all = [
        format!("{begin} · {at} · Ctrl-C ends"),
        format!("{begin} · {at}"),
    ];
    let fits = |title: &String| title.chars().count() <= columns;
    all.into_iter().find(fits).unwrap_or(begin)
}

fn need_lines(need: &NeedsMe, now: Time) -> Vec<String> {
    let age = now.since(need.at).rough();
    vec![
        output::one_line(&format!("  {} ({age})", need.text)),
        output::one_line(&format!("    {}", need.hint)),
    ]
}

fn work_lines(found: &Inflight, now: Time) -> Vec<String> {
    let age = |since: Time| now.since(since).rough();
    let doubts = found.in_doubt.iter().map(|it| {
        format!(
            "  task {} · step {} in doubt, begun {} ago",
            it.task,
            it.step,
            age(it.since)
        )
    });
    let held = found.held.iter().map(|it| {
        let at = match it.steps.is_empty() {
            true => String::new(),
            false => format!(" · at {}", it.steps.join(", ")),
        };
        let agent = it.agent.as_ref().map(|agent| format!(" · {agent}"));
        format!(
            "  task {}{}{at}, for {}",
            it.task,
            agent.unwrap_or_default(),
            age(it.since)
        )
    });
    let turns = found.sessions.iter().map(|it| {
        format!(
            "  session {} · turn {}, for {}",
            it.session,
            it.generation,
            age(it.since)
        )
    });
    let running = found.running.iter().map(|it| {
        format!(
            "  task {} · step {} runs, for {}",
            it.task,
            it.step,
            age(it.since)
        )
    });
    // What runs comes first: of the rest there may be more than fits.
    let all = held.chain(running).chain(turns).chain(doubts);
    all.map(|line| output::one_line(&line)).collect()
}

/// The first lines, and how many more there are.
fn at_most(mut lines: Vec<String>, count: usize) -> Vec<String> {
    let count = count.max(2);
    if lines.len() > count {
        let more = lines.len() - count + 1;
        lines.truncate(count - 1);
        lines.push(format!("  … {more} more lines"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use relight_core::ids::{StepName, TaskId};
    use relight_core::status::TaskStatus;
    use relight_core::step::{RepeatRule, StepKey};
    use relight_runtime::inflight::{Holding, OpenStep};
    use relight_store::Inventory;

    use super::*;

    fn overview(doubts: usize) -> StatusOverview {
        let task = TaskId::new("t").unwrap();
        let since = Time::from_ms(0);
        let doubt = OpenStep {
            task: task.clone(),
            status: TaskStatus::InProgress,
            step: StepKey::first(StepName::new("slow-1").unwrap()),
            rule: RepeatRule::Once,
            tries: 1,
            since,
            call: None,
        };
        let held = Holding {
            task,
            status: TaskStatus::InProgress,
            agent: None,
            holder: "process 1".to_owned(),
            since,
            steps: vec!["final-wait".to_owned()],
        };
        StatusOverview {
            agents: Vec::new(),
            inventory: Inventory::default(),
            inflight: Inflight {
                in_doubt: vec![doubt; doubts],
                lost: Vec::new(),
                held: vec![held],
                running: Vec::new(),
                agents: Vec::new(),
                sessions: Vec::new(),
            },
            needs: Vec::new(),
            needs_total: 0,
            draining_since: Some(since),
        }
    }

    #[test]
    fn what_runs_is_seen_however_much_is_in_doubt() {
        let shown = lines(&overview(20), Time::from_ms(9_000), (80, 24), false);
        let runs = |line: &String| line.contains("at final-wait");
        assert!(shown.iter().any(runs), "{shown:#?}");
    }

    #[test]
    fn the_title_is_not_cut_in_the_middle() {
        for (columns, end) in [(80, "Ctrl-C ends"), (60, "00Z"), (44, "draining for 0s")] {
            let title = title(&overview(0), Time::from_ms(0), columns);
            assert!(
                title.chars().count() <= columns && title.ends_with(end),
                "{title}"
            );
        }
    }
}
