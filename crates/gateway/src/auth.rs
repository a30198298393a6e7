//! Authentication: identifies the caller of every request before any handler sees it.
//!
//! Promise: a caller that cannot be identified reaches only the open routes. An address alone gives no rights: on TCP a
//! token or a login is needed, on loopback too; on the socket the kernel has to confirm that the process belongs to our
//! own user. A request with a foreign host name, or from a page of another origin, reaches nothing at all.
//! Not here: the scope of a route (see `routes`), the rights of a token (see `berth_verbs::tokens`).
//! Start with [`admit`]. Reasons: docs/design/auth.md.

pub(crate) mod allowed_hosts;
pub(crate) mod browser;
pub(crate) mod credential;
pub(crate) mod failures;
pub(crate) mod headers;
pub(crate) mod origin_check;
pub(crate) mod revocation;
mod token_cache;
pub(crate) mod trusted_proxies;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use berth_api::{AccessScope, Problem, TokenKind};
use berth_config::tokens::VerifiedToken;
use berth_store::StateDir;
use berth_verbs::caller::{EnclosingSession, scope_of};

use crate::app_state::AppState;
use crate::audit::AuditSampler;
use crate::caller::RequestCaller;
use crate::http_problem::HttpProblem;
use crate::quota::RequestPermit;
use crate::remote_hosts::{PLACE_HEADER, SCOPE_HEADER};
use crate::routes::MatchedRoute;
use crate::server::DeferredServing;
use allowed_hosts::{AllowedHosts, HostAndPort};
use credential::RequestCredential;
use failures::AuthFailures;
use origin_check::OriginCheck;
use revocation::{RevocationHandle, TokenCheck};
pub(crate) use token_cache::TokenCache;
use trusted_proxies::TrustedProxies;

/// Longest place that another gateway may send.
const MOST_PLACE_CHARS: usize = 200;

/// Error of a wait whose token ended.
const ENDED: &str = "the token was revoked or expired during the request; work that had started continues";

/// Source of a connection. The server adds it to every request.
#[derive(Clone, Debug)]
pub(crate) enum ConnectionPeer {
    /// A connection to the local socket, with the identity of the process at its other end.
    Local {
        uid: u32,
        pid: Option<i32>,
        /// Sessions that the process runs inside of, if they can be found.
        inside: Arc<Result<Vec<EnclosingSession>, Problem>>,
    },
    /// A network address.
    Network(std::net::SocketAddr),
}

/// Properties of the connection. The server adds them to every request.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionDetails {
    /// True if the connection uses TLS of this gateway.
    pub(crate) secure: bool,
    /// Handle that cuts the connection off.
    pub(crate) revocation: RevocationHandle,
}

/// State that authentication needs.
#[derive(Debug)]
pub(crate) struct AccessControl {
    pub(crate) hosts: AllowedHosts,
    pub(crate) failures: AuthFailures,
    pub(crate) passes: TokenCache,
    pub(crate) proxies: TrustedProxies,
    pub(crate) audit: AuditSampler,
}

impl AccessControl {
    /// Makes the state for a gateway that listens on these addresses and has these names.
    pub(crate) fn new(
        home: &StateDir,
        listen: &[IpAddr],
        allow_hosts: &[String],
        proxies: TrustedProxies,
    ) -> Result<Self, Problem> {
        Ok(Self {
            hosts: AllowedHosts::new(listen, allow_hosts)?,
            failures: AuthFailures::default(),
            passes: TokenCache::open(home)?,
            proxies,
            audit: AuditSampler::new(home),
        })
    }
}

/// Facts about a request for login and the page: its host name, and whether its page was loaded by HTTPS.
#[derive(Clone, Debug)]
pub(crate) struct RequestEndpoint {
    pub(crate) host: HostAndPort,
    pub(crate) secure: bool,
    pub(crate) peer: ConnectionPeer,
}

/// Authenticates a request, and passes it on if its caller may send it.
pub(crate) async fn admit(State(state): State<Arc<AppState>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let wire = request.extensions().get::<ConnectionDetails>().cloned().unwrap_or_default();
    let mut insists = false;
    let mut response = match enter(&state, &wire, &mut request) {
        Ok((asked, pass)) => {
            insists = headers::insists_on_tls(Some(&asked.host), wire.secure);
            let underway = request.extensions_mut().remove::<Arc<RequestPermit>>();
            let mut response = match pass {
                Some(pass) => {
                    let state = state.clone();
                    let holds: TokenCheck = Arc::new(move || state.access.passes.holds(&pass));
                    let route = route_of(&request);
                    match revocation::until_revoked(next.run(request), &holds).await {
                        Some(response) => end_with_token(response, &wire, holds),
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

/// All checks before a handler runs. Their results are added to the request.
fn enter(
    state: &AppState,
    wire: &ConnectionDetails,
    request: &mut Request,
) -> Result<(RequestEndpoint, Option<Arc<VerifiedToken>>), HttpProblem> {
    let peer = request.extensions().get::<ConnectionPeer>().cloned();
    let peer = peer.ok_or_else(|| HttpProblem::from(Problem::bug("a request has no peer address")))?;
    let (asked, found, forwarded) = examine(state, wire, peer, request)?;
    let (caller, pass) = match found {
        Ok(Some((caller, pass))) => (Some(caller), pass),
        Ok(None) | Err(_) if is_open(state, request) => (None, None),
        Ok(None) => return Err(stranger("the request has no token")),
        Err(wrong) => return Err(wrong),
    };
    let underway = state.quotas.request(caller.as_ref(), forwarded)?;
    if let Some(caller) = caller {
        if let Some(request) = request.extensions().get::<DeferredServing>() {
            request.mark_known();
        }
        request.extensions_mut().insert(caller);
    }
    request.extensions_mut().insert(underway);
    credential::hide_login(request.headers_mut());
    request.extensions_mut().insert(asked.clone());
    Ok((asked, pass))
}

/// The caller (`None` without a secret), and the client's address if a trusted proxy names it. Fails for a foreign host
/// name, and for a page of another origin.
#[expect(clippy::type_complexity, reason = "three results of one check")]
fn examine(
    state: &AppState,
    wire: &ConnectionDetails,
    peer: ConnectionPeer,
    request: &Request,
) -> Result<(RequestEndpoint, Result<Option<AuthenticatedCaller>, HttpProblem>, Option<IpAddr>), HttpProblem>
{
    let is_local = matches!(peer, ConnectionPeer::Local { .. });
    if let ConnectionPeer::Local { uid, .. } = peer
        && uid != rustix::process::getuid().as_raw()
    {
        return Err(Problem::not_allowed("this socket is for its owner only").into());
    }
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let forwarded = state.access.proxies.client(&peer, headers);
    let peer = forwarded.map_or(peer, |address| ConnectionPeer::Network(SocketAddr::new(address, 0)));
    let host = state.access.hosts.check(uri, headers, is_local)?;
    let from = OriginCheck { method, path: uri.path(), headers, host: &host, secure: wire.secure };
    origin_check::check(&from)?;
    let (shown, secure) = (RequestCredential::read(headers)?, from.is_secure());
    let found = match (shown, &peer) {
        (RequestCredential::Nothing, ConnectionPeer::Local { pid, inside, .. }) => {
            Ok(Some((owner(headers, *pid, inside)?, None)))
        }
        (shown, _) => authenticate(state, &peer, &shown),
    };
    Ok((RequestEndpoint { secure, host, peer }, found, forwarded))
}

/// Our own user at the socket: a user, or the agent of a session, whose rights are those of its grant. Another gateway
/// of this user passes requests on for its callers: it sends the place and scope of the caller, which can only reduce
/// the rights.
fn owner(
    headers: &HeaderMap,
    pid: Option<i32>,
    inside: &Result<Vec<EnclosingSession>, Problem>,
) -> Result<RequestCaller, HttpProblem> {
    let (most, agents): (_, &[EnclosingSession]) = match inside {
        Ok(all) => (all.iter().map(|inside| scope_of(inside.grant)).min().unwrap_or(AccessScope::Admin), all),
        Err(_) => (AccessScope::Read, &[]),
    };
    let mut agents = agents.iter().map(|inside| inside.session.clone());
    let mut scopes = headers.get_all(SCOPE_HEADER).iter();
    let scope = match (scopes.next(), scopes.next()) {
        (None, _) => Some(most),
        (Some(word), None) => word.to_str().ok().and_then(AccessScope::named),
        (Some(_), Some(_)) => None,
    };
    let scope = scope
        .ok_or_else(|| HttpProblem::usage(format!("the `{SCOPE_HEADER}` header is not a valid scope")))?;
    let here = format!("the local socket (pid {})", pid.unwrap_or_default());
    // The place of an agent is its session, whatever its headers say.
    let told = headers.get(PLACE_HEADER).filter(|_| inside.as_ref().is_ok_and(Vec::is_empty));
    let there = told.and_then(|place| place.to_str().ok());
    let place = there.map_or(here, |there| there.chars().take(MOST_PLACE_CHARS).collect());
    let (agent, also) = (agents.next(), agents.collect());
    Ok(RequestCaller { place, scope: scope.min(most), sessions: None, agent, also, pass: None })
}

type AuthenticatedCaller = (RequestCaller, Option<Arc<VerifiedToken>>);

/// Identifies the caller by its secret. `None` without one; an error if it is not valid.
fn authenticate(
    state: &AppState,
    peer: &ConnectionPeer,
    shown: &RequestCredential,
) -> Result<Option<AuthenticatedCaller>, HttpProblem> {
    let good = match shown {
        RequestCredential::Nothing => return Ok(None),
        RequestCredential::Nonsense => None,
        RequestCredential::Token(secret) => state.access.passes.check(secret, TokenKind::Token),
        RequestCredential::Login(secret) => state.access.passes.check(secret, TokenKind::Login),
    };
    match good {
        Some(pass) => {
            state.access.audit.used(&pass, address_of(peer));
            Ok(Some((caller_of(&pass, peer), Some(pass))))
        }
        // Every login ends this way, so this does not count as a guess.
        None if matches!(shown, RequestCredential::Login(_)) => Err(stranger("the login has ended")),
        None => Err(failed(state, peer)),
    }
}

fn address_of(peer: &ConnectionPeer) -> Option<IpAddr> {
    match peer {
        ConnectionPeer::Local { .. } => None,
        ConnectionPeer::Network(address) => Some(address.ip()),
    }
}

fn caller_of(pass: &Arc<VerifiedToken>, peer: &ConnectionPeer) -> RequestCaller {
    let from = match peer {
        ConnectionPeer::Local { .. } => "the local socket".to_owned(),
        ConnectionPeer::Network(address) => address.ip().to_canonical().to_string(),
    };
    let place = match pass.kind {
        TokenKind::Token => format!("token {} at {from}", pass.name),
        TokenKind::Login | TokenKind::Link => format!("{} at {from}", pass.name),
    };
    let sessions = pass.sessions.clone();
    RequestCaller { place, scope: pass.scope, sessions, agent: None, also: vec![], pass: Some(pass.clone()) }
}

/// Counts a wrong secret, and makes the error for it.
pub(crate) fn failed(state: &AppState, peer: &ConnectionPeer) -> HttpProblem {
    state.access.audit.wrong_secret(address_of(peer));
    if let ConnectionPeer::Network(address) = peer
        && let Err(wait) = state.access.failures.count(address.ip(), Instant::now())
    {
        let what = "too many wrong tokens came from your address";
        let hint = "wait, then send the right one; `berth token new` makes one";
        return HttpProblem::from(Problem::full(what).hint(hint)).retry_after(wait.as_secs().max(1));
    }
    stranger("the token is not valid: it was mistyped or revoked, or has expired")
}

fn stranger(what: &str) -> HttpProblem {
    let hint =
        "send `Authorization: Bearer TOKEN`; `berth token new` makes one, and `berth link` logs a browser in";
    HttpProblem::from(Problem::not_allowed(what).hint(hint)).status(StatusCode::UNAUTHORIZED)
}

/// An answer without a handler, with the route of the request.
fn of_route(mut response: Response, route: Option<&'static str>) -> Response {
    if let Some(route) = route {
        response.extensions_mut().insert(MatchedRoute { path: route, is_known: false });
    }
    response
}

/// The route that matches a request, for records.
fn route_of(request: &Request) -> Option<&'static str> {
    static PATHS: LazyLock<HashSet<&'static str>> =
        LazyLock::new(|| crate::routes::all_routes().into_iter().map(|route| route.path).collect());
    PATHS.get(request.extensions().get::<MatchedPath>()?.as_str()).copied()
}

/// True if the route of this request needs no token.
fn is_open(state: &AppState, request: &Request) -> bool {
    static OPEN: LazyLock<HashSet<(Method, &'static str)>> = LazyLock::new(|| {
        let open = crate::routes::all_routes().into_iter().filter(|route| route.scope.is_none());
        open.map(|route| (route.method, route.path)).collect()
    });
    let Some(path) = request.extensions().get::<MatchedPath>() else { return false };
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let is_metrics = state.options.open_metrics && path.as_str() == crate::http::system::METRICS;
    is_metrics
        || OPEN
            .iter()
            .any(|(open, known)| *known == path.as_str() && (open == method || !is_a_route(method, known)))
}

/// True if the table has this route. For a path that has open routes, an unknown method gets 405 without a token.
fn is_a_route(method: &Method, path: &str) -> bool {
    static ALL: LazyLock<HashSet<(Method, &'static str)>> = LazyLock::new(|| {
        crate::routes::all_routes().into_iter().map(|route| (route.method, route.path)).collect()
    });
    ALL.iter().any(|(known, at)| known == method && *at == path)
}

/// An answer that ends with the token of its request, however long it lasts.
fn end_with_token(response: Response, wire: &ConnectionDetails, holds: TokenCheck) -> Response {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        wire.revocation.watch(holds);
        return response;
    }
    response.map(|body| revocation::revocable_body(body, holds))
}

/// Tells a client how to authenticate (RFC 9110 demands this with every 401).
pub(crate) fn add_www_authenticate(response: &mut Response) {
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
}

#[cfg(test)]
mod tests;
