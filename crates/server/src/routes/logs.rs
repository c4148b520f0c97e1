//! What an agent wrote last: without secrets, and without what a terminal obeys.

use std::collections::VecDeque;
use std::io;

use axum::Extension;
use axum::extract::State;
use relight_core::agent::Agent;
use relight_core::agent::plain::plain_line;
use relight_core::ids::{AgentName, NodeName};
use relight_core::time::Time;
use relight_runtime::fleet::far_log;
use relight_runtime::supervise::folder::AgentFolder;
use relight_runtime::supervise::log::{AgentLog, LogPosition, LogTimes};
use relight_store::AttemptQuery;
use serde::Deserialize;

use crate::answer::Answer;
use crate::app::App;
use crate::caller::{Caller, Via};
use crate::error::ApiError;
use crate::extract::{Asked, Named};
use crate::wire::agent::Logs;

const LINES_DEFAULT: usize = 200;
/// All lines together; the last ones are kept.
const BYTES_MAX: usize = 2 << 20;

/// How much.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(super) struct HowMuch {
    /// Number of last lines, 1 to 5000.
    #[cfg_attr(test, param(minimum = 1, maximum = 5000, default = 200))]
    lines: Option<usize>,
    /// Only of this attempt.
    attempt: Option<u32>,
}

/// The last lines of an agent's output, over all its attempts. In a fleet those of the node that its
/// newest attempt is on; where that cannot be reached, what the store has of them, with a note.
#[cfg_attr(test, utoipa::path(get, path = "/api/agents/{name}/logs", tag = "agents",
    params(("name" = String, Path), HowMuch),
    responses((status = 200, body = Logs), (status = 404),
        (status = 422))))]
pub(super) async fn logs(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named<String>,
    Asked(how_much): Asked<HowMuch>,
) -> Result<Answer<Logs>, ApiError> {
    let count = how_much.lines.unwrap_or(LINES_DEFAULT);
    let agent = app.agent(&AgentName::new(name)?).await?;
    if let Some(number) = how_much.attempt {
        return app.log_of_attempt(&agent, number, count).await.map(Answer);
    }
    // Whoever comes from another node wants what is here.
    if caller.via != Via::Node
        && app.backend.node.is_some()
        && let Some(node) = far_log::node_of(app.backend.engine.store().as_ref(), &agent).await?
    {
        return app.far_log(&agent, &node, count).await.map(Answer);
    }
    app.own_log(&agent, count).await.map(Answer)
}

impl App {
    /// Of one attempt on this machine; of another one the last lines, which the store has.
    async fn log_of_attempt(
        &self,
        agent: &Agent,
        number: u32,
        count: usize,
    ) -> Result<Logs, ApiError> {
        let query = AttemptQuery {
            agent: Some(agent.name.clone()),
            ended: false,
            before: None,
            limit: agent.attempt_number.saturating_sub(number) as usize + 1,
        };
        let found = self.backend.engine.store().attempts(query).await?;
        let Some(place) = found.iter().position(|attempt| attempt.number == number) else {
            return Err(ApiError::not_found(format!(
                "{} has no attempt {number}",
                agent.name
            )));
        };
        let attempt = &found[place];
        let node = attempt.node().map(ToString::to_string);
        let is_here = node.is_none() || node == self.backend.node_name();
        let Some(begin) = attempt.log.filter(|_| is_here).map(LogPosition::from) else {
            let last = attempt.post_mortem.as_ref();
            let last = last.map_or("", |last| last.last_output.as_str());
            let lines = last.lines().map(|line| (line.to_owned(), None)).collect();
            let note = "the end of its output, from the store".to_owned();
            return Ok(Logs {
                truncated: true,
                note: Some(note),
                ..self.shown_log(agent, lines, count, node)
            });
        };
        // The newest attempts come first.
        let end = found[..place].iter().rev().find_map(|next| next.log);
        let folder = AgentFolder::of(&self.backend.home, &agent.name);
        let read = move || {
            let log = AgentLog::of(&folder);
            read_lines(&log, begin, end.map(LogPosition::from), count)
        };
        let lines = tokio::task::spawn_blocking(read).await;
        let lines = lines.map_err(|error| ApiError::internal(error.to_string()))?;
        let lines = lines.map_err(|error| ApiError::internal(error.to_string()))?;
        Ok(self.shown_log(agent, lines, count, node))
    }

    async fn own_log(&self, agent: &Agent, count: usize) -> Result<Logs, ApiError> {
        let folder = AgentFolder::of(&self.backend.home, &agent.name);
        let read = move || {
            let log = AgentLog::of(&folder);
            // One more than wanted tells whether there are more.
            let begin = log.last_lines_from(count + 1, LogPosition::START)?;
            read_lines(&log, begin, None, count)
        };
        let read = tokio::task::spawn_blocking(read).await;
        let read = read.map_err(|error| ApiError::internal(error.to_string()))?;
        let lines = match read {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(|error| ApiError::internal(error.to_string()))?,
        };
        let node = self.backend.node_name();
        Ok(self.shown_log(agent, lines, count, node))
    }

    /// Of another node, as far as it or the store can tell.
    async fn far_log(
        &self,
        agent: &Agent,
        node: &NodeName,
        count: usize,
    ) -> Result<Logs, ApiError> {
        let far = far_log::read(self.backend.engine.store().as_ref(), agent, node, count).await?;
        // An older node tells no times.
        let times = far.times.into_iter().chain(std::iter::repeat(None));
        let lines = far.lines.into_iter().zip(times).collect();
        let shown = self.shown_log(agent, lines, count, Some(far.node.to_string()));
        Ok(Logs {
            truncated: shown.truncated || far.truncated,
            note: far.note,
            ..shown
        })
    }

    /// The last so many lines, harmless to read.
    fn shown_log(
        &self,
        agent: &Agent,
        found: Vec<LineAndTime>,
        count: usize,
        node: Option<String>,
    ) -> Logs {
        let (plain, times): (Vec<String>, Vec<Option<Time>>) = found
            .into_iter()
            .map(|(line, at)| (plain_line(&line), at))
            .unzip();
        // Redacted after cleaning, for colours may stand in the middle of a secret.
        let text = self
            .backend
            .engine
            .redactor()
            .text(&plain.join("\n"))
            .into_owned();
        let mut lines: Vec<String> = match plain.is_empty() {
            true => Vec::new(),
            false => text.split('\n').map(str::to_owned).collect(),
        };
        let mut times = times_of_shown(&lines, &plain, &times);
        let mut truncated = lines.len() > count;
        lines.drain(..lines.len().saturating_sub(count));
        while lines.iter().map(String::len).sum::<usize>() > BYTES_MAX {
            lines.remove(0);
            truncated = true;
        }
        times.drain(..times.len() - lines.len());
        Logs {
            agent: agent.name.to_string(),
            lines,
            times,
            truncated,
            node,
            note: None,
        }
    }
}

/// A line, and when it was written.
type LineAndTime = (String, Option<Time>);

/// The last lines between two places, one more than `count` where there are more.
fn read_lines(
    log: &AgentLog,
    begin: LogPosition,
    end: Option<LogPosition>,
    count: usize,
) -> io::Result<Vec<LineAndTime>> {
    let (mut lines, mut times) = (log.lines(begin), LogTimes::default());
    let mut kept = VecDeque::new();
    while end.is_none_or(|end| lines.position() < end) {
        let line = lines.next_line()?;
        let is_last = line.is_none();
        // What is not ended counts, where nothing comes after it.
        let line = line.or_else(|| lines.take_rest().filter(|_| end.is_none()));
        if let Some(line) = line {
            if kept.len() > count {
                kept.pop_front();
            }
            let text = String::from_utf8_lossy(&line.bytes).into_owned();
            kept.push_back((text, times.at(log, lines.position())));
        }
        if is_last {
            break;
        }
    }
    Ok(kept.into())
}

/// When each line was written. Redaction may join lines: those before and after them keep their times.
fn times_of_shown(
    shown: &[String],
    written: &[String],
    times: &[Option<Time>],
) -> Vec<Option<Time>> {
    if shown.len() == written.len() {
        return times.to_vec();
    }
    let same = |(shown, written): &(&String, &String)| shown == written;
    let begin = shown.iter().zip(written).take_while(same).count();
    let pairs = shown.iter().rev().zip(written.iter().rev());
    let end = pairs.take_while(same).count().min(shown.len() - begin);
    let mut found = times[..begin].to_vec();
    found.resize(shown.len() - end, None);
    found.extend(&times[times.len() - end..]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_around_those_that_redaction_joined_keep_their_times() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let times: Vec<Option<Time>> = (1..=5).map(|at| Some(Time::from_ms(at))).collect();
        let of = |shown| times_of_shown(&lines(shown), &lines("a begin key end z"), &times);
        assert_eq!(of("a *** key end z"), times);
        assert_eq!(of("a *** z"), [times[0], None, times[4]]);
        assert_eq!(of("***"), [None]);
    }
}
