//! Security headers of every answer: trust no other origin, store nothing, run only scripts of this gateway.

use axum::http::{HeaderName, HeaderValue, Response, header};

use super::allowed_hosts::HostAndPort;

/// Policy for answers that are not pages: nothing may run, load or frame them.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// Policy for the API, some of whose answers come from other hosts: whatever its media type, an answer has no origin
/// and no scripts.
const API: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

/// Policy for the page. Scripts come only from files of this gateway. Styles may be inline: the terminal (xterm.js)
/// writes style elements and attributes at run time and takes no nonce for them; see docs/design/auth.md.
const PAGE: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
    font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types berth";

/// The policy of script files. It applies to a script that runs as a worker: the worker may import other scripts, and
/// reach nothing else.
const SCRIPT: &str = "default-src 'none'; script-src 'self'; frame-ancestors 'none'";

/// Headers of every answer.
const ALWAYS: [(HeaderName, HeaderValue); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-embedder-policy"), HeaderValue::from_static("require-corp")),
    (
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static("camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ),
];

/// Time for which a browser insists on TLS, in seconds: a year.
const INSIST: &str = "max-age=31536000";

/// Adds the headers. A policy or cache header that a handler set itself stays, except for the API: its answers are
/// never cached, and always have the same policy.
pub(crate) fn add<B>(response: &mut Response<B>, path: &str, insist_on_tls: bool) {
    let headers = response.headers_mut();
    let is_api = path.starts_with("/v1/");
    if is_api {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(API));
    } else {
        let is =
            |kind: &[u8]| headers.get(header::CONTENT_TYPE).is_some_and(|it| it.as_bytes().starts_with(kind));
        let policy = match (is(b"text/html"), is(b"text/javascript")) {
            (true, _) => PAGE,
            (_, true) => SCRIPT,
            (false, false) => NOTHING,
        };
        headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(policy));
    }
    headers.entry(header::REFERRER_POLICY).or_insert(HeaderValue::from_static("no-referrer"));
    for (name, value) in ALWAYS {
        headers.insert(name, value);
    }
    let never_kept = HeaderValue::from_static("no-store");
    if is_api {
        headers.insert(header::CACHE_CONTROL, never_kept);
    } else {
        headers.entry(header::CACHE_CONTROL).or_insert(never_kept);
    }
    if insist_on_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(INSIST));
    }
}

/// True if browsers are told to insist on TLS. They do so for all ports of a name, so for `localhost` that would break
/// every other server on this machine.
pub(crate) fn insists_on_tls(host: Option<&HostAndPort>, secure: bool) -> bool {
    secure && host.is_some_and(HostAndPort::is_a_name_of_its_own)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn answer(kind: &'static str, path: &str) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=1"));
        add(&mut response, path, false);
        response
    }

    #[test]
    fn an_answer_of_the_api_is_never_cached_and_the_page_decides_for_itself() {
        let kept = |path| answer("text/css", path).headers()[header::CACHE_CONTROL].clone();
        assert_eq!(
            (kept("/v1/sessions"), kept("/app.css")),
            ("no-store".parse().unwrap(), "max-age=1".parse().unwrap())
        );
    }

    #[test]
    fn scripts_come_from_files_of_ours_and_from_nowhere_else() {
        let policy = |kind| answer(kind, "/x").headers()[header::CONTENT_SECURITY_POLICY].clone();
        let page = policy("text/html; charset=utf-8");
        let page = page.to_str().expect("text");
        assert!(page.contains("script-src 'self';") && page.contains("default-src 'none'"));
        assert!(!page.contains("unsafe-eval") && page.matches("unsafe-inline").count() == 1);
        assert!(page.contains("require-trusted-types-for 'script'") && page.contains("trusted-types berth"));
        assert_eq!(policy("application/json"), NOTHING);
        assert_eq!(policy("text/javascript; charset=utf-8"), SCRIPT);
    }

    #[test]
    fn an_answer_of_the_api_has_no_scripts_whatever_its_headers_were() {
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("script-src *"));
        headers.append(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("script-src data:"));
        add(&mut response, "/v1/hosts/box/x", false);
        let policies: Vec<_> = response.headers().get_all(header::CONTENT_SECURITY_POLICY).iter().collect();
        assert_eq!(policies, [API]);
    }

    #[test]
    fn browsers_do_not_insist_on_tls_for_the_whole_machine() {
        let insists = |host: &str, secure| insists_on_tls(HostAndPort::parse(host).as_ref(), secure);
        assert!(insists("berth.example.com", true));
        assert!(!insists("berth.example.com", false));
        assert!(!insists("localhost:7070", true) && !insists("127.0.0.1", true) && !insists("[::1]", true));
    }
}
