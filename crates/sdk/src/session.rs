//! A turn of a session that the program runs.

use std::collections::BTreeMap;

use relight_core::error_code::Refused;
use relight_core::time::Span;
use relight_runtime::operations::fields;
use relight_runtime::{BeginError, Relight, Turn};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::fork_guard::OfProcess;
use crate::open::invalid;

/// A turn to begin.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnRequest {
    /// Of which session.
    pub key: String,
    /// The agent's own id of the conversation.
    pub id: String,
    /// Context for resuming it, added to what is there.
    #[serde(default, deserialize_with = "fields::context")]
    pub set: BTreeMap<String, String>,
    /// Marks it for so long, renewed in the background, instead of for as long as the process lives.
    #[serde(default, deserialize_with = "fields::optional_text")]
    pub lease: Option<Span>,
}

impl TurnRequest {
    /// Reads it from JSON. What is null was not given.
    pub fn read(given: Map<String, Value>) -> Result<Self, Refused> {
        Ok(relight_runtime::operations::read(given)?)
    }

    pub(crate) async fn begin(self, relight: &Relight) -> Result<Turn, Refused> {
        let mut session = relight.session(&self.key).map_err(invalid)?;
        for (key, value) in &self.set {
            session = session.set(key, value);
        }
        if let Some(lease) = self.lease {
            session = session.lease(lease);
        }
        session.begin(&self.id).await.map_err(|error| match error {
            BeginError::BadName(error) => invalid(error),
            BeginError::Session(error) => error.into(),
        })
    }
}

impl Client {
    /// Marks a turn of a session. On disk when it returns.
    pub async fn begin_turn(&self, request: TurnRequest) -> Result<TurnHandle, Refused> {
        let turn = request.begin(&self.shared()?.relight).await?;
        Ok(TurnHandle::new(self.clone(), turn))
    }
}

/// A turn in flight. Dropped without an end it is given up, and no death is counted.
#[derive(Debug)]
pub struct TurnHandle {
    begun: Value,
    turn: OfProcess<Turn>,
    client: Client,
}

impl TurnHandle {
    pub(crate) fn new(client: Client, turn: Turn) -> Self {
        let begun = json!(turn.begun());
        Self {
            begun,
            turn: OfProcess::new(turn),
            client,
        }
    }

    /// The client that it came from.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What `session begin --json` shows.
    pub fn begun(&self) -> &Value {
        &self.begun
    }

    /// It is finished. Refused when a newer turn was begun meanwhile, or when this one was taken away.
    pub async fn end(mut self) -> Result<(), Refused> {
        Ok(self.turn.take()?.end().await?)
    }
}

impl Drop for TurnHandle {
    fn drop(&mut self) {
        // Giving it up is a commit of its own, on the runtime of the client.
        if let (Ok(turn), Ok(runtime)) = (self.turn.take(), self.client.runtime()) {
            let _inside = runtime.enter();
            drop(turn);
        }
    }
}
