//! The daemon as other machines would reach it: TLS, with a token all the same.

use std::path::PathBuf;
use std::sync::Arc;

use relight_server::{Settings, Tls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::ground::Ground;

/// A certificate of these tests alone.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/api/tls")
        .join(name)
}

fn served() -> Ground {
    served_at("127.0.0.1:0")
}

fn served_at(address: &str) -> Ground {
    let tls = Some(Tls::load(&file("cert.pem"), &file("key.pem")).unwrap());
    Ground::with(Settings {
        tls,
        listen: Some(address.parse().unwrap()),
        allows_remote: true,
        ..Settings::default()
    })
}

/// Over TLS, by whoever trusts that certificate.
async fn send(ground: &Ground, request: String) -> String {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(file("cert.pem")).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(ground.address)
        .await
        .unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    // A server that closes without a goodbye has said everything already.
    let _ = stream.read_to_string(&mut text).await;
    text
}

#[tokio::test]
async fn over_tls_a_token_is_needed_all_the_same_and_the_cookie_is_secure() {
    let ground = served();
    let ask = |more: &str| {
        format!(
            "GET /api/me HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{more}\r\n",
            ground.address
        )
    };
    assert!(send(&ground, ask("")).await.starts_with("HTTP/1.1 401"));
    let token = format!("Authorization: Bearer {}\r\n", ground.token);
    assert!(send(&ground, ask(&token)).await.starts_with("HTTP/1.1 200"));
    let given = ground
        .ask("POST", "/api/login-codes")
        .over_socket()
        .send()
        .ok();
    assert!(
        given["url"]
            .as_str()
            .unwrap()
            .starts_with("https://127.0.0.1:")
    );
    let body = serde_json::json!({"code": given["code"]}).to_string();
    let login = format!(
        "POST /api/login HTTP/1.1\r\nHost: {}\r\nOrigin: https://{}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        ground.address,
        ground.address,
        body.len()
    );
    let answer = send(&ground, login).await;
    assert!(answer.contains("; Secure"), "{answer}");
}

#[test]
fn one_who_speaks_no_tls_gets_no_answer() {
    let ground = served();
    assert_eq!(ground.ask("GET", "/api/health").send().status, 0);
    assert_eq!(
        ground.ask("GET", "/api/health").over_socket().send().status,
        200
    );
}

#[test]
fn a_file_that_is_no_certificate_is_named() {
    let error = Tls::load(&file("key.pem"), &file("key.pem"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("key.pem"), "{error}");
    assert!(Tls::load(&file("none.pem"), &file("key.pem")).is_err());
    let zero = PathBuf::from("/dev/zero");
    for (certificate, key) in [(&zero, &file("key.pem")), (&file("cert.pem"), &zero)] {
        let error = Tls::load(certificate, key).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}

#[test]
fn only_a_daemon_of_this_machine_tells_strangers_how_to_log_in() {
    for (address, is_told) in [("127.0.0.1:0", true), ("0.0.0.0:0", false)] {
        let ground = served_at(address);
        let health = ground.ask("GET", "/api/health").over_socket().send().ok();
        let command = format!("relight --home {} dashboard", ground.home.path().display());
        let told = is_told.then_some(command);
        assert_eq!(
            health["login_command"].as_str(),
            told.as_deref(),
            "{address}"
        );
    }
}
