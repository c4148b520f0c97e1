//! The store: where it is, how it is set, what it holds, whether it is whole.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use relight_core::time::Span;
use relight_runtime::drain;
use relight_runtime::holders::Holders;
use relight_runtime::operations::needs::{give_skill, tasks_without_agent};
use relight_runtime::os::clock;
use relight_runtime::store_url::StoreUrl;
use relight_store::sqlite::Use;
use relight_store::{EventQuery, Inventory, Store, StoreError, TaskQuery};
use rustix::fs::Access;

use super::finding::DoctorFinding;
use super::machine::quoted;
use super::{agents, fleet, standbys, waiting};
use crate::block_on;
use crate::environment::Environment;
use crate::exit::{A_HOME_OF_YOUR_OWN, Exit, Failure};

/// What the next writes need.
const FREE_BYTES_MIN: u64 = 64 << 20;
/// Clocks of one machine differ by less.
const CLOCK_SLACK: Span = Span::from_secs(60);
const NAMED_MAX: usize = 5;

/// The findings, and the exit code that they lead to.
pub(super) fn look(environment: &Environment, whole: bool) -> (Vec<DoctorFinding>, u8) {
    let open = || environment.open_store(Use::Short);
    if environment.relay().is_some() {
        return look_at(open, whole, Vec::new());
    }
    let path = match environment.store_url() {
        Ok(StoreUrl::Sqlite(path)) => path,
        Ok(StoreUrl::Postgres(_)) => return look_at(open, whole, Vec::new()),
        Ok(StoreUrl::Memory) => {
            let text = "memory: keeps nothing past the end of a command";
            return (vec![DoctorFinding::warning("store", text)], 0);
        }
        Err(failure) => return (vec![as_finding(&failure)], failure.exit as u8),
    };
    if is_absent(&path) {
        return absent(&path);
    }
    let mut findings = vec![room(&path)];
    findings.extend(rights(&path));
    look_at(open, whole, findings)
}

/// What is inside, after what was found outside.
fn look_at(
    open: impl FnOnce() -> Result<Arc<dyn Store>, Failure>,
    whole: bool,
    mut findings: Vec<DoctorFinding>,
) -> (Vec<DoctorFinding>, u8) {
    let exit = match inventory(open, whole) {
        Ok((store, inventory)) => {
            findings.extend(describe(&inventory, whole));
            let looked = block_on(look_inside(&store, inventory.in_doubt));
            let exit_if_whole = match looked {
                Ok(more) => {
                    findings.extend(more);
                    findings.extend(block_on(waiting::look(&store)));
                    0
                }
                Err(error) => {
                    let failure = Failure::from(error);
                    findings.push(as_finding(&failure));
                    failure.exit as u8
                }
            };
            if inventory.damage.is_empty() {
                exit_if_whole
            } else {
                Exit::Data as u8
            }
        }
        Err(failure) => {
            findings.push(as_finding(&failure));
            failure.exit as u8
        }
    };
    (findings, exit)
}

fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Opening would make one; a doctor does not.
fn absent(path: &Path) -> (Vec<DoctorFinding>, u8) {
    let log = with_suffix(path, "-wal");
    if fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
        let text = format!("{} is gone, but its log (-wal) is there", path.display());
        let finding = DoctorFinding::problem("store", text).hint(format!(
            "bring it back from where it went, or move {} away",
            quoted(&log)
        ));
        return (vec![finding], Exit::Data as u8);
    }
    let existing = path.ancestors().skip(1).find(|folder| folder.exists());
    let folder = existing.unwrap_or(Path::new("."));
    match rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => {
            let text = format!(
                "{} is not there yet; the first write makes it",
                path.display()
            );
            (vec![DoctorFinding::ok("store", text)], 0)
        }
        Err(error) => {
            let text = format!(
                "{} cannot be made in {}: {error}",
                path.display(),
                folder.display()
            );
            let finding = DoctorFinding::problem("store", text).hint(A_HOME_OF_YOUR_OWN);
            (vec![finding], Exit::Io as u8)
        }
    }
}

fn inventory(
    open: impl FnOnce() -> Result<Arc<dyn Store>, Failure>,
    whole: bool,
) -> Result<(Arc<dyn Store>, Inventory), Failure> {
    let store = open()?;
    let inventory = block_on(store.inventory(whole))?;
    Ok((store, inventory))
}

fn as_finding(failure: &Failure) -> DoctorFinding {
    let finding = DoctorFinding::problem("store", failure.message.clone());
    match &failure.hint {
        Some(hint) => finding.hint(hint.clone()),
        None => finding,
    }
}

fn describe(inventory: &Inventory, whole: bool) -> Vec<DoctorFinding> {
    let mut findings = vec![
        DoctorFinding::ok("backend", inventory.backend.clone()),
        DoctorFinding::ok(
            "store",
            format!(
                "{} (schema {}, {} bytes, {} events)",
                inventory.place, inventory.schema, inventory.bytes, inventory.events
            ),
        ),
        durability(inventory),
    ];
    findings.extend(inventory.replication.as_ref().map(standbys::describe));
    findings.extend([
        counted("tasks", &inventory.tasks),
        counted("agents", &inventory.agents),
        counted("sessions", &inventory.sessions),
    ]);
    for damage in &inventory.damage {
        findings.push(
            DoctorFinding::problem("damage", damage.clone()).hint("relight doctor --salvage"),
        );
    }
    if inventory.damage.is_empty() {
        let text = if whole {
            "every page was read"
        } else {
            "not every page was read"
        };
        let finding = DoctorFinding::ok("damage", format!("none found; {text}"));
        findings.push(if whole {
            finding
        } else {
            finding.hint("relight doctor --whole")
        });
    }
    findings
}

/// What makes an acknowledged write survive a power cut.
fn durability(inventory: &Inventory) -> DoctorFinding {
    let pairs: Vec<String> = inventory
        .settings
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let is = |name: &str, wanted: &str| {
        inventory
            .settings
            .iter()
            .any(|(key, value)| key == name && value == wanted)
    };
    let text = pairs.join(", ");
    let is_durable_file = is("journal_mode", "wal") && is("synchronous", "full");
    // Each connection of ours raises `synchronous_commit` from off by itself.
    let is_durable_server = is("fsync", "on") && is("full_page_writes", "on");
    if is_durable_file || is_durable_server {
        return DoctorFinding::ok("durability", text);
    }
    DoctorFinding::problem(
        "durability",
        format!("{text}; a power cut may lose acknowledged writes"),
    )
}

fn counted<T: std::fmt::Display>(what: &'static str, counts: &[(T, u64)]) -> DoctorFinding {
    let counts: Vec<String> = counts
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let text = if counts.is_empty() {
        "none".to_owned()
    } else {
        counts.join(", ")
    };
    DoctorFinding::ok(what, text)
}

async fn look_inside(
    store: &Arc<dyn Store>,
    in_doubt: u64,
) -> Result<Vec<DoctorFinding>, StoreError> {
    let (mut findings, holders) = (Vec::new(), Holders::new(Arc::clone(store)));
    let store = store.as_ref();
    findings.push(match in_doubt {
        0 => DoctorFinding::ok("in doubt", "no step"),
        _ => steps_in_doubt(store, &holders).await?,
    });
    if let [(task, why), ..] = &tasks_without_agent(store).await?[..] {
        let text = format!("{why}, which task {} needs", task.id);
        findings.push(DoctorFinding::warning("skills", text).hint(give_skill(task)));
    }
    findings.extend(agents::look(store, &holders).await?);
    findings.extend(fleet::look(store).await?);
    if let Some(drain) = drain::now(store).await? {
        let text = format!("since {} nothing is begun", drain.since);
        findings.push(DoctorFinding::warning("draining", text).hint("relight drain --cancel"));
    }
    let newest = EventQuery {
        after: 0,
        before: None,
        task: None,
        agent: None,
        kinds: Vec::new(),
        limit: 1,
        newest: true,
    };
    if let Some(event) = store.events(newest).await?.first() {
        let now = clock::now();
        if event.at > now.plus(CLOCK_SLACK) {
            let text = format!(
                "the newest event is of {}, but the clock says {now}",
                event.at
            );
            findings
                .push(DoctorFinding::warning("clock", text).hint("the clock was set back; set it"));
        }
    }
    Ok(findings)
}

/// A step that a live holder has begun is under way; only without one it is in doubt.
async fn steps_in_doubt(store: &dyn Store, holders: &Holders) -> Result<DoctorFinding, StoreError> {
    let (mut under_way, mut in_doubt) = (0, Vec::new());
    let tasks = store.tasks(TaskQuery::with_steps_in_doubt()).await?;
    holders
        .look_for(tasks.iter().filter_map(|task| task.lease.held.as_ref()))
        .await?;
    for task in tasks {
        if holders.is_held(&task.lease) {
            under_way += 1;
        } else {
            in_doubt.push(task.id.to_string());
        }
    }
    if in_doubt.is_empty() {
        return Ok(DoctorFinding::ok(
            "in doubt",
            format!("no step; tasks with a step under way: {under_way}"),
        ));
    }
    let named = in_doubt
        .iter()
        .take(NAMED_MAX)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let text = format!(
        "{} tasks have a step begun and not ended: {named}",
        in_doubt.len()
    );
    Ok(DoctorFinding::warning("in doubt", text).hint("relight inflight"))
}

fn room(path: &Path) -> DoctorFinding {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match rustix::fs::statvfs(folder.unwrap_or(Path::new("."))) {
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let text = format!("{} MiB are free for the store", free >> 20);
            if free < FREE_BYTES_MIN {
                return DoctorFinding::warning("room", text)
                    .hint("make room; relight prune --dry-run");
            }
            DoctorFinding::ok("room", text)
        }
        Err(error) => DoctorFinding::warning("room", format!("cannot be told: {error}")),
    }
}

fn rights(path: &Path) -> Option<DoctorFinding> {
    let mode = fs::metadata(path)
        .ok()
        .filter(fs::Metadata::is_file)?
        .mode()
        & 0o777;
    (mode & 0o177 != 0).then(|| {
        let text = format!("{} has mode {mode:04o}, should be 0600", path.display());
        DoctorFinding::warning("store", text).hint(format!("chmod 600 {}", quoted(path)))
    })
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
