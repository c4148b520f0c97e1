//! Files that are always whole, and repositories of every shape.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use relight_core::agent::AttemptTag;
use relight_core::agent::active_state::ActiveState;
use relight_core::agent::brief::DirtyFiles;
use relight_core::ids::AgentName;
use relight_core::time::{Span, Time};
use tempfile::TempDir;

use super::{Asker, complete_brief, dirty_files, sweep, write_brief, write_state};
use crate::git_state::{git_facts, git_head};
use crate::os::process;
use crate::supervise::folder::AgentFolder;

const WHILE: Span = Span::from_secs(30);
/// Some other user of the machine.
const STRANGER: u32 = 54_321;

fn agent() -> AgentName {
    AgentName::new("writer").unwrap()
}

fn agent_folder() -> (TempDir, AgentFolder) {
    let home = TempDir::new().unwrap();
    let folder = AgentFolder::of(home.path(), &agent());
    folder.create().unwrap();
    (home, folder)
}

fn state(at_ms: i64, reason: Option<&str>) -> ActiveState {
    let (agent, at) = (agent(), Time::from_ms(at_ms));
    let tag = AttemptTag::new(&agent, 2, 7);
    ActiveState::new(
        Some(&agent),
        Some(&tag),
        None,
        None,
        reason.map(str::to_owned),
        at,
    )
}

#[test]
fn a_brief_is_private_and_written_only_when_it_changed() {
    let (_home, folder) = agent_folder();
    assert!(write_brief(&folder, "one\n").unwrap());
    assert!(!write_brief(&folder, "one\n").unwrap());
    assert!(write_brief(&folder, "two\n").unwrap());
    assert_eq!(fs::read_to_string(folder.brief()).unwrap(), "two\n");
    assert_eq!(
        fs::metadata(folder.brief()).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        2,
        "the brief and the folder of logs"
    );
}

#[test]
fn a_brief_is_completed_only_while_it_is_there() {
    let (_home, folder) = agent_folder();
    let there = || fs::read_to_string(folder.brief()).unwrap();
    write_brief(&folder, "attempt 2\n").unwrap();
    let being_read = fs::File::open(folder.brief()).unwrap();
    assert!(complete_brief(&folder, "attempt 2\n", "attempt 2, and git\n").unwrap());
    assert_eq!(there(), "attempt 2, and git\n");
    assert_eq!(
        std::io::read_to_string(being_read).unwrap(),
        "attempt 2\n",
        "a reader had it whole"
    );
    write_brief(&folder, "attempt 3\n").unwrap();
    assert!(!complete_brief(&folder, "attempt 2\n", "attempt 2, and git\n").unwrap());
    assert_eq!(there(), "attempt 3\n");
}

#[test]
fn a_state_that_says_the_same_later_is_left_as_it_is() {
    let (_home, folder) = agent_folder();
    assert!(write_state(&folder.state(), &state(1_000, None)).unwrap());
    assert!(!write_state(&folder.state(), &state(2_000, None)).unwrap());
    assert!(write_state(&folder.state(), &state(3_000, Some("oom: signal 9 (KILL)"))).unwrap());
    let text = fs::read_to_string(folder.state()).unwrap();
    assert_eq!(text, state(3_000, Some("oom: signal 9 (KILL)")).to_text());
}

#[test]
fn a_damaged_state_is_replaced() {
    let (_home, folder) = agent_folder();
    fs::write(folder.state(), b"{\"task_id\": \xff").unwrap();
    assert!(write_state(&folder.state(), &state(0, None)).unwrap());
    assert!(!write_state(&folder.state(), &state(0, None)).unwrap());
}

#[test]
fn what_a_killed_writer_left_goes_once_it_is_old() {
    let (_home, folder) = agent_folder();
    let at = |name: &str| folder.path().join(name);
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    for name in [
        "brief.tmp-12-0",
        "active_state.tmp-345-67",
        "brief.md",
        "brief.tmp-mine",
    ] {
        fs::write(at(name), "x").unwrap();
        let file = fs::OpenOptions::new().write(true).open(at(name)).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    fs::write(at("brief.tmp-12-1"), "being written").unwrap();
    sweep(&folder);
    let mut left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(
        left,
        ["brief.md", "brief.tmp-12-1", "brief.tmp-mine", "log"]
    );
    let mut home = folder.path().to_owned();
    home.push("absent");
    sweep(&AgentFolder::at(home));
}

#[test]
fn what_was_left_of_a_question_to_git_goes_too() {
    let (_home, folder) = agent_folder();
    let left = folder.path().join("git.tmp-12-345");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("config"), "x").unwrap();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    fs::File::open(&left)
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    sweep(&folder);
    assert!(!left.exists());
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let (home, folder) = agent_folder();
    fs::remove_dir_all(home.path()).unwrap();
    assert!(write_brief(&folder, "x").is_err());
}

/// For whom git is asked in a test; with the folder of that agent.
fn asker() -> (TempDir, Asker) {
    let (home, folder) = agent_folder();
    (
        home,
        Asker {
            folder,
            user: None,
            tag: AttemptTag::new(&agent(), 2, 7),
            cgroup: None,
        },
    )
}

/// The changed files of a workspace, asked for an agent without a user of its own.
fn dirty(workspace: &Path) -> Option<DirtyFiles> {
    let (_home, asker) = asker();
    let found = dirty_files(workspace, WHILE, &asker);
    assert_eq!(
        fs::read_dir(asker.folder.path()).unwrap().count(),
        1,
        "nothing is left behind"
    );
    found
}

/// Runs git as a person would, with nobody's configuration.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = process::command("git", arguments);
    command.current_dir(folder).env_clear().stdin(Stdio::null());
    command
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", folder);
    for name in [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ] {
        command.env(name, "a@example.org");
    }
    let output = command.output().expect("git is installed where tests run");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with one commit on `main`.
fn repository() -> TempDir {
    let folder = TempDir::new().unwrap();
    git(folder.path(), &["init", "-q", "-b", "main"]);
    git(
        folder.path(),
        &["commit", "-q", "--allow-empty", "-m", "first"],
    );
    folder
}

#[test]
fn branch_and_head_are_those_that_git_tells() {
    let folder = repository();
    let below = folder.path().join("src/deep");
    fs::create_dir_all(&below).unwrap();
    for workspace in [folder.path(), &below] {
        let facts = git_facts(workspace).unwrap();
        assert_eq!(facts.branch.as_deref(), Some("main"));
        assert_eq!(facts.head, Some(git(folder.path(), &["rev-parse", "HEAD"])));
        assert_eq!(facts.dirty, None, "git itself was not asked");
    }
}

#[test]
fn packed_refs_detached_heads_and_branches_without_a_commit_are_understood() {
    let folder = repository();
    let commit = git(folder.path(), &["rev-parse", "HEAD"]);
    git(folder.path(), &["pack-refs", "--all"]);
    assert!(!folder.path().join(".git/refs/heads/main").exists());
    assert_eq!(git_head(folder.path()), Some(commit.clone()));
    git(folder.path(), &["checkout", "-q", "--detach"]);
    let facts = git_facts(folder.path()).unwrap();
    assert_eq!((facts.branch, facts.head), (None, Some(commit)));
    git(
        folder.path(),
        &["checkout", "-q", "--orphan", "feature/new"],
    );
    let facts = git_facts(folder.path()).unwrap();
    assert_eq!(
        (facts.branch.as_deref(), facts.head),
        (Some("feature/new"), None)
    );
}

#[test]
fn a_linked_worktree_has_its_own_branch_lock_and_changes() {
    let folder = repository();
    let linked = folder.path().join("linked");
    git(
        folder.path(),
        &["worktree", "add", "-q", "-b", "fix", "linked"],
    );
    git(&linked, &["commit", "-q", "--allow-empty", "-m", "second"]);
    fs::write(folder.path().join(".git/worktrees/linked/index.lock"), "").unwrap();
    let facts = git_facts(&linked).unwrap();
    assert_eq!(facts.branch.as_deref(), Some("fix"));
    assert_eq!(facts.head, Some(git(&linked, &["rev-parse", "HEAD"])));
    assert!(
        facts
            .index_lock_age
            .is_some_and(|age| age < Span::from_secs(60))
    );
    assert_eq!(dirty(&linked).unwrap().count, 0);
    assert_eq!(git_facts(folder.path()).unwrap().index_lock_age, None);
}

#[test]
fn changed_new_and_renamed_files_are_named_up_to_eight() {
    let folder = repository();
    fs::write(folder.path().join("old name"), "text that stays the same\n").unwrap();
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "-q", "-m", "second"]);
    git(folder.path(), &["mv", "old name", "new name"]);
    for n in 0..10 {
        fs::write(folder.path().join(format!("file {n}\n")), "").unwrap();
    }
    let dirty = dirty(folder.path()).unwrap();
    assert_eq!((dirty.count, dirty.names.len()), (11, 8));
    assert_eq!(dirty.names[..2], ["new name", "file 0\n"]);
}

#[test]
fn asking_git_writes_nothing_and_runs_nothing_of_the_repository() {
    let folder = repository();
    let trace = folder.path().join(".git/ran");
    let script = folder.path().join(".git/monitor");
    fs::write(&script, format!("#!/bin/sh\ntouch '{}'\n", trace.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    git(
        folder.path(),
        &["config", "core.fsmonitor", script.to_str().unwrap()],
    );
    fs::write(folder.path().join(".git/index.lock"), "").unwrap();
    let index = || {
        fs::metadata(folder.path().join(".git/index"))
            .and_then(|file| file.modified())
            .ok()
    };
    let before = index();
    assert!(dirty(folder.path()).is_some());
    assert!(!trace.exists());
    assert_eq!(index(), before);
}

/// A script in `.git` that leaves a mark when it is run; its path, and the mark.
fn trap(folder: &Path, name: &str) -> (String, std::path::PathBuf) {
    let (script, mark) = (folder.join(".git").join(name), folder.join(".git/ran"));
    fs::write(
        &script,
        format!("#!/bin/sh\necho {name} >>'{}'\ncat\n", mark.display()),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    (script.to_str().unwrap().to_owned(), mark)
}

/// Names a trap wherever a repository can name a program.
fn plant_traps(folder: &Path) -> std::path::PathBuf {
    let (script, mark) = trap(folder, "trap");
    let ssh = format!("{script} ssh");
    for (key, value) in [
        ("core.fsmonitor", &*script),
        (
            "core.hooksPath",
            folder.join(".git/traps").to_str().unwrap(),
        ),
        ("core.sshCommand", &ssh),
        ("core.pager", &script),
        ("core.editor", &script),
        ("core.gitProxy", &script),
        ("core.askPass", &script),
        ("credential.helper", &script),
        ("diff.external", &script),
        ("diff.x.textconv", &script),
        ("diff.x.command", &script),
        ("filter.x.clean", &script),
        ("filter.x.smudge", &script),
        ("filter.x.process", &script),
        ("filter.x.required", "true"),
        ("status.submoduleSummary", "true"),
        ("remote.origin.url", "ssh://nowhere.invalid/x"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialclonefilter", "blob:none"),
        ("remote.origin.uploadpack", &script),
        ("extensions.partialClone", "origin"),
    ] {
        git(folder, &["config", key, value]);
    }
    let hooks = folder.join(".git/traps");
    fs::create_dir(&hooks).unwrap();
    for hook in [
        "post-index-change",
        "fsmonitor-watchman",
        "reference-transaction",
    ] {
        fs::copy(&script, hooks.join(hook)).unwrap();
    }
    fs::write(folder.join(".git/info/attributes"), "* filter=x diff=x\n").unwrap();
    mark
}

#[test]
fn nothing_that_the_repository_names_is_run() {
    let folder = repository();
    fs::write(
        folder.path().join(".gitattributes"),
        "*.txt filter=x diff=x\n",
    )
    .unwrap();
    fs::write(folder.path().join("a.txt"), "a\n").unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "-q", "-b", "main"]);
    fs::write(inner.join("b.txt"), "b\n").unwrap();
    git(&inner, &["add", "."]);
    git(&inner, &["commit", "-q", "-m", "first"]);
    git(folder.path(), &["add", "a.txt", ".gitattributes", "inner"]);
    git(folder.path(), &["commit", "-q", "-m", "second"]);
    let inner_mark = plant_traps(&inner);
    fs::write(inner.join("b.txt"), "changed\n").unwrap();
    let mark = plant_traps(folder.path());
    // A tree that only a promisor remote would have.
    let tree = git_without_traps(folder.path(), &["rev-parse", "HEAD^{tree}"]);
    let object = folder
        .path()
        .join(".git/objects")
        .join(&tree[..2])
        .join(&tree[2..]);
    let kept = folder.path().join(".git/kept");
    // Of the same length, so that only its content tells.
    fs::write(folder.path().join("a.txt"), "b\n").unwrap();
    assert_eq!(dirty(folder.path()).unwrap().names, ["a.txt"]);
    fs::rename(&object, &kept).unwrap();
    assert_eq!(dirty(folder.path()), None, "what is missing is not fetched");
    for mark in [mark, inner_mark] {
        assert!(!mark.exists(), "run: {}", fs::read_to_string(mark).unwrap());
    }
}

/// Asks git about a repository with traps, past them.
fn git_without_traps(folder: &Path, arguments: &[&str]) -> String {
    let past = [
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
    ];
    git(folder, &[&past, arguments].concat())
}

#[test]
fn settings_that_run_nothing_count() {
    let folder = repository();
    fs::write(folder.path().join("a"), "a\n").unwrap();
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "-q", "-m", "second"]);
    fs::write(folder.path().join(".git/info/exclude"), "ignored\n").unwrap();
    fs::write(folder.path().join("ignored"), "").unwrap();
    fs::set_permissions(folder.path().join("a"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(dirty(folder.path()).unwrap().names, ["a"]);
    git(folder.path(), &["config", "core.fileMode", "false"]);
    assert_eq!(dirty(folder.path()).unwrap().count, 0);
}

#[test]
fn repositories_of_the_newer_hash_and_without_a_commit_are_asked() {
    let folder = TempDir::new().unwrap();
    git(
        folder.path(),
        &["init", "-q", "-b", "main", "--object-format=sha256"],
    );
    fs::write(folder.path().join("a"), "a\n").unwrap();
    assert_eq!(dirty(folder.path()).unwrap().names, ["a"]);
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "-q", "-m", "first"]);
    assert_eq!(dirty(folder.path()).unwrap().count, 0);
}

/// A repository whose index is a pipe: git waits for it for ever.
fn endless() -> (TempDir, std::path::PathBuf) {
    let folder = repository();
    let index = folder.path().join(".git/index");
    let _ = fs::remove_file(&index);
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &index,
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    (folder, index)
}

/// Opens a pipe to write into it; an error while nobody reads it.
fn open_pipe(pipe: &Path) -> rustix::io::Result<std::os::fd::OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())
}

/// Looks until it is there, for half a minute at most.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(found) = look() {
            return found;
        }
        let moment = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 5_000_000,
        };
        let _ = rustix::event::poll(&mut [], Some(&moment));
    }
    panic!("never: {what}");
}

#[test]
fn a_git_that_does_not_answer_is_killed_in_time() {
    let (folder, index) = endless();
    let (_home, asker) = asker();
    assert_eq!(dirty_files(folder.path(), Span::from_ms(300), &asker), None);
    assert_eq!(
        open_pipe(&index).unwrap_err(),
        rustix::io::Errno::NXIO,
        "nobody reads any more"
    );
}

#[test]
fn git_carries_the_tag_of_the_attempt_and_is_in_its_cgroup() {
    let (folder, index) = endless();
    let (home, mut asker) = asker();
    // As a folder of the kernel would be: a number that is written there is a process that moves.
    let cgroup = home.path().join("cgroup");
    fs::create_dir(&cgroup).unwrap();
    asker.cgroup = Some(cgroup.clone());
    let wanted = format!("RELIGHT_ATTEMPT={}", asker.tag);
    let workspace = folder.path().to_owned();
    let asked = std::thread::spawn(move || dirty_files(&workspace, WHILE, &asker));
    let moved = until("git is moved", || {
        fs::read_to_string(cgroup.join("cgroup.procs"))
            .ok()
            .filter(|pid| !pid.is_empty())
    });
    let environment = fs::read(format!("/proc/{moved}/environ")).unwrap();
    assert!(
        environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == wanted.as_bytes())
    );
    // An index of nothing, which is none that git takes: it ends.
    drop(until("git reads its index", || open_pipe(&index).ok()));
    let _ = asked.join().unwrap();
}

#[test]
fn git_has_the_rights_of_the_agents_user() {
    let folder = repository();
    fs::write(folder.path().join("a"), "a\n").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can ask as another user");
        return;
    }
    let (_home, mut asker) = asker();
    asker.user = Some((STRANGER, STRANGER));
    let found = dirty_files(folder.path(), WHILE, &asker);
    assert_eq!(
        found.unwrap().names,
        ["a"],
        "what everybody can read is told"
    );
    let objects = folder.path().join(".git/objects");
    fs::set_permissions(&objects, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(
        dirty_files(folder.path(), WHILE, &asker),
        None,
        "what it cannot read is not"
    );
    assert!(dirty(folder.path()).is_some(), "though root can");
}

#[test]
fn without_a_repository_there_is_nothing_to_tell() {
    let folder = TempDir::new().unwrap();
    assert_eq!(git_facts(folder.path()), None);
    assert_eq!(dirty(folder.path()), None);
    assert_eq!(git_head(&folder.path().join("not/there")), None);
}

#[test]
fn a_repository_that_points_elsewhere_tells_nothing_wrong() {
    let folder = repository();
    let head = folder.path().join(".git/HEAD");
    for text in [
        "ref: ../../../../etc/passwd",
        "ref: refs/heads/../../HEAD",
        "not a hash",
        "",
    ] {
        fs::write(&head, text).unwrap();
        assert_eq!(git_head(folder.path()), None, "{text:?}");
    }
    fs::remove_file(&head).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &head, rustix::fs::Mode::RUSR).unwrap();
    assert_eq!(git_head(folder.path()), None);
}
