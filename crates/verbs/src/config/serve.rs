//! `[serve]`: what `berth serve` does when nothing else is said.

use berth_api::Problem;

use super::keys::{Found, Keys};
use super::registry::{Key, Kind, Table};

pub(super) const TABLE: Table = Table {
    path: "serve",
    about: "The gateway (`berth serve`), whose options say the same and count over it; docs/gateway.md.",
    keys: &[
        Key::new(
            "listen",
            Kind::Words,
            "Network addresses to listen on, besides the socket in the state directory",
        )
        .otherwise("only the socket")
        .example("[\"127.0.0.1:7070\"]"),
        Key::new("tls_cert", Kind::Text, "The certificate for network addresses, a PEM file")
            .otherwise("no TLS")
            .example("\"/etc/berth/cert.pem\""),
        Key::new("tls_key", Kind::Text, "The key of that certificate, a PEM file")
            .otherwise("no TLS")
            .example("\"/etc/berth/key.pem\""),
        Key::new("insecure_http", Kind::Switch, "Listen without TLS also where others could read along")
            .default("false"),
        Key::new(
            "allow_hosts",
            Kind::Words,
            "Names under which clients may know the gateway, besides its addresses",
        )
        .otherwise("none")
        .example("[\"berth.example.org\"]"),
        Key::new(
            "trusted_proxies",
            Kind::Words,
            "Addresses or networks of proxies whose X-Forwarded-For says where a client is",
        )
        .otherwise("none: the header is ignored")
        .example("[\"127.0.0.1\", \"10.0.0.0/8\"]"),
        Key::new("open_metrics", Kind::Switch, "Serve /metrics without a token").default("false"),
        Key::new(
            "log_format",
            Kind::Choice(&["none", "text", "json"]),
            "One line for each request, on standard error",
        )
        .default("none"),
    ],
};

/// What `[serve]` says.
#[derive(Clone, Debug)]
pub struct ServeKeys {
    pub listen: Vec<String>,
    pub tls_cert: Option<String>,
    pub tls_key: Option<String>,
    pub insecure_http: bool,
    pub allow_hosts: Vec<String>,
    pub trusted_proxies: Vec<String>,
    pub open_metrics: bool,
    pub log_format: LogFormat,
}

/// How requests are told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// Not at all
    #[default]
    None,
    /// For people
    Text,
    /// For programs
    Json,
}

impl LogFormat {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Text, Self::Json];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl ServeKeys {
    pub(crate) fn read(mut keys: Keys<'_>) -> Result<Self, Problem> {
        let words = |found: Option<Found<Vec<String>>>| found.map(|found| found.value).unwrap_or_default();
        let read = Self {
            listen: words(keys.words("listen")?),
            tls_cert: keys.text("tls_cert")?.map(|found| found.value),
            tls_key: keys.text("tls_key")?.map(|found| found.value),
            insecure_http: keys.switch("insecure_http")?.unwrap_or_default(),
            allow_hosts: words(keys.words("allow_hosts")?),
            trusted_proxies: words(keys.words("trusted_proxies")?),
            open_metrics: keys.switch("open_metrics")?.unwrap_or_default(),
            log_format: keys.choice("log_format", &LogFormat::ALL, LogFormat::name)?.unwrap_or_default(),
        };
        keys.finish()?;
        Ok(read)
    }
}
