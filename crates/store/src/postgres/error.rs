//! Classification of PostgreSQL errors.

use std::sync::Arc;

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::contract::StoreError;
use relight_core::error_code::with_causes;

/// Why a database request failed.
#[derive(Debug)]
pub(super) enum PostgresFailure {
    /// The connection is lost or the server shuts down; the request may or may not have been
    /// executed.
    Lost(String),
    /// A conflict; a retry can succeed.
    Again,
    /// A permanent error.
    Refused(StoreError),
}

impl PostgresFailure {
    /// An error on an established connection. If it ends the connection, the request may have been
    /// executed before. (A FATAL error at startup means that access is refused.)
    pub(super) fn of_answer(place: &str, error: &tokio_postgres::Error) -> Self {
        let severity = error.as_db_error().and_then(DbError::parsed_severity);
        match severity {
            Some(Severity::Fatal | Severity::Panic) => Self::Lost(with_causes(error)),
            _ => Self::of(place, error),
        }
    }

    /// Converts a PostgreSQL error, with the name of the store.
    pub(super) fn of(place: &str, error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(said) => of_server(place, said),
            None if is_ours(error) => Self::Refused(StoreError::Damaged {
                place: place.to_owned(),
                what: with_causes(error),
            }),
            None => Self::Lost(with_causes(error)),
        }
    }

    /// The error for the caller when it is not retried.
    pub(super) fn into_store_error(self, place: &str) -> StoreError {
        let place = place.to_owned();
        match self {
            Self::Lost(why) => StoreError::Unreachable { place, why },
            Self::Again => StoreError::Busy { place },
            Self::Refused(error) => error,
        }
    }
}

impl From<StoreError> for PostgresFailure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

/// Whether the error comes from reading an invalid row, not from the server.
fn is_ours(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error);
    let is_conversion = source.is_some_and(|source| {
        !source.is::<std::io::Error>() && !source.is::<tokio_postgres::error::DbError>()
    });
    is_conversion && error.to_string().contains("serializing")
}

fn of_server(place: &str, said: &DbError) -> PostgresFailure {
    let store = place.to_owned();
    let code = said.code();
    if is_for_another_try(code) {
        return PostgresFailure::Again;
    }
    if is_goodbye(code) {
        return PostgresFailure::Lost(said.message().to_owned());
    }
    let refused = match &code.code()[..2] {
        // Out of disk, memory or connections, and system errors.
        "53" if *code == SqlState::TOO_MANY_CONNECTIONS => StoreError::Unreachable {
            place: store,
            why: said.message().to_owned(),
        },
        "53" | "58" => StoreError::Io {
            place: store,
            source: Arc::new(said.clone()),
        },
        "XX" => StoreError::Damaged {
            place: store,
            what: said.message().to_owned(),
        },
        "22" | "23" | "54" => StoreError::Unsuitable {
            place: store,
            why: format!("a value cannot be kept: {said}"),
        },
        "57" => StoreError::Busy { place: store },
        _ => StoreError::Unsuitable {
            place: store,
            why: said.message().to_owned(),
        },
    };
    PostgresFailure::Refused(refused)
}

/// Whether it is a conflict that a retry resolves.
fn is_for_another_try(code: &SqlState) -> bool {
    [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::UNIQUE_VIOLATION,
    ]
    .contains(code)
}

/// Whether the server ends the connection or is read-only, so that another server may be used.
fn is_goodbye(code: &SqlState) -> bool {
    let goodbyes = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::IDLE_SESSION_TIMEOUT,
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    code.code().starts_with("08") || goodbyes.contains(code)
}
