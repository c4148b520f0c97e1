//! Red controls: deliberately broken builds must fail the suite that the good build passes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use super::{fleet, frozen, power, queue, sessions};
use crate::driver::DriverKind;
use crate::world::product::{Product, plain};
use crate::world::tally::{Promise, Tally, Violation};
use crate::world::{clock, disk};

/// Enough that a loss by luck alone does not hide.
const CUTS: u32 = 12;
/// How long the workers of a queue are killed and frozen.
const QUEUE_SPAN: Duration = Duration::from_secs(20);
/// How long fleets are disturbed, and how long none is begun any more.
const FLEET_SPAN: Duration = Duration::from_secs(12);
const FLEET_MAX: Duration = Duration::from_secs(300);
/// Ten lives of a gateway take a second each at most.
const OVERTAKE_MAX: std::time::Duration = std::time::Duration::from_secs(60);

/// A way to break the product, and the suite that must notice.
struct Control {
    feature: &'static str,
    needs_disk: bool,
    suite: fn(&Product, &Path, u64, &Tally) -> anyhow::Result<()>,
}

const CONTROLS: [Control; 7] = [
    Control {
        feature: "broken-sync-normal",
        needs_disk: true,
        suite: cut_stores,
    },
    Control {
        feature: "broken-no-folder-sync",
        needs_disk: true,
        suite: cut_files,
    },
    Control {
        feature: "broken-no-fence",
        needs_disk: false,
        suite: freeze,
    },
    Control {
        feature: "broken-no-fence",
        needs_disk: false,
        suite: work_through,
    },
    Control {
        feature: "broken-no-fence",
        needs_disk: false,
        suite: overtake,
    },
    Control {
        feature: "broken-no-fence",
        needs_disk: false,
        suite: take_over,
    },
    Control {
        feature: "broken-wall-clock",
        needs_disk: false,
        suite: take_over,
    },
];

/// Builds each broken product and holds it against its suite.
pub fn run(good: &Product, work: &Path, seed: u64, tally: &Tally) -> anyhow::Result<()> {
    for control in CONTROLS {
        if let Some(why) = disk::refusal(work).filter(|_| control.needs_disk) {
            tally.skip(&format!("red: {}", control.feature), &why);
            continue;
        }
        println!("red: building with {}", control.feature);
        let broken = build(control.feature, work)?;
        let of_broken = Tally::of_broken_build();
        (control.suite)(&broken, &work.join(control.feature), seed, &of_broken)?;
        let (red, first) = (of_broken.counts().failed, of_broken.counts().shown);
        println!(
            "red: {}: {red} trials failed, as they must",
            control.feature
        );
        println!("  {}", first.first().map_or("", |line| line));
        let green = format!("{} passes: the suite proves nothing", control.feature);
        let found = if red > 0 {
            vec![]
        } else {
            vec![Violation::new(Promise::Answer, green)]
        };
        tally.trial(&format!("./prove red --seed {seed}"), &found);
        (control.suite)(
            good,
            &work.join(format!("not-{}", control.feature)),
            seed,
            tally,
        )?;
    }
    Ok(())
}

fn cut_stores(product: &Product, work: &Path, seed: u64, tally: &Tally) -> anyhow::Result<()> {
    let kinds = [DriverKind::Cli, DriverKind::Library];
    power::run(
        product,
        work,
        power::Options {
            kinds: &kinds,
            cuts: CUTS,
            seed,
        },
        tally,
    )
}

fn cut_files(product: &Product, work: &Path, seed: u64, tally: &Tally) -> anyhow::Result<()> {
    let kinds = [DriverKind::Checkpoint];
    power::run(
        product,
        work,
        power::Options {
            kinds: &kinds,
            cuts: CUTS,
            seed,
        },
        tally,
    )
}

fn freeze(product: &Product, work: &Path, _seed: u64, tally: &Tally) -> anyhow::Result<()> {
    frozen::run(product, work, 1, tally)
}

/// Turns that are overtaken end late.
fn overtake(product: &Product, work: &Path, seed: u64, tally: &Tally) -> anyhow::Result<()> {
    let until = clock::now() + OVERTAKE_MAX;
    sessions::run(
        product,
        work,
        sessions::Options {
            trials: 10,
            seed,
            until,
        },
        tally,
    )
}

fn work_through(product: &Product, work: &Path, seed: u64, tally: &Tally) -> anyhow::Result<()> {
    let options = queue::Options {
        tasks: 2_000,
        kills: 1_000,
        span: QUEUE_SPAN,
        seed,
    };
    queue::run(product, work, options, tally)
}

/// Nodes are lost, and others take over.
fn take_over(product: &Product, work: &Path, seed: u64, tally: &Tally) -> anyhow::Result<()> {
    let (span, until) = (FLEET_SPAN, clock::now() + FLEET_MAX);
    let options = fleet::Options {
        trials: 3,
        seed,
        only_trial: None,
        at_once: 3,
        span,
        until,
    };
    fleet::run(product, work, options, tally)
}

/// Builds in a target folder of its own, where the three share what is not broken.
fn build(feature: &str, work: &Path) -> anyhow::Result<Product> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let target = root.join("target/red");
    let features = format!("relight-cli/{feature},relight-testkit/{feature}");
    let target_text = target.display().to_string();
    let words = [
        "build",
        "--release",
        "--quiet",
        "-p",
        "relight-cli",
        "-p",
        "relight-testkit",
    ];
    let words = [
        &words[..],
        &["--features", &features, "--target-dir", &target_text],
    ]
    .concat();
    let mut cargo = plain(Path::new("cargo"), &words);
    cargo.current_dir(&root).envs(inherited());
    let status = cargo.status().context("cargo is missing")?;
    anyhow::ensure!(status.success(), "the build with {feature} failed");
    let folder = work.join(format!("binaries-{feature}"));
    std::fs::create_dir_all(&folder)?;
    for name in ["relight", "prove-driver"] {
        let built: PathBuf = target.join("release").join(name);
        std::fs::copy(&built, folder.join(name)).with_context(|| built.display().to_string())?;
    }
    Product::beside(&folder)
}

/// A build needs the tool chain's own variables.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo is found and set up by the environment"
)]
fn inherited() -> impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)> {
    std::env::vars_os()
}
