//! The journal as a stream: one reader of the store, any number of watchers.
//!
//! All watchers share one ring of batches, each written down once, so that one who does not read costs
//! nothing; it is told how many events it missed and goes on. Nothing is read while nobody watches. The
//! more watch, the longer events are gathered, so that telling them never takes a whole processor.

use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::Frame;
use relight_core::agent::plain::harmless_json;
use relight_core::event::{Event, EventKind};
use relight_core::ids::{AgentName, TaskId};
use relight_store::{EventQuery, Store, StoreError};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast, watch};

use crate::error::ApiError;
use crate::listen::ended;
use relight_runtime::operations::view::EventView;

/// Batches that a slow watcher may be behind.
const RING: usize = 256;
/// Events that are read at a time.
const PAGE: usize = 256;
/// The same for one watcher that comes back: a thousand of them may come back together.
const PAST_PAGE: usize = 64;
/// Events are shared out in batches of about so many bytes, which all watchers share.
const BATCH_BYTES: usize = 64 << 10;
/// The least time between two batches, for each watcher: a write to each of them takes a part of it.
const GAP_EACH: Duration = Duration::from_micros(50);
/// The least and the most of it in all. What happens after a quiet moment is told at once.
const GAP: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(250)];
/// A sign for proxies and watchers that the stream lives.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
const ALIVE: &[u8] = b": alive\n\n";
/// How soon a broken stream is to be asked for again.
const HELLO: &str = "retry: 1000\n\n";
/// After the store could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// A longer event is told without its detail: what all watchers share is bounded in bytes too.
const EVENT_BYTES_MAX: usize = 16 << 10;

/// Where events are shared out.
#[derive(Debug)]
pub(crate) struct Journal {
    ring: broadcast::Sender<Arc<Batch>>,
    /// How many events were shared out.
    shared: AtomicU64,
    /// Everything after this event is shared out; none while nobody reads.
    from: watch::Sender<Option<u64>>,
    /// Somebody watches from now on.
    watched: Notify,
    ends: watch::Sender<bool>,
}

/// Events that came together, written down once for all watchers.
#[derive(Debug, Default)]
struct Batch {
    /// How many were shared out before.
    before: u64,
    events: Vec<Told>,
    text: Bytes,
}

/// What watchers choose an event by, and where its text is.
#[derive(Debug)]
struct Told {
    id: u64,
    kind: EventKind,
    agent: Option<AgentName>,
    task: Option<TaskId>,
    text: Range<usize>,
}

impl Default for Journal {
    fn default() -> Self {
        let (ring, from) = (broadcast::channel(RING).0, watch::channel(None).0);
        let (watched, ends) = (Notify::new(), watch::channel(false).0);
        Self {
            ring,
            shared: AtomicU64::new(0),
            from,
            watched,
            ends,
        }
    }
}

impl Journal {
    /// A place at the ring. Under the same lock as [`Self::is_left`], so that either the reader sees
    /// the watcher or the watcher sees that the reader begins anew.
    fn join(&self) -> broadcast::Receiver<Arc<Batch>> {
        let mut place = None;
        self.from.send_if_modified(|_| {
            place = Some(self.ring.subscribe());
            false
        });
        self.watched.notify_one();
        place.expect("it was just taken")
    }

    /// How many watch.
    pub(crate) fn watchers(&self) -> usize {
        self.ring.receiver_count()
    }

    /// Whether nobody watches any more.
    fn is_left(&self) -> bool {
        let mut is_left = false;
        self.from.send_if_modified(|from| {
            is_left = self.ring.receiver_count() == 0;
            is_left && from.take().is_some()
        });
        is_left
    }

    /// Returns when the daemon ends.
    pub(crate) async fn ended(&self) {
        ended(&mut self.ends.subscribe()).await;
    }

    /// Gives all watchers what came together.
    fn share(&self, mut batch: Batch) {
        batch.before = self
            .shared
            .fetch_add(batch.events.len() as u64, Ordering::Relaxed);
        // Nobody watches any more: nobody misses it.
        let _ = self.ring.send(Arc::new(batch));
    }

    /// Returns once everything from some moment on is shared out.
    async fn is_read(&self) {
        let mut from = self.from.subscribe();
        // It is never dropped while somebody asks.
        let _ = from.wait_for(Option::is_some).await;
    }
}

/// What a watcher wants to see, beside what came after.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Begin after this event; with what comes from now on when none.
    pub(crate) after: Option<u64>,
    /// The rest of the conditions.
    pub(crate) query: EventQuery,
}

impl Wanted {
    fn has_all(&self) -> bool {
        let query = &self.query;
        query.kinds.is_empty() && query.agent.is_none() && query.task.is_none()
    }

    fn has(&self, told: &Told) -> bool {
        let query = &self.query;
        (query.kinds.is_empty() || query.kinds.contains(&told.kind))
            && (query.agent.is_none() || query.agent == told.agent)
            && (query.task.is_none() || query.task == told.task)
    }
}

impl Journal {
    /// Reads the journal for all watchers, until the end.
    pub(crate) async fn read(&self, store: &dyn Store, mut ends: watch::Receiver<bool>) {
        tokio::select! {
            () = self.share_out(store) => {}
            () = ended(&mut ends) => {}
        }
        self.ends.send_replace(true);
    }

    async fn share_out(&self, store: &dyn Store) {
        loop {
            if self.is_left() {
                self.watched.notified().await;
                continue;
            }
            if self.share_next(store).await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Shares out what is there, and waits for more.
    async fn share_next(&self, store: &dyn Store) -> Result<(), StoreError> {
        let known = *self.from.borrow();
        let after = match known {
            Some(after) => after,
            None => store.newest_event().await?,
        };
        self.from.send_replace(Some(after));
        let newest = self.share_after(store, after).await?;
        self.from.send_if_modified(|from| {
            *from = Some(newest);
            false
        });
        // Also when there was nothing: whatever wakes it, it asks no more often than this.
        let watchers = u32::try_from(self.ring.receiver_count()).unwrap_or(u32::MAX);
        tokio::time::sleep(GAP_EACH.saturating_mul(watchers).clamp(GAP[0], GAP[1])).await;
        store.changed(newest).await
    }

    /// Shares out what came after; answers the newest.
    async fn share_after(&self, store: &dyn Store, mut after: u64) -> Result<u64, StoreError> {
        loop {
            let query = EventQuery {
                after,
                limit: PAGE,
                ..every_event()
            };
            let events = store.events(query).await?;
            let count = events.len();
            after = events.last().map_or(after, |event| event.id);
            for batch in batches(events) {
                self.share(batch);
            }
            if count < PAGE {
                return Ok(after);
            }
            tokio::task::yield_now().await;
        }
    }

    /// A stream of events for one watcher.
    pub(crate) async fn watch(
        &self,
        store: &Arc<dyn Store>,
        wanted: Wanted,
    ) -> Result<Response, ApiError> {
        // From here on nothing is missed, whatever was there before.
        let ring = self.join();
        self.is_read().await;
        let newest = store.newest_event().await?;
        let after = wanted.after.map_or(newest, |after| after.min(newest));
        let expected = self.shared.load(Ordering::Relaxed);
        let seen = WatchPosition {
            wanted,
            after,
            expected,
        };
        let watcher = Watcher {
            store: Arc::clone(store),
            ring,
            seen,
            stage: Stage::Hello,
        };
        let next = Box::pin(watcher.next(self.ends.subscribe()));
        let mut response = Response::new(Body::new(Stream { next }));
        let kind = HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        Ok(response)
    }
}

/// One who watches.
struct Watcher {
    store: Arc<dyn Store>,
    ring: broadcast::Receiver<Arc<Batch>>,
    seen: WatchPosition,
    stage: Stage,
}

/// What a watcher wants to see, and has seen.
struct WatchPosition {
    wanted: Wanted,
    /// The last event that was looked at.
    after: u64,
    /// How many will have been shared out before the next batch, unless some were missed.
    expected: u64,
}

/// How far a watcher is.
enum Stage {
    Hello,
    /// What was committed before it came, and after what it saw last.
    Past,
    Live,
}

/// The daemon ends, or the store cannot be read.
struct Over;

type Next = Option<(Watcher, watch::Receiver<bool>, Bytes)>;

impl Watcher {
    /// The next piece of the stream, and the watcher to ask for the one after it.
    async fn next(mut self, mut ends: watch::Receiver<bool>) -> Next {
        let piece = tokio::select! {
            piece = self.piece() => piece.ok()?,
            () = ended(&mut ends) => return None,
        };
        Some((self, ends, piece))
    }

    async fn piece(&mut self) -> Result<Bytes, Over> {
        loop {
            let piece = match self.stage {
                Stage::Hello => {
                    self.stage = Stage::Past;
                    Some(Bytes::from_static(HELLO.as_bytes()))
                }
                Stage::Past => self.past().await?,
                Stage::Live => self.live().await?,
            };
            if let Some(piece) = piece {
                return Ok(piece);
            }
        }
    }

    async fn past(&mut self) -> Result<Option<Bytes>, Over> {
        let (after, query) = (self.seen.after, self.seen.wanted.query.clone());
        let query = EventQuery {
            after,
            limit: PAST_PAGE,
            ..query
        };
        let read = self.store.events(query).await;
        let events = read.map_err(|_| Over)?;
        if events.len() < PAST_PAGE {
            self.stage = Stage::Live;
        }
        let mut text = String::new();
        for event in events {
            self.seen.after = event.id;
            write(&mut text, event);
        }
        Ok((!text.is_empty()).then(|| Bytes::from(text)))
    }

    async fn live(&mut self) -> Result<Option<Bytes>, Over> {
        let received = tokio::select! {
            received = self.ring.recv() => received,
            () = tokio::time::sleep(ALIVE_EVERY) => return Ok(Some(Bytes::from_static(ALIVE))),
        };
        match received {
            Ok(batch) => Ok(self.seen.take(&batch)),
            // The next batch tells how many events were in those that are gone.
            Err(RecvError::Lagged(_)) => Ok(None),
            Err(RecvError::Closed) => Err(Over),
        }
    }
}

impl WatchPosition {
    /// What this watcher is told of a batch; none when there is nothing in it for this one.
    fn take(&mut self, batch: &Batch) -> Option<Bytes> {
        let missed = batch.before.saturating_sub(self.expected);
        self.expected = batch.before + batch.events.len() as u64;
        let text = self.wanted_of(batch);
        self.after = batch
            .events
            .last()
            .map_or(self.after, |told| told.id.max(self.after));
        match (missed, text.is_empty()) {
            (0, true) => None,
            (0, false) => Some(text),
            (missed, _) => {
                let notice = format!("event: dropped\ndata: {{\"missed\":{missed}}}\n\n");
                Some(Bytes::from([notice.as_bytes(), &text].concat()))
            }
        }
    }

    fn wanted_of(&self, batch: &Batch) -> Bytes {
        let is_new = batch
            .events
            .first()
            .is_some_and(|told| told.id > self.after);
        if is_new && self.wanted.has_all() {
            return batch.text.clone();
        }
        let wanted = |told: &&Told| told.id > self.after && self.wanted.has(told);
        let pieces = batch
            .events
            .iter()
            .filter(wanted)
            .map(|told| &batch.text[told.text.clone()]);
        Bytes::from(pieces.collect::<Vec<_>>().concat())
    }
}

/// A body that goes on for as long as its watcher does. Nothing is taken from the ring before the
/// connection has room for it.
struct Stream {
    next: Pin<Box<dyn Future<Output = Next> + Send>>,
}

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some((watcher, ends, piece)) = ready!(self.next.as_mut().poll(context)) else {
            return Poll::Ready(None);
        };
        self.next = Box::pin(watcher.next(ends));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

/// Events as they are shared out.
fn batches(events: Vec<Event>) -> Vec<Batch> {
    let mut all = Vec::new();
    let (mut told, mut text) = (Vec::new(), String::new());
    for event in events {
        let (from, id, kind) = (text.len(), event.id, event.kind);
        let (agent, task) = (event.agent.clone(), event.task.clone());
        write(&mut text, event);
        told.push(Told {
            id,
            kind,
            agent,
            task,
            text: from..text.len(),
        });
        if text.len() >= BATCH_BYTES {
            all.push(Batch::of(&mut told, &mut text));
        }
    }
    if !told.is_empty() {
        all.push(Batch::of(&mut told, &mut text));
    }
    all
}

impl Batch {
    fn of(told: &mut Vec<Told>, text: &mut String) -> Self {
        let mut text = std::mem::take(text);
        // It is kept for a while.
        text.shrink_to_fit();
        Self {
            before: 0,
            events: std::mem::take(told),
            text: Bytes::from(text),
        }
    }
}

/// As the protocol writes it. JSON has no line breaks, so one line of data holds all.
fn write(text: &mut String, event: Event) {
    let mut wire = EventView::from(event);
    let mut json = serde_json::to_string(&wire).expect("events are plain JSON");
    if json.len() > EVENT_BYTES_MAX {
        wire.detail = serde_json::json!({"too_long": true});
        json = serde_json::to_string(&wire).expect("events are plain JSON");
    }
    let json = harmless_json(&json);
    for piece in [
        "id: ",
        &wire.id.to_string(),
        "\nevent: ",
        &wire.kind,
        "\ndata: ",
        &json,
        "\n\n",
    ] {
        text.push_str(piece);
    }
}

/// All events, to be narrowed.
pub(crate) fn every_event() -> EventQuery {
    EventQuery {
        after: 0,
        before: None,
        task: None,
        agent: None,
        kinds: Vec::new(),
        limit: PAGE,
        newest: false,
    }
}

#[cfg(test)]
mod tests {
    use relight_core::time::Time;
    use serde_json::Value;

    use super::*;

    fn event(id: u64, agent: &str) -> Event {
        let agent = Some(AgentName::new(agent).unwrap());
        let (at, kind) = (Time::from_ms(0), EventKind::AgentState);
        Event {
            id,
            at,
            kind,
            agent,
            task: None,
            step: None,
            fence: None,
            detail: Value::Null,
        }
    }

    fn batch(before: u64, ids: Range<u64>) -> Batch {
        let name = |id: u64| if id.is_multiple_of(2) { "even" } else { "odd" };
        let events = ids.map(|id| event(id, name(id))).collect();
        Batch {
            before,
            ..batches(events).pop().unwrap()
        }
    }

    fn seen(agent: Option<&str>, after: u64) -> WatchPosition {
        let agent = agent.map(|name| AgentName::new(name).unwrap());
        let query = EventQuery {
            agent,
            ..every_event()
        };
        WatchPosition {
            wanted: Wanted { after: None, query },
            after,
            expected: 0,
        }
    }

    fn ids(piece: Option<Bytes>) -> Vec<u64> {
        let text = String::from_utf8(piece.unwrap_or_default().to_vec()).unwrap();
        text.lines()
            .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
            .collect()
    }

    #[test]
    fn a_stream_has_no_character_that_a_terminal_obeys() {
        let mut text = String::new();
        write(
            &mut text,
            Event {
                detail: "a\u{202e}b\u{7f}".into(),
                ..event(1, "a")
            },
        );
        assert!(text.contains(r"a\u202eb\u007f"), "{text}");
    }

    #[test]
    fn all_watchers_of_everything_share_one_text() {
        let batch = batch(0, 1..4);
        let piece = seen(None, 0).take(&batch).unwrap();
        assert_eq!(piece.as_ptr(), batch.text.as_ptr());
        assert_eq!(ids(Some(piece)), [1, 2, 3]);
    }

    #[test]
    fn a_watcher_gets_what_it_wants_and_nothing_twice() {
        assert_eq!(ids(seen(Some("even"), 2).take(&batch(0, 1..7))), [4, 6]);
        assert_eq!(ids(seen(None, 2).take(&batch(0, 1..4))), [3]);
        assert_eq!(seen(None, 3).take(&batch(0, 1..4)), None);
    }

    #[test]
    fn a_watcher_that_was_too_slow_is_told_how_many_events_it_missed() {
        let mut seen = seen(None, 0);
        assert_eq!(ids(seen.take(&batch(0, 1..3))), [1, 2]);
        let piece = seen.take(&batch(7, 8..9)).unwrap();
        assert!(piece.starts_with(b"event: dropped\ndata: {\"missed\":5}\n\nid: 8\n"));
        assert_eq!(ids(seen.take(&batch(8, 9..10))), [9]);
    }

    #[test]
    fn many_long_events_come_in_several_batches() {
        let long = |id| Event {
            detail: Value::from("x".repeat(10_000)),
            ..event(id, "a")
        };
        let all = batches((1..=20).map(long).collect());
        assert!(
            all.iter()
                .all(|batch| batch.text.len() < BATCH_BYTES + EVENT_BYTES_MAX)
        );
        assert_eq!(
            all.iter().map(|batch| batch.events.len()).sum::<usize>(),
            20
        );
        assert!(all.len() > 2);
    }
}
