use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{LIMITS, LogLimits, LogPosition, Stage, numbered, stage};
use crate::supervise::log::{AgentLog, HeadOutcome, Trimmed};

const BLOCK_BYTES: u64 = 4096;

fn blocks_bytes(stage: &Stage) -> u64 {
    let size = |number| std::fs::metadata(stage.log.path(number)).unwrap().blocks() * 512;
    stage.log.numbers().unwrap().into_iter().map(size).sum()
}

#[test]
fn a_log_within_its_limits_is_left_alone() {
    let stage = stage();
    assert_eq!(stage.log.trim(&LIMITS).unwrap(), Trimmed::default());
    for number in 1..=10 {
        stage.says(number, [b'x'; 100_000]);
    }
    assert_eq!(stage.log.trim(&LIMITS).unwrap(), Trimmed::default());
}

#[test]
fn the_oldest_files_go_first() {
    let stage = stage();
    for number in 1..=12 {
        stage.says(number, [b'x'; 100_000]);
    }
    assert_eq!(stage.log.trim(&LIMITS).unwrap().files_removed, 2);
    assert_eq!(stage.log.numbers().unwrap(), Vec::from_iter(3..=12));
    stage.says(12, "more");
    assert_eq!(stage.log.trim(&LIMITS).unwrap().files_removed, 1);
    assert_eq!(stage.log.trim(&LIMITS).unwrap(), Trimmed::default());
}

#[test]
fn there_are_never_more_files_than_allowed() {
    let stage = stage();
    for number in 1..=30 {
        stage.says(number, "tiny\n");
    }
    stage.log.trim(&LIMITS).unwrap();
    assert_eq!(stage.log.numbers().unwrap(), Vec::from_iter(21..=30));
}

#[test]
fn a_long_life_in_one_file_loses_its_head() {
    let stage = stage();
    let text: String = (0..30_000).map(numbered).collect();
    stage.says(1, &text);
    let trimmed = stage.log.trim(&LIMITS).unwrap();
    assert_eq!(trimmed.head, HeadOutcome::Freed);
    assert_eq!(
        std::fs::metadata(stage.log.path(1)).unwrap().len(),
        3_000_000
    );
    let kept = 3_000_000 - trimmed.head_bytes_freed;
    assert!(
        (900_000..900_000 + BLOCK_BYTES).contains(&kept),
        "{kept} bytes are kept"
    );
    assert!(blocks_bytes(&stage) <= LIMITS.total_bytes_max());
    assert_eq!(stage.log.trim(&LIMITS).unwrap(), Trimmed::default());

    let lines = stage.log.last_lines(30_000, LogPosition::START).unwrap();
    let (fragment, lines) = lines.split_first().unwrap();
    assert!(!fragment.is_whole && !fragment.bytes.contains(&0));
    let wanted: Vec<&str> = text.lines().skip(30_000 - lines.len()).collect();
    assert!(
        lines
            .iter()
            .map(|line| &line.bytes[..])
            .eq(wanted.iter().map(|line| line.as_bytes()))
    );
    let tail = stage.log.last_bytes(5_000_000, LogPosition::START).unwrap();
    assert_eq!(tail, &text.as_bytes()[text.len() - kept as usize..]);
}

#[test]
fn the_end_of_a_long_life_is_kept_when_the_next_attempt_begins_a_file() {
    let stage = stage();
    stage.says(1, vec![b'x'; 1_000_000]);
    stage.says(2, vec![b'y'; 50_000]);
    let trimmed = stage.log.trim(&LIMITS).unwrap();
    assert_eq!(
        (trimmed.files_removed, trimmed.head),
        (0, HeadOutcome::Freed)
    );
    let kept = stage
        .log
        .last_bytes(2_000_000, LogPosition::START)
        .unwrap()
        .len() as u64;
    assert!(
        (850_000..=LIMITS.total_bytes_max()).contains(&kept),
        "{kept} bytes are kept"
    );
}

#[test]
fn a_file_system_without_holes_is_reported() {
    // ramfs has none; only root may mount one.
    let stage = stage();
    std::fs::create_dir_all(stage.log.folder()).unwrap();
    let mount = |arguments: &[&str]| {
        let folder = stage.log.folder().to_str().unwrap();
        let arguments = [arguments, &[folder]].concat();
        let (program, arguments) = arguments.split_first().unwrap();
        let output = crate::os::process::command(program, arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !mount(&["mount", "-t", "ramfs", "ramfs"]) {
        eprintln!("SKIPPED: a_file_system_without_holes_is_reported needs root to mount ramfs");
        return;
    }
    stage.says(1, vec![b'x'; 2_000_000]);
    let trimmed = stage.log.trim(&LIMITS);
    let kept = stage
        .log
        .last_bytes(3_000_000, LogPosition::START)
        .map(|bytes| bytes.len());
    stage.says(2, "the next attempt");
    let later = stage.log.trim(&LIMITS);
    assert!(mount(&["umount"]));
    let cannot = Trimmed {
        head: HeadOutcome::CannotBeFreed,
        ..Trimmed::default()
    };
    assert_eq!((trimmed.unwrap(), kept.unwrap()), (cannot, 2_000_000));
    assert_eq!(later.unwrap().files_removed, 1);
}

const LINES: u64 = 300_000;

/// Reads until the writer is done, and says how many lines it got. Lines come in order, whole, and
/// without a gap other than what was freed.
fn check_lines(log: &AgentLog, is_written: &AtomicBool) -> u64 {
    let mut lines = log.lines(LogPosition::START);
    let (mut count, mut expected, mut may_jump) = (0, 0, false);
    loop {
        let was_written = is_written.load(Ordering::Acquire);
        let Some(line) = lines.next_line().unwrap() else {
            if was_written {
                assert_eq!(expected, LINES, "the last line is there");
                return count;
            }
            std::thread::yield_now();
            continue;
        };
        assert!(!line.bytes.contains(&0), "a hole is not output");
        if !line.is_whole {
            may_jump = true;
            continue;
        }
        let text = String::from_utf8(line.bytes).unwrap();
        let number: u64 = text[..12].parse().unwrap();
        assert_eq!(format!("{text}\n"), numbered(number));
        assert!(
            number == expected || (may_jump && number > expected),
            "{expected}, then {number}"
        );
        (count, expected, may_jump) = (count + 1, number + 1, false);
    }
}

#[test]
fn no_line_is_lost_while_a_fast_writer_is_trimmed() {
    let stage = stage();
    let limits = LogLimits {
        file_bytes_max: 100_000,
        files_max: 5,
    };
    let mut agent = stage.agent(1);
    let is_written = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..LINES).for_each(|number| agent.write_all(numbered(number).as_bytes()).unwrap());
            is_written.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let mut rounds_that_freed = 0;
            while !is_written.load(Ordering::Acquire) {
                let trimmed = stage.log.trim(&limits).unwrap();
                rounds_that_freed += u32::from(trimmed.head == HeadOutcome::Freed);
            }
            assert!(rounds_that_freed > 10, "trimmed {rounds_that_freed} times");
        });
        scope.spawn(|| check_lines(&stage.log, &is_written));
    });
    stage.log.trim(&limits).unwrap();
    let kept = check_lines(&stage.log, &is_written);
    assert!((4_400..=5_000).contains(&kept), "{kept} lines are kept");
    assert!(blocks_bytes(&stage) <= limits.total_bytes_max() + BLOCK_BYTES);
}
