//! The log of one agent, read as it grows: every line that an attempt had written is there, once, whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::agent::{Line, ReadLine, parse_line};
use crate::world::tally::{Promise, Violation};

/// As much as is read in one go.
const CHUNK_BYTES: usize = 1 << 20;

/// What was read so far. Files are only ever appended to, and are known by their names.
#[derive(Debug, Default)]
pub struct Output {
    name: String,
    files: BTreeMap<PathBuf, Place>,
    /// The last line of each attempt.
    attempts: BTreeMap<u32, u64>,
    found: Vec<Violation>,
}

#[derive(Debug, Default)]
struct Place {
    offset: u64,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
}

impl Output {
    /// Of this agent; nothing is read yet.
    pub fn of(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Reads what has come since.
    pub fn read(&mut self, folder: &Path) -> anyhow::Result<()> {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Ok(());
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "log"));
        paths.sort();
        for path in paths {
            self.read_file(&path)
                .with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// What is wrong so far; `written` says how many lines an attempt had certainly written before
    /// the last read began.
    pub fn check(&mut self, written: impl IntoIterator<Item = (u32, u64)>) -> Vec<Violation> {
        let mut found = std::mem::take(&mut self.found);
        for (attempt, count) in written {
            let there = self.attempts.get(&attempt).copied().unwrap_or(0);
            if there < count {
                let text = format!(
                    "{} attempt {attempt}: wrote {count} lines, {there} are there",
                    self.name
                );
                found.push(Violation::new(Promise::Lost, text));
            }
        }
        found
    }

    /// How many lines were read.
    pub fn lines(&self) -> u64 {
        self.attempts.values().sum()
    }

    fn read_file(&mut self, path: &Path) -> anyhow::Result<()> {
        let mut place = self.files.remove(path).unwrap_or_default();
        let file = File::open(path)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = file.read_at(&mut chunk, place.offset)?;
            if count == 0 {
                break;
            }
            place.offset += count as u64;
            place.begun.extend_from_slice(&chunk[..count]);
            let whole = place
                .begun
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1);
            let lines: Vec<u8> = place.begun.drain(..whole).collect();
            for line in String::from_utf8_lossy(&lines).lines() {
                self.take(line);
            }
        }
        self.files.insert(path.to_owned(), place);
        Ok(())
    }

    fn take(&mut self, text: &str) {
        match parse_line(text) {
            ReadLine::Foreign => {}
            ReadLine::Whole(line) => self.take_line(line),
            // The kernel cut the last line of a killed attempt short: the next attempt begins there.
            ReadLine::Behind(line) if line.number == 1 => self.take_line(line),
            ReadLine::Behind(_) | ReadLine::Damaged => {
                let text = format!("{}: {:?}", self.name, text.get(..200).unwrap_or(text));
                self.found.push(Violation::new(Promise::Damage, text));
            }
        }
    }

    fn take_line(&mut self, line: Line) {
        let Line { attempt, number } = line;
        let last = self.attempts.entry(attempt).or_default();
        let name = &self.name;
        if number > *last + 1 {
            let text = format!("{name} attempt {attempt}: line {number} comes after {last}");
            self.found.push(Violation::new(Promise::Lost, text));
        } else if number <= *last {
            let text = format!("{name} attempt {attempt}: line {number} is there twice");
            self.found.push(Violation::new(Promise::Repeated, text));
        }
        *last = number.max(*last);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::agent::line_text;

    struct Logs(tempfile::TempDir);

    impl Logs {
        fn append(&self, file: &str, text: &str) {
            let path = self.0.path().join(file);
            let mut file = File::options()
                .create(true)
                .append(true)
                .open(path)
                .unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
    }

    fn logs() -> (Logs, Output) {
        (Logs(tempfile::tempdir().unwrap()), Output::of("a"))
    }

    fn line(attempt: u32, number: u64) -> String {
        line_text(Line { attempt, number }, 40)
    }

    fn found(logs: &Logs, output: &mut Output, written: &[(u32, u64)]) -> String {
        output.read(logs.0.path()).unwrap();
        let found = output.check(written.iter().copied());
        found
            .iter()
            .map(|violation| format!("{violation}\n"))
            .collect()
    }

    #[test]
    fn lines_are_read_once_as_they_come_across_files() {
        let (logs, mut output) = logs();
        logs.append(
            "000001.log",
            &(line(1, 1) + "something else\n" + &line(1, 2)[..9]),
        );
        assert_eq!(found(&logs, &mut output, &[(1, 1)]), "");
        logs.append("000001.log", &line(1, 2)[9..]);
        logs.append("000002.log", &line(2, 1));
        assert_eq!(found(&logs, &mut output, &[(1, 2), (2, 1)]), "");
        assert_eq!(output.lines(), 3);
    }

    #[test]
    fn a_missing_line_is_lost() {
        let (logs, mut output) = logs();
        logs.append("000001.log", &(line(1, 1) + &line(1, 3)));
        assert_eq!(
            found(&logs, &mut output, &[]),
            "Lost: a attempt 1: line 3 comes after 1\n"
        );
    }

    #[test]
    fn a_line_that_was_written_last_and_is_not_there_is_lost() {
        let (logs, mut output) = logs();
        logs.append("000001.log", &line(1, 1));
        let text = found(&logs, &mut output, &[(1, 2)]);
        assert_eq!(text, "Lost: a attempt 1: wrote 2 lines, 1 are there\n");
    }

    #[test]
    fn a_line_that_is_there_twice_is_found() {
        let (logs, mut output) = logs();
        logs.append("000001.log", &(line(1, 1) + &line(1, 1)));
        assert_eq!(
            found(&logs, &mut output, &[]),
            "Repeated: a attempt 1: line 1 is there twice\n"
        );
    }

    #[test]
    fn a_cut_line_is_forgiven_before_a_new_attempt_and_damage_otherwise() {
        let (logs, mut output) = logs();
        logs.append(
            "000001.log",
            &(line(1, 1) + &line(1, 2)[..22] + &line(2, 1)),
        );
        assert_eq!(found(&logs, &mut output, &[(1, 1), (2, 1)]), "");
        logs.append("000001.log", &(line(2, 2)[..22].to_owned() + &line(2, 2)));
        assert!(found(&logs, &mut output, &[]).starts_with("Damage: a: "));
    }
}
