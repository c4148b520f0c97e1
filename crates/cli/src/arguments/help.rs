//! Help texts: commands in groups, and examples before the flags. Put together only when help is asked
//! for.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::Cli;

/// Every command, in groups, the usual ones first.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Start here",
        &["init", "run", "up", "reload", "down", "status", "dashboard"],
    ),
    (
        "See and control agents",
        &[
            "ps", "logs", "deaths", "start", "stop", "restart", "forget", "beat",
        ],
    ),
    (
        "Record work",
        &["task", "step", "checkpoint", "session", "trap", "hook"],
    ),
    (
        "Recover and decide",
        &["recover", "inflight", "check", "drain", "transcript"],
    ),
    (
        "Look deeper",
        &["events", "explain", "doctor", "alerts", "presets", "node"],
    ),
    (
        "Set up and maintain",
        &[
            "setup",
            "service",
            "project",
            "trust",
            "token",
            "mcp",
            "store",
            "prune",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// The help text that was asked for by these words; none when they do not ask for one.
pub(super) fn asked_for(words: &[OsString]) -> Option<clap::Error> {
    let mut words = words.to_vec();
    // The overview is short, however it is asked for.
    if let [_, only] = &mut words[..]
        && (only == "--help" || only == "help")
    {
        *only = "-h".into();
    }
    arranged(Cli::command()).try_get_matches_from(words).err()
}

/// The commands with help texts as people read them.
fn arranged(root: Command) -> Command {
    let mut root = root;
    root.build();
    let groups = groups(&root);
    let examples = examples(&root).0;
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} relight [OPTIONS] COMMAND\n\n{examples}\n\n{groups}\
         \nGlobal options, before or after the command:\n{{options}}\n\n\
         relight help COMMAND shows the flags of a command; relight explain CODE what an exit code means.\n"
    );
    below(root).help_template(template).after_help("")
}

/// All commands below, with their examples first.
fn below(command: Command) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .collect();
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |it| below(with_examples_first(it)))
    })
}

fn with_examples_first(command: Command) -> Command {
    let (examples, rest) = examples(&command);
    if examples.is_empty() {
        return command;
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{examples}\n\n{{all-args}}{{after-help}}"
    );
    command.help_template(template).after_help(rest)
}

/// The examples of a command, and what its help says beside them.
fn examples(command: &Command) -> (String, String) {
    let help = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    match help.split_once("\n\n") {
        _ if !help.starts_with("Example") => (String::new(), help),
        Some((examples, rest)) => (examples.to_owned(), rest.to_owned()),
        None => (help, String::new()),
    }
}

fn groups(root: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{title}:");
        for name in names {
            let command = root.find_subcommand(name);
            let about = command.and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<11} {about}");
        }
        text.push('\n');
    }
    text.pop();
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn help(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        asked_for(&words).unwrap().render().to_string()
    }

    #[test]
    fn every_command_is_in_one_group() {
        let mut root = Cli::command();
        root.build();
        let shown = root.get_subcommands().filter(|it| !it.is_hide_set());
        let known: BTreeSet<&str> = shown.map(Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(grouped.len(), known.len());
    }

    #[test]
    fn the_overview_fits_a_terminal_and_shows_examples_first() {
        let text = help("relight --help");
        let groups = text.lines().skip_while(|line| *line != "Start here:");
        let groups = groups.take_while(|line| !line.starts_with("Global options"));
        let long: Vec<&str> = groups.filter(|line| line.chars().count() > 80).collect();
        assert_eq!(long, [""; 0], "{text}");
        let (examples, groups) = (text.find("Examples:"), text.find("Start here:"));
        assert!(examples.is_some() && examples < groups, "{text}");
        assert_eq!(text.matches("Examples:").count(), 1, "{text}");
    }

    #[test]
    fn examples_of_a_command_stand_before_its_flags() {
        let text = help("relight logs --help");
        let (examples, flags) = (text.find("Examples:"), text.find("--follow"));
        assert!(examples.is_some() && examples < flags, "{text}");
        assert!(text.contains("Exit code"), "{text}");
        let text = help("relight task start --help");
        assert!(text.find("Example") < text.find("--owner-pid"), "{text}");
    }
}
