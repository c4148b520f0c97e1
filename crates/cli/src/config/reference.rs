//! `docs/reference/configuration.md` is made from `default.toml`, and each line of that file is true:
//! these tests fail when that is not so. `UPDATE_DOCS=1 cargo test -p relight-cli` writes the page anew.

use std::fmt::Write as _;
use std::path::Path;

use relight_core::agent::STEP_SILENCE_MAX;
use relight_core::recovery::TaskPolicy;
use relight_core::restart_budget::RestartPolicy;
use relight_core::session::Rules;
use relight_core::task::STRATEGY_DEFAULT;
use relight_runtime::alerts::AlertTiming;

use super::Config;
use super::keys::{DEFAULT, KeyTable, Mark, Setting, marked, tables};

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/reference/configuration.md"
);

#[test]
fn the_default_file_as_it_is_says_nothing() {
    assert_eq!(parse(DEFAULT), parse(""));
}

#[test]
fn the_defaults_of_the_file_are_those_of_the_library() {
    let Config {
        recovery,
        queue,
        sessions,
        alert,
        ..
    } = Config::default();
    assert_eq!(recovery.policy, RestartPolicy::default());
    assert_eq!(recovery.strategy, STRATEGY_DEFAULT);
    assert_eq!(recovery.step_silence_max, Some(STEP_SILENCE_MAX));
    assert_eq!(queue.policy(&recovery), TaskPolicy::default());
    assert_eq!(sessions, Rules::default());
    assert_eq!(alert.pace, AlertTiming::default());
}

#[test]
fn every_line_of_the_default_file_is_valid() {
    let all = parse(&uncommented(&[
        Mark::Default,
        Mark::Required,
        Mark::Example,
    ]));
    assert!(all.store_url.is_some() && all.agents[0].stop.is_some());
}

#[test]
fn the_page_of_the_configuration_is_what_the_default_file_says() {
    crate::arguments::reference::assert_page(PAGE, &page());
}

fn parse(text: &str) -> Config {
    let presets = relight_runtime::presets::Preset::names(None);
    Config::parse(text, Path::new("/x/relight.toml"), &presets).unwrap_or_else(|e| panic!("{e}"))
}

fn uncommented(marks: &[Mark]) -> String {
    let uncomment = |line: &'static str| match marked(line) {
        Some((mark, rest)) if marks.contains(&mark) => rest,
        _ => line,
    };
    DEFAULT
        .lines()
        .map(uncomment)
        .collect::<Vec<_>>()
        .join("\n")
}

fn page() -> String {
    let mut text = "<!-- Made from crates/cli/src/config/default.toml by `UPDATE_DOCS=1 cargo test -p \
                    relight-cli`. -->\n\
                    # Configuration: `relight.toml`\n\n\
                    Looked for in `--config FILE`, then `$RELIGHT_CONFIG`, then as `relight.toml` in the \
                    current folder and those above it, then \
                    `$XDG_CONFIG_HOME/relight/relight.toml` (`~/.config` by default). With \
                    `--project NAME`: in the folder of that project. Unknown keys are errors; all errors are \
                    reported at once, with line and column, and give exit code 78.\n\n\
                    Durations are written `90s`, `10m`, `2h` or `7d`, sizes `10MB` or `512KiB`. \
                    Relative paths start at the folder of the file.\n"
        .to_owned();
    for KeyTable {
        header,
        about,
        settings,
        ..
    } in tables()
    {
        let about = about.join(" ");
        let _ = write!(
            text,
            "\n## `{header}`\n\n{about}\n\n| key | default | |\n|---|---|---|\n"
        );
        for Setting {
            mark,
            key,
            value,
            why,
        } in settings
        {
            let value = value.replace('|', "\\|");
            let default = match mark {
                Mark::Default => format!("`{value}`"),
                Mark::Required => format!("required, such as `{value}`"),
                Mark::Example => format!("none, such as `{value}`"),
            };
            let _ = writeln!(
                text,
                "| `{key}` | {default} | {} |",
                why.join(" ").replace('|', "\\|")
            );
        }
    }
    text += "\n## An example\n\n```toml\n[recovery]\ncooldown = \"30s\"\n\n[[agent]]\nname = \"writer\"\n\
             command = [\"claude\", \"-p\", \"write the next chapter\"]\npreset = \"claude-code\"\n\
             env_pass = [\"ANTHROPIC_API_KEY\"]\nsilence_max = \"15m\"\n```\n";
    text
}
