//! Problems that a route may answer with: those it declares, and those that every route has.

use std::collections::BTreeMap;

use axum::http::Method;
use berth_api::ProblemCode;

use crate::routes::Route;

pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// The statuses of the problems of a route, each with its reasons.
pub(crate) fn of(route: &Route) -> BTreeMap<u16, String> {
    let mut reasons: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    let mut add = |status: u16, code: ProblemCode, about: &str| {
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
    add(400, ProblemCode::Usage, about(ProblemCode::Usage));
    add(403, ProblemCode::NotAllowed, "the request comes from another page");
    add(421, ProblemCode::NotAllowed, "the gateway does not answer to this host name (`Host`)");
    add(500, ProblemCode::Bug, about(ProblemCode::Bug));
    add(503, ProblemCode::Full, "the gateway is at its limit of requests");
    if route.scope.is_some() {
        add(401, ProblemCode::NotAllowed, "the request has no valid token or login");
        add(403, ProblemCode::NotAllowed, "the scope of the token, login or grant is too low");
        add(429, ProblemCode::Full, "too many wrong tokens came from the address of the caller");
        add(503, ProblemCode::Unreachable, "the store, or the session's keeper, cannot be reached");
    }
    if is_about("{session}") || is_about("{helper}") {
        add(404, ProblemCode::NotFound, "the token can see nothing with that name or id");
    }
    if route.takes.is_some() {
        add(408, ProblemCode::Usage, "the body did not arrive in time");
        add(413, ProblemCode::Usage, "the body is too large");
        add(415, ProblemCode::Usage, "the body has another media type");
    }
    if route.method != Method::GET && is_about("{session}") {
        add(503, ProblemCode::Unavailable, about(ProblemCode::Unavailable));
    }
    reasons.into_iter().map(|(status, reasons)| (status, reasons.join("; "))).collect()
}

fn about(code: ProblemCode) -> &'static str {
    match code {
        ProblemCode::Refused => "the action was refused, or was tried and failed",
        ProblemCode::Usage => "the request is not valid",
        ProblemCode::NotFound => "the thing that the request names does not exist",
        ProblemCode::Held => "another client or command holds the session",
        ProblemCode::InUse => "another program writes the conversation: a retry does not help while it does",
        ProblemCode::Unreachable => "the store, or the session's keeper, cannot be reached",
        ProblemCode::TimedOut => "the time limit was reached",
        ProblemCode::NeedsYes => "the request needs a confirmation",
        ProblemCode::NotAllowed => "the scope of the token, login or grant is too low",
        ProblemCode::Full => "a limit is reached at this moment",
        ProblemCode::Unavailable => "the action cannot be recorded, so it was not done",
        ProblemCode::Bug => "a bug in the gateway",
    }
}
