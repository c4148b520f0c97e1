//! Eight workers on one queue, and one who sweeps after them: SIGKILL at random to any of them, and
//! workers frozen past their lease, until every task has come to its end.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use relight_runtime::EngineAccess as _;
use relight_runtime::Relight;
use rustix::process::{Signal, kill_process_group};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::checker;
use crate::driver::queue::{self, LEASE};
use crate::world::clock;
use crate::world::group::Group;
use crate::world::product::Product;
use crate::world::queue_plan;
use crate::world::seed::Seed;
use crate::world::stage::Stage;
use crate::world::tally::{Promise, Tally, Violation};

const WORKERS: usize = 8;
/// Of these, as many hold by the clock and are frozen now and then.
const BY_CLOCK: usize = 3;
/// The longest time between two kills.
const PAUSE_MAX: Duration = Duration::from_millis(25);
/// A queue that nobody disturbs any more is empty by then.
const END_MAX: Duration = Duration::from_secs(120);

/// What to do.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Tasks in the queue.
    pub tasks: usize,
    /// How many kills at most.
    pub kills: u64,
    /// How long they are killed at most.
    pub span: Duration,
    /// What every draw comes from.
    pub seed: u64,
}

/// Lets them work through the queue and kills them.
pub fn run(product: &Product, work: &Path, options: Options, tally: &Tally) -> anyhow::Result<()> {
    let folder = work.join("queue");
    let stage = Stage::in_folder(product, &folder, "queue")?;
    let runtime = Runtime::new()?;
    let relight = runtime.block_on(queue::open(&stage.store_url()))?;
    runtime.block_on(fill(&relight, 0..options.tasks))?;
    let mut trial = Trial {
        stage,
        folder: &folder,
        seed: Seed::new(options.seed),
        crew: Vec::new(),
        frozen: BTreeSet::new(),
        kills: 0,
        freezes: 0,
    };
    let began = clock::now();
    let is_over = || runtime.block_on(checker::queue::is_over(&relight, options.tasks));
    let mut found = trial.disturb(options, began + options.span, &is_over)?;
    if !clock::becomes(END_MAX, &is_over)? {
        let text = format!("the queue was not empty after {END_MAX:?} without a kill");
        found.push(Violation::new(Promise::Lost, text));
    }
    let took = began.elapsed();
    trial.dismiss()?;
    let (ledger, frozen) = (&trial.stage.ledger, &trial.frozen);
    found.extend(runtime.block_on(checker::queue::check(
        &relight,
        options.tasks,
        ledger,
        frozen,
    ))?);
    found.extend(checker::check_pages(&trial.stage)?);
    println!(
        "queue: {} tasks by {WORKERS} workers, {} kills and {} freezes in {:.1} s, {} violations (seed {})",
        options.tasks,
        trial.kills,
        trial.freezes,
        took.as_secs_f64(),
        found.len(),
        options.seed
    );
    tally.trial(&format!("./prove queue --seed {}", options.seed), &found);
    Ok(())
}

/// Adds these tasks of the plan.
pub(super) async fn fill(relight: &Relight, tasks: Range<usize>) -> anyhow::Result<()> {
    let mut adding = JoinSet::new();
    for number in tasks {
        let engine = relight.engine().clone();
        adding.spawn(async move { engine.add(queue_plan::new_task(number)).await });
    }
    while let Some(added) = adding.join_next().await {
        added??;
    }
    Ok(())
}

/// One of those who are killed.
struct Member {
    group: Group,
    role: Role,
    /// Frozen until then.
    thaws: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Worker { by_clock: bool },
    Sweeper,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Worker { by_clock: false } => "queue-worker",
            Self::Worker { by_clock: true } => "queue-worker-by-clock",
            Self::Sweeper => "queue-sweeper",
        }
    }
}

struct Trial<'a> {
    stage: Stage,
    folder: &'a Path,
    seed: Seed,
    crew: Vec<Member>,
    frozen: BTreeSet<String>,
    kills: u64,
    freezes: u64,
}

impl Trial<'_> {
    /// Starts all, and strikes until it is over, there were enough kills, or the time is up.
    fn disturb(
        &mut self,
        options: Options,
        until: Instant,
        is_over: &dyn Fn() -> anyhow::Result<bool>,
    ) -> anyhow::Result<Vec<Violation>> {
        for number in 0..WORKERS {
            self.start(Role::Worker {
                by_clock: number < BY_CLOCK,
            })?;
        }
        self.start(Role::Sweeper)?;
        let mut found = Vec::new();
        while self.kills < options.kills && clock::now() < until && !is_over()? {
            let victim = self.seed.below(self.crew.len() as u64) as usize;
            let pause = self.seed.moment(PAUSE_MAX);
            if self.crew[victim].group.leader_ends_within(pause)? {
                let said = std::fs::read_to_string(self.folder.join("said")).unwrap_or_default();
                let text = format!(
                    "a {} ended by itself: {said}",
                    self.crew[victim].role.word()
                );
                found.push(Violation::new(Promise::Answer, text));
                return Ok(found);
            }
            let by_clock = self.crew[victim].role == Role::Worker { by_clock: true };
            match (by_clock, self.crew[victim].thaws) {
                // One that sleeps is left to wake up late.
                (true, Some(_)) => {}
                (true, None) if self.seed.below(2) == 0 => self.freeze(victim)?,
                _ => self.kill(victim)?,
            }
            self.thaw(clock::now())?;
        }
        self.thaw(clock::now() + END_MAX)?;
        Ok(found)
    }

    fn start(&mut self, role: Role) -> anyhow::Result<()> {
        let home = self.stage.home.display().to_string();
        let ledger = self.stage.ledger.path().display().to_string();
        let mut command = self
            .stage
            .product
            .driver(&[role.word(), &home, "-", &ledger, "-"]);
        let said = self.folder.join("said");
        let said = std::fs::File::options()
            .append(true)
            .create(true)
            .open(said)?;
        let group = Group::spawn(command.stdout(Stdio::null()).stderr(said))?;
        self.crew.push(Member {
            group,
            role,
            thaws: None,
        });
        Ok(())
    }

    fn kill(&mut self, victim: usize) -> anyhow::Result<()> {
        let Member { group, role, .. } = self.crew.swap_remove(victim);
        group.kill_all();
        group.wait_for_all(END_MAX)?;
        self.kills += 1;
        self.start(role)
    }

    /// For longer than its leases last; what it does when it wakes up is late.
    fn freeze(&mut self, victim: usize) -> anyhow::Result<()> {
        let member = &mut self.crew[victim];
        member.group.stop_outside_of_a_write()?;
        member.thaws = Some(clock::now() + LEASE.as_duration() * 2);
        self.frozen
            .insert(member.group.leader().as_raw_nonzero().to_string());
        self.freezes += 1;
        Ok(())
    }

    fn thaw(&mut self, now: Instant) -> anyhow::Result<()> {
        for member in &mut self.crew {
            if member.thaws.is_some_and(|at| at <= now) {
                member.thaws = None;
                kill_process_group(member.group.leader(), Signal::CONT)?;
            }
        }
        Ok(())
    }

    fn dismiss(&mut self) -> anyhow::Result<()> {
        for Member { group, .. } in self.crew.drain(..) {
            group.kill_all();
            group.wait_for_all(END_MAX)?;
        }
        Ok(())
    }
}
