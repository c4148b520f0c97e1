//! What a gateway did, told by itself and not by the product: each line is one append with its own
//! sync, before and after each call.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// One line, about one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// It is about to mark a turn.
    Begins,
    /// The mark was acknowledged.
    Begun,
    /// It is about to end the turn.
    Ends,
    /// The end was acknowledged.
    Ended,
}

impl Line {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Begins, "begins"),
        (Self::Begun, "begun"),
        (Self::Ends, "ends"),
        (Self::Ended, "ended"),
    ];
}

/// The file, open for appending; shared by all workers of a gateway.
#[derive(Debug)]
pub struct TurnLog(File);

impl TurnLog {
    /// Opens the file, making it when it is not there.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(
            OpenOptions::new().append(true).create(true).open(path)?,
        ))
    }

    /// Writes one line; on disk when this returns.
    pub fn tell(&self, key: &str, line: Line) -> io::Result<()> {
        let (_, word) = Line::ALL[line as usize];
        // One write, so that lines of several workers never mix.
        (&self.0).write_all(format!("{word} {key}\n").as_bytes())?;
        self.0.sync_data()
    }
}

/// What is known of a session's turn when its gateway was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// No turn was in flight.
    AtRest,
    /// A call was in the air: the mark may be there or not.
    InTheAir,
    /// A turn was in flight.
    InFlight,
}

/// What one life of a gateway tells of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// When it was killed.
    pub truth: Truth,
    /// A turn of it was finished in this life.
    pub finished: bool,
}

/// Reads the log of one life; sessions of which nothing was told are not in it.
pub fn read(path: &Path) -> io::Result<BTreeMap<String, Told>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    let mut told = BTreeMap::new();
    for line in text.lines() {
        let Some((word, key)) = line.split_once(' ') else {
            continue;
        };
        let Some((line, _)) = Line::ALL.into_iter().find(|(_, name)| *name == word) else {
            continue;
        };
        let before = Told {
            truth: Truth::AtRest,
            finished: false,
        };
        let entry = told.entry(key.to_owned()).or_insert(before);
        entry.truth = match (line, entry.truth) {
            // A newer turn takes the place of one in flight: either way one is.
            (Line::Begins, Truth::InFlight) | (Line::Begun, _) => Truth::InFlight,
            (Line::Begins | Line::Ends, _) => Truth::InTheAir,
            (Line::Ended, _) => Truth::AtRest,
        };
        entry.finished |= line == Line::Ended;
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_session_tells_whether_its_turn_was_in_flight() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = TurnLog::open(&path).unwrap();
        let tell = |key: &str, lines: &[Line]| {
            lines.iter().for_each(|line| log.tell(key, *line).unwrap());
        };
        use Line::{Begins, Begun, Ended, Ends};
        tell("rest", &[Begins, Begun, Ends, Ended]);
        tell("asked", &[Begins]);
        tell("flight", &[Begins, Begun]);
        tell("newer", &[Begins, Begun, Begins]);
        tell("ending", &[Begins, Begun, Ends]);
        let told = read(&path).unwrap();
        let truth: Vec<_> = told.values().map(|told| told.truth).collect();
        use Truth::{AtRest, InFlight, InTheAir};
        assert_eq!(truth, [InTheAir, InTheAir, InFlight, InFlight, AtRest]);
        assert!(told["rest"].finished && !told["ending"].finished);
    }
}
