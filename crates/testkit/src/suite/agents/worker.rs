//! The mind of the stub model: works through a list of acts and believes what it is told, nothing else.
//!
//! An act that has a result in the conversation is done. One that is named in doubt, or that was called
//! without a result, is checked first. Any other act is begun: if the conversation was lost and nobody names
//! the act, it happens twice, and the trial fails.

use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::client::Client;
use crate::model::{Answer, Asked, Mind, Point};

/// What the model wants to be known by.
pub(super) const FINAL: &str = "all-acts-are-done";

/// Where an answer is held until it is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) answer: Which,
    pub(super) point: Point,
}

/// Which answer of the main conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Number(usize),
    Final,
}

/// What errors are answered, from which request on, and how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusals {
    pub(super) from: usize,
    pub(super) count: usize,
    pub(super) status: u16,
}

/// The model of one trial.
pub(super) struct Worker {
    pub(super) client: Client,
    pub(super) acts: usize,
    /// What each act prints, which nothing else says.
    pub(super) secrets: Vec<String>,
    pub(super) hold: Option<Hold>,
    pub(super) refusals: Option<Refusals>,
    /// Told once when the answer is held or, at its end, sent.
    pub(super) reached: Mutex<Sender<super::trial::Happening>>,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    /// The requests of the main conversation.
    asked: Vec<Asked>,
    is_spent: bool,
    is_released: bool,
}

impl Worker {
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.lock().asked.clone()
    }

    /// Lets a held answer go on, and holds none any more.
    pub(super) fn release(&self) {
        let mut state = self.lock();
        (state.is_spent, state.is_released) = (true, true);
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_main(&self, asked: &Asked) -> bool {
        self.client
            .tools()
            .iter()
            .all(|tool| asked.tools.iter().any(|name| name == tool))
    }

    fn next(&self, asked: &Asked) -> Answer {
        let [shell, _] = self.client.tools();
        let call = |words: String| Answer::Call(shell.to_owned(), self.client.shell(&words));
        for act in 1..=self.acts {
            match knowledge(asked, act, &self.secrets[act - 1]) {
                Knowledge::Done => {}
                Knowledge::Doubt => return call(format!("./act check {act}")),
                Knowledge::ToDo => return call(format!("./act do {act}")),
            }
        }
        Answer::Say(FINAL.to_owned())
    }
}

impl Mind for Worker {
    fn answer(&self, asked: &Asked) -> Answer {
        if !self.is_main(asked) {
            return Answer::Say("ok".to_owned());
        }
        let number = {
            let mut state = self.lock();
            state.asked.push(asked.clone());
            state.asked.len() - 1
        };
        match self.refusals {
            Some(Refusals {
                from,
                count,
                status,
            }) if (from..from + count).contains(&number) => {
                let (wait, text) = match status {
                    429 => (Some(3), "Rate limit reached, too many requests"),
                    _ => (None, "incorrect API key"),
                };
                Answer::Status(status, wait, text.to_owned())
            }
            _ => self.next(asked),
        }
    }

    fn reached(&self, asked: &Asked, answer: &Answer, point: Point) {
        let Some(hold) = self
            .hold
            .filter(|hold| hold.point == point && self.is_main(asked))
        else {
            return;
        };
        let mut state = self.lock();
        let number = state
            .asked
            .iter()
            .position(|known| known.number == asked.number);
        let is_it = match hold.answer {
            Which::Number(wanted) => number == Some(wanted),
            Which::Final => matches!(answer, Answer::Say(_)),
        };
        if !is_it || std::mem::replace(&mut state.is_spent, true) {
            return;
        }
        let to = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody listens when the trial is over.
        let _ = to.send(super::trial::Happening::Moment);
        drop(to);
        if point != Point::Whole {
            let released = self.changed.wait_while(state, |state| !state.is_released);
            drop(released.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

enum Knowledge {
    Done,
    Doubt,
    ToDo,
}

fn knowledge(asked: &Asked, act: usize, secret: &str) -> Knowledge {
    let texts = || asked.texts.iter().enumerate();
    let last = |is_it: &dyn Fn(&str) -> bool| {
        texts()
            .filter(|(_, text)| is_it(text))
            .map(|(at, _)| at)
            .last()
    };
    // Quoted output in a brief is not a result.
    let done = last(&|text| text.contains(secret) && !is_brief(text));
    if done.is_some() {
        return Knowledge::Done;
    }
    let checked = last(&|text| text.contains(&format!("check-{act}-")) && !is_brief(text));
    let told = last(&|text| is_named_in_doubt(text, act));
    let called = last(&|text| text.contains(&format!("./act do {act}")) && !is_brief(text));
    let doubt = told.max(called);
    match (doubt, checked) {
        (None, _) => Knowledge::ToDo,
        (Some(doubt), Some(checked)) if checked > doubt => {
            let says_yes = asked.texts[checked].contains(&format!("check-{act}-yes"));
            if says_yes {
                Knowledge::Done
            } else {
                Knowledge::ToDo
            }
        }
        (Some(_), _) => Knowledge::Doubt,
    }
}

/// Whether a text was written by Relight.
pub(super) fn is_brief(text: &str) -> bool {
    text.contains("Brief for attempt") || text.contains("Relight: ")
}

/// Whether it says that the outcome of an act is unknown.
pub(super) fn is_named_in_doubt(text: &str, act: usize) -> bool {
    let call = format!("./act do {act}");
    text.lines()
        .any(|line| line.contains(&call) && line.contains("outcome is unknown"))
}
