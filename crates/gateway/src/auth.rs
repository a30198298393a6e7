//! The door: who asks. Every request passes here before any handler sees it.
//!
//! Promise: whoever cannot be told is a stranger, and a stranger reaches only what everybody may see. Nobody is let in
//! for where they are: on TCP a token or a login is needed, on loopback too; on the socket the kernel's word that it
//! is our own user. A request under a name that is not ours, or from a page that is not ours, reaches nothing at all.
//! Not here: what a route needs (see `routes`), what a token allows (see `berth_verbs::tokens`).
//! Start with [`admit`]. Why it is so: docs/design/auth.md.

pub(crate) mod browser;
pub(crate) mod failures;
pub(crate) mod headers;
pub(crate) mod hosts;
pub(crate) mod leash;
mod passes;
pub(crate) mod proxies;
pub(crate) mod shown;
pub(crate) mod site;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use berth_api::{Code, Problem, Scope, TokenKind};
use berth_store::Home;
use berth_verbs::caller::{Inside, scope_of};
use berth_verbs::tokens::Pass;

use crate::audit::Audit;
use crate::caller::Caller;
use crate::fault::Fault;
use crate::fleet::{PLACE_HEADER, SCOPE_HEADER};
use crate::gate::Gate;
use crate::quota::Underway;
use crate::routes::Matched;
use crate::server::OnceKnown;
use failures::Failures;
use hosts::{Host, Hosts};
use leash::{Holds, Leash};
pub(crate) use passes::Passes;
use proxies::Proxies;
use shown::Shown;
use site::From;

/// The longest name of a place that another gateway tells.
const MOST_PLACE_CHARS: usize = 200;

/// What somebody hears whose token ended while they waited for an answer.
const ENDED: &str =
    "the token was revoked, or has expired, while you waited; what was begun, if anything, goes on";

/// Where a connection comes from. The server puts it into every request.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// The local socket, and whose process is at its other end.
    Local {
        uid: u32,
        pid: Option<i32>,
        /// The sessions it is inside of, if that can be told.
        inside: Arc<Result<Vec<Inside>, Problem>>,
    },
    /// A network address.
    Network(std::net::SocketAddr),
}

/// What else is known of the connection. The server puts it into every request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    /// Whether it is through TLS of ours.
    pub(crate) secure: bool,
    /// What cuts it off.
    pub(crate) leash: Leash,
}

/// What is needed to know who may come in.
#[derive(Debug)]
pub(crate) struct Doorkeeper {
    pub(crate) hosts: Hosts,
    pub(crate) failures: Failures,
    pub(crate) passes: Passes,
    pub(crate) proxies: Proxies,
    pub(crate) audit: Audit,
}

impl Doorkeeper {
    /// That of a gateway that listens on these addresses and is called like that as well.
    pub(crate) fn new(
        home: &Home,
        listen: &[IpAddr],
        allow_hosts: &[String],
        proxies: Proxies,
    ) -> Result<Self, Problem> {
        Ok(Self {
            hosts: Hosts::new(listen, allow_hosts)?,
            failures: Failures::default(),
            passes: Passes::open(home)?,
            proxies,
            audit: Audit::new(home),
        })
    }
}

/// What handlers of the door itself need: under which name we were asked, and whether there is TLS in front.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) host: Host,
    pub(crate) secure: bool,
    pub(crate) peer: Peer,
}

/// Finds out who asks, and lets them as far as they may go.
pub(crate) async fn admit(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let wire = request.extensions().get::<Wire>().cloned().unwrap_or_default();
    let mut insists = false;
    let mut response = match enter(&gate, &wire, &mut request) {
        Ok((asked, pass)) => {
            insists = headers::insists_on_tls(Some(&asked.host), wire.secure);
            let underway = request.extensions_mut().remove::<Arc<Underway>>();
            let mut response = match pass {
                Some(pass) => {
                    let gate = gate.clone();
                    let holds: Holds = Arc::new(move || gate.door.passes.holds(&pass));
                    let route = route_of(&request);
                    match leash::while_it_holds(next.run(request), &holds).await {
                        Some(response) => tied(response, &wire, holds),
                        None => of_route(stranger(ENDED).into_response(), route),
                    }
                }
                None => next.run(request).await,
            };
            // The request counts until the last piece of its answer is sent.
            if let Some(underway) = underway {
                response.extensions_mut().insert(underway);
            }
            response
        }
        Err(fault) => {
            let route = route_of(&request);
            of_route(fault.into_response(), route)
        }
    };
    headers::add(&mut response, &path, insists);
    response
}

/// Everything that is checked before a handler runs. What is found out goes along in the request.
fn enter(gate: &Gate, wire: &Wire, request: &mut Request) -> Result<(Asked, Option<Arc<Pass>>), Fault> {
    let peer = request.extensions().get::<Peer>().cloned();
    let peer = peer.ok_or_else(|| Fault::from(Problem::new(Code::Bug, "a connection came from nowhere")))?;
    let (asked, found, forwarded) = examine(gate, wire, peer, request)?;
    let (caller, pass) = match found {
        Ok(Some((caller, pass))) => (Some(caller), pass),
        Ok(None) | Err(_) if is_open(gate, request) => (None, None),
        Ok(None) => return Err(stranger("there is no token in the request")),
        Err(wrong) => return Err(wrong),
    };
    let underway = gate.quotas.request(caller.as_ref(), forwarded)?;
    if let Some(caller) = caller {
        if let Some(request) = request.extensions().get::<OnceKnown>() {
            request.mark_known();
        }
        request.extensions_mut().insert(caller);
    }
    request.extensions_mut().insert(underway);
    shown::hide_login(request.headers_mut());
    request.extensions_mut().insert(asked.clone());
    Ok((asked, pass))
}

/// Who asks (nobody if they show nothing), and the client's address if a trusted proxy names it, of a request that is for
/// us, and from nobody's page but ours.
#[expect(clippy::type_complexity, reason = "three things that are found out together")]
fn examine(
    gate: &Gate,
    wire: &Wire,
    peer: Peer,
    request: &Request,
) -> Result<(Asked, Result<Option<Found>, Fault>, Option<IpAddr>), Fault> {
    let is_local = matches!(peer, Peer::Local { .. });
    if let Peer::Local { uid, .. } = peer
        && uid != rustix::process::getuid().as_raw()
    {
        return Err(Problem::new(Code::NotAllowed, "this socket is for its owner only").into());
    }
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let forwarded = gate.door.proxies.client(&peer, headers);
    let peer = forwarded.map_or(peer, |address| Peer::Network(SocketAddr::new(address, 0)));
    let host = gate.door.hosts.check(uri, headers, is_local)?;
    let from = From { method, path: uri.path(), headers, host: &host, secure: wire.secure };
    site::check(&from)?;
    let (shown, secure) = (Shown::read(headers)?, from.is_secure());
    let found = match (shown, &peer) {
        (Shown::Nothing, Peer::Local { pid, inside, .. }) => Ok(Some((owner(headers, *pid, inside)?, None))),
        (shown, _) => who(gate, &peer, &shown),
    };
    Ok((Asked { secure, host, peer }, found, forwarded))
}

/// Our own user at the socket: a person, or the agent of a session, who may do what its grant says. Another gateway of
/// theirs that passes a request on says for whom, and how far those may go: then it is no further.
fn owner(
    headers: &HeaderMap,
    pid: Option<i32>,
    inside: &Result<Vec<Inside>, Problem>,
) -> Result<Caller, Fault> {
    let (most, agents): (_, &[Inside]) = match inside {
        Ok(all) => (all.iter().map(|inside| scope_of(inside.grant)).min().unwrap_or(Scope::Admin), all),
        Err(_) => (Scope::Read, &[]),
    };
    let mut agents = agents.iter().map(|inside| inside.session.clone());
    let mut scopes = headers.get_all(SCOPE_HEADER).iter();
    let scope = match (scopes.next(), scopes.next()) {
        (None, _) => Some(most),
        (Some(word), None) => word.to_str().ok().and_then(Scope::named),
        (Some(_), Some(_)) => None,
    };
    let scope =
        scope.ok_or_else(|| Fault::usage(format!("the `{SCOPE_HEADER}` header is not a valid scope")))?;
    let here = format!("the local socket (pid {})", pid.unwrap_or_default());
    // An agent is where it is, whatever it says.
    let told = headers.get(PLACE_HEADER).filter(|_| inside.as_ref().is_ok_and(Vec::is_empty));
    let there = told.and_then(|place| place.to_str().ok());
    let place = there.map_or(here, |there| there.chars().take(MOST_PLACE_CHARS).collect());
    let (agent, also) = (agents.next(), agents.collect());
    Ok(Caller { place, scope: scope.min(most), sessions: None, agent, also, pass: None })
}

type Found = (Caller, Option<Arc<Pass>>);

/// Who it is by what they show. `None` if they show nothing; an error if what they show is wrong.
fn who(gate: &Gate, peer: &Peer, shown: &Shown) -> Result<Option<Found>, Fault> {
    let good = match shown {
        Shown::Nothing => return Ok(None),
        Shown::Nonsense => None,
        Shown::Token(secret) => gate.door.passes.check(secret, TokenKind::Token),
        Shown::Login(secret) => gate.door.passes.check(secret, TokenKind::Login),
    };
    match good {
        Some(pass) => {
            gate.door.audit.used(&pass, address_of(peer));
            Ok(Some((caller_of(&pass, peer), Some(pass))))
        }
        // Every login ends this way, so it does not count as a guess.
        None if matches!(shown, Shown::Login(_)) => Err(stranger("you are not logged in any more")),
        None => Err(failed(gate, peer)),
    }
}

fn address_of(peer: &Peer) -> Option<IpAddr> {
    match peer {
        Peer::Local { .. } => None,
        Peer::Network(address) => Some(address.ip()),
    }
}

fn caller_of(pass: &Arc<Pass>, peer: &Peer) -> Caller {
    let from = match peer {
        Peer::Local { .. } => "the local socket".to_owned(),
        Peer::Network(address) => address.ip().to_canonical().to_string(),
    };
    let place = match pass.kind {
        TokenKind::Token => format!("token {} at {from}", pass.name),
        TokenKind::Login | TokenKind::Link => format!("{} at {from}", pass.name),
    };
    let sessions = pass.sessions.clone();
    Caller { place, scope: pass.scope, sessions, agent: None, also: vec![], pass: Some(pass.clone()) }
}

/// Counts a wrong secret, and says so.
pub(crate) fn failed(gate: &Gate, peer: &Peer) -> Fault {
    gate.door.audit.wrong_secret(address_of(peer));
    if let Peer::Network(address) = peer
        && let Err(wait) = gate.door.failures.count(address.ip(), Instant::now())
    {
        let what = "too many wrong tokens came from your address";
        let hint = "wait, then send the right one; `berth token new` makes one";
        return Fault::from(Problem::new(Code::Full, what).hint(hint)).retry_after(wait.as_secs().max(1));
    }
    stranger("the token is not a good one: it was mistyped or revoked, or has expired")
}

fn stranger(what: &str) -> Fault {
    let hint =
        "send `Authorization: Bearer TOKEN`; `berth token new` makes one, and `berth link` logs a browser in";
    Fault::from(Problem::new(Code::NotAllowed, what).hint(hint)).status(StatusCode::UNAUTHORIZED)
}

/// An answer that no handler gave, under the route that was asked.
fn of_route(mut response: Response, route: Option<&'static str>) -> Response {
    if let Some(route) = route {
        response.extensions_mut().insert(Matched { path: route, is_known: false });
    }
    response
}

/// The route that a request would have come to, for records.
fn route_of(request: &Request) -> Option<&'static str> {
    static PATHS: LazyLock<HashSet<&'static str>> =
        LazyLock::new(|| crate::routes::all().into_iter().map(|route| route.path).collect());
    PATHS.get(request.extensions().get::<MatchedPath>()?.as_str()).copied()
}

/// Whether everybody may ask this.
fn is_open(gate: &Gate, request: &Request) -> bool {
    static OPEN: LazyLock<HashSet<(Method, &'static str)>> = LazyLock::new(|| {
        let open = crate::routes::all().into_iter().filter(|route| route.scope.is_none());
        open.map(|route| (route.method, route.path)).collect()
    });
    let Some(path) = request.extensions().get::<MatchedPath>() else { return false };
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let is_metrics = gate.options.open_metrics && path.as_str() == crate::http::system::METRICS;
    is_metrics
        || OPEN
            .iter()
            .any(|(open, known)| *known == path.as_str() && (open == method || !is_a_route(method, known)))
}

/// Whether this is in the table. What is not is refused to everybody (405), so it may be said to everybody where
/// everybody may ask something.
fn is_a_route(method: &Method, path: &str) -> bool {
    static ALL: LazyLock<HashSet<(Method, &'static str)>> =
        LazyLock::new(|| crate::routes::all().into_iter().map(|route| (route.method, route.path)).collect());
    ALL.iter().any(|(known, at)| known == method && *at == path)
}

/// An answer that ends with the token it was asked with, however long it goes on.
fn tied(response: Response, wire: &Wire, holds: Holds) -> Response {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        wire.leash.watch(holds);
        return response;
    }
    response.map(|body| leash::bound(body, holds))
}

/// Tells a client how to show who it is (RFC 9110 wants it with every 401).
pub(crate) fn how_to_ask(response: &mut Response) {
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
}

#[cfg(test)]
mod tests;
