//! `docs/reference/commands.md`, made from the flags: this test fails when the page is not what
//! they say. `UPDATE_DOCS=1 cargo test -p relight-cli` writes it anew.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

use super::Cli;
use crate::exit::Exit;

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/reference/commands.md"
);

#[test]
fn the_page_of_commands_is_what_the_flags_say() {
    assert_page(PAGE, &page());
}

#[test]
fn the_page_of_limits_is_what_the_code_says() {
    const LIMITS_PAGE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/limits.md"
    );
    let mut text =
        "<!-- Made from crates/core/src/limits.rs by `UPDATE_DOCS=1 cargo test -p relight-cli`. -->\n\
         # Limits\n\n\
         A text over its limit is refused before anything is written: exit code 65 on the command \
         line, 422 `invalid` over HTTP. Write a larger text to a file and store \
         the file's name.\n\n\
         | what | at most |\n|---|---|\n"
            .to_owned();
    for limit in relight_core::limits::ALL {
        let _ = writeln!(text, "| {} | {} {} |", limit.what, limit.max, limit.unit);
    }
    text += &format!(
        "\nIds of tasks and agents have at most {} bytes, session keys and the ids and agents of \
         workflows at most {}, and names of steps and idempotency keys at most {}; longer ones are wrong usage (exit code 2). The output of a step is kept up to {} \
         bytes; of a larger output the beginning and the end are kept. Relight's own texts, such as \
         the reason of a strategy, are truncated to their limit.\n\nWhole numbers in JSON are those \
         of 64 bits, -9223372036854775808 to 18446744073709551615, and are kept to the digit. Other numbers \
         must lie between -2^63 and 2^63; beyond that (`1e19`) the document is refused as a whole.\n",
        relight_core::ids::ID_BYTES_MAX,
        relight_core::ids::TEXT_BYTES_MAX,
        relight_core::ids::NAME_BYTES_MAX,
        relight_core::step::OUTPUT_BYTES_MAX,
    );
    assert_page(LIMITS_PAGE, &text);
}

#[test]
fn every_command_that_does_something_has_an_example() {
    let mut command = Cli::command();
    command.build();
    for command in doers(&command) {
        let help = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(help.starts_with("Example"), "{}", name(command));
    }
}

/// A generated page is what the code says; `UPDATE_DOCS=1` writes it anew.
pub(crate) fn assert_page(path: &str, wanted: &str) {
    if is_update() {
        std::fs::write(path, wanted).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    let differs = wanted
        .lines()
        .zip(found.lines())
        .find(|(wanted, found)| wanted != found);
    assert!(
        found == wanted,
        "UPDATE_DOCS=1 cargo test -p relight-cli; first: {differs:?}"
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test asks its caller, not the product's user"
)]
fn is_update() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1")
}

fn page() -> String {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut text = "<!-- Made from the flags by `UPDATE_DOCS=1 cargo test -p relight-cli`. -->\n\
                    # Commands\n\n\
                    `relight COMMAND …`; `relight help COMMAND` and `relight man` show the same.\n\n"
        .to_owned();
    for command in doers(&command) {
        let about = about(command);
        let _ = writeln!(
            text,
            "- [`{}`](#{}): {about}",
            name(command),
            anchor(command)
        );
    }
    text += "\n## Global options\n\nBefore or after the command.\n\n";
    text += &table(command.get_arguments().filter(|arg| is_global(arg)));
    text += &exit_codes();
    for command in doers(&command) {
        text += &section(command);
    }
    text
}

fn exit_codes() -> String {
    let mut text = "\n## Exit codes\n\n| code | meaning |\n|---|---|\n| 0 | done |\n".to_owned();
    for exit in Exit::ALL {
        let _ = writeln!(text, "| {} | {} |", exit as u8, exit.meaning());
    }
    text += "\n`relight run` and `relight step run` pass the command's own code through: 128+n for a \
             signal, 124 for a timeout.\n";
    text
}

fn section(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let mut text = format!(
        "\n## {}\n\n{}.\n\n```text\n{usage}\n```\n",
        name(command),
        about(command)
    );
    let own: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !is_global(arg) && !arg.is_hide_set())
        .collect();
    if !own.is_empty() {
        let _ = write!(text, "\n{}", table(own.into_iter()));
    }
    let help = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let (example, rest) = help.split_once("\n\n").unwrap_or((&help, ""));
    let lines = example
        .lines()
        .skip(1)
        .map(|line| line.strip_prefix("  ").unwrap_or(line));
    let _ = write!(
        text,
        "\n```sh\n{}\n```\n",
        lines.collect::<Vec<_>>().join("\n")
    );
    if !rest.is_empty() {
        let _ = writeln!(text, "\n{rest}");
    }
    text
}

/// Commands without further ones below, in the order of the help.
fn doers(command: &Command) -> Vec<&Command> {
    let mut found = Vec::new();
    let is_shown = |below: &&Command| below.get_name() != "help" && !below.is_hide_set();
    for below in command.get_subcommands().filter(is_shown) {
        if below.has_subcommands() {
            found.extend(doers(below));
        } else {
            found.push(below);
        }
    }
    found
}

fn table<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let mut text = "| | |\n|---|---|\n".to_owned();
    for argument in arguments.filter(|arg| !is_of_clap(arg)) {
        let _ = writeln!(text, "| `{}` | {} |", spelled(argument), meaning(argument));
    }
    text
}

fn spelled(argument: &Arg) -> String {
    let names: Vec<String> = argument
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(argument.get_long().map(|long| format!("--{long}")))
        .collect();
    let takes_value = argument.get_action().takes_values();
    let values = argument.get_value_names().unwrap_or_default().join(" ");
    let values = if values.is_empty() {
        argument.get_id().to_string().to_uppercase()
    } else {
        values
    };
    match (names.is_empty(), takes_value) {
        (true, _) => values,
        (false, true) => format!("{} {values}", names.join(", ")),
        (false, false) => names.join(", "),
    }
    .replace('|', "\\|")
}

fn meaning(argument: &Arg) -> String {
    let mut text = argument
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|v| v.to_string_lossy().into_owned())
        .collect();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(text, " [default: {}]", defaults.join(" "));
    }
    let words: Vec<String> = argument
        .get_possible_values()
        .iter()
        .map(|v| v.get_name().to_owned())
        .collect();
    if argument.get_action().takes_values() && !words.is_empty() {
        let _ = write!(text, " [one of: {}]", words.join(", "));
    }
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn is_global(argument: &Arg) -> bool {
    argument.get_help_heading() == Some("Global options")
}

/// `--help` and `--version` explain themselves.
fn is_of_clap(argument: &Arg) -> bool {
    matches!(argument.get_id().as_str(), "help" | "version")
}

fn about(command: &Command) -> String {
    command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn name(command: &Command) -> String {
    command
        .get_bin_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned()
}

fn anchor(command: &Command) -> String {
    name(command).replace(' ', "-")
}
