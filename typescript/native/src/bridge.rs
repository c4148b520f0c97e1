//! The way back into JavaScript: settled calls, and strategies that are asked.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use napi::bindgen_prelude::{FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Result, Status};
use relight_sdk::{Client, Refused, StrategyCallback};
use tokio::task::AbortHandle;

/// The arguments of the callback: the number of the call, an error as JSON, a value as JSON.
type Settled = FnArgs<(u32, Option<String>, Option<String>)>;
type SettledFn = ThreadsafeFunction<Settled, (), Settled, Status, false, true>;
/// The arguments when a strategy is asked: the number of the question, its name, the case as JSON.
type Asked = FnArgs<(u32, String, String)>;
type AskedFn = ThreadsafeFunction<Asked, (), Asked, Status, false, true>;

/// No strategy thinks longer; the limit of the store is usually shorter.
const STRATEGY_MAX: Duration = Duration::from_secs(600);

/// One client's callbacks.
pub(crate) struct Bridge {
    settled: SettledFn,
    asked: AskedFn,
    /// What can be given up.
    running: Mutex<HashMap<u32, AbortHandle>>,
    questions: Mutex<(
        u32,
        HashMap<u32, Sender<std::result::Result<String, String>>>,
    )>,
}

impl Bridge {
    pub(crate) fn new(
        settled: Function<'_, Settled, ()>,
        asked: Function<'_, Asked, ()>,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            settled: settled.build_threadsafe_function().weak::<true>().build()?,
            asked: asked.build_threadsafe_function().weak::<true>().build()?,
            running: Mutex::default(),
            questions: Mutex::default(),
        }))
    }

    /// Runs a call on the client's threads and settles it by its number.
    pub(crate) fn spawn<F>(self: &Arc<Self>, client: &Client, number: u32, call: F)
    where
        F: Future<Output = std::result::Result<Option<String>, Refused>> + Send + 'static,
    {
        let runtime = match client.runtime() {
            Ok(runtime) => runtime,
            Err(refused) => return self.settle(number, Err(refused)),
        };
        let bridge = Arc::clone(self);
        // Held until it is noted, so that it cannot end before.
        let mut running = lock(&self.running);
        let task = runtime.spawn(async move {
            let result = call.await;
            lock(&bridge.running).remove(&number);
            bridge.settle(number, result);
        });
        running.insert(number, task.abort_handle());
    }

    /// Gives up a call; it is never settled then.
    pub(crate) fn give_up(&self, number: u32) {
        if let Some(call) = lock(&self.running).remove(&number) {
            call.abort();
        }
    }

    pub(crate) fn settle(&self, number: u32, result: std::result::Result<Option<String>, Refused>) {
        let (error, value) = match result {
            Ok(value) => (None, value),
            Err(refused) => (Some(error_text(&refused)), None),
        };
        // Refused when the thread of JavaScript has ended: nobody waits any more.
        let _: Status = self.settled.call(
            (number, error, value).into(),
            ThreadsafeFunctionCallMode::NonBlocking,
        );
    }

    /// The answer of a strategy that was asked.
    pub(crate) fn answer(&self, question: u32, answer: std::result::Result<String, String>) {
        if let Some(waiting) = lock(&self.questions).1.remove(&question) {
            // Nobody waits any more for one that thought too long.
            let _ = waiting.send(answer);
        }
    }
}

pub(crate) fn error_text(refused: &Refused) -> String {
    serde_json::to_string(refused).expect("it has string keys")
}

/// A strategy that is a function of JavaScript.
pub(crate) struct Strategy {
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) name: String,
}

impl std::fmt::Debug for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Strategy").field(&self.name).finish()
    }
}

impl StrategyCallback for Strategy {
    fn decide(&self, failure: &str) -> std::result::Result<String, String> {
        let (sender, receiver) = channel();
        let question = {
            let mut questions = lock(&self.bridge.questions);
            questions.0 = questions.0.wrapping_add(1);
            let question = questions.0;
            questions.1.insert(question, sender);
            question
        };
        let given = (question, self.name.clone(), failure.to_owned());
        let mode = ThreadsafeFunctionCallMode::NonBlocking;
        if self.bridge.asked.call(given.into(), mode) != Status::Ok {
            return Err("the thread of JavaScript has ended".to_owned());
        }
        let answer = receiver.recv_timeout(STRATEGY_MAX);
        answer.unwrap_or_else(|_| Err("it did not answer".to_owned()))
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
