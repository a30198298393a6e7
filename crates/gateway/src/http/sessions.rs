//! Sessions: the list, one, making one, changing one, deleting one for good.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use berth_api::{Code, Problem, Scope, SessionState, Status, Viewer};
use berth_store::view::Look;
use berth_verbs::life::{self, Edit};
use berth_verbs::listing::{self, Extent, Filter, Order};
use berth_verbs::purge::{self, Doomed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Target};
use crate::fault::Fault;
use crate::gate::{Gate, or_no_store, work};
use crate::http::{
    body::Body, body::Query, body::object_or_null, wishes::PolicyWish, wishes::given, wishes::told_of,
};
use crate::routes::Route;
use crate::visible::{Json, Visible, nothing_hidden};

/// How many directories are suggested for a new session.
const MOST_DIRECTORIES: usize = 30;
/// How many directories of sessions are looked at for that: some of them may be gone.
const MOST_CANDIDATES: usize = 60;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_sessions", "/v1/sessions", Scope::Read, list)
            .about("The sessions, who needs you first.")
            .filtered()
            .query::<Which>()
            .gives::<Sessions>(200, "the list")
            .fails(&[Code::Usage, Code::Unreachable]),
        Route::get("list_directories", "/v1/directories", Scope::Send, directories)
            .about(
                "Directories to suggest for a new session: those of sessions, the last used first, then \
                 those that the config lists.",
            )
            .filtered()
            .gives::<Directories>(200, "the list; only directories that you may start a session in")
            .fails(&[Code::Refused, Code::Unreachable]),
        Route::get("get_session", "/v1/sessions/{session}", Scope::Read, one)
            .about("What is known about a session.")
            .gives::<Status>(200, "what is known")
            .fails(&[Code::NotFound, Code::Unreachable]),
        Route::new(Method::PATCH, "change_session", "/v1/sessions/{session}", Scope::Control, change)
            .about("Another name, other tags, another note, another policy.")
            .takes::<ChangeSession>()
            .gives::<Status>(200, "what is known now")
            .fails(&[Code::NotFound, Code::Usage, Code::Refused, Code::Held, Code::Unreachable]),
        Route::new(Method::DELETE, "delete_session", "/v1/sessions/{session}", Scope::Admin, delete)
            .about("Deletes a session that does not run, for good.")
            .query::<Confirmed>()
            .gives::<Doomed>(200, "what was deleted")
            .fails(&[Code::NotFound, Code::NeedsYes, Code::Held, Code::Refused, Code::Unreachable]),
    ]
}

nothing_hidden!(Directories);

/// Which sessions are wanted. All conditions hold together.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Those that stopped long ago, and those that are put away, too.
    #[serde(default)]
    all: bool,
    /// Only those that are put away.
    #[serde(default)]
    archived: bool,
    /// Only those in one of these states, with commas between them.
    state: Option<String>,
    /// Only those with this agent, or this program.
    agent: Option<String>,
    /// Only those with all of these tags, with commas between them.
    tag: Option<String>,
    /// Only those in this directory, or below it.
    #[schemars(regex(pattern = "^/"))]
    cwd: Option<PathBuf>,
    /// Only those with a name like this; `*` and `?` stand for anything.
    name: Option<String>,
    /// `state` (who needs you first), `active`, `created` or `name`.
    sort: Option<Sort>,
    /// At most so many.
    limit: Option<usize>,
}

/// What a list is sorted by.
#[derive(Deserialize, JsonSchema, Clone, Copy, Debug)]
#[serde(rename_all = "snake_case")]
enum Sort {
    /// Who needs you first.
    State,
    /// The last active first.
    Active,
    /// The newest first.
    Created,
    /// By name, those without one last.
    Name,
}

impl Which {
    fn filter(self) -> Result<Filter, Problem> {
        let words = |text: Option<String>| -> Vec<String> {
            let words = text.iter().flat_map(|text| text.split(',')).map(str::to_owned);
            words.filter(|word| !word.is_empty()).collect()
        };
        let states: Vec<_> = words(self.state).iter().map(|word| SessionState::from(word.as_str())).collect();
        listing::known(&states)?;
        if let Some(dir) = self.cwd.as_ref().filter(|dir| !dir.is_absolute()) {
            return Err(Problem::new(Code::Usage, format!("`{}` is not an absolute path", dir.display()))
                .hint("write the directory from / on"));
        }
        let extent = match (self.all, self.archived) {
            (true, true) => {
                return Err(Problem::new(Code::Usage, "`all` and `archived` do not go together"));
            }
            (true, false) => Extent::All,
            (false, true) => Extent::Archived,
            (false, false) => Extent::Recent,
        };
        let order = match self.sort.unwrap_or(Sort::State) {
            Sort::State => Order::State,
            Sort::Active => Order::Active,
            Sort::Created => Order::Created,
            Sort::Name => Order::Name,
        };
        Ok(Filter {
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
struct Sessions {
    /// In order.
    sessions: Vec<Listed>,
    /// How many more there are that stopped over a day ago.
    older: usize,
    /// How many more there are that were put away.
    archived: usize,
    /// How many more there are behind the limit.
    beyond: usize,
    /// What could not be read, or brought to its end.
    damaged: Vec<String>,
}

impl Visible for Sessions {
    fn hide_from(&mut self, viewer: &Viewer) {
        self.sessions.iter_mut().for_each(|listed| listed.status.hide_from(viewer));
    }
}

/// A session in a list.
#[derive(Serialize, JsonSchema)]
struct Listed {
    #[serde(flatten)]
    status: Status,
    /// How long ago the last thing happened that is known of it: an event, or a byte of output.
    evidence_age_ms: u64,
    /// How much memory its run uses, where that can be told at once.
    memory_bytes: Option<u64>,
}

impl From<Status> for Listed {
    fn from(status: Status) -> Self {
        let evidence_age_ms = berth_host::clock::wall_ms().saturating_sub(status.last_activity_at.0);
        let group = status.boundary.cgroup.as_deref().filter(|_| status.pid.is_some()).map(PathBuf::from);
        let memory = group.and_then(|group| std::fs::read_to_string(group.join("memory.current")).ok());
        let memory_bytes = memory.and_then(|bytes| bytes.trim().parse().ok());
        Self { status, evidence_age_ms, memory_bytes }
    }
}

async fn list(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<Sessions>, Fault> {
    let ctx = caller.ctx(&gate);
    let found = work(move || {
        let filter = which.filter()?;
        let mut ids = listing::ids(&ctx).map_err(|problem| or_no_store(&ctx.home, problem))?;
        ids.retain(|id| caller.may_see(id));
        let found = listing::listing(&filter, listing::look_at_all(&ctx, &filter, &ids));
        Ok(Sessions {
            sessions: found.sessions.into_iter().map(Listed::from).collect(),
            older: found.older,
            archived: found.archived,
            beyond: found.beyond,
            damaged: found.damaged.into_iter().map(|problem| problem.what).collect(),
        })
    });
    Ok(Json(found.await?))
}

/// Directories to suggest.
#[derive(Serialize, JsonSchema)]
struct Directories {
    /// Absolute paths, the best suggestion first.
    directories: Vec<String>,
}

async fn directories(State(gate): State<Arc<Gate>>, caller: Caller) -> Result<Json<Directories>, Fault> {
    // A token for some sessions starts no others.
    if caller.sessions.is_some() {
        return Ok(Json(Directories { directories: vec![] }));
    }
    // A page that asks this follows the list, so the gateway knows it already.
    let mut looking = gate.live.list.subscribe();
    let of_sessions = loop {
        match looking.directories(MOST_CANDIDATES) {
            Some(known) => break known?,
            None => looking.wait().await,
        }
    };
    drop(looking);
    let ctx = caller.ctx(&gate);
    let found = work(move || ctx.suggested_directories(of_sessions, MOST_DIRECTORIES));
    let directories =
        found.await?.into_iter().filter_map(|dir| dir.into_os_string().into_string().ok()).collect();
    Ok(Json(Directories { directories }))
}

async fn one(Target { id, ctx, .. }: Target) -> Result<Json<Status>, Fault> {
    // A look at a few small files of a local disk: no other thread is asked for that.
    if let Some(status) = Look::at(&ctx.home, &id).believed(&ctx.home) {
        return Ok(Json(status));
    }
    let known = work(move || ctx.known(&id).map_err(|problem| or_no_store(&ctx.home, problem)));
    Ok(Json(known.await?.0))
}

/// What is to be different about a session.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ChangeSession {
    /// Its new name.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: Option<String>,
    /// Tags it gets.
    #[serde(default)]
    add_tags: Vec<String>,
    /// Tags it loses.
    #[serde(default)]
    remove_tags: Vec<String>,
    /// What is written about it; `null` takes away what there is.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    note: Option<Option<String>>,
    /// When it ends and is archived by itself.
    #[serde(default, deserialize_with = "object_or_null")]
    policy: Option<PolicyWish>,
    /// What to tell people of; `null` is what the config says.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "berth_api::turn::Notify")]
    notify: Option<Option<Vec<String>>>,
}

async fn change(target: Target, Body(changes): Body<ChangeSession>) -> Result<Json<Status>, Fault> {
    let ChangeSession { name, add_tags, remove_tags, note, policy, notify } = changes;
    let mut policy = policy.map(PolicyWish::change).unwrap_or_default();
    policy.notify = notify.map(|words| told_of(words.as_deref())).transpose()?.map(Into::into);
    let edit = Edit { name, add_tags, remove_tags, note, policy };
    let changed = work(move || {
        let name = edit.name.clone();
        life::edit(&target.ctx, &target.id, edit).map_err(|problem| {
            let has_it = |name: &String| target.ctx.home.session_named(name);
            let is_hidden = match name.as_ref().map(has_it) {
                Some(Ok(Some(other))) => !target.caller.may_see(&other),
                // Whose it is cannot be told, or it was freed this moment.
                Some(Ok(None) | Err(_)) => target.caller.sessions.is_some(),
                None => false,
            };
            if problem.code != Code::Refused || !is_hidden {
                return problem;
            }
            Problem::new(Code::Refused, "the session cannot be called so").hint("choose another name")
        })
    });
    Ok(Json(changed.await?))
}

/// A yes to deleting.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Confirmed {
    /// The id of the session to be deleted, once more: a yes is to one session, whatever it is called by now.
    confirm: Option<String>,
}

async fn delete(target: Target, Query(yes): Query<Confirmed>) -> Result<Json<Doomed>, Fault> {
    if yes.confirm.as_deref() != Some(target.id.as_str()) {
        let what = format!("session `{}` would be deleted for good", target.handle.escape_debug());
        let hint = format!("say so with ?confirm={}", target.id);
        return Err(Problem::new(Code::NeedsYes, what).hint(hint).into());
    }
    let deleted = work(move || {
        let mut doomed = purge::named(&target.ctx, &target.id, &target.handle)?;
        doomed.purge(&target.ctx)?;
        Ok(doomed)
    });
    Ok(Json(deleted.await?))
}

/// Something was made.
pub(crate) fn made<T: Visible>(what: T) -> Response {
    (StatusCode::CREATED, Json(what)).into_response()
}
