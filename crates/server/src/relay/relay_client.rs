//! Asks the daemon, and understands what it says: questions with an id each where they write.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use relight_runtime::os::random;
use relight_store::StoreError;
use serde::de::DeserializeOwned;

use super::call::{RelayCall, RelayRequest, RelayResponse, VERSION, Write};
use super::socket_client::{Heard, SocketClient};
use super::store_proxy::written;
use crate::error::ProblemBody;

/// Asks the daemon.
#[derive(Debug)]
pub(super) struct RelayClient {
    line: SocketClient,
    /// Tells the writes of this one from those of all others.
    name: String,
    writes: AtomicU64,
}

/// What was said.
#[derive(Debug)]
pub(super) struct RelayReply<T> {
    pub(super) answer: T,
    /// The answer to an earlier try was lost, and this daemon does not know of it: what it refuses may
    /// have been done.
    pub(super) in_doubt: bool,
}

impl RelayClient {
    pub(super) fn new(socket: &Path) -> Self {
        let name = random::bytes::<12>()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            line: SocketClient::new(socket),
            name,
            writes: AtomicU64::new(0),
        }
    }

    /// Waits so long for a daemon that is away.
    pub(super) fn set_patience(&mut self, away_max: Duration) {
        self.line.set_patience(away_max);
    }

    /// The store as people are told of it.
    pub(super) fn place(&self) -> String {
        self.line.place()
    }

    /// A write, as one that is asked for once however often it is said.
    pub(super) fn new_write(&self, write: Write) -> RelayCall {
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        RelayCall::Write {
            id: format!("{}-{number}", self.name),
            write,
        }
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        call: RelayCall,
    ) -> Result<RelayReply<T>, StoreError> {
        let heard = self
            .line
            .ask(&written(&RelayRequest {
                version: VERSION,
                call,
            }))
            .await?;
        if heard.status != 200 {
            return Err(self.refused(&heard));
        }
        let answered: RelayResponse<T> = serde_json::from_slice(&heard.body).map_err(|error| {
            let ours = crate::VERSION;
            self.unreachable(format!(
                "relight {ours} does not understand its daemon: {error}"
            ))
        })?;
        let in_doubt = heard.was_lost && !answered.again;
        Ok(RelayReply {
            answer: answered.answer,
            in_doubt,
        })
    }

    fn refused(&self, heard: &Heard) -> StoreError {
        let Ok(ProblemBody { error }) = serde_json::from_slice(&heard.body) else {
            return self.unreachable(format!("its daemon says {}", heard.status));
        };
        let why = match error.hint {
            Some(hint) => format!("{}; {hint}", error.message),
            None => error.message,
        };
        match error.code.as_str() {
            "not_found" => self.unreachable("its daemon is older than this relight; restart it"),
            "forbidden" | "too_large" => StoreError::Unsuitable {
                place: self.place(),
                why,
            },
            _ => self.unreachable(why),
        }
    }

    /// No answer, and why.
    pub(super) fn unreachable(&self, why: impl Into<String>) -> StoreError {
        StoreError::Unreachable {
            place: self.place(),
            why: why.into(),
        }
    }
}
