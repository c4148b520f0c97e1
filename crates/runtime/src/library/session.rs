//! A turn of a session that this process runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use relight_core::ids::{IdError, SessionId, SessionKey};
use relight_core::lease::LEASE_MAX;
use relight_core::session::{Generation, Session, SessionEvent};
use relight_core::time::Span;
use tokio::task::JoinHandle;

use super::process_claims::OwnHolder;
use crate::engine::Engine;
use crate::operations::session::BegunTurn;
use crate::os::clock;
use crate::sessions::{self, SessionError, SessionOutcome};

/// A session whose turn is to be begun.
///
/// ```
/// # tokio_test(async {
/// use relight_runtime::Relight;
/// use relight_runtime::core::session::Rules;
///
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}/relight.db", folder.path().display());
/// let relight = Relight::open(&url).await?;
/// for cut_off in relight.recover_sessions(&Rules::default()).await? {
///     println!("{} was cut off: {:?}", cut_off.key, cut_off.reason);
/// }
/// let turn = relight.session("telegram:dm:42")?.begin("conversation-7").await?;
/// // … the turn runs; killed here, the next start finds it.
/// turn.end().await?;
/// # anyhow::Ok(()) });
/// # fn tokio_test(f: impl Future<Output = anyhow::Result<()>>) {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(f).unwrap();
/// # }
/// ```
#[derive(Debug)]
pub struct SessionBuilder {
    engine: Engine,
    key: SessionKey,
    own: OwnHolder,
    ttl: Option<Span>,
    context: BTreeMap<String, String>,
}

/// Why a turn did not begin.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BeginError {
    /// The id of the conversation is no id.
    #[error(transparent)]
    BadName(#[from] IdError),
    /// The rules or the store say no.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl SessionBuilder {
    pub(super) fn new(engine: Engine, key: SessionKey, own: OwnHolder) -> Self {
        Self {
            engine,
            key,
            own,
            ttl: None,
            context: BTreeMap::new(),
        }
    }

    /// Values that its successor needs.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.context.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Marks the turn for this long, renewed in the background, instead of for as long as this process
    /// lives. On a store that other machines share it is one of 30 s unless this says otherwise, or
    /// `RELIGHT_NODE` names a node that lives.
    pub fn lease(mut self, ttl: Span) -> Self {
        self.ttl = Some(ttl.min(LEASE_MAX));
        self
    }

    /// Marks a turn of this conversation. On disk when it returns: run it then.
    pub async fn begin(self, session_id: &str) -> Result<Turn, BeginError> {
        let session_id = SessionId::new(session_id)?;
        let lease = self.own.lease(self.ttl, self.engine.holders()).await;
        let (owner, ttl) = lease.map_err(SessionError::from)?;
        let event = SessionEvent::Begin {
            session_id,
            owner,
            ttl,
            context: self.context,
        };
        let acted = sessions::act(&self.engine, &self.key, event).await?;
        Ok(Turn::new(self.engine, acted, ttl))
    }

    /// Notes that something happened in a session whose turns are not marked: recovery then finds it
    /// by the time window, for want of anything better.
    pub async fn touch(self, session_id: &str) -> Result<(), BeginError> {
        let session_id = SessionId::new(session_id)?;
        let lease = self.own.lease(None, self.engine.holders()).await;
        let (by, _) = lease.map_err(SessionError::from)?;
        let at = clock::now();
        let event = SessionEvent::Touch { session_id, at, by };
        sessions::act(&self.engine, &self.key, event).await?;
        Ok(())
    }

    /// The session as it is on disk; none when it was never seen.
    pub async fn read(&self) -> Result<Option<Session>, SessionError> {
        Ok(self.engine.store().session(&self.key).await?)
    }
}

/// A turn in flight.
///
/// Dropped without an end it is given up: its session is idle again, and no death is counted. When the
/// process dies instead, the next recovery finds it.
#[derive(Debug)]
pub struct Turn {
    shared: Arc<TurnShared>,
    previous: Option<Session>,
    begun: BegunTurn,
    renewal: Option<JoinHandle<()>>,
    ended: bool,
}

#[derive(Debug)]
struct TurnShared {
    engine: Engine,
    key: SessionKey,
    generation: Generation,
    /// As this turn last left it, which saves reading it again.
    session: Mutex<Session>,
}

impl Turn {
    fn new(engine: Engine, acted: SessionOutcome, ttl: Option<Span>) -> Self {
        let begun = BegunTurn::from(acted.clone());
        let shared = Arc::new(TurnShared {
            engine,
            key: acted.after.key.clone(),
            generation: acted.after.generation,
            session: Mutex::new(acted.after),
        });
        let renewal = ttl.map(|ttl| tokio::spawn(renew(Arc::clone(&shared), ttl)));
        Self {
            shared,
            previous: acted.before,
            begun,
            renewal,
            ended: false,
        }
    }

    /// Whose turn it is.
    pub fn key(&self) -> &SessionKey {
        &self.shared.key
    }

    /// Its number.
    pub fn generation(&self) -> Generation {
        self.shared.generation
    }

    /// Its begin, as every front shows it.
    pub fn begun(&self) -> &BegunTurn {
        &self.begun
    }

    /// The session as it was before: whether it was cut off, why, and how often in a row.
    pub fn previous(&self) -> Option<&Session> {
        self.previous.as_ref()
    }

    /// It is finished. Refused when a newer turn was begun meanwhile, or when this one was taken away.
    pub async fn end(mut self) -> Result<(), SessionError> {
        let generation = self.shared.generation;
        let ended = self.shared.act(SessionEvent::End { generation }).await;
        // A turn that is somebody else's needs no giving up.
        self.ended = matches!(ended, Ok(()) | Err(SessionError::Refused(_)));
        ended
    }
}

impl TurnShared {
    async fn act(&self, event: SessionEvent) -> Result<(), SessionError> {
        let known = self
            .session
            .lock()
            .expect("nothing panics while it is locked")
            .clone();
        let acted = sessions::act_upon(&self.engine, &self.key, Some(known), event).await?;
        *self
            .session
            .lock()
            .expect("nothing panics while it is locked") = acted.after;
        Ok(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
        let Some(runtime) = tokio::runtime::Handle::try_current()
            .ok()
            .filter(|_| !self.ended)
        else {
            return;
        };
        let shared = Arc::clone(&self.shared);
        runtime.spawn(async move {
            let generation = shared.generation;
            // Where that fails, the mark stays until this process dies, and is found then.
            let _ = shared.act(SessionEvent::Discard { generation }).await;
        });
    }
}

/// Renews the mark three times in its length, until the turn is somebody else's.
async fn renew(shared: Arc<TurnShared>, ttl: Span) {
    let (pause, generation) = (ttl.as_duration() / 3, shared.generation);
    loop {
        tokio::time::sleep(pause).await;
        let renewed = shared.act(SessionEvent::Renew { generation }).await;
        // A store that cannot be reached now is asked again: the mark may still be good.
        if matches!(renewed, Err(SessionError::Refused(_))) {
            return;
        }
    }
}
