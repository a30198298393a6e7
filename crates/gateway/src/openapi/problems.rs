//! What a route may refuse for: what it says itself, and what every route may.

use std::collections::BTreeMap;

use axum::http::Method;
use berth_api::Code;

use crate::routes::Route;

pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// Each status a route may refuse with, and why.
pub(crate) fn of(route: &Route) -> BTreeMap<u16, String> {
    let mut reasons: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    let mut add = |status: u16, code: Code, about: &str| {
        let reason = format!("`{}`: {about}", code.word());
        let known = reasons.entry(status).or_default();
        if !known.contains(&reason) {
            known.push(reason);
        }
    };
    for code in &route.fails {
        add(code.http_status(), *code, about(*code));
    }
    for (status, code, about) in &route.fails_with {
        add(*status, *code, about);
    }
    let is_about = |part: &str| route.path.contains(part);
    add(400, Code::Usage, about(Code::Usage));
    add(403, Code::NotAllowed, "the request comes from another page");
    add(421, Code::NotAllowed, "the gateway is not called so (`Host`)");
    add(500, Code::Bug, about(Code::Bug));
    add(503, Code::Full, "the gateway serves as many as it may");
    if route.scope.is_some() {
        add(401, Code::NotAllowed, "there is no good token or login in the request");
        add(403, Code::NotAllowed, "the token, login or grant does not go so far");
        add(429, Code::Full, "too many wrong tokens came from your address");
        add(503, Code::Unreachable, "the store, or the session's keeper, cannot be reached");
    }
    if is_about("{session}") || is_about("{helper}") {
        add(404, Code::NotFound, "nothing of that name or id is visible to the token");
    }
    if route.takes.is_some() {
        add(408, Code::Usage, "the body did not come in time");
        add(413, Code::Usage, "the body is too large");
        add(415, Code::Usage, "the body is of another media type");
    }
    if route.method != Method::GET && is_about("{session}") {
        add(503, Code::Unavailable, about(Code::Unavailable));
    }
    reasons.into_iter().map(|(status, reasons)| (status, reasons.join("; "))).collect()
}

fn about(code: Code) -> &'static str {
    match code {
        Code::Refused => "refused, or tried and failed",
        Code::Usage => "the request makes no sense",
        Code::NotFound => "there is no such thing",
        Code::Held => "another client or command holds it",
        Code::InUse => "another program writes the conversation: a retry does not help while it does",
        Code::Unreachable => "the store, or the session's keeper, cannot be reached",
        Code::TimedOut => "it did not happen in time",
        Code::NeedsYes => "it needs a yes",
        Code::NotAllowed => "the token, login or grant does not go so far",
        Code::Full => "it is too much at this moment",
        Code::Unavailable => "what has to be recorded cannot be, and nothing is done unrecorded",
        Code::Bug => "the gateway's fault",
    }
}
