//! The machine and the home folder, as far as Relight depends on them.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use relight_core::time::Time;
use relight_runtime::os::clock;
use rustix::process::{Resource, getrlimit};

use super::finding::DoctorFinding;
use crate::environment::Environment;

/// 2026-01-01: no clock that is right shows less.
const CLOCK_MIN_MS: i64 = 1_767_225_600_000;
const OPEN_FILES_MIN: u64 = 256;
/// Entries of the home folder that are looked at, and that are named.
const ENTRIES_MAX: usize = 10_000;
const NAMED_MAX: usize = 3;

/// Everything that needs no folder.
pub(super) fn look() -> Vec<DoctorFinding> {
    vec![version(), kernel(), user(), wall_clock(), limits()]
}

/// The home folder and the rights of what is in it.
pub(super) fn look_at_home(environment: &Environment) -> Vec<DoctorFinding> {
    let home = match environment.home() {
        Ok(home) => home,
        Err(failure) => {
            return vec![
                DoctorFinding::problem("home", failure.message).hint(
                    failure
                        .hint
                        .unwrap_or_else(|| "set RELIGHT_HOME".to_owned()),
                ),
            ];
        }
    };
    match fs::metadata(&home) {
        Ok(found) if found.is_dir() => {
            let mut findings = vec![folder(&home, &found)];
            findings.extend(files(&home));
            findings
        }
        Ok(_) => vec![
            DoctorFinding::problem("home", format!("{} is not a folder", home.display()))
                .hint("set RELIGHT_HOME or give --home DIR"),
        ],
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let text = format!(
                "{} is not there yet; the first write makes it",
                home.display()
            );
            vec![DoctorFinding::ok("home", text)]
        }
        Err(error) => vec![DoctorFinding::problem(
            "home",
            format!("{}: {error}", home.display()),
        )],
    }
}

fn version() -> DoctorFinding {
    DoctorFinding::ok("version", concat!("relight ", env!("CARGO_PKG_VERSION")))
}

fn kernel() -> DoctorFinding {
    let name = rustix::system::uname();
    let part = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let text = [
        part(name.sysname()),
        part(name.release()),
        part(name.machine()),
    ]
    .join(" ");
    DoctorFinding::ok("kernel", text)
}

fn user() -> DoctorFinding {
    if rustix::process::geteuid().is_root() {
        let text = "it runs as root; what it makes can only be used by root";
        return DoctorFinding::warning("user", text)
            .hint("run it as the user whose agents these are");
    }
    DoctorFinding::ok(
        "user",
        format!("uid {}", rustix::process::geteuid().as_raw()),
    )
}

fn wall_clock() -> DoctorFinding {
    let now = clock::now();
    if now < Time::from_ms(CLOCK_MIN_MS) {
        let text = format!("the clock says {now}, which is long past");
        return DoctorFinding::warning("clock", text).hint("set the clock; timedatectl shows why");
    }
    DoctorFinding::ok("clock", now.to_string())
}

fn limits() -> DoctorFinding {
    let files = getrlimit(Resource::Nofile).current;
    let size = getrlimit(Resource::Fsize).current;
    let shown = |limit: Option<u64>| limit.map_or_else(|| "any".to_owned(), |n| n.to_string());
    let text = format!(
        "open files {}, bytes in a file {}",
        shown(files),
        shown(size)
    );
    if files.is_some_and(|limit| limit < OPEN_FILES_MIN) {
        return DoctorFinding::warning("limits", text).hint(format!("ulimit -n {OPEN_FILES_MIN}"));
    }
    if size.is_some() {
        return DoctorFinding::warning("limits", text).hint("ulimit -f unlimited");
    }
    DoctorFinding::ok("limits", text)
}

fn folder(home: &Path, found: &Metadata) -> DoctorFinding {
    let mode = found.mode() & 0o777;
    let text = format!("{} (mode {mode:04o})", home.display());
    if found.uid() != rustix::process::geteuid().as_raw() {
        return DoctorFinding::warning("home", format!("{text} belongs to uid {}", found.uid()))
            .hint("set RELIGHT_HOME to a folder of your own");
    }
    if mode != 0o700 {
        let hint = format!("chmod 700 {}", quoted(home));
        return DoctorFinding::warning("home", format!("{text} should be 0700")).hint(hint);
    }
    DoctorFinding::ok("home", text)
}

/// Whoever can read the store can read what agents did.
fn files(home: &Path) -> Option<DoctorFinding> {
    let entries = match fs::read_dir(home) {
        Ok(entries) => entries.take(ENTRIES_MAX),
        Err(error) => {
            return Some(DoctorFinding::problem(
                "home",
                format!("cannot list it: {error}"),
            ));
        }
    };
    let mut open: Vec<PathBuf> = Vec::new();
    let mut seen = 0;
    for entry in entries.flatten() {
        let Ok(found) = entry.metadata() else {
            continue;
        };
        seen += 1;
        let wanted = if found.is_dir() { 0o700 } else { 0o600 };
        if !found.is_symlink() && found.mode() & 0o777 & !wanted != 0 {
            open.push(entry.path());
        }
    }
    if open.is_empty() {
        return Some(DoctorFinding::ok(
            "files",
            format!("{seen} in the home folder, all private"),
        ));
    }
    open.sort();
    let names: Vec<String> = open
        .iter()
        .take(NAMED_MAX)
        .map(|path| quoted(path))
        .collect();
    let text = format!(
        "{} in the home folder can be read or run by others",
        open.len()
    );
    Some(
        DoctorFinding::warning("files", text)
            .hint(format!("chmod go-rwx,u-x+X {}", names.join(" "))),
    )
}

/// A path as one word for the shell.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@+,".contains(c);
    if text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
