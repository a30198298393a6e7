//! Conversations that agents had without berth: listing, reading, adopting and importing them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use berth_api::message::WriterTakeover;
use berth_api::{AccessScope, Problem, ProblemCode, SessionStatus};
use berth_verbs::ProgressSink;
use berth_verbs::foreign::adopt::{self, HolderPolicy};
use berth_verbs::foreign::conversation_text::{self, ConversationText};
use berth_verbs::foreign::import::{self, ImportedConversation};
use berth_verbs::foreign::{self, AgentConversation, ConversationFilter, ConversationList, USUAL_PAST};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app_state::{AppState, or_store_unreadable};
use crate::caller::RequestCaller;
use crate::http::extractors::{JsonBody, PathParams, QueryParams};
use crate::http::sessions::made;
use crate::http_problem::HttpProblem;
use crate::routes::Route;
use crate::viewer_filter::{JsonAnswer, nothing_hidden};
use crate::work_limits::{check_duration, long_work, read_work};

/// Largest number of conversations that one call imports.
const MOST_IMPORTED: usize = 1000;
/// Largest number of conversations in one list.
const MOST_LISTED: usize = 10_000;

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("list_foreign", "/v1/foreign", AccessScope::Read, list)
            .about("Conversations of agents that belong to no session of this host, open ones first.")
            .query::<ForeignQuery>()
            .gives::<ConversationList>(200, "the list")
            .fails(&[Usage, Unreachable]),
        Route::get("get_foreign", "/v1/foreign/{agent}/{conversation}", AccessScope::Read, one)
            .about("One conversation, with its prompts and answers.")
            .gives::<ForeignConversation>(200, "the conversation")
            .fails(&[NotFound, Usage, Refused, Unreachable]),
        Route::post("adopt_foreign", "/v1/foreign/{agent}/{conversation}/adopt", AccessScope::Send, adopted)
            .about("Continues a conversation in a session of this host; answered when its agent takes turns.")
            .takes::<AdoptForeign>()
            .gives::<SessionStatus>(201, "the conversation runs in a new session")
            .gives::<SessionStatus>(200, "the conversation runs in the session that had it")
            .fails(&[NotFound, Usage, Refused, Held, InUse, NotAllowed, TimedOut, Full, Unreachable]),
        Route::post("import_foreign", "/v1/foreign/import", AccessScope::Send, imported)
            .about("Imports past conversations as sessions, to search and resume them. Nothing is started.")
            .takes::<ImportForeign>()
            .gives::<ImportedForeign>(200, "the result for each conversation")
            .fails(&[NotFound, Usage, Refused, NotAllowed, Full, Unreachable]),
    ]
}

nothing_hidden!(ConversationList, ForeignConversation, ImportedForeign);

/// The conversations that the client asks for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ForeignQuery {
    /// Kind of the conversations, as `conversation_kind` of an agent has it; all kinds if absent.
    agent: Option<String>,
    /// Directory: only conversations that were had in it, or below it.
    #[schemars(regex(pattern = "^/"))]
    cwd: Option<PathBuf>,
    /// Include conversations that belong to sessions of this host.
    #[serde(default)]
    ours: bool,
    /// Largest number of conversations that are not open; 50 by default.
    limit: Option<usize>,
}

fn wanted(
    agent: Option<&str>,
    cwd: Option<PathBuf>,
    limit: Option<usize>,
) -> Result<ConversationFilter, Problem> {
    if let Some(dir) = cwd.as_ref().filter(|dir| !dir.is_absolute()) {
        return Err(Problem::usage(format!("`{}` is not an absolute path", dir.display()))
            .hint("write the directory from / on"));
    }
    Ok(ConversationFilter {
        agent: agent.map(foreign::kind).transpose()?,
        under: cwd,
        ours_too: false,
        limit,
    })
}

async fn list(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    QueryParams(which): QueryParams<ForeignQuery>,
) -> Result<JsonAnswer<ConversationList>, HttpProblem> {
    let ctx = caller.ctx(&state);
    let found = read_work(move || {
        let limit = which.limit.unwrap_or(USUAL_PAST).min(MOST_LISTED);
        let wanted = wanted(which.agent.as_deref(), which.cwd, Some(limit))?;
        Ok(foreign::list(&ctx, &ConversationFilter { ours_too: which.ours, ..wanted }))
    });
    Ok(JsonAnswer(found.await?))
}

/// A conversation, with its prompts and answers.
#[derive(Serialize, JsonSchema)]
struct ForeignConversation {
    /// The conversation, and which programs have it open.
    conversation: AgentConversation,
    /// Prompts and answers of the conversation; absent if there are none.
    dialogue: Option<ConversationText>,
}

async fn one(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams((agent, id)): PathParams<(String, String)>,
) -> Result<JsonAnswer<ForeignConversation>, HttpProblem> {
    let ctx = caller.ctx(&state);
    let told = read_work(move || {
        let conversation = foreign::find(&ctx, &id, Some(foreign::kind(&agent)?))?;
        let dialogue = conversation.file.as_deref().map(conversation_text::read).transpose()?;
        Ok(ForeignConversation { conversation, dialogue })
    });
    Ok(JsonAnswer(told.await?))
}

/// The way to adopt a conversation.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct AdoptForeign {
    /// Name of the session; by default a guess from the first prompt.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: Option<String>,
    /// End the programs that have the conversation open.
    #[serde(default)]
    take: bool,
    /// Pids of the programs to end. If other programs have the conversation open, none is ended, and the answer is 409.
    take_only: Option<Vec<u32>>,
    /// Longest time to wait until no program has the conversation open, in milliseconds, at most an hour; then the
    /// answer is 504.
    #[schemars(range(max = 3_600_000))]
    wait_ms: Option<u64>,
    /// Run the agent in its own terminal interface.
    #[serde(default)]
    tui: bool,
}

async fn adopted(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams((agent, id)): PathParams<(String, String)>,
    JsonBody(how): JsonBody<AdoptForeign>,
) -> Result<Response, HttpProblem> {
    if how.take || how.take_only.is_some() {
        caller.needs(AccessScope::Control)?;
    }
    let others = match (how.take, how.take_only, how.wait_ms) {
        (true, None, None) => HolderPolicy::Take(WriterTakeover::All),
        (false, Some(pids), None) => HolderPolicy::Take(WriterTakeover::Only(pids)),
        (false, None, Some(ms)) => {
            HolderPolicy::Wait(Some(Duration::from_millis(check_duration("wait_ms", ms)?)))
        }
        (false, None, None) => HolderPolicy::Refuse,
        _ => return Err(HttpProblem::usage("`take`, `take_only` and `wait_ms` exclude each other")),
    };
    let ctx = caller.ctx(&state);
    let adopted = long_work(move || {
        let order = adopt::AdoptOptions { name: how.name, others, tui: how.tui };
        let conversation = foreign::find(&ctx, &id, Some(foreign::kind(&agent)?))?;
        let done = adopt::adopt(&ctx, &conversation, &order, &mut |_| {});
        let done = done.map_err(|problem| or_store_unreadable(&ctx.home, problem))?;
        Ok((done.status, done.was_ours))
    });
    let (status, was_ours) = adopted.await?;
    Ok(if was_ours { JsonAnswer(status).into_response() } else { made(status) })
}

/// The conversations to import.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ImportForeign {
    /// Ids of the conversations to import.
    #[serde(default)]
    conversations: Vec<String>,
    /// Import all conversations.
    #[serde(default)]
    all: bool,
    /// Directory: import the conversations that were had in it, or below it.
    #[schemars(regex(pattern = "^/"))]
    cwd: Option<PathBuf>,
    /// Kind of the conversations, as `conversation_kind` of an agent has it; all kinds if absent.
    agent: Option<String>,
    /// Name of the new session; only if one conversation is imported.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: Option<String>,
    /// Only report the result of an import; import nothing.
    #[serde(default)]
    dry_run: bool,
}

/// The result of an import.
#[derive(Serialize, JsonSchema)]
struct ImportedForeign {
    /// Results of the conversations, in order.
    conversations: Vec<ImportedConversation>,
    /// Number of further conversations: repeat the call to import them.
    more: usize,
    /// Files that could not be read.
    damaged: Vec<String>,
}

async fn imported(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    JsonBody(which): JsonBody<ImportForeign>,
) -> Result<JsonAnswer<ImportedForeign>, HttpProblem> {
    let ways = [!which.conversations.is_empty(), which.all, which.cwd.is_some()];
    if ways.into_iter().filter(|way| *way).count() != 1 {
        return Err(HttpProblem::usage(
            "the conversations to import are not given: send exactly one of `conversations`, `all` and `cwd`",
        ));
    }
    if which.conversations.len() > MOST_IMPORTED {
        return Err(HttpProblem::usage(format!("one call imports at most {MOST_IMPORTED} conversations")));
    }
    let ctx = caller.ctx(&state);
    let done = long_work(move || {
        let agent = which.agent.as_deref().map(foreign::kind).transpose()?;
        let mut found = ConversationList::default();
        if which.conversations.is_empty() {
            let wanted = wanted(which.agent.as_deref(), which.cwd, Some(MOST_IMPORTED))?;
            found = foreign::list(&ctx, &wanted);
        } else {
            found.conversations = foreign::find_each(&ctx, &which.conversations, agent)?;
        }
        let order = import::ImportOptions { name: which.name, dry_run: which.dry_run };
        let nobody: &dyn ProgressSink = &();
        let conversations = import::import(&ctx, &found.conversations, &order, nobody)
            .map_err(|problem| or_store_unreadable(&ctx.home, problem))?;
        Ok(ImportedForeign { conversations, more: found.more, damaged: found.damaged })
    });
    Ok(JsonAnswer(done.await?))
}
