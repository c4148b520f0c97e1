//! `[alert]`: who is told, and how.

use std::path::{Path, PathBuf};

use relight_core::time::Span;
use relight_runtime::alerts::AlertTiming;
#[cfg(feature = "webhooks")]
use relight_runtime::alerts::{BadWebhook, Webhook};

use super::section::Section;

/// How long a message may take that has no limit: less than the longest claim to deliver it.
const SEND_FOR_EVER: Span = Span::from_secs(6 * 24 * 60 * 60);

/// `[alert]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AlertConfig {
    /// Gets the alert on standard input; nothing is run when empty.
    pub(crate) command: Vec<String>,
    /// Where it is posted.
    pub(crate) webhook: Option<String>,
    /// What it is signed with; none leaves it to the environment.
    pub(crate) secret_file: Option<PathBuf>,
    /// Whether `http://` to other machines is taken.
    pub(crate) plain_http: bool,
    /// How long one message may take.
    pub(crate) timeout: Span,
    /// How alerts are spread over time.
    pub(crate) pace: AlertTiming,
    /// How long unfinished work may lie; none when that is no alert.
    pub(crate) stale: Option<Span>,
}

impl AlertConfig {
    /// The same for whoever does not look for stale work.
    pub(crate) fn without_stale(self) -> Self {
        Self {
            stale: None,
            ..self
        }
    }

    pub(super) fn read(section: &Section<'_>, folder: &Path) -> Self {
        let plain_http = section.flag("plain_http");
        Self {
            command: section.words("command").unwrap_or_default(),
            webhook: section.optional("webhook", |text| checked(text, plain_http)),
            secret_file: section.optional("secret_file", |file| Ok(folder.join(file))),
            plain_http,
            timeout: section.span("timeout").as_limit().unwrap_or(SEND_FOR_EVER),
            pace: AlertTiming {
                group: section.span("group"),
                retry: section.span("retry"),
                give_up: section.span("give_up"),
            },
            stale: section.span("stale").as_limit(),
        }
    }
}

#[cfg(feature = "webhooks")]
fn checked(url: &str, plain_http: bool) -> Result<String, String> {
    match Webhook::new(url, Vec::new(), Span::ZERO, plain_http) {
        Ok(_) => Ok(url.to_owned()),
        Err(BadWebhook::NotAUrl) => Err("write https://…".to_owned()),
        Err(error @ BadWebhook::Plain { .. }) => {
            Err(format!("{error}: write https://…, or plain_http = true"))
        }
    }
}

/// A build without webhooks says so where one would be used.
#[cfg(not(feature = "webhooks"))]
fn checked(url: &str, _: bool) -> Result<String, String> {
    Ok(url.to_owned())
}
