//! Sessions: turns a wish into a commit, and finds after a crash which turns were cut off.
//!
//! Rules are `core::session`'s, memory is `store`'s. Leaves to others: which conversation a message
//! belongs to, and running the turn.

mod lives;
mod marks;
mod recovery;
mod shutdown;

use relight_core::error_code::{ErrorCode, Refused};
use relight_core::ids::SessionKey;
use relight_core::lease::HolderLife;
use relight_core::session::{
    FileError, Session, SessionDecisionInput, SessionEvent, SessionRefusal, SessionStateKind,
    decide,
};
use relight_store::StoreError;

pub use marks::{ImportedMarks, NotImported, import, in_flight};
pub use recovery::{Decided, Tell, find, find_each, recover, recover_each};
pub use shutdown::{Owner, shutdown};

use crate::boxed::boxed;
use crate::engine::Engine;
use crate::os::clock;
use crate::redact_input;

/// How often a decision is made again because the session moved on meanwhile.
const ROUNDS_MAX: usize = 1_000;
/// How many sessions are read and committed at a time; the pages that so many dirty fit into SQLite's cache.
const PAGE: usize = 2_048;

/// Why something was not done. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// The rules say no.
    #[error(transparent)]
    Refused(#[from] SessionRefusal),
    /// A request that cannot be meant.
    #[error("{message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// What to write instead.
        hint: Option<String>,
    },
    /// Marks of another gateway that cannot be read. Nothing was imported.
    #[error("the list of marks is damaged: {0}")]
    Damaged(FileError),
    /// A name that must not be written.
    #[error(transparent)]
    SecretName(#[from] redact_input::SecretName),
    /// Others were faster every time.
    #[error("session {0} is being changed by others all the time")]
    Contended(SessionKey),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SessionError {
    /// What it is for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Invalid { .. } | Self::SecretName(_) => ErrorCode::INVALID,
            Self::Damaged(_) => ErrorCode::DAMAGED,
            Self::Contended(_) => ErrorCode::CONTENDED,
            Self::Store(_) => ErrorCode::STORE_UNAVAILABLE,
        }
    }

    /// What to do about it, in commands that can be pasted.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::Contended(_) | Self::Store(_) => Some("try again".to_owned()),
            Self::Invalid { hint, .. } => hint.clone(),
            Self::Damaged(_) => Some(
                "nothing was imported; relight session list shows what the store knows".to_owned(),
            ),
            Self::SecretName(_) => None,
        }
    }
}

impl From<SessionError> for Refused {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Store(error) => error.into(),
            error => Self {
                code: error.code(),
                message: redact_input::without_secrets(error.to_string()),
                hint: error.hint().map(redact_input::without_secrets),
            },
        }
    }
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOutcome {
    /// The session it was decided upon; none when it was new.
    pub before: Option<Session>,
    /// The session as it is on disk.
    pub after: Session,
    /// Whether anything had to be changed.
    pub changed: bool,
}

impl SessionOutcome {
    /// Whether the turn before did not end.
    pub fn was_cut_off(&self) -> bool {
        self.before.as_ref().is_some_and(Session::is_cut_off)
    }

    /// What it was until then; none when it was new.
    pub fn previous_state(&self) -> Option<SessionStateKind> {
        self.before
            .as_ref()
            .map(|before| before.state_at(self.after.updated_at))
    }
}

/// One session, ready to be shown.
#[boxed]
pub async fn session(engine: &Engine, key: &SessionKey) -> Result<Session, SessionError> {
    let found = engine.store().session(key).await?;
    let found = found.ok_or_else(|| SessionRefusal::Unknown(key.clone()))?;
    engine.holders().look_for(found.owner()).await?;
    Ok(found)
}

/// Applies one event to a session.
#[boxed]
pub async fn act(
    engine: &Engine,
    key: &SessionKey,
    event: SessionEvent,
) -> Result<SessionOutcome, SessionError> {
    let read = engine.store().session(key).await?;
    act_upon(engine, key, read, event).await
}

/// The same upon a session that was read before; read again only when it moved on since.
pub(crate) async fn act_upon(
    engine: &Engine,
    key: &SessionKey,
    mut session: Option<Session>,
    mut event: SessionEvent,
) -> Result<SessionOutcome, SessionError> {
    redact_input::clean_session_event(engine.redactor(), key, &mut event)?;
    for _ in 0..ROUNDS_MAX {
        let owner = session.as_ref().and_then(Session::owner);
        engine.holders().look_for(owner).await?;
        let now = clock::now();
        let life = session
            .as_ref()
            .map_or(HolderLife::Gone, |found| owner_life(engine, found));
        let scene = SessionDecisionInput {
            key,
            session: session.as_ref(),
            life,
            now,
        };
        let Some(change) = decide(scene, event.clone())? else {
            let after = session.clone().expect("only what is there needs no change");
            return Ok(SessionOutcome {
                before: session,
                after,
                changed: false,
            });
        };
        let mut after = change.next.clone();
        let taken = engine.store().commit_sessions(vec![change], now).await?;
        if taken == [true] {
            after.seq += 1;
            return Ok(SessionOutcome {
                before: session,
                after,
                changed: true,
            });
        }
        session = engine.store().session(key).await?;
    }
    Err(SessionError::Contended(key.clone()))
}

/// Whether the owner of its turn lives; gone where there is none. To be asked after
/// `Holders::look_for`.
fn owner_life(engine: &Engine, session: &Session) -> HolderLife {
    session
        .owner()
        .map_or(HolderLife::Gone, |held| engine.holders().life(held))
}
