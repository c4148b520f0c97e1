//! `default.toml` holds every key of the parser with its default, and `docs/reference/configuration.md`
//! is made from it: these tests fail when that is not so. `UPDATE_DOCS=1 cargo test -p relight-cli`
//! writes the page anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::{
    Config, DAEMON, DEFAULT, LOG, SESSIONS, STORE, TELEMETRY, TOP, agent, alert, node, queue,
    recovery,
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");

/// A setting of the default file.
struct Setting<'t> {
    mark: Mark,
    key: &'t str,
    value: &'t str,
    why: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Default,
    Needed,
    Example,
}

/// A table of the default file.
struct Part<'t> {
    header: &'t str,
    about: String,
    settings: Vec<Setting<'t>>,
}

#[test]
fn the_default_file_as_it_is_says_nothing() {
    assert_eq!(parse(DEFAULT), parse(""));
}

#[test]
fn what_the_default_file_calls_a_default_is_one() {
    let spelled = parse(&uncommented(&[Mark::Default, Mark::Needed]));
    assert_eq!(spelled, parse(&uncommented(&[Mark::Needed])));
    assert_eq!(spelled.agents.len(), 1);
}

#[test]
fn every_line_of_the_default_file_is_valid() {
    let all = parse(&uncommented(&[Mark::Default, Mark::Needed, Mark::Example]));
    assert!(all.store_url.is_some() && all.agents[0].stop.is_some());
}

#[test]
fn every_key_of_the_parser_stands_once_in_the_default_file() {
    let found: BTreeMap<&str, Vec<&str>> = parts()
        .into_iter()
        .map(|part| (part.header, part.settings.iter().map(|setting| setting.key).collect()))
        .collect();
    let known: BTreeMap<&str, Vec<&str>> = BTreeMap::from([
        ("[store]", STORE.to_vec()),
        ("[recovery]", recovery::KEYS.to_vec()),
        ("[queue]", queue::KEYS.to_vec()),
        ("[sessions]", SESSIONS.to_vec()),
        ("[log]", LOG.to_vec()),
        ("[telemetry]", TELEMETRY.to_vec()),
        ("[alert]", alert::KEYS.to_vec()),
        ("[daemon]", DAEMON.to_vec()),
        ("[node]", node::KEYS.to_vec()),
        ("[[agent]]", agent::own_keys().to_vec()),
    ]);
    assert_eq!(found, known);
    assert_eq!(known.len(), TOP.len());
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
    DEFAULT.lines().map(uncomment).collect::<Vec<_>>().join("\n")
}

/// What a commented line would say.
fn marked(line: &str) -> Option<(Mark, &str)> {
    let rest = line.strip_prefix('#')?;
    if let Some(rest) = rest.strip_prefix("! ") {
        return Some((Mark::Needed, rest));
    }
    if let Some(rest) = rest.strip_prefix("~ ") {
        return Some((Mark::Example, rest));
    }
    let is_setting = rest.starts_with(|c: char| c.is_ascii_lowercase());
    is_setting.then_some((Mark::Default, rest))
}

fn parts() -> Vec<Part<'static>> {
    let mut parts: Vec<Part<'static>> = Vec::new();
    let mut comment = String::new();
    for line in DEFAULT.lines() {
        let (mark, setting) = marked(line).unwrap_or((Mark::Default, line));
        if setting.starts_with('[') {
            let about = std::mem::take(&mut comment);
            parts.push(Part { header: setting, about, settings: Vec::new() });
        } else if let Some((key, value)) = setting.split_once(" = ").filter(|_| setting != line) {
            let why = std::mem::take(&mut comment);
            let part = parts.last_mut().expect("a setting is in a table");
            part.settings.push(Setting { mark, key, value, why });
        } else {
            let text = line.trim_start_matches('#').trim();
            comment = match text.is_empty() {
                true => String::new(),
                false => format!("{comment} {text}").trim_start().to_owned(),
            };
        }
    }
    parts
}

fn page() -> String {
    let mut text = "<!-- Made from crates/cli/src/config/default.toml by `UPDATE_DOCS=1 cargo test -p \
                    relight-cli`. -->\n\
                    # Configuration: `relight.toml`\n\n\
                    Searched in `--config FILE`, then `./relight.toml`, then \
                    `$XDG_CONFIG_HOME/relight/relight.toml`. Unknown keys are errors; all errors are \
                    reported at once, with line and column, and give exit code 78.\n\n\
                    Durations are written `90s`, `10m`, `2h` or `7d`, sizes `10MB` or `512KiB`. \
                    Relative paths start at the folder of the file.\n"
        .to_owned();
    for part in parts() {
        let Part { header, about, settings } = part;
        let _ = write!(text, "\n## `{header}`\n\n{about}\n\n| key | default | |\n|---|---|---|\n");
        for Setting { mark, key, value, why } in settings {
            let value = value.replace('|', "\\|");
            let default = match mark {
                Mark::Default => format!("`{value}`"),
                Mark::Needed => format!("required, such as `{value}`"),
                Mark::Example => format!("none, such as `{value}`"),
            };
            let _ = writeln!(text, "| `{key}` | {default} | {} |", why.replace('|', "\\|"));
        }
    }
    text += "\n## An example\n\n```toml\n[recovery]\ncooldown = \"30s\"\n\n[[agent]]\nname = \"writer\"\n\
             command = [\"claude\", \"-p\", \"write the next chapter\"]\npreset = \"claude-code\"\n\
             env_pass = [\"ANTHROPIC_API_KEY\"]\nsilence_max = \"15m\"\n```\n";
    text
}
