//! A short way in for the verbs that scripts call all the time: only their own flags are put
//! together, not those of fifty commands. Whatever it does not understand goes the long way, which
//! also writes every error and help text.

use std::ffi::OsString;

use clap::{Args, Command as Parser, FromArgMatches};

use super::checkpoint::CheckpointCommand;
use super::session::SessionCommand;
use super::step::StepCommand;
use super::task::TaskCommand;
use super::{Cli, Command, Global};

/// Reads `relight NOUN VERB …` for the usual verbs, `relight beat` and `relight hook`; none for anything else.
pub fn parse(words: &[OsString]) -> Option<Cli> {
    let noun = words.get(1)?.to_str()?;
    match noun {
        "beat" => return only_verb(words, "beat", Command::Beat),
        "hook" => return only_verb(words, "hook", Command::Hook),
        _ => {}
    }
    let verb = words.get(2)?.to_str()?;
    match noun {
        "task" => task(words, verb),
        "step" => step(words, verb),
        "session" => session(words, verb),
        "checkpoint" => checkpoint(words, verb),
        _ => None,
    }
}

fn task(words: &[OsString], verb: &str) -> Option<Cli> {
    let done = Command::Task;
    match verb {
        "start" => read(words, ["task", "start"], |a| done(TaskCommand::Start(a))),
        "set" => read(words, ["task", "set"], |a| done(TaskCommand::Set(a))),
        "done" => read(words, ["task", "done"], |a| done(TaskCommand::Done(a))),
        "show" => read(words, ["task", "show"], |a| done(TaskCommand::Show(a))),
        "claim" => read(words, ["task", "claim"], |a| done(TaskCommand::Claim(a))),
        _ => None,
    }
}

fn step(words: &[OsString], verb: &str) -> Option<Cli> {
    let done = Command::Step;
    match verb {
        "run" => read(words, ["step", "run"], |a| done(StepCommand::Run(a))),
        "begin" => read(words, ["step", "begin"], |a| done(StepCommand::Begin(a))),
        "end" => read(words, ["step", "end"], |a| done(StepCommand::End(a))),
        _ => None,
    }
}

fn session(words: &[OsString], verb: &str) -> Option<Cli> {
    let done = Command::Session;
    match verb {
        "begin" => read(words, ["session", "begin"], |a| {
            done(SessionCommand::Begin(a))
        }),
        "end" => read(words, ["session", "end"], |a| done(SessionCommand::End(a))),
        "touch" => read(words, ["session", "touch"], |a| {
            done(SessionCommand::Touch(a))
        }),
        "show" => read(words, ["session", "show"], |a| {
            done(SessionCommand::Show(a))
        }),
        _ => None,
    }
}

fn checkpoint(words: &[OsString], verb: &str) -> Option<Cli> {
    let done = Command::Checkpoint;
    let path = |verb| ["checkpoint", verb];
    match verb {
        "start" => read(words, path("start"), |a| done(CheckpointCommand::Start(a))),
        "update" => read(words, path("update"), |a| {
            done(CheckpointCommand::Update(a))
        }),
        "complete" => read(words, path("complete"), |a| {
            done(CheckpointCommand::Complete(a))
        }),
        "resume" => read(words, path("resume"), |a| {
            done(CheckpointCommand::Resume(a))
        }),
        _ => None,
    }
}

fn only_verb<A: Args + FromArgMatches>(
    words: &[OsString],
    verb: &'static str,
    command: impl FnOnce(A) -> Command,
) -> Option<Cli> {
    let verb = A::augment_args(Parser::new(verb));
    let parser = Global::augment_args(Parser::new("relight")).subcommand(verb);
    let found = parser.try_get_matches_from(words).ok()?;
    let of_verb = found.subcommand()?.1;
    let global = Global::from_arg_matches(of_verb).ok()?;
    Some(Cli {
        global,
        command: command(A::from_arg_matches(of_verb).ok()?),
    })
}

fn read<A: Args + FromArgMatches>(
    words: &[OsString],
    [noun, verb]: [&'static str; 2],
    command: impl FnOnce(A) -> Command,
) -> Option<Cli> {
    let verb = A::augment_args(Parser::new(verb));
    let noun = Parser::new(noun).subcommand(verb);
    let parser = Global::augment_args(Parser::new("relight")).subcommand(noun);
    let found = parser.try_get_matches_from(words).ok()?;
    let of_verb = found.subcommand()?.1.subcommand()?.1;
    let global = Global::from_arg_matches(of_verb).ok()?;
    Some(Cli {
        global,
        command: command(A::from_arg_matches(of_verb).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn the_short_way_and_the_long_way_understand_the_same() {
        for line in [
            "relight task start t --step a --step b --owner-pid 1 --export",
            "relight task start --home /x --json t --ttl 5m --set a=b --lease 1s",
            "relight task set t a=b c=d --fence 3 -q",
            "relight task done",
            "relight task claim --agent a --wait 5s",
            "relight task show t --store sqlite:x",
            "relight step run s --task t --repeat once --accept 1,2 --timeout 5s -- sh -c x --json",
            "relight step begin s --repeat verify --occurrence 2",
            "relight step end s --failed --output - -v",
            "relight session begin k --id c --owner-pid 1 --set a=b --set c=d",
            "relight session begin --id c --lease 5m --export --home h",
            "relight session end k --generation 3 --json",
            "relight session touch k --id c",
            "relight session show k",
            "relight checkpoint start --workflow w --agent a --step s --idempotency k --remaining x y",
            "relight checkpoint update --workflow w --complete a --complete b --status blocked",
            "relight checkpoint complete --workflow w --dir d --json",
            "relight checkpoint resume --steal-lock --agent a",
            "relight hook before-tool --for claude --home h",
            "relight beat",
            "relight beat writer --waiting-until 30m --status -x --home h -q",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let short = parse(&words).unwrap_or_else(|| panic!("{line}"));
            let long = Cli::try_parse_from(&words).unwrap();
            assert_eq!(format!("{short:?}"), format!("{long:?}"), "{line}");
        }
    }

    #[test]
    fn what_needs_an_answer_of_its_own_goes_the_long_way() {
        for line in [
            "relight",
            "relight task",
            "relight task set --help",
            "relight task set",
            "relight task list",
            "relight --json task set t a=b",
            "relight step run s",
            "relight task start ../x",
            "relight beat --help",
            "relight beat --waiting-until soon",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert!(parse(&words).is_none(), "{line}");
        }
    }
}
