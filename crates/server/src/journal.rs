//! The journal as a stream: one reader of the store, any number of watchers.
//!
//! All watchers share one ring of events, so that one who does not read costs nothing; it is told how
//! many it missed and goes on. Nothing is read while nobody watches.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::Frame;
use relight_core::event::{Event, EventKind};
use relight_core::ids::{AgentName, TaskId};
use relight_store::{EventQuery, StoreError};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast, mpsc, watch};

use crate::app::App;
use crate::error::ApiError;
use crate::listen::ended;
use crate::wire;

/// Events that a slow watcher may be behind.
const RING: usize = 1_024;
/// Events that are read at a time.
const PAGE: usize = 256;
/// A sign for proxies and watchers that the stream lives.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// How soon a broken stream is to be asked for again.
const HELLO: &str = "retry: 1000\n\n";
/// After the store could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// A longer event is told without its detail: what all watchers share is bounded in bytes too.
const EVENT_BYTES_MAX: usize = 16 << 10;

/// Where events are shared out.
#[derive(Debug)]
pub(crate) struct Journal {
    ring: broadcast::Sender<Arc<Told>>,
    /// Everything after this event is shared out; none while nobody reads.
    from: watch::Sender<Option<u64>>,
    /// Somebody watches from now on.
    watched: Notify,
    ends: watch::Sender<bool>,
}

/// An event, written down once for all watchers.
#[derive(Debug)]
struct Told {
    id: u64,
    kind: EventKind,
    agent: Option<AgentName>,
    task: Option<TaskId>,
    text: Bytes,
}

impl Default for Journal {
    fn default() -> Self {
        let (ring, from) = (broadcast::channel(RING).0, watch::channel(None).0);
        Self { ring, from, watched: Notify::new(), ends: watch::channel(false).0 }
    }
}

impl Journal {
    /// A place at the ring. Under the same lock as [`Self::is_left`], so that either the reader sees
    /// the watcher or the watcher sees that the reader begins anew.
    fn join(&self) -> broadcast::Receiver<Arc<Told>> {
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
    fn has(&self, told: &Told) -> bool {
        let query = &self.query;
        (query.kinds.is_empty() || query.kinds.contains(&told.kind))
            && (query.agent.is_none() || query.agent == told.agent)
            && (query.task.is_none() || query.task == told.task)
    }
}

impl App {
    /// Reads the journal for all watchers, until the end.
    pub(crate) async fn read_journal(self, mut ends: watch::Receiver<bool>) {
        tokio::select! {
            () = self.share_out() => {}
            () = ended(&mut ends) => {}
        }
        self.journal.ends.send_replace(true);
    }

    async fn share_out(&self) {
        loop {
            if self.journal.is_left() {
                self.journal.watched.notified().await;
                continue;
            }
            if self.share_next().await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Shares out what is there, and waits for more.
    async fn share_next(&self) -> Result<(), StoreError> {
        let store = self.backend.engine.store();
        let known = *self.journal.from.borrow();
        let after = match known {
            Some(after) => after,
            None => store.newest_event().await?,
        };
        self.journal.from.send_replace(Some(after));
        let newest = self.share_after(after).await?;
        self.journal.from.send_if_modified(|from| {
            *from = Some(newest);
            false
        });
        store.changed(newest).await
    }

    /// Shares out what came after; answers the newest.
    async fn share_after(&self, mut after: u64) -> Result<u64, StoreError> {
        loop {
            let query = EventQuery { after, limit: PAGE, ..every_event() };
            let events = self.backend.engine.store().events(query).await?;
            let count = events.len();
            for event in events {
                after = event.id;
                let text = text(&event);
                let Event { id, kind, agent, task, .. } = event;
                // Nobody watches any more: nobody misses it.
                let _ = self.journal.ring.send(Arc::new(Told { id, kind, agent, task, text }));
            }
            if count < PAGE {
                return Ok(after);
            }
        }
    }

    /// A stream of events for one watcher.
    pub(crate) async fn watch(&self, wanted: Wanted) -> Result<Response, ApiError> {
        // From here on nothing is missed, whatever was there before.
        let ring = self.journal.join();
        self.journal.is_read().await;
        let newest = self.backend.engine.store().newest_event().await?;
        let after = wanted.after.map_or(newest, |after| after.min(newest));
        let (pieces, body) = mpsc::channel(1);
        let watcher = Watcher { app: self.clone(), wanted, after, pieces };
        tokio::spawn(watcher.run(ring, self.journal.ends.subscribe()));
        let mut response = Response::new(Body::new(Stream(body)));
        let kind = HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        Ok(response)
    }
}

/// One who watches.
struct Watcher {
    app: App,
    wanted: Wanted,
    /// The last event that was looked at.
    after: u64,
    pieces: mpsc::Sender<Bytes>,
}

/// The watcher is gone, or the daemon ends.
struct Over;

impl Watcher {
    async fn run(mut self, ring: broadcast::Receiver<Arc<Told>>, mut ends: watch::Receiver<bool>) {
        tokio::select! {
            _ = self.send_all(ring) => {}
            () = ended(&mut ends) => {}
        }
    }

    async fn send_all(&mut self, mut ring: broadcast::Receiver<Arc<Told>>) -> Result<(), Over> {
        self.send(Bytes::from_static(HELLO.as_bytes())).await?;
        self.catch_up().await?;
        loop {
            let told = tokio::select! {
                told = ring.recv() => told,
                () = tokio::time::sleep(ALIVE_EVERY) => {
                    self.send(Bytes::from_static(b": alive\n\n")).await?;
                    continue;
                }
                () = self.pieces.closed() => return Err(Over),
            };
            match told {
                Ok(told) if told.id <= self.after => {}
                Ok(told) => {
                    self.after = told.id;
                    if self.wanted.has(&told) {
                        self.send(told.text.clone()).await?;
                    }
                }
                Err(RecvError::Lagged(missed)) => {
                    let notice = format!("event: dropped\ndata: {{\"missed\":{missed}}}\n\n");
                    self.send(Bytes::from(notice)).await?;
                }
                Err(RecvError::Closed) => return Err(Over),
            }
        }
    }

    /// What was committed before the watcher came and after what it saw last.
    async fn catch_up(&mut self) -> Result<(), Over> {
        loop {
            let query = EventQuery { after: self.after, limit: PAGE, ..self.wanted.query.clone() };
            let read = self.app.backend.engine.store().events(query).await;
            let events = read.map_err(|_| Over)?;
            let is_last = events.len() < PAGE;
            for event in events {
                self.after = event.id;
                self.send(text(&event)).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    async fn send(&self, piece: Bytes) -> Result<(), Over> {
        self.pieces.send(piece).await.map_err(|_| Over)
    }
}

/// A body that ends when its watcher does.
struct Stream(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// As the protocol writes it. JSON has no line breaks, so one line of data holds all.
fn text(event: &Event) -> Bytes {
    let mut wire = wire::event::Event::from(event.clone());
    let mut json = serde_json::to_string(&wire).expect("events are plain JSON");
    if json.len() > EVENT_BYTES_MAX {
        wire.detail = serde_json::json!({"too_long": true});
        json = serde_json::to_string(&wire).expect("events are plain JSON");
    }
    Bytes::from(format!("id: {}\nevent: {}\ndata: {json}\n\n", wire.id, wire.kind))
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
