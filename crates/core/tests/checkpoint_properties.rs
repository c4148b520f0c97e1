//! Properties of sealing and opening, on arbitrary checkpoints.

use std::collections::BTreeMap;

use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest,
};
use proptest::sample::Index;
use proptest::{collection, option, prop_oneof};
use relight_core::checkpoint::hash::{canonical_json, content_hash};
use relight_core::checkpoint::{
    Checkpoint, Extra, Limits, SchemaVersion, WorkflowStatus, parse_strict,
};
use serde_json::{Map, Value};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-z]{0,8}", 1 => any::<String>()]
}

fn time() -> impl Strategy<Value = jiff::Timestamp> {
    (-62_135_596_800_000..253_402_207_200_000i64)
        .prop_map(|ms| jiff::Timestamp::from_millisecond(ms).expect("in range"))
}

fn status() -> impl Strategy<Value = WorkflowStatus> {
    prop_oneof![
        Just(WorkflowStatus::InProgress),
        Just(WorkflowStatus::Blocked),
        Just(WorkflowStatus::Done),
        Just(WorkflowStatus::Failed)
    ]
}

fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    let who = (
        text(),
        text(),
        status(),
        option::of(text()),
        option::of(text()),
        text(),
    );
    let steps = (
        collection::vec(text(), 0..4),
        collection::vec(text(), 0..4),
        option::of(text()),
    );
    let when = (
        time(),
        option::of(time()),
        any::<u64>(),
        any::<u64>(),
        any::<u32>(),
    );
    let context = collection::btree_map(text(), text(), 0..4);
    (who, steps, when, context)
        .prop_map(|(who, steps, when, context)| assemble(who, steps, when, context))
}

type Who = (
    String,
    String,
    WorkflowStatus,
    Option<String>,
    Option<String>,
    String,
);
type Steps = (Vec<String>, Vec<String>, Option<String>);
type When = (jiff::Timestamp, Option<jiff::Timestamp>, u64, u64, u32);

fn assemble(who: Who, steps: Steps, when: When, context: BTreeMap<String, String>) -> Checkpoint {
    let (workflow_id, agent_id, status, handoff_to, notes, idempotency_key) = who;
    let (completed_steps, remaining_steps, current_step) = steps;
    let (updated_at, expires_at, fence, seq, minor) = when;
    Checkpoint {
        schema_version: SchemaVersion { minor },
        workflow_id,
        agent_id,
        status,
        current_step,
        completed_steps,
        remaining_steps,
        handoff_to,
        notes,
        idempotency_key,
        updated_at,
        expires_at,
        fence,
        seq,
        context,
        extra: Extra::default(),
        foreign: false,
    }
}

/// Any JSON without fractions.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map(text(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The same value with the members of every object in reverse order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .rev()
                .map(|(k, v)| (k.clone(), reversed(v)))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(reversed).collect(),
        scalar => scalar.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_sealed_opens_as_it_was(checkpoint in checkpoint()) {
        prop_assert_eq!(Checkpoint::open(&checkpoint.seal()), Ok(checkpoint));
    }

    #[test]
    fn a_changed_byte_never_changes_what_is_read(
        checkpoint in checkpoint(), at in any::<Index>(), mask in 1..=u8::MAX
    ) {
        let mut bytes = checkpoint.seal();
        let at = at.index(bytes.len());
        bytes[at] ^= mask;
        // White space for white space, or a hex digit of an escape in the other case, is no change.
        if let Ok(opened) = Checkpoint::open(&bytes) {
            prop_assert_eq!(opened, checkpoint);
        }
    }

    #[test]
    fn a_changed_byte_of_plain_text_is_refused(at in any::<Index>(), mask in 1..=u8::MAX, checkpoint in checkpoint()) {
        let mut bytes = checkpoint.seal();
        let at = at.index(bytes.len());
        let was_blank = bytes[at].is_ascii_whitespace();
        let in_escape = bytes[..at].iter().rev().take(5).any(|byte| *byte == b'\\');
        bytes[at] ^= mask;
        if !was_blank && !in_escape {
            prop_assert!(Checkpoint::open(&bytes).is_err());
        }
    }

    #[test]
    fn a_truncated_file_is_refused(checkpoint in checkpoint(), length in any::<Index>()) {
        let bytes = checkpoint.seal();
        // Without only its last newline it is still whole.
        let length = length.index(bytes.len() - 1);
        prop_assert!(Checkpoint::open(&bytes[..length]).is_err());
    }

    #[test]
    fn an_appended_byte_is_refused_unless_blank(checkpoint in checkpoint(), byte in any::<u8>()) {
        let mut bytes = checkpoint.seal();
        bytes.push(byte);
        let is_blank = [b' ', b'\n', b'\r', b'\t'].contains(&byte);
        prop_assert_eq!(Checkpoint::open(&bytes).is_ok(), is_blank);
    }

    #[test]
    fn arbitrary_bytes_are_refused_without_panic(bytes in collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Checkpoint::open(&bytes).is_err());
    }

    #[test]
    fn canonical_json_knows_no_order_and_no_white_space(value in json()) {
        let pretty = serde_json::to_vec_pretty(&reversed(&value)).unwrap();
        let reread = parse_strict(&pretty, Limits::default()).unwrap();
        prop_assert_eq!(canonical_json(&reread), canonical_json(&value));
        let again = parse_strict(&canonical_json(&value), Limits::default()).unwrap();
        prop_assert_eq!(again, value);
    }

    #[test]
    fn unknown_members_are_kept_and_covered(
        checkpoint in checkpoint(), key in "x-[a-z]{1,6}", value in json(), other in json()
    ) {
        let mut members: Map<String, Value> = serde_json::from_slice(&checkpoint.seal()).unwrap();
        members.insert(key.clone(), value.clone());
        members.insert("checkpointHash".into(), content_hash(&members).into());
        let opened = Checkpoint::open(&serde_json::to_vec(&members).unwrap()).unwrap();
        prop_assert_eq!(opened.extra.members().get(&key), Some(&value));
        prop_assert_eq!(Checkpoint::open(&opened.seal()), Ok(opened));
        let is_changed = other != value;
        members.insert(key, other);
        prop_assert_eq!(Checkpoint::open(&serde_json::to_vec(&members).unwrap()).is_err(), is_changed);
    }
}
