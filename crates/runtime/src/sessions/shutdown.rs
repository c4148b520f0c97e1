//! A clean stop of a gateway: its marks mean nothing any more.

use relight_core::ids::SessionKey;
use relight_core::lease::Holder;
use relight_core::session::{
    Session, SessionDecisionInput, SessionEvent, SessionStateKind, decide, is_same_owner,
};
use relight_store::SessionQuery;

use super::{PAGE, SessionError, owner_life};
use crate::boxed::boxed;
use crate::engine::Engine;
use crate::os::{clock, process};

/// Whose marks are discarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// Of this holder.
    Holder(Holder),
    /// Of a process of this boot that is gone already and had this number.
    GonePid(u32),
}

impl Owner {
    /// The process with this number, whether it lives or is gone.
    pub fn process(pid: u32) -> Self {
        match process::identity(pid) {
            Some(process) => Self::Holder(Holder::Process(process)),
            None => Self::GonePid(pid),
        }
    }

    fn is(&self, holder: &Holder, boot: &str) -> bool {
        match (self, holder) {
            // All of an attempt, whichever of its processes it was.
            (
                Self::Holder(Holder::Attempt {
                    attempt,
                    process: None,
                    ..
                }),
                theirs,
            ) => theirs.attempt() == Some(attempt),
            (Self::Holder(own), theirs) => is_same_owner(own, theirs),
            (Self::GonePid(pid), theirs) => theirs
                .process()
                .is_some_and(|theirs| theirs.pid == *pid && theirs.boot == boot),
        }
    }
}

/// Discards the marks of this owner, and what it saw of sessions that are never marked; answers the
/// sessions whose turn was discarded.
#[boxed]
pub async fn shutdown(engine: &Engine, owner: &Owner) -> Result<Vec<SessionKey>, SessionError> {
    let boot = process::boot_id();
    let active = SessionQuery {
        states: vec![SessionStateKind::Active],
        ..SessionQuery::default()
    };
    let discarded = sweep(engine, active, |session| {
        let generation = session.generation;
        let is_own = session
            .owner()
            .is_some_and(|held| owner.is(&held.holder, &boot));
        is_own.then_some(SessionEvent::Discard { generation })
    });
    let discarded = discarded.await?;
    let seen = SessionQuery {
        seen: true,
        ..SessionQuery::default()
    };
    let is_seen = |session: &Session| {
        let by = session.seen_by.as_ref();
        by.is_some_and(|by| owner.is(by, &boot))
            .then_some(SessionEvent::Settle)
    };
    sweep(engine, seen, is_seen).await?;
    Ok(discarded)
}

/// Applies an event to each session that it is for, page by page.
async fn sweep(
    engine: &Engine,
    mut query: SessionQuery,
    event: impl Fn(&Session) -> Option<SessionEvent>,
) -> Result<Vec<SessionKey>, SessionError> {
    let mut changed = Vec::new();
    query.limit = Some(PAGE);
    loop {
        let page = engine.store().sessions(query.clone()).await?;
        let Some(last) = page.last() else {
            return Ok(changed);
        };
        query.after = Some(last.key.clone());
        let owners = page.iter().filter_map(Session::owner);
        engine.holders().look_for(owners).await?;
        let now = clock::now();
        let mut changes = Vec::new();
        for session in &page {
            let Some(event) = event(session) else {
                continue;
            };
            let (key, life) = (&session.key, owner_life(engine, session));
            changes.extend(decide(
                SessionDecisionInput {
                    key,
                    session: Some(session),
                    life,
                    now,
                },
                event,
            )?);
        }
        let keys: Vec<SessionKey> = changes
            .iter()
            .map(|change| change.next.key.clone())
            .collect();
        let taken = engine.store().commit_sessions(changes, now).await?;
        // One that moved on meanwhile has ended, or is somebody else's by now.
        let made = keys.into_iter().zip(taken).filter(|(_, taken)| *taken);
        changed.extend(made.map(|(key, _)| key));
    }
}
