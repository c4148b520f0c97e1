//! The servers of an address, tried in order, starting with the last usable one.
//!
//! Each server has its own time limit up to the first query, so that a frozen or unreachable one
//! does not block the others.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, Socket};

use super::connection::within;
use super::error::PostgresFailure;
use super::tls::{Encrypted, PostgresTls};
use super::url::PostgresUrl;
use crate::contract::StoreError;
use relight_core::error_code::with_causes;

/// Default time limit of one server.
const ONE_WAIT: Duration = Duration::from_secs(5);
/// The same if there are other servers.
const ONE_OF_MANY_WAIT: Duration = Duration::from_secs(2);

/// Error for a server without TLS that would get the password in clear text.
const NO_PLAIN_PASSWORD: &str = "the server offers no TLS, and the password would cross the network \
     unencrypted; switch TLS on in the server, or allow it with sslmode=disable in the address";

/// The future that drives a client.
pub(super) type Driver = tokio_postgres::Connection<Socket, Encrypted<Socket>>;

/// All servers of an address.
#[derive(Debug)]
pub(super) struct ServerHosts {
    config: Config,
    /// The URL allows a password to be sent unencrypted.
    may_send_plainly: bool,
    /// The last usable server, tried first.
    first: Mutex<ServerAddress>,
}

/// One server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ServerAddress {
    /// Its index in the address.
    place: usize,
    /// A resolved address; none for a Unix socket.
    address: Option<IpAddr>,
}

impl ServerHosts {
    pub(super) fn new(url: &PostgresUrl) -> Self {
        Self {
            config: url.config.clone(),
            may_send_plainly: url.says_mode,
            first: Mutex::new(ServerAddress {
                place: 0,
                address: None,
            }),
        }
    }

    /// Connects to the first usable server.
    pub(super) async fn connect(
        &self,
        tls: &PostgresTls,
        store: &str,
    ) -> Result<(Client, Driver), PostgresFailure> {
        let mut failures = Vec::new();
        for place in self.order() {
            let targets = match self.targets(place).await {
                Ok(targets) => targets,
                Err(failure) => {
                    failures.push((place, failure));
                    continue;
                }
            };
            for target in targets {
                // The caller may cancel; then the next server is tried first.
                self.ask_first(self.after(place));
                match self.connect_to(target, tls, store).await {
                    Ok(connected) => {
                        self.ask_first(target);
                        return Ok(connected);
                    }
                    Err(failure) => failures.push((place, failure)),
                }
            }
        }
        Err(self.of_all(failures))
    }

    async fn connect_to(
        &self,
        target: ServerAddress,
        tls: &PostgresTls,
        store: &str,
    ) -> Result<(Client, Driver), PostgresFailure> {
        let config = self.only(target);
        let connected = within(self.wait(), config.connect(tls.clone())).await?;
        connected.map_err(|error| {
            // The library reports it in no other way.
            let has_no_tls = with_causes(&error).contains("server does not support TLS");
            if has_no_tls && self.needs_tls(target) {
                let (place, why) = (store.to_owned(), NO_PLAIN_PASSWORD.to_owned());
                return PostgresFailure::Refused(StoreError::Unsuitable { place, why });
            }
            PostgresFailure::of(store, &error)
        })
    }

    /// Whether TLS is required: a password is only sent encrypted, unless the URL allows otherwise.
    fn needs_tls(&self, target: ServerAddress) -> bool {
        let is_beyond = target
            .address
            .is_some_and(|address| !address.to_canonical().is_loopback());
        is_beyond && self.config.get_password().is_some() && !self.may_send_plainly
    }

    /// Round robin from the last usable server.
    fn order(&self) -> Vec<usize> {
        let (first, count) = (self.first().place, self.config.get_hosts().len());
        (0..count)
            .map(|further| (first + further) % count)
            .collect()
    }

    fn after(&self, place: usize) -> ServerAddress {
        ServerAddress {
            place: (place + 1) % self.config.get_hosts().len(),
            address: None,
        }
    }

    /// All addresses of a server, the last usable one first.
    async fn targets(&self, place: usize) -> Result<Vec<ServerAddress>, PostgresFailure> {
        let at = |address| ServerAddress { place, address };
        let name = match &self.config.get_hosts()[place] {
            Host::Unix(_) => return Ok(vec![at(None)]),
            Host::Tcp(name) => name,
        };
        if let Some(address) = self.config.get_hostaddrs().get(place) {
            return Ok(vec![at(Some(*address))]);
        }
        let looking = tokio::net::lookup_host((name.as_str(), self.port(place)));
        let found = within(self.wait(), looking).await?;
        let found = found.map_err(|error| {
            PostgresFailure::Lost(format!("error connecting to server: {error}"))
        })?;
        let mut targets: Vec<ServerAddress> = found.map(|address| at(Some(address.ip()))).collect();
        let first = self.first();
        targets.sort_by_key(|target| *target != first);
        Ok(targets)
    }

    /// Time limit for connecting, authentication and the check for write access.
    fn wait(&self) -> Duration {
        let is_one = self.config.get_hosts().len() == 1;
        let usual = if is_one { ONE_WAIT } else { ONE_OF_MANY_WAIT };
        self.config.get_connect_timeout().copied().unwrap_or(usual)
    }

    fn port(&self, place: usize) -> u16 {
        let ports = self.config.get_ports();
        ports.get(place).or(ports.first()).copied().unwrap_or(5432)
    }

    fn first(&self) -> ServerAddress {
        *self
            .first
            .lock()
            .expect("nothing panics while it is locked")
    }

    fn ask_first(&self, target: ServerAddress) {
        *self
            .first
            .lock()
            .expect("nothing panics while it is locked") = target;
    }

    /// The configuration for one server.
    fn only(&self, target: ServerAddress) -> Config {
        let all = &self.config;
        let mut one = Config::new();
        match &all.get_hosts()[target.place] {
            Host::Tcp(name) => one.host(name),
            Host::Unix(folder) => one.host_path(folder),
        };
        if let Some(address) = target.address {
            one.hostaddr(address);
        }
        one.port(self.port(target.place))
            .connect_timeout(self.wait());
        all.get_user().map(|user| one.user(user));
        all.get_password().map(|password| one.password(password));
        all.get_dbname().map(|name| one.dbname(name));
        all.get_options().map(|options| one.options(options));
        all.get_application_name()
            .map(|name| one.application_name(name));
        all.get_tcp_user_timeout()
            .map(|wait| one.tcp_user_timeout(*wait));
        all.get_keepalives_interval()
            .map(|wait| one.keepalives_interval(wait));
        all.get_keepalives_retries()
            .map(|count| one.keepalives_retries(count));
        one.keepalives(all.get_keepalives())
            .keepalives_idle(all.get_keepalives_idle())
            .ssl_mode(if self.needs_tls(target) {
                SslMode::Require
            } else {
                all.get_ssl_mode()
            })
            .ssl_negotiation(all.get_ssl_negotiation())
            .target_session_attrs(all.get_target_session_attrs())
            .channel_binding(all.get_channel_binding());
        one
    }

    /// The error when no server is usable; a temporary error takes precedence, the last one first.
    fn of_all(&self, mut failures: Vec<(usize, PostgresFailure)>) -> PostgresFailure {
        let may_come_back = failures
            .iter()
            .any(|(_, failure)| matches!(failure, PostgresFailure::Lost(_)));
        if failures.len() == 1 || !may_come_back {
            let last = failures.pop().map(|(_, failure)| failure);
            let no_address = "error connecting to server: the name has no address";
            return last.unwrap_or_else(|| PostgresFailure::Lost(no_address.to_owned()));
        }
        let told = failures.into_iter().rev().map(|(place, failure)| {
            let why = match failure {
                PostgresFailure::Lost(why) => why,
                PostgresFailure::Again => "it is busy".to_owned(),
                PostgresFailure::Refused(error) => error.to_string(),
            };
            format!("{why} ({})", self.name(place))
        });
        PostgresFailure::Lost(told.collect::<Vec<String>>().join("; "))
    }

    fn name(&self, place: usize) -> String {
        match &self.config.get_hosts()[place] {
            Host::Tcp(name) => format!("{name}:{}", self.port(place)),
            Host::Unix(folder) => folder.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> ServerHosts {
        ServerHosts::new(&text.parse::<PostgresUrl>().unwrap())
    }

    #[test]
    fn a_password_leaves_the_machine_only_encrypted() {
        let mode = |url: &str, address: Option<&str>| {
            let address = address.map(|address| address.parse().unwrap());
            hosts(url)
                .only(ServerAddress { place: 0, address })
                .get_ssl_mode()
        };
        let (with, without) = ("postgres://ann:s3cret@db/work", "postgres://ann@db/work");
        for beyond in ["192.0.2.7", "2001:db8::7", "::ffff:192.0.2.7"] {
            assert_eq!(mode(with, Some(beyond)), SslMode::Require, "{beyond}");
            assert_eq!(mode(without, Some(beyond)), SslMode::Prefer, "{beyond}");
        }
        for near in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(mode(with, Some(near)), SslMode::Prefer, "{near}");
        }
        assert_eq!(
            mode("postgres://ann:s3cret@%2Frun/work", None),
            SslMode::Prefer
        );
        for (said, expected) in [("disable", SslMode::Disable), ("prefer", SslMode::Prefer)] {
            let url = format!("{with}?sslmode={said}");
            assert_eq!(mode(&url, Some("192.0.2.7")), expected);
        }
    }

    /// Says to everybody that it knows no TLS, as PostgreSQL does; what it was told after that.
    async fn without_tls(listener: tokio::net::TcpListener) -> Vec<u8> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut guest, _) = listener.accept().await.unwrap();
        let mut asked = [0; 8];
        guest.read_exact(&mut asked).await.unwrap();
        guest.write_all(b"N").await.unwrap();
        let mut told = Vec::new();
        guest.read_to_end(&mut told).await.unwrap();
        told
    }

    /// An address of this machine by which others reach it; none where it has no network.
    fn own_address() -> Option<IpAddr> {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
        // Sends nothing, and finds out from where it would be sent.
        socket.connect("192.0.2.1:9").ok()?;
        socket
            .local_addr()
            .ok()
            .map(|own| own.ip())
            .filter(|own| !own.is_loopback())
    }

    #[tokio::test]
    async fn a_server_without_tls_does_not_get_the_password() {
        let Some(own) = own_address() else {
            eprintln!("SKIPPED: this machine has no network");
            return;
        };
        let listener = tokio::net::TcpListener::bind((own, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(without_tls(listener));
        let url: PostgresUrl = format!("postgres://ann:s3cret@{own}:{port}/work")
            .parse()
            .unwrap();
        let refused = ServerHosts::new(&url)
            .connect(&PostgresTls::new(&url).unwrap(), "a store")
            .await;
        let why = match refused {
            Err(PostgresFailure::Refused(StoreError::Unsuitable { why, .. })) => why,
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("it is not a server"),
        };
        assert!(why.contains("sslmode=disable"), "{why}");
        assert_eq!(server.await.unwrap(), b"", "nothing was said after that");
    }

    #[test]
    fn one_alone_is_asked_as_the_address_asks_for() {
        let all = hosts(
            "postgres://ann:s3cret@db1:5433,db2:5434/work?hostaddr=10.0.0.1,10.0.0.2&sslmode=require\
             &options=-cgeqo%3Doff&channel_binding=require",
        );
        let address = Some("10.0.0.2".parse().unwrap());
        let one = all.only(ServerAddress { place: 1, address });
        let mut same = "postgres://ann:s3cret@db2:5434/work?hostaddr=10.0.0.2&sslmode=require\
                        &options=-cgeqo%3Doff&channel_binding=require"
            .parse::<PostgresUrl>()
            .unwrap()
            .config;
        same.target_session_attrs(all.config.get_target_session_attrs());
        same.connect_timeout(ONE_OF_MANY_WAIT);
        assert_eq!(one, same);
    }

    #[test]
    fn the_last_good_one_is_asked_first() {
        let all = hosts("postgres://a,b,c/work");
        assert_eq!(all.order(), [0, 1, 2]);
        all.ask_first(ServerAddress {
            place: 2,
            address: None,
        });
        assert_eq!(all.order(), [2, 0, 1]);
    }

    #[tokio::test]
    async fn one_that_was_given_up_in_the_middle_is_not_asked_first_again() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        let url: PostgresUrl = format!("postgres://127.0.0.1:{port},db2/work")
            .parse()
            .unwrap();
        let (all, tls) = (ServerHosts::new(&url), PostgresTls::new(&url).unwrap());
        tokio::select! {
            biased;
            _ = all.connect(&tls, "a store") => panic!("a silent server answers nothing"),
            _ = silent.accept() => {}
        }
        assert_eq!(all.order(), [1, 0]);
    }

    #[test]
    fn all_are_named_when_none_can_be_used() {
        let all = hosts("postgres://a,b/work");
        let lost = |why: &str| PostgresFailure::Lost(why.to_owned());
        let failure = all.of_all(vec![
            (0, lost("no answer within 2 s")),
            (1, lost("refused")),
        ]);
        let PostgresFailure::Lost(why) = failure else {
            panic!("{failure:?}")
        };
        insta::assert_snapshot!(why, @"refused (b:5432); no answer within 2 s (a:5432)");
    }
}
