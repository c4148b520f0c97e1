//! Parsers of the runtime: datagrams, lines between processes, records, presets.

use std::path::Path;
use std::sync::LazyLock;

use relight_core::agent::death::HowEnded;
use relight_core::ids::is_obeyed;
use relight_core::time::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;

use relight_runtime::presets::{BUILT_IN, Fact, Preset};
use relight_runtime::recovery::read_exec_answer;
use relight_runtime::store_url::StoreUrl;
use relight_runtime::supervise::control::{ControlReply, Request};
use relight_runtime::supervise::notify::{NotifySign, STATUS_BYTES_MAX, signs};
use relight_runtime::supervise::shim::record;
use relight_runtime::supervise::shim::wire::{ExitRecord, Order, ShimReport};
use relight_runtime::transcripts::{Format, Remedy, examine};

/// `sd_notify` datagrams: a status is short and steers no terminal.
pub(crate) fn notify(data: &[u8]) {
    for sign in signs(data) {
        if let NotifySign::Status(text) = &sign {
            assert!(text.len() <= STATUS_BYTES_MAX && !text.contains(is_obeyed));
        }
        assert_eq!(
            signs(sign.to_line().as_bytes()),
            [sign],
            "what is heard can be said"
        );
    }
}

/// Lines between supervisor, shim and CLI: what is understood is said again in the same words.
pub(crate) fn wire(data: &[u8]) {
    for line in data.split(|byte| *byte == b'\n') {
        said_again::<Order>(line);
        said_again::<ShimReport>(line);
        said_again::<Request>(line);
        said_again::<ControlReply>(line);
    }
}

fn said_again<T: DeserializeOwned + Serialize>(line: &[u8]) {
    let Ok(heard) = serde_json::from_slice::<T>(line) else {
        return;
    };
    let said = serde_json::to_vec(&heard).expect("what was heard can be said");
    let again: T = serde_json::from_slice(&said).expect("what was said can be heard");
    assert_eq!(said, serde_json::to_vec(&again).expect("and said again"));
}

/// The file that tells how an attempt ended, as it is read back after any crash.
pub(crate) fn exit_record(data: &[u8]) {
    let Some(found) = record::parse::<ExitRecord>(data) else {
        return;
    };
    let mut line = serde_json::to_vec(&found).expect("a record is plain JSON");
    line.push(b'\n');
    // A longer record was there before.
    line.extend_from_slice(data);
    assert_eq!(record::parse(&line), Some(found));
}

/// What a user's strategy answers: a decision that is not further away than is believed, or a refusal.
pub(crate) fn exec_answer(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let now = Time::from_ms(1_700_000_000_000);
    if let Err(why) = read_exec_answer(text, now) {
        assert!(!why.is_empty());
    }
}

/// Output of agents, as every preset reads it: only ids of a safe shape are taken.
pub(crate) fn preset_stream(data: &[u8]) {
    static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
        let preset = |(name, _): &(&str, &str)| Preset::by_name(name, None);
        BUILT_IN
            .iter()
            .map(preset)
            .collect::<Result<_, _>>()
            .expect("ours are valid")
    });
    let now = Time::from_ms(1_700_000_000_000);
    for preset in PRESETS.iter() {
        let mut reader = preset.reader();
        for line in data.split(|byte| *byte == b'\n') {
            for fact in reader.line(line, now) {
                if let Fact::Session(id) = fact {
                    let is_safe = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
                    assert!(id.chars().all(is_safe) && !id.starts_with('-'), "{id:?}");
                }
            }
        }
        let _ = reader.ended(preset, HowEnded::Code(i32::from(data.len() as u8)), None);
    }
}

/// Transcripts as a crash left them: what was repaired is sound, and has no call without a
/// result.
pub(crate) fn transcript(data: &[u8]) {
    let now = Time::from_ms(1_700_000_000_000);
    let _ = Format::detect(data);
    for format in Format::ALL {
        let found = examine(format, data, now);
        let Remedy::Replace(content) = &found.remedy else {
            continue;
        };
        let again = examine(format, content, now);
        assert_eq!(again.remedy, Remedy::None, "{format}: {:?}", again.findings);
        assert_eq!(
            (again.findings, again.open_calls),
            (Vec::new(), Vec::new()),
            "{format}"
        );
    }
}

/// A user's own preset, and a store's URL.
pub(crate) fn preset_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(preset) = Preset::parse("mine", text, Path::new("mine.toml")) {
        let mut reader = preset.reader();
        let _ = reader.line(
            b"{\"type\":\"result\",\"session_id\":\"a\"}",
            Time::from_ms(0),
        );
        let _ = preset.ladder(relight_core::time::Span::from_secs(1));
    }
    let _ = StoreUrl::parse(text, Path::new("."));
}
