//! How a step begins: at once where nothing has to be waited for.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use napi_derive::napi;
use serde::Serialize;
use tokio::runtime::Handle;

/// What to do with a step.
#[napi(object)]
#[derive(Debug, Default, Serialize)]
pub struct BeganStep {
    /// 0: settled later; 1: run it; 2: it is finished; 3: find out whether it happened.
    pub state: u32,
    /// Of a finished step, as JSON.
    pub value: Option<String>,
    /// Which try this is, from 1.
    pub tries: u32,
    /// Whether an earlier try may have happened.
    pub in_doubt: bool,
}

impl BeganStep {
    pub(crate) const RUN: u32 = 1;
    const DONE: u32 = 2;
    pub(crate) const VERIFY: u32 = 3;

    pub(crate) fn done(value: String) -> Self {
        Self {
            state: Self::DONE,
            value: Some(value),
            ..Self::default()
        }
    }
}

/// The result of a future that has it without waiting; else it can be polled again elsewhere.
pub(crate) fn at_once<F: Future>(runtime: &Handle, call: Pin<&mut F>) -> Option<F::Output> {
    let _inside = runtime.enter();
    match call.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}
