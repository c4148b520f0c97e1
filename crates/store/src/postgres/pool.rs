//! The few connections that reads share. A connection answers in order, and takes more questions
//! meanwhile; the next question goes to the one that has fewest.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::{Connection, Server};
use super::error::Failure;
use crate::contract::StoreError;

/// Most connections for reading.
const READERS_MAX: usize = 4;
/// How long a server that is gone is waited for, before callers are told.
const GONE_WAIT: Duration = Duration::from_secs(10);
/// How long between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections that reads share.
#[derive(Debug)]
pub(super) struct Pool {
    server: Arc<Server>,
    connections: Mutex<Vec<Arc<Connection>>>,
}

impl Pool {
    pub(super) fn new(server: Arc<Server>, first: Connection) -> Self {
        Self { server, connections: Mutex::new(vec![Arc::new(first)]) }
    }

    /// Reads; again on another connection when one was lost, within bounds.
    pub(super) async fn read<T, F>(
        &self,
        read: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let until = Instant::now() + GONE_WAIT;
        let mut losses = 0;
        loop {
            let answer = match self.connection().await {
                Ok(connection) => {
                    let answer = read(Arc::clone(&connection)).await;
                    if matches!(answer, Err(Failure::Lost(_))) {
                        self.drop_all();
                    }
                    answer
                }
                Err(failure) => Err(failure),
            };
            match answer {
                Ok(found) => return Ok(found),
                // A server that fell silent took all the time, and another may have its place.
                Err(Failure::Lost(_)) if losses == 0 || Instant::now() < until => {
                    losses += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(Failure::Again) if Instant::now() < until => tokio::time::sleep(PAUSE).await,
                Err(failure) => return Err(failure.into_store_error(&self.server.place)),
            }
        }
    }

    /// An idle one, else a new one, else the one with the fewest questions.
    async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        if let Some(found) = self.least_loaded() {
            return Ok(found);
        }
        let made = Arc::new(self.server.connect(None).await?);
        let mut connections = self.connections();
        if connections.len() < READERS_MAX {
            connections.push(Arc::clone(&made));
        }
        Ok(made)
    }

    fn least_loaded(&self) -> Option<Arc<Connection>> {
        let mut connections = self.connections();
        connections.retain(|connection| !connection.is_lost());
        let found = connections.iter().min_by_key(|connection| connection.load())?;
        let is_good = found.load() == 0 || connections.len() >= READERS_MAX;
        is_good.then(|| Arc::clone(found))
    }

    /// Whatever ended one has ended the others too, or they find out one after the other, each in its
    /// own time.
    fn drop_all(&self) {
        self.connections().clear();
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.connections.lock().expect("nothing panics while it is locked")
    }
}
