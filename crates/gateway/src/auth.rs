//! The door: who asks. Every request passes here before any handler sees it.
//!
//! Promise: whoever cannot be told is a stranger, and a stranger reaches only what everybody may see.
//! Start with [`admit`].

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use berth_api::{Code, Problem, Scope};

use crate::caller::Caller;
use crate::fault::Fault;

/// Where a connection comes from.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// The local socket, and whose process is at its other end.
    Local { uid: u32, pid: Option<i32> },
    /// A network address.
    Network(std::net::SocketAddr),
}

/// Finds out who asks.
pub(crate) async fn admit(peer: Peer, mut request: Request, next: Next) -> Response {
    match caller(&peer) {
        Some(caller) => {
            request.extensions_mut().insert(caller);
        }
        None if is_open(request.uri().path()) => {}
        None => return stranger().into_response(),
    }
    next.run(request).await
}

fn caller(peer: &Peer) -> Option<Caller> {
    match peer {
        Peer::Local { uid, pid } if *uid == rustix::process::getuid().as_raw() => {
            let place = format!("the local socket (pid {})", pid.unwrap_or_default());
            Some(Caller { place, scope: Scope::Admin, sessions: None, agent: None })
        }
        Peer::Local { .. } | Peer::Network(_) => None,
    }
}

/// What everybody may see.
fn is_open(path: &str) -> bool {
    crate::routes::is_open(path)
}

fn stranger() -> Fault {
    Fault::from(
        Problem::new(Code::NotAllowed, "there is no token, or it is not a valid one")
            .hint("send `Authorization: Bearer TOKEN`; `berth token new` makes one"),
    )
    .status(StatusCode::UNAUTHORIZED)
}
