//! What supervision needs of the kernel, and whether it is there.

use relight_core::time::Span;
use relight_runtime::os::clock;
use relight_runtime::supervise::cgroup::{CgroupSetting, Cgroups};
use rustix::process::{PidfdFlags, Resource, getpid, getrlimit, pidfd_open};

use super::finding::DoctorFinding;
use crate::environment::Environment;
use crate::verbs::supervision;

/// An agent and what it starts; a few of them want more.
const PROCESSES_MIN: u64 = 256;
/// One for the log of each agent, and some for whoever else lives here.
const WATCHES_MIN: u64 = 1_024;
const INSTANCES_MIN: u64 = 16;

pub(super) fn look(environment: &Environment) -> Vec<DoctorFinding> {
    vec![
        boot(),
        pidfd(),
        subreaper(),
        cgroup(environment),
        processes(),
        watches(),
    ]
}

fn boot() -> DoctorFinding {
    let up = Span::from_secs(clock::since_boot().as_ms() / 1_000);
    let id = relight_runtime::os::process::boot_id();
    if id.is_empty() {
        let text =
            "the boot id cannot be read; after a reboot the dead cannot be told from the living";
        return DoctorFinding::problem("boot", text).hint("mount /proc");
    }
    DoctorFinding::ok("boot", format!("{id}, up for {up}"))
}

fn pidfd() -> DoctorFinding {
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => DoctorFinding::ok(
            "pidfd",
            "processes are signalled and watched through their own handles",
        ),
        Err(error) => DoctorFinding::problem("pidfd", format!("cannot be had: {error}"))
            .hint("Linux 5.4 or later; in a container, let pidfd_open through its filter"),
    }
}

fn subreaper() -> DoctorFinding {
    match rustix::process::child_subreaper() {
        Ok(_) => DoctorFinding::ok("subreaper", "what an agent leaves behind comes to its shim"),
        Err(error) => DoctorFinding::problem("subreaper", format!("cannot be had: {error}"))
            .hint("Linux 3.4 or later; in a container, let prctl through its filter"),
    }
}

fn cgroup(environment: &Environment) -> DoctorFinding {
    let setting = supervision::cgroup_setting(environment);
    match (Cgroups::delegated(&setting), setting) {
        (Some(folder), _) => DoctorFinding::ok(
            "cgroup",
            format!("each attempt gets one below {}", folder.display()),
        ),
        (None, CgroupSetting::Off) => {
            DoctorFinding::ok("cgroup", "none, because RELIGHT_CGROUP is off")
        }
        (None, CgroupSetting::At(folder)) => {
            let text = format!("{} cannot be used", folder.display());
            DoctorFinding::warning("cgroup", text)
                .hint("set RELIGHT_CGROUP to a cgroup of your own, or unset it")
        }
        (None, CgroupSetting::Auto) => DoctorFinding::ok(
            "cgroup",
            "none is delegated; trees are ended by their group, their shim and their tag \
             (relight service install daemon asks systemd for one)",
        ),
    }
}

fn processes() -> DoctorFinding {
    let limit = getrlimit(Resource::Nproc).current;
    let shown = limit.map_or_else(|| "any number".to_owned(), |limit| limit.to_string());
    let text = format!("{shown} processes of this user at a time");
    if limit.is_some_and(|limit| limit < PROCESSES_MIN) {
        return DoctorFinding::warning("processes", text)
            .hint(format!("ulimit -u {PROCESSES_MIN}"));
    }
    DoctorFinding::ok("processes", text)
}

fn watches() -> DoctorFinding {
    let read = |name: &str| -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?;
        text.trim().parse().ok()
    };
    let (Some(watches), Some(instances)) = (read("max_user_watches"), read("max_user_instances"))
    else {
        let text = "the limits of inotify cannot be read; output may be noticed late";
        return DoctorFinding::warning("inotify", text).hint("mount /proc");
    };
    let text = format!("{watches} watches, {instances} instances");
    let is_few = watches < WATCHES_MIN || instances < INSTANCES_MIN;
    if is_few {
        let hint = format!("sysctl fs.inotify.max_user_watches={}", WATCHES_MIN * 8);
        return DoctorFinding::warning("inotify", text).hint(hint);
    }
    DoctorFinding::ok("inotify", text)
}
