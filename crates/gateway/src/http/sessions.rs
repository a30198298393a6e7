//! Sessions: listing, reading, creating, changing and deleting them.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use berth_api::{AccessScope, Problem, ProblemCode, SessionState, SessionStatus, ViewerRights};
use berth_store::session_status::StatusCache;
use berth_verbs::lifecycle::{self, SessionEdit};
use berth_verbs::listing::{self, ListExtent, ListOrder, SessionFilter};
use berth_verbs::purge::{self, PurgedSession};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app_state::{AppState, or_store_unreadable, run_blocking};
use crate::caller::{RequestCaller, RequestedSession};
use crate::http::{
    extractors::JsonBody, extractors::QueryParams, extractors::object_or_null, session_params::PolicyParams,
    session_params::present_or_null, session_params::told_of,
};
use crate::http_problem::HttpProblem;
use crate::routes::Route;
use crate::viewer_filter::{JsonAnswer, ViewerFiltered, nothing_hidden};

/// Largest number of suggested directories for a new session.
const MOST_DIRECTORIES: usize = 30;
/// Number of directories that are checked for suggestions: some of them may not exist any more.
const MOST_CANDIDATES: usize = 60;

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("list_sessions", "/v1/sessions", AccessScope::Read, list)
            .about("The sessions; those that need you come first.")
            .filtered()
            .query::<SessionsQuery>()
            .gives::<SessionList>(200, "the list")
            .fails(&[Usage, Unreachable]),
        Route::get("list_directories", "/v1/directories", AccessScope::Send, directories)
            .about(
                "Directories to suggest for a new session: those of sessions, the last used first, then \
                 those that the config lists.",
            )
            .filtered()
            .gives::<DirectorySuggestions>(
                200,
                "the directories; only those in which the caller may start a session",
            )
            .fails(&[Refused, Unreachable]),
        Route::get("get_session", "/v1/sessions/{session}", AccessScope::Read, one)
            .about("The state of a session.")
            .gives::<SessionStatus>(200, "the state")
            .fails(&[NotFound, Unreachable]),
        Route::new(Method::PATCH, "change_session", "/v1/sessions/{session}", AccessScope::Control, change)
            .about("Changes the name, tags, note, policy or notifications of a session.")
            .takes::<ChangeSession>()
            .gives::<SessionStatus>(200, "the new state")
            .fails(&[NotFound, Usage, Refused, Held, Unreachable]),
        Route::new(Method::DELETE, "delete_session", "/v1/sessions/{session}", AccessScope::Admin, delete)
            .about("Deletes a session that does not run, for good.")
            .query::<DeleteConfirmation>()
            .gives::<PurgedSession>(200, "the deleted session")
            .fails(&[NotFound, NeedsYes, Held, Refused, Unreachable]),
    ]
}

nothing_hidden!(DirectorySuggestions);

/// Conditions on the sessions in a list. A session has to meet all of them.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct SessionsQuery {
    /// Include sessions that stopped long ago, and archived ones.
    #[serde(default)]
    all: bool,
    /// Archived sessions only.
    #[serde(default)]
    archived: bool,
    /// States to include, separated by commas.
    #[schemars(with = "Option<Vec<SessionState>>")]
    state: Option<String>,
    /// Agent, or program, of the sessions.
    agent: Option<String>,
    /// Tags that a session must have, separated by commas.
    tag: Option<String>,
    /// Directory: only sessions in it, or below it.
    #[schemars(regex(pattern = "^/"))]
    cwd: Option<PathBuf>,
    /// Pattern for the name: `*` and `?` match any characters and any single one.
    name: Option<String>,
    /// Order of the list: `state` (sessions that need you first), `active`, `created` or `name`.
    sort: Option<SessionSort>,
    /// Largest number of sessions.
    limit: Option<usize>,
}

/// Order of a list of sessions.
#[derive(Deserialize, JsonSchema, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
enum SessionSort {
    /// By state: sessions that need you first.
    State,
    /// By time of the last activity, latest first.
    Active,
    /// By time of creation, newest first.
    Created,
    /// By name; sessions without one last.
    Name,
}

impl SessionsQuery {
    fn filter(self) -> Result<SessionFilter, Problem> {
        let words = |text: Option<String>| -> Vec<String> {
            let words = text.iter().flat_map(|text| text.split(',')).map(str::to_owned);
            words.filter(|word| !word.is_empty()).collect()
        };
        let states: Vec<_> = words(self.state).iter().map(|word| SessionState::from(word.as_str())).collect();
        listing::check_states(&states)?;
        if let Some(dir) = self.cwd.as_ref().filter(|dir| !dir.is_absolute()) {
            return Err(Problem::usage(format!("`{}` is not an absolute path", dir.display()))
                .hint("write the directory from / on"));
        }
        let extent = match (self.all, self.archived) {
            (true, true) => {
                return Err(Problem::usage("`all` and `archived` exclude each other"));
            }
            (true, false) => ListExtent::All,
            (false, true) => ListExtent::Archived,
            (false, false) => ListExtent::Recent,
        };
        let order = match self.sort.unwrap_or(SessionSort::State) {
            SessionSort::State => ListOrder::State,
            SessionSort::Active => ListOrder::Active,
            SessionSort::Created => ListOrder::Created,
            SessionSort::Name => ListOrder::Name,
        };
        Ok(SessionFilter {
            states,
            agent: self.agent,
            under: self.cwd.map(|dir| dir.canonicalize().unwrap_or(dir)),
            tags: words(self.tag),
            name: self.name,
            extent,
            order,
            limit: self.limit,
        })
    }
}

/// A list of sessions.
#[derive(Serialize, JsonSchema)]
struct SessionList {
    /// The sessions, in the order of `sort`.
    sessions: Vec<ListedSession>,
    /// Number of further sessions that stopped over a day ago.
    older: usize,
    /// Number of further sessions that are archived.
    archived: usize,
    /// Number of further sessions beyond the limit.
    more: usize,
    /// Sessions whose records could not be read, or that could not be brought to their end.
    damaged: Vec<String>,
}

impl ViewerFiltered for SessionList {
    fn hide_from(&mut self, viewer: &ViewerRights) {
        self.sessions.iter_mut().for_each(|listed| listed.status.hide_from(viewer));
    }
}

/// A session, as an entry of a list.
#[derive(Serialize, JsonSchema)]
struct ListedSession {
    #[serde(flatten)]
    status: SessionStatus,
    /// Age of the latest evidence about the session, an event or a byte of output, in milliseconds.
    evidence_age_ms: u64,
    /// Memory of its run, where it can be read without delay.
    memory_bytes: Option<u64>,
}

impl From<SessionStatus> for ListedSession {
    fn from(status: SessionStatus) -> Self {
        let evidence_age_ms = berth_host::clock::wall_ms().saturating_sub(status.last_activity_at.0);
        let group = status.boundary.cgroup.as_deref().filter(|_| status.pid.is_some()).map(PathBuf::from);
        let memory = group.and_then(|group| std::fs::read_to_string(group.join("memory.current")).ok());
        let memory_bytes = memory.and_then(|bytes| bytes.trim().parse().ok());
        Self { status, evidence_age_ms, memory_bytes }
    }
}

async fn list(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    QueryParams(which): QueryParams<SessionsQuery>,
) -> Result<JsonAnswer<SessionList>, HttpProblem> {
    let ctx = caller.ctx(&state);
    let found = run_blocking(move || {
        let filter = which.filter()?;
        let mut ids = listing::ids(&ctx).map_err(|problem| or_store_unreadable(&ctx.home, problem))?;
        ids.retain(|id| caller.may_see(id));
        let found = listing::listing(&filter, listing::look_at_all(&ctx, &filter, &ids));
        Ok(SessionList {
            sessions: found.sessions.into_iter().map(ListedSession::from).collect(),
            older: found.older,
            archived: found.archived,
            more: found.more,
            damaged: found.damaged.into_iter().map(|problem| problem.what).collect(),
        })
    });
    Ok(JsonAnswer(found.await?))
}

/// Suggestions for the directory of a new session.
#[derive(Serialize, JsonSchema)]
struct DirectorySuggestions {
    /// Absolute paths, best suggestion first.
    directories: Vec<String>,
}

async fn directories(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonAnswer<DirectorySuggestions>, HttpProblem> {
    // A token that is limited to some sessions cannot start others.
    if caller.sessions.is_some() {
        return Ok(JsonAnswer(DirectorySuggestions { directories: vec![] }));
    }
    // A page that asks for this also subscribes to the list, so the gateway has it in memory.
    let mut looking = state.live.list.subscribe();
    let of_sessions = loop {
        match looking.directories(MOST_CANDIDATES) {
            Some(known) => break known?,
            None => looking.wait().await,
        }
    };
    drop(looking);
    let ctx = caller.ctx(&state);
    let found = run_blocking(move || ctx.suggested_directories(of_sessions, MOST_DIRECTORIES));
    let directories =
        found.await?.into_iter().filter_map(|dir| dir.into_os_string().into_string().ok()).collect();
    Ok(JsonAnswer(DirectorySuggestions { directories }))
}

async fn one(
    RequestedSession { id, ctx, .. }: RequestedSession,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    // This reads a few small files of a local disk, so it does not need another thread.
    if let Some(status) = StatusCache::at(&ctx.home, &id).believed(&ctx.home) {
        return Ok(JsonAnswer(status));
    }
    let known =
        run_blocking(move || ctx.known(&id).map_err(|problem| or_store_unreadable(&ctx.home, problem)));
    Ok(JsonAnswer(known.await?.0))
}

/// Changes of a session.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ChangeSession {
    /// New name.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: Option<String>,
    /// Tags to add.
    #[serde(default)]
    add_tags: Vec<String>,
    /// Tags to remove.
    #[serde(default)]
    remove_tags: Vec<String>,
    /// Note about the session; `null` removes it.
    #[serde(default, deserialize_with = "present_or_null")]
    #[schemars(with = "Option<String>")]
    note: Option<Option<String>>,
    /// Rules for ending and archiving the session automatically; `null` and missing fields change nothing.
    #[serde(default, deserialize_with = "object_or_null")]
    policy: Option<PolicyParams>,
    /// Occasions for notifications; `null` uses those of the config.
    #[serde(default, deserialize_with = "present_or_null")]
    #[schemars(with = "berth_api::turn::NotificationPolicy")]
    notify: Option<Option<Vec<String>>>,
}

async fn change(
    target: RequestedSession,
    JsonBody(changes): JsonBody<ChangeSession>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    let ChangeSession { name, add_tags, remove_tags, note, policy, notify } = changes;
    let mut policy = policy.map(PolicyParams::change).unwrap_or_default();
    policy.notify = notify.map(|words| told_of(words.as_deref())).transpose()?.map(Into::into);
    let edit = SessionEdit { name, add_tags, remove_tags, note, policy };
    let changed = run_blocking(move || {
        let name = edit.name.clone();
        lifecycle::edit(&target.ctx, &target.id, edit).map_err(|problem| {
            let has_it = |name: &String| target.ctx.home.session_named(name);
            let is_hidden = match name.as_ref().map(has_it) {
                Some(Ok(Some(other))) => !target.caller.may_see(&other),
                // The owner of the name is unknown, or the name has just become free.
                Some(Ok(None) | Err(_)) => target.caller.sessions.is_some(),
                None => false,
            };
            if problem.code != ProblemCode::Refused || !is_hidden {
                return problem;
            }
            Problem::refused("the session cannot have this name").hint("choose another name")
        })
    });
    Ok(JsonAnswer(changed.await?))
}

/// Confirmation of a deletion.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct DeleteConfirmation {
    /// Id of the session to delete, once more. A confirmation is for one session, even if another one has its name by
    /// now.
    confirm: Option<String>,
}

async fn delete(
    target: RequestedSession,
    QueryParams(yes): QueryParams<DeleteConfirmation>,
) -> Result<JsonAnswer<PurgedSession>, HttpProblem> {
    if yes.confirm.as_deref() != Some(target.id.as_str()) {
        let what = format!("session `{}` would be deleted for good", target.handle.escape_debug());
        let hint = format!("confirm with ?confirm={}", target.id);
        return Err(Problem::needs_yes(what).hint(hint).into());
    }
    let deleted = run_blocking(move || {
        let mut doomed = purge::named(&target.ctx, &target.id, &target.handle)?;
        doomed.purge(&target.ctx)?;
        Ok(doomed)
    });
    Ok(JsonAnswer(deleted.await?))
}

/// The answer for something that was created.
pub(crate) fn made<T: ViewerFiltered>(what: T) -> Response {
    (StatusCode::CREATED, JsonAnswer(what)).into_response()
}
