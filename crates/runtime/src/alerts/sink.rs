//! Alert sinks.

use std::sync::Arc;

use relight_core::alert::{Alert, AlertKind, Subject};
use relight_core::time::Span;
use tokio::sync::oneshot;

use super::command::CommandSink;
use super::message::Message;
#[cfg(feature = "webhooks")]
use super::webhook::Webhook;
use crate::engine::Engine;
use crate::os::{clock, random};

/// A destination of alerts.
#[derive(Debug, Clone)]
pub enum Sink {
    /// A user's program.
    Command(CommandSink),
    /// An HTTP endpoint.
    #[cfg(feature = "webhooks")]
    Webhook(Webhook),
}

/// Why a delivery failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// Temporary failure; it is retried.
    #[error("{why}")]
    Later {
        /// What went wrong.
        why: String,
        /// The wait requested by the receiver.
        after: Option<Span>,
    },
    /// The receiver refused this message.
    #[error("{why}")]
    Refused {
        /// Its answer.
        why: String,
    },
    /// The receiver must not be called again.
    #[error("{why}")]
    Gone {
        /// Its answer.
        why: String,
    },
}

impl NotSent {
    pub(super) fn later(why: impl Into<String>) -> Self {
        Self::Later {
            why: why.into(),
            after: None,
        }
    }
}

impl Sink {
    /// Its configuration key; also the name of its cursor.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            #[cfg(feature = "webhooks")]
            Self::Webhook(_) => "webhook",
        }
    }

    /// Its address for display, without secrets.
    pub fn place(&self) -> String {
        match self {
            Self::Command(command) => command.program(),
            #[cfg(feature = "webhooks")]
            Self::Webhook(webhook) => webhook.place().to_owned(),
        }
    }

    /// A hash of its address, to notice a change without storing the address.
    pub(super) fn fingerprint(&self) -> String {
        let whole = match self {
            Self::Command(command) => command.in_words(),
            #[cfg(feature = "webhooks")]
            Self::Webhook(webhook) => webhook.url().to_owned(),
        };
        blake3::hash(whole.as_bytes()).to_hex()[..16].to_owned()
    }

    /// Time limit of one delivery.
    pub(super) fn timeout(&self) -> Span {
        match self {
            Self::Command(command) => command.timeout,
            #[cfg(feature = "webhooks")]
            Self::Webhook(webhook) => webhook.timeout(),
        }
    }

    /// Delivers a message; blocks.
    fn send_and_wait(&self, message: &Message, is_store_shared: bool) -> Result<(), NotSent> {
        match self {
            Self::Command(command) => command.run(message, is_store_shared),
            #[cfg(feature = "webhooks")]
            Self::Webhook(webhook) => webhook.post(message),
        }
    }
}

/// Delivers a message on a thread of its own, so that a slow receiver blocks nothing.
pub(super) async fn send(
    engine: &Engine,
    sink: &Arc<Sink>,
    message: &Message,
) -> Result<(), NotSent> {
    let (sink, message) = (Arc::clone(sink), message.clone());
    let is_store_shared = engine.store().is_shared();
    let (done, answer) = oneshot::channel();
    let named = std::thread::Builder::new().name("relight-alert".to_owned());
    let started = named.spawn(move || {
        let _ = done.send(sink.send_and_wait(&message, is_store_shared));
    });
    if let Err(error) = started {
        return Err(NotSent::later(format!("no thread can be started: {error}")));
    }
    answer
        .await
        .unwrap_or_else(|_| Err(NotSent::later("the thread that sends it ended")))
}

/// Sends a test message once, without retries.
pub async fn try_out(engine: &Engine, sink: &Sink, store_id: &str) -> Result<Message, NotSent> {
    let text = "this is a test: alerts of Relight arrive here";
    let alert = Alert::new(AlertKind::Test, Subject::Store, text);
    let message = Message::of_test(store_id, &alert, clock::now(), random::bytes());
    send(engine, &Arc::new(sink.clone()), &message)
        .await
        .map(|()| message)
}
