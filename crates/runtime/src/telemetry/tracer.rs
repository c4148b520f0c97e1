//! Follows the journal and turns pairs of begin and end events into spans.
//!
//! | span | from | to | trace |
//! |---|---|---|---|
//! | `attempt` | `attempt.begun` | `attempt.died` | one for each attempt |
//! | `recovery` | an unwanted death | the next `attempt.started` | the new attempt's |
//! | `task` | `lease.taken` | `lease.ended`, a newer lease, or a raised fence | one for each task |
//! | `step` | `step.begun` | `step.done` or `step.failed` | its task's, below the hold |

use std::collections::HashMap;
use std::hash::Hash;

use relight_core::event::{Event, EventKind};
use relight_core::ids::{AgentName, TaskId};
use relight_core::step::StepKey;
use relight_core::time::Time;

use super::span::{SpanId, TraceId, TraceSpan};

/// What is followed.
pub(super) const KINDS: [EventKind; 9] = [
    EventKind::AttemptBegun,
    EventKind::AttemptStarted,
    EventKind::AttemptDied,
    EventKind::LeaseTaken,
    EventKind::LeaseEnded,
    EventKind::FenceRaised,
    EventKind::StepBegun,
    EventKind::StepDone,
    EventKind::StepFailed,
];

/// Of each kind of thing so many are under way at most; what is over is not traced.
const OPEN_MAX: usize = 50_000;

/// What began and has not ended.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    /// The newest attempt of each agent: its number and when it was begun.
    attempts: HashMap<AgentName, (u64, Time)>,
    /// Agents that died against everybody's will, of what and when.
    gone: HashMap<AgentName, (String, Time)>,
    /// Tasks that are held: since when, and by which event.
    holds: HashMap<TaskId, (Time, u64)>,
    steps: HashMap<(TaskId, StepKey), Time>,
}

impl Tracer {
    /// The spans that end with this event.
    pub(super) fn follow(&mut self, event: &Event) -> Vec<TraceSpan> {
        match event.kind {
            EventKind::AttemptBegun => self.begun(event),
            EventKind::AttemptStarted => return self.started(event).into_iter().collect(),
            EventKind::AttemptDied => return self.died(event).into_iter().collect(),
            EventKind::LeaseTaken => return self.held(event).into_iter().collect(),
            EventKind::LeaseEnded | EventKind::FenceRaised => {
                return self.lease_released(event).into_iter().collect();
            }
            EventKind::StepBegun => {
                if let (Some(task), Some(step)) = (&event.task, &event.step) {
                    put(&mut self.steps, (task.clone(), step.clone()), event.at);
                }
            }
            EventKind::StepDone | EventKind::StepFailed => {
                return self.step_ended(event).into_iter().collect();
            }
            _ => {}
        }
        Vec::new()
    }

    fn begun(&mut self, event: &Event) {
        if let (Some(agent), Some(number)) = (&event.agent, event.detail["number"].as_u64()) {
            put(&mut self.attempts, agent.clone(), (number, event.at));
        }
    }

    /// An agent that is back.
    fn started(&mut self, event: &Event) -> Option<TraceSpan> {
        let agent = event.agent.as_ref()?;
        let (cause, died_at) = self.gone.remove(agent)?;
        let number = event.detail["number"].as_u64()?.to_string();
        let parts = [agent.as_str(), number.as_str()];
        Some(TraceSpan {
            trace: TraceId::of(&parts),
            id: SpanId::of(&["recovery", parts[0], parts[1]]),
            parent: Some(SpanId::of(&["attempt", parts[0], parts[1]])),
            name: "recovery".to_owned(),
            begun_at: died_at,
            ended_at: event.at,
            attributes: vec![
                ("relight.agent", agent.to_string()),
                ("relight.attempt", number.clone()),
                ("relight.cause", cause),
            ],
            error: None,
        })
    }

    fn died(&mut self, event: &Event) -> Option<TraceSpan> {
        let agent = event.agent.as_ref()?;
        let word = |name: &str| event.detail[name].as_str().unwrap_or_default().to_owned();
        let cause = word("cause");
        let is_wanted = matches!(cause.as_str(), "completed" | "stopped" | "deferred");
        if !is_wanted {
            let down_since = event.moment("down_since");
            put(&mut self.gone, agent.clone(), (cause.clone(), down_since));
        }
        let number = event.detail["number"].as_u64()?;
        let begun = self
            .attempts
            .remove(agent)
            .filter(|(known, _)| *known == number);
        let lived_ms = event.detail["lived_ms"].as_i64().unwrap_or(0);
        let died_at = event.moment("died_at");
        let begun_at = begun.map_or(Time::from_ms(died_at.as_ms() - lived_ms), |(_, at)| at);
        let number = number.to_string();
        let parts = [agent.as_str(), number.as_str()];
        Some(TraceSpan {
            trace: TraceId::of(&parts),
            id: SpanId::of(&["attempt", parts[0], parts[1]]),
            parent: None,
            name: "attempt".to_owned(),
            begun_at,
            ended_at: died_at,
            attributes: vec![
                ("relight.agent", agent.to_string()),
                ("relight.attempt", number.clone()),
                ("relight.cause", cause),
            ],
            error: (!is_wanted).then(|| word("how")),
        })
    }

    /// A hold begins. A previous hold that has not ended ends now.
    fn held(&mut self, event: &Event) -> Option<TraceSpan> {
        let task = event.task.as_ref()?;
        let before = self.lease_released(event);
        put(&mut self.holds, task.clone(), (event.at, event.id));
        before
    }

    fn lease_released(&mut self, event: &Event) -> Option<TraceSpan> {
        let task = event.task.as_ref()?;
        let (begun_at, taken) = self.holds.remove(task)?;
        let mut attributes = vec![("relight.task", task.to_string())];
        attributes.extend(
            event
                .agent
                .as_ref()
                .map(|agent| ("relight.agent", agent.to_string())),
        );
        Some(TraceSpan {
            trace: TraceId::of(&[task.as_str()]),
            id: hold_id(task, taken),
            parent: None,
            name: "task".to_owned(),
            begun_at,
            ended_at: event.at,
            attributes,
            error: None,
        })
    }

    /// A step whose begin was not recorded by itself ended when it was.
    fn step_ended(&mut self, event: &Event) -> Option<TraceSpan> {
        let (task, step) = (event.task.as_ref()?, event.step.as_ref()?);
        let begun_at = self
            .steps
            .remove(&(task.clone(), step.clone()))
            .unwrap_or(event.at);
        let parent = self.holds.get(task).map(|(_, taken)| hold_id(task, *taken));
        let exit_code = event.detail["exit_code"].as_i64();
        let mut attributes = vec![
            ("relight.task", task.to_string()),
            ("relight.step", step.to_string()),
        ];
        attributes.extend(
            event
                .agent
                .as_ref()
                .map(|agent| ("relight.agent", agent.to_string())),
        );
        attributes.extend(exit_code.map(|code| ("relight.exit_code", code.to_string())));
        let failed = event.kind == EventKind::StepFailed;
        Some(TraceSpan {
            trace: TraceId::of(&[task.as_str()]),
            id: SpanId::of(&["step", task.as_str(), &event.id.to_string()]),
            parent,
            name: format!("step {}", step.name),
            begun_at,
            ended_at: event.at,
            attributes,
            error: failed.then(|| "the step failed".to_owned()),
        })
    }
}

fn hold_id(task: &TaskId, taken: u64) -> SpanId {
    SpanId::of(&["hold", task.as_str(), &taken.to_string()])
}

fn put<K: Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: V) {
    if map.len() < OPEN_MAX || map.contains_key(&key) {
        map.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use relight_core::ids::StepName;
    use relight_core::lease::Fence;
    use serde_json::{Value, json};

    use super::*;

    /// An event of agent `a` and task `t` at this second.
    fn event(id: u64, kind: EventKind, step: Option<&str>, detail: Value) -> Event {
        let key = |name: &str| StepKey {
            name: StepName::new(name).unwrap(),
            occurrence: 1,
        };
        Event {
            id,
            at: Time::from_ms(i64::try_from(id).unwrap() * 1_000),
            kind,
            agent: Some(AgentName::new("a").unwrap()),
            task: Some(TaskId::new("t").unwrap()),
            step: step.map(key),
            fence: Some(Fence(3)),
            detail,
        }
    }

    fn told(span: &TraceSpan) -> String {
        let (from, to) = (span.begun_at.as_ms() / 1_000, span.ended_at.as_ms() / 1_000);
        let error = span
            .error
            .as_ref()
            .map(|error| format!(" ! {error}"))
            .unwrap_or_default();
        let below = if span.parent.is_some() { " below" } else { "" };
        format!("{} {from}..{to}{below}{error}", span.name)
    }

    #[test]
    fn a_death_that_was_noticed_late_ends_its_span_and_begins_its_recovery_when_it_was() {
        let mut tracer = Tracer::default();
        let at = |secs: i64| Time::from_ms(secs * 1_000);
        let died = json!({"number": 1, "cause": "hung", "died_at": at(6), "down_since": at(4)});
        let story = [
            event(1, EventKind::AttemptBegun, None, json!({"number": 1})),
            event(9, EventKind::AttemptDied, None, died),
            event(10, EventKind::AttemptStarted, None, json!({"number": 2})),
        ];
        let spans: Vec<TraceSpan> = story
            .iter()
            .flat_map(|event| tracer.follow(event))
            .collect();
        let text: Vec<String> = spans.iter().map(told).collect();
        assert_eq!(text, ["attempt 1..6 ! ", "recovery 4..10 below"]);
    }

    #[test]
    fn what_begins_and_ends_is_a_span() {
        let mut tracer = Tracer::default();
        let story = [
            event(1, EventKind::AttemptBegun, None, json!({"number": 1})),
            event(2, EventKind::AttemptStarted, None, json!({"number": 1})),
            event(3, EventKind::LeaseTaken, None, Value::Null),
            event(4, EventKind::StepBegun, Some("build"), Value::Null),
            event(
                5,
                EventKind::StepDone,
                Some("build"),
                json!({"exit_code": 0}),
            ),
            event(
                6,
                EventKind::StepFailed,
                Some("ship"),
                json!({"exit_code": 1}),
            ),
            event(7, EventKind::LeaseEnded, None, Value::Null),
            event(
                8,
                EventKind::AttemptDied,
                None,
                json!({"number": 1, "cause": "signal", "how": "signal 9 (KILL)"}),
            ),
            event(9, EventKind::AttemptBegun, None, json!({"number": 2})),
            event(10, EventKind::AttemptStarted, None, json!({"number": 2})),
            event(
                11,
                EventKind::AttemptDied,
                None,
                json!({"number": 2, "cause": "completed"}),
            ),
        ];
        let spans: Vec<TraceSpan> = story
            .iter()
            .flat_map(|event| tracer.follow(event))
            .collect();
        let text: Vec<String> = spans.iter().map(told).collect();
        assert_eq!(
            text,
            [
                "step build 4..5 below",
                "step ship 6..6 below ! the step failed",
                "task 3..7",
                "attempt 1..8 ! signal 9 (KILL)",
                "recovery 8..10 below",
                "attempt 9..11",
            ]
        );
        assert_eq!(
            spans[0].parent,
            Some(spans[2].id),
            "a step is below its hold"
        );
        assert_eq!(
            spans[4].trace, spans[5].trace,
            "a recovery is of the attempt that it led to"
        );
        let again = Tracer::default().follow(&story[4]);
        assert_eq!(
            again[0].id, spans[0].id,
            "ids are of the thing, not of the process"
        );
    }
}
