//! What the world does to supervisors: odd names and paths, closed pipes, races, and agents that hide.

use std::io::{PipeReader, PipeWriter, Write as _};
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;
use serde_json::json;

use crate::ground::{Ground, ONLY_ONE, is_alive, signal, until};
use crate::relight::finish;

#[test]
fn odd_names_work_everywhere() {
    for name in ["team/writer", "a:b@c.d-e_f", "A"] {
        let ground = Ground::with_agent("echo words; relight beat --status here; sleep 300");
        let run = ground.start(&["run", "--name", name, "--", "./agent"]);
        ground.until_agent(name, |agent| agent["status_text"] == "here");
        assert_eq!(ground.log(name), "words\n");
        assert_eq!(ground.call(&["stop", name]).code, 0);
        run.end();
        assert_eq!(ground.causes(name), ["stopped"]);
    }
}

/// A pipe that takes no more, and its other end.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (from, mut to) = std::io::pipe().unwrap();
    fcntl_setfl(&to, OFlags::NONBLOCK).unwrap();
    while to.write(&[b'.'; 512]).is_ok() {}
    fcntl_setfl(&to, OFlags::empty()).unwrap();
    (from, to)
}

#[test]
fn a_supervisor_whose_words_nobody_reads_goes_on_and_ends() {
    let ground = Ground::with_agent("echo $$ >>births; [ $RELIGHT_ATTEMPT_NUMBER = 4 ]");
    let words = [
        "run",
        "--name",
        "a",
        "--cooldown",
        "0s",
        "-v",
        "--",
        "./agent",
    ];
    let (unread, to) = full_pipe();
    let ran = finish(ground.stage.command(&words).stderr(to).spawn().unwrap());
    assert_eq!(ran.code, 0);
    assert_eq!(ground.births(4).len(), 4);
    drop(unread);
}

#[test]
fn a_reader_that_comes_late_hears_all() {
    let ground =
        Ground::with_agent("[ $RELIGHT_ATTEMPT_NUMBER = 2 ] && { echo >ready; sleep 300; }");
    let words = ["run", "--name", "a", "--", "./agent"];
    let (from, to) = full_pipe();
    let child = ground.stage.command(&words).stderr(to).spawn().unwrap();
    ground.until_lines("ready", 1);
    let reader = std::thread::spawn(move || std::io::read_to_string(from).unwrap());
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    finish(child);
    let heard = reader.join().unwrap();
    assert!(
        heard.contains("attempt 1 died") && heard.contains("attempt 2 died"),
        "{heard}"
    );
}

#[test]
fn a_home_with_a_long_path_works() {
    let ground = Ground::with_agent("echo words; relight beat --status here; sleep 300");
    let long = ground
        .stage
        .folder
        .path()
        .join("h".repeat(120))
        .join("o".repeat(120));
    std::fs::create_dir_all(&long).unwrap();
    let long = long.display().to_string();
    let run = ground.start(&["--home", &long, "run", "--name", "a", "--", "./agent"]);
    until("it beats", || {
        let agent = ground.json(&["--home", &long, "ps"])["items"][0].clone();
        (agent["status_text"] == "here").then_some(())
    });
    run.kill();
    let run = ground.start(&["--home", &long, "run", "--name", "a", "--", "./agent"]);
    run.until_said("lives and is adopted");
    assert_eq!(ground.call(&["--home", &long, "stop", "a"]).code, 0);
    run.end();
}

#[test]
fn nobody_reads_and_the_agent_goes_on() {
    let ground = Ground::with_agent(
        "for i in {1..50}; do echo line $i; done; [ $RELIGHT_ATTEMPT_NUMBER = 3 ] || exit 1",
    );
    let mut command =
        ground
            .stage
            .command(&["run", "--name", "a", "--cooldown", "10ms", "--", "./agent"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(finish(child).code, 0);
    assert_eq!(ground.log("a").lines().count(), 150);
}

#[test]
fn of_many_runs_at_once_exactly_one_wins() {
    let ground = Ground::with_agent(&format!(
        "{ONLY_ONE}until [ -e enough ]; do sleep 0.02; done"
    ));
    let mut runs: Vec<_> = (0..8).map(|_| ground.run(&[])).collect();
    ground.births(1);
    until("seven give up", || {
        (runs
            .iter_mut()
            .map(|run| u8::from(!run.is_alive()))
            .sum::<u8>()
            == 7)
            .then_some(())
    });
    std::fs::write(ground.work("enough"), "").unwrap();
    let mut codes: Vec<i32> = runs.into_iter().map(|run| run.end().code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 75, 75, 75, 75, 75, 75, 75]);
    assert_eq!(ground.births(1).len(), 1);
    ground.assert_never_doubled();
}

#[test]
fn an_agent_that_closed_the_lock_is_adopted_and_not_doubled() {
    let ground = Ground::with_agent(&format!(
        "for fd in /proc/$$/fd/*; do fd=${{fd##*/}}; [ $fd -gt 2 ] && [ $fd -lt 255 ] && eval \"exec $fd>&-\"; done\n\
         {ONLY_ONE}[ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exit 0; sleep 300"
    ));
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    ground.births(1);
    let shim = ground.shim("a");
    run.kill();
    signal(shim, Signal::KILL);
    let run = ground.run(&[]);
    run.until_said("lives and is adopted");
    assert_eq!(ground.until_runs("a", 1), pid);
    signal(pid, Signal::KILL);
    assert_eq!(run.end().code, 0);
    ground.assert_never_doubled();
}

#[test]
fn a_grandchild_without_the_tag_goes_too_while_the_shim_lives() {
    let ground = Ground::with_agent(
        "if [ $RELIGHT_ATTEMPT_NUMBER = 2 ]; then\n\
         kill -0 $(cat hidden) 2>/dev/null && echo lives >found || echo gone >found; exit 0; fi\n\
         (env -i setsid bash -c 'echo $$ >hidden; trap \"\" TERM HUP; while :; do sleep 0.05; done' &)\n\
         until [ -e hidden ]; do sleep 0.01; done; kill -9 $$",
    );
    let ran = ground.run(&[]).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.read("found"), "gone\n");
}

#[test]
fn a_grandchild_without_the_tag_goes_too_when_leader_and_shim_were_killed() {
    let ground = Ground::with_agent(
        "if [ $RELIGHT_ATTEMPT_NUMBER = 2 ]; then\n\
         cut -d' ' -f3 /proc/$(cat hidden)/stat 2>/dev/null | grep -v Z >found; exit 0; fi\n\
         (env -i setsid bash -c \"echo \\$\\$ >$PWD/hidden; exec sleep 300\" &)\n\
         until [ -s hidden ]; do sleep 0.01; done; echo >ready; sleep 300",
    );
    let words = ["run", "--name", "a", "--", "./agent"];
    let run = ground.start_with(&words, &[("RELIGHT_CGROUP", "off")]);
    let leader = ground.until_runs("a", 1);
    ground.until_lines("ready", 1);
    signal(ground.shim("a"), Signal::KILL);
    signal(leader, Signal::KILL);
    let ran = run.end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ground.read("found"), "", "{ran:?}");
    assert!(
        ran.stderr.contains("an earlier attempt left behind"),
        "{ran:?}"
    );
}

#[test]
fn many_kills_in_a_row_are_all_recovered_from_and_never_double() {
    let ground = Ground::with_agent(&format!(
        "{ONLY_ONE}[ $RELIGHT_ATTEMPT_NUMBER = 21 ] && exit 0; sleep 300"
    ));
    let run = ground.run(&["--cooldown", "0s", "--max-attempts", "100"]);
    for killed in 0..20 {
        let births = ground.births(killed + 1);
        signal(births[killed], Signal::KILL);
    }
    assert_eq!(run.end().code, 0);
    assert_eq!(ground.births(21).len(), 21);
    ground.assert_never_doubled();
    let causes = ground.causes("a");
    assert_eq!(
        causes.iter().filter(|cause| *cause == "signal").count(),
        20,
        "{causes:?}"
    );
}

#[test]
fn secrets_in_words_and_output_reach_neither_ps_nor_deaths_nor_the_brief() {
    let secret = format!("ghp_{}", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8");
    let ground = Ground::with_agent(
        "[ $RELIGHT_RESUMED = 1 ] && { cp $RELIGHT_BRIEF_FILE brief; exit 0; }; echo \"leaked $1\"; exit 1",
    );
    let words = ["run", "--name", "a", "--", "./agent", &secret];
    assert_eq!(ground.call(&words).code, 0);
    for text in [
        ground.agent("a").to_string(),
        ground.json(&["deaths", "a"]).to_string(),
        ground.read("brief"),
        String::from_utf8_lossy(&std::fs::read(ground.home("relight.db")).unwrap()).into_owned(),
        String::from_utf8_lossy(&std::fs::read(ground.home("relight.db-wal")).unwrap_or_default())
            .into_owned(),
    ] {
        assert!(!text.contains(&secret), "{text}");
    }
}

#[test]
fn a_step_that_died_with_its_supervisor_twice_waits_for_a_person() {
    let ground = Ground::with_agent("relight step begin deadly; echo $$ >>births; sleep 300");
    for life in 1..=2 {
        let run = ground.run(&["--task", "t"]);
        let pid = ground.until_runs("a", life);
        ground.births(life as usize);
        let shim = ground.shim("a");
        run.kill();
        signal(shim, Signal::KILL);
        signal(pid, Signal::KILL);
        until("it is gone", || (!is_alive(pid)).then_some(()));
    }
    // The next supervisor finds that out, and leaves it so.
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ntask = \"t\"\n");
    let _daemon = ground.up(&[]);
    until("it is parked", || {
        (ground.task_status("t") == "blocked").then_some(())
    });
    assert_eq!(
        (
            ground.until_state("a", "suspended")["again_at"].clone(),
            ground.births(2).len()
        ),
        (json!(null), 2)
    );
}

#[test]
fn a_step_that_the_second_life_never_began_did_not_kill_it() {
    let ground = Ground::with_agent(
        "[ $RELIGHT_ATTEMPT_NUMBER = 1 ] && relight step begin innocent; echo $$ >>births; sleep 300",
    );
    for life in 1..=2 {
        let run = ground.run(&["--task", "t", "--cooldown", "0s"]);
        let pid = ground.until_runs("a", life);
        ground.births(life as usize);
        let shim = ground.shim("a");
        run.kill();
        signal(shim, Signal::KILL);
        signal(pid, Signal::KILL);
        until("it is gone", || (!is_alive(pid)).then_some(()));
    }
    let _run = ground.run(&["--task", "t", "--cooldown", "0s"]);
    ground.births(3);
    assert_eq!(ground.task_status("t"), "in_progress");
}

#[test]
fn stops_at_the_same_time_are_all_answered() {
    let ground = Ground::with_agent("trap '' TERM; echo >ready; while :; do sleep 0.02; done");
    let run = ground.run(&["--grace", "400ms"]);
    ground.until_lines("ready", 1);
    ground.until_runs("a", 1);
    let stops: Vec<_> = (0..4).map(|_| ground.start(&["stop", "a"])).collect();
    for stop in stops {
        let ran = stop.end();
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    run.end();
    assert_eq!(ground.agent("a")["detail"], "stopped by a person");
    assert_eq!(ground.deaths("a").len(), 1);
}

#[test]
fn a_stop_while_it_waits_for_the_cooldown_is_a_stop() {
    let ground = Ground::with_agent("echo $$ >>births; exit 1");
    let run = ground.run(&["--cooldown", "10m"]);
    ground.until_state("a", "crashed");
    let answer = ground.json(&["stop", "a"]);
    assert_eq!(
        (&answer["previous_state"], &answer["state"]),
        (&json!("crashed"), &json!("stopped"))
    );
    assert_eq!(run.end().code, 1);
    // A person who types the command again wants it to run.
    let run = ground.run(&["--restart", "never"]);
    assert_eq!(run.end().code, 1);
    assert_eq!(ground.births(3).len(), 3);
}

#[test]
fn an_agent_beside_one_that_cannot_be_started_is_not_harmed() {
    let ground = Ground::with_agent("sleep 300");
    ground.config(
        "[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n\
         [[agent]]\nname = \"b\"\ncommand = [\"./none\"]\nmax_attempts = 1\n\
         [[agent]]\nname = \"c\"\ncommand = [\"./agent\"]\nfolder = \"nowhere\"\nmax_attempts = 1\n",
    );
    let _daemon = ground.up(&[]);
    ground.until_runs("a", 1);
    for name in ["b", "c"] {
        ground.until_state(name, "terminated");
        assert!(
            ground.deaths(name)[0]["note"].is_string(),
            "{:?}",
            ground.deaths(name)
        );
    }
}

#[test]
fn old_output_is_dropped_by_size_and_the_newest_is_kept() {
    let ground = Ground::with_agent(
        "[ $RELIGHT_ATTEMPT_NUMBER -le 8 ] || exec sleep 300; seq 1 20000; exit 1",
    );
    ground.config(
        "[log]\nfile_max = \"64KiB\"\nfiles = 3\n[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n\
         cooldown = \"10ms\"\nmax_attempts = 50\n",
    );
    let _daemon = ground.up(&[]);
    ground.until_runs("a", 9);
    // Beside each file stands when its output was written.
    for kind in ["log", "times"] {
        let files = std::fs::read_dir(ground.home("agents/a/log")).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        let of_kind: Vec<_> = files
            .filter(|path| path.extension().is_some_and(|it| it == kind))
            .collect();
        assert!(of_kind.len() <= 4, "{of_kind:?}");
    }
    assert_eq!(ground.log("a").lines().last(), Some("20000"));
}

#[test]
fn the_daemon_speaks_with_systemd() {
    let ground = Ground::with_agent("sleep 300");
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n");
    let path = ground.stage.folder.path().join("systemd.sock");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(std::time::Duration::from_secs(120)))
        .unwrap();
    let hears = |wanted: &str| {
        for _ in 0..1_000 {
            let mut datagram = [0; 4096];
            let count = socket.recv(&mut datagram).expect("it says something");
            if String::from_utf8_lossy(&datagram[..count]).contains(wanted) {
                return;
            }
        }
        panic!("{wanted} was never heard");
    };
    let variables = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "400000"),
    ];
    let daemon = ground.start_with(&["up"], &variables);
    hears("READY=1");
    hears("WATCHDOG=1");
    daemon.signal(Signal::TERM);
    hears("STOPPING=1");
    assert_eq!(daemon.end().code, 143);
}

#[test]
fn the_socket_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let ground = Ground::with_agent("sleep 300");
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n");
    let _daemon = ground.up(&[]);
    let mode = std::fs::metadata(ground.home("relight.sock"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn only_signs_of_this_attempt_count() {
    let ground = Ground::with_agent(
        "[ $RELIGHT_ATTEMPT_NUMBER = 1 ] && { relight beat --waiting-until 10m; exit 1; }; sleep 300",
    );
    let run = ground.run(&[
        "--silence-max",
        "3s",
        "--max-attempts",
        "1",
        "--grace",
        "1s",
    ]);
    run.end();
    assert_eq!(ground.causes("a"), ["failed", "hung"]);
}

#[test]
fn the_later_of_stop_and_restart_counts() {
    let ground = Ground::with_agent("echo $$ >>births; trap '' TERM; while :; do sleep 0.02; done");
    let run = ground.run(&["--grace", "4s"]);
    ground.births(1);
    ground.until_runs("a", 1);
    let stop = ground.start(&["stop", "a"]);
    ground.until_agent("a", |agent| {
        agent["detail"].as_str().unwrap().contains("being stopped")
    });
    assert_eq!(ground.json(&["restart", "a"])["state"], "running");
    assert_eq!(ground.births(2).len(), 2);
    let ran = stop.end();
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(ran.stderr.contains("was started again"), "{ran:?}");
    let restart = ground.start(&["restart", "a"]);
    ground.until_agent("a", |agent| {
        agent["detail"]
            .as_str()
            .unwrap()
            .contains("being restarted")
    });
    assert_eq!(ground.json(&["stop", "a"])["state"], "stopped");
    assert_eq!(restart.end().code, 75);
    run.end();
    assert_eq!(ground.births(2).len(), 2);
}

#[test]
fn a_stable_life_resets_the_row_while_it_goes_on() {
    let ground = Ground::with_agent("[ $RELIGHT_ATTEMPT_NUMBER = 1 ] && exit 1; sleep 300");
    let _run = ground.run(&["--stable-after", "300ms"]);
    ground.until_runs("a", 2);
    let agent = ground.until_agent("a", |agent| agent["recoveries_in_a_row"] == 0);
    assert_eq!(
        (&agent["restarts_total"], &agent["state"]),
        (&json!(1), &json!("running"))
    );
}

#[test]
fn beats_from_outside_count_too() {
    let ground = Ground::with_agent("until [ -e enough ]; do sleep 0.02; done");
    let run = ground.run(&["--silence-max", "6s", "--restart", "never"]);
    ground.until_runs("a", 1);
    let begun = crate::ground::now();
    until("longer than the silence", || {
        assert_eq!(ground.call(&["beat", "a"]).code, 0);
        (begun.elapsed() > std::time::Duration::from_secs(8)).then_some(())
    });
    std::fs::write(ground.work("enough"), "").unwrap();
    assert_eq!(run.end().code, 0);
}

#[test]
fn beats_by_name_reach_an_agent_whose_folder_is_too_deep_for_a_path() {
    let ground = Ground::with_agent("echo $NOTIFY_SOCKET >address; sleep 300");
    let home = ground.home(&"deep/".repeat(30));
    std::fs::create_dir_all(&home).unwrap();
    let home = home.to_str().unwrap();
    let _run = ground.start(&["--home", home, "run", "--name", "a", "--", "./agent"]);
    let address = ground.until_lines("address", 1).remove(0);
    assert!(address.starts_with("@relight-notify-"), "{address}");
    let ran = ground.call(&["--home", home, "beat", "a", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains(&address), "{ran:?}");
}

#[test]
fn an_idle_shim_that_is_killed_is_replaced() {
    let ground = Ground::with_agent(
        "echo $$ >>births; echo $PPID >>shims; [ $RELIGHT_ATTEMPT_NUMBER = 3 ] || exit 1",
    );
    let run = ground.run(&["--cooldown", "6s"]);
    ground.until_state("a", "crashed");
    signal(ground.lines("shims")[1].parse().unwrap(), Signal::KILL);
    let ran = run.end();
    assert_eq!((ran.code, ground.births(3).len()), (0, 3), "{ran:?}");
}

#[test]
fn nothing_is_left_of_a_supervisor_that_was_killed_while_it_waited() {
    let ground = Ground::with_agent("exit 1");
    let run = ground.run(&["--cooldown", "10m"]);
    ground.until_state("a", "crashed");
    run.kill();
    ground.assert_nothing_is_left();
}

#[test]
fn removed_logs_and_folders_are_made_anew() {
    let ground = Ground::with_agent(&format!(
        "{ONLY_ONE}echo words; [ $RELIGHT_ATTEMPT_NUMBER = 2 ] && exit 0; sleep 300"
    ));
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    std::fs::remove_dir_all(ground.home("agents/a/log")).unwrap();
    signal(pid, Signal::KILL);
    let ran = run.end();
    assert_eq!(
        (ran.code, ground.log("a").as_str()),
        (0, "words\n"),
        "{ran:?}"
    );
}

#[test]
fn an_agent_whose_folder_was_removed_is_adopted_and_not_doubled() {
    let ground = Ground::with_agent(&format!(
        "{ONLY_ONE}[ $RELIGHT_ATTEMPT_NUMBER = 2 ] && exit 0; sleep 300"
    ));
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    ground.births(1);
    run.kill();
    std::fs::remove_dir_all(ground.home("agents")).unwrap();
    let run = ground.run(&[]);
    run.until_said("lives and is adopted");
    assert_eq!(ground.until_runs("a", 1), pid);
    signal(pid, Signal::KILL);
    let ran = run.end();
    assert_eq!(ran.code, 0, "{ran:?}");
    ground.assert_never_doubled();
}

#[test]
fn an_agent_that_cleared_its_environment_is_adopted_and_not_doubled() {
    let ground = Ground::with_agent(&format!(
        "{ONLY_ONE}[ $RELIGHT_ATTEMPT_NUMBER = 2 ] && exit 0; exec env -i sleep 300"
    ));
    let run = ground.run(&[]);
    let pid = ground.until_runs("a", 1);
    until("it has no environment", || {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        environ.is_empty().then_some(())
    });
    let shim = ground.shim("a");
    run.kill();
    signal(shim, Signal::KILL);
    let run = ground.run(&["--cooldown", "10ms"]);
    run.until_said("lives and is adopted");
    assert_eq!(ground.until_runs("a", 1), pid);
    assert_eq!(ground.call(&["stop", "a"]).code, 0);
    run.end();
    assert!(!is_alive(pid));
    ground.assert_never_doubled();
}

#[test]
fn a_frozen_supervisor_does_not_hold_up_ps() {
    let ground = Ground::with_agent("sleep 300");
    let run = ground.run(&[]);
    ground.until_runs("a", 1);
    run.freeze();
    // Whatever is called is bounded: who waited for the supervisor would not come to its end.
    assert_eq!(ground.state("a"), "running");
    run.signal(Signal::CONT);
}

#[test]
fn a_supervisor_whose_store_was_removed_says_so_and_goes_on_once_it_is_back() {
    let ground = Ground::with_agent("echo $$ >>births; until [ -e enough ]; do sleep 0.02; done");
    let run = ground.run(&[]);
    ground.until_runs("a", 1);
    std::fs::rename(ground.home("relight.db"), ground.home("away.db")).unwrap();
    std::fs::write(ground.work("enough"), "").unwrap();
    run.until_said("were removed or replaced while they were in use");
    std::fs::rename(ground.home("away.db"), ground.home("relight.db")).unwrap();
    let ran = run.end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        (ground.births(1).len(), ground.causes("a")),
        (1, vec!["completed".to_owned()])
    );
}

#[test]
fn a_daemon_whose_store_was_removed_or_replaced_can_be_ended_and_leaves_its_agents() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 1000");
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n");
    let daemon = ground.up(&["--no-http"]);
    let pid = ground.until_runs("a", 1);
    std::fs::rename(ground.home("relight.db"), ground.home("away.db")).unwrap();
    let down = ground.call(&["down"]);
    assert_eq!(down.code, 74, "{down:?}");
    assert!(down.stderr.contains("were removed or replaced"), "{down:?}");
    let ended = daemon.end();
    assert_eq!(ended.code, 74, "{ended:?}");
    assert!(
        ended.stderr.contains("the agents are left running"),
        "{ended:?}"
    );
    assert!(is_alive(pid));
    std::fs::rename(ground.home("away.db"), ground.home("relight.db")).unwrap();

    let daemon = ground.up(&["--no-http"]);
    assert_eq!(ground.until_runs("a", 1), pid);
    std::fs::copy(ground.home("relight.db"), ground.home("copy.db")).unwrap();
    std::fs::rename(ground.home("copy.db"), ground.home("relight.db")).unwrap();
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, 74, "{ended:?}");
    assert!(is_alive(pid));
    assert_eq!(ground.births(1).len(), 1);
}

#[test]
fn an_idle_daemon_notices_that_its_store_was_moved_and_is_back() {
    let ground = Ground::with_agent("echo $$ >>births; exec sleep 1000");
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\n");
    let daemon = ground.up(&["--no-http"]);
    ground.until_runs("a", 1);
    std::fs::rename(ground.home("relight.db"), ground.home("away.db")).unwrap();
    daemon.until_said("nothing is saved until they are back");
    std::fs::rename(ground.home("away.db"), ground.home("relight.db")).unwrap();
    daemon.until_said("the files of the store are back");
    assert_eq!(ground.json(&["restart", "a"])["state"], "running");
    assert_eq!(ground.births(2).len(), 2);
}

/// A home on a small file system of its own, unmounted at the end of the test.
struct SmallHome(std::path::PathBuf);

impl SmallHome {
    /// None where nothing can be mounted.
    #[expect(
        clippy::disallowed_methods,
        reason = "a tool of the test, not a part of the product"
    )]
    fn mount(ground: &Ground) -> Option<Self> {
        let home = ground.home("");
        std::fs::create_dir_all(&home).unwrap();
        let words = ["-t", "tmpfs", "-o", "size=1500k,mode=700", "tmpfs"];
        let mounted = std::process::Command::new("mount")
            .args(words)
            .arg(&home)
            .output();
        if mounted.is_ok_and(|mounted| mounted.status.success()) {
            return Some(Self(home));
        }
        eprintln!("SKIPPED: a full disk needs root and mount(8)");
        None
    }

    fn has_room(&self) -> bool {
        rustix::fs::statvfs(&self.0).unwrap().f_bavail > 0
    }
}

impl Drop for SmallHome {
    #[expect(
        clippy::disallowed_methods,
        reason = "a tool of the test, not a part of the product"
    )]
    fn drop(&mut self) {
        // Lazily: what a failed test left running may use it.
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(&self.0)
            .status();
    }
}

/// Fills the disk with its own log when its start is recorded, and lives on.
const FILLS_THE_DISK: &str = "echo $$ >>births; [ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exit 0\n\
    until [ -e go ]; do sleep 0.02; done; tr '\\0' x </dev/zero 2>>noise; exec sleep 300";

/// Lets an agent go on that waits until its start is recorded; its pid.
fn let_it_go(ground: &Ground) -> u32 {
    let pid = ground.until_runs("a", 1);
    std::fs::write(ground.work("go"), "").unwrap();
    pid
}

#[test]
fn a_supervisor_on_a_full_disk_obeys_a_stop_and_the_next_one_records_the_end() {
    for by_verb in [false, true] {
        let ground = Ground::with_agent(FILLS_THE_DISK);
        let Some(home) = SmallHome::mount(&ground) else {
            return;
        };
        let run = ground.run(&["--grace", "2s"]);
        let pid = let_it_go(&ground);
        until("the disk is full", || (!home.has_room()).then_some(()));
        if by_verb {
            let stop = ground.call(&["stop", "a"]);
            assert_ne!(stop.code, 0, "{stop:?}");
            assert!(
                stop.stderr.contains("is stopped, but not recorded so"),
                "{stop:?}"
            );
        } else {
            run.signal(Signal::TERM);
        }
        let ended = run.end();
        assert_eq!(ended.code, 74, "{ended:?}");
        assert!(
            ended.stderr.contains("but that cannot be recorded"),
            "{ended:?}"
        );
        assert!(!is_alive(pid));
        assert_eq!(ground.agent("a")["truth"], "died_unnoticed");

        std::fs::remove_dir_all(ground.home("agents/a/log")).unwrap();
        let run = ground.run(&["--cooldown", "10ms"]);
        run.until_said("while nobody watched");
        assert_eq!(run.end().code, 0);
        assert_eq!(ground.causes("a"), ["signal", "completed"]);
    }
}

#[test]
fn down_on_a_full_disk_says_that_the_stop_is_not_recorded() {
    let ground = Ground::with_agent(FILLS_THE_DISK);
    let Some(home) = SmallHome::mount(&ground) else {
        return;
    };
    ground.config("[[agent]]\nname = \"a\"\ncommand = [\"./agent\"]\ngrace = \"2s\"\n");
    let daemon = ground.up(&["--no-http"]);
    let pid = let_it_go(&ground);
    until("the disk is full", || (!home.has_room()).then_some(()));
    let down = ground.call(&["down"]);
    assert_eq!(down.code, 74, "{down:?}");
    assert!(down.stderr.contains("these still run: a"), "{down:?}");
    assert_eq!(daemon.end().code, 74);
    assert!(!is_alive(pid));
}

#[test]
fn a_death_on_a_full_disk_is_shown_before_it_can_be_recorded() {
    let ground = Ground::with_agent(FILLS_THE_DISK);
    let Some(home) = SmallHome::mount(&ground) else {
        return;
    };
    let run = ground.run(&["--cooldown", "10ms"]);
    let pid = let_it_go(&ground);
    until("the disk is full", || (!home.has_room()).then_some(()));
    signal(pid, Signal::KILL);
    run.until_said("disk is full");
    let agent = ground.until_agent("a", |agent| agent["truth"] == "not_recorded");
    assert_eq!(agent["pid"], json!(null));
    assert!(
        ground
            .call(&["ps"])
            .stdout
            .contains("ended; its supervisor has not recorded it yet")
    );
    // Emptied, not removed: its supervisor follows it.
    std::fs::File::create(ground.home("agents/a/log/000001.log")).unwrap();
    assert_eq!(run.end().code, 0);
}

/// Leaves a process behind that has neither its tag nor its lock, and kills its shim.
const ESCAPES: &str = "[ $RELIGHT_ATTEMPT_NUMBER = 1 ] || exit 0\n\
    (env -i bash -c 'for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ $fd -gt 2 ] && eval \"exec $fd>&-\"; done; \
    echo $$ >>escaped; exec sleep 300' &)\n\
    until [ -s escaped ] && [ -e go ]; do sleep 0.02; done; kill -9 $PPID; exit 7";

#[test]
fn what_escaped_from_an_agent_that_killed_its_shim_is_named() {
    let ground = Ground::with_agent(ESCAPES);
    let run = ground.run(&["--cooldown", "10ms"]);
    let_it_go(&ground);
    let ran = run.end();
    let escaped: u32 = ground.until_lines("escaped", 1)[0].parse().unwrap();
    if is_alive(escaped) {
        signal(escaped, Signal::KILL);
    }
    assert_eq!(ran.code, 0, "{ran:?}");
    let death = ground.deaths("a")[0].clone();
    let note = death["note"].as_str().unwrap_or_default();
    assert!(note.contains("cannot be proved empty"), "{death:#}");
    assert!(
        note.contains(&format!("may be left of it: {escaped}")),
        "{death:#}"
    );
    assert!(ran.stderr.contains("cannot be proved empty"), "{ran:?}");
}

#[test]
fn later_is_kept_over_the_supervisors_death() {
    let ground =
        Ground::with_agent("echo $$ >>births; [ $RELIGHT_ATTEMPT_NUMBER = 1 ] && exit 75; exit 0");
    let run = ground.run(&["--defer", "10s"]);
    let until_before = ground.until_state("a", "suspended")["again_at"].clone();
    run.kill();
    let run = ground.run(&["--defer", "10s"]);
    run.until_said("it resumes at");
    assert_eq!(ground.agent("a")["again_at"], until_before);
    assert_eq!(run.end().code, 0);
    assert_eq!(
        (ground.births(2).len(), &ground.agent("a")["restarts_total"]),
        (2, &json!(0))
    );
}
