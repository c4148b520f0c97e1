//! The server is lost with SIGKILL, or is frozen, and its standby takes its place, while eight writers
//! record steps through the library under one address that names both.
//!
//! With a synchronous standby everything that was acknowledged is there. With an asynchronous one that
//! is held up, exactly what was acknowledged meanwhile is gone: the window is shown, and `doctor` must
//! have told of it before.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use relight_core::event::EventKind;
use relight_core::ids::TaskId;
use relight_runtime::EngineAccess as _;
use relight_runtime::{Relight, RunningTask, StepError};
use relight_store::{EventQuery, Standby, Store};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::postgres::{Cluster, Durability, unique};
use crate::world::clock;
use crate::world::seed::Seed;
use crate::world::tally::{Promise, Tally, Violation};

const WRITERS: usize = 8;
/// Steps of each writer before the server is lost, and after another one took its place.
const STEPS_MIN: u64 = 20;
/// Everything that is waited for has happened by then.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The standby takes its place up to so long after the server is gone.
const ABSENCE_MAX: Duration = Duration::from_millis(1_500);
/// More records than a trial makes.
const EVENTS_MAX: usize = 1_000_000;
/// Before a writer that was told that the store is gone tries again.
const AGAIN: Duration = Duration::from_millis(50);

/// What the server waits for before it says that a commit is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Synchronous,
    Asynchronous,
}

/// How the server is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Killed,
    /// Its kernel still takes connections and says nothing. Later it goes on as if nothing had been.
    Frozen,
}

/// In each third trial the server is frozen.
const FROZEN_EVERY: u64 = 3;

/// Loses the server so many times to a synchronous standby, and once to an asynchronous one.
pub fn run(trials: u64, seed: u64, tally: &Tally) -> anyhow::Result<()> {
    for trial in 0..trials {
        let replay = format!("./prove failover --seed {seed}");
        let mode = if trial == 0 {
            Mode::Asynchronous
        } else {
            Mode::Synchronous
        };
        let is_frozen = trial % FROZEN_EVERY == FROZEN_EVERY - 1;
        let loss = if is_frozen {
            Loss::Frozen
        } else {
            Loss::Killed
        };
        match one(mode, loss, &mut Seed::of_trial(seed, trial))? {
            Some(found) => tally.trial(&replay, &found),
            None => {
                tally.skip(
                    "failover",
                    "there is no PostgreSQL (install the package postgresql)",
                );
                return Ok(());
            }
        }
    }
    Ok(())
}

/// None where there is no PostgreSQL.
fn one(mode: Mode, loss: Loss, seed: &mut Seed) -> anyhow::Result<Option<Vec<Violation>>> {
    let Some(primary) = Cluster::start(Durability::Unsynced) else {
        return Ok(None);
    };
    let standby = primary.standby("second");
    if mode == Mode::Synchronous {
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'second'");
        primary.sql("SELECT pg_reload_conf()");
    }
    let wanted = if mode == Mode::Synchronous {
        "sync"
    } else {
        "async"
    };
    let streams = || Ok(primary.sql("SELECT sync_state FROM pg_stat_replication") == wanted);
    anyhow::ensure!(
        clock::becomes(WAIT_MAX, streams)?,
        "the standby does not stream"
    );
    let runtime = Runtime::new()?;
    let url = format!(
        "postgres://relight@127.0.0.1:{},127.0.0.1:{}/postgres?sslmode=disable&schema={}",
        primary.port(),
        standby.port(),
        unique("failover_"),
    );
    let relight = Arc::new(runtime.block_on(Relight::open(&url))?);
    let mut crew = Crew::start(&runtime, &relight)?;
    crew.all_come_to(&runtime, STEPS_MIN)?;
    let safe = crew.log.acknowledged();
    let told = standby_as_told(&runtime, &relight)?;
    if mode == Mode::Asynchronous {
        wait_for_replay(&primary)?;
        primary.freeze_senders();
        let held_up = crew.furthest();
        crew.all_come_to(&runtime, held_up + STEPS_MIN)?;
    }
    clock::pause(seed.moment(Duration::from_millis(300)));
    let behind = standby_as_told(&runtime, &relight)?;
    let lost_at = clock::now();
    match loss {
        Loss::Killed => primary.kill(),
        Loss::Frozen => primary.freeze(),
    }
    clock::pause(seed.moment(ABSENCE_MAX));
    standby.promote();
    let (promoted, at_promotion) = (lost_at.elapsed(), crew.furthest());
    crew.all_come_to(&runtime, at_promotion + STEPS_MIN)?;
    if loss == Loss::Frozen {
        primary.thaw();
        let at_return = crew.furthest();
        crew.all_come_to(&runtime, at_return + STEPS_MIN)?;
    }
    let stood_still = crew.log.longest_pause();
    let log = crew.finish(&runtime)?;
    // What the asynchronous standby never had is rightly run again.
    let mut found = if mode == Mode::Synchronous {
        log.repeated()
    } else {
        Vec::new()
    };
    let missing = runtime.block_on(log.missing(relight.engine().store()))?;
    found.extend(runtime.block_on(log.twice(relight.engine().store()))?);
    let count = log
        .acknowledged()
        .values()
        .map(|count| *count as usize)
        .sum::<usize>();
    let words = verdict(mode, &missing, &safe, (&told, &behind), &mut found);
    println!(
        "failover ({mode:?}, {loss:?}): {count} steps acknowledged, promoted after {:.1} s, writers stood still for {:.1} s; {words}",
        promoted.as_secs_f64(),
        stood_still.as_secs_f64(),
    );
    Ok(Some(found))
}

/// What is missing must be nothing, or what was acknowledged while the standby was held up.
fn verdict(
    mode: Mode,
    missing: &[(usize, u64)],
    safe: &BTreeMap<usize, u64>,
    (told, behind): (&Standby, &Standby),
    found: &mut Vec<Violation>,
) -> String {
    let mut say = |promise, text: String| found.push(Violation::new(promise, text));
    let is_safe = |(writer, step): &&(usize, u64)| step < &safe[writer];
    let too_early = missing.iter().filter(is_safe).count();
    if told.is_synchronous != (mode == Mode::Synchronous) {
        say(
            Promise::Answer,
            format!("the store says of its standby: {told:?}"),
        );
    }
    match mode {
        Mode::Synchronous => {
            if let Some((writer, step)) = missing.first() {
                let text = format!(
                    "{} acknowledged steps are missing, first s{step} of {writer}",
                    missing.len()
                );
                say(Promise::Lost, text);
            }
            "none lost".to_owned()
        }
        Mode::Asynchronous => {
            if too_early > 0 {
                say(
                    Promise::Lost,
                    format!("{too_early} steps that the standby had are missing"),
                );
            }
            if missing.is_empty() {
                say(
                    Promise::Answer,
                    "the standby was held up, and nothing was lost".to_owned(),
                );
            }
            if behind.behind_bytes.is_none_or(|bytes| bytes == 0) {
                say(
                    Promise::Answer,
                    format!("the store did not tell of the window: {behind:?}"),
                );
            }
            let bytes = behind.behind_bytes.unwrap_or_default();
            format!(
                "{} lost, all of them of the {bytes} bytes that the standby was behind",
                missing.len()
            )
        }
    }
}

fn wait_for_replay(primary: &Cluster) -> anyhow::Result<()> {
    let flushed = primary.sql("SELECT pg_current_wal_flush_lsn()");
    let sql = format!("SELECT flush_lsn >= '{flushed}' FROM pg_stat_replication");
    let is_there = clock::becomes(WAIT_MAX, || Ok(primary.sql(&sql) == "t"))?;
    anyhow::ensure!(is_there, "the standby does not follow");
    Ok(())
}

/// What `doctor` would say.
fn standby_as_told(runtime: &Runtime, relight: &Relight) -> anyhow::Result<Standby> {
    let inventory = runtime.block_on(relight.engine().store().inventory(false))?;
    let replication = inventory
        .replication
        .context("a server tells of its standbys")?;
    replication
        .standbys
        .into_iter()
        .next()
        .context("there is one")
}

/// What writers did and were told.
#[derive(Debug, Default)]
struct Log {
    /// How many of its steps each writer was told to be made: all before this one.
    acknowledged: Mutex<BTreeMap<usize, u64>>,
    /// Steps that ran after they were acknowledged.
    ran_again: AtomicU64,
    /// When the last one was acknowledged, and the longest time without any.
    pauses: Mutex<Option<(Instant, Duration)>>,
}

impl Log {
    fn acknowledge(&self, writer: usize, step: u64) {
        let mut acknowledged = self.acknowledged.lock().expect("nothing panics here");
        acknowledged.insert(writer, step + 1);
        let mut pauses = self.pauses.lock().expect("nothing panics here");
        let now = clock::now();
        let (last, longest) = pauses.unwrap_or((now, Duration::ZERO));
        *pauses = Some((now, longest.max(now - last)));
    }

    fn acknowledged(&self) -> BTreeMap<usize, u64> {
        self.acknowledged
            .lock()
            .expect("nothing panics here")
            .clone()
    }

    fn longest_pause(&self) -> Duration {
        let pauses = self.pauses.lock().expect("nothing panics here");
        pauses.map_or(Duration::ZERO, |(_, longest)| longest)
    }

    fn repeated(&self) -> Vec<Violation> {
        match self.ran_again.load(Ordering::SeqCst) {
            0 => Vec::new(),
            count => {
                let text = format!("{count} steps ran again after they were acknowledged");
                vec![Violation::new(Promise::Repeated, text)]
            }
        }
    }

    /// Steps that were acknowledged and are not there.
    async fn missing(&self, store: &Arc<dyn Store>) -> anyhow::Result<Vec<(usize, u64)>> {
        let mut missing = Vec::new();
        for (writer, count) in self.acknowledged() {
            let steps = store.steps(&task_id(writer)).await?;
            let there: Vec<String> = steps.iter().map(|step| step.key.name.to_string()).collect();
            let is_missing = |step: &u64| !there.contains(&format!("s{step}"));
            missing.extend((0..count).filter(is_missing).map(|step| (writer, step)));
        }
        Ok(missing)
    }

    /// Steps with two records of their end.
    async fn twice(&self, store: &Arc<dyn Store>) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        for writer in 0..WRITERS {
            let query = EventQuery {
                after: 0,
                before: None,
                task: Some(task_id(writer)),
                agent: None,
                kinds: vec![EventKind::StepDone],
                limit: EVENTS_MAX,
                newest: false,
            };
            let mut ends: BTreeMap<String, u32> = BTreeMap::new();
            for event in store.events(query).await? {
                let step = event.step.context("a step's end names it")?;
                *ends.entry(step.to_string()).or_default() += 1;
            }
            let twice = ends.into_iter().filter(|(_, count)| *count > 1);
            found.extend(twice.map(|(step, count)| {
                let text = format!("{step} of writer {writer} has {count} records of its end");
                Violation::new(Promise::Repeated, text)
            }));
        }
        Ok(found)
    }
}

/// Those who write, each steps of a task of its own, one after the other.
struct Crew {
    log: Arc<Log>,
    is_over: Arc<AtomicBool>,
    writers: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Crew {
    fn start(runtime: &Runtime, relight: &Arc<Relight>) -> anyhow::Result<Self> {
        let (log, is_over) = (Arc::new(Log::default()), Arc::new(AtomicBool::new(false)));
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let id = task_id(writer);
            let task = runtime.block_on(relight.task(id.as_str())?.agent("prover")?.start())?;
            let (log, is_over) = (Arc::clone(&log), Arc::clone(&is_over));
            writers.push(runtime.spawn(write(task, writer, log, is_over)));
        }
        Ok(Self {
            log,
            is_over,
            writers,
        })
    }

    fn furthest(&self) -> u64 {
        self.log
            .acknowledged()
            .into_values()
            .max()
            .unwrap_or_default()
    }

    fn all_come_to(&mut self, runtime: &Runtime, steps: u64) -> anyhow::Result<()> {
        let is_there = |log: &Log| {
            let acknowledged = log.acknowledged();
            acknowledged.len() == WRITERS && acknowledged.values().all(|count| *count >= steps)
        };
        let all = clock::becomes(WAIT_MAX, || Ok(is_there(&self.log) || self.has_ended()))?;
        while let Some(ended) = self.writers.iter().position(JoinHandle::is_finished) {
            let writer = self.writers.swap_remove(ended);
            runtime.block_on(writer)?.context("a writer gave up")?;
        }
        let told = self.log.acknowledged();
        anyhow::ensure!(
            all,
            "the writers did not come to step {steps} in {WAIT_MAX:?}: {told:?}"
        );
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.writers.iter().any(JoinHandle::is_finished)
    }

    fn finish(self, runtime: &Runtime) -> anyhow::Result<Arc<Log>> {
        self.is_over.store(true, Ordering::SeqCst);
        for writer in self.writers {
            runtime.block_on(writer)??;
        }
        Ok(self.log)
    }
}

fn task_id(writer: usize) -> TaskId {
    TaskId::new(format!("writer-{writer}")).expect("a valid id")
}

/// One step after the other; one whose end could not be recorded is asked for again.
async fn write(
    task: RunningTask,
    writer: usize,
    log: Arc<Log>,
    is_over: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let mut step = 0;
    let mut is_acknowledged = false;
    while !is_over.load(Ordering::SeqCst) {
        let ran = || async {
            log.ran_again
                .fetch_add(u64::from(is_acknowledged), Ordering::SeqCst);
            Ok::<u64, Infallible>(step)
        };
        let name = format!("s{step}");
        match task.plan(&name)?.occurrence(1).run(|_| ran()).await {
            Ok(value) => anyhow::ensure!(value == step, "{name} gave {value}"),
            // Somebody who waited for ten seconds is told; the work goes on when the store is back.
            Err(StepError::Act(_)) => {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            Err(other) => return Err(other.into()),
        }
        log.acknowledge(writer, step);
        // Now and then one that is made is asked for once more: it gives its value and does not run.
        is_acknowledged = !is_acknowledged && step % 7 == 0;
        step += u64::from(!is_acknowledged);
    }
    Ok(())
}
