//! A disk that is really full, and one that is read-only.

use std::path::Path;

use crate::checker;
use crate::world::disk::{self, Disk};
use crate::world::product::Product;
use crate::world::stage::Stage;
use crate::world::tally::{Promise, Tally, Violation};

/// So many writes of a page do not fit beside a full disk's log.
const WRITES_MAX: usize = 300;

/// Runs each of them.
pub fn run(product: &Product, work: &Path, tally: &Tally) -> anyhow::Result<()> {
    let folder = work.join("disks");
    if let Some(why) = disk::refusal(&folder) {
        tally.skip("faults: full disk, read-only disk", &why);
        return Ok(());
    }
    let trials: [(&str, Trial); 4] = [
        ("a store on a full disk", store_on_full_disk),
        ("no store yet on a full disk", no_store_on_full_disk),
        ("files on a full disk", files_on_full_disk),
        ("a store on a read-only disk", store_on_read_only_disk),
    ];
    for (number, (name, trial)) in trials.into_iter().enumerate() {
        let folder = folder.join(number.to_string());
        let stage = Stage::in_folder(product, &folder, "T")?;
        let disk = Disk::make(&folder, "disk")?;
        let mut talk = Talk {
            stage,
            found: Vec::new(),
        };
        trial(&mut talk, &disk)?;
        println!("faults: {name}: {} failed", talk.found.len());
        tally.trial(name, &talk.found);
    }
    Ok(())
}

type Trial = fn(&mut Talk, &Disk) -> anyhow::Result<()>;

/// Calls with the exit codes that they may have.
struct Talk {
    stage: Stage,
    found: Vec<Violation>,
}

impl Talk {
    fn call(&mut self, line: &str, wanted: &[i32]) -> anyhow::Result<i32> {
        let folder = self.stage.checkpoints.display().to_string();
        let words: Vec<&str> = line
            .split(' ')
            .map(|word| if word == "DIR" { folder.as_str() } else { word })
            .collect();
        let answer = self.stage.product.call(&self.stage.home, &words)?;
        if !wanted.contains(&answer.code) {
            let start: String = line.chars().take(40).collect();
            let text = format!("{start}: exit {}: {}", answer.code, answer.stderr.trim());
            self.found.push(Violation::new(Promise::Answer, text));
        }
        Ok(answer.code)
    }

    fn lost(&mut self, text: String) {
        self.found.push(Violation::new(Promise::Lost, text));
    }
}

fn store_on_full_disk(talk: &mut Talk, disk: &Disk) -> anyhow::Result<()> {
    talk.stage.home = disk.place().join("home");
    talk.call("task start T --step s01", &[0])?;
    talk.call("step run s01 --task T -- echo first", &[0])?;
    let filler = disk.fill()?;
    let mut taken = Vec::new();
    let page = "x".repeat(4000);
    for number in 0..WRITES_MAX {
        if talk.call(&format!("task set T k{number}={page}"), &[0, 74])? == 0 {
            taken.push(format!("k{number}"));
        }
    }
    if taken.len() == WRITES_MAX {
        talk.found
            .push(Violation::new(Promise::Answer, "the disk was never full"));
    }
    std::fs::remove_file(filler)?;
    talk.call("task set T again=1", &[0])?;
    let task = talk.stage.task_shown()?.unwrap_or_default();
    for key in taken
        .iter()
        .filter(|key| task["context"][key.as_str()] != page.as_str())
    {
        talk.lost(format!(
            "{key} was acknowledged on the full disk and is not there"
        ));
    }
    if task["steps"][0]["state"] != "done" {
        talk.lost(format!("s01 is {}", task["steps"][0]["state"]));
    }
    talk.found.extend(checker::check_pages(&talk.stage)?);
    Ok(())
}

fn no_store_on_full_disk(talk: &mut Talk, disk: &Disk) -> anyhow::Result<()> {
    talk.stage.home = disk.place().join("home");
    let filler = disk.fill()?;
    talk.call("task start T --step s01", &[74])?;
    std::fs::remove_file(filler)?;
    talk.call("task start T --step s01", &[0])?;
    talk.found.extend(checker::check_pages(&talk.stage)?);
    Ok(())
}

fn files_on_full_disk(talk: &mut Talk, disk: &Disk) -> anyhow::Result<()> {
    talk.stage.checkpoints = disk.place().join("checkpoints");
    let start = "checkpoint start --workflow T --agent a --step s01 --idempotency k --dir DIR";
    talk.call(start, &[0])?;
    let filler = disk.fill()?;
    // More than fits into the blocks that a file system finds at the last moment.
    let notes = "x".repeat(60_000);
    let update = format!("checkpoint update --workflow T --complete s01 --notes {notes} --dir DIR");
    talk.call(&update, &[73])?;
    talk.found.extend(checker::check_files_whole(&talk.stage)?);
    let task = talk.stage.task_shown()?.unwrap_or_default();
    if task["done_steps"][0] != "s01" {
        talk.lost("exit 73, and the store does not have it".to_owned());
    }
    std::fs::remove_file(filler)?;
    talk.call(
        "checkpoint update --workflow T --notes again --dir DIR",
        &[0],
    )?;
    talk.found.extend(checker::check_file(&talk.stage)?);
    Ok(())
}

fn store_on_read_only_disk(talk: &mut Talk, disk: &Disk) -> anyhow::Result<()> {
    talk.stage.home = disk.place().join("home");
    talk.call("task start T --step s01", &[0])?;
    disk.set_read_only(true)?;
    talk.call("task set T a=1", &[74])?;
    talk.call("step run s01 --task T -- touch /dev/null", &[74])?;
    disk.set_read_only(false)?;
    talk.call("task set T a=1", &[0])?;
    talk.call("step run s01 --task T -- echo first", &[0])?;
    talk.found.extend(checker::check_pages(&talk.stage)?);
    Ok(())
}
