//! Addresses of the record: `postgres://role:password@host1,host2/database?sslmode=verify-full&sslrootcert=FILE`.
//!
//! Promise: a password never leaves the process, and is sent only to a server whose certificate fits its name, or to this
//! machine if the URL says `sslmode=disable`. Other modes of encryption are rejected: they do not check the name.
//! Start with [`FleetUrl::parse`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Limit of one attempt to connect, and of silence on a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle time after which the kernel checks that the server is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// Settings of each connection. A backend whose client is gone ends while it waits for a row lock, so that repeated calls do
/// not pile up; and a warning is always sent, whatever the settings of the role say.
const SERVER_OPTIONS: &str = "-c client_connection_check_interval=2s -c client_min_messages=notice";
/// Certificates of the distribution, for `sslrootcert=system`.
const SYSTEM_CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A parsed address. Its `Debug` form has no password.
#[derive(Clone)]
pub struct FleetUrl {
    /// One configuration for each server.
    pub(crate) servers: Vec<Config>,
    /// Absent on a local connection without encryption.
    pub(crate) tls: Option<MakeRustlsConnect>,
}

/// Reason why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadFleetUrl {
    /// The text is not an address of PostgreSQL.
    #[error("not a valid address of PostgreSQL: {0}")]
    Malformed(String),
    /// The mode of encryption does not check the server's certificate.
    #[error("`sslmode={0}` does not check the server: use `verify-full`, or `disable` on this machine")]
    WeakMode(String),
    /// An unencrypted connection to another machine.
    #[error("`sslmode=disable` is only for a Unix socket or a loopback address")]
    NotLocal,
    /// `verify-full` without certificates to check against.
    #[error("add `sslrootcert=FILE` with the certificate of the server's authority, or `sslrootcert=system`")]
    NoRootCertificate,
    /// The file with the certificates cannot be used.
    #[error("cannot use the certificates of {path}: {cause}")]
    RootCertificate {
        /// Path of the file.
        path: PathBuf,
        /// Reason, for people.
        cause: String,
    },
}

impl FleetUrl {
    /// Parses an address, and reads the certificates that it names.
    pub fn parse(text: &str) -> Result<Self, BadFleetUrl> {
        let malformed = |cause: &str| BadFleetUrl::Malformed(cause.to_owned());
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(malformed("it begins with `postgres://`"));
        }
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut mode, mut roots, mut rest) = ("verify-full".to_owned(), None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = value.to_owned(),
                Some(("sslrootcert", value)) => roots = Some(decoded(value).ok_or(malformed("sslrootcert"))?),
                // The parser below takes one host for each parameter.
                Some(("host", list)) => rest.extend(list.split(',').map(|host| format!("host={host}"))),
                Some(_) | None => rest.push(pair.to_owned()),
            }
        }
        let all: Config = format!("{address}?{}", rest.join("&"))
            .parse()
            .map_err(|error| BadFleetUrl::Malformed(super::describe(&error)))?;
        let tls = match mode.as_str() {
            "disable" if all.get_hosts().iter().all(is_local) => None,
            "disable" => return Err(BadFleetUrl::NotLocal),
            "verify-full" => Some(MakeRustlsConnect::new(verify_full(roots.as_deref())?)),
            weak => return Err(BadFleetUrl::WeakMode(weak.to_owned())),
        };
        let servers =
            servers(&all, tls.is_some()).ok_or(malformed("one host is needed, and a port for each"))?;
        Ok(Self { servers, tls })
    }
}

impl fmt::Debug for FleetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> =
            self.servers.iter().map(|server| (server.get_hosts(), server.get_ports())).collect();
        f.debug_struct("FleetUrl").field("servers", &hosts).finish_non_exhaustive()
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
    }
}

/// One configuration for each host: the choice among them is ours, by timeline.
fn servers(all: &Config, is_encrypted: bool) -> Option<Vec<Config>> {
    let (hosts, ports) = (all.get_hosts(), all.get_ports());
    if hosts.is_empty() || !all.get_hostaddrs().is_empty() || (ports.len() > 1 && ports.len() != hosts.len())
    {
        return None;
    }
    let server = |(index, host): (usize, &Host)| {
        let mut config = Config::new();
        match host {
            Host::Tcp(name) => config.host(name),
            Host::Unix(path) => config.host_path(path),
        };
        config.port(*ports.get(index).or(ports.first()).unwrap_or(&5432));
        if let Some(user) = all.get_user() {
            config.user(user);
        }
        if let Some(password) = all.get_password() {
            config.password(password);
        }
        if let Some(database) = all.get_dbname() {
            config.dbname(database);
        }
        config.ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable });
        config.application_name("berth").connect_timeout(CONNECT_TIMEOUT).options(SERVER_OPTIONS);
        config.keepalives_idle(KEEPALIVE_IDLE).tcp_user_timeout(CONNECT_TIMEOUT * 3);
        config
    };
    Some(hosts.iter().enumerate().map(server).collect())
}

fn verify_full(roots: Option<&str>) -> Result<ClientConfig, BadFleetUrl> {
    let path = match roots {
        None => return Err(BadFleetUrl::NoRootCertificate),
        Some("system") => {
            let known = SYSTEM_CERTIFICATES.iter().map(PathBuf::from);
            known.into_iter().find(|path| path.exists()).ok_or(BadFleetUrl::NoRootCertificate)?
        }
        Some(path) => PathBuf::from(path),
    };
    let trusted = certificates(&path).map_err(|cause| BadFleetUrl::RootCertificate { path, cause })?;
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
    let builder = builder.expect("ring has the default versions of TLS");
    Ok(builder.with_root_certificates(trusted).with_no_client_auth())
}

fn certificates(path: &Path) -> Result<RootCertStore, String> {
    let mut trusted = RootCertStore::empty();
    let read = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    for certificate in read {
        let certificate = certificate.map_err(|error| error.to_string())?;
        trusted.add(certificate).map_err(|error| error.to_string())?;
    }
    if trusted.is_empty() { Err("the file has no certificate".to_owned()) } else { Ok(trusted) }
}

/// A value of a URL with its `%2F` and the like replaced.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(after.get(..2)?, 16).ok()?);
        rest = &after[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::{BadFleetUrl, FleetUrl, decoded};

    #[test]
    fn an_unencrypted_connection_is_only_for_this_machine() {
        for local in
            ["postgres://u@127.0.0.1/d", "postgres://u@%2Frun%2Fpg/d", "postgres:///d?host=/a,/b&user=u"]
        {
            let sep = if local.contains('?') { '&' } else { '?' };
            let parsed = FleetUrl::parse(&format!("{local}{sep}sslmode=disable"));
            let count = parsed.expect(local).servers.len();
            assert_eq!(count, 1 + usize::from(local.contains("/b")), "{local}");
        }
        let remote = FleetUrl::parse("postgres://u@127.0.0.1,db.example/d?sslmode=disable");
        assert!(matches!(remote, Err(BadFleetUrl::NotLocal)), "{remote:?}");
    }

    #[test]
    fn modes_that_do_not_check_the_name_of_the_server_are_rejected() {
        for weak in ["allow", "prefer", "require", "verify-ca"] {
            let parsed = FleetUrl::parse(&format!("postgres://u@db.example/d?sslmode={weak}"));
            assert!(matches!(parsed, Err(BadFleetUrl::WeakMode(_))), "{weak}: {parsed:?}");
        }
        let without = FleetUrl::parse("postgres://u@db.example/d");
        assert!(matches!(without, Err(BadFleetUrl::NoRootCertificate)), "{without:?}");
    }

    #[test]
    fn a_password_is_not_in_the_debug_form_or_in_an_error() {
        let parsed = FleetUrl::parse("postgres://u:secret@localhost/d?sslmode=disable").expect("valid");
        assert!(!format!("{parsed:?}").contains("secret"));
        let odd =
            FleetUrl::parse("postgres://u:secret@localhost:port/d?sslmode=disable").expect_err("not a port");
        assert!(!odd.to_string().contains("secret"), "{odd}");
    }

    #[test]
    fn a_percent_code_stands_for_a_byte() {
        assert_eq!(decoded("%2Fa%20b").as_deref(), Some("/a b"));
        assert_eq!(decoded("%2"), None);
    }
}
