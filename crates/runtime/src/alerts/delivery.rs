//! Delivers alerts from the journal to the sinks, in order.
//!
//! One task per sink, so that a slow one delays neither the others nor supervision. Waits only for
//! changes of the store and due retries.

use std::sync::Arc;
use std::time::Duration;

use relight_core::alert::{Alert, AlertKind, Subject};
use relight_core::event::{Event, EventKind};
use relight_core::lease::ProcessIdentity;
use relight_core::time::{Span, Time};
use relight_store::{EventQuery, Store, StoreError, StoreEvent};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::backoff::AlertTiming;
use super::cursor::{self, AlertBatch, Cursor, CursorRead, DeliveryClaim};
use super::message::{Item, Message};
use super::sink::{NotSent, Sink, send};
use super::{dedup, group};
use crate::boxed::boxed;
use crate::engine::Engine;
use crate::os::{clock, process, random};

/// Maximum number of alerts in a batch.
const BATCH_MAX: usize = 1_000;
/// A cursor advances over this many events without an alert, so that a start does not read them all
/// again.
const EVENTS_SKIPPED_MAX: u64 = 10_000;
/// Time added to a claim for work besides the delivery itself.
const CLAIM_MORE: Span = Span::from_secs(20);
/// Minimum pause between two reads of a busy store.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// Pause after the store failed.
const TROUBLE_PAUSE: Duration = Duration::from_secs(30);
/// Maximum wait for a due time, because the clock may be changed.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Called with errors of deliveries.
type ReportError = Arc<dyn Fn(&str) + Send + Sync>;

/// The delivery tasks of all sinks.
#[derive(Debug)]
pub struct AlertDelivery {
    tasks: JoinSet<()>,
    hurry: watch::Sender<bool>,
}

impl AlertDelivery {
    /// Starts to deliver new alerts and what is left from before. `say` is called when an error
    /// begins.
    pub async fn start(
        engine: &Engine,
        sinks: Vec<Sink>,
        pace: AlertTiming,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, StoreError> {
        let (hurry, hurried) = watch::channel(false);
        let report: ReportError = Arc::new(report);
        let mut tasks = JoinSet::new();
        for sink in sinks {
            let route = Route::new(engine, sink, pace, Arc::clone(&report));
            route.cursor().await?;
            tasks.spawn(route.serve(hurried.clone()));
        }
        Ok(Self { tasks, hurry })
    }

    /// Delivers what is left, for at most this time, and ends. Undelivered alerts stay in the
    /// store.
    #[boxed]
    pub async fn finish(mut self, at_most: Duration) {
        let _ = self.hurry.send(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(at_most, all).await;
    }
}

/// Result of a delivery to one sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The sink's name.
    pub sink: &'static str,
    /// Number of delivered messages.
    pub sent: usize,
    /// Why the next one failed.
    pub failed: Option<String>,
    /// Another process is delivering them.
    pub is_busy: bool,
}

/// Delivers pending alerts to each sink now. A new sink has none.
#[boxed]
pub async fn deliver_now(
    engine: &Engine,
    sinks: Vec<Sink>,
    pace: AlertTiming,
) -> Result<Vec<Delivery>, StoreError> {
    let mut deliveries = Vec::new();
    for sink in sinks {
        deliveries.push(
            Route::new(engine, sink, pace, Arc::new(|_| {}))
                .deliver()
                .await?,
        );
    }
    Ok(deliveries)
}

/// Registers new sinks: they get alerts from now on.
#[boxed]
pub async fn register(engine: &Engine, sinks: &[Sink]) -> Result<(), StoreError> {
    for sink in sinks {
        Route::new(
            engine,
            sink.clone(),
            AlertTiming::default(),
            Arc::new(|_| {}),
        )
        .cursor()
        .await?;
    }
    Ok(())
}

/// The store's id, by which receivers recognise the source of an alert.
#[boxed]
pub async fn store_id(engine: &Engine) -> Result<String, StoreError> {
    cursor::store_id(engine.store().as_ref()).await
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextWait {
    /// Read again.
    Again,
    /// An event after this one.
    Changed(u64),
    /// The next try.
    Retry(Time),
    /// The expiry of another claim.
    Claimed(Time),
    /// A pause after a store error.
    Trouble,
    /// Another configuration: this address must not be called again.
    Nothing,
}

/// Delivery from the journal to one sink.
struct Route {
    engine: Engine,
    sink: Arc<Sink>,
    pace: AlertTiming,
    report: ReportError,
    token: u64,
    owner: Option<ProcessIdentity>,
    /// No alert exists between the cursor and this event.
    looked: u64,
    /// Retry now, regardless of the backoff.
    is_forced: bool,
    sent: usize,
    last_error: Option<String>,
}

impl Route {
    fn new(engine: &Engine, sink: Sink, pace: AlertTiming, report: ReportError) -> Self {
        Self {
            engine: engine.clone(),
            sink: Arc::new(sink),
            pace,
            report,
            token: random::number(),
            owner: process::identity(std::process::id()),
            looked: 0,
            is_forced: false,
            sent: 0,
            last_error: None,
        }
    }

    fn store(&self) -> &dyn Store {
        self.engine.store().as_ref()
    }

    async fn serve(mut self, mut hurry: watch::Receiver<bool>) {
        loop {
            let is_hurried = *hurry.borrow_and_update();
            let round = self.round(&mut hurry).await;
            let next = match round {
                Ok(NextWait::Again) => continue,
                Ok(next) => next,
                Err(error) => {
                    self.report_once(&format!("alerts wait for the store: {error}"));
                    self.last_error = Some(error.to_string());
                    NextWait::Trouble
                }
            };
            if is_hurried {
                return;
            }
            tokio::select! {
                () = self.wait(next) => {}
                _ = hurry.changed() => {}
            }
        }
    }

    async fn wait(&self, next: NextWait) {
        match next {
            NextWait::Again => {}
            NextWait::Changed(after) => {
                // Do not read after every commit of a busy store.
                sleep(LOOK_PAUSE).await;
                if self.store().changed(after).await.is_err() {
                    sleep(TROUBLE_PAUSE).await;
                }
            }
            NextWait::Retry(at) | NextWait::Claimed(at) => {
                sleep(at.since(clock::now()).as_duration().min(WAIT_MAX)).await;
            }
            NextWait::Trouble => sleep(TROUBLE_PAUSE).await,
            NextWait::Nothing => std::future::pending().await,
        }
    }

    async fn deliver(mut self) -> Result<Delivery, StoreError> {
        let (_hurry, mut hurried) = watch::channel(true);
        self.is_forced = true;
        let mut is_busy = false;
        // Bounded by the batches that can arrive during a delivery.
        for _ in 0..BATCH_MAX {
            match self.round(&mut hurried).await? {
                NextWait::Again => {}
                NextWait::Claimed(_) => {
                    is_busy = true;
                    break;
                }
                NextWait::Changed(_)
                | NextWait::Retry(_)
                | NextWait::Trouble
                | NextWait::Nothing => break,
            }
        }
        let (sink, sent, failed) = (self.sink.name(), self.sent, self.last_error);
        Ok(Delivery {
            sink,
            sent,
            failed,
            is_busy,
        })
    }

    /// Reads once and delivers one batch.
    async fn round(&mut self, hurry: &mut watch::Receiver<bool>) -> Result<NextWait, StoreError> {
        let Some((read, cursor)) = self.cursor().await? else {
            return Ok(NextWait::Again);
        };
        if cursor.gone.is_some() {
            return Ok(NextWait::Nothing);
        }
        let now = clock::now();
        let Some(batch) = &cursor.batch else {
            return self.begin(read, cursor, hurry).await;
        };
        if let Some(until) = batch.claimed_until(self.token, now) {
            return Ok(NextWait::Claimed(until));
        }
        match batch.waits_until(now) {
            Some(at) if !self.is_forced => Ok(NextWait::Retry(at)),
            _ => {
                // Once per call.
                self.is_forced = false;
                self.tell(read, cursor).await
            }
        }
    }

    /// The sink's cursor. A new sink, or one with a new address after the old one was gone, starts
    /// with the next event. None when another process was faster.
    async fn cursor(&self) -> Result<Option<(CursorRead, Cursor)>, StoreError> {
        let read = cursor::read(self.store(), self.sink.name()).await?;
        let is_same_sink = |cursor: &Cursor| {
            cursor
                .gone
                .as_ref()
                .is_none_or(|gone| *gone == self.sink.fingerprint())
        };
        if let Some(cursor) = read.cursor.clone().filter(is_same_sink) {
            return Ok(Some((read, cursor)));
        }
        let cursor = Cursor::starting_at(self.store().newest_event().await?);
        let written = self.write(read, cursor.clone(), Vec::new()).await?;
        Ok(written.map(|read| (read, cursor)))
    }

    /// Fixes the next batch once the grouping window has passed.
    async fn begin(
        &mut self,
        read: CursorRead,
        mut cursor: Cursor,
        hurry: &mut watch::Receiver<bool>,
    ) -> Result<NextWait, StoreError> {
        let newest = self.store().newest_event().await?;
        let after = cursor.after.max(self.looked);
        if self.alerts(after, u64::MAX).await?.is_empty() {
            self.looked = newest;
            if newest.saturating_sub(cursor.after) > EVENTS_SKIPPED_MAX {
                cursor.after = newest;
                self.write(read, cursor, Vec::new()).await?;
            }
            return Ok(NextWait::Changed(newest));
        }
        if !*hurry.borrow() {
            let _ = timeout(self.pace.group.as_duration(), hurry.changed()).await;
        }
        let pending = self.alerts(after, u64::MAX).await?;
        // They may have been removed with their task.
        let Some(last) = pending.last() else {
            return Ok(NextWait::Again);
        };
        cursor.batch = Some(AlertBatch::upto(last.event));
        self.tell(read, cursor).await
    }

    /// Claims the batch and delivers its messages in order.
    async fn tell(&mut self, read: CursorRead, mut cursor: Cursor) -> Result<NextWait, StoreError> {
        let upto = cursor
            .batch
            .as_ref()
            .map_or(cursor.after, |batch| batch.upto);
        self.claim(&mut cursor);
        let Some(mut read) = self.write(read, cursor.clone(), Vec::new()).await? else {
            return Ok(NextWait::Again);
        };
        let store_id = cursor::store_id(self.store()).await?;
        let items = self
            .worth_telling(self.alerts(cursor.after, upto).await?, &cursor)
            .await?;
        for message in group::messages(&store_id, items) {
            let batch = cursor.batch.as_mut().expect("a batch is being told");
            if batch.done.contains(&message.id) {
                continue;
            }
            let told = match send(&self.engine, &self.sink, &message).await {
                Ok(()) => {
                    batch.done(&message.id);
                    self.sent += 1;
                    self.engine.meter().alert_sent();
                    self.last_error = None;
                    Vec::new()
                }
                Err(error) => match self.not_told(&mut cursor, &message, error).await? {
                    DeliveryFailure::Over(told) => told,
                    DeliveryFailure::TryAgain(at) => {
                        self.write(read, cursor, Vec::new()).await?;
                        return Ok(NextWait::Retry(at));
                    }
                    DeliveryFailure::Gone(told) => {
                        self.write(read, cursor, told).await?;
                        return Ok(NextWait::Nothing);
                    }
                },
            };
            self.claim(&mut cursor);
            let Some(written) = self.write(read, cursor.clone(), told).await? else {
                return Ok(NextWait::Again);
            };
            read = written;
        }
        cursor.after = upto;
        cursor.batch = None;
        self.write(read, cursor, Vec::new()).await?;
        Ok(NextWait::Again)
    }

    /// Handles a failed delivery.
    async fn not_told(
        &mut self,
        cursor: &mut Cursor,
        message: &Message,
        error: NotSent,
    ) -> Result<DeliveryFailure, StoreError> {
        self.engine.meter().alert_refused();
        let now = clock::now();
        let (place, why) = (self.sink.place(), error.to_string());
        let (asked, is_refused) = match error {
            NotSent::Later { after, .. } => (after, false),
            NotSent::Refused { .. } => (None, true),
            NotSent::Gone { .. } => {
                let newest = self.store().newest_event().await?;
                *cursor = Cursor::starting_at(newest);
                cursor.gone = Some(self.sink.fingerprint());
                let text = format!(
                    "the {} {place} is not called any more: {why}",
                    self.sink.name()
                );
                self.report_once(&text);
                return Ok(DeliveryFailure::Gone(self.undelivered(message, &text, now)));
            }
        };
        let batch = cursor.batch.as_mut().expect("a batch is being told");
        let first_at = *batch.first_at.get_or_insert(now);
        batch.tries = batch.tries.saturating_add(1);
        if self.pace.is_over(first_at, is_refused, now) {
            let tries = batch.tries;
            batch.done(&message.id);
            let text = format!(
                "an alert could not be delivered by {} {place} in {tries} tries: {why}",
                self.sink.name()
            );
            self.report_once(&text);
            self.last_error = Some(why);
            return Ok(DeliveryFailure::Over(self.undelivered(message, &text, now)));
        }
        let at = self.pace.next_try(batch.tries, asked, now);
        (batch.next_at, batch.why, batch.claim) = (Some(at), Some(why.clone()), None);
        self.report_once(&format!(
            "an alert could not be delivered by {} {place}: {why}; it is tried again",
            self.sink.name()
        ));
        self.last_error = Some(why);
        Ok(DeliveryFailure::TryAgain(at))
    }

    /// The alert about a failed delivery, for other sinks. A failure of such an alert creates no
    /// further one.
    fn undelivered(&self, message: &Message, text: &str, at: Time) -> Vec<StoreEvent> {
        if message.kind == AlertKind::Undelivered {
            return Vec::new();
        }
        let events: Vec<u64> = message.items.iter().map(|item| item.event).collect();
        let alert = Alert::new(AlertKind::Undelivered, Subject::Store, text)
            .hint("relight alerts list shows what was not told; relight alerts test tries again")
            .more(json!({
                "sink": self.sink.name(), "id": message.id, "alert": message.kind.as_str(),
                "count": message.count, "events": events,
            }));
        let mut detail = alert.detail();
        self.engine.redactor().json(&mut detail);
        vec![StoreEvent {
            at,
            kind: EventKind::Alert,
            detail,
        }]
    }

    /// Alerts after one event up to another, oldest first. Unknown formats of other versions are
    /// skipped.
    async fn alerts(&self, mut after: u64, upto: u64) -> Result<Vec<Item>, StoreError> {
        loop {
            let query = EventQuery {
                after,
                before: None,
                task: None,
                agent: None,
                kinds: vec![EventKind::Alert],
                limit: BATCH_MAX,
                newest: false,
            };
            let page = self.store().events(query).await?;
            let is_last = page.len() < BATCH_MAX;
            after = page.last().map_or(upto, |event| event.id);
            let wanted = page.into_iter().filter(|event| event.id <= upto);
            let items: Vec<Item> = wanted.filter_map(|event| self.item(event)).collect();
            if is_last || after >= upto || !items.is_empty() {
                return Ok(items);
            }
        }
    }

    fn item(&self, mut event: Event) -> Option<Item> {
        self.engine.redactor().json(&mut event.detail);
        let alert = Alert::from_detail(&event.detail)?;
        Some(Item {
            event: event.id,
            at: event.at,
            alert,
        })
    }

    /// Removes repeats and alerts about this sink's own failures.
    async fn worth_telling(
        &self,
        items: Vec<Item>,
        cursor: &Cursor,
    ) -> Result<Vec<Item>, StoreError> {
        let mut worth = Vec::new();
        for item in items {
            let is_own_trouble = item.alert.kind == AlertKind::Undelivered
                && item.alert.more["sink"] == self.sink.name();
            if is_own_trouble
                || dedup::is_repeat(self.store(), item.event, &item.alert, cursor.since).await?
            {
                continue;
            }
            worth.push(item);
        }
        Ok(worth)
    }

    fn claim(&self, cursor: &mut Cursor) {
        let until = clock::now().plus(self.sink.timeout()).plus(CLAIM_MORE);
        let (Some(batch), Some(by)) = (cursor.batch.as_mut(), self.owner.clone()) else {
            return;
        };
        batch.claim = Some(DeliveryClaim {
            token: self.token,
            by,
            until,
        });
    }

    async fn write(
        &self,
        read: CursorRead,
        cursor: Cursor,
        told: Vec<StoreEvent>,
    ) -> Result<Option<CursorRead>, StoreError> {
        cursor::write(self.store(), self.sink.name(), read, cursor, told).await
    }

    /// Reports an error when it begins, not at each try.
    fn report_once(&self, text: &str) {
        if self.last_error.is_none() {
            (self.report)(text);
        }
    }
}

/// How a failed delivery continues.
enum DeliveryFailure {
    /// It is given up, with these events.
    Over(Vec<StoreEvent>),
    /// It is retried at this time.
    TryAgain(Time),
    /// The address must not be called again, with these events.
    Gone(Vec<StoreEvent>),
}
