//! Sends alerts by a command or a webhook.
//!
//! The journal is the outbox: an alert is an event, written in the same commit as its cause (see
//! `core::alert`). Each *sink* has a cursor in the store, which advances only after delivery. After
//! a crash the same message is sent again under the same id, and none is lost. Delivery never
//! blocks supervision.

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
pub use delivery::{AlertDelivery, Delivery, deliver_now, register, store_id};
pub use message::Message;
pub use overview::{AlertRecord, Overview, SinkOverview, overview};
pub use sink::{NotSent, Sink, try_out};
#[cfg(feature = "webhooks")]
pub use webhook::{BadWebhook, Webhook};
