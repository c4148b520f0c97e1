//! Sessions for people.

use relight_core::lease::HolderLife;
use relight_core::session::{Session, SessionState, SessionStateKind};
use relight_runtime::os::clock;
use relight_runtime::sessions::owner_life;

use crate::output;

pub(super) fn show_text(session: &Session) -> String {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            rows.push(vec![name.to_owned(), value]);
        }
    };
    row("session", Some(session.key.to_string()));
    row("state", Some(state_text(session)));
    row("reason", session.reason.as_ref().map(|reason| reason.text.clone()));
    row("id", Some(session.session_id.to_string()));
    row("turn", Some(format!("{} (ended: {})", session.generation, session.finished)));
    row("owner", session.owner().map(|held| format!("{} since {}", held.holder, held.since)));
    row("owner deaths", (session.deaths_in_a_row > 0).then(|| session.deaths_in_a_row.to_string()));
    if let SessionState::ResumePending { fresh_until: Some(until), .. } = session.state {
        row("fresh until", Some(until.to_string()));
    }
    row("updated", Some(ago(session)));
    for (key, value) in &session.context {
        row("context", Some(format!("{key}={value}")));
    }
    output::table(&rows)
}

pub(super) fn list_text(sessions: &[Session]) -> String {
    if sessions.is_empty() {
        return "no sessions; relight session begin KEY --id ID begins one".to_owned();
    }
    let header = ["session", "state", "id", "turn", "owner", "updated", "reason"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for session in sessions {
        rows.push(vec![
            session.key.to_string(),
            state_text(session),
            session.session_id.to_string(),
            session.generation.to_string(),
            session.owner().map_or_else(|| "–".to_owned(), |held| held.holder.to_string()),
            ago(session),
            session.reason.as_ref().map(|reason| reason.text.clone()).unwrap_or_default(),
        ]);
    }
    output::table(&rows)
}

/// Nothing is called active whose owner is gone.
fn state_text(session: &Session) -> String {
    let state = session.state_at(clock::now());
    let is_lost = state == SessionStateKind::Active && owner_life(session) == HolderLife::Gone;
    if is_lost { format!("{state} (owner gone)") } else { state.to_string() }
}

fn ago(session: &Session) -> String {
    format!("{} ago", clock::now().since(session.updated_at))
}
