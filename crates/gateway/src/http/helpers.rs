//! Helpers: processes that sessions share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use berth_api::helper::ReadinessProbe;
use berth_api::record::Event;
use berth_api::{AccessScope, Problem, ProblemCode, SessionState, SessionStatus, ViewerRights};
use berth_core::SessionId;
use berth_verbs::events::{self, EventLine};
use berth_verbs::helper::{self, HelperRequest, READY_WITHIN, describe_helper, reword_for_helper};
use berth_verbs::{VerbContext, output, stop};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app_state::{AppState, run_blocking};
use crate::caller::{RequestCaller, RequestedSession};
use crate::http::extractors::{JsonBody, PathParams, QueryParams};
use crate::http_problem::HttpProblem;
use crate::routes::{Route, bytes};
use crate::viewer_filter::{JsonAnswer, ViewerFiltered};
use crate::work_limits::{check_duration, long_work};

/// Default time that a helper has to end by itself before it is killed.
const USUAL_GRACE_MS: u64 = 5000;
/// Default and largest number of events in a page.
const USUAL_EVENTS: usize = 100;
const MOST_EVENTS: usize = 1000;
/// Approximate size limit of a page of events.
const PAGE_BYTES: usize = 4 << 20;
/// Default and largest size of a piece of output.
const USUAL_OUTPUT_BYTES: usize = 64 * 1024;
const MOST_OUTPUT_BYTES: usize = 1 << 20;
/// Header with the offset at which the output ends by now.
const OUTPUT_END: &str = "x-output-end";
/// Header with the offset at which the bytes of the answer begin. Bytes that are no longer kept are skipped.
const OUTPUT_FROM: &str = "x-output-from";

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("list_helpers", "/v1/helpers", AccessScope::Read, list)
            .about("The helpers of this host, and the sessions that own them.")
            .filtered()
            .query::<HelpersQuery>()
            .gives::<HelperList>(200, "the helpers, sorted by name")
            .fails(&[Refused]),
        Route::post("ensure_helper", "/v1/helpers", AccessScope::Control, ensure)
            .about(
                "Makes a session own a helper, and starts the helper if it does not run; answered when it is \
                 ready.",
            )
            .filtered()
            .takes::<EnsureHelper>()
            .gives::<SessionStatus>(200, "the helper is ready")
            .fails(&[Usage, NotFound, Refused, Held, TimedOut, Full, Unreachable]),
        Route::get("get_helper", "/v1/helpers/{helper}", AccessScope::Read, one)
            .about("The state of a helper.")
            .filtered()
            .gives::<SessionStatus>(200, "the state")
            .fails(&[NotFound, Unreachable]),
        Route::post("release_helper", "/v1/helpers/{helper}/release", AccessScope::Control, release)
            .about("Removes a session from the owners of a helper; a helper without owners stops.")
            .filtered()
            .takes::<ReleaseHelper>()
            .gives::<SessionStatus>(200, "the session no longer owns the helper")
            .fails(&[NotFound, Refused, Unreachable]),
        Route::post("stop_helper", "/v1/helpers/{helper}/stop", AccessScope::Control, end)
            .about(
                "Ends a helper and removes all its owners; answered when its end is proven. A caller that \
                 may see only some of its owners removes only these.",
            )
            .filtered()
            .takes::<StopHelper>()
            .gives::<SessionStatus>(200, "the helper has ended")
            .fails(&[NotFound, Held, Refused, Full, Unreachable]),
        Route::get("helper_log", "/v1/helpers/{helper}/log", AccessScope::Read, log)
            .about("Events of a helper.")
            .filtered()
            .query::<HelperEventsQuery>()
            .gives::<HelperEvents>(200, "the events, in order")
            .fails(&[NotFound, Refused]),
        Route::get("helper_output", "/v1/helpers/{helper}/output", AccessScope::Read, raw)
            .about("Raw output of a helper.")
            .filtered()
            .query::<HelperOutputQuery>()
            .gives_as(200, "the bytes", "application/octet-stream", Some(bytes))
            .response_header(
                "X-Output-From",
                "Offset of the first byte: later than requested if earlier output is no longer kept.",
            )
            .response_header("X-Output-End", "Offset of the end of the output.")
            .fails(&[NotFound, Refused]),
    ]
}

/// The helpers that the client asks for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct HelpersQuery {
    /// Include stopped helpers.
    #[serde(default)]
    all: bool,
}

/// A list of helpers.
#[derive(Serialize, JsonSchema)]
struct HelperList {
    /// The helpers, sorted by name.
    helpers: Vec<SessionStatus>,
    /// Helpers whose records could not be read, or that could not be brought to their end.
    damaged: Vec<String>,
}

impl ViewerFiltered for HelperList {
    fn hide_from(&mut self, viewer: &ViewerRights) {
        self.helpers.hide_from(viewer);
    }
}

async fn list(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    QueryParams(which): QueryParams<HelpersQuery>,
) -> Result<JsonAnswer<HelperList>, HttpProblem> {
    let ctx = caller.ctx(&state);
    let found = run_blocking(move || {
        let mut all = helper::list_helpers(&ctx.helpers()?)?;
        all.helpers.retain(|it| (which.all || it.state != SessionState::Stopped) && is_theirs(&caller, it));
        all.helpers.iter_mut().for_each(|it| hide_others(&caller, it));
        let damaged = all.damaged.into_iter().filter(|_| caller.sessions.is_none());
        Ok(HelperList { helpers: all.helpers, damaged: damaged.map(|problem| problem.what).collect() })
    });
    Ok(JsonAnswer(found.await?))
}

/// True if the caller may see this helper: a caller that is limited to some sessions sees only what these own.
fn is_theirs(caller: &RequestCaller, helper: &SessionStatus) -> bool {
    let mut owners = helper.helper.iter().flat_map(|helper| &helper.owners);
    caller.sessions.is_none() || owners.any(|owner| is_seen(caller, &owner.session))
}

/// True if the caller may see this session.
fn is_seen(caller: &RequestCaller, session: &str) -> bool {
    caller.sessions.is_none() || SessionId::parse(session).is_some_and(|id| caller.may_see(&id))
}

/// Removes the owners that the caller may not see.
fn hide_others(caller: &RequestCaller, helper: &mut SessionStatus) {
    if let Some(helper) = &mut helper.helper {
        helper.owners.retain(|owner| is_seen(caller, &owner.session));
    }
}

/// Error for a missing helper, and for one that the caller may not see: both get the same text.
fn not_there(named: &str) -> HttpProblem {
    let what = format!("there is no helper `{}`", named.escape_debug());
    Problem::not_found(what).hint("GET /v1/helpers?all=true lists them").into()
}

/// A helper that a session wants.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct EnsureHelper {
    /// Name of the helper.
    name: String,
    /// The session that owns it, by name or id; it must run.
    owner: String,
    /// Scope in which sessions share the helper.
    #[serde(default)]
    scope: HelperShare,
    /// Absolute path of the directory that the helper runs in; with the scope `dir` also the directory that it belongs
    /// to.
    cwd: Option<PathBuf>,
    /// Time that the helper keeps running after its last owner has left, in milliseconds.
    idle_ms: Option<u64>,
    /// Condition that makes the helper ready: `tcp:PORT`, `unix:PATH` or `line:REGEX`.
    ready: Option<String>,
    /// Longest time that the helper may take to get ready, in milliseconds.
    ready_timeout_ms: Option<u64>,
    /// Keep the helper between the turns of the session.
    #[serde(default)]
    keep: bool,
    /// The command and its arguments.
    #[schemars(length(min = 1))]
    command: Vec<String>,
}

/// Scope in which sessions share a helper.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Default, Debug)]
#[serde(rename_all = "snake_case")]
enum HelperShare {
    /// Shared by the sessions of the helper's directory.
    #[default]
    Dir,
    /// Shared by all sessions of the account.
    User,
}

async fn ensure(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    JsonBody(wanted): JsonBody<EnsureHelper>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    let owner = RequestedSession::find(&state, caller, wanted.owner.clone()).await?;
    let is_of_account = wanted.scope == HelperShare::User;
    let is_limited = owner.caller.sessions.is_some();
    // Without `cwd` the directory of the session is used: the gateway's own means nothing to a caller.
    let cwd = match wanted.cwd {
        Some(dir) if dir.is_absolute() && !is_limited => dir,
        Some(dir) if !dir.is_absolute() => {
            let what = format!("`cwd` is not an absolute path: {}", dir.display());
            return Err(HttpProblem::usage(what).hint("write the directory from / on"));
        }
        given @ (Some(_) | None) => {
            let (ctx, id) = (owner.ctx.clone(), owner.id.clone());
            let own: PathBuf = run_blocking(move || ctx.known(&id)).await?.0.what.cwd.into();
            // In another directory, or in the account, other sessions would share the helper.
            if is_limited && (is_of_account || given.is_some_and(|dir| dir != own)) {
                let what =
                    "your token is limited to some sessions, and can only use helpers in their directories";
                let hint = "leave out `cwd` and `scope`";
                return Err(Problem::not_allowed(what).hint(hint).into());
            }
            own
        }
    };
    if wanted.command.first().is_none_or(String::is_empty) {
        return Err(HttpProblem::usage("`command` is empty").hint("give a program and its arguments"));
    }
    let ready_within =
        wanted.ready_timeout_ms.map(|ms| check_duration("ready_timeout_ms", ms)).transpose()?;
    let asked = HelperRequest {
        name: wanted.name,
        owner: owner.id,
        keep: wanted.keep,
        is_of_account,
        cwd: Some(cwd),
        linger: wanted.idle_ms.map(Duration::from_millis),
        ready: wanted.ready.as_deref().map(ready).transpose()?,
        ready_within: ready_within.map_or(READY_WITHIN, Duration::from_millis),
        command: wanted.command,
    };
    let (ctx, caller) = (owner.ctx, owner.caller);
    let ensured = long_work(move || {
        let helpers = ctx.helpers()?;
        let mut status = helper::ensure(&helpers, &asked).map_err(|problem| {
            // The error may describe another helper and how it was started, which the caller may not be allowed to see.
            if caller.sessions.is_none()
                || problem.code != ProblemCode::Refused
                || is_had(&helpers, &caller, &asked)
            {
                return problem;
            }
            let name = asked.name.escape_debug();
            Problem::refused(format!("helper `{name}` cannot be started with these settings"))
                .hint("use another name")
        })?;
        hide_others(&caller, &mut status);
        Ok(status)
    });
    Ok(JsonAnswer(ensured.await?))
}

fn ready(text: &str) -> Result<ReadinessProbe, Problem> {
    let bad = |why: String| Problem::usage(format!("`ready` cannot be used: {why}"));
    let ready = ReadinessProbe::parse(text);
    let ready = ready.ok_or_else(|| bad("use tcp:PORT, unix:PATH or line:REGEX".to_owned()))?;
    if let ReadinessProbe::Line(pattern) = &ready {
        berth_verbs::helper::readiness_pattern(pattern).map_err(|error| bad(error.to_string()))?;
    }
    Ok(ready)
}

/// True if the caller may see the helper of that name, or if there is none.
fn is_had(helpers: &VerbContext, caller: &RequestCaller, asked: &HelperRequest) -> bool {
    let Ok(all) = helper::list_helpers(helpers) else { return false };
    let is_meant = |it: &&SessionStatus| it.helper.as_ref().is_some_and(|helper| helper.name == asked.name);
    all.damaged.is_empty() && all.helpers.iter().filter(is_meant).all(|it| is_theirs(caller, it))
}

/// Finds the helper with this name or id, if the caller may see it: its state, and the context to act on it.
async fn helper(
    state: &AppState,
    caller: &RequestCaller,
    named: &str,
) -> Result<(VerbContext, SessionId, SessionStatus), HttpProblem> {
    let (ctx, text) = (caller.ctx(state), named.to_owned());
    let found = run_blocking(move || {
        let helpers = ctx.helpers()?;
        let id = helper::find(&helpers, &text, None)?;
        let (status, _) = helpers.known(&id).map_err(|problem| reword_for_helper(problem, &id))?;
        let status = describe_helper(&helpers, status);
        Ok((helpers, id, status))
    });
    match found.await {
        Ok(found) if is_theirs(caller, &found.2) => Ok(found),
        Ok(_) => Err(not_there(named)),
        // The error may name other helpers, which the caller may not see.
        Err(_) if caller.sessions.is_some() => Err(not_there(named)),
        Err(fault) => Err(fault),
    }
}

async fn one(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams(named): PathParams<String>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    let mut status = helper(&state, &caller, &named).await?.2;
    hide_others(&caller, &mut status);
    Ok(JsonAnswer(status))
}

/// The session that releases a helper.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ReleaseHelper {
    /// The session that owns the helper, by name or id.
    owner: String,
}

async fn release(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams(named): PathParams<String>,
    JsonBody(leaving): JsonBody<ReleaseHelper>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    let owner = RequestedSession::find(&state, caller, leaving.owner).await?;
    let (ctx, owner, caller) = (owner.ctx, owner.id, owner.caller);
    let (text, leaver) = (named.clone(), owner.clone());
    let is_limited = caller.sessions.is_some();
    let found = run_blocking(move || {
        let helpers = ctx.helpers()?;
        let id = helper::find_owned(&helpers, &text, None, &leaver)?;
        let known = is_limited.then(|| Ok(describe_helper(&helpers, helpers.known(&id)?.0))).transpose()?;
        Ok((helpers, id, known))
    });
    let (helpers, id) = match found.await {
        Ok((helpers, id, known)) if known.as_ref().is_none_or(|known| is_theirs(&caller, known)) => {
            (helpers, id)
        }
        Err(fault) if caller.sessions.is_none() => return Err(fault),
        Ok(_) | Err(_) => return Err(not_there(&named)),
    };
    let mut status = run_blocking(move || helper::release(&helpers, &id, &owner)).await?;
    hide_others(&caller, &mut status);
    Ok(JsonAnswer(status))
}

/// The way to end a helper.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct StopHelper {
    /// Time that the helper has to end by itself before it is killed, in milliseconds.
    grace_ms: Option<u64>,
}

async fn end(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams(named): PathParams<String>,
    JsonBody(grace): JsonBody<StopHelper>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    let grace_ms = check_duration("grace_ms", grace.grace_ms.unwrap_or(USUAL_GRACE_MS))?;
    let (helpers, id, _) = helper(&state, &caller, &named).await?;
    let asker = caller.clone();
    let ended = long_work(move || {
        // The owners are read only here, after all waiting: a session that became an owner meanwhile keeps the helper.
        let known = describe_helper(
            &helpers,
            helpers.known(&id).map_err(|problem| reword_for_helper(problem, &id))?.0,
        );
        let owners = known.helper.into_iter().flat_map(|it| it.owners).map(|owner| owner.session);
        let (seen, others): (Vec<_>, Vec<_>) = owners.partition(|owner| is_seen(&asker, owner));
        if others.is_empty() {
            let ended = stop::stop(&helpers, &id, grace_ms);
            return ended
                .map(|status| describe_helper(&helpers, status))
                .map_err(|problem| reword_for_helper(problem, &id));
        }
        // Other sessions own the helper as well, so only the caller's sessions are removed from its owners.
        let mut left = None;
        for owner in seen.iter().filter_map(|owner| SessionId::parse(owner)) {
            left = Some(helper::release(&helpers, &id, &owner)?);
        }
        left.ok_or_else(|| not_there(&named).problem)
    });
    let mut status = ended.await?;
    hide_others(&caller, &mut status);
    Ok(JsonAnswer(status))
}

/// The events that the client asks for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct HelperEventsQuery {
    /// Number of the last event that the client has already.
    #[serde(default)]
    after: u64,
    /// Largest number of events in the page.
    limit: Option<usize>,
}

/// A page of the events of a helper.
#[derive(Serialize, JsonSchema)]
struct HelperEvents {
    /// The events, in order.
    events: Vec<EventLine>,
    /// Number to send as `after` for the next page; absent if this was the last one.
    next_after: Option<u64>,
}

impl ViewerFiltered for HelperEvents {
    fn hide_from(&mut self, viewer: &ViewerRights) {
        self.events.hide_from(viewer);
    }
}

async fn log(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams(named): PathParams<String>,
    QueryParams(part): QueryParams<HelperEventsQuery>,
) -> Result<JsonAnswer<HelperEvents>, HttpProblem> {
    let (helpers, id, known) = helper(&state, &caller, &named).await?;
    let limit = part.limit.unwrap_or(USUAL_EVENTS).clamp(1, MOST_EVENTS);
    let told = run_blocking(move || {
        let (from, to) = (part.after.saturating_add(1), part.after.saturating_add(limit as u64));
        let lines = events::read(&helpers, &id, from, to, PAGE_BYTES);
        let mut lines = lines.map_err(|problem| reword_for_helper(problem, &id))?;
        let next_after = lines.last().map(|line| line.seq).filter(|last| *last < known.seq);
        lines.retain(|line| match &line.event {
            Event::OwnerJoined { owner } => is_seen(&caller, &owner.session),
            Event::OwnerLeft { owner, .. } => is_seen(&caller, owner),
            _ => true,
        });
        Ok(HelperEvents { events: lines, next_after })
    });
    Ok(JsonAnswer(told.await?))
}

/// The bytes that the client asks for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct HelperOutputQuery {
    /// Offset of the first byte.
    #[serde(default)]
    from: u64,
    /// Largest number of bytes.
    limit: Option<usize>,
}

async fn raw(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams(named): PathParams<String>,
    QueryParams(bytes): QueryParams<HelperOutputQuery>,
) -> Result<Response, HttpProblem> {
    let (helpers, id, _) = helper(&state, &caller, &named).await?;
    let limit = bytes.limit.unwrap_or(USUAL_OUTPUT_BYTES).min(MOST_OUTPUT_BYTES);
    let piece = run_blocking(move || {
        output::read(&helpers, &id, bytes.from, limit).map_err(|problem| reword_for_helper(problem, &id))
    });
    let piece = piece.await?;
    let headers = [
        (header::CONTENT_TYPE.as_str(), "application/octet-stream".to_owned()),
        (OUTPUT_END, piece.end.to_string()),
        (OUTPUT_FROM, piece.from.to_string()),
    ];
    Ok((headers, piece.bytes).into_response())
}
