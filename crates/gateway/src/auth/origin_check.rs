//! Check of the origin of a request: the page that sent it.
//!
//! Promise: a page of another origin can change nothing and read nothing, not even one on another port of this machine.
//! There are never any CORS headers.
//! Start with [`check`].

use axum::http::{HeaderMap, Method, header};
use berth_api::Problem;

use super::allowed_hosts::HostAndPort;
use crate::http_problem::HttpProblem;

/// Prefix of the API. All other paths are pages, to which links from other origins may lead.
const API: &str = "/v1";

/// The parts of a request that this check needs.
#[derive(Debug)]
pub(crate) struct OriginCheck<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a HeaderMap,
    /// The host name in the request, which was checked before.
    pub(crate) host: &'a HostAndPort,
    /// True if the request came over TLS of this gateway.
    pub(crate) secure: bool,
}

impl OriginCheck<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap_or("?"))
    }

    /// True if the request changes nothing.
    fn is_safe_method(&self) -> bool {
        matches!(*self.method, Method::GET | Method::HEAD) && !self.headers.contains_key(header::UPGRADE)
    }

    /// True if the browser says that the request is from a page of this origin.
    fn is_same_origin_fetch(&self) -> bool {
        self.header("sec-fetch-site") == Some("same-origin")
    }

    /// True if this origin is our own: the host name of the request, over HTTP or HTTPS. HTTPS counts without TLS here,
    /// because a proxy may do TLS for us; but a request over TLS of our own cannot come from a page without.
    fn is_own(&self, origin: &str) -> bool {
        let (secure, host) = match (origin.strip_prefix("https://"), origin.strip_prefix("http://")) {
            (Some(host), _) => (true, host),
            (_, Some(host)) if !self.secure => (false, host),
            _ => return false,
        };
        let Some(host) = HostAndPort::parse(host) else { return false };
        host.name == self.host.name && host.port_or(secure) == self.host.port_or(secure)
    }

    /// True if the page that sent the request was loaded by HTTPS, from us or from a proxy in front of us.
    pub(crate) fn is_secure(&self) -> bool {
        self.secure || self.header("origin").is_some_and(|origin| origin.starts_with("https://"))
    }
}

/// Refuses requests from pages of other origins.
pub(crate) fn check(from: &OriginCheck<'_>) -> Result<(), HttpProblem> {
    let mut origins = from.headers.get_all(header::ORIGIN).iter();
    let origin = origins.next().map(|origin| origin.to_str().unwrap_or("?"));
    if origins.next().is_some() {
        return Err(HttpProblem::usage("the request has more than one `Origin` header"));
    }
    match origin {
        None => {}
        Some(origin) if from.is_own(origin) => {}
        // A form of a page without a referrer sends the origin `null`; another header shows that the page is ours.
        Some("null") if from.is_same_origin_fetch() => {}
        Some(origin) => return Err(foreign(&format!("a page of `{}`", origin.escape_debug()))),
    }
    match from.header("sec-fetch-site") {
        None | Some("same-origin") => Ok(()),
        // The user typed the address, or opened it from another program.
        Some("none") if from.is_safe_method() => Ok(()),
        // A link on another page may lead to our pages, but not to the API.
        Some(_) if from.is_safe_method() && is_visit(from) => Ok(()),
        Some(site) => Err(foreign(&format!("another page ({})", site.escape_debug()))),
    }
}

fn is_visit(from: &OriginCheck<'_>) -> bool {
    let is_api = from.path == API || from.path.starts_with("/v1/");
    !is_api
        && from.header("sec-fetch-mode") == Some("navigate")
        && from.header("sec-fetch-dest") == Some("document")
}

fn foreign(who: &str) -> HttpProblem {
    Problem::not_allowed(format!("{who} is not allowed to use this gateway"))
        .hint("only the gateway's own page may send an `Origin`; programs leave it out")
        .into()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    type Pair = (&'static str, &'static str);

    fn ask(method: Method, path: &str, host: &str, secure: bool, pairs: &[Pair]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let host = HostAndPort::parse(host).expect("a host");
        let from = OriginCheck { method: &method, path, headers: &headers, host: &host, secure };
        check(&from).is_ok()
    }

    #[test]
    fn an_origin_is_ours_by_scheme_name_and_port() {
        let post = |origin, host, secure| ask(Method::POST, "/v1/x", host, secure, &[("origin", origin)]);
        assert!(post("http://localhost:7070", "localhost:7070", false));
        assert!(post("http://LOCALHOST:7070", "localhost:7070", false));
        assert!(post("http://[::1]:7070", "[::1]:7070", false));
        assert!(post("https://berth.example.com", "berth.example.com", true));
        assert!(post("https://berth.example.com", "berth.example.com:443", true));
        assert!(post("https://berth.example.com", "berth.example.com", false), "a proxy does TLS");
        assert!(!post("http://berth.example.com", "berth.example.com", true), "never the other way round");
        for foreign in [
            "http://localhost:3000",
            "http://localhost",
            "http://127.0.0.1:7070",
            "https://evil.example",
            "null",
            "",
            "file://",
            "localhost:7070",
            "http://localhost:7070.evil.example",
            "http://x@localhost:7070",
        ] {
            assert!(!post(foreign, "localhost:7070", false), "{foreign}");
        }
    }

    #[test]
    fn the_fetch_metadata_of_a_browser_is_respected() {
        let get = |path, pairs: &[Pair]| ask(Method::GET, path, "localhost:7070", false, pairs);
        let visit = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert!(get("/", &visit), "a link on another page");
        assert!(!get("/v1/sessions", &visit), "the API is not a page");
        assert!(!get("/", &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]));
        let frame =
            [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        assert!(!get("/", &frame));
        assert!(!get("/v1/events", &[("sec-fetch-site", "same-site")]), "another port of the same machine");
        assert!(get("/v1/events", &[("sec-fetch-site", "same-origin")]));
        assert!(get("/v1/sessions", &[("sec-fetch-site", "none")]), "typed");
        let post = |pairs: &[Pair]| ask(Method::POST, "/login", "localhost:7070", false, pairs);
        assert!(!post(&[
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document")
        ]));
        assert!(post(&[("origin", "null"), ("sec-fetch-site", "same-origin")]));
        assert!(!post(&[("origin", "null"), ("sec-fetch-site", "cross-site")]));
        assert!(!post(&[("origin", "http://localhost:7070"), ("origin", "http://localhost:7070")]));
    }
}
