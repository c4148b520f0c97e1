//! A proxy between a store and its server that can swallow what the server says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What the proxy does to the next commit that passes.
#[derive(Debug, Default)]
pub(crate) struct Trap {
    /// The commit reaches the server, its answer reaches nobody.
    swallow_answer: AtomicBool,
    /// Not even the commit reaches it.
    swallow_commit: AtomicBool,
    /// How often all that was open fell silent: nothing passes there any more, and nobody is told.
    silences: AtomicU32,
    /// How many commits were caught.
    pub(crate) caught: AtomicU32,
}

impl Trap {
    pub(crate) fn swallow_answer(&self) {
        self.swallow_answer.store(true, Ordering::SeqCst);
    }

    /// What is open now is dead and looks alive, as when the server's address has moved to another host.
    pub(crate) fn silence_all(&self) {
        self.silences.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn swallow_commit(&self) {
        self.swallow_commit.store(true, Ordering::SeqCst);
    }
}

/// Listens on a free port of the loopback, in the background; answers the port.
pub(crate) async fn start(server: u16, trap: Arc<Trap>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback has a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass(client, server, Arc::clone(&trap)));
        }
    });
    port
}

/// Until either side ends, or the trap closes.
async fn pass(mut client: TcpStream, server: u16, trap: Arc<Trap>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    let (mut asked, mut said) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut committing = Vec::new();
    let born = trap.silences.load(Ordering::SeqCst);
    let is_silent = || trap.silences.load(Ordering::SeqCst) != born;
    loop {
        tokio::select! {
            count = client.read(&mut asked) => {
                let Ok(count @ 1..) = count else { return };
                if is_silent() {
                    continue;
                }
                let asked = &asked[..count];
                let commits = executes(asked, &committing);
                learn(asked, &mut committing);
                if commits && trap.swallow_commit.swap(false, Ordering::SeqCst) {
                    trap.caught.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                if server.write_all(asked).await.is_err() {
                    return;
                }
                if commits && trap.swallow_answer.swap(false, Ordering::SeqCst) {
                    trap.caught.fetch_add(1, Ordering::SeqCst);
                    // It has been done once the server answers; nobody hears of it.
                    let _ = server.read(&mut said).await;
                    return;
                }
            }
            count = server.read(&mut said) => {
                let Ok(count @ 1..) = count else { return };
                if is_silent() {
                    continue;
                }
                if client.write_all(&said[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// What commits: by itself, or what came before it.
const COMMITTING: [&[u8]; 2] = [b"\0COMMIT\0", b"\0\n    SELECT append_step"];

/// Remembers the names under which statements that commit were prepared: they stand before them.
fn learn(asked: &[u8], names: &mut Vec<Vec<u8>>) {
    for statement in COMMITTING {
        let Some(at) = find(asked, statement) else { continue };
        let start = asked[..at].iter().rposition(|byte| !byte.is_ascii_alphanumeric());
        names.push(asked[start.map_or(0, |start| start + 1)..at].to_vec());
    }
}

/// A bind names its portal, which is empty, and then its statement. Or it is plain text.
fn executes(asked: &[u8], names: &[Vec<u8>]) -> bool {
    let is_bound = |name: &Vec<u8>| find(asked, &[&[0], &name[..], &[0]].concat()).is_some();
    asked.ends_with(b"Q\0\0\0\x0bCOMMIT\0") || names.iter().any(is_bound)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
