//! An open store.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use napi::bindgen_prelude::{FnArgs, Function};
use napi::{Error, Result};
use napi_derive::napi;
use relight_sdk::{Client, ErrorCode, OpenOptions, Refused};
use serde::Deserialize;

use crate::bridge::{Bridge, Strategy};

/// What TypeScript says about the store to open.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    home: Option<PathBuf>,
    store: Option<String>,
    agent: Option<String>,
    #[serde(default)]
    strategies: Vec<String>,
    default_strategy: Option<String>,
}

/// A client of the store.
#[napi]
pub struct NativeClient {
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) client: Arc<OnceLock<Client>>,
}

#[napi]
impl NativeClient {
    /// Makes one that is not open yet. `settled` is called with the number of each call that has ended,
    /// `asked` when a strategy must decide.
    #[napi(constructor)]
    pub fn new(
        settled: Function<'_, FnArgs<(u32, Option<String>, Option<String>)>, ()>,
        asked: Function<'_, FnArgs<(u32, String, String)>, ()>,
    ) -> Result<Self> {
        Ok(Self {
            bridge: Bridge::new(settled, asked)?,
            client: Arc::default(),
        })
    }

    /// Opens the store on a thread of its own.
    #[napi]
    pub fn open(&self, number: u32, options: String) {
        let (bridge, client) = (Arc::clone(&self.bridge), Arc::clone(&self.client));
        let opening = std::thread::Builder::new().name("relight-open".to_owned());
        let open = move || {
            let opened = open(&bridge, &options).map(|opened| {
                // A second one would be dropped.
                let _ = client.set(opened);
                None
            });
            bridge.settle(number, opened);
        };
        if let Err(error) = opening.spawn(open) {
            let text = format!("cannot start a thread: {error}");
            let refused = Refused::without_hint(ErrorCode::IO, text);
            self.bridge.settle(number, Err(refused));
        }
    }

    /// Runs an operation by its name.
    #[napi]
    pub fn call(&self, number: u32, operation: String, given: String) -> Result<()> {
        let client = opened(&self.client)?.clone();
        let called = client.clone();
        self.bridge.spawn(&called, number, async move {
            client.call_text(&operation, &given).await.map(Some)
        });
        Ok(())
    }

    /// Gives up a call that waits; it is never settled then.
    #[napi]
    pub fn give_up(&self, number: u32) {
        self.bridge.give_up(number);
    }

    /// The decision of a strategy that was asked, or what went wrong.
    #[napi]
    pub fn decided(&self, question: u32, decision: Option<String>, error: Option<String>) {
        let answer = decision.ok_or_else(|| error.unwrap_or_default());
        self.bridge.answer(question, answer);
    }

    /// The folder of the state.
    #[napi]
    pub fn home(&self) -> Result<String> {
        let home = opened(&self.client)?
            .home()
            .map_err(|refused| thrown(&refused))?;
        Ok(home.display().to_string())
    }
}

fn open(bridge: &Arc<Bridge>, options: &str) -> std::result::Result<Client, Refused> {
    let options: Options = serde_json::from_str(options)
        .map_err(|error| Refused::without_hint(ErrorCode::INVALID, error.to_string()))?;
    let strategies = options.strategies.into_iter().map(|name| {
        let bridge = Arc::clone(bridge);
        let strategy = Strategy {
            bridge,
            name: name.clone(),
        };
        (name, Arc::new(strategy) as _)
    });
    Client::open(OpenOptions {
        home: options.home,
        store: options.store,
        agent: options.agent,
        strategies: strategies.collect(),
        default_strategy: options.default_strategy,
    })
}

pub(crate) fn opened(client: &OnceLock<Client>) -> Result<&Client> {
    client
        .get()
        .ok_or_else(|| Error::from_reason("the store is not open"))
}

/// An error that is thrown at once; TypeScript reads the JSON in its text.
pub(crate) fn thrown(refused: &Refused) -> Error {
    Error::from_reason(crate::bridge::error_text(refused))
}
