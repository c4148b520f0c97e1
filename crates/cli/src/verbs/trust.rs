//! `relight trust`: approve what a `relight.toml` of a working folder may decide.

use relight_core::error_code::ErrorCode;
use std::path::Path;

use relight_runtime::store_url::StoreUrl;
use serde_json::{Value, json};

use crate::arguments::other::TrustArguments;
use crate::config::{Config, FILE_NAME, Source};
use crate::environment::Environment;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::trust::{self, Approval};

pub(crate) fn run(environment: &Environment, arguments: &TrustArguments) -> Outcome {
    let home = environment.trust_home()?;
    if arguments.list {
        return list(environment, &home);
    }
    let nearest = || {
        environment
            .config_file(None)
            .filter(|file| file.is_found_here)
    };
    let file = match &arguments.path {
        Some(path) if path.is_dir() => path.join(FILE_NAME),
        Some(path) => path.to_owned(),
        None => nearest().map_or_else(|| FILE_NAME.into(), |found| found.file),
    };
    if arguments.remove {
        return remove(environment, &home, &file);
    }
    let source = Source {
        file: std::path::absolute(&file).unwrap_or(file),
        is_found_here: true,
    };
    let config = Config::load(&source, environment.presets_folder().as_deref())?;
    let origin = config
        .origin
        .as_ref()
        .expect("a file that was loaded has an origin");
    let Approval { path, hash, .. } = trust::approve(&home, origin)?;
    let keys = trust::keys(&config);
    let mut text = format!("approved {path}");
    for key in &keys {
        text += &format!("\n  {key} = {}", shown(&config, key));
    }
    if keys.is_empty() {
        text += "\n  nothing in it needs approval";
    }
    output::answer(
        environment,
        &json!({"path": path, "hash": hash, "keys": keys}),
        &text,
    );
    Ok(0)
}

/// What a person approves, without secrets: a webhook's path may be one.
fn shown(config: &Config, key: &str) -> String {
    match key {
        trust::EXEC => format!("{:?}", config.recovery.exec),
        trust::ALERT_COMMAND => format!("{:?}", config.alert.command),
        trust::ALERT_WEBHOOK => {
            let url = config.alert.webhook.as_deref().unwrap_or_default();
            url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/") + "/…"
        }
        trust::HOOKS => format!("ignored {:?}, …", config.hooks.ignored),
        _ => {
            match StoreUrl::parse(
                config.store_url.as_deref().unwrap_or_default(),
                Path::new(""),
            ) {
                Ok(StoreUrl::Sqlite(path)) => format!("sqlite:{}", path.display()),
                Ok(StoreUrl::Postgres(url)) => url.to_string(),
                Ok(StoreUrl::Memory) => "memory:".to_owned(),
                Err(error) => error.to_string(),
            }
        }
    }
}

fn remove(environment: &Environment, home: &Path, file: &Path) -> Outcome {
    let path = file.display().to_string();
    if !trust::remove(home, file)? {
        let text = format!("{path} is not approved");
        return Err(
            Failure::of(ErrorCode::NOT_FOUND, text).hint("relight trust --list shows what is")
        );
    }
    let text = format!("{path} is not approved any more");
    output::answer(environment, &json!({"path": path, "removed": true}), &text);
    Ok(0)
}

fn list(environment: &Environment, home: &Path) -> Outcome {
    let all = trust::all(home)?;
    let mut rows = vec![["file", "now", "approved"].map(str::to_owned).to_vec()];
    let mut items: Vec<Value> = Vec::new();
    for approval in &all {
        let now = state(approval);
        let Approval {
            path,
            hash,
            approved_at,
        } = approval;
        items.push(json!({"path": path, "hash": hash, "approved_at": approved_at, "now": now}));
        rows.push(vec![path.clone(), now.to_owned(), approved_at.to_string()]);
    }
    let text = match all.is_empty() {
        true => {
            "nothing is approved; relight trust approves the relight.toml of this folder".into()
        }
        false => output::table(&rows),
    };
    output::list(environment, items, &text);
    Ok(0)
}

/// Whether the file still has the content that was approved.
fn state(approval: &Approval) -> &'static str {
    match Source::named(&approval.path).read() {
        Ok(content) if content.origin().hash == approval.hash => "approved",
        Ok(_) => "changed",
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "missing",
        Err(_) => "unreadable",
    }
}
