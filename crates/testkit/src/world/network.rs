//! A network of one's own: a switch with a server's address, and a cable to each machine that can be cut.
//!
//! All of it lives in network namespaces without a name, each held by a process that dies with this one;
//! the kernel removes them with whoever is the last in there. Needs root and `ip`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::Context as _;

use super::clock;
use super::product::{finish, plain};

/// The server's address.
pub const SERVER: &str = "10.77.0.1";
/// Everybody's.
pub const EVERYBODY: &str = "10.77.0.0/24";
/// Nobody has it: what is sent there is lost without a word.
const NOWHERE: &str = "02:00:00:00:00:99";
/// By then a process that was started is in its namespace.
const BEGIN_MAX: Duration = Duration::from_secs(60);

/// What a cable does not carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// Anything.
    BothWays,
    /// What the machine sends; it still hears.
    ToServer,
    /// What the server sends; it still hears.
    FromServer,
}

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    /// A new one, with nothing in it.
    pub fn make() -> anyhow::Result<Self> {
        let mut command = mortal(&["unshare", "--net", "sleep", "infinity"]);
        let holder = command.spawn().context("cannot start unshare")?;
        let namespace = Self { holder };
        let ours = std::fs::read_link("/proc/self/ns/net")?;
        let is_in = || Ok(std::fs::read_link(namespace.file()).is_ok_and(|its| its != ours));
        anyhow::ensure!(
            clock::becomes(BEGIN_MAX, is_in)?,
            "no network namespace can be made here"
        );
        Ok(namespace)
    }

    /// The file that names it.
    pub fn file(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holder.id()))
    }

    fn ip(&self, words: &str) -> anyhow::Result<()> {
        let enter = format!("--net={}", self.file().display());
        let words: Vec<&str> = [enter.as_str(), "ip"]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        let answer = finish(&mut plain(Path::new("nsenter"), &words))?;
        anyhow::ensure!(
            answer.code == 0,
            "{}: {}",
            words.join(" "),
            answer.stderr.trim()
        );
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The switch.
#[derive(Debug)]
pub struct Network {
    hub: Namespace,
}

/// A machine's end of its cable, and the machine's network.
#[derive(Debug)]
pub struct Cable {
    number: usize,
    namespace: Namespace,
    cut: Option<Cut>,
}

impl Network {
    /// Why there can be none here.
    pub fn refusal() -> Option<String> {
        let made = Self::make().and_then(|network| network.plug(1).map(drop));
        made.err()
            .map(|error| format!("no networks can be made here (root only): {error:#}"))
    }

    /// A new one with the server's address.
    pub fn make() -> anyhow::Result<Self> {
        let hub = Namespace::make()?;
        hub.ip("link set lo up")?;
        hub.ip("link add switch type bridge")?;
        hub.ip("link set switch up")?;
        hub.ip(&format!("address add {SERVER}/24 dev switch"))?;
        Ok(Self { hub })
    }

    /// Where the server is.
    pub fn file(&self) -> PathBuf {
        self.hub.file()
    }

    /// A cable to a new machine's network.
    pub fn plug(&self, number: usize) -> anyhow::Result<Cable> {
        let namespace = Namespace::make()?;
        let pid = namespace.holder.id();
        self.hub.ip(&format!(
            "link add m{number} type veth peer name eth0 netns {pid}"
        ))?;
        self.hub
            .ip(&format!("link set m{number} master switch up"))?;
        namespace.ip("link set lo up")?;
        namespace.ip(&format!("address add {}/24 dev eth0", address(number)))?;
        namespace.ip("link set eth0 up")?;
        Ok(Cable {
            number,
            namespace,
            cut: None,
        })
    }

    /// Cuts a cable.
    pub fn cut(&self, cable: &mut Cable, cut: Cut) -> anyhow::Result<()> {
        self.mend(cable)?;
        let number = cable.number;
        match cut {
            Cut::BothWays => self.hub.ip(&format!("link set m{number} down"))?,
            Cut::ToServer => cable.namespace.ip(&astray(SERVER, "eth0"))?,
            Cut::FromServer => self.hub.ip(&astray(&address(number), "switch"))?,
        }
        cable.cut = Some(cut);
        Ok(())
    }

    /// Mends it, where it is cut.
    pub fn mend(&self, cable: &mut Cable) -> anyhow::Result<()> {
        let number = cable.number;
        match cable.cut.take() {
            None => Ok(()),
            Some(Cut::BothWays) => self.hub.ip(&format!("link set m{number} up")),
            Some(Cut::ToServer) => cable.namespace.ip(&format!("neigh del {SERVER} dev eth0")),
            Some(Cut::FromServer) => self
                .hub
                .ip(&format!("neigh del {} dev switch", address(number))),
        }
    }
}

impl Cable {
    /// The machine's network.
    pub fn file(&self) -> PathBuf {
        self.namespace.file()
    }
}

fn address(number: usize) -> String {
    format!("10.77.0.{}", number + 10)
}

/// Frames to that address go to nobody.
fn astray(address: &str, device: &str) -> String {
    format!("neigh replace {address} lladdr {NOWHERE} nud permanent dev {device}")
}

/// A program that is killed when this thread ends, however it ends.
pub(super) fn mortal(words: &[&str]) -> Command {
    plain(
        Path::new("setpriv"),
        &[&["--pdeathsig", "KILL"], words].concat(),
    )
}
