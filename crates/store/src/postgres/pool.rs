//! The few connections that reads share. A connection answers in order, and takes more questions
//! meanwhile; the next question goes to the one that has fewest.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::connection::{Connection, Server};
use super::error::Failure;
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
        F: Future<Output = Result<T, Failure>>,
    {
        let too_late = || Failure::Lost("no answer in time for the lease".to_owned());
        self.again_while_lost(async || {
            let connection = timeout(LEASE_CONNECT_PATIENCE, self.connection()).await;
            let connection = connection.map_err(|_| too_late())??;
            let answer = timeout(LEASE_PATIENCE, self.read_on(connection, &read)).await;
            answer.unwrap_or_else(|_| {
                self.connections().clear();
                Err(too_late())
            })
        })
        .await
    }

    async fn read_on<T, F>(
        &self,
        connection: Arc<Connection>,
        read: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let answer = read(Arc::clone(&connection)).await;
        if matches!(answer, Err(Failure::Lost(_))) {
            self.drop_one(&connection);
        }
        answer
    }

    async fn again_while_lost<T, F>(&self, ask: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let until = Instant::now() + GONE_WAIT;
        loop {
            match ask().await {
                Ok(found) => return Ok(found),
                Err(Failure::Lost(_) | Failure::Again) if Instant::now() < until => {
                    tokio::time::sleep(PAUSE).await;
                }
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

    fn drop_one(&self, lost: &Arc<Connection>) {
        self.connections().retain(|connection| !Arc::ptr_eq(connection, lost));
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.connections.lock().expect("nothing panics while it is locked")
    }
}
