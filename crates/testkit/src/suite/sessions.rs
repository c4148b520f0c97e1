//! A gateway killed at random moments: after each death, exactly the sessions whose turn was in flight
//! are reported.
//!
//! What was in flight is told by the gateway's own log. A call that was in the air at the kill may have
//! reached the disk or not; there is at most one of them a worker, and everything else is exact.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use crate::driver::gateway;
use crate::world::clock;
use crate::world::group::Group;
use crate::world::product::{Answer, Product};
use crate::world::seed::Seed;
use crate::world::tally::{Promise, Tally, Violation};
use crate::world::turn_log::{self, Told, Truth};

/// A gateway lives up to this long after its first turn.
const LIFE_MAX: Duration = Duration::from_millis(60);
/// Nothing else in a trial takes this long.
const PATIENCE: Duration = Duration::from_secs(180);
/// Deaths in a row after which a session is suspended whatever the policy.
const DEATHS_MAX: u64 = 3;
/// Sessions of a gateway that lives through all of it.
const BYSTANDERS: [&str; 3] = ["other:1", "other:2", "other:3"];

/// What to do.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many kills.
    pub trials: u64,
    /// What every draw comes from.
    pub seed: u64,
    /// The end, whatever was reached by then.
    pub until: Instant,
}

struct Run<'a> {
    product: &'a Product,
    folder: &'a Path,
    home: std::path::PathBuf,
    /// Deaths in a row of each session, as far as the logs can tell.
    deaths: BTreeMap<String, Option<u64>>,
    found: u64,
    in_the_air: u64,
}

/// One store, one gateway after the other.
pub fn run(product: &Product, work: &Path, options: Options, tally: &Tally) -> anyhow::Result<()> {
    let folder = work.join("sessions");
    std::fs::create_dir_all(&folder)?;
    let home = folder.join("home");
    let mut run = Run {
        product,
        folder: &folder,
        home,
        deaths: BTreeMap::new(),
        found: 0,
        in_the_air: 0,
    };
    run.begin_bystanders()?;
    let mut done = 0;
    while done < options.trials && clock::now() < options.until {
        let mut seed = Seed::of_trial(options.seed, done);
        let found = run.trial(done, &mut seed)?;
        tally.trial(
            &format!("./prove sessions --seed {}, kill {done}", options.seed),
            &found,
        );
        done += 1;
    }
    tally.trial("sessions of a gateway that lives", &run.check_bystanders()?);
    println!(
        "sessions: {done} kills of a gateway with {} sessions, {} turns cut off and found, {} in the air",
        gateway::SESSIONS,
        run.found,
        run.in_the_air
    );
    Ok(())
}

impl Run<'_> {
    fn trial(&mut self, number: u64, seed: &mut Seed) -> anyhow::Result<Vec<Violation>> {
        let log = self.folder.join(format!("life-{number}"));
        let pid = match self.one_life(&log, seed)? {
            Ok(pid) => pid,
            Err(violation) => return Ok(vec![violation]),
        };
        let told = turn_log::read(&log)?;
        let ends_in_order = seed.below(12) == 0;
        if ends_in_order {
            self.call(&["session", "shutdown", "--owner-pid", &pid.to_string()])?;
        }
        let policy = if seed.below(2) == 0 {
            "suspend"
        } else {
            "resume_pending"
        };
        let reported = self.recover(policy, 1 + seed.below(2) as usize)?;
        let mut found = match ends_in_order {
            true => {
                self.forget_deaths(&told);
                extra(&reported, |_| false)
            }
            false => self.compare(&told, &reported, policy),
        };
        if !self.recover(policy, 1)?.is_empty() {
            found.push(Violation::new(
                Promise::Repeated,
                "a second recovery reported again",
            ));
        }
        if found.is_empty() {
            std::fs::remove_file(&log).context("the log of a life")?;
        }
        Ok(found)
    }

    /// Starts a gateway and kills it in the middle; answers its pid. One that ends by itself was told
    /// something that it must not be told.
    fn one_life(&self, log: &Path, seed: &mut Seed) -> anyhow::Result<Result<i32, Violation>> {
        let (home, log_text) = (self.home.display().to_string(), log.display().to_string());
        let words = ["gateway", &home, &log_text, &seed.draw().to_string()];
        let said = std::fs::File::create(self.folder.join("said"))?;
        let mut command = self.product.driver(&words);
        let group = Group::spawn(command.stdout(Stdio::null()).stderr(said))?;
        let begun = || Ok(std::fs::metadata(log).is_ok_and(|found| found.len() > 0));
        anyhow::ensure!(
            clock::becomes(PATIENCE, begun)?,
            "the gateway began no turn"
        );
        let ended = group.leader_ends_within(seed.moment(LIFE_MAX))?;
        let pid = group.leader().as_raw_nonzero().get();
        group.kill_all();
        group.wait_for_all(PATIENCE)?;
        if ended {
            let said = std::fs::read_to_string(self.folder.join("said")).unwrap_or_default();
            return Ok(Err(Violation::new(Promise::Fence, said.trim())));
        }
        Ok(Ok(pid))
    }

    /// What so many gateways that start at once are told, all together.
    fn recover(&self, policy: &str, callers: usize) -> anyhow::Result<Vec<Value>> {
        let words = [
            "session",
            "recover",
            "--json",
            "--policy",
            policy,
            "--freshness",
            "0s",
        ];
        let answers = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..callers)
                .map(|_| scope.spawn(|| self.call(&words)))
                .collect();
            let joined = calls
                .into_iter()
                .map(|call| call.join().expect("a call never panics"));
            joined.collect::<anyhow::Result<Vec<Answer>>>()
        })?;
        let mut items = Vec::new();
        for answer in answers {
            let answer = answer.json()?;
            items.extend(answer["items"].as_array().context("items")?.iter().cloned());
        }
        Ok(items)
    }

    /// Holds what was reported against what the gateway told.
    fn compare(
        &mut self,
        told: &BTreeMap<String, Told>,
        reported: &[Value],
        policy: &str,
    ) -> Vec<Violation> {
        let may_be = |key: &str| {
            told.get(key)
                .is_some_and(|told| told.truth != Truth::AtRest)
        };
        let mut found = extra(reported, may_be);
        let by_key: BTreeMap<&str, &Value> =
            reported.iter().map(|one| (key_of(one), one)).collect();
        for (key, told) in told {
            let one = by_key.get(key.as_str());
            self.in_the_air += u64::from(told.truth == Truth::InTheAir);
            if told.truth == Truth::InFlight && one.is_none() {
                found.push(Violation::new(
                    Promise::Lost,
                    format!("{key} was in flight"),
                ));
            }
            found.extend(self.count(key, *told, one.copied(), policy));
        }
        found
    }

    /// Keeps count of the deaths of one session, and holds its state against it.
    fn count(
        &mut self,
        key: &str,
        told: Told,
        reported: Option<&Value>,
        policy: &str,
    ) -> Option<Violation> {
        let deaths = self.deaths.entry(key.to_owned()).or_insert(Some(0));
        if told.finished {
            *deaths = Some(0);
        }
        let Some(reported) = reported else {
            if told.truth == Truth::InTheAir {
                // An end that reached the disk counts as finished, a begin that did not as nothing.
                *deaths = None;
            }
            return None;
        };
        self.found += 1;
        let said = reported["deaths_in_a_row"].as_u64().unwrap_or(0);
        let expected = deaths.map_or(said, |before| before + 1);
        *deaths = Some(said);
        let is_limit = said >= DEATHS_MAX;
        let state = if policy == "suspend" || is_limit {
            "suspended"
        } else {
            "resume_pending"
        };
        let is_right = said == expected && reported["state"] == state;
        let text = format!("{key} after {expected} deaths: {reported}");
        (!is_right).then(|| Violation::new(Promise::Record, text))
    }

    /// A clean end says nothing about what became of calls in the air.
    fn forget_deaths(&mut self, told: &BTreeMap<String, Told>) {
        for key in told.keys() {
            self.deaths.insert(key.clone(), None);
        }
    }

    fn begin_bystanders(&self) -> anyhow::Result<()> {
        let me = std::process::id().to_string();
        for key in BYSTANDERS {
            self.call(&["session", "begin", key, "--id", "x", "--owner-pid", &me])?;
        }
        Ok(())
    }

    fn check_bystanders(&self) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        for key in BYSTANDERS {
            let answer = self.call(&["session", "end", key, "--generation", "1", "--json"])?;
            if answer.json()?["ended_before"] != false {
                let text = format!("{key}: {}", answer.stdout.trim());
                found.push(Violation::new(Promise::Fence, text));
            }
        }
        Ok(found)
    }

    fn call(&self, words: &[&str]) -> anyhow::Result<Answer> {
        let answer = self.product.call(&self.home, words)?;
        anyhow::ensure!(
            answer.code == 0,
            "{words:?}: exit {}: {}",
            answer.code,
            answer.stderr
        );
        Ok(answer)
    }
}

fn key_of(reported: &Value) -> &str {
    reported["key"].as_str().unwrap_or("nothing")
}

/// Those that must not have been reported, and those that were reported twice.
fn extra(reported: &[Value], may_be: impl Fn(&str) -> bool) -> Vec<Violation> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for one in reported {
        let key = key_of(one);
        if !seen.insert(key) {
            found.push(Violation::new(
                Promise::Repeated,
                format!("{key} was reported twice"),
            ));
        }
        if !may_be(key) {
            let text = format!("{key} was at rest and was reported: {one}");
            found.push(Violation::new(Promise::Record, text));
        }
    }
    found
}
