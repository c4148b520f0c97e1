//! The dashboard in a real browser: the real daemon, a headless Chromium, and what a person would do.
//!
//! All tests share one browser while any of them waits for it; each has a page of its own and a daemon
//! with a home of its own. Every wait is for something that can be seen, and bounded. Pictures of all
//! pages are left in `target/browser`. Without Chromium the tests say that they are skipped.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[expect(
    dead_code,
    reason = "what commands say on standard error is not looked at here"
)]
#[path = "../relight/mod.rs"]
mod relight;

#[expect(
    dead_code,
    reason = "shared with the tests of supervision, which use more of it"
)]
#[path = "../supervision/ground.rs"]
mod ground;

mod agents;
mod axe;
mod browser;
mod deaths;
mod debugging;
mod deep_links;
mod driver;
mod fleet;
mod hostile_text;
mod house;
mod keyboard;
mod live;
mod login;
mod looks;
mod many;
mod many_tasks;
mod page;
mod store;
mod strangers;
mod work;
