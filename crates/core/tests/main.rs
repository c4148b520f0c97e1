//! The rules, each by itself.

mod boots;
mod budget;
mod checkpoint;
mod checkpoint_properties;
mod redact;
mod redact_json;
mod redact_known;
mod redact_properties;
mod redact_recall;
mod redact_stream;
mod silence;
