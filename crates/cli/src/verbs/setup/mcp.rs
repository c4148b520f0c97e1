//! `relight setup mcp`: an entry in the configuration of a client. Printed, or merged into the client's
//! own file: everything else there stays, a file that cannot be understood is not touched.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item, Table};

use super::client::{NAME, Way};
use super::mcp_check::McpCheck;
use super::{json_edit, program};
use crate::arguments::other::{McpClient, SetupMcpArguments};
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, whole_file};

pub(crate) fn run(environment: &Environment, given: &SetupMcpArguments) -> Outcome {
    let client = given.client;
    let entry = client.entry(&way(environment, given)?);
    let file = given
        .file
        .clone()
        .unwrap_or_else(|| client.file(environment));
    if given.merge {
        return merge(environment, given, &file, &entry);
    }
    if given.check {
        return check(environment, given, &file, &entry);
    }
    let text = render(client, "", &entry, false)
        .map_err(|wrong| wrong.failure(&file))?
        .text;
    if environment.json {
        let value = json!({"client": client.name(), "file": file, "text": text, "entry": entry});
        output::json(&value);
    } else {
        output::write_out(text.as_bytes());
        let place = file.display();
        output::note(environment, &format!("for {place}; --merge puts it there"));
    }
    Ok(0)
}

fn way(environment: &Environment, given: &SetupMcpArguments) -> Result<Way, Failure> {
    let agent = given.agent.as_ref().map(ToString::to_string);
    if given.http {
        return Ok(Way::Http {
            url: given.url.clone(),
            agent,
        });
    }
    let mut words = Vec::new();
    for (flag, value) in environment.flags_for_state()? {
        words.extend([flag.to_owned(), value]);
    }
    words.push("mcp".to_owned());
    if let Some(agent) = agent {
        words.extend(["--agent".to_owned(), agent]);
    }
    Ok(Way::Process {
        program: program(environment)?,
        words,
    })
}

fn merge(
    environment: &Environment,
    given: &SetupMcpArguments,
    file: &Path,
    entry: &Value,
) -> Outcome {
    let (client, place) = (given.client, file.display());
    let bytes =
        whole_file::read(file).map_err(|error| whole_file::failure("read", file, &error))?;
    let is_new = bytes.is_none();
    let text = String::from_utf8(bytes.unwrap_or_default())
        .map_err(|_| Wrong::Unreadable("not a text in UTF-8".to_owned()).failure(file))?;
    let merged = render(client, &text, entry, given.force).map_err(|wrong| wrong.failure(file))?;
    let (action, word) = match merged.was {
        Was::Same => ("none", "is there already; nothing to do"),
        Was::Absent if is_new => ("created", "created"),
        Was::Absent => ("added", "entry added"),
        Was::Other => ("updated", "entry replaced"),
    };
    if merged.was != Was::Same {
        whole_file::replace(file, merged.text.as_bytes())
            .map_err(|error| whole_file::failure("write", file, &error))?;
    }
    let wants = client.wants();
    let value = json!({
        "client": client.name(), "file": file, "action": action, "entry": entry, "wants": wants,
    });
    output::answer(environment, &value, &format!("{place}: {word}"));
    if let Some(wants) = wants {
        output::note(environment, wants);
    }
    Ok(0)
}

/// Whether the entry is in the file, and what the client itself says of it.
fn check(
    environment: &Environment,
    given: &SetupMcpArguments,
    file: &Path,
    entry: &Value,
) -> Outcome {
    let (client, place) = (given.client, file.display());
    let bytes =
        whole_file::read(file).map_err(|error| whole_file::failure("read", file, &error))?;
    let text = String::from_utf8(bytes.unwrap_or_default())
        .map_err(|_| Wrong::Unreadable("not a text in UTF-8".to_owned()).failure(file))?;
    let was = match render(client, &text, entry, true) {
        Ok(merged) => merged.was,
        Err(wrong) => return Err(wrong.failure(file)),
    };
    let (state, word) = match was {
        Was::Same => ("current", "has the entry"),
        Was::Other => (
            "other",
            "has another entry of this name; --merge --force replaces it",
        ),
        Was::Absent => ("absent", "does not have the entry; --merge adds it"),
    };
    // The user's own file may have it: only the client knows.
    let answer = client.ask();
    let is_fine = match (&answer, was) {
        (McpCheck::Ready, _) => true,
        (answer, Was::Same) => answer.is_fine(),
        (_, Was::Absent | Was::Other) => false,
    };
    let said = answer.text(client);
    let value = json!({
        "client": client.name(), "file": file, "entry": state, "answer": answer.word(), "detail": said,
    });
    output::answer(environment, &value, &format!("{place}: {word}\n{said}"));
    Ok(if is_fine { 0 } else { Exit::No as u8 })
}

/// A file with our entry in it.
struct Merged {
    text: String,
    was: Was,
}

/// What stood under our name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Was {
    Absent,
    Same,
    Other,
}

/// Why a file is left as it is.
#[derive(Debug)]
enum Wrong {
    Unreadable(String),
    /// Somebody changed it.
    Other,
}

impl Wrong {
    fn failure(&self, file: &Path) -> Failure {
        let place: PathBuf = file.to_owned();
        match self {
            Self::Unreadable(why) => {
                let text = format!("{} cannot be understood: {why}", place.display());
                Failure::new(Exit::Data, text)
                    .hint("mend it, or put in by hand what is printed without --merge")
            }
            Self::Other => {
                let text = format!("{} has another entry named {NAME}", place.display());
                Failure::new(Exit::No, text)
                    .hint("--force replaces it; without --merge ours is shown")
            }
        }
    }
}

fn render(client: McpClient, text: &str, entry: &Value, force: bool) -> Result<Merged, Wrong> {
    match client {
        McpClient::Codex => render_toml(client, text, entry, force),
        _ => render_json(client, text, entry, force),
    }
}

fn allow(was: Was, force: bool) -> Result<(), Wrong> {
    if was == Was::Other && !force {
        Err(Wrong::Other)
    } else {
        Ok(())
    }
}

fn render_json(client: McpClient, text: &str, entry: &Value, force: bool) -> Result<Merged, Wrong> {
    let was = match json_edit::member(text, client.table(), NAME).map_err(Wrong::Unreadable)? {
        None => Was::Absent,
        Some(there) if there == *entry => Was::Same,
        Some(_) => Was::Other,
    };
    allow(was, force)?;
    let text = match was {
        Was::Same => text.to_owned(),
        Was::Absent | Was::Other => json_edit::with_member_of(text, client.table(), NAME, entry)
            .map_err(Wrong::Unreadable)?,
    };
    Ok(Merged { text, was })
}

fn render_toml(client: McpClient, text: &str, entry: &Value, force: bool) -> Result<Merged, Wrong> {
    let mut whole: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| Wrong::Unreadable(error.message().to_owned()))?;
    let ours = toml_table(entry);
    let servers = whole.entry(client.table()).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let no_table = || Wrong::Unreadable(format!("{} is not a table", client.table()));
    let servers = servers.as_table_like_mut().ok_or_else(no_table)?;
    let was = match servers.get(NAME) {
        None => Was::Absent,
        Some(there) if says_the_same(there, &ours) => Was::Same,
        Some(_) => Was::Other,
    };
    allow(was, force)?;
    if was != Was::Same {
        servers.insert(NAME, Item::Table(ours));
    }
    Ok(Merged {
        text: whole.to_string(),
        was,
    })
}

fn toml_table(entry: &Value) -> Table {
    let mut table = Table::new();
    for (key, value) in entry.as_object().into_iter().flatten() {
        table.insert(key, toml_edit::value(toml_value(value)));
    }
    table
}

/// Entries hold texts, lists of texts and tables of texts.
fn toml_value(value: &Value) -> toml_edit::Value {
    match value {
        Value::Array(all) => all.iter().map(toml_value).collect(),
        Value::Object(all) => {
            let table: toml_edit::InlineTable = all
                .iter()
                .map(|(key, value)| (key.as_str(), toml_value(value)))
                .collect();
            table.into()
        }
        Value::String(text) => text.as_str().into(),
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => number.as_i64().unwrap_or_default().into(),
        Value::Null => "".into(),
    }
}

/// Whatever spaces and comments stand between.
fn says_the_same(there: &Item, ours: &Table) -> bool {
    let Some(there) = there.as_table_like() else {
        return false;
    };
    let plain = |item: &Item| item.as_value().map(|value| plain_value(value).to_string());
    there.len() == ours.len()
        && ours
            .iter()
            .all(|(key, item)| there.get(key).and_then(plain) == plain(item))
}

fn plain_value(value: &toml_edit::Value) -> toml_edit::Value {
    let mut plain = match value {
        toml_edit::Value::Array(all) => all.iter().map(plain_value).collect(),
        other => other.clone(),
    };
    plain.decor_mut().clear();
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS: [McpClient; 8] = [
        McpClient::Claude,
        McpClient::Codex,
        McpClient::Gemini,
        McpClient::Opencode,
        McpClient::Cursor,
        McpClient::Kimi,
        McpClient::Qwen,
        McpClient::Copilot,
    ];

    fn process() -> Way {
        Way::Process {
            program: "relight".to_owned(),
            words: vec!["mcp".to_owned()],
        }
    }

    fn http() -> Way {
        let agent = Some("writer".to_owned());
        Way::Http {
            url: "http://127.0.0.1:7717/mcp".to_owned(),
            agent,
        }
    }

    fn merged(client: McpClient, text: &str, way: &Way) -> Merged {
        render(client, text, &client.entry(way), false).unwrap()
    }

    #[test]
    fn each_client_gets_what_it_reads() {
        let all = |way: &Way| {
            let each = CLIENTS.map(|client| merged(client, "", way).text);
            each.join("")
        };
        insta::assert_snapshot!("process", all(&process()));
        insta::assert_snapshot!("http", all(&http()));
    }

    #[test]
    fn merging_twice_changes_nothing_the_second_time() {
        for client in CLIENTS {
            for way in [process(), http()] {
                let first = merged(client, "", &way);
                assert_eq!(first.was, Was::Absent);
                let second = merged(client, &first.text, &way);
                assert_eq!((second.was, second.text), (Was::Same, first.text));
            }
        }
    }

    #[test]
    fn comments_and_other_entries_of_toml_stay_byte_for_byte() {
        let theirs = "# mine\nmodel = 'x' # why\n\n[mcp_servers.other]\ncommand = \"o\"  # other\n";
        let text = merged(McpClient::Codex, theirs, &process()).text;
        let rest = text
            .strip_prefix(theirs)
            .expect("what was there comes first, as it was");
        assert!(
            rest.starts_with("\n[mcp_servers.relight]\ncommand = \"relight\"\n"),
            "{rest:?}"
        );
    }

    #[test]
    fn comments_and_other_entries_of_json_stay_byte_for_byte() {
        let theirs = "{\n\t\"z\": 1.50, // why\n\t\"mcpServers\": {\n\t\t\"other\": {}";
        let rest = "\n\t},\n\t\"a\": []\n}\n";
        let text = merged(McpClient::Claude, &format!("{theirs}{rest}"), &process()).text;
        let ours = text
            .strip_prefix(theirs)
            .and_then(|text| text.strip_suffix(rest));
        let ours = ours.expect("what was there stays as it was");
        assert!(
            ours.starts_with(",\n\t\t\"relight\": {\n\t\t\t\"command\": "),
            "{ours:?}"
        );
        // In place of an older one, with comments.
        let older = text.replace("\"relight\",", "/* mine */ \"old\",");
        let entry = McpClient::Claude.entry(&process());
        assert_eq!(
            render(McpClient::Claude, &older, &entry, true)
                .unwrap()
                .text,
            text
        );
    }

    #[test]
    fn what_somebody_else_wrote_is_replaced_by_force_alone() {
        for (client, theirs) in [
            (
                McpClient::Cursor,
                "{\"mcpServers\": {\"relight\": {\"command\": \"mine\"}}}",
            ),
            (
                McpClient::Codex,
                "[mcp_servers.relight]\ncommand = \"mine\"\n",
            ),
        ] {
            let entry = client.entry(&process());
            assert!(matches!(
                render(client, theirs, &entry, false),
                Err(Wrong::Other)
            ));
            let forced = render(client, theirs, &entry, true).unwrap();
            assert!(
                forced.was == Was::Other && !forced.text.contains("mine"),
                "{}",
                forced.text
            );
        }
    }

    #[test]
    fn what_cannot_be_understood_is_refused() {
        for (client, text) in [
            (McpClient::Claude, "{"),
            (McpClient::Claude, "[]"),
            (McpClient::Gemini, "{\"mcpServers\": []}"),
            (McpClient::Opencode, "{} words"),
            (McpClient::Codex, "[[["),
            (McpClient::Codex, "mcp_servers = 1"),
        ] {
            let entry = client.entry(&process());
            assert!(
                matches!(
                    render(client, text, &entry, true),
                    Err(Wrong::Unreadable(_))
                ),
                "{text}"
            );
        }
    }
}
