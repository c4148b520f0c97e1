//! Redaction in front of the store: what people and programs wrote is redacted before it is
//! decided upon, so that equal requests stay equal and no secret reaches the disk.
//!
//! A name by which work is found again must be the same everywhere, and marks depend on the home and on the
//! caller's environment. A name with a token or a known value is refused; what only looks like a secret in a
//! step's name is replaced by a hash that needs no key.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use relight_core::agent::plain::clipped;
use relight_core::decide::{Observed, TaskEvent};
use relight_core::ids::{IdempotencyKey, NAME_BYTES_MAX, SessionKey, StepName};
use relight_core::lease::Holder;
use relight_core::session::SessionEvent;
use relight_core::step::Output;
use relight_core::task::{CheckpointSettings, NewTask};
use relight_redact::{MarkKey, Redactor, floor_mark_boundary};

use crate::os::random;

const STEP_NAME: &str = "step name";
const IDEMPOTENCY_KEY: &str = "idempotency key";
const RECORD_NAME: &str = "name of a record";
/// The key of marks in names, which are the same in every home.
const NAME_MARK_KEY: MarkKey = MarkKey::new(*b"names are the same in every home");

/// An id that itself looks like a secret cannot be marked and is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {what} looks like it contains a secret and is not written anywhere")]
pub struct SecretName {
    /// Which name.
    pub what: &'static str,
}

impl SecretName {
    /// What to do about a name that could have been redacted if nothing were found by it.
    pub fn hint(&self) -> Option<&'static str> {
        match self.what {
            STEP_NAME => Some(
                "a step is found again by its name, so the name cannot be redacted: name the step \
                 without the value",
            ),
            IDEMPOTENCY_KEY => Some(
                "a task is found again by its key, so the key cannot be redacted: use a key without the \
                 value",
            ),
            _ => None,
        }
    }
}

/// An error may repeat what it was given, such as a name; a secret in it is not sent back.
pub fn without_secrets(text: String) -> String {
    static REDACTOR: LazyLock<Redactor> =
        LazyLock::new(|| Redactor::new(MarkKey::new(random::bytes())));
    match REDACTOR.text(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(redacted) => redacted,
    }
}

/// Refuses an id that the redactor would change.
pub fn check_name(redactor: &Redactor, what: &'static str, text: &str) -> Result<(), SecretName> {
    if redactor.text(text) == text {
        Ok(())
    } else {
        Err(SecretName { what })
    }
}

/// Refuses a step's name that holds a token or a known value. What else looks like a secret there is replaced
/// in the same way in every home and environment.
pub fn settle_step_name(redactor: &Redactor, name: &mut StepName) -> Result<(), SecretName> {
    if matches!(redactor.text(name.as_str()), Cow::Borrowed(_)) {
        return Ok(());
    }
    check_random_name(redactor, STEP_NAME, name.as_str())?;
    *name = hashed_name(redactor, name.as_str());
    Ok(())
}

/// The name without what looks like a secret, and with a hash of all of it, so that different names stay
/// different.
fn hashed_name(redactor: &Redactor, name: &str) -> StepName {
    let hash = &blake3::hash(name.as_bytes()).to_hex()[..12];
    let clean = Redactor::new(NAME_MARK_KEY).text(name).into_owned();
    let end = floor_mark_boundary(&clean, clean.len().min(NAME_BYTES_MAX - 20));
    let told = format!("{} [{hash}]", clean[..end].trim_end());
    let told = match redactor.text(&told) == told {
        true => told,
        false => format!("step [{hash}]"),
    };
    StepName::new(told).expect("a mark and a hash are printable")
}

/// Refuses a declared step whose name would be refused when it begins.
pub fn check_step_name(redactor: &Redactor, name: &StepName) -> Result<(), SecretName> {
    settle_step_name(redactor, &mut name.clone())
}

/// Refuses an idempotency key only if it holds a token or a known value: keys are random by nature.
pub fn check_key(redactor: &Redactor, key: &IdempotencyKey) -> Result<(), SecretName> {
    check_random_name(redactor, IDEMPOTENCY_KEY, key.as_str())
}

/// Refuses the name of a record, likewise.
pub fn check_record_name(redactor: &Redactor, name: &str) -> Result<(), SecretName> {
    check_random_name(redactor, RECORD_NAME, name)
}

/// Refuses a name that programs make only if it holds a token or a known value: its random parts are its
/// own.
fn check_random_name(
    redactor: &Redactor,
    what: &'static str,
    text: &str,
) -> Result<(), SecretName> {
    if redactor.has_token(text) {
        Err(SecretName { what })
    } else {
        Ok(())
    }
}

/// Redacts everything free in a new task; its key and steps were checked (`Engine::check_new`).
pub fn clean_new(redactor: &Redactor, new: &mut NewTask) {
    clean_option(redactor, &mut new.spec.title);
    for step in &mut new.spec.steps {
        clean_step_name(redactor, step);
    }
    keep_first(&mut new.spec.steps);
    // Where a request is JSON, null was not given.
    new.spec.payload.take_if(|payload| payload.is_null());
    if let Some(payload) = &mut new.spec.payload {
        redactor.json(payload);
    }
    clean_pairs(redactor, &mut new.context);
    if let Some(settings) = &mut new.checkpoint {
        clean_checkpoint(redactor, settings);
    }
}

/// A step that is declared twice is one step.
fn keep_first(steps: &mut Vec<StepName>) {
    let mut seen = HashSet::new();
    steps.retain(|step| seen.insert(step.clone()));
}

/// Redacts everything free in an event; the names in it are checked, or are those of the store.
pub fn clean_event(redactor: &Redactor, event: &mut TaskEvent) {
    match event {
        TaskEvent::Set(pairs) => clean_pairs(redactor, pairs),
        TaskEvent::Fail { reason }
        | TaskEvent::Block { reason, .. }
        | TaskEvent::Interrupt { reason, .. } => clean_text(redactor, reason),
        TaskEvent::Defer { reason, .. }
        | TaskEvent::Cancel { reason }
        | TaskEvent::Move { reason, .. } => clean_option(redactor, reason),
        TaskEvent::SetCheckpoint(settings) => clean_checkpoint(redactor, settings),
        TaskEvent::Replace(new) => clean_new(redactor, new),
        TaskEvent::Declare(steps) => keep_first(steps),
        TaskEvent::StepSkip { reason, .. } => clean_text(redactor, reason),
        TaskEvent::StepEnd { output, .. }
        | TaskEvent::Observe(Observed::CallEnded { output, .. }) => {
            if let Some(output) = output {
                clean_output(redactor, output);
            }
        }
        TaskEvent::Observe(Observed::Turn { new, .. }) => clean_new(redactor, new),
        TaskEvent::Observe(Observed::CallBegun { call, .. }) => {
            clean_text(redactor, &mut call.tool);
            clean_text(redactor, &mut call.arguments);
            // A marked path leads nowhere.
            call.file = call
                .file
                .take()
                .filter(|file| redactor.text(&file.path) == file.path);
        }
        TaskEvent::Observe(Observed::Used { readings }) => {
            for (reading, _) in readings {
                clean_text(redactor, &mut reading.source);
            }
        }
        TaskEvent::Note(_, detail) => {
            redactor.json(detail);
        }
        TaskEvent::Recover(recovery) => {
            clean_text(redactor, &mut recovery.death.reason);
            clean_option(redactor, &mut recovery.reason);
            clean_option(redactor, &mut recovery.trouble);
        }
        TaskEvent::Start { .. }
        | TaskEvent::StepBegin { .. }
        | TaskEvent::StepResolve { .. }
        | TaskEvent::Spend(_)
        | TaskEvent::Assign { .. }
        | TaskEvent::Claim { .. }
        | TaskEvent::Review
        | TaskEvent::Done { .. }
        | TaskEvent::Retry { .. }
        | TaskEvent::Restart { .. }
        | TaskEvent::Release { .. } => {}
    }
}

/// Redacts everything free in an event of a session, and refuses names that would have to be.
pub fn clean_session_event(
    redactor: &Redactor,
    key: &SessionKey,
    event: &mut SessionEvent,
) -> Result<(), SecretName> {
    check_random_name(redactor, "session key", key.as_str())?;
    match event {
        SessionEvent::Begin {
            session_id,
            context,
            owner,
            ..
        } => {
            clean_pairs(redactor, context);
            clean_owner(redactor, owner);
            check_random_name(redactor, "session id", session_id.as_str())
        }
        SessionEvent::Import {
            session_id, owner, ..
        } => {
            if let Some((owner, _)) = owner {
                clean_owner(redactor, owner);
            }
            check_random_name(redactor, "session id", session_id.as_str())
        }
        SessionEvent::Touch { session_id, by, .. } => {
            clean_owner(redactor, by);
            check_random_name(redactor, "session id", session_id.as_str())
        }
        SessionEvent::Suspend { reason } => {
            clean_option(redactor, reason);
            Ok(())
        }
        SessionEvent::End { .. }
        | SessionEvent::Renew { .. }
        | SessionEvent::Discard { .. }
        | SessionEvent::Settle
        | SessionEvent::Resume
        | SessionEvent::Clear => Ok(()),
    }
}

/// Redacts the free text by which a lease by time names its owner.
fn clean_owner(redactor: &Redactor, owner: &mut Holder) {
    if let Holder::Time { by } = owner {
        *by = redactor.text(by).into_owned();
    }
}

/// Redacts the key in a file of another program, where it would be refused here.
pub(crate) fn clean_key(redactor: &Redactor, key: &mut IdempotencyKey) {
    if check_key(redactor, key).is_err() {
        let clean = fitting(redactor, redactor.text(key.as_str()).into_owned());
        *key = IdempotencyKey::new(clean).expect("a mark is printable");
    }
}

/// Redacts what a step gave.
pub fn clean_output(redactor: &Redactor, output: &mut Output) {
    if let Cow::Owned(clean) = redactor.bytes(&output.body) {
        output.body = clean;
        output.redacted = true;
    }
    if let Cow::Owned(clean) = redactor.text(&output.stderr) {
        output.stderr = clean;
        output.redacted = true;
    }
}

/// The same for a name in a file of another program, which cannot be refused.
pub(crate) fn clean_step_name(redactor: &Redactor, name: &mut StepName) {
    if settle_step_name(redactor, name).is_err() {
        let clean = fitting(redactor, redactor.text(name.as_str()).into_owned());
        *name = StepName::new(clean).expect("a mark is printable");
    }
}

/// A mark may be longer than what it stands for; a name that grew too long keeps its beginning and a
/// hash of the whole.
fn fitting(redactor: &Redactor, name: String) -> String {
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    let hash = &blake3::hash(name.as_bytes()).to_hex()[..16];
    let end = floor_mark_boundary(&name, NAME_BYTES_MAX - 20);
    let short = format!("{} {hash}", name[..end].trim_end());
    // Behind the word before it the hash may look like a secret.
    match redactor.text(&short) == short {
        true => short,
        false => hash.to_owned(),
    }
}

/// [`clipped`] of a text that is redacted and will be again, as part of another one: a mark is whole in it, or
/// left out.
pub(crate) fn clipped_clean(text: &str, bytes_max: usize) -> String {
    const SIGN_BYTES: usize = "…".len();
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = floor_mark_boundary(text, bytes_max.saturating_sub(SIGN_BYTES));
    clipped(text, end + SIGN_BYTES)
}

fn clean_checkpoint(redactor: &Redactor, settings: &mut CheckpointSettings) {
    clean_option(redactor, &mut settings.notes);
    clean_option(redactor, &mut settings.handoff_to);
}

pub(crate) fn clean_pairs(redactor: &Redactor, pairs: &mut BTreeMap<String, String>) {
    let clean = pairs.iter().map(|(key, value)| {
        (
            redactor.text(key).into_owned(),
            redactor.pair(key, value).into_owned(),
        )
    });
    *pairs = clean.collect();
}

fn clean_option(redactor: &Redactor, text: &mut Option<String>) {
    if let Some(text) = text {
        clean_text(redactor, text);
    }
}

fn clean_text(redactor: &Redactor, text: &mut String) {
    if let Cow::Owned(clean) = redactor.text(text) {
        *text = clean;
    }
}
