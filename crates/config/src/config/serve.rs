//! `[serve]`: defaults of `berth serve`, which its options override.

use berth_api::Problem;

use super::registry::{KeySpec, TableSpec, ValueKind};
use super::table_reader::{ConfigValue, TableReader};

pub(super) const TABLE: TableSpec = TableSpec {
    path: "serve",
    about: "The gateway (`berth serve`), whose options override these keys; docs/gateway.md.",
    keys: &[
        KeySpec::new(
            "listen",
            ValueKind::Words,
            "Network addresses to listen on, besides the socket in the state directory",
        )
        .otherwise("only the socket")
        .example("[\"127.0.0.1:7070\"]"),
        KeySpec::new("tls_cert", ValueKind::Text, "The certificate for network addresses, a PEM file")
            .otherwise("no TLS")
            .example("\"/etc/berth/cert.pem\""),
        KeySpec::new("tls_key", ValueKind::Text, "The key of that certificate, a PEM file")
            .otherwise("no TLS")
            .example("\"/etc/berth/key.pem\""),
        KeySpec::new(
            "insecure_http",
            ValueKind::Switch,
            "Listen without TLS even where others could read the traffic",
        )
        .default("false"),
        KeySpec::new(
            "allow_hosts",
            ValueKind::Words,
            "Names under which clients may know the gateway, besides its addresses",
        )
        .otherwise("none")
        .example("[\"berth.example.org\"]"),
        KeySpec::new(
            "trusted_proxies",
            ValueKind::Words,
            "Addresses or networks of proxies whose X-Forwarded-For header names the client's address",
        )
        .otherwise("none: the header is ignored")
        .example("[\"127.0.0.1\", \"10.0.0.0/8\"]"),
        KeySpec::new("open_metrics", ValueKind::Switch, "Serve /metrics without a token").default("false"),
        KeySpec::new(
            "log_format",
            ValueKind::Choice(&["none", "text", "json"]),
            "One line for each request, on standard error",
        )
        .default("none"),
    ],
};

/// Settings of `[serve]`.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    pub listen: Vec<String>,
    pub tls_cert: Option<String>,
    pub tls_key: Option<String>,
    pub insecure_http: bool,
    pub allow_hosts: Vec<String>,
    pub trusted_proxies: Vec<String>,
    pub open_metrics: bool,
    pub log_format: ServeLogFormat,
}

/// Format of the request log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ServeLogFormat {
    /// No request log
    #[default]
    None,
    /// One readable line for each request
    Text,
    /// One JSON object for each request
    Json,
}

impl ServeLogFormat {
    /// Every format, in the order of the docs.
    pub const ALL: [Self; 3] = [Self::None, Self::Text, Self::Json];

    /// The format's name in the config file and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl ServeConfig {
    pub(crate) fn read(mut keys: TableReader<'_>) -> Result<Self, Problem> {
        let words =
            |found: Option<ConfigValue<Vec<String>>>| found.map(|found| found.value).unwrap_or_default();
        let read = Self {
            listen: words(keys.words("listen")?),
            tls_cert: keys.text("tls_cert")?.map(|found| found.value),
            tls_key: keys.text("tls_key")?.map(|found| found.value),
            insecure_http: keys.switch("insecure_http")?.unwrap_or_default(),
            allow_hosts: words(keys.words("allow_hosts")?),
            trusted_proxies: words(keys.words("trusted_proxies")?),
            open_metrics: keys.switch("open_metrics")?.unwrap_or_default(),
            log_format: keys
                .choice("log_format", &ServeLogFormat::ALL, ServeLogFormat::name)?
                .unwrap_or_default(),
        };
        keys.finish()?;
        Ok(read)
    }
}
