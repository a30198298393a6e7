//! Lifecycle of a session: create, stop, resume, fork, archive and restore.

use std::path::Path;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use berth_api::record::AgentInterface;
use berth_api::turn::TurnReceipt;
use berth_api::{AccessScope, Problem, ProblemCode, SessionStatus, ViewerRights};
use berth_verbs::run::{self, id_of};
use berth_verbs::{fork, interface, lifecycle, resume, stop};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app_state::{AppState, or_store_unreadable, run_blocking};
use crate::caller::{RequestCaller, RequestedSession};
use crate::http::extractors::{JsonBody, idempotency_key};
use crate::http::session_params::CreateSession;
use crate::http::sessions::made;
use crate::http_problem::HttpProblem;
use crate::routes::Route;
use crate::viewer_filter::{JsonAnswer, ViewerFiltered};
use crate::work_limits::{check_duration, long_work};

/// Default time that a run has to end by itself before it is killed; `berth stop` uses the same.
const USUAL_GRACE_MS: u64 = 5000;

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::post("create_session", "/v1/sessions", AccessScope::Send, create)
            .about(
                "Starts an agent or a command in a new session. The response comes when the agent takes \
                 turns, or the command runs.",
            )
            .filtered()
            .takes::<CreateSession>()
            .header(
                "Idempotency-Key",
                "makes the call repeatable: a second call with this key returns the session of the first one",
            )
            .gives::<CreatedSession>(201, "the session runs")
            .gives::<CreatedSession>(200, "an earlier call with this key made the session")
            .fails(&[Usage, NotFound, Refused, InUse, TimedOut, Full, Unreachable]),
        Route::post("stop_session", "/v1/sessions/{session}/stop", AccessScope::Control, stop)
            .about("Ends the run of a session; answered when its end is proven.")
            .takes::<StopSession>()
            .gives::<SessionStatus>(200, "the run has ended")
            .fails(&[NotFound, Held, Refused, Full, Unreachable]),
        Route::post("resume_session", "/v1/sessions/{session}/resume", AccessScope::Send, resume)
            .about("Starts the next run of a session, and restores the session if it was archived.")
            .takes::<ResumeSession>()
            .gives::<SessionStatus>(200, "the session runs")
            .fails(&[NotFound, Held, InUse, Refused, Full, Unreachable]),
        Route::post("switch_interface", "/v1/sessions/{session}/interface", AccessScope::Control, switch)
            .about(
                "Switches to another interface of the session's agent, in the same conversation, once \
                 the turn that runs is over.",
            )
            .takes::<SwitchInterface>()
            .gives::<SessionStatus>(
                200,
                "the interface is chosen; `next_interface` names it until the run with it begins",
            )
            .fails(&[NotFound, Held, InUse, Refused, Full, Unreachable]),
        Route::post("fork_session", "/v1/sessions/{session}/fork", AccessScope::Send, fork)
            .about("Forks a session: starts a new one with a copy of its conversation.")
            .takes::<ForkSession>()
            .gives::<SessionStatus>(201, "the new session runs")
            .fails(&[NotFound, NotAllowed, Usage, Refused, Full, Unreachable]),
        Route::post("archive_session", "/v1/sessions/{session}/archive", AccessScope::Control, archive)
            .about("Archives a session that does not run; nothing is deleted.")
            .takes::<ArchiveSession>()
            .gives::<SessionStatus>(200, "the session is archived")
            .fails(&[NotFound, Held, Refused, Full, Unreachable]),
        Route::post("restore_session", "/v1/sessions/{session}/restore", AccessScope::Control, restore)
            .about("Restores an archived session; it does not run yet.")
            .takes::<EmptyBody>()
            .gives::<SessionStatus>(200, "the session is restored")
            .fails(&[NotFound, Held, Refused, Unreachable]),
    ]
}

/// A session that was made.
#[derive(Serialize, JsonSchema)]
struct CreatedSession {
    /// The new session.
    session: SessionStatus,
    /// The receipt of its first turn, if there is one.
    turn: Option<TurnReceipt>,
    /// True if an earlier call with this key made the session.
    repeated: bool,
    /// Names of variables that are in no record. They have to be in the gateway's environment when the session is
    /// resumed.
    left_out: Vec<String>,
}

impl ViewerFiltered for CreatedSession {
    fn hide_from(&mut self, viewer: &ViewerRights) {
        self.session.hide_from(viewer);
    }
}

async fn create(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    headers: HeaderMap,
    JsonBody(mut new): JsonBody<CreateSession>,
) -> Result<Response, HttpProblem> {
    caller.needs(new.scope())?;
    new.key = one_key(&headers, new.key.take())?;
    starts_others(&caller)?;
    let ctx = caller.ctx(&state);
    let created = long_work(move || {
        // Checked before anything else about the directory: a token below `control` must not be able to search the
        // disk.
        ctx.may_start_in(new.cwd.as_deref().unwrap_or(Path::new(".")))?;
        let (key, prompt) = (new.key.clone(), new.prompt.clone());
        let started = run::prepare(&new.into_run_request()?)?.start(&ctx);
        let made = started.map_err(|problem| or_store_unreadable(&ctx.home, problem))?;
        let id = id_of(&made.status)?;
        let submit = prompt.map(|prompt| run::first_turn(key.as_deref(), prompt, false));
        let turn = submit.map(|submit| ctx.session(&id).send(submit).map(|(_, receipt)| receipt));
        let turn =
            turn.transpose().map_err(|refused| run::without_its_turn(&id, made.is_repeated, refused))?;
        let session = if turn.is_some() { ctx.known(&id)?.0 } else { made.status };
        Ok(CreatedSession { session, turn, repeated: made.is_repeated, left_out: made.left_out })
    });
    let created = created.await?;
    Ok(if created.repeated { JsonAnswer(created).into_response() } else { made(created) })
}

/// Refuses to start another session for a caller that is limited to some sessions.
fn starts_others(caller: &RequestCaller) -> Result<(), Problem> {
    if caller.sessions.is_none() {
        return Ok(());
    }
    let what =
        "this token is limited to the sessions that were named when it was made, and cannot start others";
    Err(Problem::not_allowed(what).hint("`berth token new` makes a token for all sessions"))
}

/// The idempotency key of a call: the body may have it as well as the header.
fn one_key(headers: &HeaderMap, in_body: Option<String>) -> Result<Option<String>, HttpProblem> {
    let Some(header) = idempotency_key(headers)? else { return Ok(in_body) };
    match in_body {
        Some(key) if key != header => {
            Err(HttpProblem::usage("`key` and the header Idempotency-Key differ")
                .hint("leave one of them out"))
        }
        Some(_) | None => Ok(Some(header)),
    }
}

/// The way to end a run.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct StopSession {
    /// Time that the run has to end by itself before it is killed, in milliseconds.
    grace_ms: Option<u64>,
}

async fn stop(
    target: RequestedSession,
    JsonBody(grace): JsonBody<StopSession>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    let grace_ms = check_duration("grace_ms", grace.grace_ms.unwrap_or(USUAL_GRACE_MS))?;
    Ok(JsonAnswer(long_work(move || stop::stop(&target.ctx, &target.id, grace_ms)).await?))
}

/// The way to resume a session.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ResumeSession {
    /// Begin a new conversation instead of continuing the last one.
    #[serde(default)]
    fresh: bool,
    /// End other programs that write the conversation.
    #[serde(default)]
    take: bool,
}

async fn resume(
    target: RequestedSession,
    JsonBody(how): JsonBody<ResumeSession>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    // The grant of an agent is checked by the keeper, which knows its children.
    if how.take {
        target.caller.needs(AccessScope::Control)?;
    }
    let resumed = long_work(move || {
        let RequestedSession { id, handle, ctx, .. } = target;
        let (connection, status) = resume::begin(&ctx, &id, &handle, how.fresh, how.take.into())?;
        run::await_agent(&ctx, connection, status).map(|(_, status)| status)
    });
    Ok(JsonAnswer(resumed.await?))
}

/// The interface to switch to.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct SwitchInterface {
    /// Interface of the agent: one of `other_interfaces` of the session, or the current one to stay with it.
    interface: AgentInterface,
    /// Interrupt the turn that runs instead of waiting for its end.
    #[serde(default)]
    now: bool,
}

async fn switch(
    target: RequestedSession,
    JsonBody(wanted): JsonBody<SwitchInterface>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    let switched = long_work(move || {
        let RequestedSession { id, handle, ctx, .. } = target;
        interface::switch(&ctx, &id, &handle, wanted.interface, wanted.now).map(|(_, status)| status)
    });
    Ok(JsonAnswer(switched.await?))
}

/// The settings of a fork.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ForkSession {
    /// Name of the new session.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: Option<String>,
}

async fn fork(
    target: RequestedSession,
    JsonBody(how): JsonBody<ForkSession>,
) -> Result<Response, HttpProblem> {
    starts_others(&target.caller)?;
    let forked = long_work(move || {
        let RequestedSession { id, handle, ctx, .. } = target;
        fork::fork(&ctx, &id, &handle, how.name.as_deref()).map(|(_, status)| status)
    });
    Ok(made(forked.await?))
}

/// The way to archive a session.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ArchiveSession {
    /// End the run first.
    #[serde(default)]
    stop: bool,
    /// With `stop`: time that the run has to end by itself before it is killed, in milliseconds.
    grace_ms: Option<u64>,
}

async fn archive(
    target: RequestedSession,
    JsonBody(how): JsonBody<ArchiveSession>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    if how.grace_ms.is_some() && !how.stop {
        return Err(HttpProblem::usage("`grace_ms` needs `stop`"));
    }
    let grace_ms = check_duration("grace_ms", how.grace_ms.unwrap_or(USUAL_GRACE_MS))?;
    let archived = long_work(move || {
        let RequestedSession { id, ctx, .. } = target;
        if how.stop {
            stop::stop(&ctx, &id, grace_ms)?;
        }
        lifecycle::archive(&ctx, &id)
    });
    Ok(JsonAnswer(archived.await?))
}

/// A body without fields: an operation takes no arguments yet, and rejects unknown ones.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct EmptyBody {}

async fn restore(
    target: RequestedSession,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    Ok(JsonAnswer(run_blocking(move || lifecycle::restore(&target.ctx, &target.id)).await?))
}
