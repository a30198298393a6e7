//! The question that is asked most, what is known of a session, answered at the door if the answer is at hand.
//!
//! Promise: whoever gets an answer here would have got the same from the router: who asks, how far they may go and
//! what is known are found out by the very same functions. Whatever is not plainly good is left to the router, which
//! finds that out once more and says why; so nothing is refused here, and nothing is counted.
//! Start with [`answer`]. Why it is so: docs/design/gateway.md.

use axum::http::{HeaderMap, Method, Request, Response};
use bytes::Bytes;

use crate::argv_mask;
use crate::auth::{self, Head, Peer, Wire, headers};
use crate::caller::Caller;
use crate::gate::Gate;
use crate::http::sessions::ONE;

/// What the path of the question begins with; the rest is what a session is called.
const SESSIONS: &str = "/v1/sessions/";

/// An answer that is at hand, with who asked for it.
#[derive(Debug)]
pub(crate) struct AtHand {
    pub(crate) response: Response<Bytes>,
    pub(crate) caller: Caller,
}

/// The answer, if it is at hand.
pub(crate) fn answer<B>(gate: &Gate, peer: &Peer, wire: &Wire, request: &Request<B>) -> Option<AtHand> {
    if request.method() != Method::GET || request.uri().query().is_some() {
        return None;
    }
    let handle = request.uri().path().strip_prefix(SESSIONS)?;
    // What has more parts is another question; what is encoded is decoded by the router.
    if handle.is_empty() || handle.contains(['/', '%']) {
        return None;
    }
    let seen = auth::examine(gate, wire, peer.clone(), &Head::of(request)).ok()?;
    let (caller, _) = seen.found.ok()??;
    ONE.allows(gate, &caller).ok()?;
    // What is at hand was made for who may see all of it.
    if caller.sessions.is_some() {
        return None;
    }
    let (id, body) = gate.known.again(&gate.home, handle)?;
    if !caller.may_see(&id) {
        return None;
    }
    let body = if argv_mask::is_for(&caller) { argv_mask::whole(&body) } else { body };
    let mut response = Response::new(body);
    *response.headers_mut() = json_headers(headers::insists_on_tls(Some(&seen.asked.host), wire.secure));
    Some(AtHand { response, caller })
}

/// Those that every answer of the API has, as `auth` adds them.
fn json_headers(insist_on_tls: bool) -> HeaderMap {
    static PLAIN: std::sync::LazyLock<HeaderMap> = std::sync::LazyLock::new(|| headers::of_json(false));
    if insist_on_tls { headers::of_json(true) } else { PLAIN.clone() }
}
