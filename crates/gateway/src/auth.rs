//! The door: who asks. Every request passes here before any handler sees it.
//!
//! Promise: whoever cannot be told is a stranger, and a stranger reaches only what everybody may see.
//! Start with [`admit`].

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use berth_api::{Code, Problem, Scope};
use berth_verbs::caller::{Inside, scope_of};

use crate::caller::Caller;
use crate::fault::Fault;

/// Where a connection comes from.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// The local socket, and whose process is at its other end.
    Local {
        uid: u32,
        pid: Option<i32>,
        /// The session it is inside of, if that can be told.
        inside: Arc<Result<Option<Inside>, Problem>>,
    },
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
        Peer::Local { uid, pid, inside } if *uid == rustix::process::getuid().as_raw() => {
            let place = format!("the local socket (pid {})", pid.unwrap_or_default());
            Some(local(place, inside))
        }
        Peer::Local { .. } | Peer::Network(_) => None,
    }
}

/// Somebody of this account: a person, or the agent of a session, who may do what its grant says.
fn local(place: String, inside: &Result<Option<Inside>, Problem>) -> Caller {
    let (scope, agent) = match inside {
        Ok(None) => (Scope::Admin, None),
        Ok(Some(inside)) => (scope_of(inside.grant), Some(inside.session.clone())),
        Err(_) => (Scope::Read, None),
    };
    Caller { place, scope, sessions: None, agent }
}

/// What everybody may see.
fn is_open(path: &str) -> bool {
    crate::routes::all().iter().any(|route| route.scope.is_none() && route.path == path)
}

fn stranger() -> Fault {
    Fault::from(
        Problem::new(Code::NotAllowed, "there is no token, or it is not a valid one")
            .hint("send `Authorization: Bearer TOKEN`; `berth token new` makes one"),
    )
    .status(StatusCode::UNAUTHORIZED)
}
