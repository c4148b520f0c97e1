//! A text that comes in pieces is redacted as one that comes whole.
//!
//! Secrets are put together at run time, so that scanners of this repository stay quiet.

use proptest::prelude::*;
use relight_redact::{HELD_BYTES_MAX, MarkKey, Redactor, SIGHT_BYTES};

fn redactor() -> Redactor {
    Redactor::new(MarkKey::new([42; 32])).with_known("env", "kn0wn-value-one")
}

/// What the whole stream gives.
fn streamed<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> String {
    let redactor = redactor();
    let mut stream = redactor.stream();
    let mut given = Vec::new();
    for piece in pieces {
        given.extend_from_slice(stream.pass(piece));
    }
    given.extend_from_slice(stream.finish());
    String::from_utf8(given).expect("marks and characters stay whole")
}

fn github() -> String {
    format!("ghp_{}", "aZ3kQ9mVnB7sTx1Yp5Ld".repeat(2)[..36].to_owned())
}

/// A private key of so many lines.
fn pem(lines: usize) -> String {
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n";
    let (dashes, kind) = ("-".repeat(5), format!("{} KEY", "PRIVATE"));
    format!(
        "{dashes}BEGIN {kind}{dashes}\n{}{dashes}END {kind}{dashes}\n",
        line.repeat(lines)
    )
}

fn everything() -> String {
    format!(
        "first\npassword=hunter2-and-more\nsee {} and kn0wn-value-one\r\n{}{{\"tokens\": [\n \
         \"aZ3kQ9mVnB7s\",\n \"Tx1Yp5LdR8wE\"\n]}}\nAuthorization: Bearer aZ3kQ9mVnB7sTx1Yp5Ld\n\
         postgres://u:pa55w0rd-x@h/d ü\npassword: |\n  one two\n\n  three\nuser: ann\n\"token\":\n  \
         \"aZ3kQ9mVnB7s\"\nmachine h\n  login ann\n  password hunter2\nkind: Secret\nmetadata:\n  name: x\n\
         data:\n  one: aZ3kQ9mVnB7s\n  two: aZ3kQ9mVnB7t\n---\npassphrase: correct horse battery staple\n\
         Private-Lines: 2\naZ3kQ9mVnB7s\naZ3kQ9mVnB7t\nPrivate-MAC: 1\n\u{1b}[1;32mlast",
        github(),
        pem(26)
    )
}

#[test]
fn pieces_of_any_size_give_what_the_whole_gives() {
    let text = everything();
    let whole = redactor().text(&text).into_owned();
    assert!(
        whole.contains("[redacted:pem:") && whole.contains("[redacted:github:"),
        "{whole}"
    );
    for size in [1, 2, 3, 7, 64, 65, 66, 100, 1_000, 10_000] {
        let given = streamed(text.as_bytes().chunks(size));
        assert!(
            given == whole,
            "in pieces of {size}: {}",
            &given[..given.len().min(2_000)]
        );
    }
}

#[test]
fn lines_are_given_out_as_they_come_and_keys_when_they_are_whole() {
    let redactor = redactor();
    let mut stream = redactor.stream();
    assert_eq!(stream.pass(b"one\ntw"), b"one\n");
    assert_eq!(stream.pass(b"o\n"), b"two\n");
    let key = pem(3);
    let mut lines = key.split_inclusive('\n');
    for line in lines.by_ref().take(4) {
        assert_eq!(stream.pass(line.as_bytes()), b"");
    }
    let mark = stream.pass(lines.next().unwrap().as_bytes()).to_vec();
    assert!(mark.starts_with(b"[redacted:pem:") && mark.ends_with(b"]\n"));
    assert!(!stream.holds_back());
}

#[test]
fn words_of_an_unfinished_line_are_given_out_and_its_name_is_remembered() {
    let redactor = redactor();
    let mut stream = redactor.stream();
    assert_eq!(stream.pass(b"Enter the password: hun"), b"");
    assert_eq!(stream.words(), b"Enter the password: ");
    assert!(stream.holds_back());
    let rest = String::from_utf8(stream.pass(b"ter2-and-more\n").to_vec()).unwrap();
    assert!(rest.starts_with("[redacted:assignment:"), "{rest}");
}

#[test]
fn a_key_that_began_before_what_is_wanted_is_known() {
    let redactor = redactor();
    let mut stream = redactor.stream();
    let key = pem(26);
    let (before, wanted) = key.split_at(key.len() / 2);
    stream.pass_over(before.as_bytes());
    let given = String::from_utf8(stream.pass(wanted.as_bytes()).to_vec()).unwrap();
    assert!(
        given.starts_with("[redacted:pem:") && given.len() < 40,
        "{given}"
    );
}

#[test]
fn what_never_ends_is_given_out_all_the_same() {
    let endless = format!("{} {}", "ü".repeat(HELD_BYTES_MAX), github());
    let given = streamed(endless.as_bytes().chunks(1_000));
    assert!(given.ends_with(']') && given.contains(" [redacted:github:"));
    assert_eq!(given.matches('ü').count(), HELD_BYTES_MAX);
    let unended = format!("{}\nafter\n", &pem(3_000)[..HELD_BYTES_MAX * 2]);
    let redactor = redactor();
    let mut stream = redactor.stream();
    let mut given = Vec::new();
    for line in unended.as_bytes().split_inclusive(|byte| *byte == b'\n') {
        given.extend_from_slice(stream.pass(line));
    }
    assert!(given.starts_with(b"[redacted:pem:") && given.ends_with(b"after\n"));
}

#[test]
fn a_secret_in_the_middle_of_an_endless_line_is_found_wherever_it_is_cut() {
    let secret = github();
    for before in (HELD_BYTES_MAX - 5_000..HELD_BYTES_MAX + 100).step_by(331) {
        let text = format!("{} {secret} {}", "x".repeat(before), "y".repeat(10_000));
        let given = streamed(text.as_bytes().chunks(4_096));
        assert!(!given.contains(&secret[8..20]), "{before}");
    }
}

#[test]
fn memory_stays_bounded() {
    let redactor = redactor();
    let mut stream = redactor.stream();
    let line = format!("{}\n", "a plain line ".repeat(10));
    let mut given = 0;
    for _ in 0..1_000 {
        given += stream.pass(line.as_bytes()).len();
    }
    assert_eq!(given, 1_000 * line.len());
    let shown = format!("{stream:?}");
    let bytes = shown
        .split([' ', '('])
        .filter_map(|word| word.parse::<usize>().ok());
    assert!(bytes.max().unwrap() <= 2 * SIGHT_BYTES, "{shown}");
}

proptest! {
    #[test]
    fn no_piece_lets_a_secret_through(
        before in "[ -~\n]{0,300}",
        after in "[ -~\n]{0,300}",
        sizes in prop::collection::vec(1_usize..200, 1..40),
    ) {
        let text = format!("{before}\n{}\n{after}", github());
        let mut rest = text.as_bytes();
        let mut pieces = Vec::new();
        for size in sizes.iter().cycle() {
            let (piece, left) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = left;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert!(!streamed(pieces).contains(&github()));
    }
}
