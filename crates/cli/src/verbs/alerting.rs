//! The sinks of the configuration, and what tells them while a supervisor runs.

use std::path::Path;
use std::time::Duration;

#[cfg(feature = "webhooks")]
use relight_core::error_code::with_causes;
use relight_runtime::alerts::Webhook;
use relight_runtime::alerts::stale::StaleWatch;
use relight_runtime::alerts::{AlertDelivery, CommandSink, Sink, secret};
use relight_runtime::engine::Engine;
use relight_runtime::os::word::Word;
use tokio::task::JoinSet;

use crate::config::{AlertConfig, Config};
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::output;

/// How long the end of a supervisor waits for what is being told.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What tells somebody while a supervisor runs.
#[derive(Debug, Default)]
pub(super) struct Alerting {
    delivery: Option<AlertDelivery>,
    watches: JoinSet<()>,
}

impl Alerting {
    /// Begins to tell what happens from now on. Before anything is started: its first alert counts.
    pub(super) async fn start(
        environment: &Environment,
        engine: &Engine,
        config: &Config,
        home: &Path,
    ) -> Result<Self, Failure> {
        let sinks = sinks(environment, config, home)?;
        let mut watches = JoinSet::new();
        if let Some(stale) = config.alert.stale {
            watches.spawn(StaleWatch::new(engine.clone(), stale).serve());
        }
        let environment = environment.clone();
        let say = move |text: &str| output::note(&environment, text);
        let delivery = AlertDelivery::start(engine, sinks, config.alert.pace, say).await?;
        Ok(Self {
            delivery: Some(delivery),
            watches,
        })
    }

    /// Tells what is left, for a moment; the rest is told by whoever comes next.
    pub(super) async fn finish(mut self) {
        self.watches.abort_all();
        if let Some(delivery) = self.delivery.take() {
            delivery.finish(LAST_WORDS).await;
        }
    }
}

/// The sinks of the configuration; `home` is where the store is.
pub(super) fn sinks(
    environment: &Environment,
    config: &Config,
    home: &Path,
) -> Result<Vec<Sink>, Failure> {
    let alert = &config.alert;
    let mut sinks = Vec::new();
    if !alert.command.is_empty() {
        sinks.push(Sink::Command(CommandSink {
            command: alert.command.iter().cloned().map(Word::from).collect(),
            folder: config.folder.clone(),
            timeout: alert.timeout,
        }));
    }
    if let Some(url) = &alert.webhook {
        let keys = secret::parse(&secret_text(environment, alert, home)?).map_err(bad_secret)?;
        sinks.push(webhook(url, keys, alert)?);
    }
    Ok(sinks)
}

#[cfg(feature = "webhooks")]
fn webhook(url: &str, keys: Vec<secret::SigningKey>, alert: &AlertConfig) -> Result<Sink, Failure> {
    let webhook = Webhook::new(url, keys, alert.timeout, alert.plain_http);
    webhook
        .map(Sink::Webhook)
        .map_err(|error| Failure::new(Exit::Config, format!("the webhook cannot be used: {error}")))
}

#[cfg(not(feature = "webhooks"))]
fn webhook(_: &str, _: Vec<secret::SigningKey>, _: &AlertConfig) -> Result<Sink, Failure> {
    Err(Failure::not_built("webhooks", "webhooks"))
}

/// What webhooks are signed with; made when nobody gave any.
pub(super) fn secret_text(
    environment: &Environment,
    alert: &AlertConfig,
    home: &Path,
) -> Result<String, Failure> {
    if let Some(text) = environment.get(secret::VARIABLE) {
        return Ok(text.to_owned());
    }
    match &alert.secret_file {
        Some(file) => secret::read(file),
        None => secret::read_or_make(home),
    }
    .map_err(bad_secret)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn bad_secret(error: secret::SecretError) -> Failure {
    let hint = match &error {
        secret::SecretError::Open { file, .. } => format!("chmod 600 {}", file.display()),
        secret::SecretError::File { .. } => {
            "mend `secret_file` in relight.toml; without it a secret is made".to_owned()
        }
        secret::SecretError::Empty
        | secret::SecretError::Short
        | secret::SecretError::NotBase64 => {
            "relight alerts secret prints one that was made, when none is given".to_owned()
        }
    };
    Failure::new(
        Exit::Config,
        format!("webhooks cannot be signed: {}", with_causes(&error)),
    )
    .hint(hint)
}
