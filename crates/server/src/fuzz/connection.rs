//! Bytes on a TCP connection, as the whole daemon answers them: over a store in memory, with nobody
//! who supervises.

use std::cell::LazyCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use relight_core::recovery::TaskPolicy;
use relight_redact::{MarkKey, Redactor};
use relight_runtime::engine::Engine;
use relight_runtime::queue::Queue;
use relight_runtime::recovery::{Recoverer, Strategies};
use relight_runtime::store_url::StoreUrl;
use relight_runtime::supervise::control_server::Reception;
use relight_runtime::supervise::heartbeats::Beats;
use relight_runtime::supervise::notices::Notices;
use relight_runtime::supervise::reporters::Reporters;
use relight_store::sqlite::Use;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use super::{HOSTS, PORT};
use crate::app::{App, Shared};
use crate::backend::Backend;
use crate::guard::host::Hosts;
use crate::listen::{ConnectionContext, Peer, attend};
use crate::tokens::Keyring;

/// Lets in.
pub const TOKEN: &str = "rlt_fuzz";

/// The longest that anything may take; whatever waits for work is cut off then.
const WAIT_MAX: Duration = Duration::from_millis(300);
/// More than any piece that is written at once.
const PIPE_BYTES: usize = 256 << 10;

thread_local! {
    static RUNTIME: LazyCell<Runtime> = LazyCell::new(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be made")
    });
}

/// Bytes on a connection: every answer is sealed, none says that something broke inside, and nobody
/// gets anything without token and host.
pub fn connection(data: &[u8]) {
    let answered = RUNTIME.with(|runtime| runtime.block_on(answer(data)));
    for status in statuses(&answered) {
        assert_ne!(status, 500, "{}", String::from_utf8_lossy(&answered));
    }
    let text = String::from_utf8_lossy(&answered);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return };
    let is_sealed = head.contains("content-security-policy") && head.contains("nosniff");
    // What is no HTTP at all is answered by the connection itself, with nothing in it.
    assert!(is_sealed || body.is_empty(), "{text}");
    assert!(!head.contains("access-control"), "{text}");
    let is_done = statuses(&answered).any(|status| (200..300).contains(&status));
    let is_named = HOSTS.iter().any(|host| has(data, host));
    assert!(!is_done || is_named, "a foreign host was served: {text}");
    let is_open = ["/api/health", "/login/", "/assets/"].iter().any(|path| has(data, path));
    assert!(!is_done || is_open || has(data, TOKEN), "let in without a token: {text}");
}

fn has(data: &[u8], text: &str) -> bool {
    data.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
}

/// The statuses of all answers on the connection.
fn statuses(answered: &[u8]) -> impl Iterator<Item = u16> {
    let heads = answered.windows(12).filter(|part| part.starts_with(b"HTTP/1.1 "));
    heads.filter_map(|head| std::str::from_utf8(&head[9..12]).ok()?.parse().ok())
}

async fn answer(data: &[u8]) -> Vec<u8> {
    let (mut ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let (_ends, ending) = watch::channel(false);
    let (open, _closed) = mpsc::channel(1);
    let connections =
        ConnectionContext { router: app().router(), ends: ending, open, header_wait_max: WAIT_MAX };
    let peer = Peer::Tcp { ip: [127, 0, 0, 1].into() };
    let served = tokio::spawn(attend(theirs, peer, connections));
    let mut answered = Vec::new();
    let talk = async {
        let _ = ours.write_all(data).await;
        let _ = ours.shutdown().await;
        let _ = ours.read_to_end(&mut answered).await;
    };
    let _ = tokio::time::timeout(WAIT_MAX, talk).await;
    served.abort();
    answered
}

fn app() -> App {
    let store = StoreUrl::Memory.open(Use::Long).expect("memory can be opened");
    let engine = Engine::new(store, Redactor::new(MarkKey::new([0; 32])));
    let recoverer = Recoverer::new(engine.clone(), Strategies::default(), TaskPolicy::default());
    let (calls, _) = Reception::channel();
    let beats = Beats::default();
    let backend = Backend {
        engine,
        queue: Queue::new(recoverer.clone()),
        reporters: Reporters::new(recoverer.clone(), beats.clone(), Notices::channel().0),
        recoverer,
        calls,
        beats,
        silence_max: None,
        sessions: relight_core::session::Rules::default(),
        // Nothing can be made there.
        home: PathBuf::from("/proc/self/nowhere"),
        node: None,
        held_back: Arc::default(),
        allows_commands: false,
        complain: Arc::new(|_| {}),
    };
    App::new(Shared::new(backend, Keyring::of_one(TOKEN), Hosts::new(PORT, false, &[])))
}
