//! A model that says what its script says, in the dialect that it is asked in: Anthropic Messages, OpenAI
//! Responses and Chat Completions, Gemini. For real agent programs in tests, over loopback only.
//!
//! `script` is what is answered, `dialect` how it is written, `serve` the connections.

mod dialect;
mod script;
mod serve;

pub use script::{Answer, Script};
pub use serve::StubModel;
