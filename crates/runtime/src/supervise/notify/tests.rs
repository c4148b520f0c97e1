use std::io::{IoSlice, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

use relight_core::time::{Span, Time};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg_addr};
use rustix::process::Uid;

use super::sign::{clean, signs};
use super::*;

struct Stage {
    socket: NotifySocket,
    folder: AgentFolder,
    _home: tempfile::TempDir,
}

fn stage_at(below: &str, agent_user: Option<u32>) -> Stage {
    let home = tempfile::tempdir().unwrap();
    let folder = AgentFolder::of(&home.path().join(below), &"writer".parse().unwrap());
    folder.create().unwrap();
    let socket = NotifySocket::bind(&folder, agent_user).unwrap();
    Stage {
        socket,
        folder,
        _home: home,
    }
}

fn stage() -> Stage {
    stage_at("", None)
}

/// A folder whose paths fit no address.
fn deep_stage(agent_user: Option<u32>) -> Stage {
    stage_at(&"deep/".repeat(30), agent_user)
}

impl Stage {
    /// A datagram as any library would send it.
    fn gets(&self, datagram: impl AsRef<[u8]>) {
        let sender = UnixDatagram::unbound().unwrap();
        sender
            .send_to(datagram.as_ref(), self.socket.address())
            .unwrap();
    }

    async fn hears(&self) -> Vec<NotifySign> {
        let bound = Duration::from_secs(120);
        tokio::time::timeout(bound, self.socket.recv())
            .await
            .expect("a sign comes")
            .unwrap()
    }
}

/// A wait of which the sender is not known.
fn wait(number: u64) -> WaitId {
    WaitId { pid: 0, number }
}

#[tokio::test]
async fn whose_wait_it_is_says_the_kernel() {
    let stage = stage();
    try_send(stage.socket.address(), &[NotifySign::Verb(wait(7), None)]).unwrap();
    let id = WaitId {
        pid: std::process::id(),
        number: 7,
    };
    assert_eq!(stage.hears().await, [NotifySign::Verb(id, None)]);
}

#[test]
fn lines_are_read_as_sd_notify_writes_them() {
    let until: Time = "2026-05-01T12:00:00Z".parse().unwrap();
    for (line, sign) in [
        ("READY=1", NotifySign::Ready),
        ("WATCHDOG=1", NotifySign::Alive),
        ("WATCHDOG=trigger", NotifySign::Trigger),
        ("RELOADING=1", NotifySign::Alive),
        ("STOPPING=1", NotifySign::Stopping),
        ("STATUS=at it = 5", NotifySign::Status("at it = 5".into())),
        ("STATUS=", NotifySign::Status(String::new())),
        (
            "EXTEND_TIMEOUT_USEC=1500001",
            NotifySign::Extend(Span::from_ms(1_501)),
        ),
        (
            "X_RELIGHT_WAITING_UNTIL=2026-05-01T14:00:00+02:00",
            NotifySign::WaitingUntil(until),
        ),
        (
            "X_RELIGHT_VERB_WAITS=3 2026-05-01T12:00:00Z",
            NotifySign::Verb(wait(3), Some(until)),
        ),
        (
            "X_RELIGHT_VERB_WAITS=3 over",
            NotifySign::Verb(wait(3), None),
        ),
        ("X_RELIGHT_PHASE=working", NotifySign::Ready),
        ("X_RELIGHT_PHASE=starting", NotifySign::Alive),
    ] {
        assert_eq!(signs(line.as_bytes()), [sign], "{line}");
    }
    for line in [
        "",
        "READY",
        "READY=0",
        "ready=1",
        "MAINPID=1",
        "FDSTORE=1",
        "FDNAME=x",
        "ERRNO=2",
        "MONOTONIC_USEC=5",
        "WATCHDOG=2",
        "WATCHDOG_USEC=5",
        "EXTEND_TIMEOUT_USEC=-1",
        "EXTEND_TIMEOUT_USEC=99999999999999999999",
        "X_RELIGHT_WAITING_UNTIL=noon",
        "X_RELIGHT_VERB_WAITS=3",
        "X_RELIGHT_VERB_WAITS=3 soon",
        "X_RELIGHT_VERB_WAITS=-3 over",
        "X_RELIGHT_PHASE=dreaming",
        "X_OTHER=1",
        "\u{0}",
    ] {
        assert_eq!(signs(line.as_bytes()), [], "{line}");
    }
}

#[test]
fn a_status_is_cleaned_and_cut() {
    assert_eq!(clean("a\u{1b}[31mred\u{7}\tb "), "a [31mred  b");
    assert_eq!(clean("a\u{202e}b\u{2028}c"), "a b c");
    let long = clean(&"ü".repeat(2_000));
    assert_eq!((long.len(), long.chars().count()), (1_024, 512));
    assert_eq!(
        signs(b"STATUS=\xff\xfe!"),
        [NotifySign::Status("\u{fffd}\u{fffd}!".into())]
    );
}

#[tokio::test]
async fn what_is_sent_is_heard() {
    let stage = stage();
    let said = [
        NotifySign::Ready,
        NotifySign::Alive,
        NotifySign::Status("two\nlines".into()),
        NotifySign::Stopping,
        NotifySign::Extend(Span::from_secs(90)),
        NotifySign::WaitingUntil("2026-05-01T12:00:00.250Z".parse().unwrap()),
        NotifySign::Trigger,
    ];
    send(stage.socket.address(), &said).unwrap();
    let mut heard = said;
    heard[2] = NotifySign::Status("two lines".into());
    assert_eq!(stage.hears().await, heard);
}

#[tokio::test]
async fn the_socket_is_in_the_folder_for_its_owner_alone() {
    let stage = stage();
    let path = stage.folder.notify_socket();
    assert_eq!(stage.socket.address(), path.to_str().unwrap());
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[tokio::test]
async fn a_path_too_long_for_an_address_has_an_abstract_name() {
    let stage = deep_stage(None);
    assert!(
        stage.socket.address().starts_with("@relight-notify-"),
        "{}",
        stage.socket.address()
    );
    send(stage.socket.address(), &[NotifySign::Alive]).unwrap();
    assert_eq!(stage.hears().await, [NotifySign::Alive]);
}

#[tokio::test]
async fn the_longest_path_that_fits_is_used() {
    let home = tempfile::tempdir().unwrap();
    let used = home.path().as_os_str().len() + "//agents/writer/notify.sock".len();
    for (fill, is_path) in [
        (PATH_BYTES_MAX - used, true),
        (PATH_BYTES_MAX - used + 1, false),
    ] {
        let folder = AgentFolder::of(
            &home.path().join("f".repeat(fill)),
            &"writer".parse().unwrap(),
        );
        folder.create().unwrap();
        let socket = NotifySocket::bind(&folder, None).unwrap();
        assert_eq!(socket.address().starts_with('/'), is_path);
        send(socket.address(), &[NotifySign::Alive]).unwrap();
        assert_eq!(socket.recv().await.unwrap(), [NotifySign::Alive]);
    }
}

/// Far above what it takes.
const CLOSED_MAX: Duration = Duration::from_secs(10);

#[tokio::test]
async fn the_next_supervisor_has_the_same_address() {
    for first in [stage(), deep_stage(None)] {
        let Stage {
            socket,
            folder,
            _home,
        } = first;
        let address = socket.address().to_owned();
        drop(socket);
        // A process that another test is starting has a copy of it until it executes its program.
        let closed = async {
            while send(&address, &[NotifySign::Alive]).is_ok() {
                tokio::task::yield_now().await;
            }
        };
        let closed = tokio::time::timeout(CLOSED_MAX, closed).await;
        closed.expect("nobody listens");
        let second = NotifySocket::bind(&folder, None).unwrap();
        send(&address, &[NotifySign::Ready]).unwrap();
        assert_eq!(second.recv().await.unwrap(), [NotifySign::Ready]);
    }
}

#[tokio::test]
async fn unknown_lines_are_no_sign_of_life() {
    let stage = stage();
    stage.gets("MAINPID=77\nFDSTORE=1");
    stage.gets("X_SOMETHING=1\n");
    stage.gets("");
    stage.gets([0xff; 100]);
    stage.gets("X_SOMETHING=1\nWATCHDOG=1\n");
    assert_eq!(stage.hears().await, [NotifySign::Alive]);
}

#[tokio::test]
async fn a_datagram_too_large_is_dropped_whole() {
    let stage = stage();
    stage.gets(format!(
        "READY=1\nSTATUS={}",
        "x".repeat(DATAGRAM_BYTES_MAX)
    ));
    stage.gets(format!(
        "WATCHDOG=1\nX_FILL={}",
        "x".repeat(DATAGRAM_BYTES_MAX - 18)
    ));
    assert_eq!(stage.hears().await, [NotifySign::Alive]);
}

#[tokio::test]
async fn signs_of_an_earlier_attempt_are_discarded() {
    let stage = stage();
    stage.gets("READY=1");
    stage.gets("STOPPING=1");
    stage.socket.discard().unwrap();
    assert_eq!(stage.socket.recv_now().unwrap(), []);
    stage.gets("WATCHDOG=1");
    assert_eq!(stage.socket.recv_now().unwrap(), [NotifySign::Alive]);
    stage.gets("STATUS=still heard");
    assert_eq!(
        stage.hears().await,
        [NotifySign::Status("still heard".into())]
    );
}

#[tokio::test]
async fn descriptors_that_come_along_are_closed() {
    let stage = stage();
    let (mut ours, theirs) = std::io::pipe().unwrap();
    let many = [theirs.as_fd(); 20];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
    let sender = UnixDatagram::unbound().unwrap();
    let address = SocketAddrUnix::new(stage.socket.address()).unwrap();
    let datagram = [IoSlice::new(b"FDSTORE=1\nWATCHDOG=1")];
    sendmsg_addr(
        &sender,
        &address,
        &datagram,
        &mut control,
        SendFlags::empty(),
    )
    .unwrap();
    assert_eq!(stage.hears().await, [NotifySign::Alive]);
    drop(theirs);
    assert_eq!(
        ours.read(&mut [0]).unwrap(),
        0,
        "nobody holds the other end"
    );
}

/// Sends as another user, which a single thread can become.
fn send_as(user: u32, address: &str, sign: NotifySign) {
    let address = address.to_owned();
    let sender = std::thread::spawn(move || {
        let user = Uid::from_raw(user);
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        send(&address, &[sign]).unwrap();
    });
    sender.join().unwrap();
}

#[tokio::test]
async fn only_our_user_root_and_the_agents_user_count() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only_our_user_root_and_the_agents_user_count needs root");
        return;
    }
    let (stage, of_another) = (deep_stage(None), stage_at("", Some(65_533)));
    assert!(
        of_another.socket.address().starts_with('@'),
        "the agent cannot enter our folder"
    );
    for stage in [&stage, &of_another] {
        send_as(65_534, stage.socket.address(), NotifySign::Trigger);
        send_as(65_533, stage.socket.address(), NotifySign::Ready);
        send_as(0, stage.socket.address(), NotifySign::Alive);
    }
    assert_eq!(stage.hears().await, [NotifySign::Alive]);
    assert_eq!(
        of_another.hears().await,
        [NotifySign::Ready, NotifySign::Alive]
    );
}

#[tokio::test]
async fn a_flood_does_not_starve_others() {
    let (loud, quiet) = (stage(), stage());
    let address = loud.socket.address().to_owned();
    let flood = std::thread::spawn(move || {
        (0..20_000).for_each(|_| send(&address, &[NotifySign::Alive]).unwrap());
    });
    let listen_to_the_loud = async {
        let mut count = 0;
        while count < 20_000 {
            let heard = loud.hears().await.len();
            assert!(heard <= DATAGRAMS_AT_ONCE);
            count += heard;
        }
        count
    };
    let listen_to_the_quiet = async {
        for _ in 0..100 {
            quiet.gets("READY=1");
            assert_eq!(quiet.hears().await, [NotifySign::Ready]);
        }
    };
    let (count, ()) = tokio::join!(listen_to_the_loud, listen_to_the_quiet);
    assert_eq!(count, 20_000);
    flood.join().unwrap();
}

#[test]
fn what_is_no_address_is_refused() {
    for address in ["", "relative/path", "vsock:2:1234"] {
        let refused = send(address, &[NotifySign::Alive]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
