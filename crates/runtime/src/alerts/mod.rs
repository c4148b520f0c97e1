//! Tells somebody who is away: by a command, by a webhook.
//!
//! The journal is the outbox: an alert is an event, written in the commit of what it tells of (see
//! `core::alert`). Each *sink* has a cursor in the store, which moves only after it was told. So a
//! kill at any line tells the same thing again under the same id, and nothing is left untold. Beside
//! supervision, never in its way.

mod backoff;
mod command;
mod cursor;
mod dedup;
mod delivery;
mod group;
mod message;
mod overview;
pub mod secret;
#[cfg(feature = "webhooks")]
mod signature;
mod sink;
pub mod stale;
#[cfg(feature = "webhooks")]
mod webhook;

pub use backoff::AlertTiming;
pub use command::CommandSink;
pub use delivery::{Courier, Delivery, deliver_now, register, store_id};
pub use message::Message;
pub use overview::{AlertRecord, Overview, SinkOverview, overview};
pub use sink::{NotSent, Sink, try_out};
#[cfg(feature = "webhooks")]
pub use webhook::{BadWebhook, Webhook};
