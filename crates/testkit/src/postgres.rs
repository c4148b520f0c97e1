//! A PostgreSQL of one's own: from Debian's package, in a temporary folder, on a free port; never the
//! system's service.
//!
//! Ended by a guardian that notices when whoever started it is gone, be it by SIGKILL. Stands by
//! itself, so that tests of any crate can take it in by its path.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Attempts to start a server whose predecessor was killed and whose children still go.
const STARTS_MAX: u32 = 20;

/// How much a server does against a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As it comes: what is measured.
    Synced,
    /// Faster: survives everything but the end of the machine, which no test here brings about.
    Unsynced,
}

/// A network of its own that a server is in, instead of the machine's loopback.
#[derive(Debug, Clone)]
pub struct Place {
    /// The network namespace, as a file.
    pub namespace: PathBuf,
    /// Where it listens there.
    pub address: String,
    /// Who may come, such as `10.0.0.0/24`.
    pub callers: String,
}

/// One server.
#[derive(Debug)]
pub struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    user: Option<(u32, u32)>,
    durability: Durability,
    place: Option<Place>,
    /// Ends the server and removes the folder when this end of its pipe is closed.
    guardian: Option<Child>,
}

impl Cluster {
    /// The one that all tests of this process share; none, loudly, where the package is missing.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED
            .get_or_init(|| Self::start(Durability::Unsynced))
            .as_ref()
    }

    /// A new one.
    pub fn start(durability: Durability) -> Option<Self> {
        Self::start_with(durability, false, None)
    }

    /// A new one in another network; as root. From here it is reached by its Unix socket alone.
    pub fn start_in(place: Place, durability: Durability) -> Option<Self> {
        Self::start_with(durability, false, Some(place))
    }

    /// A new one that speaks TLS, with a certificate for `localhost` that it signed itself
    /// (`server.crt` in its folder); none, loudly, without `openssl`.
    pub fn start_with_tls(durability: Durability) -> Option<Self> {
        Self::start_with(durability, true, None)
    }

    fn start_with(durability: Durability, tls: bool, place: Option<Place>) -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!("SKIPPED: there is no PostgreSQL (install the package postgresql)");
            return None;
        };
        let folder = tempfile::Builder::new()
            .prefix("relight-pg-")
            .tempdir()
            .expect("a folder");
        let folder = folder.keep();
        let user = unprivileged(&folder);
        let (port, guardian) = (free_port(), None);
        let mut cluster = Self {
            programs,
            folder,
            port,
            user,
            durability,
            place,
            guardian,
        };
        cluster.guardian = Some(cluster.guard());
        let certificate = tls.then(|| cluster.make_certificate());
        if certificate == Some(false) {
            eprintln!("SKIPPED: TLS to PostgreSQL (install the package openssl)");
            return None;
        }
        cluster.init(tls);
        cluster.start_server();
        Some(cluster)
    }

    /// A hot standby of this one, streaming from it under this name, on a port of its own.
    pub fn standby(&self, name: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("relight-pg-")
            .tempdir()
            .expect("a folder");
        let folder = folder.keep();
        let user = unprivileged(&folder);
        let (programs, durability) = (self.programs.clone(), self.durability);
        let (port, place, guardian) = (free_port(), None, None);
        let mut standby = Self {
            programs,
            folder,
            port,
            user,
            durability,
            place,
            guardian,
        };
        standby.guardian = Some(standby.guard());
        let mut copy = standby.as_owner(&standby.program("pg_basebackup"));
        copy.arg("-D")
            .arg(standby.folder.join("data"))
            .args(["-R", "-X", "stream", "-c", "fast"]);
        copy.args([
            "-h",
            "127.0.0.1",
            "-U",
            "relight",
            "-p",
            &self.port.to_string(),
        ]);
        let output = copy.output().expect("pg_basebackup runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let folder = standby.folder.display();
        // The last line counts; a standby tells the primary its cluster's name.
        standby.configure(&format!(
            "port = {}\nunix_socket_directories = '{folder}'\ncluster_name = '{name}'\n\
             synchronous_standby_names = ''\n",
            standby.port,
        ));
        standby.start_server();
        standby
    }

    /// Has a standby become a server that can be written to.
    pub fn promote(&self) {
        let mut promote = self.as_owner(&self.program("pg_ctl"));
        promote
            .arg("-D")
            .arg(self.folder.join("data"))
            .args(["-w", "-t", "60", "-s", "promote"]);
        promote.stdout(Stdio::null()).stderr(Stdio::null());
        assert!(
            promote.status().expect("pg_ctl runs").success(),
            "the standby is promoted"
        );
    }

    /// Freezes whatever sends to standbys: from now on they get nothing, as if the network were held up.
    pub fn freeze_senders(&self) {
        let pids = self.sql("SELECT pid FROM pg_stat_replication");
        let frozen = command(Path::new("kill"))
            .arg("-STOP")
            .args(pids.lines())
            .status();
        assert!(
            frozen.is_ok_and(|status| status.success()),
            "there is a standby to hold up"
        );
    }

    /// Where it is, by TCP; `rest` begins with `?` where there is more to say.
    pub fn url(&self, rest: &str) -> String {
        format!(
            "postgres://relight@{}:{}/postgres{rest}",
            self.address(),
            self.port
        )
    }

    /// Where it is, by its Unix socket.
    pub fn socket_url(&self) -> String {
        let (folder, port) = (self.folder.display(), self.port);
        format!("postgres://relight@/postgres?host={folder}&port={port}&sslmode=disable")
    }

    fn address(&self) -> &str {
        self.place
            .as_ref()
            .map_or("127.0.0.1", |place| &place.address)
    }

    /// Its port on the loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder, with `server.crt` where TLS was asked for.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A program of its version, such as `psql` or `pgbench`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// The same, ready to be run.
    pub fn command(&self, name: &str) -> Command {
        command(&self.program(name))
    }

    /// Runs SQL as its owner; the answer as plain lines.
    pub fn sql(&self, sql: &str) -> String {
        let host = match self.place {
            Some(_) => self.folder.display().to_string(),
            None => self.address().to_owned(),
        };
        let target = format!(
            "host={host} port={} user=relight dbname=postgres",
            self.port
        );
        let mut psql = command(&self.program("psql"));
        psql.args([
            "-X",
            "-A",
            "-t",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            sql,
            &target,
        ]);
        let output = psql.output().expect("psql runs");
        assert!(
            output.status.success(),
            "{sql}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// SIGKILL to all its processes at once: nothing is said, nothing is put in order.
    pub fn kill(&self) {
        self.signal("-KILL");
    }

    /// All its processes stand still: connections are taken by the kernel, and nothing is answered.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// They go on.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let file = self.folder.join("data/postmaster.pid");
        let text = std::fs::read_to_string(file).expect("the server runs");
        let leader = text
            .lines()
            .next()
            .expect("its first line is the pid")
            .to_owned();
        let mut all = vec![leader.clone()];
        all.extend(children(&leader));
        let sent = command(Path::new("kill"))
            .arg(signal)
            .args(&all)
            .stderr(Stdio::null())
            .status();
        assert!(sent.is_ok(), "kill runs");
    }

    /// Starts it again after `kill`.
    pub fn start_server(&self) {
        for _ in 0..STARTS_MAX {
            let data = self.folder.join("data");
            let mut start = self.as_owner(&self.program("pg_ctl"));
            start
                .arg("-D")
                .arg(&data)
                .args(["-w", "-t", "60", "-s", "start", "-l"]);
            start
                .arg(self.folder.join("log"))
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if start.status().expect("pg_ctl runs").success() {
                return;
            }
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        panic!("PostgreSQL does not start:\n{log}");
    }

    /// From now on this role is asked for its password.
    pub fn require_passwords_of(&self, role: &str) {
        let file = self.folder.join("data/pg_hba.conf");
        let text = std::fs::read_to_string(&file).expect("initdb made it");
        let line = format!("host all {role} 127.0.0.1/32 scram-sha-256\n");
        std::fs::write(&file, line + &text).expect("it can be written");
        self.sql("SELECT pg_reload_conf()");
    }

    /// Whether there was a program to make one.
    fn make_certificate(&self) -> bool {
        let lines = "[req]\ndistinguished_name = name\nx509_extensions = more\nprompt = no\n\
                     [name]\nCN = localhost\n\
                     [more]\nsubjectAltName = DNS:localhost\nbasicConstraints = critical,CA:FALSE\n";
        let config = self.folder.join("openssl.conf");
        std::fs::write(&config, lines).expect("it can be written");
        let mut openssl = self.as_owner(Path::new("openssl"));
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ]);
        openssl
            .args(["-nodes", "-days", "2", "-config"])
            .arg(&config)
            .arg("-keyout");
        openssl
            .arg(self.folder.join("server.key"))
            .arg("-out")
            .arg(self.folder.join("server.crt"));
        openssl.stdout(Stdio::null()).stderr(Stdio::null());
        openssl.status().is_ok_and(|status| status.success())
    }

    fn init(&self, tls: bool) {
        let data = self.folder.join("data");
        let mut init = self.as_owner(&self.program("initdb"));
        init.arg("-D")
            .arg(&data)
            .args(["-U", "relight", "-A", "trust", "-E", "UTF8"]);
        init.args(["--locale=C", "-N"]);
        let output = init.output().expect("initdb runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let fsync = if self.durability == Durability::Synced {
            "on"
        } else {
            "off"
        };
        let folder = self.folder.display();
        let settings = match tls {
            true => format!(
                "ssl = on\nssl_cert_file = '{folder}/server.crt'\nssl_key_file = '{folder}/server.key'"
            ),
            false => String::new(),
        };
        let lines = format!(
            "listen_addresses = '{}'\nport = {}\nunix_socket_directories = '{folder}'\n\
             max_connections = 400\nshared_buffers = '128MB'\nfsync = {fsync}\n\
             log_min_messages = fatal\n{settings}\n",
            self.address(),
            self.port,
        );
        self.configure(&lines);
        if let Some(place) = &self.place {
            self.admit(&place.callers);
        }
    }

    /// Lets these in without a password.
    fn admit(&self, callers: &str) {
        let file = self.folder.join("data/pg_hba.conf");
        let text = std::fs::read_to_string(&file).expect("initdb made it");
        let line = format!("\nhost all all {callers} trust\n");
        std::fs::write(&file, text + &line).expect("it can be written");
    }

    fn configure(&self, lines: &str) {
        let file = self.folder.join("data/postgresql.conf");
        let mut text = std::fs::read_to_string(&file).expect("initdb made it");
        text.push_str(lines);
        std::fs::write(&file, text).expect("it can be written");
    }

    /// A server that was killed and of whose death nobody took note is a pid without a program.
    fn guard(&self) -> Child {
        let script = "cat >/dev/null
            pid=$(head -n 1 \"$0/data/postmaster.pid\" 2>/dev/null) && kill -QUIT \"$pid\"
            while [ -e \"$0/data/postmaster.pid\" ] && [ -e \"/proc/$pid/exe\" ]; do sleep 0.1; done
            rm -rf \"$0\"";
        let mut guard = command(Path::new("sh"));
        guard.arg("-c").arg(script).arg(&self.folder);
        // A signal to the tests' group must not end it before its work is done.
        std::os::unix::process::CommandExt::process_group(&mut guard, 0);
        guard
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        guard.spawn().expect("sh runs")
    }

    /// PostgreSQL refuses to run as root.
    fn as_owner(&self, program: &Path) -> Command {
        let Some((uid, gid)) = self.user else {
            return command(program);
        };
        let mut wrapped = match &self.place {
            Some(place) => {
                let mut entered = command(Path::new("nsenter"));
                entered
                    .arg(format!("--net={}", place.namespace.display()))
                    .arg("setpriv");
                entered
            }
            None => command(Path::new("setpriv")),
        };
        wrapped
            .arg(format!("--reuid={uid}"))
            .arg(format!("--regid={gid}"));
        wrapped
            .arg("--clear-groups")
            .arg(program)
            .current_dir(&self.folder);
        wrapped
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut guardian) = self.guardian.take() {
            drop(guardian.stdin.take());
            // It has nothing left to say.
            let _ = guardian.wait();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "programs of the test's own ground, not of the product"
)]
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// The processes whose parent this is.
fn children(leader: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc")
        .expect("there is a /proc")
        .flatten();
    let pids = all.filter_map(|entry| entry.file_name().into_string().ok());
    let is_child = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().nth(1) == Some(leader)
    };
    pids.filter(is_child).collect()
}

/// The newest version's programs.
fn programs() -> Option<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            let programs = entry.path().join("bin");
            programs
                .join("postgres")
                .exists()
                .then_some((version, programs))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, programs)| programs)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
    listener.local_addr().expect("it is bound").port()
}

/// As root: who owns the folder and the server; nobody else where we are not root.
fn unprivileged(folder: &Path) -> Option<(u32, u32)> {
    let is_root = std::fs::metadata(folder).expect("it was made").uid() == 0;
    if !is_root {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("the system has users");
    let ids = |name: &str| {
        let line = users
            .lines()
            .find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
        Some((fields.next()??, fields.next()??))
    };
    let (uid, gid) = ids("postgres")
        .or_else(|| ids("nobody"))
        .expect("nobody is somebody");
    chown(folder, Some(uid), Some(gid)).expect("root may");
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(folder, mode).expect("root may");
    Some((uid, gid))
}

/// Names that no other test of this process has.
pub fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
