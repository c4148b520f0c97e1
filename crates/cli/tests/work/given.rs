//! Set-up that several pages share.

use serde_json::Value;

use crate::cases::{Place, Running};

/// A process that holds what it is given and does nothing else; gone with `kill`.
pub(crate) fn holder(place: &Place) -> Running {
    let mut holder = place.shell("echo ready; exec sleep 300").spawn();
    holder.line();
    holder
}

/// A task whose holder was killed.
pub(crate) fn lose(place: &Place, task: &str) {
    let holder = holder(place);
    place.ok(&format!("task start {task} --owner-pid {}", holder.pid()));
    holder.kill();
}

/// The configuration of the workspace.
pub(crate) fn config(place: &Place, text: &str) {
    std::fs::write(place.work("relight.toml"), text).unwrap();
}

/// A program of the user's that decides.
pub(crate) fn decider(place: &Place, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let file = place.work("decide");
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    config(
        place,
        "[recovery]\nexec = [\"./decide\"]\nexec_timeout = \"60s\"\n",
    );
    place.ok("trust");
}

/// The details of all decisions about a task.
pub(crate) fn decisions(place: &Place, task: &str) -> Vec<Value> {
    let events = place.ok(&format!(
        "--json events --all --kind task.recovery --task {task}"
    ));
    let lines = events.text();
    let all = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.map(|event| event["detail"].clone()).collect()
}
