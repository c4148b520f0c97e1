//! Marks that other gateways keep in a file of their own: taken in, and given out.

use relight_core::ids::SessionKey;
use relight_core::lease::{Holder, HolderLife};
use relight_core::session::{
    FileMark, Marks, Session, SessionDecisionInput, SessionEvent, SessionRefusal, SessionStateKind,
    decide,
};
use relight_core::time::{Span, Time};
use relight_store::{SessionQuery, StoreError};

use super::{PAGE, SessionError, SessionOutcome, act, owner_life};
use crate::boxed::boxed;
use crate::engine::Engine;
use crate::os::clock;
use crate::redact_input::{self, SecretName};

/// What became of the marks of a file.
#[derive(Debug, Clone, Default)]
pub struct ImportedMarks {
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
    SecretName(#[from] SecretName),
}

/// Takes in the marks of a file. They belong to `owner`; to nobody who lives when there is none.
#[boxed]
pub async fn import(
    engine: &Engine,
    marks: Marks,
    owner: Option<(Holder, Option<Span>)>,
) -> Result<ImportedMarks, SessionError> {
    let mut answer = ImportedMarks::default();
    let marks: Vec<(SessionKey, FileMark)> = marks.marks.into_iter().collect();
    for page in marks.chunks(PAGE) {
        import_page(engine, page, owner.as_ref(), &mut answer).await?;
    }
    Ok(answer)
}

/// All of a page in one commit; those that move on meanwhile one by one.
async fn import_page(
    engine: &Engine,
    page: &[(SessionKey, FileMark)],
    owner: Option<&(Holder, Option<Span>)>,
    answer: &mut ImportedMarks,
) -> Result<(), SessionError> {
    let now = clock::now();
    let (mut keys, mut events, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    for (key, mark) in page {
        let mut event = event_of(mark, owner, now);
        let decided = match redact_input::clean_session_event(engine.redactor(), key, &mut event) {
            Err(secret) => Err(secret.into()),
            Ok(()) => {
                let session = engine.store().session(key).await?;
                let held = session.as_ref().and_then(Session::owner);
                engine.holders().look_for(held).await?;
                let life = session
                    .as_ref()
                    .map_or(HolderLife::Gone, |found| owner_life(engine, found));
                let scene = SessionDecisionInput {
                    key,
                    session: session.as_ref(),
                    life,
                    now,
                };
                decide(scene, event.clone()).map_err(NotImported::from)
            }
        };
        match decided {
            Ok(Some(change)) => {
                keys.push(key);
                events.push(event);
                changes.push(change);
            }
            Ok(None) => answer.same.push(key.clone()),
            Err(why) => answer.refused.push((key.clone(), why)),
        }
    }
    let taken = engine.store().commit_sessions(changes, now).await?;
    for ((key, event), taken) in keys.into_iter().zip(events).zip(taken) {
        match taken {
            true => answer.imported.push(key.clone()),
            false => answer.add(key, act(engine, key, event).await)?,
        }
    }
    Ok(())
}

impl ImportedMarks {
    fn add(
        &mut self,
        key: &SessionKey,
        result: Result<SessionOutcome, SessionError>,
    ) -> Result<(), SessionError> {
        match result {
            Ok(acted) if acted.changed => self.imported.push(key.clone()),
            Ok(_) => self.same.push(key.clone()),
            Err(SessionError::Refused(refusal)) => self.refused.push((key.clone(), refusal.into())),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn event_of(mark: &FileMark, owner: Option<&(Holder, Option<Span>)>, now: Time) -> SessionEvent {
    SessionEvent::Import {
        session_id: mark.session_id.clone(),
        started_at: mark.started_at.unwrap_or(now),
        generation: mark.generation,
        owner: owner.cloned(),
    }
}

/// Every session with a turn in flight, whoever owns it.
pub async fn in_flight(engine: &Engine) -> Result<Vec<Session>, StoreError> {
    let states = vec![SessionStateKind::Active];
    let mut query = SessionQuery {
        states,
        limit: Some(PAGE),
        ..SessionQuery::default()
    };
    let mut found = Vec::new();
    loop {
        let page = engine.store().sessions(query.clone()).await?;
        let Some(last) = page.last() else {
            return Ok(found);
        };
        query.after = Some(last.key.clone());
        found.extend(page);
    }
}
