//! `relight store copy`.

use relight_core::error_code::with_causes;
use relight_core::session::SessionStateKind;
use relight_runtime::store_url::StoreUrl;
use relight_store::sqlite::Use;
use relight_store::transfer::{self, Copied, CopyError};
use relight_store::{AgentQuery, SessionQuery, Store, StoreError, TaskQuery};
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use super::super::progress::Bar;
use super::{parse, rows, sums, tell_damage};
use crate::arguments::store::CopyArguments;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{block_on, output, terminal_filter};

pub(super) fn run(environment: &Environment, arguments: &CopyArguments) -> Outcome {
    let (from_url, to_url) = (parse(&arguments.from)?, parse(&arguments.to)?);
    let begun = Instant::now();
    let mut from = from_url.exporter()?;
    if let StoreUrl::Sqlite(path) = &to_url
        && path
            .canonicalize()
            .is_ok_and(|path| from.place() == format!("sqlite:{}", path.display()))
    {
        return Err(CopyError::Same(from.place()).into());
    }
    let held = block_on(held(&from_url))?;
    held.warn(environment);
    let mut to = to_url.importer()?;
    let mut bar = Bar::new(environment);
    let copied = block_on(transfer::copy(
        from.as_mut(),
        to.as_mut(),
        &mut |progress| bar.tell(progress),
    ));
    bar.end();
    let copied = copied?;
    let (from, to) = (from.place(), to.place());
    if environment.json {
        output::json(&json!({
            "from": from,
            "to": to,
            "went_on": copied.went_on,
            "tables": copied.tables,
            "rows": rows(&copied.tables),
            "hash": copied.hash,
            "copied_anew": copied.anew.iter().map(|table| table.name()).collect::<Vec<_>>(),
            "written_meanwhile": copied.written_meanwhile,
            "held": held,
            "damage": copied.damage,
            "ms": begun.elapsed().as_millis() as u64,
        }));
    } else {
        tell(environment, &from, &to, &copied);
    }
    tell_damage(environment, &copied.damage);
    Ok(if copied.damage.count == 0 {
        0
    } else {
        Exit::Data as u8
    })
}

fn tell(environment: &Environment, from: &str, to: &str, copied: &Copied) {
    if !environment.quiet {
        output::line(&sums(&copied.tables, &copied.hash));
        let text = format!("\n{from}\nis copied into\n{to}\nand was read back: the same rows");
        output::line(&terminal_filter::clean(&text));
    }
    let meanwhile = copied.written_meanwhile;
    if meanwhile > 0 {
        let text =
            format!("{meanwhile} events were written to {from} meanwhile and are not in {to}");
        output::alert(&terminal_filter::clean(&text));
    }
}

/// What somebody holds in a store that is copied.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Held {
    agents: usize,
    tasks: usize,
    sessions: usize,
    nodes: usize,
}

async fn held(url: &StoreUrl) -> Result<Held, StoreError> {
    let store = url.open(Use::Short)?;
    let store: &dyn Store = store.as_ref();
    let agents = store.agents(AgentQuery::default()).await?;
    let tasks = TaskQuery {
        held: true,
        ..TaskQuery::default()
    };
    let active = vec![SessionStateKind::Active];
    let sessions = SessionQuery {
        states: active,
        ..SessionQuery::default()
    };
    Ok(Held {
        agents: agents
            .iter()
            .filter(|agent| agent.lease.held.is_some())
            .count(),
        tasks: store.tasks(tasks).await?.len(),
        sessions: store.sessions(sessions).await?.len(),
        nodes: store
            .nodes()
            .await?
            .iter()
            .filter(|node| node.is_live())
            .count(),
    })
}

impl Held {
    /// Whoever holds something goes on with the first store, and nobody tells it.
    fn warn(&self, environment: &Environment) {
        if *self == Self::default() {
            return;
        }
        let counts = [
            (self.agents, "agents"),
            (self.tasks, "tasks"),
            (self.sessions, "sessions"),
            (self.nodes, "live nodes"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts
            .map(|(count, what)| format!("{what}: {count}"))
            .collect();
        let text = format!(
            "FROM is in use, or was left in use ({}): to continue with TO, first stop what runs with \
             relight down, and recover what nobody holds any more with relight recover",
            counts.join(", ")
        );
        output::note(environment, &text);
    }
}

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Self {
        let failure = |exit| Self::new(exit, with_causes(&error));
        match &error {
            CopyError::Store(error) => error.clone().into(),
            CopyError::Same(_) => failure(Exit::Usage).hint("name another store to copy into"),
            CopyError::NotEmpty { .. } => failure(Exit::No)
                .hint("copy into a new file, or into another schema: postgres://…?schema=NAME"),
            CopyError::OtherSource { from, .. } => failure(Exit::Busy).hint(format!(
                "relight store copy {from} TO continues it; or remove the half and begin anew"
            )),
            CopyError::Unkept { .. } => failure(Exit::Data),
            CopyError::TakenOver(_) => failure(Exit::Busy).hint("let the other one finish"),
            CopyError::Differs { .. } => failure(Exit::Data)
                .hint("is TO's disk in order? remove what was copied and begin anew"),
        }
    }
}
