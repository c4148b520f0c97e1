//! `relight alerts`: what somebody was told, and whether telling works.

use relight_runtime::alerts::{
    self, AlertRecord, Delivery, SinkOverview, deliver_now, overview, try_out,
};
use relight_runtime::engine::Engine;
use serde_json::{Value, json};

use super::{alerting, configured, supervision};
use crate::arguments::alerts::{AlertListArguments, AlertsCommand, SinksArguments};
use crate::block_on_with;
use crate::config::Config;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

pub(crate) fn run(environment: &Environment, command: &AlertsCommand) -> Outcome {
    match command {
        AlertsCommand::List(arguments) => list(environment, arguments),
        AlertsCommand::Test(arguments) => test(environment, arguments),
        AlertsCommand::Send(arguments) => send(environment, arguments),
        AlertsCommand::Secret(arguments) => secret(environment, arguments),
    }
}

fn list(environment: &Environment, arguments: &AlertListArguments) -> Outcome {
    let engine = environment.engine()?;
    let mut found = crate::block_on(overview(engine.store().as_ref(), arguments.newest))?;
    if arguments.pending {
        found.alerts.retain(|told| !told.pending.is_empty());
    }
    let mut lines: Vec<String> = found.alerts.iter().map(line).collect();
    lines.extend(found.sinks.iter().filter_map(trouble));
    let text = match lines.is_empty() {
        true => "no alerts".to_owned(),
        false => lines.join("\n"),
    };
    let alerts: Vec<Value> = found.alerts.iter().map(told_json).collect();
    let sinks: Vec<Value> = found.sinks.iter().map(sink_json).collect();
    output::answer(
        environment,
        &json!({"items": alerts, "next": null, "sinks": sinks}),
        &text,
    );
    Ok(0)
}

fn line(told: &AlertRecord) -> String {
    let (at, event, alert) = (told.at, told.event, &told.alert);
    let who = match (told.told.as_slice(), told.pending.as_slice()) {
        ([], []) => "not sent".to_owned(),
        (told, []) => format!("delivered {}", told.join(" ")),
        (_, pending) => format!("pending {}", pending.join(" ")),
    };
    output::one_line(&format!(
        "{at} {event} {} {} [{who}] {}",
        alert.kind, alert.subject, alert.text
    ))
}

/// What is wrong with a sink, if anything.
fn trouble(sink: &SinkOverview) -> Option<String> {
    let name = sink.name;
    if sink.is_gone {
        return Some(format!(
            "{name}: it answered that it is gone; it is called again when it changes"
        ));
    }
    let why = sink.why.as_deref()?;
    let next = sink
        .next_at
        .map(|at| format!(", the next one at {at}"))
        .unwrap_or_default();
    Some(output::one_line(&format!(
        "{name}: {} tries{next}: {why}",
        sink.tries
    )))
}

fn told_json(told: &AlertRecord) -> Value {
    let mut value = told.alert.detail();
    value["event"] = json!(told.event);
    value["at"] = json!(told.at);
    value["told"] = json!(told.told);
    value["pending"] = json!(told.pending);
    value
}

fn sink_json(sink: &SinkOverview) -> Value {
    json!({
        "sink": sink.name, "gone": sink.is_gone, "tries": sink.tries, "next_at": sink.next_at,
        "error": sink.why,
    })
}

/// A sink that can be tried is one that is told from now on.
fn test(environment: &Environment, arguments: &SinksArguments) -> Outcome {
    let place = AlertContext::find(environment, arguments)?;
    block_on_with(&supervision::runtime()?, async {
        alerts::register(&place.engine, &place.sinks).await?;
        let store_id = alerts::store_id(&place.engine).await?;
        let (mut values, mut lines, mut all_told) = (Vec::new(), Vec::new(), true);
        for sink in &place.sinks {
            let (name, where_to) = (sink.name(), sink.place());
            let tried = try_out(&place.engine, sink, &store_id).await;
            all_told &= tried.is_ok();
            let (id, error) = match tried {
                Ok(message) => (Some(message.id), None),
                Err(error) => (None, Some(error.to_string())),
            };
            lines.push(match &error {
                None => format!("{name} {where_to}: delivered"),
                Some(error) => format!("{name} {where_to}: not delivered: {error}"),
            });
            values.push(json!({
                "sink": name, "place": where_to, "ok": error.is_none(), "id": id, "error": error,
            }));
        }
        output::answer(environment, &json!({"sinks": values}), &lines.join("\n"));
        Ok(if all_told { 0 } else { Exit::No as u8 })
    })
}

fn send(environment: &Environment, arguments: &SinksArguments) -> Outcome {
    let AlertContext {
        engine,
        sinks,
        config,
    } = AlertContext::find(environment, arguments)?;
    let sending = deliver_now(&engine, sinks, config.alert.pace);
    let deliveries = block_on_with(&supervision::runtime()?, sending)?;
    let value = |one: &Delivery| json!({"sink": one.sink, "sent": one.sent, "error": one.failed, "busy": one.is_busy});
    let line = |one: &Delivery| match (&one.failed, one.is_busy) {
        (Some(error), _) => format!("{}: {} sent, then: {error}", one.sink, one.sent),
        (None, true) => format!("{}: another process is telling it just now", one.sink),
        (None, false) => format!("{}: {} sent", one.sink, one.sent),
    };
    let values: Vec<Value> = deliveries.iter().map(value).collect();
    let lines: Vec<String> = deliveries.iter().map(line).collect();
    output::answer(environment, &json!({"sinks": values}), &lines.join("\n"));
    if deliveries.iter().any(|one| one.failed.is_some()) {
        return Ok(Exit::No as u8);
    }
    let is_busy = deliveries.iter().any(|one| one.is_busy);
    Ok(if is_busy { Exit::Busy as u8 } else { 0 })
}

fn secret(environment: &Environment, arguments: &SinksArguments) -> Outcome {
    let config = configured::load_alerts(environment, arguments.config.as_deref())?;
    let environment = environment.with_store(config.store_url.clone());
    let engine = environment.engine()?;
    let home = environment.store_folder(&engine)?;
    let text = alerting::secret_text(&environment, &config.alert, &home)?;
    let text = text.trim();
    output::answer(&environment, &json!({"secret": text}), text);
    Ok(0)
}

/// Where alerts come from and go to.
struct AlertContext {
    engine: Engine,
    sinks: Vec<alerts::Sink>,
    config: Config,
}

impl AlertContext {
    fn find(environment: &Environment, arguments: &SinksArguments) -> Result<Self, Failure> {
        let config = configured::load_alerts(environment, arguments.config.as_deref())?;
        let environment = environment.with_store(config.store_url.clone());
        let engine = environment.long_engine()?;
        let home = environment.store_folder(&engine)?;
        let sinks = alerting::sinks(&environment, &config, &home)?;
        if sinks.is_empty() {
            return Err(
                Failure::new(Exit::Config, "nobody is to be told: [alert] is empty").hint(
                    "write command = […] or webhook = \"https://…\" below [alert] in relight.toml",
                ),
            );
        }
        Ok(Self {
            engine,
            sinks,
            config,
        })
    }
}
