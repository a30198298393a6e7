//! What a session goes through: made, stopped, resumed, forked, put away, brought back.

use std::path::Path;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use berth_api::record::Interface;
use berth_api::turn::Receipt;
use berth_api::{Code, Problem, Scope, Status, Viewer};
use berth_verbs::run::{self, id_of};
use berth_verbs::{fork, interface, life, resume, stop, turns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Target};
use crate::fault::Fault;
use crate::gate::{Gate, or_no_store, work};
use crate::http::body::{Body, idempotency_key};
use crate::http::sessions::made;
use crate::http::wishes::NewSession;
use crate::routes::Route;
use crate::seats::{at_most_an_hour, long_work};
use crate::visible::{Json, Visible};

/// How long a session is asked to end before it is made to, if nobody says; as `berth stop` has it.
const USUAL_GRACE_MS: u64 = 5000;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::post("create_session", "/v1/sessions", Scope::Send, create)
            .about(
                "Starts an agent, or a command, in a new session; answered when it takes turns, if it \
                 does.",
            )
            .filtered()
            .takes::<NewSession>()
            .header("Idempotency-Key", "what makes the call repeatable: the same key is the same session")
            .gives::<CreatedSession>(201, "it runs")
            .gives::<CreatedSession>(200, "the key meant it already")
            .fails(&[
                Code::Usage,
                Code::NotFound,
                Code::Refused,
                Code::InUse,
                Code::TimedOut,
                Code::Full,
                Code::Unreachable,
            ]),
        Route::post("stop_session", "/v1/sessions/{session}/stop", Scope::Control, end)
            .about("Ends a session's run; answered when that is proven over.")
            .takes::<StopSession>()
            .gives::<Status>(200, "it is over")
            .fails(&[Code::NotFound, Code::Held, Code::Refused, Code::Full, Code::Unreachable]),
        Route::post("resume_session", "/v1/sessions/{session}/resume", Scope::Send, again)
            .about("Starts the next run of a session, and restores it if it was put away.")
            .takes::<ResumeSession>()
            .gives::<Status>(200, "it runs")
            .fails(&[Code::NotFound, Code::Held, Code::InUse, Code::Refused, Code::Full, Code::Unreachable]),
        Route::post("switch_interface", "/v1/sessions/{session}/interface", Scope::Control, switch)
            .about(
                "Goes on with another interface of the session's agent, in the same conversation, once \
                 the turn that runs is over.",
            )
            .takes::<SwitchInterface>()
            .gives::<Status>(200, "it was chosen; `next_interface` is there until the run with it begins")
            .fails(&[Code::NotFound, Code::Held, Code::InUse, Code::Refused, Code::Full, Code::Unreachable]),
        Route::post("fork_session", "/v1/sessions/{session}/fork", Scope::Send, copy)
            .about("Starts a new session with a copy of this one's conversation.")
            .takes::<ForkSession>()
            .gives::<Status>(201, "the new one runs")
            .fails(&[
                Code::NotFound,
                Code::NotAllowed,
                Code::Usage,
                Code::Refused,
                Code::Full,
                Code::Unreachable,
            ]),
        Route::post("archive_session", "/v1/sessions/{session}/archive", Scope::Control, put_away)
            .about("Puts a session away that does not run; nothing is deleted.")
            .takes::<ArchiveSession>()
            .gives::<Status>(200, "it is archived")
            .fails(&[Code::NotFound, Code::Held, Code::Refused, Code::Full, Code::Unreachable]),
        Route::post("restore_session", "/v1/sessions/{session}/restore", Scope::Control, bring_back)
            .about("Brings a session back that was put away; it does not run yet.")
            .takes::<Nothing>()
            .gives::<Status>(200, "it is back")
            .fails(&[Code::NotFound, Code::Held, Code::Refused, Code::Unreachable]),
    ]
}

/// A session that was made.
#[derive(Serialize, JsonSchema)]
struct CreatedSession {
    /// It.
    session: Status,
    /// The receipt of its first turn, if there is one.
    turn: Option<Receipt>,
    /// Whether the key meant it already.
    repeated: bool,
    /// Variables that are in no record, and have to be in the gateway's environment when it is resumed.
    left_out: Vec<String>,
}

impl Visible for CreatedSession {
    fn hide_from(&mut self, viewer: &Viewer) {
        self.session.hide_from(viewer);
    }
}

async fn create(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    headers: HeaderMap,
    Body(mut new): Body<NewSession>,
) -> Result<Response, Fault> {
    caller.needs(new.scope())?;
    new.key = one_key(&headers, new.key.take())?;
    starts_others(&caller)?;
    let ctx = caller.ctx(&gate);
    let created = long_work(move || {
        // Checked before anything else about the directory: a token below `control` must not be able to search the disk.
        ctx.may_start_in(new.cwd.as_deref().unwrap_or(Path::new(".")))?;
        let (key, prompt) = (new.key.clone(), new.prompt.clone());
        let started = run::prepare(&new.wanted()?)?.start(&ctx);
        let made = started.map_err(|problem| or_no_store(&ctx.home, problem))?;
        let id = id_of(&made.status)?;
        let submit = prompt.map(|prompt| run::first_turn(key.as_deref(), prompt, false));
        let turn = submit.map(|submit| turns::send(&ctx, &id, submit).map(|(_, receipt)| receipt));
        let turn =
            turn.transpose().map_err(|refused| run::without_its_turn(&id, made.is_repeated, refused))?;
        let session = if turn.is_some() { ctx.known(&id)?.0 } else { made.status };
        Ok(CreatedSession { session, turn, repeated: made.is_repeated, left_out: made.left_out })
    });
    let created = created.await?;
    Ok(if created.repeated { Json(created).into_response() } else { made(created) })
}

/// Refuses who has some sessions only what would make another one.
fn starts_others(caller: &Caller) -> Result<(), Problem> {
    if caller.sessions.is_none() {
        return Ok(());
    }
    let what = "this token is for sessions that were named when it was made, and starts no others";
    Err(Problem::new(Code::NotAllowed, what).hint("`berth token new` makes one for all"))
}

/// The key of a call, which may be in its body as well.
fn one_key(headers: &HeaderMap, in_body: Option<String>) -> Result<Option<String>, Fault> {
    let Some(header) = idempotency_key(headers)? else { return Ok(in_body) };
    match in_body {
        Some(key) if key != header => {
            Err(Fault::usage("`key` and the header Idempotency-Key are not the same")
                .hint("leave one of them out"))
        }
        Some(_) | None => Ok(Some(header)),
    }
}

/// How to end it.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct StopSession {
    /// How long it is asked to end before it is made to.
    grace_ms: Option<u64>,
}

async fn end(target: Target, Body(grace): Body<StopSession>) -> Result<Json<Status>, Fault> {
    let grace_ms = at_most_an_hour("grace_ms", grace.grace_ms.unwrap_or(USUAL_GRACE_MS))?;
    Ok(Json(long_work(move || stop::stop(&target.ctx, &target.id, grace_ms)).await?))
}

/// How to go on.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ResumeSession {
    /// Begin a new conversation instead of going on with the one there was.
    #[serde(default)]
    fresh: bool,
    /// End other programs that write the conversation.
    #[serde(default)]
    take: bool,
}

async fn again(target: Target, Body(how): Body<ResumeSession>) -> Result<Json<Status>, Fault> {
    // An agent is asked for its grant by the keeper, which knows its children.
    if how.take {
        target.caller.needs(Scope::Control)?;
    }
    let resumed = long_work(move || {
        let Target { id, handle, ctx, .. } = target;
        let (connection, status) = resume::begin(&ctx, &id, &handle, how.fresh, how.take.into())?;
        run::await_agent(&ctx, connection, status).map(|(_, status)| status)
    });
    Ok(Json(resumed.await?))
}

/// The interface to go on with.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct SwitchInterface {
    /// Interface of the agent: one of `other_interfaces` of the session, or the current one to stay with it.
    interface: Interface,
    /// Interrupt the turn that runs instead of waiting for its end.
    #[serde(default)]
    now: bool,
}

async fn switch(target: Target, Body(wanted): Body<SwitchInterface>) -> Result<Json<Status>, Fault> {
    let switched = long_work(move || {
        let Target { id, handle, ctx, .. } = target;
        interface::switch(&ctx, &id, &handle, wanted.interface, wanted.now).map(|(_, status)| status)
    });
    Ok(Json(switched.await?))
}

/// What to call the copy.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ForkSession {
    /// Its name.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: Option<String>,
}

async fn copy(target: Target, Body(how): Body<ForkSession>) -> Result<Response, Fault> {
    starts_others(&target.caller)?;
    let forked = long_work(move || {
        let Target { id, handle, ctx, .. } = target;
        fork::fork(&ctx, &id, &handle, how.name.as_deref()).map(|(_, status)| status)
    });
    Ok(made(forked.await?))
}

/// How to put it away.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ArchiveSession {
    /// End it first.
    #[serde(default)]
    stop: bool,
    /// With `stop`: how long it is asked to end before it is made to.
    grace_ms: Option<u64>,
}

async fn put_away(target: Target, Body(how): Body<ArchiveSession>) -> Result<Json<Status>, Fault> {
    if how.grace_ms.is_some() && !how.stop {
        return Err(Fault::usage("`grace_ms` goes with `stop`"));
    }
    let grace_ms = at_most_an_hour("grace_ms", how.grace_ms.unwrap_or(USUAL_GRACE_MS))?;
    let archived = long_work(move || {
        let Target { id, ctx, .. } = target;
        if how.stop {
            stop::stop(&ctx, &id, grace_ms)?;
        }
        life::archive(&ctx, &id)
    });
    Ok(Json(archived.await?))
}

/// Nothing to say.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn bring_back(target: Target, Body(Nothing {}): Body<Nothing>) -> Result<Json<Status>, Fault> {
    Ok(Json(work(move || life::restore(&target.ctx, &target.id)).await?))
}
