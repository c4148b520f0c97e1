//! Who is told: one way to reach somebody.

use std::sync::Arc;

use relight_core::alert::{Alert, AlertKind, Subject};
use relight_core::time::Span;
use tokio::sync::oneshot;

use super::command::CommandSink;
use super::message::Message;
#[cfg(feature = "webhooks")]
use super::webhook::Webhook;
use crate::os::{clock, random};

/// One way to tell somebody.
#[derive(Debug, Clone)]
pub enum Sink {
    /// A program of the user's.
    Command(CommandSink),
    /// An HTTP endpoint.
    #[cfg(feature = "webhooks")]
    Webhook(Webhook),
}

/// Why somebody was not told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// Nobody could be reached; the next try may.
    #[error("{why}")]
    Later {
        /// What went wrong.
        why: String,
        /// When the other side wants the next try.
        after: Option<Span>,
    },
    /// The other side says no to this message.
    #[error("{why}")]
    Refused {
        /// What it said.
        why: String,
    },
    /// The other side is never to be called again.
    #[error("{why}")]
    Gone {
        /// What it said.
        why: String,
    },
}

impl NotSent {
    pub(super) fn later(why: impl Into<String>) -> Self {
        Self::Later { why: why.into(), after: None }
    }
}

impl Sink {
    /// The key of the configuration that names it; also its cursor's name in the store.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            #[cfg(feature = "webhooks")]
            Self::Webhook(_) => "webhook",
        }
    }

    /// Where it leads, for people: without anything secret.
    pub fn place(&self) -> String {
        match self {
            Self::Command(command) => command.program(),
            #[cfg(feature = "webhooks")]
            Self::Webhook(webhook) => webhook.place().to_owned(),
        }
    }

    /// Tells whether it still leads to the same place, without saying where.
    pub(super) fn fingerprint(&self) -> String {
        let whole = match self {
            Self::Command(command) => command.in_words(),
            #[cfg(feature = "webhooks")]
            Self::Webhook(webhook) => webhook.url().to_owned(),
        };
        blake3::hash(whole.as_bytes()).to_hex()[..16].to_owned()
    }

    /// How long one message may take.
    pub(super) fn timeout(&self) -> Span {
        match self {
            Self::Command(command) => command.timeout,
            #[cfg(feature = "webhooks")]
            Self::Webhook(webhook) => webhook.timeout(),
        }
    }

    /// Tells it; waits for that, by the calling thread.
    fn send_and_wait(&self, message: &Message) -> Result<(), NotSent> {
        match self {
            Self::Command(command) => command.run(message),
            #[cfg(feature = "webhooks")]
            Self::Webhook(webhook) => webhook.post(message),
        }
    }
}

/// Tells it by a thread of its own: whoever is slow there holds up nobody here.
pub(super) async fn send(sink: &Arc<Sink>, message: &Message) -> Result<(), NotSent> {
    let (sink, message) = (Arc::clone(sink), message.clone());
    let (done, answer) = oneshot::channel();
    let named = std::thread::Builder::new().name("relight-alert".to_owned());
    let started = named.spawn(move || {
        let _ = done.send(sink.send_and_wait(&message));
    });
    if let Err(error) = started {
        return Err(NotSent::later(format!("no thread can be started: {error}")));
    }
    answer.await.unwrap_or_else(|_| Err(NotSent::later("the thread that sends it ended")))
}

/// Sends a message that says it is a test, at once and once.
pub async fn try_out(sink: &Sink, store_id: &str) -> Result<Message, NotSent> {
    let text = "this is a test: alerts of Relight arrive here";
    let alert = Alert::new(AlertKind::Test, Subject::Store, text);
    let message = Message::of_test(store_id, &alert, clock::now(), random::bytes());
    send(&Arc::new(sink.clone()), &message).await.map(|()| message)
}
