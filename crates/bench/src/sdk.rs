//! `sdk`: durable steps per second through the packages of other languages, beside the library and beside
//! peers in the same language.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use crate::contest::Contest;
use crate::holder::{Holder, RESULT_BYTES};
use crate::hundred::Hundred;
use crate::load::{Carrier, Until, per_second};
use crate::product::Library;
use crate::prose::prose;
use crate::row::{Row, Target};
use crate::stage::Stage;

/// What is measured in Python beside the package: the peer, its name here, and how many tasks at once.
const PEERS: [(&str, &str, usize); 3] = [
    ("dbos", "DBOS on SQLite", 1),
    ("dbos", "DBOS on SQLite", 256),
    ("langgraph", "LangGraph's SQLite saver", 1),
];
const RESUMED: &str = "resume of 1,000 tasks";

/// The package in one language, or a peer in it.
struct Package {
    language: &'static str,
    program: PathBuf,
    script: PathBuf,
    /// How many of the library's steps it reaches, alone and at 256 tasks.
    least: [Option<f64>; 2],
}

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let packages: Vec<_> = [python(), node()].into_iter().flatten().collect();
    let mut rows = Vec::new();
    for (language, script) in [("Python", "python.sh"), ("TypeScript", "typescript.sh")] {
        if packages.iter().all(|package| package.language != language) {
            let note =
                format!("no {language} with the package: ./bench builds it by packaging/{script}");
            rows.push(Row::new(format!("{language}, alone"), "steps/s").note(Some(note)));
        }
    }
    let span = Duration::from_millis(stage.pick(1000, 300));
    let library = stage
        .runtime
        .block_on(Library::open(&stage.subfolder("home")?))?;
    let hundred = Hundred::prepare(stage)?;
    let mut contest = Contest::default();
    for at_once in [1, 256] {
        let library = &library;
        contest.enter(format!("library, {}", manner(at_once)), move |round| {
            let name = format!("{at_once}-{round}");
            let holders = Holder::start(&stage.runtime, library, &name, at_once)?;
            per_second(
                &stage.runtime,
                Carrier::Tasks,
                holders,
                Until::Elapsed(span),
            )
        });
        for package in &packages {
            contest.enter(package.row(&manner(at_once)), move |_| {
                package.measure(stage, "relight", &at_once.to_string(), span)
            });
        }
    }
    for package in &packages {
        contest.enter(package.row(RESUMED), move |round| {
            package.measure(stage, "relight", &format!("prepare-{round}"), span)?;
            package.measure(stage, "relight", &format!("resume-{round}"), span)
        });
        contest.enter(package.row("import"), move |_| {
            package.measure(stage, "relight", "import", span)
        });
    }
    let python = packages.iter().find(|package| package.language == "Python");
    let peers = PEERS.into_iter().filter_map(|peer| {
        let python = python.filter(|python| has(&python.program, peer.0))?;
        Some((python, peer))
    });
    let peers: Vec<_> = peers.collect();
    for &(python, (peer, name, at_once)) in &peers {
        contest.enter(format!("{name}, {}", manner(at_once)), move |_| {
            python.measure(stage, peer, &at_once.to_string(), span)
        });
    }
    if let Some(hundred) = &hundred {
        hundred.enter(stage, &mut contest);
    }
    let results = contest.run(stage.pick(5, 2))?;
    let beside = |ours: String, theirs: &str, least: f64| {
        Row::new(&ours, "steps/s")
            .figure(results.get(&ours))
            .beside(theirs, results.get(theirs))
            .target(Target::TimesFloorMin(least))
    };
    for package in &packages {
        for (at_once, least) in [1, 256].into_iter().zip(package.least) {
            let manner = manner(at_once);
            if let Some(least) = least {
                rows.push(beside(
                    package.row(&manner),
                    &format!("library, {manner}"),
                    least,
                ));
            }
        }
        for (what, unit, most) in [(RESUMED, "s", 1.0), ("import", "ms", 50.0)] {
            let name = package.row(what);
            let row = Row::new(&name, unit).figure(results.get(&name));
            rows.push(row.target(Target::ValueMax(most)));
        }
    }
    for (python, (peer, name, at_once)) in peers {
        let least = if peer == "dbos" { 8.0 } else { 1.2 };
        let manner = manner(at_once);
        rows.push(beside(
            python.row(&manner),
            &format!("{name}, {manner}"),
            least,
        ));
    }
    rows.extend(hundred.iter().flat_map(|hundred| hundred.rows(&results)));
    Ok(rows)
}

fn manner(at_once: usize) -> String {
    match at_once {
        1 => "alone".to_owned(),
        count => format!("{count} tasks"),
    }
}

pub(crate) fn script(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "peers", name].iter().collect()
}

/// A folder of the target folder that this program was built into.
pub(crate) fn beside_build(path: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.join(path)).filter(|path| path.exists())
}

/// The environment that `./bench` makes, or the one that is named.
fn python() -> Option<Package> {
    let named = std::env::var_os("RELIGHT_BENCH_PYTHON").map(PathBuf::from);
    let program = named.or_else(|| beside_build("python/bench/bin/python"))?;
    has(&program, "relight").then(|| Package {
        language: "Python",
        program,
        script: script("steps.py"),
        least: [Some(0.6), Some(0.4)],
    })
}

/// The script stands beside the package, since Node looks for packages from there.
fn node() -> Option<Package> {
    let folder = beside_build("typescript/bench")?;
    let here = folder.join("steps.mjs");
    std::fs::copy(script("steps.mjs"), &here).ok()?;
    Some(Package {
        language: "TypeScript",
        program: PathBuf::from("node"),
        script: here,
        least: [Some(0.5), Some(0.5)],
    })
}

fn has(python: &Path, package: &str) -> bool {
    let asked = Command::new(python)
        .args(["-c", &format!("import {package}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

impl Package {
    fn row(&self, what: &str) -> String {
        format!("{}, {what}", self.language)
    }

    /// Runs its script, whose last line is the figure.
    fn measure(
        &self,
        stage: &Stage,
        package: &str,
        what: &str,
        span: Duration,
    ) -> anyhow::Result<f64> {
        // A task is resumed where it was prepared.
        let place = what
            .trim_start_matches("prepare-")
            .trim_start_matches("resume-");
        let folder = stage.subfolder(&format!("{}-{package}-{place}", self.language))?;
        let said = Command::new(&self.program)
            .arg(&self.script)
            .arg(package)
            .arg(folder)
            .arg(what)
            .arg(span.as_millis().to_string())
            .arg(prose(RESULT_BYTES))
            .output()?;
        let text = String::from_utf8_lossy(&said.stdout);
        let last = text.lines().last().unwrap_or_default();
        last.parse()
            .with_context(|| format!("{package}: {}", String::from_utf8_lossy(&said.stderr)))
    }
}
