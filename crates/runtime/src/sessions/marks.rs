//! Marks that other gateways keep in a file of their own: taken in, and given out.

use relight_core::ids::SessionKey;
use relight_core::lease::Holder;
use relight_core::session::{Marks, Session, SessionEvent, SessionRefusal, SessionStateKind};
use relight_core::time::Span;
use relight_store::{SessionQuery, StoreError};

use super::{PAGE, SessionError, act};
use crate::doors::clock;
use crate::engine::Engine;

/// What became of the marks of a file.
#[derive(Debug, Clone, Default)]
pub struct Imported {
    /// Sessions whose turn is in flight by the file.
    pub imported: Vec<SessionKey>,
    /// Those that the store has as the file does.
    pub same: Vec<SessionKey>,
    /// Those that were left as they are, with the reason.
    pub refused: Vec<(SessionKey, NotImported)>,
}

/// Why a mark was not taken in.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotImported {
    /// The rules say no.
    #[error(transparent)]
    Refused(#[from] SessionRefusal),
    /// One of its names must not be written.
    #[error(transparent)]
    SecretName(#[from] crate::funnel::SecretName),
}

/// Takes in the marks of a file. They belong to `owner`; to nobody who lives when there is none.
pub async fn import(
    engine: &Engine,
    marks: Marks,
    owner: Option<(Holder, Option<Span>)>,
) -> Result<Imported, SessionError> {
    let mut answer = Imported::default();
    for (key, mark) in marks.marks {
        let event = SessionEvent::Import {
            session_id: mark.session_id,
            started_at: mark.started_at.unwrap_or_else(clock::now),
            generation: mark.generation,
            owner: owner.clone(),
        };
        match act(engine, &key, event).await {
            Ok(acted) if acted.changed => answer.imported.push(key),
            Ok(_) => answer.same.push(key),
            Err(SessionError::Refused(refusal)) => answer.refused.push((key, refusal.into())),
            Err(SessionError::SecretName(secret)) => answer.refused.push((key, secret.into())),
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// Every session with a turn in flight, whoever owns it.
pub async fn in_flight(engine: &Engine) -> Result<Vec<Session>, StoreError> {
    let states = vec![SessionStateKind::Active];
    let mut query = SessionQuery { states, limit: Some(PAGE), ..SessionQuery::default() };
    let mut found = Vec::new();
    loop {
        let page = engine.store().sessions(query.clone()).await?;
        let Some(last) = page.last() else { return Ok(found) };
        query.after = Some(last.key.clone());
        found.extend(page);
    }
}
