//! One connection for a whole transfer.

use std::sync::Arc;

use crate::contract::StoreError;
use crate::postgres::background::Background;
use crate::postgres::connection::{AS_LONG_AS_IT_TAKES, Connection, PostgresServer};
use crate::postgres::error::PostgresFailure;
use crate::postgres::open::{self, Expected};
use crate::postgres::url::PostgresUrl;

/// The other store may be slow between two pages, but a frozen one must not block vacuum for ever.
const PATIENCE: &str = "SET idle_in_transaction_session_timeout TO '600s'";

/// One connection and its thread.
pub(super) struct TransferConnection {
    pub(super) url: PostgresUrl,
    pub(super) place: Arc<str>,
    pub(super) db: Arc<Connection>,
    pub(super) background: Background,
}

impl TransferConnection {
    pub(super) fn open(url: &PostgresUrl, expected: Expected) -> Result<Self, StoreError> {
        let server = Arc::new(PostgresServer::new(url.clone())?);
        let background = Background::start(&server.place)?;
        let asked = Arc::clone(&server);
        let opening = async move {
            let opened = open::open(&asked, expected).await?;
            opened.connection.batch(PATIENCE).await?;
            Ok(opened.connection)
        };
        let place = Arc::clone(&server.place);
        match background.run_blocking(AS_LONG_AS_IT_TAKES, opening) {
            Some(Ok(db)) => Ok(Self {
                url: url.clone(),
                place,
                db: Arc::new(db),
                background,
            }),
            Some(Err(failure)) => Err(PostgresFailure::into_store_error(failure, &place)),
            None => Err(server.unreachable("no answer")),
        }
    }

    pub(super) async fn run<T, F>(
        &self,
        ask: impl FnOnce(Arc<Connection>) -> F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PostgresFailure>> + Send + 'static,
    {
        let answer = self.background.run(ask(Arc::clone(&self.db))).await;
        let answer =
            answer.unwrap_or_else(|| Err(PostgresFailure::Lost("its thread has stopped".into())));
        answer.map_err(|failure| failure.into_store_error(&self.place))
    }
}

impl Drop for TransferConnection {
    fn drop(&mut self) {
        self.background.end(async {});
    }
}
