//! Helpers: processes that sessions share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use berth_api::helper::ReadyWhen;
use berth_api::record::Event;
use berth_api::{Code, Problem, Scope, SessionState, Status, Viewer};
use berth_core::SessionId;
use berth_verbs::events::{self, Line};
use berth_verbs::helper::{self, Asked, READY_WITHIN, described, reworded};
use berth_verbs::{Ctx, output, stop};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Target};
use crate::fault::Fault;
use crate::gate::{Gate, work};
use crate::http::body::{Body, Path, Query};
use crate::routes::{Route, bytes};
use crate::seats::{at_most_an_hour, long_work};
use crate::visible::{Json, Visible};

/// How long a helper is asked to end before it is made to, if nobody says.
const USUAL_GRACE_MS: u64 = 5000;
/// How many events a page has if nobody says, and at most.
const USUAL_EVENTS: usize = 100;
const MOST_EVENTS: usize = 1000;
/// How much a page of events has, about.
const PAGE_BYTES: usize = 4 << 20;
/// How much output an answer has if nobody says, and at most.
const USUAL_OUTPUT_BYTES: usize = 64 * 1024;
const MOST_OUTPUT_BYTES: usize = 1 << 20;
/// Where the output ends by now.
const OUTPUT_END: &str = "x-output-end";
/// Where the bytes in the answer begin: what is no longer kept is passed over.
const OUTPUT_FROM: &str = "x-output-from";

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_helpers", "/v1/helpers", Scope::Read, list)
            .about("The helpers there are, and who owns them.")
            .filtered()
            .query::<Which>()
            .gives::<Helpers>(200, "by name")
            .fails(&[Code::Refused]),
        Route::post("ensure_helper", "/v1/helpers", Scope::Control, ensure)
            .about(
                "Makes a session own a helper, and starts it if it does not run; answered when it is \
                 ready.",
            )
            .filtered()
            .takes::<EnsureHelper>()
            .gives::<Status>(200, "it is ready")
            .fails(&[
                Code::Usage,
                Code::NotFound,
                Code::Refused,
                Code::Held,
                Code::TimedOut,
                Code::Full,
                Code::Unreachable,
            ]),
        Route::get("get_helper", "/v1/helpers/{helper}", Scope::Read, one)
            .about("What is known about a helper.")
            .filtered()
            .gives::<Status>(200, "what is known")
            .fails(&[Code::NotFound, Code::Unreachable]),
        Route::post("release_helper", "/v1/helpers/{helper}/release", Scope::Control, release)
            .about("Makes a session own a helper no longer; the last one out stops it.")
            .filtered()
            .takes::<ReleaseHelper>()
            .gives::<Status>(200, "that is recorded")
            .fails(&[Code::NotFound, Code::Refused, Code::Unreachable]),
        Route::post("stop_helper", "/v1/helpers/{helper}/stop", Scope::Control, end)
            .about(
                "End a helper with all its owners; answered when its end is proven. A caller who may see \
                 some of its owners only removes these.",
            )
            .filtered()
            .takes::<StopHelper>()
            .gives::<Status>(200, "it is over")
            .fails(&[Code::NotFound, Code::Held, Code::Refused, Code::Full, Code::Unreachable]),
        Route::get("helper_log", "/v1/helpers/{helper}/log", Scope::Read, log)
            .about("What happened to a helper.")
            .filtered()
            .query::<HelperEventsPart>()
            .gives::<HelperEvents>(200, "events, in order")
            .fails(&[Code::NotFound, Code::Refused]),
        Route::get("helper_output", "/v1/helpers/{helper}/output", Scope::Read, raw)
            .about("A helper's raw output.")
            .filtered()
            .query::<HelperBytes>()
            .gives_as(200, "the bytes", "application/octet-stream", Some(bytes))
            .tells("X-Output-From", "Where the bytes begin: later than asked for if that is no longer kept.")
            .tells("X-Output-End", "How far the output reaches in all.")
            .fails(&[Code::NotFound, Code::Refused]),
    ]
}

/// Which helpers.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Those that are stopped, too.
    #[serde(default)]
    all: bool,
}

/// Helpers.
#[derive(Serialize, JsonSchema)]
struct Helpers {
    /// By name.
    helpers: Vec<Status>,
    /// What could not be read, or brought to its end.
    damaged: Vec<String>,
}

impl Visible for Helpers {
    fn hide_from(&mut self, viewer: &Viewer) {
        self.helpers.hide_from(viewer);
    }
}

async fn list(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<Helpers>, Fault> {
    let ctx = caller.ctx(&gate);
    let found = work(move || {
        let mut all = helper::list(&ctx.helpers()?)?;
        all.helpers.retain(|it| (which.all || it.state != SessionState::Stopped) && is_theirs(&caller, it));
        all.helpers.iter_mut().for_each(|it| hide_others(&caller, it));
        let damaged = all.damaged.into_iter().filter(|_| caller.sessions.is_none());
        Ok(Helpers { helpers: all.helpers, damaged: damaged.map(|problem| problem.what).collect() })
    });
    Ok(Json(found.await?))
}

/// Whether there is such a helper for them: those who may see some sessions only see what these own.
fn is_theirs(caller: &Caller, helper: &Status) -> bool {
    let mut owners = helper.helper.iter().flat_map(|helper| &helper.owners);
    caller.sessions.is_none() || owners.any(|owner| is_seen(caller, &owner.session))
}

/// Whether there is such a session for them.
fn is_seen(caller: &Caller, session: &str) -> bool {
    caller.sessions.is_none() || SessionId::parse(session).is_some_and(|id| caller.may_see(&id))
}

/// Takes away the owners that are none of their business.
fn hide_others(caller: &Caller, helper: &mut Status) {
    if let Some(helper) = &mut helper.helper {
        helper.owners.retain(|owner| is_seen(caller, &owner.session));
    }
}

/// The same words for what is not there and for what is none of their business.
fn not_there(named: &str) -> Fault {
    let what = format!("there is no helper `{}`", named.escape_debug());
    Problem::new(Code::NotFound, what).hint("GET /v1/helpers?all=true lists them").into()
}

/// A helper that a session wants.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct EnsureHelper {
    /// What it is called.
    name: String,
    /// The session that owns it, by name or id; it must run.
    owner: String,
    /// Who shares it.
    #[serde(default)]
    scope: Share,
    /// Where it runs, from / on; and with the scope `dir` which directory it is of.
    cwd: Option<PathBuf>,
    /// How long it stays when its last owner has left.
    idle_ms: Option<u64>,
    /// What makes it ready: `tcp:PORT`, `unix:PATH` or `line:REGEX`.
    ready: Option<String>,
    /// How long it may take to get ready.
    ready_timeout_ms: Option<u64>,
    /// The session wants it also between its turns.
    #[serde(default)]
    keep: bool,
    /// The command and its arguments.
    #[schemars(length(min = 1))]
    command: Vec<String>,
}

/// Who shares a helper.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Default, Debug)]
#[serde(rename_all = "snake_case")]
enum Share {
    /// Those of its directory.
    #[default]
    Dir,
    /// All of the account.
    User,
}

async fn ensure(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Body(wanted): Body<EnsureHelper>,
) -> Result<Json<Status>, Fault> {
    let owner = Target::find(&gate, caller, wanted.owner.clone()).await?;
    let is_of_account = wanted.scope == Share::User;
    let is_limited = owner.caller.sessions.is_some();
    // A gateway is in no directory that anybody means.
    let cwd = match wanted.cwd {
        Some(dir) if dir.is_absolute() && !is_limited => dir,
        Some(dir) if !dir.is_absolute() => {
            let what = format!("`cwd` is not an absolute path: {}", dir.display());
            return Err(Fault::usage(what).hint("write the directory from / on"));
        }
        given @ (Some(_) | None) => {
            let (ctx, id) = (owner.ctx.clone(), owner.id.clone());
            let own: PathBuf = work(move || ctx.known(&id)).await?.0.what.cwd.into();
            // Elsewhere, and in the account, it would be one that others share.
            if is_limited && (is_of_account || given.is_some_and(|dir| dir != own)) {
                let what = "your token is for some sessions only, and so are helpers in their directories";
                let hint = "leave out `cwd` and `scope`";
                return Err(Problem::new(Code::NotAllowed, what).hint(hint).into());
            }
            own
        }
    };
    if wanted.command.first().is_none_or(String::is_empty) {
        return Err(Fault::usage("there is nothing to run").hint("`command` is a program and its arguments"));
    }
    let ready_within =
        wanted.ready_timeout_ms.map(|ms| at_most_an_hour("ready_timeout_ms", ms)).transpose()?;
    let asked = Asked {
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
            // What there is instead, and how it was started, may be none of their business.
            if caller.sessions.is_none() || problem.code != Code::Refused || is_had(&helpers, &caller, &asked)
            {
                return problem;
            }
            let name = asked.name.escape_debug();
            Problem::new(Code::Refused, format!("helper `{name}` cannot be had like this"))
                .hint("use another name")
        })?;
        hide_others(&caller, &mut status);
        Ok(status)
    });
    Ok(Json(ensured.await?))
}

fn ready(text: &str) -> Result<ReadyWhen, Problem> {
    let bad = |why: String| Problem::new(Code::Usage, format!("`ready` cannot be used: {why}"));
    let ready = ReadyWhen::parse(text);
    let ready = ready.ok_or_else(|| bad("it is tcp:PORT, unix:PATH or line:REGEX".to_owned()))?;
    if let ReadyWhen::Line(pattern) = &ready {
        berth_keeper::helpers::pattern(pattern).map_err(|error| bad(error.to_string()))?;
    }
    Ok(ready)
}

/// Whether there is such a helper for them already, or none at all.
fn is_had(helpers: &Ctx, caller: &Caller, asked: &Asked) -> bool {
    let Ok(all) = helper::list(helpers) else { return false };
    let is_meant = |it: &&Status| it.helper.as_ref().is_some_and(|helper| helper.name == asked.name);
    all.damaged.is_empty() && all.helpers.iter().filter(is_meant).all(|it| is_theirs(caller, it))
}

/// The helper that somebody calls so, if there is one for them: what is known, and how to act on it.
async fn helper(gate: &Gate, caller: &Caller, named: &str) -> Result<(Ctx, SessionId, Status), Fault> {
    let (ctx, text) = (caller.ctx(gate), named.to_owned());
    let found = work(move || {
        let helpers = ctx.helpers()?;
        let id = helper::find(&helpers, &text, None)?;
        let (status, _) = helpers.known(&id).map_err(|problem| reworded(problem, &id))?;
        let status = described(&helpers, status);
        Ok((helpers, id, status))
    });
    match found.await {
        Ok(found) if is_theirs(caller, &found.2) => Ok(found),
        Ok(_) => Err(not_there(named)),
        // What it could mean instead may be none of their business.
        Err(_) if caller.sessions.is_some() => Err(not_there(named)),
        Err(fault) => Err(fault),
    }
}

async fn one(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path(named): Path<String>,
) -> Result<Json<Status>, Fault> {
    let mut status = helper(&gate, &caller, &named).await?.2;
    hide_others(&caller, &mut status);
    Ok(Json(status))
}

/// Who leaves.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ReleaseHelper {
    /// The session that owned it, by name or id.
    owner: String,
}

async fn release(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path(named): Path<String>,
    Body(leaving): Body<ReleaseHelper>,
) -> Result<Json<Status>, Fault> {
    let owner = Target::find(&gate, caller, leaving.owner).await?;
    let (ctx, owner, caller) = (owner.ctx, owner.id, owner.caller);
    let (text, leaver) = (named.clone(), owner.clone());
    let is_limited = caller.sessions.is_some();
    let found = work(move || {
        let helpers = ctx.helpers()?;
        let id = helper::find_owned(&helpers, &text, None, &leaver)?;
        let known = is_limited.then(|| Ok(described(&helpers, helpers.known(&id)?.0))).transpose()?;
        Ok((helpers, id, known))
    });
    let (helpers, id) = match found.await {
        Ok((helpers, id, known)) if known.as_ref().is_none_or(|known| is_theirs(&caller, known)) => {
            (helpers, id)
        }
        Err(fault) if caller.sessions.is_none() => return Err(fault),
        Ok(_) | Err(_) => return Err(not_there(&named)),
    };
    let mut status = work(move || helper::release(&helpers, &id, &owner)).await?;
    hide_others(&caller, &mut status);
    Ok(Json(status))
}

/// How to end it.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct StopHelper {
    /// How long it is asked to end before it is made to.
    grace_ms: Option<u64>,
}

async fn end(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path(named): Path<String>,
    Body(grace): Body<StopHelper>,
) -> Result<Json<Status>, Fault> {
    let grace_ms = at_most_an_hour("grace_ms", grace.grace_ms.unwrap_or(USUAL_GRACE_MS))?;
    let (helpers, id, _) = helper(&gate, &caller, &named).await?;
    let asker = caller.clone();
    let ended = long_work(move || {
        // Looked at here, after whatever was waited for: whoever began to own it meanwhile keeps it.
        let known = described(&helpers, helpers.known(&id).map_err(|problem| reworded(problem, &id))?.0);
        let owners = known.helper.into_iter().flat_map(|it| it.owners).map(|owner| owner.session);
        let (seen, others): (Vec<_>, Vec<_>) = owners.partition(|owner| is_seen(&asker, owner));
        if others.is_empty() {
            let ended = stop::stop(&helpers, &id, grace_ms);
            return ended.map(|status| described(&helpers, status)).map_err(|problem| reworded(problem, &id));
        }
        // It is others', too: it ends for theirs alone.
        let mut left = None;
        for owner in seen.iter().filter_map(|owner| SessionId::parse(owner)) {
            left = Some(helper::release(&helpers, &id, &owner)?);
        }
        left.ok_or_else(|| not_there(&named).problem)
    });
    let mut status = ended.await?;
    hide_others(&caller, &mut status);
    Ok(Json(status))
}

/// Which events.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct HelperEventsPart {
    /// Only events behind this one, by number.
    #[serde(default)]
    after: u64,
    /// At most so many.
    limit: Option<usize>,
}

/// Events of a helper.
#[derive(Serialize, JsonSchema)]
struct HelperEvents {
    /// In order.
    events: Vec<Line>,
    /// Where to go on: the number to ask for events behind. Nothing if this was the end.
    next_after: Option<u64>,
}

impl Visible for HelperEvents {
    fn hide_from(&mut self, viewer: &Viewer) {
        self.events.hide_from(viewer);
    }
}

async fn log(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path(named): Path<String>,
    Query(part): Query<HelperEventsPart>,
) -> Result<Json<HelperEvents>, Fault> {
    let (helpers, id, known) = helper(&gate, &caller, &named).await?;
    let limit = part.limit.unwrap_or(USUAL_EVENTS).clamp(1, MOST_EVENTS);
    let told = work(move || {
        let (from, to) = (part.after.saturating_add(1), part.after.saturating_add(limit as u64));
        let lines = events::read(&helpers, &id, from, to, PAGE_BYTES);
        let mut lines = lines.map_err(|problem| reworded(problem, &id))?;
        let next_after = lines.last().map(|line| line.seq).filter(|last| *last < known.seq);
        lines.retain(|line| match &line.event {
            Event::OwnerJoined { owner } => is_seen(&caller, &owner.session),
            Event::OwnerLeft { owner, .. } => is_seen(&caller, owner),
            _ => true,
        });
        Ok(HelperEvents { events: lines, next_after })
    });
    Ok(Json(told.await?))
}

/// Which bytes.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct HelperBytes {
    /// From this offset on.
    #[serde(default)]
    from: u64,
    /// At most so many.
    limit: Option<usize>,
}

async fn raw(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path(named): Path<String>,
    Query(bytes): Query<HelperBytes>,
) -> Result<Response, Fault> {
    let (helpers, id, _) = helper(&gate, &caller, &named).await?;
    let limit = bytes.limit.unwrap_or(USUAL_OUTPUT_BYTES).min(MOST_OUTPUT_BYTES);
    let piece = work(move || {
        output::read(&helpers, &id, bytes.from, limit).map_err(|problem| reworded(problem, &id))
    });
    let piece = piece.await?;
    let headers = [
        (header::CONTENT_TYPE.as_str(), "application/octet-stream".to_owned()),
        (OUTPUT_END, piece.end.to_string()),
        (OUTPUT_FROM, piece.from.to_string()),
    ];
    Ok((headers, piece.bytes).into_response())
}
