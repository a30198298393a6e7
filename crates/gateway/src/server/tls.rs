//! TLS certificate and key, which are read again on SIGHUP.
//!
//! Promise: files that do not fit each other are refused with the reason; at a later reload the old ones stay in use.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use berth_api::Problem;
use berth_host::file_permissions::{self, UntrustedFile};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Files of the certificate and its key (PEM).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The certificate, followed by its intermediate certificates.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// The files, and the configuration made of them.
#[derive(Debug)]
pub(super) struct ReloadableTls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl ReloadableTls {
    pub(super) fn load(files: TlsFiles) -> Result<Self, Problem> {
        let config = RwLock::new(read(&files)?);
        Ok(Self { files, config })
    }

    /// Reads the files again; keeps the old configuration if that fails.
    pub(super) fn reload(&self) -> Result<(), Problem> {
        let config = read(&self.files)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone().into()
    }
}

fn read(files: &TlsFiles) -> Result<Arc<ServerConfig>, Problem> {
    let trouble = |path: &Path, what: &str| {
        Problem::usage(format!("{} cannot be used for TLS: {what}", path.display()))
            .hint("both files are PEM: `-----BEGIN CERTIFICATE-----` and `-----BEGIN PRIVATE KEY-----`")
    };
    let certs: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect)
        .map_err(|error| trouble(&files.cert, &why(&error)))?;
    if certs.is_empty() {
        return Err(trouble(&files.cert, "the file has no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| {
        trouble(
            &files.key,
            &match error {
                rustls_pki_types::pem::Error::NoItemsFound => "the file has no private key in it".to_owned(),
                error => why(&error),
            },
        )
    })?;
    is_secret(&files.key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| trouble(&files.cert, &error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(certs, key);
    let mut config = config.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            trouble(&files.key, &format!("it is not the key of {}", files.cert.display()))
        }
        error => trouble(&files.cert, &error.to_string()),
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Refuses a key that other accounts can read. A missing key passes here: reading it fails later, with its own error.
fn is_secret(key: &Path) -> Result<(), Problem> {
    let judged = std::fs::File::open(key).and_then(|file| file_permissions::check_read_access(&file));
    let Ok(Err(why)) = judged else { return Ok(()) };
    let file = key.display();
    let hint = match why {
        UntrustedFile::Owner(_) => format!("make the file yours with `chown \"$(id -un)\" {file}`"),
        UntrustedFile::Mode(_) => format!("close it to others: `chmod 600 {file}`"),
    };
    Err(Problem::usage(format!("the TLS key {file} is not used: {why}")).hint(hint))
}

fn why(error: &rustls_pki_types::pem::Error) -> String {
    match error {
        rustls_pki_types::pem::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}
