//! Other hosts: which there are, and everything that can be asked of them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Request, Response, header};
use axum::response::IntoResponse;
use berth_api::{Code, Problem, Scope, Status, Viewer};
use berth_verbs::hosts::{self, Host, Look};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::caller::Caller;
use crate::fault::Fault;
use crate::gate::{Gate, work};
use crate::http::body::{Path, Query};
use crate::http::events::wants_stream;
use crate::live::terminals::Errand;
use crate::routes::{ANY_STATUS, Route};
use crate::visible::{Json, nothing_hidden};

/// What lets somebody in is made where it does.
const ONLY_THERE: [&str; 2] = ["tokens", "links"];

pub(crate) fn routes() -> Vec<Route> {
    let pass = |method: Method, name, about| {
        Route::new(method, name, "/v1/hosts/{host}/{*path}", Scope::Read, pass_on)
            .about(about)
            .filtered()
            .gives_as(ANY_STATUS, "what the host answers", "*/*", None)
            .fails(&[Code::NotFound, Code::NotAllowed, Code::Unreachable, Code::Full])
    };
    vec![
        Route::get("list_hosts", "/v1/hosts", Scope::Read, list)
            .about("Other hosts, and what is known of them.")
            .filtered()
            .query::<Which>()
            .gives::<HostList<'static>>(200, "the hosts"),
        pass(Method::GET, "get_at_host", "Ask another host what could be asked here under /v1."),
        pass(Method::POST, "post_at_host", "The same with POST."),
        pass(Method::PATCH, "patch_at_host", "The same with PATCH."),
        pass(Method::DELETE, "delete_at_host", "The same with DELETE."),
    ]
}

/// What is wanted about hosts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Do not ask the hosts: only which there are.
    #[serde(default)]
    names: bool,
}

/// Hosts.
#[derive(Serialize, JsonSchema)]
struct HostList<'a> {
    hosts: Vec<HostView<'a>>,
    /// How long ago the hosts were asked, in milliseconds: who asks again within a moment hears the same.
    age_ms: u64,
}

/// What is known of one host.
#[derive(Serialize, JsonSchema)]
struct HostView<'a> {
    /// What it is called.
    name: &'a str,
    /// What ssh calls it.
    target: &'a str,
    /// Why it cannot be asked now.
    away: Option<&'a str>,
    /// How old what is known is, in milliseconds.
    age_ms: Option<u64>,
    /// berth's version there.
    version: Option<&'a str>,
    /// What differs, if the versions do.
    skew: Option<&'a str>,
    /// Its sessions, as `GET /v1/sessions` gives them: 2,000 at most.
    // Written from what everybody shares: a copy for each who asks is what a host with many could fill the memory with.
    #[schemars(with = "Vec<serde_json::Value>")]
    sessions: Shown<'a>,
    /// How many it has besides these.
    beyond: u64,
}

/// Sessions of another host, each written as the caller may see it.
#[derive(Clone, Copy, Default)]
struct Shown<'a> {
    sessions: &'a [Status],
    viewer: Option<&'a Viewer>,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.sessions.iter().map(|status| {
            let mut status = status.clone();
            status.hide_from(self.viewer.unwrap_or(&Viewer::LEAST));
            status
        }))
    }
}

nothing_hidden!(HostList<'_>);

impl<'a> HostView<'a> {
    /// One that nobody asked.
    fn bare(host: &'a Host) -> Self {
        let Host { name, target, .. } = host;
        Self {
            name,
            target,
            away: None,
            age_ms: None,
            version: None,
            skew: None,
            sessions: Shown::default(),
            beyond: 0,
        }
    }

    /// What was seen of one, so long ago.
    fn of(look: &'a Look, ago_ms: u64, viewer: &'a Viewer) -> Self {
        Self {
            away: look.away.as_deref(),
            age_ms: look.age_ms.map(|age_ms| age_ms.saturating_add(ago_ms)),
            version: look.version.as_deref(),
            skew: look.skew.as_deref(),
            sessions: Shown { sessions: &look.sessions, viewer: Some(viewer) },
            beyond: look.beyond,
            ..Self::bare(&look.host)
        }
    }
}

async fn list(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Response<Body>, Fault> {
    // Whoever may see only some sessions may see none of other hosts.
    if caller.sessions.is_some() {
        return Ok(Json(HostList { hosts: vec![], age_ms: 0 }).into_response());
    }
    let home = gate.home.clone();
    let known = work(move || hosts::all(&home)).await?;
    if which.names {
        let hosts = known.iter().map(HostView::bare).collect();
        return Ok(Json(HostList { hosts, age_ms: 0 }).into_response());
    }
    // A host that was added or taken away a moment ago is another question.
    let home = gate.home.clone();
    let look = move || Ok(hosts::look_at_all(&home, hosts::PATIENCE)?.into());
    let (looks, age): (Arc<[Look]>, _) = gate.fleet.known.ask(known, look).await?;
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let viewer = caller.viewer();
    let hosts = looks.iter().map(|look| HostView::of(look, age_ms, &viewer)).collect();
    Ok(Json(HostList { hosts, age_ms }).into_response())
}

async fn pass_on(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path((name, decoded)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Response<Body>, Fault> {
    let nobody = || {
        Fault::from(
            Problem::new(Code::NotFound, format!("there is no host `{}`", name.escape_debug()))
                .hint("GET /v1/hosts lists them; `berth hosts add` adds one"),
        )
    };
    if caller.sessions.is_some() {
        return Err(nobody());
    }
    let home = gate.home.clone();
    let hosts = work(move || hosts::all(&home)).await?;
    // Only one that somebody added: a browser must not make us connect to anywhere.
    let host = hosts.into_iter().find(|host| host.name == name).ok_or_else(nobody)?;
    // As it was written: what was escaped stays so.
    let raw = request.uri().path();
    let rest =
        raw.strip_prefix("/v1/hosts/").and_then(|rest| rest.split_once('/')).map_or("", |(_, rest)| rest);
    if rest == "hosts" || rest.starts_with("hosts/") {
        return Err(Fault::usage("a host of a host is asked there").hint("add it here, too"));
    }
    // What a token allows here ends here: one made there would outlive it, and go further.
    let first_of = |path: &str| path.split('/').find(|part| !part.is_empty()).map(str::to_owned);
    let named = [first_of(rest), first_of(&decoded)];
    if let Some(first) = named.iter().flatten().find(|first| ONLY_THERE.contains(&first.as_str())) {
        let what = format!("{first} of `{}` are made on that host itself", host.name);
        let hint = format!("log in there: `ssh {} berth token new`", host.target);
        return Err(Problem::new(Code::NotAllowed, what).hint(hint).into());
    }
    let path = format!("/v1/{rest}");
    let (asker, at) = (caller.clone(), gate.clone());
    let scope = work(move || Ok(asker.scope_elsewhere(&at))).await?;
    let headers = request.headers();
    let stays = headers.contains_key(header::UPGRADE) || wants_stream(headers) || decoded == "events";
    let errand = match () {
        () if stays => Errand::Stays,
        () if request.method() == Method::POST => Errand::MayWait,
        () => Errand::Asks,
    };
    let place = gate.terminals.enter_elsewhere(&caller, &host.name, errand)?;
    gate.fleet.pass_on(&host, (&caller, scope), place, &path, request).await
}
