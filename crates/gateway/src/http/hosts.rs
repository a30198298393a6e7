//! Other hosts: the list of them, and passing requests on to them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Request, Response, header};
use axum::response::IntoResponse;
use berth_api::{AccessScope, Problem, ProblemCode, SessionStatus, ViewerRights};
use berth_verbs::hosts::{self, HostStatus, RemoteHost};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::app_state::{AppState, run_blocking};
use crate::caller::RequestCaller;
use crate::http::events::wants_stream;
use crate::http::extractors::{PathParams, QueryParams};
use crate::http_problem::HttpProblem;
use crate::live::terminal_limits::RemoteRequestKind;
use crate::routes::{ANY_STATUS, Route};
use crate::viewer_filter::{JsonAnswer, nothing_hidden};

/// Routes that are refused for other hosts: credentials of a host are made on that host.
const ONLY_THERE: [&str; 2] = ["tokens", "links"];

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    let pass = |method: Method, name, about| {
        Route::new(method, name, "/v1/hosts/{host}/{*path}", AccessScope::Read, pass_on)
            .about(about)
            .filtered()
            .gives_as(ANY_STATUS, "the answer of the host", "*/*", None)
            .fails(&[NotFound, NotAllowed, Unreachable, Full])
    };
    vec![
        Route::get("list_hosts", "/v1/hosts", AccessScope::Read, list)
            .about("Other hosts, with their state and their sessions.")
            .filtered()
            .query::<HostsQuery>()
            .gives::<HostList<'static>>(200, "the hosts"),
        pass(
            Method::GET,
            "get_at_host",
            "Passes a request on to another host: every GET under /v1 that this host has.",
        ),
        pass(Method::POST, "post_at_host", "Passes a POST request on to another host."),
        pass(Method::PATCH, "patch_at_host", "Passes a PATCH request on to another host."),
        pass(Method::DELETE, "delete_at_host", "Passes a DELETE request on to another host."),
    ]
}

/// The details that the client asks for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HostsQuery {
    /// List the configured hosts without asking them for their state.
    #[serde(default)]
    names: bool,
}

/// A list of hosts.
#[derive(Serialize, JsonSchema)]
struct HostList<'a> {
    /// Other hosts, each with its state.
    hosts: Vec<HostView<'a>>,
    /// Age of this list, in milliseconds. The gateway caches it for a moment.
    age_ms: u64,
}

/// A host, and its state.
#[derive(Serialize, JsonSchema)]
struct HostView<'a> {
    /// Name of the host, as `berth hosts add` was given it.
    name: &'a str,
    /// Destination of the host for ssh.
    target: &'a str,
    /// Reason that the host cannot be asked now; absent if it can be asked.
    away: Option<&'a str>,
    /// Age of the state of the host, in milliseconds.
    age_ms: Option<u64>,
    /// Version of berth on the host.
    version: Option<&'a str>,
    /// Difference between the versions of berth here and there, if there is one.
    skew: Option<&'a str>,
    /// Sessions of the host, as `GET /v1/sessions` gives them: 2,000 at most.
    // Serialized from the shared list: with many sessions, a copy for each caller could fill the memory.
    #[schemars(with = "Vec<serde_json::Value>")]
    sessions: HostSessions<'a>,
    /// Number of further sessions of the host.
    more: u64,
}

/// Sessions of another host, each written as the caller may see it.
#[derive(Clone, Copy, Default)]
struct HostSessions<'a> {
    sessions: &'a [SessionStatus],
    viewer: Option<&'a ViewerRights>,
}

impl Serialize for HostSessions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.sessions.iter().map(|status| {
            let mut status = status.clone();
            status.hide_from(self.viewer.unwrap_or(&ViewerRights::LEAST));
            status
        }))
    }
}

nothing_hidden!(HostList<'_>);

impl<'a> HostView<'a> {
    /// A host that was not asked for its state.
    fn bare(host: &'a RemoteHost) -> Self {
        let RemoteHost { name, target, .. } = host;
        Self {
            name,
            target,
            away: None,
            age_ms: None,
            version: None,
            skew: None,
            sessions: HostSessions::default(),
            more: 0,
        }
    }

    /// The state of a host, as it was found `ago_ms` milliseconds ago.
    fn of(look: &'a HostStatus, ago_ms: u64, viewer: &'a ViewerRights) -> Self {
        Self {
            away: look.away.as_deref(),
            age_ms: look.age_ms.map(|age_ms| age_ms.saturating_add(ago_ms)),
            version: look.version.as_deref(),
            skew: look.skew.as_deref(),
            sessions: HostSessions { sessions: &look.sessions, viewer: Some(viewer) },
            more: look.more,
            ..Self::bare(&look.host)
        }
    }
}

async fn list(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    QueryParams(which): QueryParams<HostsQuery>,
) -> Result<Response<Body>, HttpProblem> {
    // A caller that is limited to some sessions of this host sees no sessions of other hosts.
    if caller.sessions.is_some() {
        return Ok(JsonAnswer(HostList { hosts: vec![], age_ms: 0 }).into_response());
    }
    let home = state.home.clone();
    let known = run_blocking(move || hosts::all_hosts(&home)).await?;
    if which.names {
        let hosts = known.iter().map(HostView::bare).collect();
        return Ok(JsonAnswer(HostList { hosts, age_ms: 0 }).into_response());
    }
    // The list of hosts is the key of the cache: a host that was added or removed a moment ago makes a new entry.
    let home = state.home.clone();
    let look = move || Ok(hosts::all_host_statuses(&home, hosts::PATIENCE)?.into());
    let (looks, age): (Arc<[HostStatus]>, _) = state.fleet.known.ask(known, look).await?;
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let viewer = caller.viewer();
    let hosts = looks.iter().map(|look| HostView::of(look, age_ms, &viewer)).collect();
    Ok(JsonAnswer(HostList { hosts, age_ms }).into_response())
}

async fn pass_on(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams((name, decoded)): PathParams<(String, String)>,
    request: Request<Body>,
) -> Result<Response<Body>, HttpProblem> {
    let nobody = || {
        HttpProblem::from(
            Problem::not_found(format!("there is no host `{}`", name.escape_debug()))
                .hint("GET /v1/hosts lists them; `berth hosts add` adds one"),
        )
    };
    if caller.sessions.is_some() {
        return Err(nobody());
    }
    let home = state.home.clone();
    let hosts = run_blocking(move || hosts::all_hosts(&home)).await?;
    // Only configured hosts: a browser must not make the gateway connect to an address of its choice.
    let host = hosts.into_iter().find(|host| host.name == name).ok_or_else(nobody)?;
    // The raw path keeps the escapes of the client.
    let raw = request.uri().path();
    let rest =
        raw.strip_prefix("/v1/hosts/").and_then(|rest| rest.split_once('/')).map_or("", |(_, rest)| rest);
    if rest == "hosts" || rest.starts_with("hosts/") {
        return Err(HttpProblem::usage("a request can pass through one host only")
            .hint("add that host here as well: `berth hosts add`"));
    }
    // The rights of a token end on this host: a token made on the other host would outlive it, and could do more.
    let first_of = |path: &str| path.split('/').find(|part| !part.is_empty()).map(str::to_owned);
    let named = [first_of(rest), first_of(&decoded)];
    if let Some(first) = named.iter().flatten().find(|first| ONLY_THERE.contains(&first.as_str())) {
        let what = format!("make {first} of `{}` on that host", host.name);
        let hint = format!("log in there: `ssh {} berth token new`", host.target);
        return Err(Problem::not_allowed(what).hint(hint).into());
    }
    let path = format!("/v1/{rest}");
    let (asker, at) = (caller.clone(), state.clone());
    let scope = run_blocking(move || Ok(asker.scope_elsewhere(&at))).await?;
    let headers = request.headers();
    let stays = headers.contains_key(header::UPGRADE) || wants_stream(headers) || decoded == "events";
    let errand = match () {
        () if stays => RemoteRequestKind::Stays,
        () if request.method() == Method::POST => RemoteRequestKind::MayWait,
        () => RemoteRequestKind::Asks,
    };
    let place = state.terminals.enter_remote(&caller, &host.name, errand)?;
    state.fleet.pass_on(&host, (&caller, scope), place, &path, request).await
}
