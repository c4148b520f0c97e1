//! Brings AI agents back after any crash: the library.

pub mod checkpoint_files;
pub mod doors;
pub mod engine;
pub mod funnel;
pub mod store_url;
