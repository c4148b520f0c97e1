use std::os::unix::fs::PermissionsExt;

use super::{LIMITS, LogPosition, at, stage};

#[test]
fn the_first_attempt_begins_the_first_file() {
    let stage = stage();
    let start = stage.log.for_attempt(&LIMITS).unwrap();
    assert_eq!(start.position(), at(1, 0));
    assert_eq!(start.path, stage.log.folder().join("000001.log"));
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(stage.log.folder()), mode(&start.path)),
        (0o700, 0o600)
    );
}

#[test]
fn the_next_attempt_goes_on_in_the_same_file_until_it_is_full() {
    let stage = stage();
    stage.says(1, vec![b'a'; 99_999]);
    assert_eq!(
        stage.log.for_attempt(&LIMITS).unwrap().position(),
        at(1, 99_999)
    );
    stage.says(1, "b");
    assert_eq!(stage.log.for_attempt(&LIMITS).unwrap().position(), at(2, 0));
    assert_eq!(stage.log.for_attempt(&LIMITS).unwrap().position(), at(2, 0));
}

#[test]
fn numbers_count_and_not_names() {
    let stage = stage();
    for number in [999_999, 1_000_000] {
        stage.says(number, "x");
    }
    for name in [
        "000002.log.gz",
        "7.log",
        "notes.txt",
        "000000.log",
        "-00001.log",
    ] {
        std::fs::write(stage.log.folder().join(name), "not ours").unwrap();
    }
    assert_eq!(stage.log.numbers().unwrap(), [999_999, 1_000_000]);
    assert_eq!(
        stage.log.for_attempt(&LIMITS).unwrap().position(),
        at(1_000_000, 1)
    );
}

#[test]
fn the_end_is_where_the_newest_file_ends() {
    let stage = stage();
    assert_eq!(stage.log.end().unwrap(), LogPosition::START);
    stage.says(1, "one");
    stage.says(2, "three");
    assert_eq!(stage.log.end().unwrap(), at(2, 5));
}
