//! What the model answers, request after request; the last answer is given for ever.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::mind::{Asked, Mind};

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// `say:TEXT`: the turn is over.
    Say(String),
    /// `call:TOOL:{…}`: it wants a tool run.
    Call(String, Value),
    /// `status:429:600:TEXT`: an error of HTTP, with `Retry-After` where that is not empty.
    Status(u16, Option<u64>, String),
    /// `wait:SECONDS`: nothing comes for so long, then the connection is closed.
    Wait(Duration),
}

impl Answer {
    fn parse(word: &str) -> anyhow::Result<Self> {
        let (kind, rest) = word.split_once(':').unwrap_or((word, ""));
        Ok(match kind {
            "say" => Self::Say(rest.to_owned()),
            "call" => {
                let (tool, arguments) = rest.split_once(':').context("call:TOOL:{…}")?;
                Self::Call(tool.to_owned(), serde_json::from_str(arguments)?)
            }
            "status" => {
                let mut parts = rest.splitn(3, ':');
                let status = parts.next().unwrap_or_default().parse()?;
                let retry_after = parts.next().unwrap_or_default().parse().ok();
                Self::Status(
                    status,
                    retry_after,
                    parts.next().unwrap_or("refused").to_owned(),
                )
            }
            "wait" => Self::Wait(Duration::from_secs(rest.parse()?)),
            _ => bail!("{word:?} is not an answer: say, call, status or wait"),
        })
    }
}

/// The answers that are left.
#[derive(Debug)]
pub struct Script(Mutex<VecDeque<Answer>>);

impl Script {
    /// By the words of a command line.
    pub fn parse(words: &[String]) -> anyhow::Result<Self> {
        let answers = words
            .iter()
            .map(|word| Answer::parse(word))
            .collect::<Result<_, _>>()?;
        Ok(Self(Mutex::new(answers)))
    }
}

impl Mind for Script {
    /// The next answer. A request without tools is a side question (a title, a summary): it does not
    /// use up an answer, and is only told of errors.
    fn answer(&self, asked: &Asked) -> Answer {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = left
            .front()
            .cloned()
            .unwrap_or(Answer::Say("ok".to_owned()));
        match (&next, asked.tools.is_empty()) {
            (Answer::Status(..), true) => next,
            (_, true) => Answer::Say("ok".to_owned()),
            (_, false) => {
                if left.len() > 1 {
                    left.pop_front();
                }
                next
            }
        }
    }
}
