//! The command sink: a user's program gets the message as JSON on its standard input.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::PathBuf;
use std::process::Stdio;

use relight_core::time::Span;
use rustix::fs::{MemfdFlags, memfd_create};

use super::message::Message;
use super::secret;
use super::sink::NotSent;
use crate::os::word::Word;
use crate::os::{child, process};
use crate::store_url;

/// A program and how it is run.
#[derive(Debug, Clone)]
pub struct CommandSink {
    /// The program and its arguments; at least one word.
    pub command: Vec<Word>,
    /// The folder it runs in; ours when empty.
    pub folder: PathBuf,
    /// How long it may take.
    pub timeout: Span,
}

impl CommandSink {
    /// Its name, for people.
    pub(super) fn program(&self) -> String {
        self.command.first().map(Word::to_text).unwrap_or_default()
    }

    pub(super) fn in_words(&self) -> String {
        self.command
            .iter()
            .map(Word::to_text)
            .collect::<Vec<_>>()
            .join("\0")
    }

    /// Runs the program; delivered if it exits with 0.
    pub(super) fn run(&self, message: &Message, is_store_shared: bool) -> Result<(), NotSent> {
        let cannot = |error: io::Error| NotSent::later(format!("it cannot be run: {error}"));
        let words: Vec<_> = self.command.iter().map(Word::as_os_str).collect();
        let Some((program, rest)) = words.split_first() else {
            return Ok(());
        };
        let mut command = process::command(program, rest);
        command
            .stdin(input(message).map_err(cannot)?)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.env_remove(secret::VARIABLE);
        if is_store_shared {
            store_url::withhold(&mut command);
        }
        if !self.folder.as_os_str().is_empty() {
            command.current_dir(&self.folder);
        }
        let mut child = command.spawn().map_err(cannot)?;
        match child::wait_or_kill(&mut child, self.timeout.as_duration()) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(NotSent::later(format!("it ended with {status}"))),
            None => Err(NotSent::later(format!(
                "it took longer than {}",
                self.timeout
            ))),
        }
    }
}

/// The message as an in-memory file, so that a program that does not read it blocks nothing.
fn input(message: &Message) -> io::Result<File> {
    let mut file = File::from(memfd_create("relight-alert", MemfdFlags::CLOEXEC)?);
    file.write_all(format!("{}\n", message.for_command()).as_bytes())?;
    file.rewind()?;
    Ok(file)
}
