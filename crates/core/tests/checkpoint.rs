//! What a sealed checkpoint looks like, and what is refused as one.

use std::collections::BTreeMap;

use relight_core::checkpoint::hash::content_hash;
use relight_core::checkpoint::{
    Checkpoint, Damage, Extra, SchemaVersion, StrictError, WorkflowStatus,
};
use serde_json::{Map, Value, json};

fn sample() -> Checkpoint {
    Checkpoint {
        schema_version: SchemaVersion::default(),
        workflow_id: "deploy/api".into(),
        agent_id: "writer".into(),
        status: WorkflowStatus::InProgress,
        current_step: Some("migrate".into()),
        completed_steps: vec!["build".into(), "test".into()],
        remaining_steps: vec!["deploy".into()],
        handoff_to: None,
        notes: Some("größer".into()),
        idempotency_key: "deploy-42".into(),
        updated_at: "2026-03-24T13:04:24.5Z".parse().expect("a time"),
        expires_at: Some("2026-03-31T13:04:24.5Z".parse().expect("a time")),
        fence: 3,
        seq: 7,
        context: BTreeMap::from([
            ("branch".into(), "main".into()),
            ("issue".into(), "1411".into()),
        ]),
        extra: Extra::default(),
        foreign: false,
    }
}

/// The reason why those bytes are damaged.
fn refused(bytes: &[u8]) -> String {
    Checkpoint::open(bytes)
        .expect_err("should be refused")
        .to_string()
}

/// The sample's members after `change`, without a hash.
fn members(change: impl FnOnce(&mut Map<String, Value>)) -> Map<String, Value> {
    let mut members: Map<String, Value> =
        serde_json::from_slice(&sample().seal()).expect("an object");
    members.remove("checkpointHash");
    change(&mut members);
    members
}

/// A file with those members and the hash that fits them.
fn rehashed(change: impl FnOnce(&mut Map<String, Value>)) -> Vec<u8> {
    let mut members = members(change);
    members.insert("checkpointHash".into(), content_hash(&members).into());
    serde_json::to_vec(&members).expect("JSON")
}

#[test]
fn a_sealed_checkpoint_is_readable_by_people() {
    insta::assert_snapshot!(String::from_utf8(sample().seal()).unwrap(), @r#"
    {
      "schemaVersion": "1.0",
      "workflowId": "deploy/api",
      "agentId": "writer",
      "status": "in_progress",
      "currentStep": "migrate",
      "completedSteps": [
        "build",
        "test"
      ],
      "remainingSteps": [
        "deploy"
      ],
      "handoffTo": null,
      "notes": "größer",
      "idempotencyKey": "deploy-42",
      "updatedAt": "2026-03-24T13:04:24.5Z",
      "expiresAt": "2026-03-31T13:04:24.5Z",
      "fence": 3,
      "seq": 7,
      "context": {
        "branch": "main",
        "issue": "1411"
      },
      "checkpointHash": "sha256:2d69a57e6236c5d295fcb3e4d848b820b1a2dea492678860d0beb30792f38387"
    }
    "#);
}

#[test]
fn a_file_sealed_by_another_implementation_opens_with_its_unknown_fields() {
    let checkpoint = Checkpoint::open(include_bytes!("checkpoint_vector.json")).unwrap();
    assert_eq!(checkpoint.fence, u64::MAX);
    assert_eq!(checkpoint.context["😀"], "2");
    insta::assert_snapshot!(json!(checkpoint.extra), @r#"{"priority":-3,"weights":[0.5,1.0,{"a":null,"b":true}]}"#);
    assert_eq!(Checkpoint::open(&checkpoint.seal()), Ok(checkpoint));
}

#[test]
fn a_bare_hex_hash_is_accepted_and_tells_of_another_writer() {
    let sealed = String::from_utf8(sample().seal()).unwrap();
    let opened = Checkpoint::open(sealed.replace("sha256:", "").as_bytes());
    assert_eq!(
        opened,
        Ok(Checkpoint {
            foreign: true,
            ..sample()
        })
    );
}

#[test]
fn a_file_of_the_original_script_opens_although_its_hash_is_over_escaped_json() {
    let bytes = include_bytes!("checkpoint_script_vector.json");
    let checkpoint = Checkpoint::open(bytes).unwrap();
    assert_eq!(checkpoint.workflow_id, "déploiement");
    assert_eq!(checkpoint.notes.as_deref(), Some("tag 🚀 \"x\"\t\u{7f}"));
    let changed = String::from_utf8(bytes.to_vec())
        .unwrap()
        .replace("gr\\u00f6", "gr\\u00f7");
    assert!(refused(changed.as_bytes()).starts_with("checkpointHash does not fit"));
}

#[test]
fn a_newer_minor_version_opens_and_keeps_its_number() {
    let bytes = rehashed(|members| members["schemaVersion"] = "1.7".into());
    assert_eq!(
        Checkpoint::open(&bytes).unwrap().schema_version.to_string(),
        "1.7"
    );
}

#[test]
fn the_additions_may_be_absent() {
    let bytes = rehashed(|members| {
        members.retain(|key, _| !["fence", "seq", "context"].contains(&key.as_str()));
    });
    let checkpoint = Checkpoint::open(&bytes).unwrap();
    assert_eq!(
        (checkpoint.fence, checkpoint.seq, checkpoint.context.len()),
        (0, 0, 0)
    );
}

#[test]
fn a_checkpoint_that_never_expires_says_null() {
    let checkpoint = Checkpoint {
        expires_at: None,
        ..sample()
    };
    assert!(
        String::from_utf8(checkpoint.seal())
            .unwrap()
            .contains("\"expiresAt\": null")
    );
    assert_eq!(Checkpoint::open(&checkpoint.seal()), Ok(checkpoint));
}

#[test]
fn times_are_cut_to_the_millisecond() {
    let bytes = rehashed(|members| {
        members["updatedAt"] = "2026-03-24T13:04:24.123999+00:00".into();
    });
    let updated_at = Checkpoint::open(&bytes).unwrap().updated_at;
    assert_eq!(updated_at.to_string(), "2026-03-24T13:04:24.123Z");
    let finer = "1960-01-01T00:00:00.0009Z".parse().unwrap();
    let sealed = Checkpoint {
        updated_at: finer,
        ..sample()
    }
    .seal();
    assert!(
        String::from_utf8(sealed)
            .unwrap()
            .contains("\"1960-01-01T00:00:00Z\"")
    );
}

#[test]
fn each_damage_of_the_bytes_has_its_short_reason() {
    let sealed = sample().seal();
    let text = String::from_utf8(sealed.clone()).unwrap();
    let reasons = [
        refused(b""),
        refused(b" \n"),
        refused(&[0; 512]),
        refused(&sealed[..100]),
        refused(&[&sealed[..100], &[0; 412]].concat()),
        refused(b"{,}"),
        refused(b"{\"a\": \"\xff\"}"),
        refused(b"\xEF\xBB\xBF{}"),
        refused(&vec![b' '; (4 << 20) + 1]),
        refused(&[&sealed[..], b"{}"].concat()),
        refused(text.replace("agentId", "workflowId").as_bytes()),
        refused(text.replace(": 7", ": 18446744073709551616").as_bytes()),
        refused(text.replace(": 7", ": 1e999").as_bytes()),
        refused(text.replace("test", "tent").as_bytes()),
    ];
    insta::assert_snapshot!(reasons.join("\n"), @r#"
    empty
    empty
    zero-filled
    torn: ends too early at line 5 column 19
    not JSON at line 5 column 20
    not JSON at line 1 column 2
    not UTF-8 at byte 7
    starts with a byte order mark
    too large: 4194305 bytes, 4194304 are allowed
    more bytes after the document's end at line 27 column 1
    key "workflowId" twice in the object that ends at line 26 column 1
    number out of range at line 20 column 29
    number out of range at line 20 column 14
    checkpointHash does not fit: "sha256:b7a3dca49282a9a6cd0f40036dbc328e7f36f3a87b127e12a9089b781958e4fe" expected, "sha256:2d69a57e6236c5d295fcb3e4d848b820b1a2dea492678860d0beb30792f38387" found
    "#);
}

#[test]
fn each_damage_of_the_content_has_its_short_reason() {
    let changed = |field: &str, value: Value| refused(&rehashed(|members| members[field] = value));
    let reasons = [
        refused(b"[]"),
        refused(b"{}"),
        changed("schemaVersion", json!("2.0")),
        changed("schemaVersion", json!("0.9")),
        changed("schemaVersion", json!("1.01")),
        changed("schemaVersion", json!(1)),
        refused(&rehashed(|members| drop(members.remove("workflowId")))),
        changed("status", json!("completed")),
        changed("completedSteps", json!(["a", 1])),
        changed("updatedAt", json!("2026-03-24")),
        changed("expiresAt", json!("2026-03-24T15:04:24+02:00")),
        changed("fence", json!(-1)),
        changed("context", json!({"a": {}})),
    ];
    insta::assert_snapshot!(reasons.join("\n"), @r#"
    not a checkpoint: no schemaVersion
    not a checkpoint: no schemaVersion
    schemaVersion "2.0" is newer than this Relight understands
    not a checkpoint: schemaVersion is "0.9"
    not a checkpoint: schemaVersion is "1.01"
    not a checkpoint: no schemaVersion
    workflowId is missing
    status is not in_progress, blocked, done or failed
    completedSteps is not a list of texts
    updatedAt is not an RFC 3339 time in UTC
    expiresAt is not an RFC 3339 time in UTC
    fence is not a whole number, 0 or more
    context is not an object of texts
    "#);
}

#[test]
fn a_missing_hash_is_damage() {
    let bytes = serde_json::to_vec(&members(|_| ())).unwrap();
    assert_eq!(
        Checkpoint::open(&bytes),
        Err(Damage::MissingField {
            field: "checkpointHash"
        })
    );
}

#[test]
fn nesting_is_allowed_up_to_the_limit_and_no_further() {
    let nested = |depth: usize| {
        let mut value = json!([]);
        for _ in 2..depth {
            value = json!([value]);
        }
        rehashed(|members| members.extend([("deep".to_owned(), value)]))
    };
    assert!(Checkpoint::open(&nested(32)).is_ok());
    let refusal = Checkpoint::open(&nested(33)).unwrap_err();
    assert!(
        matches!(refusal, Damage::Json(StrictError::TooDeep(_))),
        "{refusal}"
    );
}

#[test]
fn nesting_without_end_is_refused_without_overflowing_the_stack() {
    let refusal = Checkpoint::open(&vec![b'['; 4 << 20]).unwrap_err();
    assert!(
        matches!(refusal, Damage::Json(StrictError::TooDeep(_))),
        "{refusal}"
    );
}
