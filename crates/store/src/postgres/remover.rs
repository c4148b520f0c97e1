//! Removes old records on a separate connection, so that commits do not wait for a large removal.

use std::sync::Arc;

use tokio::time::Instant;

use super::batch_committer::{TRIES_MAX, pause};
use super::connection::{Connection, PostgresServer};
use super::error::PostgresFailure;
use super::forget;
use crate::contract::{OperationReply, OperationResult, Removal};

/// One removal's connection.
#[derive(Debug)]
pub(super) struct Remover {
    server: Arc<PostgresServer>,
    connection: Option<Connection>,
    /// What orders the journal among all writers of this schema.
    journal_key: i64,
}

impl Remover {
    pub(super) fn new(server: Arc<PostgresServer>, journal_key: i64) -> Self {
        Self {
            server,
            connection: None,
            journal_key,
        }
    }

    /// In transactions of its own, each of bounded size. What was removed before a loss stays removed;
    /// the rest is for the next time.
    pub(super) async fn remove(&mut self, removal: &Removal) -> OperationReply {
        let until = Instant::now() + self.server.url.patience;
        let mut tries = 0;
        loop {
            let failure = match self.remove_once(removal).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            // With it goes what is left of a transaction.
            self.connection = None;
            let goes_on = match failure {
                PostgresFailure::Again => tries < TRIES_MAX,
                PostgresFailure::Lost(_) => Instant::now() < until,
                PostgresFailure::Refused(_) => false,
            };
            if !goes_on {
                return Err(failure.into_store_error(&self.server.place).into());
            }
            pause(tries).await;
            tries += 1;
        }
    }

    async fn remove_once(&mut self, removal: &Removal) -> Result<OperationResult, PostgresFailure> {
        let db = match &mut self.connection {
            Some(db) => db,
            none => none.insert(self.server.connect(None).await?),
        };
        match removal {
            Removal::Tasks(tasks, at) => forget::tasks(db, tasks, *at, self.journal_key)
                .await
                .map(OperationResult::Removed),
            Removal::Events(before) => forget::events(db, *before)
                .await
                .map(OperationResult::Count),
            Removal::Attempts(before) => forget::attempts(db, *before)
                .await
                .map(OperationResult::Count),
            Removal::Sessions(sessions) => forget::sessions(db, sessions)
                .await
                .map(OperationResult::Count),
            Removal::Agent(name, seq, at) => {
                let forgotten = forget::agent(db, name, *seq, *at, self.journal_key).await?;
                Ok(OperationResult::Changed(forgotten))
            }
            Removal::Kept(range) => forget::kept(db, range).await.map(OperationResult::Count),
        }
    }
}
