//! What is redacted and what stays.

mod contexts;
mod json;
mod known;
mod properties;
mod recall;
mod stream;
mod text;
