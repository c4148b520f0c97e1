//! A gateway: many conversations at once, every turn marked before it runs and cleared after. It goes
//! on until it is killed.

use std::path::Path;
use std::sync::Arc;

use relight_runtime::core::session::SessionRefusal;
use relight_runtime::sessions::SessionError;
use relight_runtime::{Relight, Turn};

use super::UNEXPECTED;
use crate::world::seed::Seed;
use crate::world::turn_log::{Line, TurnLog};

/// Conversations of one gateway.
pub const SESSIONS: usize = 1_000;
/// Callers at the same time.
const WORKERS: usize = 12;
/// Turns in flight of one worker.
const OPEN_MAX: usize = 24;

/// Runs turns until somebody kills it.
pub fn run(store_url: &str, log: &Path, seed: u64) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let relight = Arc::new(runtime.block_on(Relight::open(store_url))?);
    let log = Arc::new(TurnLog::open(log)?);
    let (tell, told) = std::sync::mpsc::channel();
    for number in 0..WORKERS {
        let (relight, log, tell) = (Arc::clone(&relight), Arc::clone(&log), tell.clone());
        let seed = Seed::of_trial(seed, number as u64);
        let worker = Worker {
            relight,
            log,
            seed,
            number,
            open: Vec::new(),
        };
        std::thread::spawn(move || {
            let end = worker.work();
            tell.send(end.map_or_else(|error| format!("{error:#}"), |()| "no reason".to_owned()))
        });
    }
    drop(tell);
    // None of them ends but by an answer that must not be.
    eprintln!(
        "gateway: {}",
        told.recv()
            .unwrap_or_else(|_| "a worker panicked".to_owned())
    );
    Ok(UNEXPECTED)
}

/// The key of a conversation.
pub fn key(number: usize) -> String {
    format!("chat:{number:04}")
}

struct Worker {
    relight: Arc<Relight>,
    log: Arc<TurnLog>,
    seed: Seed,
    number: usize,
    /// Turns in flight, by key.
    open: Vec<(String, Turn)>,
}

impl Worker {
    fn work(mut self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            loop {
                match self.seed.below(OPEN_MAX as u64) as usize >= self.open.len() {
                    true => self.begin_one().await?,
                    false => self.end_one().await?,
                }
            }
        })
    }

    /// One of this worker's own conversations: no two workers run turns of the same one.
    async fn begin_one(&mut self) -> anyhow::Result<()> {
        let place = self.seed.below((SESSIONS / WORKERS) as u64) as usize;
        let key = key(place * WORKERS + self.number);
        let newer = self.begin(&key).await?;
        match self.open.iter_mut().find(|(open, _)| *open == key) {
            None => self.open.push((key, newer)),
            Some((_, turn)) => {
                // The older one ends late and must clear nothing.
                let older = std::mem::replace(turn, newer);
                match older.end().await {
                    Err(SessionError::Refused(SessionRefusal::Fenced { .. })) => {}
                    other => anyhow::bail!("a stale end of {key} was answered with {other:?}"),
                }
            }
        }
        Ok(())
    }

    async fn end_one(&mut self) -> anyhow::Result<()> {
        let place = self.seed.below(self.open.len() as u64) as usize;
        let (key, turn) = self.open.swap_remove(place);
        self.log.tell(&key, Line::Ends)?;
        turn.end().await?;
        self.log.tell(&key, Line::Ended)?;
        Ok(())
    }

    async fn begin(&self, key: &str) -> anyhow::Result<Turn> {
        self.log.tell(key, Line::Begins)?;
        let turn = self
            .relight
            .session(key)?
            .begin(&format!("conversation-of-{key}"))
            .await?;
        self.log.tell(key, Line::Begun)?;
        Ok(turn)
    }
}
