//! Several projects on one machine: which home a command uses, and who decides that.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::relight::{Ran, Stage, finish};

/// A user without `RELIGHT_HOME`, with folders below `work`.
struct Machine(Stage);

impl Machine {
    fn new() -> Self {
        Self(Stage::new())
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.0.folder.path().join("work").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn project(&self, name: &str) -> PathBuf {
        let folder = self.folder(name);
        write_config(&folder, "");
        folder
    }

    fn base(&self) -> PathBuf {
        self.0.folder.path().join("user/.local/state/relight")
    }

    fn run_with(&self, folder: &Path, variables: &[(&str, &Path)], words: &[&str]) -> Ran {
        let mut command = self.0.command(words);
        command.env_remove("RELIGHT_HOME").current_dir(folder);
        command.envs(variables.iter().copied());
        finish(command.spawn().unwrap())
    }

    fn run(&self, folder: &Path, words: &[&str]) -> Ran {
        self.run_with(folder, &[], words)
    }

    fn json(&self, folder: &Path, words: &[&str]) -> Value {
        let ran = self.run(folder, &[words, &["--json"]].concat());
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    /// An agent that ran once in this folder.
    fn agent(&self, folder: &Path, name: &str) {
        let ran = self.run(folder, &["run", "--name", name, "--", "echo", name]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }

    fn agents(&self, folder: &Path, words: &[&str]) -> Vec<String> {
        let listed = self.json(folder, words);
        let items = listed["items"].as_array().unwrap().iter();
        let name = |item: &Value| match item["project"].as_str() {
            Some(project) => format!("{project}/{}", item["name"].as_str().unwrap()),
            None => item["name"].as_str().unwrap().to_owned(),
        };
        items.map(name).collect()
    }
}

fn write_config(folder: &Path, text: &str) {
    let file = folder.join("relight.toml");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn each_project_has_a_home_of_its_own_and_all_are_listed_together() {
    let machine = Machine::new();
    let (shop, blog) = (machine.project("shop"), machine.project("blog"));
    let (deep, elsewhere) = (machine.folder("shop/src/deep"), machine.folder("elsewhere"));
    machine.agent(&deep, "seller");
    machine.agent(&blog, "writer");
    machine.agent(&elsewhere, "loner");
    assert_eq!(machine.agents(&shop, &["ps"]), ["seller"]);
    assert_eq!(machine.agents(&blog, &["ps"]), ["writer"]);
    assert_eq!(machine.agents(&elsewhere, &["ps"]), ["loner"]);
    let all = ["(default)/loner", "blog/writer", "shop/seller"];
    assert_eq!(machine.agents(&blog, &["ps", "--all"]), all);
    assert_eq!(
        machine.agents(&elsewhere, &["ps", "--project", "shop"]),
        ["seller"]
    );
    let status = machine.json(&deep, &["status"]);
    assert_eq!(status["project"]["name"], "shop");
    let home = PathBuf::from(status["home"].as_str().unwrap());
    assert!(
        home.starts_with(machine.base().join("projects")),
        "{home:?}"
    );
    assert!(!shop.join(".relight").exists() && std::fs::read_dir(&shop).unwrap().count() == 2);
    let unknown = machine.run(&shop, &["ps", "--project", "shpo"]);
    assert_eq!(unknown.code, 78, "{unknown:?}");
    assert!(unknown.stderr.contains("blog, shop"), "{unknown:?}");
    let both = machine.run(&shop, &["ps", "--project", "shop", "--home", "/x"]);
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn a_home_that_is_named_wins_and_a_project_that_is_named_is_meant_whole() {
    let machine = Machine::new();
    let (shop, home) = (machine.project("shop"), machine.folder("home"));
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
    machine.agent(&shop, "seller");
    let named: &[(&str, &Path)] = &[("RELIGHT_HOME", &home)];
    let listed = machine.run_with(&shop, named, &["ps"]);
    assert!(listed.stdout.contains("no agents"), "{listed:?}");
    // As inside an agent of another project.
    let store = PathBuf::from(format!("sqlite:{}/other.db", home.display()));
    let inside: &[(&str, &Path)] = &[("RELIGHT_HOME", &home), ("RELIGHT_STORE", &store)];
    let listed = machine.run_with(&home, inside, &["ps", "--project", "shop"]);
    assert!(listed.stdout.contains("seller"), "{listed:?}");
}

#[test]
fn work_that_was_recorded_in_the_default_home_stays_in_sight() {
    let machine = Machine::new();
    let folder = machine.folder("old");
    machine.agent(&folder, "old");
    // As before projects had homes: the file came later, or an earlier version made nothing of it.
    write_config(&folder, "");
    let first = machine.run(&folder, &["ps"]);
    assert!(first.stdout.contains("old"), "{first:?}");
    for part in ["holds its agent old;", "relight project separate"] {
        assert!(first.stderr.contains(part), "{part}: {first:?}");
    }
    assert_eq!(machine.run(&folder, &["ps"]).stderr, "", "it is said once");
    // Another project is not drawn into it.
    let new = machine.project("new");
    let said = machine.run(&new, &["ps"]);
    assert!(said.stdout.contains("no agents"), "{said:?}");
    assert!(said.stderr.contains("relight --home"), "{said:?}");
    assert_eq!(machine.run(&folder, &["project", "separate"]).code, 0);
    assert_eq!(machine.agents(&folder, &["ps"]), [""; 0]);
    assert_eq!(machine.run(&folder, &["project", "share"]).code, 0);
    assert_eq!(machine.agents(&folder, &["ps"]), ["old"]);
    let listed = machine.json(&folder, &["project", "list"]);
    assert_eq!(listed["items"][1]["separate"], false, "{listed}");
}

#[test]
fn work_of_others_in_the_default_home_does_not_draw_a_new_project_there() {
    let machine = Machine::new();
    let elsewhere = machine.folder("elsewhere");
    assert_eq!(machine.run(&elsewhere, &["task", "add", "stray"]).code, 0);
    let begin = "session begin chat --id 1 --lease 1h".split(' ');
    let begun = machine.run(&elsewhere, &begin.collect::<Vec<_>>());
    assert_eq!(begun.code, 0, "{begun:?}");
    let new = machine.project("new");
    let said = machine.run(&new, &["task", "list"]);
    assert!(!said.stdout.contains("stray"), "{said:?}");
    assert!(said.stderr.contains("projects/new-"), "{said:?}");
    assert!(!said.stderr.contains("separate"), "{said:?}");
    // Agents of a project below are that project's.
    let below = machine.folder("outer/below");
    machine.agent(&below, "deep");
    write_config(&below, "");
    let outer = machine.run(&machine.project("outer"), &["ps"]);
    assert!(outer.stdout.contains("no agents"), "{outer:?}");
    let below = machine.run(&below, &["ps"]);
    assert!(below.stderr.contains("holds its agent deep;"), "{below:?}");
}

#[test]
fn an_empty_default_home_is_not_mentioned() {
    let machine = Machine::new();
    machine.run(&machine.folder("elsewhere"), &["ps"]);
    assert!(machine.base().join("relight.db").exists());
    let init = machine.run(&machine.folder("new"), &["init"]);
    assert_eq!((init.code, init.stderr.as_str()), (0, ""), "{init:?}");
}

#[test]
fn an_unfinished_workflow_in_the_default_home_stays_in_sight_of_its_folder() {
    let machine = Machine::new();
    let folder = machine.folder("old");
    let start = "checkpoint start --workflow w --agent a --step s --idempotency k".split(' ');
    let started = machine.run(&folder, &start.collect::<Vec<_>>());
    assert_eq!(started.code, 0, "{started:?}");
    write_config(&folder, "");
    let first = machine.run(&folder, &["task", "list"]);
    assert!(
        first.stderr.contains("holds its unfinished task"),
        "{first:?}"
    );
}

#[test]
fn a_project_whose_folder_is_gone_says_so_and_can_be_forgotten() {
    let machine = Machine::new();
    let (gone, elsewhere) = (machine.project("gone"), machine.folder("elsewhere"));
    machine.agent(&gone, "left");
    let kept = machine.run(&gone, &["project", "remove", "gone"]);
    assert_eq!(kept.code, 1, "it is there: {kept:?}");
    std::fs::remove_file(gone.join("relight.toml")).unwrap();
    let up = ["--project", "gone", "up", "-d"];
    let refused = machine.run(&elsewhere, &up);
    assert_eq!(refused.code, 78, "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("relight.toml of project gone is gone"),
        "{refused:?}"
    );
    std::fs::remove_dir_all(&gone).unwrap();
    let refused = machine.run(&elsewhere, &up);
    assert_eq!(refused.code, 78, "{refused:?}");
    let path = gone.display().to_string();
    for part in [
        "the folder of project gone is gone",
        &path,
        "relight project remove gone-",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    let status = machine.run(&elsewhere, &["--project", "gone", "status"]);
    assert!(
        status.stdout.contains(&format!("gone ({path}, gone)")),
        "{status:?}"
    );
    let removed = machine.run(&elsewhere, &["project", "remove", "gone"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    let command = removed
        .stdout
        .split_once("relight --home ")
        .unwrap()
        .1
        .trim();
    let words: Vec<&str> = command.split(' ').collect();
    let shown = machine.run(&elsewhere, &[&["--home"], &words[..]].concat());
    assert!(shown.stdout.contains("left"), "its state stays: {shown:?}");
    assert_eq!(
        machine.json(&elsewhere, &["project", "list"])["items"],
        serde_json::json!([])
    );
    assert_eq!(
        machine.run(&elsewhere, &["project", "remove", "gone"]).code,
        78
    );
    // At the same place it is the same project again.
    assert_eq!(machine.agents(&machine.project("gone"), &["ps"]), ["left"]);
}

#[test]
fn projects_that_cannot_be_read_are_not_none() {
    let machine = Machine::new();
    let shop = machine.project("shop");
    machine.agent(&shop, "seller");
    let (projects, aside) = (
        machine.base().join("projects"),
        machine.base().join("aside"),
    );
    std::fs::rename(&projects, &aside).unwrap();
    std::fs::write(&projects, "not a folder").unwrap();
    let path = projects.display().to_string();
    for words in [
        &["project", "list"][..],
        &["ps", "--all"],
        &["ps"],
        &["--project", "shop", "ps"],
    ] {
        let refused = machine.run(&shop, words);
        assert_eq!(refused.code, 74, "{words:?}: {refused:?}");
        assert!(refused.stderr.contains(&path), "{words:?}: {refused:?}");
    }
    std::fs::remove_file(&projects).unwrap();
    std::fs::rename(&aside, &projects).unwrap();
    assert_eq!(machine.agents(&shop, &["ps"]), ["seller"]);
}

#[test]
fn agents_of_one_name_are_found_in_all_projects() {
    let machine = Machine::new();
    let (shop, blog) = (machine.project("shop"), machine.project("blog"));
    machine.agent(&shop, "writer");
    machine.agent(&blog, "writer");
    machine.agent(&blog, "other");
    let found = machine.agents(&shop, &["ps", "--all", "writer"]);
    assert_eq!(found, ["blog/writer", "shop/writer"]);
    let none = machine.run(&shop, &["ps", "--all", "nobody"]);
    assert_eq!(none.code, 1, "{none:?}");
}

#[test]
fn a_file_that_others_can_write_decides_nothing() {
    let machine = Machine::new();
    let (outer, below) = (machine.project("shared"), machine.folder("shared/mine"));
    machine.agent(&machine.folder("elsewhere"), "loner");
    let writable = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(outer.join("relight.toml"), writable).unwrap();
    for folder in [&outer, &below] {
        assert_eq!(machine.agents(folder, &["ps"]), ["loner"], "{folder:?}");
        assert_eq!(machine.json(folder, &["status"])["project"], Value::Null);
    }
    assert_eq!(machine.run(&outer, &["up"]).code, 78);
    let none = machine.run(&below, &["up"]);
    assert!(
        none.stderr.contains("there is no relight.toml"),
        "passed over: {none:?}"
    );
}

#[test]
fn an_approval_counts_for_the_project_wherever_its_home_is() {
    let machine = Machine::new();
    let shop = machine.folder("shop");
    write_config(&shop, "[store]\nurl = \"sqlite:own.db\"\n");
    let refused = machine.run(&shop, &["task", "add", "t"]);
    assert_eq!(refused.code, 78, "{refused:?}");
    assert!(refused.stderr.contains("relight trust"), "{refused:?}");
    let deep = machine.folder("shop/src/deep");
    assert_eq!(machine.run(&deep, &["trust"]).code, 0);
    assert_eq!(machine.run(&shop, &["task", "add", "t"]).code, 0);
    assert!(shop.join("own.db").exists());
    let listed = machine.run(&shop, &["trust", "--list"]);
    assert!(listed.stdout.contains("shop/relight.toml"), "{listed:?}");
}

#[test]
fn lines_of_several_agents_are_merged_under_their_names() {
    let machine = Machine::new();
    let shop = machine.project("shop");
    machine.agent(&shop, "seller");
    machine.agent(&shop, "packer");
    let ran = machine.run(&shop, &["logs"]);
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["packer | packer", "seller | seller"], "{ran:?}");
    let ran = machine.run(&shop, &["logs", "seller", "-t"]);
    let (at, line) = ran.stdout.trim_end().split_once(' ').unwrap();
    assert!(at.parse::<relight_core::time::Time>().is_ok(), "{ran:?}");
    assert_eq!(line, "seller");
    let ran = machine.run(&shop, &["logs", "--grep", "^pack"]);
    assert_eq!(ran.stdout, "packer | packer\n", "{ran:?}");
    let ran = machine.run(&shop, &["logs", "seller", "packer", "--attempt", "1"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}
