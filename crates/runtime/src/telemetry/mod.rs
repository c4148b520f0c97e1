//! Exports traces: attempts, recoveries, holds of tasks and steps become spans, made from the journal
//! and sent as OTLP/HTTP in JSON.
//!
//! Independent of all other work: it only reads and uses little memory. If the collector is slow,
//! unreachable or broken, spans are lost and nothing else. Span ids are derived from the subject, so a
//! span that is sent twice has the same id.

mod export;
mod span;
mod tracer;

use std::time::Duration;

use relight_store::{EventQuery, StoreError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

pub use self::export::{BadCollector, Collector};
use self::span::TraceSpan;
use self::tracer::Tracer;
use crate::boxed::boxed;
use crate::engine::Engine;

/// Events that are read at a time.
const PAGE: usize = 1_000;
/// How far back it is looked for what had begun before.
const HISTORY_MAX: usize = 10_000;
/// Spans that are sent together.
const BATCH_MAX: usize = 512;
/// Spans that wait while the collector is away; the oldest are dropped then.
const WAITING_MAX: usize = 4_096;
/// How long a span waits for others.
const SEND_EVERY: Duration = Duration::from_secs(2);
/// After a failure, growing up to the longest.
const RETRY_MIN: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(300);
/// After a store that cannot be read.
const TROUBLE_PAUSE: Duration = Duration::from_secs(30);

/// Traces while they are sent. Dropped, nothing more is.
#[derive(Debug)]
pub struct Telemetry {
    task: JoinHandle<()>,
    ends: tokio::sync::watch::Sender<bool>,
}

impl Telemetry {
    /// Sends what ends from now on. `say` hears of a collector that cannot be told, when that begins
    /// and when it is over.
    pub fn start(
        engine: Engine,
        collector: Collector,
        say: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let (ends, ending) = tokio::sync::watch::channel(false);
        let exporter = SpanExporter {
            engine,
            collector,
            say: Box::new(say),
            tracer: Tracer::default(),
            after: 0,
            waiting: Vec::new(),
            dropped: 0,
            retry: None,
            pause: RETRY_MIN,
        };
        Self {
            task: tokio::spawn(exporter.serve(ending)),
            ends,
        }
    }

    /// Sends what is left, for so long at most.
    #[boxed]
    pub async fn finish(mut self, at_most: Duration) {
        self.ends.send_replace(true);
        let _ = timeout(at_most, &mut self.task).await;
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct SpanExporter {
    engine: Engine,
    collector: Collector,
    say: Box<dyn Fn(&str) + Send + Sync>,
    tracer: Tracer,
    /// The last event that was read.
    after: u64,
    waiting: Vec<TraceSpan>,
    dropped: u64,
    /// When the next try may be, after one that failed.
    retry: Option<Instant>,
    pause: Duration,
}

impl SpanExporter {
    async fn serve(mut self, mut ends: tokio::sync::watch::Receiver<bool>) {
        while self.begin().await.is_err() {
            sleep(TROUBLE_PAUSE).await;
        }
        loop {
            let is_last = *ends.borrow_and_update();
            if self.read().await.is_err() {
                sleep(TROUBLE_PAUSE).await;
                continue;
            }
            self.send(is_last).await;
            if is_last {
                return;
            }
            tokio::select! {
                () = self.wait() => {}
                _ = ends.changed() => {}
            }
        }
    }

    /// What had begun before is known, and nothing of it is sent.
    async fn begin(&mut self) -> Result<(), StoreError> {
        let query = EventQuery {
            limit: HISTORY_MAX,
            newest: true,
            ..all()
        };
        for event in self.engine.store().events(query).await? {
            self.after = event.id;
            drop(self.tracer.follow(&event));
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        loop {
            let query = EventQuery {
                after: self.after,
                limit: PAGE,
                ..all()
            };
            let events = self.engine.store().events(query).await?;
            for event in &events {
                self.after = event.id;
                let ended = self.tracer.follow(event);
                self.waiting.extend(ended);
            }
            let over = self.waiting.len().saturating_sub(WAITING_MAX);
            self.waiting.drain(..over);
            self.dropped += over as u64;
            if events.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// More to send, or more to come. While something waits the pace is the clock's.
    async fn wait(&self) {
        if let Some(retry) = self.retry {
            return sleep_until(retry).await;
        }
        if self.engine.store().changed(self.after).await.is_err() {
            sleep(TROUBLE_PAUSE).await;
        }
        // What comes together is sent together.
        sleep(SEND_EVERY).await;
    }

    /// Sends what waits, some at a time, until it fails.
    async fn send(&mut self, is_last: bool) {
        let may_try = is_last || self.retry.is_none_or(|at| at <= Instant::now());
        while may_try && !self.waiting.is_empty() {
            let count = self.waiting.len().min(BATCH_MAX);
            let (collector, batch) = (self.collector.clone(), self.waiting[..count].to_vec());
            let sent = tokio::task::spawn_blocking(move || collector.post(&batch)).await;
            let sent = sent.unwrap_or_else(|_| Err("the export panicked".to_owned()));
            match sent {
                Ok(()) => {
                    self.waiting.drain(..count);
                    self.told();
                }
                Err(why) => return self.not_told(&why),
            }
        }
    }

    fn told(&mut self) {
        if self.retry.take().is_some() {
            let dropped = std::mem::take(&mut self.dropped);
            (self.say)(&format!(
                "traces are told again; {dropped} spans were dropped meanwhile"
            ));
        }
        self.pause = RETRY_MIN;
    }

    fn not_told(&mut self, why: &str) {
        if self.retry.is_none() {
            let place = self.collector.place();
            (self.say)(&format!(
                "traces cannot be told to {place}: {why}; it is tried again"
            ));
        }
        self.retry = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(RETRY_MAX);
    }
}

fn all() -> EventQuery {
    let kinds = tracer::KINDS.to_vec();
    EventQuery {
        after: 0,
        before: None,
        task: None,
        agent: None,
        kinds,
        limit: PAGE,
        newest: false,
    }
}
