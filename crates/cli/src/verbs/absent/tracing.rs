//! In place of `verbs::tracing` in a build without the feature `otlp`.

use std::time::Duration;

use relight_runtime::engine::Engine;

use crate::config::Config;
use crate::environment::Environment;
use crate::exit::Failure;

pub(super) use self::NoTelemetry as Telemetry;

/// There are none.
#[derive(Debug)]
pub(super) enum NoTelemetry {}

impl NoTelemetry {
    pub(super) async fn finish(self, _: Duration) {
        match self {}
    }
}

/// Refuses a configuration that wants traces. The variables of OpenTelemetry are meant for every program.
pub(super) fn start(
    _: &Environment,
    _: &Engine,
    config: &Config,
) -> Result<Option<NoTelemetry>, Failure> {
    match config.otlp {
        Some(_) => Err(Failure::not_built(
            "traces, which [telemetry] otlp asks for",
            "otlp",
        )),
        None => Ok(None),
    }
}
