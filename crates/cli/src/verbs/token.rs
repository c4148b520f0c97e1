//! `relight token`: who may use the API. Needs no daemon; a live one sees each change at once.

use relight_core::error_code::{ErrorCode, with_causes};
use relight_core::limits;
use std::path::PathBuf;

use relight_server::Scope;
use relight_server::tokens::{self, TokenError, TokenRecord};
use serde_json::{Value, json};

use crate::arguments::agent::{NewTokenArguments, RevokeArguments, TokenCommand};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome, cannot_use};
use crate::output;

pub(crate) fn run(environment: &Environment, command: &TokenCommand) -> Outcome {
    let home = home(environment)?;
    match command {
        TokenCommand::Show => {
            let token = tokens::show(&home)?;
            output::answer(
                environment,
                &json!({"token": token, "scope": Scope::Admin}),
                &token,
            );
        }
        TokenCommand::Rotate => {
            let token = tokens::rotate(&home)?;
            output::answer(
                environment,
                &json!({"token": token, "scope": Scope::Admin}),
                &token,
            );
        }
        TokenCommand::New(arguments) => make(environment, &home, arguments)?,
        TokenCommand::List => list(environment, &tokens::list(&home)?),
        TokenCommand::Revoke(arguments) => revoke(environment, &home, arguments)?,
    }
    Ok(0)
}

/// The folder of the state, made when it is not there.
fn home(environment: &Environment) -> Result<PathBuf, Failure> {
    use std::os::unix::fs::DirBuilderExt as _;
    let home = environment.state_folder()?;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&home);
    made.map_err(|error| cannot_use(&home, &error))?;
    Ok(home)
}

fn make(
    environment: &Environment,
    home: &std::path::Path,
    arguments: &NewTokenArguments,
) -> Result<(), Failure> {
    if let Some(name) = &arguments.name {
        limits::TOKEN_NAME.check(name.len())?;
        environment.check_name("token name", name)?;
    }
    let scope = if arguments.operate {
        Scope::Operate
    } else {
        Scope::Read
    };
    let (record, secret) = tokens::new(home, arguments.name.as_deref(), scope)?;
    let mut value = record_json(&record);
    value["token"] = json!(secret);
    output::answer(environment, &value, &secret);
    output::note(
        environment,
        &format!("its id is {}; it is shown this once", record.id),
    );
    Ok(())
}

fn list(environment: &Environment, records: &[TokenRecord]) {
    let values: Vec<Value> = records.iter().map(record_json).collect();
    let mut rows = vec![
        ["id", "scope", "name", "created"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for record in records {
        let name = record.name.clone().unwrap_or_default();
        let created = record.created_at.to_string();
        rows.push(vec![
            record.id.clone(),
            record.scope.to_string(),
            output::one_line(&name),
            created,
        ]);
    }
    let text = match records.is_empty() {
        true => "there is only the first token; relight token show prints it".to_owned(),
        false => output::table(&rows),
    };
    output::list(environment, values, &text);
}

fn record_json(record: &TokenRecord) -> Value {
    let TokenRecord {
        id,
        name,
        scope,
        created_at,
        ..
    } = record;
    json!({"id": id, "name": name, "scope": scope, "created_at": created_at})
}

fn revoke(
    environment: &Environment,
    home: &std::path::Path,
    arguments: &RevokeArguments,
) -> Result<(), Failure> {
    if !tokens::revoke(home, &arguments.id)? {
        let text = format!("there is no token {}", output::one_line(&arguments.id));
        return Err(Failure::of(ErrorCode::NOT_FOUND, text).hint("relight token list shows all"));
    }
    let text = format!("token {} is worth nothing any more", arguments.id);
    output::answer(environment, &json!({"revoked": arguments.id}), &text);
    Ok(())
}

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Self {
        let exit = match error {
            TokenError::File { .. } => Exit::Io,
            TokenError::Open { .. } => Exit::Config,
            TokenError::Damaged { .. } => Exit::Data,
        };
        Self::new(exit, with_causes(&error))
    }
}
