//! Where traces go: the configuration, else what programs that are traced read from the environment.

use relight_runtime::engine::Engine;
pub(super) use relight_runtime::telemetry::Telemetry;
use relight_runtime::telemetry::{BadCollector, Collector};

use crate::config::Config;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::output;

/// Begins to send them; nothing where nobody collects any.
pub(super) fn start(
    environment: &Environment,
    engine: &Engine,
    config: &Config,
) -> Result<Option<Telemetry>, Failure> {
    let found = collector(environment, config).map_err(|error| {
        Failure::new(Exit::Config, format!("traces cannot be sent: {error}"))
            .hint("mend [telemetry] otlp in relight.toml, or OTEL_EXPORTER_OTLP_ENDPOINT")
    })?;
    let environment = environment.clone();
    Ok(found.map(|collector| {
        let say = move |text: &str| output::note(&environment, text);
        Telemetry::start(engine.clone(), collector, say)
    }))
}

fn collector(
    environment: &Environment,
    config: &Config,
) -> Result<Option<Collector>, BadCollector> {
    let is_disabled = environment
        .get("OTEL_SDK_DISABLED")
        .is_some_and(|word| word == "true");
    if is_disabled {
        return Ok(None);
    }
    let service = environment.get("OTEL_SERVICE_NAME").unwrap_or("relight");
    let whole = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    let base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT");
    let collector = match (&config.otlp, whole, base) {
        (Some(base), ..) => Collector::at_base(base, service)?,
        (None, None, Some(base)) => Collector::at_base(base, service)?,
        (None, Some(whole), _) => Collector::at(whole, service)?,
        (None, None, None) => return Ok(None),
    };
    let headers = environment
        .get("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
        .or_else(|| environment.get("OTEL_EXPORTER_OTLP_HEADERS"));
    collector
        .with_headers(headers.unwrap_or_default())
        .map(Some)
}
