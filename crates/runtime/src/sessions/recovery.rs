//! What a gateway calls at its start: which turns were cut off, and what became of them.
//!
//! In pages, each decided and committed by itself: killed half way, the next call goes on with the
//! rest. Several gateways may call it at once; each session is answered to one of them.

use std::collections::BTreeMap;

use relight_core::ids::{SessionId, SessionKey};
use relight_core::session::{
    Generation, Rules, Session, SessionChange, SessionStateKind, recover as decide,
};
use relight_core::time::{Span, Time};
use relight_store::{SessionQuery, StoreError};
use serde::Serialize;

use super::lives::Lives;
use super::{PAGE, SessionError, owner_life};
use crate::boxed::{BoxFuture, boxed};
use crate::engine::Engine;
use crate::os::clock;

/// A session about which something was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = DecidedSession))]
pub struct Decided {
    /// The gateway's key for it.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub key: SessionKey,
    /// The agent's own id of it.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub session_id: SessionId,
    /// Its newest turn.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub generation: Generation,
    /// The previous state.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub from: SessionStateKind,
    /// The new state.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub state: SessionStateKind,
    /// Why.
    pub reason: Option<String>,
    /// How many owners died in a turn of it since one was finished.
    pub deaths_in_a_row: u32,
    /// Values that its successor needs.
    pub context: BTreeMap<String, String>,
}

/// Takes each session as it is decided, so that a hundred thousand of them need no memory.
pub type Tell<'t> = &'t mut (dyn FnMut(Decided) + Send);

/// Decides every session that is not what the store says, and answers those that it decided.
#[boxed]
pub async fn recover(engine: &Engine, rules: &Rules) -> Result<Vec<Decided>, SessionError> {
    let mut decided = Vec::new();
    recover_each(engine, rules, &mut |one| decided.push(one)).await?;
    Ok(decided)
}

/// The same, telling each once it is on disk.
pub fn recover_each<'a>(
    engine: &'a Engine,
    rules: &'a Rules,
    tell: Tell<'a>,
) -> BoxFuture<'a, Result<(), SessionError>> {
    Box::pin(look(engine, rules, tell, true))
}

/// What `recover` would decide; changes nothing.
#[boxed]
pub async fn find(engine: &Engine, rules: &Rules) -> Result<Vec<Decided>, SessionError> {
    let mut found = Vec::new();
    find_each(engine, rules, &mut |one| found.push(one)).await?;
    Ok(found)
}

/// The same, telling each as it is found.
pub fn find_each<'a>(
    engine: &'a Engine,
    rules: &'a Rules,
    tell: Tell<'a>,
) -> BoxFuture<'a, Result<(), SessionError>> {
    Box::pin(look(engine, rules, tell, false))
}

async fn look(
    engine: &Engine,
    rules: &Rules,
    tell: Tell<'_>,
    commits: bool,
) -> Result<(), SessionError> {
    let of = |state| SessionQuery {
        states: vec![state],
        ..SessionQuery::default()
    };
    let mut queries = vec![of(SessionStateKind::Active)];
    if rules.freshness > Span::ZERO {
        queries.push(of(SessionStateKind::ResumePending));
    }
    if rules.window > Span::ZERO {
        queries.push(SessionQuery {
            seen: true,
            ..SessionQuery::default()
        });
    }
    let (mut lives, now) = (Lives::new(engine.holders()), clock::now());
    for mut query in queries {
        query.limit = Some(PAGE);
        let mut found = Vec::new();
        loop {
            let next = async {
                let page = engine.store().sessions(query.clone()).await?;
                let owners = page.iter().filter_map(Session::owner);
                engine.holders().look_for(owners).await?;
                let last = page.last().map(|session| session.key.clone());
                Ok::<_, StoreError>((last, decide_page(&page, rules, &mut lives, now)))
            };
            // The store commits a page while the next one is read and decided.
            let (settled, next) =
                tokio::join!(settle(engine, rules, found, &mut *tell, commits), next);
            settled?;
            let (last, decided) = next?;
            if last.is_none() {
                break;
            }
            (query.after, found) = (last, decided);
        }
    }
    Ok(())
}

async fn settle(
    engine: &Engine,
    rules: &Rules,
    found: Vec<Found>,
    tell: Tell<'_>,
    commits: bool,
) -> Result<(), SessionError> {
    if commits {
        return commit(engine, rules, found, tell).await;
    }
    found
        .into_iter()
        .for_each(|(from, change)| tell(told(from, change.next)));
    Ok(())
}

type Found = (SessionStateKind, SessionChange);

fn decide_page(page: &[Session], rules: &Rules, lives: &mut Lives<'_>, now: Time) -> Vec<Found> {
    let found = page.iter().filter_map(|session| {
        let change = decide(session, lives.of(session), rules, now)?;
        Some((session.state.kind(), change))
    });
    found.collect()
}

async fn commit(
    engine: &Engine,
    rules: &Rules,
    found: Vec<Found>,
    tell: Tell<'_>,
) -> Result<(), SessionError> {
    if found.is_empty() {
        return Ok(());
    }
    let answers: Vec<Decided> = found
        .iter()
        .map(|(from, change)| told(*from, change.next.clone()))
        .collect();
    let changes = found.into_iter().map(|(_, change)| change).collect();
    let taken = engine
        .store()
        .commit_sessions(changes, clock::now())
        .await?;
    for (answer, taken) in answers.into_iter().zip(taken) {
        match taken {
            true => tell(answer),
            false => once_more(engine, rules, &answer.key)
                .await?
                .into_iter()
                .for_each(&mut *tell),
        }
    }
    Ok(())
}

/// It moved on since the page was read: most likely it ended, or another gateway decided it.
async fn once_more(
    engine: &Engine,
    rules: &Rules,
    key: &SessionKey,
) -> Result<Option<Decided>, StoreError> {
    let Some(session) = engine.store().session(key).await? else {
        return Ok(None);
    };
    engine.holders().look_for(session.owner()).await?;
    let now = clock::now();
    let Some(change) = decide(&session, owner_life(engine, &session), rules, now) else {
        return Ok(None);
    };
    let answer = told(session.state.kind(), change.next.clone());
    // Moved on again: it lives, and the next recovery looks at it.
    let taken = engine.store().commit_sessions(vec![change], now).await?;
    Ok((taken == [true]).then_some(answer))
}

fn told(from: SessionStateKind, next: Session) -> Decided {
    Decided {
        key: next.key,
        session_id: next.session_id,
        generation: next.generation,
        from,
        state: next.state.kind(),
        reason: next.reason.map(|reason| reason.text),
        deaths_in_a_row: next.deaths_in_a_row,
        context: next.context,
    }
}
