//! A proxy between a store and its server that can swallow what the server says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Most that is passed on at once.
const PIECE: usize = 1 << 16;

/// What the proxy does to the next commit that passes.
#[derive(Debug, Default)]
pub(crate) struct Trap {
    /// The commit reaches the server, its answer reaches nobody.
    swallow_answer: AtomicBool,
    /// Not even the commit reaches it.
    swallow_commit: AtomicBool,
    /// Not even the commit reaches it, and the server seems to panic.
    panic_at_commit: AtomicBool,
    /// How often all that was open fell silent: nothing passes there any more, and nobody is told.
    silences: AtomicU32,
    /// How many commits were caught.
    pub(crate) caught: AtomicU32,
    /// The next long message stays half way.
    hold: AtomicBool,
    /// Rung when one does.
    held: Notify,
    /// Rung when it may go on.
    released: Notify,
}

impl Trap {
    pub(crate) fn swallow_answer(&self) {
        self.swallow_answer.store(true, Ordering::SeqCst);
    }

    /// Has the next long message stay half way, as on a link that is slow.
    pub(crate) fn hold(&self) {
        self.hold.store(true, Ordering::SeqCst);
    }

    /// Returns when one does.
    pub(crate) async fn held(&self) {
        self.held.notified().await;
    }

    /// It goes on.
    pub(crate) fn release(&self) {
        self.released.notify_one();
    }

    pub(crate) fn panic_at_commit(&self) {
        self.panic_at_commit.store(true, Ordering::SeqCst);
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
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("the loopback has a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass(client, server, Arc::clone(&trap)));
        }
    });
    port
}

/// Takes connections and says nothing, as a frozen server does; answers the port, and how many it took.
pub(crate) async fn start_silent() -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("the loopback has a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let taken = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&taken);
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((client, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            kept.push(client);
        }
    });
    (port, taken)
}

/// Until either side ends, or the trap closes.
async fn pass(mut client: TcpStream, server: u16, trap: Arc<Trap>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)).await else {
        return;
    };
    let (mut asked, mut said) = (vec![0; PIECE], vec![0; PIECE]);
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
                if commits && trap.panic_at_commit.swap(false, Ordering::SeqCst) {
                    trap.caught.fetch_add(1, Ordering::SeqCst);
                    let _ = client.write_all(&panicked()).await;
                    return;
                }
                if server.write_all(asked).await.is_err() {
                    return;
                }
                let is_long = count == PIECE;
                if is_long && trap.hold.swap(false, Ordering::SeqCst) {
                    trap.held.notify_one();
                    trap.released.notified().await;
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

/// What a server says that ends for want of a disk.
fn panicked() -> Vec<u8> {
    let fields = b"SPANIC\0VPANIC\0C58030\0Mcould not write to the log\0\0";
    let length = u32::try_from(fields.len() + 4).expect("it is short");
    [b"E", &length.to_be_bytes()[..], fields].concat()
}

/// What commits: by itself, or what came before it.
const COMMITTING: [&[u8]; 2] = [b"\0COMMIT\0", b"\0\n    SELECT append_step"];

/// Remembers the names under which statements that commit were prepared: they stand before them.
fn learn(asked: &[u8], names: &mut Vec<Vec<u8>>) {
    for statement in COMMITTING {
        let Some(at) = find(asked, statement) else {
            continue;
        };
        // A letter and a number; the length of the message before it may look like a letter too.
        let letter = asked[..at].iter().rposition(|byte| !byte.is_ascii_digit());
        names.push(asked[letter.unwrap_or(0)..at].to_vec());
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
