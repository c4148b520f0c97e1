//! What an agent's output tells of its usage.

use std::collections::HashMap;

use relight_core::usage::Usage;
use serde::Deserialize;
use serde_json::Value;

use super::output_parser::{at_path, is_like};

/// Most answers of the model that are told apart; of more, the older ones are final.
const ANSWERS_MAX: usize = 1_000;
/// No amount is taken for more.
pub(crate) const AMOUNT_MAX: f64 = 1e15;

/// Where an event has amounts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageRule {
    /// Members that the event has.
    when: Value,
    /// What the amounts are totals of.
    #[serde(default)]
    of: UsageScope,
    /// Where the event has the id of the model's answer. One that is told again counts once.
    id: Option<String>,
    /// Where it has tokens that were sent; they add up.
    #[serde(default)]
    input: Vec<String>,
    /// Where it has tokens that the model wrote; they add up.
    #[serde(default)]
    output: Vec<String>,
    /// Where it has the cost, in whole units of the currency.
    cost: Option<String>,
    /// It ends a turn.
    #[serde(default)]
    turn: bool,
}

/// What amounts are totals of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageScope {
    /// Of this event only.
    #[default]
    Event,
    /// Of this run of the program.
    Attempt,
    /// Of the conversation, with all that was before it was resumed.
    Session,
}

/// What was told so far.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamUsage {
    rules: Vec<UsageRule>,
    /// Of events without an id, and of older answers.
    events: Usage,
    answers: HashMap<String, Usage>,
    attempt: Usage,
    session: Usage,
}

impl StreamUsage {
    pub(super) fn new(rules: &[UsageRule]) -> Self {
        Self {
            rules: rules.to_vec(),
            ..Self::default()
        }
    }

    /// Adds what the event tells; whether it tells anything.
    pub(super) fn note(&mut self, event: &Value) -> bool {
        let told: Vec<(UsageScope, Option<String>, Usage)> = self
            .rules
            .iter()
            .filter(|rule| is_like(event, &rule.when))
            .map(|rule| (rule.of, rule.answer(event), rule.amounts(event)))
            .collect();
        let is_told = !told.is_empty();
        for (of, answer, amounts) in told {
            match (of, answer) {
                (UsageScope::Event, Some(answer)) => self.answered(answer, amounts),
                (UsageScope::Event, None) => self.events = self.events.plus(amounts),
                (UsageScope::Attempt, _) => self.attempt = self.attempt.max(amounts),
                (UsageScope::Session, _) => self.session = self.session.max(amounts),
            }
        }
        is_told
    }

    fn answered(&mut self, answer: String, amounts: Usage) {
        if self.answers.len() >= ANSWERS_MAX && !self.answers.contains_key(&answer) {
            self.events = self
                .answers
                .drain()
                .fold(self.events, |sum, (_, one)| sum.plus(one));
        }
        let known = self.answers.entry(answer).or_default();
        *known = known.max(amounts);
    }

    /// Totals of this run and of the conversation. A total that the program tells at its end replaces what
    /// single events told, where it is larger.
    pub(super) fn totals(&self) -> [(UsageScope, Usage); 2] {
        let events = self
            .answers
            .values()
            .fold(self.events, |sum, one| sum.plus(*one));
        [
            (UsageScope::Attempt, events.max(self.attempt)),
            (UsageScope::Session, self.session),
        ]
    }
}

impl UsageRule {
    fn answer(&self, event: &Value) -> Option<String> {
        at_path(event, self.id.as_ref()?)?
            .as_str()
            .map(str::to_owned)
    }

    fn amounts(&self, event: &Value) -> Usage {
        let amount = |path: &String| {
            let found = at_path(event, path).and_then(Value::as_f64);
            // Too much to be true is still much.
            found.map_or(0.0, |amount| amount.clamp(0.0, AMOUNT_MAX))
        };
        let sum = |paths: &[String]| paths.iter().map(|path| amount(path) as u64).sum();
        let cost = self.cost.as_ref().map_or(0.0, amount);
        Usage {
            // The cast saturates.
            cost_micros: (cost * 1e6).round() as u64,
            turns: u64::from(self.turn),
            input_tokens: sum(&self.input),
            output_tokens: sum(&self.output),
        }
    }
}

#[cfg(test)]
mod tests {
    use relight_core::time::Time;

    use super::super::Preset;
    use super::*;

    /// Tokens sent and written, cost and turns, of this run and of the conversation.
    fn told(preset: &str, lines: &[&str]) -> [(u64, u64, u64, u64); 2] {
        let mut reader = Preset::by_name(preset, None).unwrap().reader();
        for line in lines {
            reader.line(line.as_bytes(), Time::from_ms(0));
        }
        reader.used().map(|(_, used)| {
            (
                used.input_tokens,
                used.output_tokens,
                used.cost_micros,
                used.turns,
            )
        })
    }

    const NOTHING: (u64, u64, u64, u64) = (0, 0, 0, 0);

    /// Lines as the real programs wrote them; each request was answered with 1,110 tokens sent and 7 written.
    #[test]
    fn the_real_streams_tell_what_they_used() {
        let message = |id: u32| {
            format!(
                r#"{{"type":"assistant","message":{{"id":"msg_{id}","content":[],"usage":{{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":1000,"output_tokens":1}}}}}}"#
            )
        };
        let (one, two) = (message(1), message(2));
        let result = r#"{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.0104,"num_turns":2,"usage":{"input_tokens":20,"cache_creation_input_tokens":2000,"cache_read_input_tokens":200,"output_tokens":14}}"#;
        // The same answer comes once for each of its parts.
        assert_eq!(told("claude-code", &[&one, &one])[0], (1_110, 1, 0, 0));
        assert_eq!(
            told("claude-code", &[&one, &one, &two, result]),
            [(2_220, 14, 0, 1), (0, 0, 10_400, 0)]
        );
        let codex = r#"{"type":"turn.completed","usage":{"input_tokens":4440,"cached_input_tokens":400,"output_tokens":28,"reasoning_output_tokens":12}}"#;
        assert_eq!(told("codex", &[codex]), [(0, 0, 0, 1), (4_440, 28, 0, 0)]);
        let gemini = r#"{"type":"result","status":"success","stats":{"total_tokens":2234,"input_tokens":2220,"output_tokens":14,"cached":200,"input":2020,"duration_ms":164}}"#;
        assert_eq!(told("gemini", &[gemini]), [(2_220, 14, 0, 1), NOTHING]);
        let step = |id: &str, reason: &str| {
            format!(
                r#"{{"type":"step_finish","sessionID":"s","part":{{"id":"{id}","reason":"{reason}","tokens":{{"total":1117,"input":1010,"output":5,"reasoning":2,"cache":{{"write":0,"read":100}}}},"cost":0.00108}}}}"#
            )
        };
        let (first, last) = (step("prt_1", "tool-calls"), step("prt_2", "stop"));
        assert_eq!(
            told("opencode", &[&first, &last]),
            [(2_220, 14, 2_160, 1), NOTHING]
        );
        let qwen = |id: u32| {
            format!(
                r#"{{"type":"assistant","message":{{"id":"m{id}","content":[],"usage":{{"input_tokens":1110,"output_tokens":7,"cache_read_input_tokens":100,"total_tokens":1117}}}}}}"#
            )
        };
        let (one, two) = (qwen(1), qwen(2));
        // With what was before it was resumed.
        let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok","usage":{"input_tokens":4440,"output_tokens":28}}"#;
        assert_eq!(
            told("qwen", &[&one, &two, result]),
            [(2_220, 14, 0, 1), NOTHING]
        );
        let pi = r#"{"type":"turn_end","message":{"stopReason":"stop","usage":{"input":1010,"output":7,"cacheRead":100,"cacheWrite":0,"cost":{"total":0.5}}}}"#;
        assert_eq!(told("pi", &[pi, pi]), [(2_220, 14, 1_000_000, 2), NOTHING]);
    }

    #[test]
    fn amounts_that_are_none_count_nothing() {
        for usage in [r#"{"input_tokens":-5,"output_tokens":"7"}"#, r#"[]"#, "7"] {
            let line = format!(r#"{{"type":"turn.completed","usage":{usage}}}"#);
            assert_eq!(told("codex", &[&line])[1], NOTHING, "{usage}");
        }
        // A budget is to end an agent that says so.
        let much =
            r#"{"type":"turn.completed","usage":{"input_tokens":1e300,"output_tokens":null}}"#;
        assert_eq!(told("codex", &[much])[1], (1_000_000_000_000_000, 0, 0, 0));
    }

    #[test]
    fn many_answers_add_up_in_bounded_space() {
        let mut used = StreamUsage::new(&Preset::by_name("qwen", None).unwrap().usage);
        for number in 0..3 * ANSWERS_MAX {
            used.note(&serde_json::json!({"type": "assistant",
                "message": {"id": number.to_string(), "usage": {"input_tokens": 1}}}));
        }
        assert!(used.answers.len() <= ANSWERS_MAX);
        assert_eq!(used.totals()[0].1.input_tokens, 3 * ANSWERS_MAX as u64);
    }
}
