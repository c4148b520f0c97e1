//! TLS, for a daemon that is reached from elsewhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use relight_runtime::os::file;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// More than any chain of certificates has.
const BYTES_MAX: u64 = 1 << 20;

/// A certificate with its key.
#[derive(Clone)]
pub struct Tls(pub(crate) TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls(…)")
    }
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not what it should be.
    #[error("cannot use {}: {why}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// Certificate and key do not go together.
    #[error("the certificate cannot be used: {0}")]
    Unusable(String),
}

impl Tls {
    /// From two PEM files: the chain, its own certificate first, and the key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let cannot = |file: &Path, why: String| TlsError::File {
            file: file.to_owned(),
            why,
        };
        let read = |path: &Path| {
            let text = file::open_regular(path).and_then(|file| file::read_text(file, BYTES_MAX));
            text.map_err(|error| cannot(path, error.to_string()))
        };
        let (chain_text, key_text) = (read(certificate)?, read(key)?);
        let chain = CertificateDer::pem_slice_iter(chain_text.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| cannot(certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(cannot(
                certificate,
                "there is no certificate in it".to_owned(),
            ));
        }
        let key_der = PrivateKeyDer::from_pem_slice(key_text.as_bytes())
            .map_err(|error| cannot(key, error.to_string()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(chain, key_der)
            })
            .map_err(|error| TlsError::Unusable(error.to_string()))?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}
