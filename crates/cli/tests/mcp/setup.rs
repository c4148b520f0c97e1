//! `relight setup mcp`, from outside.

use std::fs;

use serde_json::Value;

use crate::relight::Stage;

#[test]
fn a_clients_file_is_made_kept_and_never_spoilt() {
    let stage = Stage::new();
    let file = stage.folder.path().join("work/.mcp.json");
    let printed = stage.run(&["setup", "mcp", "--for", "claude"]);
    assert_eq!((printed.code, file.exists()), (0, false));
    let words = ["setup", "mcp", "--for", "claude", "--merge"];
    let ran = stage.run(&words);
    assert!(ran.code == 0 && ran.stdout.contains("created"), "{ran:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), printed.stdout);
    assert!(
        ran.stderr
            .contains("asks once whether servers of .mcp.json may run"),
        "{ran:?}"
    );
    let again = stage.run(&words);
    assert!(
        again.code == 0 && again.stdout.contains("nothing to do"),
        "{again:?}"
    );

    fs::write(
        &file,
        "{\"mcpServers\": {\"relight\": {\"command\": \"mine\"}, \"o\": {}}}",
    )
    .unwrap();
    let refused = stage.run(&words);
    assert!(
        refused.code == 1 && refused.stderr.contains("--force"),
        "{refused:?}"
    );
    assert_eq!(
        stage
            .run(&["setup", "mcp", "--for", "claude", "--merge", "--force"])
            .code,
        0
    );
    let whole: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(whole["mcpServers"]["o"].is_object(), "{whole}");

    for content in ["{ // words\n", "\u{0}", "[]"] {
        fs::write(&file, content).unwrap();
        let ran = stage.run(&words);
        assert_eq!(ran.code, 65, "{ran:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
}

#[test]
fn codex_gets_its_table_in_its_own_home() {
    let stage = Stage::new();
    let file = stage.folder.path().join("user/.codex/config.toml");
    fs::create_dir(file.parent().unwrap()).unwrap();
    fs::write(&file, "model = \"x\" # mine\n").unwrap();
    let words = [
        "setup", "mcp", "--for", "codex", "--http", "--merge", "--json",
    ];
    let ran = stage.run(&words);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &answer["action"]), (0, &"added".into()));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("model = \"x\" # mine\n"), "{text}");
    assert!(
        text.contains("[mcp_servers.relight]\nurl = \"http://127.0.0.1:7717/mcp\"\n"),
        "{text}"
    );
    assert_eq!(stage.run(&["setup", "mcp", "--for", "nobody"]).code, 2);
    assert_eq!(
        stage
            .run(&["setup", "mcp", "--for", "codex", "--force"])
            .code,
        2
    );
}

#[test]
fn the_entry_that_is_written_starts_a_server() {
    let stage = Stage::new();
    let ran = stage.run(&["setup", "mcp", "--for", "cursor", "--json"]);
    let entry = serde_json::from_str::<Value>(&ran.stdout).unwrap()["entry"].clone();
    assert_eq!(
        entry["command"],
        env!("CARGO_BIN_EXE_relight"),
        "it is not in PATH here"
    );
    assert_eq!(entry["args"], serde_json::json!(["mcp"]));
    let home = [
        "--home",
        "elsewhere",
        "setup",
        "mcp",
        "--for",
        "cursor",
        "--json",
    ];
    let entry: Value = serde_json::from_str(&stage.run(&home).stdout).unwrap();
    assert_eq!(
        entry["entry"]["args"],
        serde_json::json!(["--home", "elsewhere", "mcp"])
    );
}
