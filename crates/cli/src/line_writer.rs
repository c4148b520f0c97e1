//! Says lines by a thread of its own, so that whoever says them never waits for a reader.
//!
//! A pipe that nobody drains takes no more after some 64 KiB, and holds whoever writes to it. What does
//! not fit into a bounded queue then is dropped and counted, and the count is said once somebody reads.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::log::{Level, Line};

/// So many lines wait for a reader.
pub(crate) const LINES_MAX: usize = 1_000;

/// Says lines, and waits for nobody.
#[derive(Debug, Clone)]
pub(crate) struct Voice(Arc<LineQueue>);

#[derive(Debug)]
struct LineQueue {
    said: Mutex<Said>,
    lines_max: usize,
    /// There is something to write.
    more: Condvar,
    /// There is nothing left to write.
    done: Condvar,
}

#[derive(Debug, Default)]
struct Said {
    lines: VecDeque<String>,
    dropped: u64,
    is_writing: bool,
}

impl Said {
    fn is_written(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0 && !self.is_writing
    }

    /// What is to be written next; what was dropped came after what still waited.
    fn next(&mut self) -> Option<String> {
        if let Some(line) = self.lines.pop_front() {
            return Some(line);
        }
        match std::mem::take(&mut self.dropped) {
            0 => None,
            dropped => {
                let text = format!("{dropped} lines were dropped here: nobody read them");
                Some(Line::of(Level::Warn, "dropped", &text).written() + "\n")
            }
        }
    }
}

impl Voice {
    /// Writes to `to`, from now until the process ends; keeps so many lines while it cannot.
    pub(crate) fn new(mut to: impl Write + Send + 'static, lines_max: usize) -> io::Result<Self> {
        let said = Mutex::new(Said::default());
        let (more, done) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(LineQueue {
            said,
            lines_max,
            more,
            done,
        });
        let voice = Self(Arc::clone(&shared));
        std::thread::Builder::new()
            .name("relight-voice".to_owned())
            .spawn(move || {
                loop {
                    // Where nobody can read it there is nobody to tell.
                    let _ = to.write_all(shared.next_line().as_bytes());
                }
            })?;
        Ok(voice)
    }

    /// Says a line, with its end; now, later, or when there is no room for it, not at all.
    pub(crate) fn say(&self, line: String) {
        let mut said = self.0.said();
        // Nothing is said before what was dropped is.
        if said.lines.len() < self.0.lines_max && said.dropped == 0 {
            said.lines.push_back(line);
        } else {
            said.dropped += 1;
        }
        self.0.more.notify_one();
    }

    /// Waits until all is said, but not for longer than that; whether it is.
    pub(crate) fn settle(&self, wait: Duration) -> bool {
        let said = self.0.said();
        let waited = self
            .0
            .done
            .wait_timeout_while(said, wait, |said| !said.is_written());
        waited
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .is_written()
    }
}

impl LineQueue {
    /// What was said stays whole, whoever panicked meanwhile.
    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next line; the one before it is written.
    fn next_line(&self) -> String {
        let mut said = self.said();
        said.is_writing = false;
        loop {
            if let Some(line) = said.next() {
                said.is_writing = true;
                return line;
            }
            self.done.notify_all();
            said = self.more.wait(said).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_said_is_written_in_order() {
        let (mut from, to) = io::pipe().unwrap();
        let voice = Voice::new(to, 10).unwrap();
        for line in ["one\n", "two\n", "three\n"] {
            voice.say(line.to_owned());
        }
        assert!(voice.settle(LONG));
        let mut text = [0; 14];
        from.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"one\ntwo\nthree\n");
    }

    /// Takes nothing before it is told to, as a full pipe.
    struct Full(Receiver<()>, io::PipeWriter);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Nobody tells any more once it was told.
            let _ = self.0.recv();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_waits_holds_up_nobody_and_is_told_what_was_dropped() {
        let (mut from, to) = io::pipe().unwrap();
        let (drain, is_drained) = channel();
        let voice = Voice::new(Full(is_drained, to), 2).unwrap();
        for number in 0..10 {
            voice.say(format!("{number}\n"));
        }
        assert!(!voice.settle(Duration::from_millis(1)));
        drop(drain);
        assert!(voice.settle(LONG));
        voice.say("again\n".to_owned());
        assert!(voice.settle(LONG));
        let mut text = vec![0; 200];
        let count = from.read(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text[..count]);
        let lines: Vec<&str> = text.lines().collect();
        // One more than waited was being written, perhaps.
        let written = lines.len() - 2;
        assert!(written == 2 || written == 3, "{text}");
        let dropped = format!(
            "relight: {} lines were dropped here: nobody read them",
            10 - written
        );
        assert_eq!(lines[written..], [&dropped, "again"]);
    }

    #[test]
    fn a_reader_that_went_away_is_no_trouble() {
        let (from, to) = io::pipe().unwrap();
        drop(from);
        let voice = Voice::new(to, 2).unwrap();
        voice.say("nobody hears this\n".to_owned());
        assert!(voice.settle(LONG));
    }
}
