//! Files that are always whole, and repositories of every shape.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use relight_core::agent::AttemptTag;
use relight_core::agent::active_state::ActiveState;
use relight_core::ids::AgentName;
use relight_core::time::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

use super::{complete_brief, dirty_files, git_facts, git_head, sweep, write_brief, write_state};
use crate::doors::process;
use crate::supervise::folder::AgentFolder;

const SECOND: Span = Span::from_secs(1);

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
    ActiveState::new(&agent, &tag, None, None, reason.map(str::to_owned), at)
}

#[test]
fn a_brief_is_private_and_written_only_when_it_changed() {
    let (_home, folder) = agent_folder();
    assert!(write_brief(&folder, "one\n").unwrap());
    assert!(!write_brief(&folder, "one\n").unwrap());
    assert!(write_brief(&folder, "two\n").unwrap());
    assert_eq!(fs::read_to_string(folder.brief()).unwrap(), "two\n");
    assert_eq!(fs::metadata(folder.brief()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the brief and the folder of logs");
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
    assert!(write_state(&folder, &state(1_000, None)).unwrap());
    assert!(!write_state(&folder, &state(2_000, None)).unwrap());
    assert!(write_state(&folder, &state(3_000, Some("oom: signal 9 (KILL)"))).unwrap());
    let text = fs::read_to_string(folder.state()).unwrap();
    assert_eq!(text, state(3_000, Some("oom: signal 9 (KILL)")).to_text());
}

#[test]
fn a_damaged_state_is_replaced() {
    let (_home, folder) = agent_folder();
    fs::write(folder.state(), b"{\"task_id\": \xff").unwrap();
    assert!(write_state(&folder, &state(0, None)).unwrap());
    assert!(!write_state(&folder, &state(0, None)).unwrap());
}

#[test]
fn what_a_killed_writer_left_goes_once_it_is_old() {
    let (_home, folder) = agent_folder();
    let at = |name: &str| folder.path().join(name);
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    for name in ["brief.tmp-12-0", "active_state.tmp-345-67", "brief.md", "brief.tmp-mine"] {
        fs::write(at(name), "x").unwrap();
        let file = fs::OpenOptions::new().write(true).open(at(name)).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    fs::write(at("brief.tmp-12-1"), "being written").unwrap();
    sweep(&folder);
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["brief.md", "brief.tmp-12-1", "brief.tmp-mine", "log"]);
    let mut home = folder.path().to_owned();
    home.push("absent");
    sweep(&AgentFolder::at(home));
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let (home, folder) = agent_folder();
    fs::remove_dir_all(home.path()).unwrap();
    assert!(write_brief(&folder, "x").is_err());
}

/// Runs git as a person would, with nobody's configuration.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = process::command("git", arguments);
    command.current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", folder);
    for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"]
    {
        command.env(name, "a@example.org");
    }
    let output = command.output().expect("git is installed where tests run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with one commit on `main`.
fn repository() -> TempDir {
    let folder = TempDir::new().unwrap();
    git(folder.path(), &["init", "-q", "-b", "main"]);
    git(folder.path(), &["commit", "-q", "--allow-empty", "-m", "first"]);
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
    git(folder.path(), &["checkout", "-q", "--orphan", "feature/new"]);
    let facts = git_facts(folder.path()).unwrap();
    assert_eq!((facts.branch.as_deref(), facts.head), (Some("feature/new"), None));
}

#[test]
fn a_linked_worktree_has_its_own_branch_lock_and_changes() {
    let folder = repository();
    let linked = folder.path().join("linked");
    git(folder.path(), &["worktree", "add", "-q", "-b", "fix", "linked"]);
    git(&linked, &["commit", "-q", "--allow-empty", "-m", "second"]);
    fs::write(folder.path().join(".git/worktrees/linked/index.lock"), "").unwrap();
    let facts = git_facts(&linked).unwrap();
    assert_eq!(facts.branch.as_deref(), Some("fix"));
    assert_eq!(facts.head, Some(git(&linked, &["rev-parse", "HEAD"])));
    assert!(facts.index_lock_age.is_some_and(|age| age < Span::from_secs(60)));
    assert_eq!(dirty_files(&linked, SECOND).unwrap().count, 0);
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
    let dirty = dirty_files(folder.path(), SECOND).unwrap();
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
    git(folder.path(), &["config", "core.fsmonitor", script.to_str().unwrap()]);
    fs::write(folder.path().join(".git/index.lock"), "").unwrap();
    let index =
        || fs::metadata(folder.path().join(".git/index")).and_then(|file| file.modified()).ok();
    let before = index();
    assert!(dirty_files(folder.path(), SECOND).is_some());
    assert!(!trace.exists());
    assert_eq!(index(), before);
}

#[test]
fn a_git_that_does_not_answer_is_killed_in_time() {
    let folder = repository();
    let pid_file = folder.path().join(".git/filter-pid");
    // A filter that hangs, as a workspace may have one: git waits for it for ever.
    let clean = format!("sh -c 'echo $$ > {}; exec sleep 1000'", pid_file.display());
    fs::write(folder.path().join(".gitattributes"), "*.txt filter=slow\n").unwrap();
    fs::write(folder.path().join("a.txt"), "a\n").unwrap();
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "-q", "-m", "second"]);
    git(folder.path(), &["config", "filter.slow.clean", &clean]);
    fs::write(folder.path().join("a.txt"), "b\n").unwrap();
    assert_eq!(dirty_files(folder.path(), Span::from_ms(300)), None);
    let pid: u32 = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    assert!(ends(pid), "what git had started was killed with it");
}

/// Waits for the end of a process that was killed, for five seconds at most.
fn ends(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    let Ok(pidfd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else {
        return true;
    };
    let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
    poll(&mut ended, Some(&Timespec { tv_sec: 5, tv_nsec: 0 })) == Ok(1)
}

#[test]
fn without_a_repository_there_is_nothing_to_tell() {
    let folder = TempDir::new().unwrap();
    assert_eq!(git_facts(folder.path()), None);
    assert_eq!(dirty_files(folder.path(), SECOND), None);
    assert_eq!(git_head(&folder.path().join("not/there")), None);
}

#[test]
fn a_repository_that_points_elsewhere_tells_nothing_wrong() {
    let folder = repository();
    let head = folder.path().join(".git/HEAD");
    for text in ["ref: ../../../../etc/passwd", "ref: refs/heads/../../HEAD", "not a hash", ""] {
        fs::write(&head, text).unwrap();
        assert_eq!(git_head(folder.path()), None, "{text:?}");
    }
    fs::remove_file(&head).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &head, rustix::fs::Mode::RUSR).unwrap();
    assert_eq!(git_head(folder.path()), None);
}
