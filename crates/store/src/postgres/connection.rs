//! A connection: its setup, and pipelined statements.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, Statement};

use super::error::PostgresFailure;
use super::hosts::ServerHosts;
use super::tls::PostgresTls;
use super::url::PostgresUrl;
use crate::contract::StoreError;
use crate::record::{BadValue, bad_value};
use relight_core::error_code::with_causes;

/// Time limit of large reads and removals.
pub(super) const LONG_WAIT: Duration = Duration::from_secs(600);
/// For operations that must not be aborted; a lost server is detected by its silent connection.
pub(super) const AS_LONG_AS_IT_TAKES: Duration = Duration::MAX;
/// Maximum number of prepared statements per connection.
const STATEMENTS_MAX: usize = 200;

/// A server and how to connect to it.
pub(super) struct PostgresServer {
    pub(super) url: PostgresUrl,
    /// Its name in errors; without a password.
    pub(super) place: Arc<str>,
    hosts: ServerHosts,
    tls: PostgresTls,
}

impl PostgresServer {
    pub(super) fn new(url: PostgresUrl) -> Result<Self, StoreError> {
        let place: Arc<str> = url.to_string().into();
        match PostgresTls::new(&url) {
            Ok(tls) => Ok(Self {
                hosts: ServerHosts::new(&url),
                url,
                place,
                tls,
            }),
            Err(why) => Err(StoreError::Unsuitable {
                place: place.to_string(),
                why,
            }),
        }
    }

    /// Connects and selects our schema. `heard` is notified by each notification.
    pub(super) async fn connect(
        &self,
        heard: Option<Arc<Notify>>,
    ) -> Result<Connection, PostgresFailure> {
        let (client, mut driver) = self.hosts.connect(&self.tls, &self.place).await?;
        let ended = Arc::new(Notify::new());
        let ending = Arc::clone(&ended);
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| driver.poll_message(context)).await {
                if let (AsyncMessage::Notification(_), Some(bell)) = (message, &heard) {
                    bell.notify_waiters();
                }
            }
            ending.notify_one();
        });
        let connection = Connection {
            client,
            place: Arc::clone(&self.place),
            patience: self.url.patience,
            statements: Mutex::default(),
            asked: AtomicUsize::new(0),
            ended,
        };
        connection.brief(&settings(&self.url)).await?;
        Ok(connection)
    }

    pub(super) fn unreachable(&self, why: impl Into<String>) -> StoreError {
        StoreError::Unreachable {
            place: self.place.to_string(),
            why: why.into(),
        }
    }
}

impl std::fmt::Debug for PostgresServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.place)
    }
}

/// Generic plans that use indexes, whatever the tables held when they were made: a plan made for an empty
/// table would scan it for ever. A transaction whose client vanished or is frozen releases its locks within
/// seconds. An administrator may ask for more durability than the default, but not for less.
fn settings(url: &PostgresUrl) -> String {
    let schema = &url.schema;
    // Shorter than the response limit, so that a lock timeout is reported as such.
    let lock_ms = (url.patience / 2).as_millis();
    let idle_ms = (url.patience * 3 / 10).as_millis();
    format!(
        "SET search_path TO \"{schema}\";
         SET client_min_messages TO warning;
         SET jit TO off;
         SET enable_seqscan TO off;
         SET enable_hashjoin TO off;
         SET enable_mergejoin TO off;
         SET enable_material TO off;
         SET random_page_cost TO 1.1;
         SET plan_cache_mode TO force_generic_plan;
         SET idle_in_transaction_session_timeout TO {idle_ms};
         SET lock_timeout TO {lock_ms};
         SET statement_timeout TO 0;
         SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') = 'off'"
    )
}

/// A value of a statement.
pub(super) type Value = Box<dyn ToSql + Sync + Send>;

/// Boxes the values of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        Vec::from([$(Box::new($value) as $crate::postgres::connection::Value),*])
    };
}
pub(super) use values;

/// Statements that are pipelined.
#[derive(Default)]
pub(super) struct Script {
    statements: Vec<(&'static str, Vec<Value>)>,
}

impl Script {
    /// Returns the index of its rows in the result of `run`.
    pub(super) fn add(&mut self, sql: &'static str, values: Vec<Value>) -> usize {
        self.statements.push((sql, values));
        self.statements.len() - 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }
}

/// A connection with its prepared statements.
pub(super) struct Connection {
    client: Client,
    pub(super) place: Arc<str>,
    /// Time limit of a response.
    patience: Duration,
    statements: Mutex<HashMap<String, Statement>>,
    /// Number of pending responses.
    asked: AtomicUsize,
    /// Notified when it is lost.
    ended: Arc<Notify>,
}

impl Connection {
    pub(super) fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    /// Number of pending responses.
    pub(super) fn load(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Resolves when the connection is lost.
    pub(super) async fn lost(&self) {
        self.ended.notified().await;
    }

    /// Runs statements without values.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), PostgresFailure> {
        self.batch_within(LONG_WAIT, sql).await
    }

    pub(super) async fn batch_within(
        &self,
        wait: Duration,
        sql: &str,
    ) -> Result<(), PostgresFailure> {
        within(wait, self.client.batch_execute(sql))
            .await?
            .map_err(|e| self.failure(&e))
    }

    /// The same, for statements that return at once.
    pub(super) async fn brief(&self, sql: &str) -> Result<(), PostgresFailure> {
        within(self.patience, self.client.batch_execute(sql))
            .await?
            .map_err(|e| self.failure(&e))
    }

    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<Row>, PostgresFailure> {
        self.query_within(self.patience, sql, values).await
    }

    pub(super) async fn query_within(
        &self,
        wait: Duration,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<Row>, PostgresFailure> {
        let _asking = WaitGuard::new(&self.asked);
        let statement = self.prepared(sql).await?;
        let values = borrowed(values);
        within(wait, self.client.query(&statement, &values))
            .await?
            .map_err(|e| self.failure(&e))
    }

    pub(super) async fn query_opt(
        &self,
        sql: &str,
        values: &[Value],
    ) -> Result<Option<Row>, PostgresFailure> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    /// Runs pipelined statements and returns the rows of each. Within a transaction the first
    /// failure makes later ones fail; its error is returned.
    pub(super) async fn run(&self, script: Script) -> Result<Vec<Vec<Row>>, PostgresFailure> {
        let _asking = WaitGuard::new(&self.asked);
        let mut statements = Vec::with_capacity(script.statements.len());
        for (sql, values) in &script.statements {
            statements.push((self.prepared(sql).await?, borrowed(values)));
        }
        let asking = statements.iter().map(|(statement, values)| {
            Box::pin(self.client.query(statement, values)) as PendingQuery<'_>
        });
        let answers = within(self.patience, together(asking.collect())).await?;
        let mut rows = Vec::with_capacity(answers.len());
        for answer in answers {
            rows.push(answer.map_err(|e| self.failure(&e))?);
        }
        Ok(rows)
    }

    /// Prepares a statement once; only that costs a round trip.
    async fn prepared(&self, sql: &str) -> Result<Statement, PostgresFailure> {
        if let Some(known) = self.known(sql) {
            return Ok(known);
        }
        let statement = within(self.patience, self.client.prepare(sql))
            .await?
            .map_err(|e| self.failure(&e))?;
        let mut statements = self
            .statements
            .lock()
            .expect("nothing panics while it is locked");
        if statements.len() < STATEMENTS_MAX {
            statements.insert(sql.to_owned(), statement.clone());
        }
        Ok(statement)
    }

    fn known(&self, sql: &str) -> Option<Statement> {
        let statements = self
            .statements
            .lock()
            .expect("nothing panics while it is locked");
        statements.get(sql).cloned()
    }

    pub(super) fn failure(&self, error: &tokio_postgres::Error) -> PostgresFailure {
        PostgresFailure::of_answer(&self.place, error)
    }

    /// The error of an invalid row.
    pub(super) fn damaged(&self, bad: &BadValue) -> PostgresFailure {
        let (place, what) = (self.place.to_string(), bad.to_string());
        PostgresFailure::Refused(StoreError::Damaged { place, what })
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({})", self.place)
    }
}

/// Counts a pending response; also released on cancellation.
struct WaitGuard<'a>(&'a AtomicUsize);

impl<'a> WaitGuard<'a> {
    fn new(asked: &'a AtomicUsize) -> Self {
        asked.fetch_add(1, Ordering::Relaxed);
        Self(asked)
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn borrowed(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values
        .iter()
        .map(|value| value.as_ref() as &(dyn ToSql + Sync))
        .collect()
}

type QueryRows = Result<Vec<Row>, tokio_postgres::Error>;
type PendingQuery<'a> = Pin<Box<dyn Future<Output = QueryRows> + Send + 'a>>;

/// Starts all in order, then waits for all.
async fn together(mut asked: Vec<PendingQuery<'_>>) -> Vec<QueryRows> {
    let mut answers: Vec<Option<QueryRows>> = asked.iter().map(|_| None).collect();
    poll_fn(move |context| {
        let mut is_ready = true;
        for (question, answer) in asked.iter_mut().zip(&mut answers) {
            if answer.is_some() {
                continue;
            }
            match question.as_mut().poll(context) {
                Poll::Ready(found) => *answer = Some(found),
                Poll::Pending => is_ready = false,
            }
        }
        if !is_ready {
            return Poll::Pending;
        }
        let answers = std::mem::take(&mut answers).into_iter();
        Poll::Ready(
            answers
                .map(|answer| answer.expect("all were answered"))
                .collect(),
        )
    })
    .await
}

/// Applies a time limit; a silent server counts as lost.
pub(super) async fn within<T>(
    wait: Duration,
    future: impl Future<Output = T>,
) -> Result<T, PostgresFailure> {
    tokio::time::timeout(wait, future)
        .await
        .map_err(|_| PostgresFailure::Lost(format!("no answer within {} s", wait.as_secs())))
}

/// One value of a row.
pub(super) fn get<'r, T: tokio_postgres::types::FromSql<'r>>(
    row: &'r Row,
    at: usize,
) -> Result<T, BadValue> {
    row.try_get(at).map_err(|error| {
        let column = row.columns().get(at).map_or("?", |column| column.name());
        bad_value(column, with_causes(&error))
    })
}
