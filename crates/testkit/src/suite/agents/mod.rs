//! Real agent programs under `relight run`, with hooks, against the stub model: killed, stopped, refused and
//! limited at named moments, and killed at random ones.
//!
//! Everything happens in a network namespace with loopback only.

mod client;
mod moment;
mod random;
mod trial;
mod worker;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use relight_runtime::os::process;

pub use self::client::Client;
pub use self::moment::Moment;
use crate::world::clock;
use crate::world::product::Product;
use crate::world::seed::Seed;
use crate::world::tally::{Promise, Tally, Violation};

/// Programs that run at a time.
const AT_ONCE: usize = 2;

/// After so many failed conversations no further one is begun.
const FAILED_MAX: u64 = 20;

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which programs.
    pub clients: Vec<Client>,
    /// At which moments.
    pub moments: Vec<Moment>,
    /// How many kills at random moments, instead.
    pub random_kills: Option<u64>,
    /// What every draw comes from.
    pub seed: u64,
    /// No kill after this.
    pub until: Instant,
}

/// Whether this process is in a network of its own, with nothing but loopback.
pub fn is_apart() -> bool {
    let names = std::fs::read_dir("/sys/class/net").ok();
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    names.is_some() && routes.lines().count() <= 1
}

/// Starts the same command again in a network of its own; returns only if that is not possible.
pub fn go_apart() -> anyhow::Result<()> {
    if !client::has_namespaces() {
        return Ok(());
    }
    let me = std::env::current_exe().context("own path")?;
    let words = std::env::args_os().skip(1);
    let script = "ip link set lo up && exec \"$0\" \"$@\"";
    let mut unshare = process::command("unshare", &["--net", "sh", "-c", script]);
    Err(unshare.arg(me).args(words).exec()).context("cannot start unshare")
}

/// Where programs are installed: beside the builds.
pub fn clis_of(product: &Product) -> PathBuf {
    let target = product.relight.parent().and_then(Path::parent);
    target.unwrap_or(Path::new(".")).join("agent-clis")
}

/// Installs programs, while there is a network; those that cannot be installed are reported.
pub fn install(clients: &[Client], clis: &Path) {
    for client in clients {
        if let Err(error) = client.install(clis) {
            eprintln!("agents: {}: {error:#}", client.name());
        }
    }
}

/// Runs the suite in this network.
pub fn run(product: &Product, work: &Path, options: &Options, tally: &Tally) -> anyhow::Result<()> {
    let clis = clis_of(product);
    let (clients, missing): (Vec<Client>, Vec<Client>) = options
        .clients
        .iter()
        .partition(|client| client.is_installed(&clis));
    for client in missing {
        tally.skip(
            &format!("agents: {}", client.name()),
            "it could not be installed from npm",
        );
    }
    match options.random_kills {
        Some(kills) => at_random(product, &clis, work, options, &clients, kills, tally),
        None => at_moments(product, &clis, work, options, &clients, tally),
    }
}

fn at_moments(
    product: &Product,
    clis: &Path,
    work: &Path,
    options: &Options,
    clients: &[Client],
    tally: &Tally,
) -> anyhow::Result<()> {
    let all: Vec<(Client, Moment)> = options
        .moments
        .iter()
        .flat_map(|moment| clients.iter().map(|client| (*client, *moment)))
        .collect();
    let cells = Mutex::new(vec!["–"; all.len()]);
    let next = AtomicUsize::new(0);
    let play = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(client, moment)) = all.get(at) else {
                return;
            };
            // It has no transcript that could be torn, but a database.
            if (client, moment) == (Client::Opencode, Moment::Torn) {
                continue;
            }
            let (name, _) = moment.name();
            let root = work.join(format!("{}-{name}", client.name()));
            let began = clock::now();
            let found = trial::at_moment(product, clis, &root, client, moment, options.seed);
            let found = found.unwrap_or_else(|error| {
                vec![Violation::new(Promise::Answer, format!("{error:#}"))]
            });
            let cell = if found.is_empty() { "ok" } else { "FAILED" };
            let seconds = began.elapsed().as_secs_f64();
            println!("agents: {} {name}: {cell} ({seconds:.0} s)", client.name());
            cells.lock().expect("nothing panics here")[at] = cell;
            let replay = format!("./prove agents --cli {} --moment {name}", client.name());
            tally.trial(&replay, &found);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(play);
        }
    });
    let cells = cells.into_inner().expect("nothing panics here");
    print_table(&options.moments, clients, &cells);
    Ok(())
}

fn print_table(moments: &[Moment], clients: &[Client], cells: &[&str]) {
    let head: Vec<String> = clients
        .iter()
        .map(|client| format!("{} {}", client.name(), client.version()))
        .collect();
    println!("\n| moment | {} |", head.join(" | "));
    println!("|---|{}", "---|".repeat(clients.len()));
    for (row, moment) in cells.chunks(clients.len().max(1)).zip(moments) {
        let (name, about) = moment.name();
        println!("| `{name}`: {about} | {} |", row.join(" | "));
    }
    println!();
}

fn at_random(
    product: &Product,
    clis: &Path,
    work: &Path,
    options: &Options,
    clients: &[Client],
    kills_wanted: u64,
    tally: &Tally,
) -> anyhow::Result<()> {
    for client in clients {
        let (next, kills) = (AtomicU64::new(0), AtomicU64::new(0));
        let play = || {
            let is_over = || {
                let is_hopeless = tally.counts().failed >= FAILED_MAX;
                kills.load(Ordering::Relaxed) >= kills_wanted || is_hopeless
            };
            while !is_over() && clock::now() < options.until {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let root = work.join(format!("{}-random-{number}", client.name()));
                let seed = Seed::of_trial(options.seed, number);
                let played = random::conversation(product, clis, &root, *client, seed);
                let (struck, found) = played.unwrap_or_else(|error| {
                    (
                        0,
                        vec![Violation::new(Promise::Answer, format!("{error:#}"))],
                    )
                });
                let all = kills.fetch_add(struck, Ordering::Relaxed) + struck;
                if number % 20 == 19 {
                    println!("agents: {}: {all} kills", client.name());
                }
                if found.is_empty() {
                    let _ = std::fs::remove_dir_all(&root);
                }
                tally.trial(&format!("./prove agents, conversation {number}"), &found);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(play);
            }
        });
        let counts = tally.counts();
        println!(
            "agents: {} {}: {} kills in {} conversations: {} silent, {} repeated",
            client.name(),
            client.version(),
            kills.into_inner(),
            next.into_inner(),
            counts.lost,
            counts.repeated
        );
    }
    Ok(())
}
