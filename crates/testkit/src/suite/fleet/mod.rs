//! Fleets under fire: machines with a daemon each and one PostgreSQL, while machines, daemons, cables,
//! connections, clocks and the database itself fail in every way, alone and together.

mod arena;
mod blows;
mod node;
mod schedule;
mod visitor;

use relight_runtime::EngineAccess as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use relight_core::ids::TaskId;
use relight_store::EventQuery;

use self::arena::{Arena, Make};
use self::schedule::{Part, Trouble};
use super::supervise::clock_library;
use crate::checker;
use crate::checker::fleet::{check_lines, check_task};
use crate::driver::queue::FLEET_TOKEN;
use crate::world::clock;
use crate::world::fleet_log::{Deed, Line};
use crate::world::network::Network;
use crate::world::product::Product;
use crate::world::seed::Seed;
use crate::world::tally::{Promise, Tally, Violation};

/// The shortest lease that there is.
const LEASE: Duration = Duration::from_secs(3);
/// How often it is renewed.
const RENEW: Duration = Duration::from_millis(500);
/// How long it is waited for what must come within two leases, to tell how late it was.
const LATE_MAX: Duration = Duration::from_secs(120);
/// Tasks of the queue for each node: enough that there is always one to be lost, and few at the end.
const TASKS_AT_FIRST: usize = 12;
const TASKS_MORE: usize = 4;
/// On a machine as busy as this nobody is said to be late.
const SLOWDOWN_MAX: f64 = 1.5;
/// By then an agent that has finished is gone.
const GONE_MAX: Duration = Duration::from_secs(60);
/// No task has more events than this in a trial.
const EVENTS_MAX: usize = 100_000;

/// What to do.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many fleets.
    pub trials: u64,
    /// What every draw comes from.
    pub seed: u64,
    /// Only this trial of the run, to see it again.
    pub only_trial: Option<u64>,
    /// Fleets at the same time.
    pub at_once: usize,
    /// How long each of them is disturbed.
    pub span: Duration,
    /// None is begun after this.
    pub until: Instant,
}

struct Run<'a> {
    product: &'a Product,
    work: &'a Path,
    options: Options,
    tally: &'a Tally,
    clock_library: Option<PathBuf>,
    next: AtomicU64,
    figures: Mutex<Figures>,
}

/// What all trials came to.
#[derive(Debug, Default)]
struct Figures {
    trials: u64,
    nodes: u64,
    troubles: BTreeMap<String, u64>,
    births: u64,
    takeovers: u64,
    steps: u64,
    late_refused: u64,
    back_max: Duration,
    finish_max: Duration,
}

/// Runs as many trials as were asked for.
pub fn run(product: &Product, work: &Path, options: Options, tally: &Tally) -> anyhow::Result<()> {
    if let Some(why) = Network::refusal() {
        tally.skip("fleet", &why);
        return Ok(());
    }
    let clock_library = clock_library();
    if clock_library.is_none() {
        tally.skip("fleet: wall clocks", "libfaketime (faketime) is missing");
    }
    let run = Run {
        product,
        work,
        options,
        tally,
        clock_library,
        next: AtomicU64::new(options.only_trial.unwrap_or(0)),
        figures: Mutex::default(),
    };
    let began = clock::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.at_once)
            .map(|_| scope.spawn(|| run.work()))
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker never panics"))
    })?;
    run.report(began.elapsed());
    Ok(())
}

impl Run<'_> {
    fn work(&self) -> anyhow::Result<()> {
        loop {
            let trial = self.next.fetch_add(1, Ordering::Relaxed);
            let end = self
                .options
                .only_trial
                .map_or(self.options.trials, |only| only + 1);
            if trial >= end || clock::now() > self.options.until {
                return Ok(());
            }
            let folder = self.work.join(format!("fleet-{trial}"));
            std::fs::create_dir_all(&folder)?;
            let found = self.trial(trial, &folder).unwrap_or_else(|error| {
                vec![Violation::new(Promise::Answer, format!("{error:#}"))]
            });
            let replay = format!("./prove fleet --seed {} --trial {trial}", self.options.seed);
            self.tally.trial(&replay, &found);
            if found.is_empty() {
                std::fs::remove_dir_all(&folder)?;
            }
        }
    }

    fn trial(&self, trial: u64, folder: &Path) -> anyhow::Result<Vec<Violation>> {
        let mut seed = Seed::of_trial(self.options.seed, trial);
        let nodes = 2 + (trial % 4) as usize;
        let acts = schedule::draw(&mut seed, nodes, LEASE, self.options.span);
        let make = Make {
            product: self.product,
            folder,
            nodes,
            agents: nodes + 1,
            clock_library: self.clock_library.as_deref(),
        };
        let Some(mut arena) = Arena::make(make, &mut seed)? else {
            self.tally.skip(
                "fleet",
                "there is no PostgreSQL (install the package postgresql)",
            );
            return Ok(Vec::new());
        };
        let mut found = arena.begin()?;
        arena.fill(TASKS_AT_FIRST)?;
        let began = clock::now();
        for act in acts {
            if !found.is_empty() {
                break;
            }
            found.extend(arena.wait_until(began + act.at)?);
            arena.act(act, &mut seed)?;
            self.count(act.trouble, act.part);
        }
        arena.fill(TASKS_MORE)?;
        found.extend(arena.one_by_one(&mut seed)?);
        arena.fill(TASKS_MORE)?;
        found.extend(arena.last_blow(&mut seed)?);
        arena.heal(&mut seed)?;
        let back = arena.goes_on(LATE_MAX)?;
        found.extend(self.too_late("all agents were back", "all was healed", back, &arena));
        arena.fill(TASKS_MORE)?;
        arena.lose_one()?;
        let finished = arena.finish(LATE_MAX)?;
        found.extend(self.too_late("all work was finished", "a node was lost", finished, &arena));
        if !clock::becomes(GONE_MAX, || Ok(arena.live_agents() == 0))? {
            let text = format!(
                "{} agents live though all work is done",
                arena.live_agents()
            );
            found.push(Violation::new(Promise::LeftBehind, text));
        }
        let lines = arena.log.lines()?;
        found.extend(check_lines(&lines, &arena.freezes));
        found.extend(check_store(&arena, &lines)?);
        self.note(trial, nodes, &lines, &arena, [back, finished], found.len());
        Ok(found)
    }

    /// Judged only where the machine has time for it.
    fn too_late(
        &self,
        what: &str,
        after: &str,
        took: Option<Duration>,
        arena: &Arena,
    ) -> Option<Violation> {
        let text = match took {
            Some(took) if took <= LEASE * 2 => return None,
            Some(took) => format!("{what} only {took:.1?} after {after}"),
            None => format!(
                "not {what} {LATE_MAX:?} after {after}: {}",
                arena.last_said()
            ),
        };
        let slowdown = clock::slowdown();
        if took.is_some() && slowdown > SLOWDOWN_MAX {
            let why =
                format!("the machine is busy, work takes {slowdown:.0} times as long: {text}");
            self.tally.skip("fleet: within two leases", &why);
            return None;
        }
        Some(Violation::new(Promise::Lost, text))
    }

    fn count(&self, trouble: Trouble, part: Part) {
        if part == Part::Begin {
            let mut figures = self.figures.lock().expect("nothing panics here");
            *figures.troubles.entry(trouble.to_string()).or_default() += 1;
        }
    }

    fn note(
        &self,
        trial: u64,
        nodes: usize,
        lines: &[Line],
        arena: &Arena,
        took: [Option<Duration>; 2],
        violations: usize,
    ) {
        let count =
            |is: fn(&Deed) -> bool| lines.iter().filter(|line| is(&line.deed)).count() as u64;
        let births = count(|deed| matches!(deed, Deed::Born { .. }));
        let steps = count(|deed| matches!(deed, Deed::Ack { .. }));
        let moves = takeovers(lines, &arena.agents);
        let [back, finished] = took.map(|took| took.unwrap_or(LATE_MAX));
        println!(
            "fleet: trial {trial}: {nodes} nodes, {steps} steps, {births} lives, {moves} takeovers, \
             {} late writes refused, {} steps resolved, back {:.1} s after healing, finished \
             {:.1} s after a loss, {violations} violations",
            arena.late_refused,
            arena.resolved,
            back.as_secs_f64(),
            finished.as_secs_f64()
        );
        let mut figures = self.figures.lock().expect("nothing panics here");
        figures.trials += 1;
        figures.nodes += nodes as u64;
        figures.births += births;
        figures.steps += steps;
        figures.takeovers += moves;
        figures.late_refused += arena.late_refused;
        figures.back_max = figures.back_max.max(back);
        figures.finish_max = figures.finish_max.max(finished);
    }

    fn report(&self, took: Duration) {
        let figures = self.figures.lock().expect("nothing panics here");
        for (trouble, count) in &figures.troubles {
            println!("  {count:>6} × {trouble}");
        }
        let counts = self.tally.counts();
        println!(
            "fleet: {} fleets of {} nodes: {} steps, {} lives, {} takeovers, {} late writes refused, \
             {} doubled, {} lost, back at most {:.1} s after healing and finished {:.1} s after a \
             loss ({:.0} s, seed {})",
            figures.trials,
            figures.nodes,
            figures.steps,
            figures.births,
            figures.takeovers,
            figures.late_refused,
            counts.doubled,
            counts.lost,
            figures.back_max.as_secs_f64(),
            figures.finish_max.as_secs_f64(),
            took.as_secs_f64(),
            self.options.seed
        );
        let wanted = self.options.only_trial.map_or(self.options.trials, |_| 1);
        if figures.trials < wanted && clock::now() > self.options.until {
            self.tally.skip(
                "fleet",
                &format!("time was up after {} fleets", figures.trials),
            );
        }
    }
}

/// How often an agent came up on another node than before.
fn takeovers(lines: &[Line], agents: &[String]) -> u64 {
    let of_agent = |agent: &String| {
        let nodes: Vec<&str> = lines
            .iter()
            .filter(|line| line.agent == *agent)
            .filter_map(|line| match &line.deed {
                Deed::Born { node, .. } => Some(node.as_str()),
                _ => None,
            })
            .collect();
        nodes.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64
    };
    agents.iter().map(of_agent).sum()
}

fn check_store(arena: &Arena, lines: &[Line]) -> anyhow::Result<Vec<Violation>> {
    arena.with_store(async |relight| {
        let store = relight.engine().store();
        let tokens = BTreeSet::from([FLEET_TOKEN.to_owned()]);
        let ledger = arena.log.ledger();
        let mut found = checker::queue::check(&relight, arena.tasks, &ledger, &tokens).await?;
        for agent in &arena.agents {
            let id = TaskId::new(agent.clone())?;
            let Some(task) = store.task(&id).await? else {
                found.push(Violation::new(
                    Promise::Lost,
                    format!("task {agent} is not there"),
                ));
                continue;
            };
            let (task_id, kinds, agent) = (Some(id), vec![], None);
            let (after, before, limit, newest) = (0, None, EVENTS_MAX, false);
            let query = EventQuery {
                after,
                before,
                task: task_id,
                agent,
                kinds,
                limit,
                newest,
            };
            found.extend(check_task(&task, &store.events(query).await?, lines));
        }
        Ok(found)
    })
}
