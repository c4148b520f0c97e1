//! `restart`: from the SIGKILL of a worker to the first instruction of its successor, and what it costs
//! to be ready for that.
//!
//! Every contestant keeps the same worker, which tells its own first instruction; who asks does not
//! matter. Where the product cannot do something yet, the row says so.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::contest::{Contest, Results};
use crate::keeper::Keeper;
use crate::row::{Row, Target};
use crate::samples::Samples;
use crate::stage::Stage;
use crate::{hang, many};

const FLOOR: &str = "waitid+spawn loop";
/// Relight, with an agent that works in a repository.
const IN_GIT: &str = "relight in a repository";
const REPOSITORY_FILES: usize = 1_000;
const RUNIT: &str = "runit";
const SUPERVISORD: &str = "supervisord";
/// Killed at the same time.
const AT_ONCE: usize = 100;

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut rows = one_rows(stage)?;
    rows.extend(at_once_rows(stage)?);
    rows.extend(many::rows(stage)?);
    rows.extend(hang::rows(stage)?);
    Ok(rows)
}

/// One worker, killed again and again.
fn one_rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut contest = Contest::default();
    let mut floor = Keeper::floor(stage, "floor-1", 1)?;
    contest.enter(FLOOR, move |_| floor.kill_one_ms());
    let relight = Keeper::relight(stage, "one", 1);
    let missing = relight.as_ref().err().map(|error| format!("{error:#}"));
    if let Ok(mut relight) = relight {
        contest.enter("relight", move |_| relight.kill_one_ms());
    }
    if let Some(repository) = repository(stage)? {
        let relight = Keeper::relight_in(&repository, stage, "one-in-git", 1);
        if let Ok(mut relight) = relight {
            contest.enter(IN_GIT, move |_| relight.kill_one_ms());
        }
    }
    if let Some(mut runit) = Keeper::runit(stage)? {
        contest.enter(RUNIT, move |_| runit.kill_one_ms());
    }
    if let Some(mut supervisord) = Keeper::supervisord(stage)? {
        contest.enter(SUPERVISORD, move |_| supervisord.kill_one_ms());
    }
    let results = contest.run(stage.pick(250, 8))?;
    Ok(one_table(&results, missing.as_deref()))
}

/// A repository with files of which some are changed; none where git is not installed.
fn repository(stage: &Stage) -> anyhow::Result<Option<PathBuf>> {
    let folder = stage.subfolder("repository")?;
    for number in 0..REPOSITORY_FILES {
        fs::write(folder.join(format!("{number}.txt")), format!("{number}\n"))?;
    }
    let git = |words: &[&str]| {
        let nobody = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        let mut command = Command::new("git");
        command.current_dir(&folder).args(nobody).args(words);
        command.output().is_ok_and(|output| output.status.success())
    };
    let is_there =
        git(&["init", "-q"]) && git(&["add", "."]) && git(&["commit", "-q", "-m", "first"]);
    fs::write(folder.join("0.txt"), "changed\n")?;
    Ok(is_there.then_some(folder))
}

fn one_table(results: &Results, missing: Option<&str>) -> Vec<Row> {
    let p99 = |name: &str| results.get(name).map(|all| Samples::new(vec![all.p99()]));
    let what = "kill to the successor's first instruction";
    let relight = || Row::new(what, "ms").figure(results.get("relight"));
    let mut rows = vec![
        relight()
            .beside(FLOOR, results.get(FLOOR))
            .target(Target::TimesFloorMax(2.0))
            .note(missing),
        Row::new(format!("{what}, p99"), "ms")
            .figure(p99("relight").as_ref())
            .beside(format!("{FLOOR}, p99"), p99(FLOOR).as_ref())
            .target(Target::TimesFloorMax(4.0)),
        Row::new(format!("{what}, in a git repository"), "ms")
            .figure(results.get(IN_GIT))
            .beside(FLOOR, results.get(FLOOR))
            .target(Target::TimesFloorMax(2.0))
            .note(
                results
                    .get(IN_GIT)
                    .is_none()
                    .then_some("there is no git, or no `relight up`"),
            ),
    ];
    let runit = relight().faster_than(RUNIT, results.get(RUNIT));
    let not_there = results
        .get(RUNIT)
        .is_none()
        .then_some("runit is not installed");
    rows.push(runit.target(Target::TimesFasterMin(1.0)).note(not_there));
    for peer in [RUNIT, SUPERVISORD] {
        let note = results.get(peer).is_none().then_some("not installed");
        let row = Row::new(format!("the same by {peer}"), "ms").figure(results.get(peer));
        rows.push(row.beside(FLOOR, results.get(FLOOR)).note(note));
        let row = Row::new(format!("the same by {peer}, p99"), "ms").figure(p99(peer).as_ref());
        rows.push(row.beside(format!("{FLOOR}, p99"), p99(FLOOR).as_ref()));
    }
    rows
}

/// Many workers, all killed at the same time: until the last one is back.
fn at_once_rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut contest = Contest::default();
    let mut floor = Keeper::floor(stage, "floor-100", AT_ONCE)?;
    contest.enter(FLOOR, move |_| floor.kill_all_ms());
    let relight = Keeper::relight(stage, "hundred", AT_ONCE);
    let missing = relight.as_ref().err().map(|error| format!("{error:#}"));
    if let Ok(mut relight) = relight {
        contest.enter("relight", move |_| relight.kill_all_ms());
    }
    let results = contest.run(stage.pick(30, 3))?;
    let row = Row::new(format!("{AT_ONCE} killed at once, the last one back"), "ms");
    let row = row.figure(results.get("relight"));
    let row = row.beside(format!("{AT_ONCE} {FLOOR}s"), results.get(FLOOR));
    Ok(vec![row.target(Target::ValueMax(100.0)).note(missing)])
}
