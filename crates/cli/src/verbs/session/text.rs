//! Sessions for people.

use relight_runtime::operations::session::SessionView;
use relight_runtime::os::clock;

use crate::output;

pub(super) fn show_text(session: &SessionView) -> String {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            rows.push(vec![name.to_owned(), value]);
        }
    };
    row("session", Some(session.key.to_string()));
    row("state", Some(state_text(session)));
    row("reason", session.reason.clone());
    row("id", Some(session.session_id.to_string()));
    row(
        "generation",
        Some(format!(
            "{} (ended: {})",
            session.generation, session.finished
        )),
    );
    row(
        "owner",
        session
            .owner
            .as_ref()
            .map(|owner| format!("{} since {}", owner.text, owner.since)),
    );
    row(
        "owner deaths",
        (session.deaths_in_a_row > 0).then(|| session.deaths_in_a_row.to_string()),
    );
    row(
        "fresh until",
        session.fresh_until.map(|until| until.to_string()),
    );
    row("updated", Some(ago(session)));
    for (key, value) in &session.context {
        row("context", Some(format!("{key}={value}")));
    }
    output::facts(&rows)
}

pub(super) fn list_text(sessions: &[SessionView]) -> String {
    if sessions.is_empty() {
        return "no sessions; relight session begin KEY --id ID begins one".to_owned();
    }
    let header = [
        "session",
        "state",
        "id",
        "generation",
        "owner",
        "updated",
        "reason",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for session in sessions {
        rows.push(vec![
            session.key.to_string(),
            state_text(session),
            session.session_id.to_string(),
            session.generation.to_string(),
            session
                .owner
                .as_ref()
                .map_or_else(|| "–".to_owned(), |owner| owner.text.clone()),
            ago(session),
            session.reason.clone().unwrap_or_default(),
        ]);
    }
    output::table(&rows)
}

/// Nothing is called active whose owner is gone.
fn state_text(session: &SessionView) -> String {
    let is_lost = session.owner.as_ref().is_some_and(|owner| !owner.alive);
    if is_lost {
        format!("{} (owner gone)", session.state)
    } else {
        session.state.to_string()
    }
}

fn ago(session: &SessionView) -> String {
    format!("{} ago", clock::now().since(session.updated_at))
}
