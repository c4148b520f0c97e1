//! `strace`: which system calls a command makes, and what happens when one of them goes wrong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::product::{Answer, finish, plain};

/// One system call of a command: its name, and the how-manieth of that name in its process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// From 1.
    pub number: u32,
    /// The line of the trace, which has paths for descriptors.
    pub line: String,
}

/// What is done to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// The process is killed as it enters the call.
    Kill,
    /// The call is not made and answers this error.
    Error(&'static str),
}

/// Whether it is there and may trace.
pub fn is_usable() -> bool {
    let tried = finish(&mut plain(
        Path::new("strace"),
        &["-o", "/dev/null", "true"],
    ));
    tried.is_ok_and(|answer| answer.code == 0)
}

/// All calls of a command, in order. The command must be one that can be repeated elsewhere.
pub fn calls(command: &Command, folder: &Path) -> anyhow::Result<(Answer, Vec<Call>)> {
    let trace = folder.join("trace");
    let answer = under(command, &trace, &[])?;
    let text = std::fs::read(&trace).context("strace wrote nothing")?;
    Ok((answer, parse(&String::from_utf8_lossy(&text))))
}

/// Runs a command with one of its calls harmed; whether it came to that call stands beside.
pub fn harmed(
    command: &Command,
    folder: &Path,
    call: &Call,
    harm: Harm,
) -> anyhow::Result<(Answer, bool)> {
    let trace = folder.join("trace");
    let what = match harm {
        Harm::Kill => "signal=SIGKILL".to_owned(),
        Harm::Error(error) => format!("error={error}"),
    };
    let only = format!("trace={}", call.name);
    let inject = format!("inject={}:{what}:when={}", call.name, call.number);
    let answer = under(command, &trace, &["-e", &only, "-e", &inject])?;
    let text = std::fs::read(&trace).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let reached = match harm {
        Harm::Kill => text.contains("killed by SIGKILL"),
        Harm::Error(_) => text.contains("(INJECTED)"),
    };
    Ok((answer, reached))
}

/// The same command under strace, in the same environment.
fn under(command: &Command, trace: &Path, options: &[&str]) -> anyhow::Result<Answer> {
    let mut words = vec![
        "-f".to_owned(),
        "-y".to_owned(),
        "-qq".to_owned(),
        "-o".to_owned(),
    ];
    words.push(trace.display().to_string());
    words.extend(options.iter().map(|&word| word.to_owned()));
    words.push(PathBuf::from(command.get_program()).display().to_string());
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut traced = plain(Path::new("strace"), &words);
    traced.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    finish(&mut traced)
}

/// `PID name(arguments) = result`, where a call cut in two comes back as `<... name resumed>`.
fn parse(trace: &str) -> Vec<Call> {
    let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((pid, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        let Some((name, _)) = rest.split_once('(') else {
            continue;
        };
        let is_name = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !is_name || name.is_empty() || rest.contains(" resumed>") {
            continue;
        }
        let number = counts.entry((pid, name)).or_default();
        *number += 1;
        let (name, number, line) = (name.to_owned(), *number, rest.to_owned());
        calls.push(Call { name, number, line });
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_name_in_each_process() {
        let trace = "7 openat(AT_FDCWD, \"/a\") = 3</a>\n7 write(3</a>, \"x\", 1) = 1\n\
                     8 write(1, <unfinished ...>\n7 write(3</a>, \"y\", 1) = 1\n\
                     8 <... write resumed>) = 1\n7 +++ exited with 0 +++\n";
        let calls = parse(trace);
        let short: Vec<String> = calls
            .iter()
            .map(|c| format!("{} {}", c.name, c.number))
            .collect();
        assert_eq!(short, ["openat 1", "write 1", "write 1", "write 2"]);
    }
}
