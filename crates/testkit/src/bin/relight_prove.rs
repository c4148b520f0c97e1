//! `relight-prove`: kills Relight in many ways and checks what is left. `./prove` builds and runs it.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use relight_core::time::Span;
use relight_testkit::driver::DriverKind;
use relight_testkit::suite::agents::{Client, Moment};
use relight_testkit::suite::{
    agents, crowd, disks, failover, faults, fleet, frozen, kill, power, queue, red, sessions,
    simulate, supervise, syscalls,
};
use relight_testkit::world::product::{Product, plain};
use relight_testkit::world::seed::Seed;
use relight_testkit::world::tally::Tally;
use relight_testkit::world::{clock, group};

/// No suite kills for longer than this.
const KILL_MAX: Duration = Duration::from_secs(3_600);
/// Nor a short run of supervision for longer than this, beside what freezes and reuses.
const SUPERVISE_QUICK: Duration = Duration::from_secs(12);
/// Nor are the workers of a queue killed for longer than this in a short run.
const QUEUE_QUICK: Duration = Duration::from_secs(8);

/// How long each fleet is disturbed, in a short run and otherwise.
const FLEET_QUICK: Duration = Duration::from_secs(12);
const FLEET_SPAN: Duration = Duration::from_secs(30);

#[derive(Debug, Parser)]
struct Arguments {
    /// Folder with `relight` and `prove-driver` [default: where this binary is]
    #[arg(long, global = true)]
    binaries: Option<PathBuf>,
    /// What every draw comes from [default: a new one, printed]
    #[arg(long, global = true)]
    seed: Option<u64>,
    /// Fewer of everything
    #[arg(long, global = true)]
    quick: bool,
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, Clone, Subcommand)]
enum Suite {
    /// SIGKILL at random moments
    Kill {
        /// How many kills
        #[arg(long)]
        trials: Option<u64>,
        /// Only this trial of the seed
        #[arg(long)]
        trial: Option<u64>,
        /// Only programs in this language, which uses its package
        #[arg(long, value_parser = ["python", "node"])]
        driver: Option<String>,
    },
    /// SIGKILL at every system call of each verb
    Syscalls,
    /// EIO and ENOSPC at every write, sync and open; a full and a read-only disk
    Faults,
    /// Sixteen processes at once on one store, and holders frozen past their lease
    Crowd,
    /// Power cuts under a mounted ext4 image (root only)
    Power {
        /// How many cuts
        #[arg(long)]
        trials: Option<u32>,
    },
    /// Workers of a queue killed and frozen at random, and whoever sweeps after them
    Queue {
        /// How many kills at most
        #[arg(long)]
        trials: Option<u64>,
    },
    /// Agents, shims and supervisors killed at random; frozen supervisors, reused pids, clock jumps
    Supervise {
        /// How many kills
        #[arg(long)]
        trials: Option<u64>,
        /// Only this trial of the seed
        #[arg(long)]
        trial: Option<u64>,
    },
    /// Nodes, their daemons, cables and clocks, and PostgreSQL killed, frozen and cut off (root only)
    Fleet {
        /// How many fleets
        #[arg(long)]
        trials: Option<u64>,
        /// Only this trial of the seed
        #[arg(long)]
        trial: Option<u64>,
    },
    /// A gateway with a thousand sessions killed at random: are the turns in flight found?
    Sessions {
        /// How many kills
        #[arg(long)]
        trials: Option<u64>,
    },
    /// PostgreSQL lost with SIGKILL, and its standby in its place
    Failover {
        /// How often; once with an asynchronous standby
        #[arg(long)]
        trials: Option<u64>,
    },
    /// A fleet in virtual time on the product's own decisions: takeovers, needless ones, doubles
    Simulate {
        /// How many nodes [default: 1000]
        #[arg(long)]
        nodes: Option<usize>,
        /// How many agents [default: five for each node]
        #[arg(long)]
        agents: Option<usize>,
        /// How many hours [default: 1]
        #[arg(long)]
        hours: Option<f64>,
        /// How many seconds a lease lasts; it is renewed four times in that
        #[arg(long, default_value_t = 8)]
        lease: u64,
        /// How far the clocks of a store and its successor differ at most, in milliseconds
        #[arg(long, default_value_t = 500)]
        clock_jump: u64,
    },
    /// Real agent programs from npm, killed at named or random moments (root only)
    Agents {
        /// Only this program
        #[arg(long, value_parser = client)]
        cli: Option<Client>,
        /// Only this moment
        #[arg(long, value_parser = moment)]
        moment: Option<Moment>,
        /// How many kills at random moments, instead of the named ones
        #[arg(long)]
        trials: Option<u64>,
    },
    /// The part of `supervise` that needs a PID namespace of its own
    #[command(hide = true)]
    PidReuse {
        /// Where it plays
        folder: PathBuf,
    },
    /// Deliberately broken builds, which must fail
    Red,
    /// All of them but agents and red
    All,
}

fn client(name: &str) -> Result<Client, String> {
    let found = Client::ALL.into_iter().find(|client| client.name() == name);
    found.ok_or_else(|| format!("one of {}", Client::ALL.map(Client::name).join(", ")))
}

fn moment(name: &str) -> Result<Moment, String> {
    let found = Moment::ALL
        .into_iter()
        .find(|moment| moment.name().0 == name);
    found.ok_or_else(|| format!("one of {}", Moment::ALL.map(|it| it.name().0).join(", ")))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("relight-prove: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    group::adopt_orphans()?;
    let here = std::env::current_exe().context("own path")?;
    let here = here.parent().unwrap_or(Path::new("."));
    let product = Product::beside(arguments.binaries.as_deref().unwrap_or(here))?;
    if let (Suite::Agents { cli, .. }, false) = (&arguments.suite, agents::is_apart()) {
        // While there is a network.
        let clients = cli.map_or(Client::ALL.to_vec(), |cli| vec![cli]);
        agents::install(&clients, &agents::clis_of(&product));
        agents::go_apart()?;
    }
    let work = tempfile::Builder::new()
        .prefix("relight-prove-")
        .tempdir()?;
    let mut guardian = guard(work.path())?;
    let prover = Prover {
        product,
        work: work.path(),
        seed: arguments.seed.unwrap_or_else(Seed::fresh),
        quick: arguments.quick,
        tally: Tally::default(),
    };
    println!("seed {}", prover.seed);
    let outcome = prover.suite(&arguments.suite);
    let counts = prover.tally.counts();
    for line in &counts.skipped {
        println!("{line}");
    }
    for line in &counts.shown {
        println!("VIOLATION {line}");
    }
    if counts.failed > 0 || outcome.is_err() {
        guardian
            .stdin
            .take()
            .context("a pipe")?
            .write_all(b"keep\n")?;
        println!("kept: {}", work.keep().display());
    }
    println!("{} passed, {} failed", counts.passed, counts.failed);
    outcome.map(|()| counts.failed == 0)
}

/// Removes the folder when this process is gone without a word, as after Ctrl-C.
fn guard(folder: &Path) -> anyhow::Result<Child> {
    let script = "read -r word || { sleep 1; rm -rf \"$0\"; }";
    let folder = folder.display().to_string();
    let mut guardian = plain(Path::new("sh"), &["-c", script, &folder]);
    // Of another group: Ctrl-C is not for it.
    Ok(guardian.process_group(0).stdin(Stdio::piped()).spawn()?)
}

struct Prover<'a> {
    product: Product,
    work: &'a Path,
    seed: u64,
    quick: bool,
    tally: Tally,
}

impl Prover<'_> {
    fn suite(&self, suite: &Suite) -> anyhow::Result<()> {
        let Self {
            product,
            work,
            seed,
            quick,
            tally,
        } = self;
        let began = clock::now();
        match suite {
            Suite::Kill {
                trials,
                trial,
                driver,
            } => {
                let kinds: &[DriverKind] = match driver.as_deref() {
                    Some("node") => &[DriverKind::Node],
                    Some(_) => &[DriverKind::Python],
                    None => &DriverKind::ALL,
                };
                self.kill(*trials, *trial, kinds)?;
            }
            Suite::Syscalls => syscalls::run(product, work, *quick, tally)?,
            Suite::Faults => {
                faults::run(product, work, *quick, tally)?;
                disks::run(product, work, tally)?;
            }
            Suite::Crowd => {
                let span = Duration::from_secs(self.few_or_many(5, 30));
                crowd::run(product, work, span, *seed, tally)?;
                frozen::run(product, work, self.few_or_many(1, 5), tally)?;
            }
            Suite::Power { trials } => {
                let cuts = trials.unwrap_or(self.few_or_many(20, 120));
                let options = power::Options {
                    kinds: &DriverKind::ALL,
                    cuts,
                    seed: *seed,
                };
                power::run(product, work, options, tally)?;
            }
            Suite::Queue { trials } => self.queue(*trials)?,
            Suite::Supervise { trials, trial } => self.supervise(*trials, *trial)?,
            Suite::Fleet { trials, trial } => self.fleet(*trials, *trial)?,
            Suite::Sessions { trials } => {
                let trials = trials.unwrap_or(self.few_or_many(20, 1_000));
                let options = sessions::Options {
                    trials,
                    seed: *seed,
                    until: began + KILL_MAX,
                };
                sessions::run(product, work, options, tally)?;
            }
            Suite::Failover { trials } => {
                failover::run(trials.unwrap_or(self.few_or_many(2, 10)), *seed, tally)?;
            }
            Suite::Simulate {
                nodes,
                agents,
                hours,
                lease,
                clock_jump,
            } => {
                let nodes = nodes
                    .unwrap_or(self.few_or_many(60, 1_000))
                    .clamp(4, 99_999);
                let hours = hours
                    .unwrap_or(self.few_or_many(0.25, 1.0))
                    .clamp(0.1, 1_000.0);
                let lease = Span::from_secs((*lease).clamp(3, 3_600));
                let options = simulate::Options {
                    nodes,
                    agents: agents.unwrap_or(5 * nodes).clamp(1, 999_999),
                    span: Duration::from_secs_f64(hours * 3_600.0),
                    lease,
                    renew: Span::from_ms(lease.as_ms() / 4),
                    failovers_an_hour: 8.0,
                    clock_jump_max: Duration::from_millis(*clock_jump),
                    killing: Duration::from_millis(150),
                    seed: *seed,
                };
                simulate::run(options, tally)?;
            }
            Suite::Agents {
                cli,
                moment,
                trials,
            } => self.agents(*cli, *moment, *trials)?,
            Suite::PidReuse { folder } => {
                tally.trial(
                    "reused pids",
                    &supervise::pid_reuse::inside(product, folder)?,
                );
            }
            Suite::Red => red::run(product, work, *seed, tally)?,
            Suite::All => return self.all(),
        }
        println!("  took {:.1} s", began.elapsed().as_secs_f64());
        Ok(())
    }

    fn all(&self) -> anyhow::Result<()> {
        self.suite(&Suite::Kill {
            trials: None,
            trial: None,
            driver: None,
        })?;
        self.suite(&Suite::Syscalls)?;
        self.suite(&Suite::Faults)?;
        self.suite(&Suite::Crowd)?;
        self.suite(&Suite::Power { trials: None })?;
        self.suite(&Suite::Queue { trials: None })?;
        self.suite(&Suite::Supervise {
            trials: None,
            trial: None,
        })?;
        self.suite(&Suite::Fleet {
            trials: None,
            trial: None,
        })?;
        self.suite(&Suite::Sessions { trials: None })?;
        self.suite(&Suite::Failover { trials: None })?;
        let (nodes, agents, hours) = (None, None, None);
        self.suite(&Suite::Simulate {
            nodes,
            agents,
            hours,
            lease: 8,
            clock_jump: 500,
        })
    }

    fn kill(
        &self,
        trials: Option<u64>,
        only_trial: Option<u64>,
        kinds: &'static [DriverKind],
    ) -> anyhow::Result<()> {
        let options = kill::Options {
            kills: trials.unwrap_or(self.few_or_many(300, 2_000)),
            seed: self.seed,
            only_trial,
            workers: 4,
            until: clock::now() + KILL_MAX,
            kinds,
        };
        kill::run(&self.product, self.work, options, &self.tally)
    }

    fn queue(&self, trials: Option<u64>) -> anyhow::Result<()> {
        let is_short = self.quick && trials.is_none();
        let kills = trials.unwrap_or(2_000);
        let options = queue::Options {
            // Enough work for so many kills.
            tasks: if is_short {
                1_000
            } else {
                1_000.max(kills as usize * 2)
            },
            kills,
            span: if is_short { QUEUE_QUICK } else { KILL_MAX },
            seed: self.seed,
        };
        queue::run(&self.product, self.work, options, &self.tally)
    }

    fn supervise(&self, trials: Option<u64>, only_trial: Option<u64>) -> anyhow::Result<()> {
        let is_short = self.quick && trials.is_none();
        let options = supervise::Options {
            kills: if is_short {
                None
            } else {
                Some(trials.unwrap_or(2_000))
            },
            seed: self.seed,
            only_trial,
            // One alone when a trial is to be seen again.
            workers: if only_trial.is_some() { 1 } else { 2 },
            span: if is_short { SUPERVISE_QUICK } else { KILL_MAX },
            modes: only_trial.is_none(),
        };
        supervise::run(&self.product, self.work, options, &self.tally)
    }

    fn fleet(&self, trials: Option<u64>, only_trial: Option<u64>) -> anyhow::Result<()> {
        let options = fleet::Options {
            trials: trials.unwrap_or(self.few_or_many(3, 40)),
            seed: self.seed,
            only_trial,
            at_once: if only_trial.is_some() { 1 } else { 3 },
            span: self.few_or_many(FLEET_QUICK, FLEET_SPAN),
            until: clock::now() + KILL_MAX,
        };
        fleet::run(&self.product, self.work, options, &self.tally)
    }

    fn agents(
        &self,
        cli: Option<Client>,
        moment: Option<Moment>,
        trials: Option<u64>,
    ) -> anyhow::Result<()> {
        if !agents::is_apart() {
            self.tally.skip(
                "agents",
                "no network namespace can be made here (root only)",
            );
            return Ok(());
        }
        let (some, all) = (Moment::FEW.to_vec(), Moment::ALL.to_vec());
        let options = agents::Options {
            clients: cli.map_or(Client::ALL.to_vec(), |cli| vec![cli]),
            moments: moment.map_or(self.few_or_many(some, all), |moment| vec![moment]),
            random_kills: trials,
            seed: self.seed,
            until: clock::now() + KILL_MAX,
        };
        agents::run(&self.product, self.work, &options, &self.tally)
    }

    fn few_or_many<T>(&self, few: T, many: T) -> T {
        if self.quick { few } else { many }
    }
}
