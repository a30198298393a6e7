//! Inspection: evidence, processes, ports, the abilities of this host, sweeps and searches.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::State;
use berth_api::{AccessScope, Problem, ProblemCode, ViewerRights};
use berth_core::SessionId;
use berth_procs::attribution::{self, ProcessAttribution};
use berth_store::killpoint;
use berth_verbs::changed_files::{self, ChangedFiles};
use berth_verbs::doctor;
use berth_verbs::grep::{self, ContextLines, FoundLine, PatternOptions, SearchExtent, SearchPattern};
use berth_verbs::history;
use berth_verbs::listing::{self, SessionFilter};
use berth_verbs::port::{self, PortHolder};
use berth_verbs::progress::ProgressSink;
use berth_verbs::ps::{self, SessionProcesses};
use berth_verbs::sweep::{self, SweepDepth, SweepOptions, SweepReport};
use berth_verbs::why::{self, StateExplanation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app_state::{AppState, or_store_unreadable, run_blocking};
use crate::caller::{RequestCaller, RequestedSession};
use crate::http::{
    extractors::JsonBody, extractors::PathParams, extractors::QueryParams, wait::MAX_PATTERN_BYTES,
};
use crate::http_problem::HttpProblem;
use crate::routes::Route;
use crate::single_flight::ProbeCache;
use crate::viewer_filter::{JsonAnswer, ViewerFiltered, nothing_hidden};
use crate::work_limits;

/// Default and largest number of lines in the result of a search.
const USUAL_LINES: usize = 200;
const MOST_LINES: usize = 5000;
/// Largest number of context lines around a match.
const MOST_AROUND: usize = 20;
/// Longest pattern: a compiled pattern is much larger than its text.
const MOST_PATTERN_CHARS: usize = 4096;
/// Time limit of a search; after it the answer has the lines found so far.
const SEARCH_PATIENCE: Duration = Duration::from_secs(30);
/// Environment variable with which tests shorten the time limit of a search, in milliseconds. Not in release builds.
const SEARCH_VARIABLE: &str = "BERTH_SEARCH_MS";

/// How long the report about this host is cached: making one starts processes.
const EXAMINED_FOR: Duration = Duration::from_secs(2);

/// How long the changed files of a directory are cached: finding them starts git.
const COMPARED_FOR: Duration = Duration::from_secs(3);
/// How long a failure of git is cached: the next try would take as long and fail again.
const TROUBLE_FOR: Duration = Duration::from_secs(60);

/// Text before the id of the session that started another one.
const STARTED_IN: &str = "; started in session ";

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("why_session", "/v1/sessions/{session}/why", AccessScope::Read, why)
            .about("The evidence behind a session's state.")
            .gives::<StateExplanation>(200, "the claim and the facts behind it")
            .fails(&[NotFound, Refused]),
        Route::get("why_process", "/v1/why", AccessScope::Read, why_process)
            .about("The session or helper that a process belongs to, and the evidence for that.")
            .filtered()
            .query::<ProcessQuery>()
            .gives::<ProcessAttribution>(200, "the claim and the facts behind it")
            .fails(&[NotFound, Usage, Refused]),
        Route::get("session_processes", "/v1/sessions/{session}/processes", AccessScope::Read, of_session)
            .about("The processes of a session: tree, memory, ports.")
            .gives::<SessionProcesses>(200, "the processes that run")
            .fails(&[NotFound, Refused]),
        Route::get("session_changes", "/v1/sessions/{session}/changes", AccessScope::Read, changes)
            .about("The files of a session's directory that differ from the last commit.")
            .gives::<SessionChanges>(200, "the files; an empty list outside of a git work tree")
            .fails(&[NotFound, Refused, Full, Unreachable]),
        Route::get("processes", "/v1/processes", AccessScope::Read, all_processes)
            .about("The processes of all sessions and helpers.")
            .filtered()
            .gives::<ProcessList>(200, "the processes that run")
            .fails(&[Refused, Unreachable]),
        Route::get("port", "/v1/ports/{port}", AccessScope::Read, port_holders)
            .about("The processes that listen on a port, and the sessions they belong to.")
            .gives::<PortHolders>(200, "all processes that listen on the port")
            .fails(&[NotFound, Usage, Refused]),
        Route::get("doctor", "/v1/doctor", AccessScope::Read, examine)
            .about("Features of this host, with the effect of each missing one and the way to get it.")
            .gives::<doctor::DoctorReport>(200, "the report"),
        Route::post("sweep", "/v1/sweep", AccessScope::Control, sweep)
            .about(
                "Compares records with reality, and cleans up leftovers that are proven to be berth's own.",
            )
            .takes::<SweepRequest>()
            .gives::<SweepReport>(200, "the findings, and the action taken on each")
            .fails(&[NotAllowed]),
        Route::get("grep", "/v1/grep", AccessScope::Read, search)
            .about("Searches prompts, output and the transcripts of agents.")
            .filtered()
            .query::<SearchRequest>()
            .gives::<SearchResult>(200, "the lines, newest session first")
            .fails(&[Usage, NotFound, Refused, Full, Unreachable]),
    ]
}

nothing_hidden!(ProcessAttribution, SessionChanges, ProcessList, PortHolders, SearchResult);

impl ViewerFiltered for StateExplanation {
    fn hide_from(&mut self, viewer: &ViewerRights) {
        for fact in &mut self.evidence {
            if let Some((given, parent)) = fact.fact.split_once(STARTED_IN)
                && SessionId::parse(parent).is_some_and(|parent| !viewer.may_see(&parent))
            {
                fact.fact.truncate(given.len());
            }
        }
    }
}

async fn why(target: RequestedSession) -> Result<JsonAnswer<StateExplanation>, HttpProblem> {
    Ok(JsonAnswer(run_blocking(move || why::why(&target.ctx.home, &target.id)).await?))
}

/// The process that the client asks about.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ProcessQuery {
    /// Number of the process.
    pid: u32,
}

async fn why_process(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    QueryParams(ProcessQuery { pid }): QueryParams<ProcessQuery>,
) -> Result<JsonAnswer<ProcessAttribution>, HttpProblem> {
    let home = state.home.clone();
    let whose = run_blocking(move || attribution::attribute_process(&home, pid)).await;
    if caller.sessions.is_none() {
        return Ok(JsonAnswer(whose?));
    }
    // A caller that is limited to some sessions sees only their processes. For all others the answer is the same as for
    // a process that does not exist.
    let is_theirs = |whose: &ProcessAttribution| {
        let id = whose.session.as_deref().and_then(SessionId::parse);
        id.is_some_and(|id| caller.may_see(&id))
    };
    let theirs = whose.ok().filter(is_theirs);
    let none = || Problem::not_found(format!("there is no process {pid}"));
    Ok(JsonAnswer(theirs.ok_or_else(none)?))
}

async fn of_session(target: RequestedSession) -> Result<JsonAnswer<SessionProcesses>, HttpProblem> {
    Ok(JsonAnswer(run_blocking(move || ps::of_session(&target.ctx, &target.id)).await?))
}

/// The changed files of a session's directory.
#[derive(Serialize, JsonSchema)]
struct SessionChanges {
    #[serde(flatten)]
    changes: ChangedFiles,
    /// Time since git was asked, in milliseconds.
    age_ms: u64,
}

/// Cache of the changed files of directories.
pub(crate) type ChangedFilesCache = ProbeCache<String, ChangedFiles>;

/// An empty cache.
pub(crate) fn known_changes() -> ChangedFilesCache {
    ProbeCache::new(|changes| if changes.trouble.is_some() { TROUBLE_FOR } else { COMPARED_FOR })
}

async fn changes(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
) -> Result<JsonAnswer<SessionChanges>, HttpProblem> {
    let cwd = run_blocking(move || Ok(target.ctx.known(&target.id)?.0.what.cwd)).await?;
    let dir = PathBuf::from(&cwd);
    // Only the comparison itself takes a seat: callers that wait for it or get a cached answer cost nothing.
    let look = move || {
        let _seat = work_limits::comparison()?;
        Ok(changed_files::changed_files(&dir))
    };
    let (changes, age) = state.changes.ask(cwd, look).await.map_err(work_limits::retry_if_full)?;
    Ok(JsonAnswer(SessionChanges { changes, age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX) }))
}

/// Processes of sessions and helpers.
#[derive(Serialize, JsonSchema)]
struct ProcessList {
    /// The processes, grouped by session and helper.
    sessions: Vec<SessionProcesses>,
    /// Sessions and helpers that could not be read.
    damaged: Vec<String>,
}

async fn all_processes(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonAnswer<ProcessList>, HttpProblem> {
    let ctx = caller.ctx(&state);
    let found = run_blocking(move || {
        let (mut sessions, trouble) =
            ps::of_all(&ctx).map_err(|problem| or_store_unreadable(&ctx.home, problem))?;
        sessions.retain(|block| {
            caller.sessions.is_none()
                || SessionId::parse(&block.session).is_some_and(|id| caller.may_see(&id))
        });
        let trouble = trouble.into_iter().filter(|_| caller.sessions.is_none());
        Ok(ProcessList { sessions, damaged: trouble.map(|problem| problem.what).collect() })
    });
    Ok(JsonAnswer(found.await?))
}

/// Processes that listen on a port.
#[derive(Serialize, JsonSchema)]
struct PortHolders {
    /// The processes, each with the session or helper it belongs to.
    holders: Vec<PortHolder>,
}

async fn port_holders(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams(port): PathParams<String>,
) -> Result<JsonAnswer<PortHolders>, HttpProblem> {
    let bad = || {
        HttpProblem::usage(format!("`{}` is not a valid port", port.escape_debug()))
            .hint("a port is 1 to 65535")
    };
    let number = port.parse::<u16>().ok().filter(|number| *number != 0).ok_or_else(bad)?;
    let ctx = caller.ctx(&state);
    let holders = run_blocking(move || port::holders(&ctx, number)).await?;
    if holders.is_empty() {
        return Err(Problem::not_found(format!("no process listens on port {number}")).into());
    }
    Ok(JsonAnswer(PortHolders { holders }))
}

/// Cache of the report about this host.
pub(crate) type DoctorCache = ProbeCache<(), Arc<doctor::DoctorReport>>;

/// An empty cache.
pub(crate) fn examined() -> DoctorCache {
    ProbeCache::new(|_| EXAMINED_FOR)
}

async fn examine(
    State(state): State<Arc<AppState>>,
) -> Result<JsonAnswer<Arc<doctor::DoctorReport>>, HttpProblem> {
    let (report, _) = state.examined.ask((), || Ok(Arc::new(doctor::examine()))).await?;
    Ok(JsonAnswer(report))
}

/// The way to sweep.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct SweepRequest {
    /// Report the findings only; change nothing.
    #[serde(default)]
    dry_run: bool,
}

async fn sweep(
    State(state): State<Arc<AppState>>,
    JsonBody(SweepRequest { dry_run }): JsonBody<SweepRequest>,
) -> Result<JsonAnswer<SweepReport>, HttpProblem> {
    let home = state.home.clone();
    let order = SweepOptions { dry_run, depth: SweepDepth::Whole, is_heard: true };
    let swept = run_blocking(move || {
        let mut report = sweep::sweep(&home, order, |_| {});
        history::tidy_history(&home, &mut report);
        Ok(report)
    });
    Ok(JsonAnswer(swept.await?))
}

/// The search that the client asks for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct SearchRequest {
    /// Regular expression to search for.
    #[schemars(length(min = 1))]
    pattern: String,
    /// Ignore the difference between upper and lower case.
    #[serde(default)]
    ignore_case: bool,
    /// Match only whole words.
    #[serde(default)]
    words: bool,
    /// Search for the characters of `pattern` themselves, not for a regular expression.
    #[serde(default)]
    fixed: bool,
    /// Number of context lines around each match.
    #[serde(default)]
    context: usize,
    /// Session to search in, by name or id; all sessions if absent.
    session: Option<String>,
    /// Largest number of lines.
    limit: Option<usize>,
}

/// The result of a search.
#[derive(Serialize, JsonSchema)]
struct SearchResult {
    /// The matching lines and their context, in order.
    lines: Vec<FoundLine>,
    /// True if there are more matches, or if the search was cut short because it took long.
    more: bool,
    /// Files that could not be searched.
    damaged: Vec<String>,
}

/// Condition that ends a search: its time is up, or its caller has disconnected.
#[derive(Debug)]
struct SearchDeadline {
    end: Instant,
    is_left: AtomicBool,
}

impl ProgressSink for SearchDeadline {
    fn begin(&self, _: u64) {}

    fn add(&self, _: u64) {}

    fn is_enough(&self) -> bool {
        self.is_left.load(Ordering::Relaxed) || Instant::now() >= self.end
    }
}

/// The caller of a search; dropped when it disconnects.
struct SearchCancelGuard(Arc<SearchDeadline>);

impl Drop for SearchCancelGuard {
    fn drop(&mut self) {
        self.0.is_left.store(true, Ordering::Relaxed);
    }
}

async fn search(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    QueryParams(search): QueryParams<SearchRequest>,
) -> Result<JsonAnswer<SearchResult>, HttpProblem> {
    let ctx = caller.ctx(&state);
    let only = match &search.session {
        Some(named) => Some(RequestedSession::find(&state, caller.clone(), named.clone()).await?.id),
        None => None,
    };
    if search.pattern.chars().count() > MOST_PATTERN_CHARS {
        return Err(HttpProblem::usage(format!(
            "the pattern is longer than {MOST_PATTERN_CHARS} characters"
        )));
    }
    let seat = work_limits::search()?;
    let end = Instant::now() + killpoint::patience(SEARCH_VARIABLE, SEARCH_PATIENCE);
    let until = Arc::new(SearchDeadline { end, is_left: AtomicBool::new(false) });
    let _waiting = SearchCancelGuard(Arc::clone(&until));
    let found = run_blocking(move || {
        let _seat = seat;
        let limit = search.limit.unwrap_or(USUAL_LINES).min(MOST_LINES);
        let manner =
            PatternOptions { ignore_case: search.ignore_case, words: search.words, fixed: search.fixed };
        if search.pattern.is_empty() {
            return Err(Problem::usage("the pattern is empty"));
        }
        let pattern = SearchPattern::within(&[search.pattern], manner, MAX_PATTERN_BYTES)?;
        let around = search.context.min(MOST_AROUND);
        let extent = SearchExtent {
            context: ContextLines { before: around, after: around },
            most: u64::try_from(limit).unwrap_or(u64::MAX),
            one_each: false,
        };
        let ids = match only {
            Some(id) => vec![id],
            None => {
                let mut ids =
                    listing::ids(&ctx).map_err(|problem| or_store_unreadable(&ctx.home, problem))?;
                ids.retain(|id| caller.may_see(id));
                ids
            }
        };
        let (subjects, mut problems) = grep::subjects(&ctx, &SessionFilter::default(), ids);
        let (mut lines, mut more) = (Vec::new(), false);
        let trouble = grep::find(&subjects, &pattern, extent, &*until, |subject, hits| {
            for hit in hits {
                if lines.len() >= limit {
                    more = true;
                    return Ok(ControlFlow::Break(()));
                }
                lines.push(FoundLine::of(subject, hit));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        problems.extend(trouble);
        problems.dedup();
        let more = more || until.is_enough();
        Ok(SearchResult { lines, more, damaged: problems.into_iter().map(|problem| problem.what).collect() })
    });
    Ok(JsonAnswer(found.await?))
}
