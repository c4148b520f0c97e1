//! The verbs of a session: one request, one function, one answer, the same for every front.

#![expect(missing_docs, reason = "the fields are those of the documented JSON")]

use std::collections::BTreeMap;

use async_trait::async_trait;
use relight_core::ids::{OwnerName, SessionId, SessionKey};
use relight_core::lease::{Holder, LEASE_DEFAULT, of_length};
use relight_core::session::{self, Generation, Policy, Rules, SessionEvent, SessionStateKind};
use relight_core::session::{SessionState, Suspender};
use relight_core::time::{Span, Time};
use relight_store::{Rows, SessionQuery};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::fields;
use super::view::{HeldBy, List, cut, told};
use crate::boxed::boxed;
use crate::engine::Engine;
use crate::holders::Holders;
use crate::os::{clock, process};
use crate::sessions::{self, Decided, Owner, SessionError, SessionOutcome};

/// Who calls.
#[derive(Debug, Clone)]
pub struct SessionCaller {
    /// Owns marks that name no other owner.
    pub owner: Holder,
    /// It is on this machine: the pids that it names are of processes here.
    pub is_local: bool,
}

impl SessionCaller {
    /// Whose life a mark follows, and how long it lasts after each renewal.
    fn owner(
        &self,
        named: Option<OwnerName>,
        pid: Option<u32>,
        lease: Option<Span>,
    ) -> Result<(Holder, Option<Span>), SessionError> {
        if let Some(pid) = pid {
            if named.is_some() || lease.is_some() {
                return Err(invalid(
                    "owner_pid stands alone, without owner and lease",
                    None,
                ));
            }
            self.check_local()?;
            let found = process::identity(pid).ok_or_else(|| {
                let hint = "owner_pid takes the pid of a live process; in a shell that is $$";
                invalid(&format!("there is no process {pid}"), Some(hint))
            })?;
            let holder = match self.owner.clone() {
                Holder::Attempt { attempt, shim, .. } => Holder::Attempt {
                    attempt,
                    shim,
                    process: Some(found),
                },
                Holder::Process(_) | Holder::Time { .. } => Holder::Process(found),
            };
            return Ok((holder, None));
        }
        let lease = lease.map(of_length).transpose();
        let lease = lease.map_err(|error| invalid(&error.to_string(), None))?;
        let holder = self.named(named);
        let ttl = match holder {
            Holder::Time { .. } => Some(lease.unwrap_or(LEASE_DEFAULT)),
            Holder::Attempt { .. } | Holder::Process(_) => lease,
        };
        Ok((holder, ttl))
    }

    /// What an attempt holds ends with it, whatever it calls itself.
    fn named(&self, owner: Option<OwnerName>) -> Holder {
        match (&self.owner, owner) {
            (Holder::Process(_) | Holder::Time { .. }, Some(owner)) => Holder::over_http(owner),
            (holder, _) => holder.clone(),
        }
    }

    fn check_local(&self) -> Result<(), SessionError> {
        if self.is_local {
            return Ok(());
        }
        let hint = "give owner and lease instead, or call the socket of the daemon on that machine";
        Err(invalid(
            "owner_pid is only for callers of the Unix socket",
            Some(hint),
        ))
    }
}

fn invalid(message: &str, hint: Option<&str>) -> SessionError {
    SessionError::Invalid {
        message: message.to_owned(),
        hint: hint.map(str::to_owned),
    }
}

/// A verb of sessions.
#[async_trait]
pub trait SessionOperation: serde::de::DeserializeOwned + Send {
    /// What it answers.
    type Answer: Serialize + Send;

    /// Checks it and does it.
    async fn run(
        self,
        engine: &Engine,
        caller: &SessionCaller,
    ) -> Result<Self::Answer, SessionError>;
}

request! {
    /// A turn that is about to run.
    session SessionBegin {
        /// The agent's own id of the conversation.
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        pub id: SessionId,
        /// The owner of the turn, such as the gateway's name. Default: the caller. A new turn of the same
        /// owner replaces its last one.
        #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
        pub owner: Option<OwnerName>,
        /// The process that runs the turn: the mark lasts for as long as it lives. Over the socket only.
        pub owner_pid: Option<u32>,
        /// How long the mark lasts; `touch` with the generation renews it. Default: `10m`. Not with
        /// `owner_pid`.
        #[serde(default, deserialize_with = "fields::optional_text")]
        #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
        pub lease: Option<Span>,
        /// Context for resuming it, added to what is there.
        #[serde(default, deserialize_with = "fields::context")]
        pub set: BTreeMap<String, String>,
    }
}

#[async_trait]
impl SessionOperation for SessionBegin {
    type Answer = BegunTurn;

    async fn run(self, engine: &Engine, caller: &SessionCaller) -> Result<BegunTurn, SessionError> {
        let (owner, ttl) = caller.owner(self.owner, self.owner_pid, self.lease)?;
        let event = SessionEvent::Begin {
            session_id: self.id,
            owner,
            ttl,
            context: self.set,
        };
        Ok(sessions::act(engine, &self.key, event).await?.into())
    }
}

request! {
    /// The number of a turn.
    session SessionEnd {
        #[serde(deserialize_with = "fields::number")]
        pub generation: u64,
    }
}

#[async_trait]
impl SessionOperation for SessionEnd {
    type Answer = EndedTurn;

    async fn run(self, engine: &Engine, _: &SessionCaller) -> Result<EndedTurn, SessionError> {
        let generation = Generation(self.generation);
        let acted = sessions::act(engine, &self.key, SessionEvent::End { generation }).await?;
        let state = acted.after.state.kind();
        Ok(EndedTurn {
            key: self.key,
            generation,
            state,
            ended_before: !acted.changed,
        })
    }
}

request! {
    /// Activity in a session: renews the mark of a turn, or is recorded if turns are not marked.
    session SessionTouch {
        /// The agent's own id of the conversation, of a session whose turns are not marked.
        #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
        pub id: Option<SessionId>,
        /// The turn whose mark is renewed, as `begin` answered.
        #[serde(default, deserialize_with = "fields::optional_number")]
        pub generation: Option<u64>,
        /// The gateway that saw it: its clean shutdown forgets that. Default: the caller.
        #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
        pub owner: Option<OwnerName>,
        /// The same as a process. Over the socket only.
        pub owner_pid: Option<u32>,
    }
}

#[async_trait]
impl SessionOperation for SessionTouch {
    type Answer = SessionView;

    async fn run(
        self,
        engine: &Engine,
        caller: &SessionCaller,
    ) -> Result<SessionView, SessionError> {
        let names_owner = self.owner.is_some() || self.owner_pid.is_some();
        let event = match (self.id, self.generation) {
            (id, Some(_)) if id.is_some() || names_owner => {
                let hint = "a turn is renewed by its generation only";
                return Err(invalid("give generation without id and owner", Some(hint)));
            }
            (_, Some(generation)) => SessionEvent::Renew {
                generation: Generation(generation),
            },
            (Some(session_id), None) => {
                let (by, _) = caller.owner(self.owner, self.owner_pid, None)?;
                SessionEvent::Touch {
                    session_id,
                    at: clock::now(),
                    by,
                }
            }
            (None, None) => {
                let hint = "id for a session without marks, generation to renew the mark of a turn";
                return Err(invalid("give id or generation", Some(hint)));
            }
        };
        let acted = sessions::act(engine, &self.key, event).await?;
        Ok(SessionView::at(acted.after, clock::now(), engine.holders()))
    }
}

request! {
    /// Lets a session continue.
    session SessionResume {}
}

request! {
    /// Suspends a session.
    session SessionSuspend {
        pub reason: Option<String>,
    }
}

request! {
    /// Clears a session's mark, reason, deaths and context.
    session SessionClear {}
}

#[async_trait]
impl SessionOperation for SessionResume {
    type Answer = ChangedSession;

    async fn run(self, engine: &Engine, _: &SessionCaller) -> Result<ChangedSession, SessionError> {
        changed(engine, &self.key, SessionEvent::Resume).await
    }
}

#[async_trait]
impl SessionOperation for SessionSuspend {
    type Answer = ChangedSession;

    async fn run(self, engine: &Engine, _: &SessionCaller) -> Result<ChangedSession, SessionError> {
        changed(
            engine,
            &self.key,
            SessionEvent::Suspend {
                reason: self.reason,
            },
        )
        .await
    }
}

#[async_trait]
impl SessionOperation for SessionClear {
    type Answer = ChangedSession;

    async fn run(self, engine: &Engine, _: &SessionCaller) -> Result<ChangedSession, SessionError> {
        changed(engine, &self.key, SessionEvent::Clear).await
    }
}

async fn changed(
    engine: &Engine,
    key: &SessionKey,
    event: SessionEvent,
) -> Result<ChangedSession, SessionError> {
    let acted: SessionOutcome = sessions::act(engine, key, event).await?;
    let previous_state = acted.previous_state();
    let at = acted.after.updated_at;
    Ok(ChangedSession {
        session: SessionView::at(acted.after, at, engine.holders()),
        previous_state,
    })
}

/// Shows one session.
#[boxed]
pub async fn show(engine: &Engine, key: &SessionKey) -> Result<SessionView, SessionError> {
    Ok(SessionView::at(
        sessions::session(engine, key).await?,
        clock::now(),
        engine.holders(),
    ))
}

/// Lists sessions in the order of their keys.
#[boxed]
pub async fn list(
    engine: &Engine,
    states: Vec<SessionStateKind>,
    after: Option<SessionKey>,
    limit: usize,
) -> Result<List<SessionView>, SessionError> {
    let query = SessionQuery {
        states,
        seen: false,
        after,
        limit: Some(limit.saturating_add(1)),
    };
    let store = engine.store();
    let mut found = store.sessions(query.clone()).await?;
    let unreadable = store.unreadable(Rows::Sessions(query)).await?;
    let next = cut(&mut found, &unreadable, limit, |session| {
        session.key.to_string()
    });
    let owners = found.iter().filter_map(session::Session::owner);
    engine.holders().look_for(owners).await?;
    let now = clock::now();
    let items = found
        .into_iter()
        .map(|session| SessionView::at(session, now, engine.holders()))
        .collect();
    Ok(List {
        items,
        next,
        unreadable: told(&unreadable),
    })
}

/// Whose marks a clean shutdown discards.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionShutdown {
    /// The owner given when the turns began; default: the caller.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub owner: Option<OwnerName>,
    /// A process of this machine, even if it is already gone. Over the socket only.
    pub owner_pid: Option<u32>,
}

#[async_trait]
impl SessionOperation for SessionShutdown {
    type Answer = Discarded;

    async fn run(self, engine: &Engine, caller: &SessionCaller) -> Result<Discarded, SessionError> {
        let owner = match self.owner_pid {
            Some(pid) => {
                caller.check_local()?;
                Owner::process(pid)
            }
            None => Owner::Holder(caller.named(self.owner)),
        };
        Ok(Discarded {
            discarded: sessions::shutdown(engine, &owner).await?,
        })
    }
}

/// How sessions are recovered. Default for omitted fields: the configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionRecover {
    /// `suspend` or `resume_pending`.
    #[serde(default, deserialize_with = "fields::optional_text")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub policy: Option<Policy>,
    /// How recently a session that was never marked must have been active; `0s` finds none.
    #[serde(default, deserialize_with = "fields::optional_text")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub window: Option<Span>,
    /// How long a `resume_pending` one may wait to be resumed; `0s` for no limit.
    #[serde(default, deserialize_with = "fields::optional_text")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub freshness: Option<Span>,
    /// Only say what would be decided.
    #[serde(default)]
    pub dry_run: bool,
}

impl SessionRecover {
    /// Decides what happens to each session whose turn was cut off, and returns them.
    #[boxed]
    pub async fn run(
        self,
        engine: &Engine,
        configured: Rules,
    ) -> Result<RecoveredSessions, SessionError> {
        let rules = configured.with(self.policy, self.freshness, self.window);
        let items = match self.dry_run {
            true => sessions::find(engine, &rules).await?,
            false => sessions::recover(engine, &rules).await?,
        };
        Ok(RecoveredSessions {
            dry_run: self.dry_run,
            policy: rules.policy,
            items,
            next: None,
        })
    }
}

/// One conversation, with the turn that is in flight or was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Session))]
pub struct SessionView {
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub key: SessionKey,
    /// `idle`, `active`, `resume_pending`, `suspended` or `expired`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub state: SessionStateKind,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub session_id: SessionId,
    /// Number of the newest turn.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub generation: Generation,
    /// Number of the newest turn that ended regularly.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub finished: Generation,
    /// The owner of the turn in flight.
    pub owner: Option<HeldBy>,
    pub reason: Option<String>,
    /// Owners that died in a turn since the last finished turn.
    pub deaths_in_a_row: u32,
    /// Context for resuming it.
    pub context: BTreeMap<String, String>,
    /// Start of the current state.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub since: Time,
    /// When its turn was found to be cut off.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub discovered_at: Option<Time>,
    /// After this time it expires; null for no limit.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub fresh_until: Option<Time>,
    /// What suspended it: `person`, `policy` or `limit`.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub suspended_by: Option<Suspender>,
    /// Last activity, if none of its turns was ever marked.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub seen_at: Option<Time>,
    /// Number of its commits.
    pub seq: u64,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub created_at: Time,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub updated_at: Time,
}

impl SessionView {
    /// As it stands at this moment. Call `Holders::look_for` first.
    fn at(session: session::Session, now: Time, holders: &Holders) -> Self {
        let (mut discovered_at, mut fresh_until, mut suspended_by) = (None, None, None);
        match &session.state {
            SessionState::Suspended { by, .. } => suspended_by = Some(*by),
            SessionState::Expired {
                discovered_at: at, ..
            } => discovered_at = Some(*at),
            SessionState::ResumePending {
                discovered_at: at,
                fresh_until: until,
            } => {
                (discovered_at, fresh_until) = (Some(*at), *until);
            }
            SessionState::Active { .. } | SessionState::Idle => {}
        }
        Self {
            state: session.state_at(now),
            owner: session.owner().map(|held| HeldBy::new(held, holders)),
            since: session.since(),
            key: session.key,
            session_id: session.session_id,
            generation: session.generation,
            finished: session.finished,
            reason: session.reason.map(|reason| reason.text),
            deaths_in_a_row: session.deaths_in_a_row,
            context: session.context,
            discovered_at,
            fresh_until,
            suspended_by,
            seen_at: session.seen_at,
            seq: session.seq,
            created_at: session.created_at,
            updated_at: session.updated_at,
        }
    }
}

/// A session after it was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangedSession {
    #[serde(flatten)]
    pub session: SessionView,
    /// What it was before.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub previous_state: Option<SessionStateKind>,
}

/// A turn that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BegunTurn {
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub key: SessionKey,
    /// The turn's number: its end names it.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub generation: Generation,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub session_id: SessionId,
    /// The previous turn did not end.
    pub resumed: bool,
    /// What the session was before; null if it is new.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub previous_state: Option<SessionStateKind>,
    pub reason: Option<String>,
    /// How many owners died in a turn of it since one was finished.
    pub deaths_in_a_row: u32,
    /// Values that its successor needs.
    pub context: BTreeMap<String, String>,
}

impl From<SessionOutcome> for BegunTurn {
    fn from(acted: SessionOutcome) -> Self {
        let (resumed, previous_state) = (acted.was_cut_off(), acted.previous_state());
        let session = acted.after;
        Self {
            key: session.key,
            generation: session.generation,
            session_id: session.session_id,
            resumed,
            previous_state,
            reason: session.reason.map(|reason| reason.text),
            deaths_in_a_row: session.deaths_in_a_row,
            context: session.context,
        }
    }
}

/// Marks that another gateway kept in a file of its own (`agent_checkpoints.json`), to be taken in.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionImport {
    /// The content of the file.
    #[serde(deserialize_with = "marks_as_text")]
    pub marks: Vec<u8>,
    /// Whose turns they are; nobody's who lives when none. Over the socket only.
    pub owner_pid: Option<u32>,
}

fn marks_as_text<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    Ok(Value::deserialize(from)?.to_string().into_bytes())
}

/// What became of the marks of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportedSessions {
    /// Sessions whose turn is in flight by the file.
    pub imported: Vec<SessionKey>,
    /// Those that the store has as the file does.
    pub same: Vec<SessionKey>,
    /// Those that were left as they are.
    pub refused: Vec<UnusedMark>,
    /// Marks that make no sense.
    pub damaged: Vec<UnusedMark>,
}

/// A mark that was not taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnusedMark {
    /// As the file has it.
    pub key: String,
    pub reason: String,
}

#[async_trait]
impl SessionOperation for SessionImport {
    type Answer = ImportedSessions;

    async fn run(
        self,
        engine: &Engine,
        caller: &SessionCaller,
    ) -> Result<ImportedSessions, SessionError> {
        let owner = match self.owner_pid {
            Some(pid) => Some(caller.owner(None, Some(pid), None)?),
            None => None,
        };
        let marks = session::read_marks(&self.marks).map_err(SessionError::Damaged)?;
        let damaged = marks.damaged.clone().into_iter();
        let damaged = damaged.map(|(key, reason)| UnusedMark { key, reason });
        let done = sessions::import(engine, marks, owner).await?;
        let refused = done.refused.into_iter().map(|(key, why)| UnusedMark {
            key: key.to_string(),
            reason: why.to_string(),
        });
        Ok(ImportedSessions {
            imported: done.imported,
            same: done.same,
            refused: refused.collect(),
            damaged: damaged.collect(),
        })
    }
}

/// The turns in flight, as other gateways keep them in `agent_checkpoints.json`: how many, and the text of the
/// file.
#[boxed]
pub async fn export(engine: &Engine) -> Result<(usize, String), SessionError> {
    let in_flight = sessions::in_flight(engine).await?;
    Ok((in_flight.len(), session::write_marks(&in_flight)))
}

/// A turn that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EndedTurn {
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub key: SessionKey,
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub generation: Generation,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub state: SessionStateKind,
    /// It had ended before.
    pub ended_before: bool,
}

/// What recovery decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RecoveredSessions {
    pub dry_run: bool,
    /// `suspend` or `resume_pending`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub policy: Policy,
    pub items: Vec<Decided>,
    /// Always null: the answer has all of them.
    pub next: Option<String>,
}

/// The marks that a clean shutdown discarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Discarded {
    /// Keys of sessions.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub discarded: Vec<SessionKey>,
}
