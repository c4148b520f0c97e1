//! A model that says what its script says, in the dialect that it is asked in: Anthropic Messages, OpenAI
//! Responses and Chat Completions, Gemini. For real agent programs in tests, over loopback only.
//!
//! `mind` decides what is answered, `script` is one that was written beforehand, `dialect` is how an answer
//! is written, `serve` the connections.

mod dialect;
mod mind;
mod script;
mod serve;

pub use mind::{Asked, Mind, Point};
pub use script::{Answer, Script};
pub use serve::StubModel;
