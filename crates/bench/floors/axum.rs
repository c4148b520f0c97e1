//! Floor: `floor-axum [SOCKET]` answers heartbeats with axum and does nothing else.
//!
//! The least that the daemon's own stack can cost: the same number of threads, hyper as it comes, one
//! route that reads a body as JSON and answers with JSON. Says on standard output where it listens.

use std::io::{self, Write as _};

use axum::extract::Path;
use axum::routing::post;
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// As many as the daemon has.
const WORKERS: usize = 2;

#[derive(Deserialize)]
struct Heartbeat {
    waiting_until: Option<String>,
    status: Option<String>,
}

#[derive(Serialize)]
struct Done {}

fn main() -> io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(WORKERS).enable_all().build()?;
    let router = Router::new().route("/api/agents/{name}/heartbeat", post(beat));
    // Not on the caller's thread: it would be one more.
    runtime.block_on(async {
        let serving = match std::env::args_os().nth(1) {
            Some(socket) => {
                let listener = UnixListener::bind(socket)?;
                say("socket")?;
                tokio::spawn(serve_socket(listener, router))
            }
            None => {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                say(&listener.local_addr()?.to_string())?;
                tokio::spawn(serve_tcp(listener, router))
            }
        };
        serving.await?
    })
}

async fn beat(Path(name): Path<String>, Json(given): Json<Heartbeat>) -> Json<Done> {
    std::hint::black_box((name, given.waiting_until, given.status));
    Json(Done {})
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{text}")?;
    out.flush()
}

async fn serve_tcp(listener: TcpListener, router: Router) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        attend(stream, router.clone());
    }
}

async fn serve_socket(listener: UnixListener, router: Router) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        attend(stream, router.clone());
    }
}

fn attend(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::spawn(async move {
        // A connection that breaks has nobody to tell.
        let _ = connection.await;
    });
}
