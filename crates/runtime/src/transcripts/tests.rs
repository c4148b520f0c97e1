use std::fs;

use relight_core::time::Time;
use relight_redact::{MarkKey, Redactor};

use super::*;

/// A conversation of each format that ends with an open call, in the shape of the real ones.
const CLAUDE: &str = r#"{"type":"queue-operation","operation":"enqueue","sessionId":"s"}
{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"count the files"},"uuid":"u1","sessionId":"s","version":"2"}
{"parentUuid":"u1","isSidechain":false,"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I will."}]},"uuid":"u2","sessionId":"s","version":"2"}
{"parentUuid":"u2","isSidechain":false,"type":"user","message":{"role":"user","content":"go"},"uuid":"u3","sessionId":"s","version":"2"}
{"parentUuid":"u3","isSidechain":false,"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"git push"}}]},"uuid":"u4","sessionId":"s","version":"2"}
"#;
const CODEX: &str = r#"{"timestamp":"2026-01-02T03:04:05.000Z","ordinal":0,"type":"session_meta","payload":{"id":"s","cwd":"/srv"}}
{"timestamp":"2026-01-02T03:04:05.000Z","ordinal":1,"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"count"}]}}
{"timestamp":"2026-01-02T03:04:06.000Z","ordinal":2,"type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"cmd\":\"git push\"}","call_id":"t1"}}
"#;
const GEMINI: &str = r#"{"sessionId":"s","projectHash":"h","startTime":"2026-01-02T03:04:05.000Z"}
{"id":"m1","timestamp":"2026-01-02T03:04:05.000Z","type":"user","content":[{"text":"count"}]}
{"$set":{"lastUpdated":"2026-01-02T03:04:05.000Z"}}
{"id":"m2","timestamp":"2026-01-02T03:04:06.000Z","type":"gemini","content":"","toolCalls":[{"id":"t1","name":"shell","args":{"command":"git push"},"status":"executing"}]}
"#;
const KIMI: &str = r#"{"type":"metadata","protocol_version":"1.5","created_at":1}
{"type":"turn.prompt","agentId":"main","input":[{"type":"text","text":"count"}],"time":2}
{"type":"context.append_message","agentId":"main","message":{"role":"user","content":[]},"time":3}
{"type":"context.append_loop_event","agentId":"main","event":{"type":"tool.call","uuid":"e1","toolCallId":"t1","name":"Bash","args":{"command":"git push"}},"time":4}
"#;
const QWEN: &str = r#"{"uuid":"u1","parentUuid":null,"sessionId":"s","type":"user","version":"0","message":{"role":"user","parts":[{"text":"count"}]}}
{"uuid":"u2","parentUuid":"u1","sessionId":"s","type":"system","version":"0","systemPayload":{}}
{"uuid":"u3","parentUuid":"u2","sessionId":"s","type":"assistant","version":"0","model":"m","message":{"role":"model","parts":[{"text":"I will."},{"functionCall":{"id":"t1","name":"shell","args":{"command":"git push"}}}]}}
"#;
const ALL: [(Format, &str); 5] = [
    (Format::ClaudeCode, CLAUDE),
    (Format::Codex, CODEX),
    (Format::Gemini, GEMINI),
    (Format::Kimi, KIMI),
    (Format::Qwen, QWEN),
];
static NOW: std::sync::LazyLock<Time> = std::sync::LazyLock::new(|| Time::from_ms(0));

fn repaired(format: Format, bytes: &[u8]) -> Vec<u8> {
    match examine(format, bytes, *NOW).remedy {
        Remedy::None => bytes.to_vec(),
        Remedy::Replace(content) => content,
        Remedy::Impossible(reason) => panic!("{format}: {reason}"),
    }
}

/// A transcript of this format in which every call has its result.
fn sound(format: Format) -> Vec<u8> {
    let (_, text) = ALL.into_iter().find(|(known, _)| *known == format).unwrap();
    repaired(format, text.as_bytes())
}

fn kinds(format: Format, bytes: &[u8]) -> Vec<FindingKind> {
    examine(format, bytes, *NOW)
        .findings
        .iter()
        .map(|finding| finding.kind)
        .collect()
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

#[test]
fn an_open_call_is_found_and_answered_as_in_doubt() {
    for (format, text) in ALL {
        assert_eq!(Format::detect(text.as_bytes()), Some(format));
        let found = examine(format, text.as_bytes(), *NOW);
        let [call] = &found.open_calls[..] else {
            panic!("{format}: {found:?}")
        };
        assert_eq!(
            (&*call.id, call.arguments.to_string().contains("git push")),
            ("t1", true)
        );
        assert_eq!(kinds(format, text.as_bytes()), [FindingKind::OpenCall]);
        let after = repaired(format, text.as_bytes());
        assert!(
            after.starts_with(text.as_bytes()),
            "{format}: nothing is cut"
        );
        assert_eq!(
            examine(format, &after, *NOW).remedy,
            Remedy::None,
            "{format}"
        );
        assert!(String::from_utf8_lossy(&after).contains("may or may not have happened"));
    }
}

#[test]
fn a_call_before_a_later_prompt_was_passed_over() {
    let prompt = r#"{"type":"turn.prompt","agentId":"main","input":[],"time":9}"#;
    let text = format!("{KIMI}{prompt}\n");
    assert_eq!(
        examine(Format::Kimi, text.as_bytes(), *NOW).remedy,
        Remedy::None
    );
}

#[test]
fn any_truncation_is_repaired_to_a_prefix_and_a_second_repair_changes_nothing() {
    for (format, _) in ALL {
        let whole = sound(format);
        for length in 0..whole.len() {
            let found = examine(format, &whole[..length], *NOW);
            let after = match found.remedy {
                Remedy::Impossible(_) => {
                    let first = lines(&whole)[0].len();
                    assert!(
                        length < first,
                        "{format}: only without a record, not at {length}"
                    );
                    continue;
                }
                Remedy::None => whole[..length].to_vec(),
                Remedy::Replace(content) => content,
            };
            let kept = lines(&whole[..length])
                .iter()
                .filter(|line| line.ends_with(b"\n"))
                .count();
            let kept: usize = lines(&whole)[..kept].iter().map(|line| line.len()).sum();
            assert!(after.starts_with(&whole[..kept]), "{format} at {length}");
            assert_eq!(
                examine(format, &after, *NOW).remedy,
                Remedy::None,
                "{format} at {length}"
            );
        }
    }
}

#[test]
fn damage_in_any_line_costs_that_line_only() {
    for (format, _) in ALL {
        let whole = sound(format);
        let all = lines(&whole);
        for at in 1..all.len() {
            for damage in [&all[at][..all[at].len() / 2], &[0; 300][..]] {
                let broken = [&all[..at].concat(), damage, b"\n", &all[at + 1..].concat()].concat();
                let after = repaired(format, &broken);
                for (other, line) in all.iter().enumerate().filter(|(other, _)| *other != at) {
                    // A record behind the cut may have another parent, and the result of a call that was
                    // cut goes with it.
                    let is_there = after.windows(line.len()).any(|part| part == *line);
                    let is_result = at + 2 == all.len() && other == at + 1;
                    let is_relinked = format.shape().is_linked && other > at;
                    assert!(is_there || is_result || is_relinked, "{format} {at}");
                }
                assert_eq!(
                    examine(format, &after, *NOW).remedy,
                    Remedy::None,
                    "{format} {at}"
                );
            }
        }
    }
}

#[test]
fn a_nul_tail_is_cut() {
    for (format, _) in ALL {
        let whole = sound(format);
        let damaged = [&whole[..], &[0; 512]].concat();
        assert_eq!(kinds(format, &damaged), [FindingKind::NulBytes]);
        assert_eq!(repaired(format, &damaged), whole, "{format}");
    }
}

#[test]
fn a_record_that_continues_a_torn_line_is_saved() {
    for (format, _) in ALL {
        let whole = sound(format);
        let all = lines(&whole);
        let (last, before) = all.split_last().unwrap();
        let half = &all[1][..all[1].len() / 2];
        let glued = [&before.concat(), half, last].concat();
        assert_eq!(kinds(format, &glued), [FindingKind::BrokenLine], "{format}");
        assert_eq!(repaired(format, &glued), whole, "{format}");
    }
}

#[test]
fn a_record_that_is_there_twice_is_cut() {
    for (format, text) in ALL
        .into_iter()
        .filter(|(format, _)| *format != Format::Gemini)
    {
        let whole = sound(format);
        let call = lines(text.as_bytes()).pop().unwrap();
        let twice = [&whole[..], call].concat();
        assert_eq!(
            kinds(format, &twice),
            [FindingKind::DuplicateId],
            "{format}"
        );
        assert_eq!(repaired(format, &twice), whole, "{format}");
    }
    let whole = sound(Format::Gemini);
    let again = [&whole[..], lines(&whole)[3]].concat();
    assert_eq!(
        kinds(Format::Gemini, &again),
        [],
        "Gemini writes a message again to change it"
    );
}

#[test]
fn the_chain_is_closed_over_what_was_cut() {
    let broken = CLAUDE.replace("\"text\":\"I will.\"}]}", "\"text\":");
    let after = String::from_utf8(repaired(Format::ClaudeCode, broken.as_bytes())).unwrap();
    assert!(after.contains(r#"{"parentUuid":"u1","isSidechain":false,"type":"user","message":{"role":"user","content":"go"}"#));
    let elsewhere = CLAUDE.replace("\"parentUuid\":null", "\"parentUuid\":\"of another file\"");
    let found = examine(Format::ClaudeCode, elsewhere.as_bytes(), *NOW);
    assert!(
        found
            .findings
            .iter()
            .all(|finding| finding.kind == FindingKind::OpenCall)
    );
}

/// Models refuse a conversation that has a result without its call.
#[test]
fn a_result_whose_call_was_cut_is_cut_with_it() {
    for (format, text) in ALL
        .into_iter()
        .filter(|(format, _)| *format != Format::Gemini)
    {
        let (whole, call) = (sound(format), lines(text.as_bytes()).len() - 1);
        let all = lines(&whole);
        let broken = [&all[..call].concat(), &b"{\"type\":\n"[..], all[call + 1]].concat();
        assert_eq!(
            kinds(format, &broken),
            [FindingKind::BrokenLine, FindingKind::LostCall]
        );
        assert_eq!(repaired(format, &broken), all[..call].concat(), "{format}");
        let elsewhere = [&all[..call].concat(), all[call + 1]].concat();
        assert_eq!(
            repaired(format, &elsewhere),
            elsewhere,
            "{format}: nothing was cut"
        );
    }
    let whole = String::from_utf8(sound(Format::ClaudeCode)).unwrap();
    let result = lines(whole.as_bytes()).pop().unwrap();
    let result: serde_json::Value = serde_json::from_slice(result).unwrap();
    let next = r#"{"parentUuid":RESULT,"isSidechain":false,"type":"assistant","uuid":"u6"}"#;
    let next = next.replace("RESULT", &result["uuid"].to_string());
    let broken = whole.replace("\"input\":{\"command\":\"git push\"}}]}", "") + &next + "\n";
    let after = String::from_utf8(repaired(Format::ClaudeCode, broken.as_bytes())).unwrap();
    assert!(after.ends_with(&(next.replace(&result["uuid"].to_string(), "\"u3\"") + "\n")));
}

#[test]
fn without_its_first_record_or_any_it_cannot_be_repaired() {
    for (format, _) in ALL {
        assert!(matches!(
            examine(format, b"", *NOW).remedy,
            Remedy::Impossible(_)
        ));
        assert!(matches!(
            examine(format, &[0; 100], *NOW).remedy,
            Remedy::Impossible(_)
        ));
    }
    for (format, text) in [(Format::Codex, CODEX), (Format::Kimi, KIMI)] {
        let headless = lines(text.as_bytes())[1..].concat();
        assert!(matches!(
            examine(format, &headless, *NOW).remedy,
            Remedy::Impossible(_)
        ));
    }
}

#[test]
fn a_repair_keeps_the_damaged_file_and_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let damaged = [&sound(Format::Kimi)[..], b"{\"type\":\"turn"].concat();
    fs::write(&path, &damaged).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(
        check(&path, None).unwrap().examination.remedy,
        Remedy::Replace(_)
    ));
    let kept = repair(&path, None).unwrap().kept.unwrap();
    assert_eq!(fs::read(kept).unwrap(), damaged);
    assert_eq!(fs::read(&path).unwrap(), sound(Format::Kimi));
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o640
    );
    assert_eq!(repair(&path, None).unwrap().kept, None);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_link_is_not_repaired_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    fs::write(&real, KIMI).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert!(matches!(
        repair(&link, None),
        Err(TranscriptError::Io { .. })
    ));
    assert_eq!(fs::read_to_string(real).unwrap(), KIMI);
}

#[test]
fn open_calls_are_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let secret = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");
    fs::write(&path, CODEX.replace("git push", &format!("push {secret}"))).unwrap();
    let found = check(&path, None).unwrap().examination.open_calls;
    let calls = redacted(found, &Redactor::new(MarkKey::new([1; 32])));
    assert_eq!(calls[0].name, "shell");
    let text = calls[0].arguments.to_string();
    assert!(
        text.contains("push [redacted:") && !text.contains(secret),
        "{text}"
    );
}

#[test]
fn the_file_of_a_session_is_found_where_its_program_keeps_it() {
    let home = tempfile::tempdir().unwrap();
    for (name, session, file) in [
        ("claude-code", "s-1", ".claude/projects/-srv-app/s-1.jsonl"),
        (
            "codex",
            "s-2",
            ".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-s-2.jsonl",
        ),
        (
            "gemini",
            "12345678-9",
            ".gemini/tmp/app/chats/session-2026-01-02T03-04-12345678.jsonl",
        ),
        (
            "kimi",
            "s_4",
            ".kimi-code/sessions/wd_app/s_4/agents/main/wire.jsonl",
        ),
        ("qwen", "s-5", ".qwen/projects/-srv-app/chats/s-5.jsonl"),
    ] {
        let path = home.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        let preset = crate::presets::Preset::by_name(name, None).unwrap();
        let variable = |name: &str| (name == "HOME").then(|| home.path().to_owned());
        let format = name.parse().unwrap();
        assert_eq!(
            preset.transcript(session, variable),
            Some((path, format)),
            "{name}"
        );
        for other in ["", "..", "*", "a/b", "other"] {
            assert_eq!(
                preset.transcript(other, variable),
                None,
                "{name}: {other:?}"
            );
        }
    }
}
