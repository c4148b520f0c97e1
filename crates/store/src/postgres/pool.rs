//! The few connections that reads share. A connection answers in order, and takes more questions
//! meanwhile; the next question goes to the one that has fewest.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::connection::{Connection, PostgresServer};
use super::error::PostgresFailure;
use crate::contract::StoreError;

/// Most connections for reading.
const READERS_MAX: usize = 4;
/// How long a server that is gone is waited for, before callers are told.
const GONE_WAIT: Duration = Duration::from_secs(10);
/// How long what keeps a lease waits for an answer on one connection. Of a lease of 8 s, renewed after 2,
/// there are 3 s left to try again.
const LEASE_PATIENCE: Duration = Duration::from_secs(1);
/// The same for a new connection, which takes many trips to a server that is far away.
const LEASE_CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// How long between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections that reads share.
#[derive(Debug)]
pub(super) struct Pool {
    server: Arc<PostgresServer>,
    connections: Mutex<Vec<Arc<Connection>>>,
}

impl Pool {
    pub(super) fn new(server: Arc<PostgresServer>, first: Connection) -> Self {
        Self {
            server,
            connections: Mutex::new(vec![Arc::new(first)]),
        }
    }

    /// Reads; again on another connection when one was lost, within bounds.
    pub(super) async fn read<T, F>(
        &self,
        read: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, PostgresFailure>>,
    {
        self.again_while_lost(async || {
            let connection = self.connection().await?;
            self.read_on(connection, &read).await
        })
        .await
    }

    /// The same for what keeps a lease. A connection can be dead without anybody being told, as when the
    /// server's address has moved; the system notices that later than a lease lasts. So one that does not
    /// answer soon is left, and all others with it: they are as old.
    pub(super) async fn read_for_lease<T, F>(
        &self,
        read: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, PostgresFailure>>,
    {
        let too_late = || PostgresFailure::Lost("no answer in time for the lease".to_owned());
        self.again_while_lost(async || {
            let connection = timeout(LEASE_CONNECT_PATIENCE, self.connection()).await;
            let connection = connection.map_err(|_| too_late())??;
            let answer = timeout(LEASE_PATIENCE, self.read_on(connection, &read)).await;
            answer.unwrap_or_else(|_| {
                self.drop_all();
                Err(too_late())
            })
        })
        .await
    }

    async fn read_on<T, F>(
        &self,
        connection: Arc<Connection>,
        read: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, PostgresFailure>
    where
        F: Future<Output = Result<T, PostgresFailure>>,
    {
        let answer = read(Arc::clone(&connection)).await;
        if matches!(answer, Err(PostgresFailure::Lost(_))) {
            self.drop_all();
        }
        answer
    }

    async fn again_while_lost<T, F>(&self, ask: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, PostgresFailure>>,
    {
        let until = Instant::now() + GONE_WAIT;
        let mut losses = 0;
        loop {
            match ask().await {
                Ok(found) => return Ok(found),
                // A server that fell silent took all the time, and another may have its place.
                Err(PostgresFailure::Lost(_)) if losses == 0 || Instant::now() < until => {
                    losses += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(PostgresFailure::Again) if Instant::now() < until => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(failure) => return Err(failure.into_store_error(&self.server.place)),
            }
        }
    }

    /// An idle one, else a new one, else the one with the fewest questions.
    async fn connection(&self) -> Result<Arc<Connection>, PostgresFailure> {
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
        let found = connections
            .iter()
            .min_by_key(|connection| connection.load())?;
        let is_good = found.load() == 0 || connections.len() >= READERS_MAX;
        is_good.then(|| Arc::clone(found))
    }

    /// Whatever ended one has ended the others too, or they find out one after the other, each in its
    /// own time.
    fn drop_all(&self) {
        self.connections().clear();
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.connections
            .lock()
            .expect("nothing panics while it is locked")
    }
}
