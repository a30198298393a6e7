//! Looking closer: evidence, processes, what this host offers, sweeping, finding words.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::State;
use berth_api::{Code, Problem, Scope, Viewer};
use berth_core::SessionId;
use berth_keeper::sweep::{self, Depth, Order, Report};
use berth_keeper::whose::{self, Whose};
use berth_keeper::why::{self, Why};
use berth_store::killpoint;
use berth_verbs::changed_files::{self, ChangedFiles};
use berth_verbs::doctor;
use berth_verbs::grep::{self, Context, Extent, Line, Manner, Pattern};
use berth_verbs::history;
use berth_verbs::listing::{self, Filter};
use berth_verbs::port::{self, Holder};
use berth_verbs::progress::Progress;
use berth_verbs::ps::{self, Block};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Target};
use crate::fault::Fault;
use crate::gate::{Gate, or_no_store, work};
use crate::http::{body::Body, body::Path, body::Query, wait::MAX_PATTERN_BYTES};
use crate::one_look::Recent;
use crate::routes::Route;
use crate::seats;
use crate::visible::{Json, Visible, nothing_hidden};

/// How many lines a search gives if nobody says, and at most.
const USUAL_LINES: usize = 200;
const MOST_LINES: usize = 5000;
/// How many lines around a match can be had.
const MOST_AROUND: usize = 20;
/// The longest pattern: what it becomes while it is read is much larger.
const MOST_PATTERN_CHARS: usize = 4096;
/// How long a search takes at most; then there is what was found so far.
const SEARCH_PATIENCE: Duration = Duration::from_secs(30);
/// The variable by which tests are less patient with a search, in milliseconds. Not in release builds.
const SEARCH_VARIABLE: &str = "BERTH_SEARCH_MS";

/// How long what was found out about this host counts: looking starts processes.
const EXAMINED_FOR: Duration = Duration::from_secs(2);

/// How long the changed files of a directory count: looking starts git.
const COMPARED_FOR: Duration = Duration::from_secs(3);
/// How long it counts that git did not tell them: the next look would take as long and fail again.
const TROUBLE_FOR: Duration = Duration::from_secs(60);

/// What is said before the id of the session that another was started in.
const STARTED_IN: &str = "; started in session ";

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("why_session", "/v1/sessions/{session}/why", Scope::Read, why)
            .about("The evidence behind a session's state.")
            .gives::<Why>(200, "the claim and the facts behind it")
            .fails(&[Code::NotFound, Code::Refused]),
        Route::get("why_process", "/v1/why", Scope::Read, why_process)
            .about("Whose a process is, and why that is said.")
            .filtered()
            .query::<Process>()
            .gives::<Whose>(200, "the claim and the facts behind it")
            .fails(&[Code::NotFound, Code::Usage, Code::Refused]),
        Route::get("session_processes", "/v1/sessions/{session}/processes", Scope::Read, of_session)
            .about("The processes of a session: tree, memory, ports.")
            .gives::<Block>(200, "what of it runs")
            .fails(&[Code::NotFound, Code::Refused]),
        Route::get("session_changes", "/v1/sessions/{session}/changes", Scope::Read, changes)
            .about("The files of a session's directory that differ from the last commit.")
            .gives::<SessionChanges>(200, "the files; none outside of a git work tree")
            .fails(&[Code::NotFound, Code::Refused, Code::Full, Code::Unreachable]),
        Route::get("processes", "/v1/processes", Scope::Read, of_all)
            .about("The processes of all sessions and helpers.")
            .filtered()
            .gives::<Processes>(200, "what runs")
            .fails(&[Code::Refused, Code::Unreachable]),
        Route::get("port", "/v1/ports/{port}", Scope::Read, of_port)
            .about("Who listens on a port, and whose they are.")
            .gives::<Ports>(200, "all processes that listen on it")
            .fails(&[Code::NotFound, Code::Usage, Code::Refused]),
        Route::get("doctor", "/v1/doctor", Scope::Read, examine)
            .about("What this host offers, what each missing piece costs, and what would mend it.")
            .gives::<doctor::Report>(200, "what was found"),
        Route::post("sweep", "/v1/sweep", Scope::Control, clear_up)
            .about("Compares records with reality and clears up what is proven ours.")
            .takes::<SweepOrder>()
            .gives::<Report>(200, "what was found, and what was done about it")
            .fails(&[Code::NotAllowed]),
        Route::get("grep", "/v1/grep", Scope::Read, find)
            .about("Finds words in what was said, in what agents wrote, and in their own records of it.")
            .filtered()
            .query::<Search>()
            .gives::<FoundLines>(200, "the lines, of the newest session first")
            .fails(&[Code::Usage, Code::NotFound, Code::Refused, Code::Full, Code::Unreachable]),
    ]
}

nothing_hidden!(Whose, SessionChanges, Processes, Ports, FoundLines);

impl Visible for Why {
    fn hide_from(&mut self, viewer: &Viewer) {
        for fact in &mut self.evidence {
            if let Some((given, parent)) = fact.fact.split_once(STARTED_IN)
                && SessionId::parse(parent).is_some_and(|parent| !viewer.may_see(&parent))
            {
                fact.fact.truncate(given.len());
            }
        }
    }
}

async fn why(target: Target) -> Result<Json<Why>, Fault> {
    Ok(Json(work(move || why::why(&target.ctx.home, &target.id)).await?))
}

/// Which process is meant.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Process {
    /// Its number.
    pid: u32,
}

async fn why_process(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Query(Process { pid }): Query<Process>,
) -> Result<Json<Whose>, Fault> {
    let home = gate.home.clone();
    let whose = work(move || whose::whose(&home, pid)).await;
    if caller.sessions.is_none() {
        return Ok(Json(whose?));
    }
    // Whoever may see some sessions only may see their processes only: of every other they are told the same.
    let is_theirs = |whose: &Whose| {
        let id = whose.session.as_deref().and_then(SessionId::parse);
        id.is_some_and(|id| caller.may_see(&id))
    };
    let theirs = whose.ok().filter(is_theirs);
    let none = || Problem::new(Code::NotFound, format!("there is no process {pid}"));
    Ok(Json(theirs.ok_or_else(none)?))
}

async fn of_session(target: Target) -> Result<Json<Block>, Fault> {
    Ok(Json(work(move || ps::of_session(&target.ctx, &target.id)).await?))
}

/// Files that differ, and how old that is.
#[derive(Serialize, JsonSchema)]
struct SessionChanges {
    #[serde(flatten)]
    changes: ChangedFiles,
    /// How long ago git was asked, in milliseconds.
    age_ms: u64,
}

/// The changed files of the directories that were looked at last.
pub(crate) type KnownChanges = Recent<String, ChangedFiles>;

/// Nothing is known yet.
pub(crate) fn known_changes() -> KnownChanges {
    Recent::new(|changes| if changes.trouble.is_some() { TROUBLE_FOR } else { COMPARED_FOR })
}

async fn changes(State(gate): State<Arc<Gate>>, target: Target) -> Result<Json<SessionChanges>, Fault> {
    let cwd = work(move || Ok(target.ctx.known(&target.id)?.0.what.cwd)).await?;
    let dir = PathBuf::from(&cwd);
    // Only the look itself takes a seat: callers that wait for it or get a cached answer cost nothing.
    let look = move || {
        let _seat = seats::comparison()?;
        Ok(changed_files::of(&dir))
    };
    let (changes, age) = gate.changes.ask(cwd, look).await.map_err(seats::retry_if_full)?;
    Ok(Json(SessionChanges { changes, age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX) }))
}

/// What runs.
#[derive(Serialize, JsonSchema)]
struct Processes {
    /// By session and helper.
    sessions: Vec<Block>,
    /// What could not be looked at.
    damaged: Vec<String>,
}

async fn of_all(State(gate): State<Arc<Gate>>, caller: Caller) -> Result<Json<Processes>, Fault> {
    let ctx = caller.ctx(&gate);
    let found = work(move || {
        let (mut sessions, trouble) = ps::of_all(&ctx).map_err(|problem| or_no_store(&ctx.home, problem))?;
        sessions.retain(|block| {
            caller.sessions.is_none()
                || SessionId::parse(&block.session).is_some_and(|id| caller.may_see(&id))
        });
        let trouble = trouble.into_iter().filter(|_| caller.sessions.is_none());
        Ok(Processes { sessions, damaged: trouble.map(|problem| problem.what).collect() })
    });
    Ok(Json(found.await?))
}

/// Who listens on a port.
#[derive(Serialize, JsonSchema)]
struct Ports {
    /// The processes that listen on it.
    holders: Vec<Holder>,
}

async fn of_port(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path(port): Path<String>,
) -> Result<Json<Ports>, Fault> {
    let bad = || {
        Fault::usage(format!("`{}` is not a valid port", port.escape_debug())).hint("a port is 1 to 65535")
    };
    let number = port.parse::<u16>().ok().filter(|number| *number != 0).ok_or_else(bad)?;
    let ctx = caller.ctx(&gate);
    let holders = work(move || port::holders(&ctx, number)).await?;
    if holders.is_empty() {
        return Err(Problem::new(Code::NotFound, format!("no process listens on port {number}")).into());
    }
    Ok(Json(Ports { holders }))
}

/// What was found a moment ago.
pub(crate) type Examined = Recent<(), Arc<doctor::Report>>;

/// Nothing is known yet.
pub(crate) fn examined() -> Examined {
    Recent::new(|_| EXAMINED_FOR)
}

async fn examine(State(gate): State<Arc<Gate>>) -> Result<Json<Arc<doctor::Report>>, Fault> {
    let (report, _) = gate.examined.ask((), || Ok(Arc::new(doctor::examine()))).await?;
    Ok(Json(report))
}

/// How to sweep.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct SweepOrder {
    /// Only look.
    #[serde(default)]
    dry_run: bool,
}

async fn clear_up(
    State(gate): State<Arc<Gate>>,
    Body(SweepOrder { dry_run }): Body<SweepOrder>,
) -> Result<Json<Report>, Fault> {
    let home = gate.home.clone();
    let order = Order { dry_run, depth: Depth::Whole, is_heard: true };
    let swept = work(move || {
        let mut report = sweep::sweep(&home, order, |_| {});
        history::tidy(&home, &mut report);
        Ok(report)
    });
    Ok(Json(swept.await?))
}

/// What is looked for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Search {
    /// A regular expression.
    #[schemars(length(min = 1))]
    pattern: String,
    /// Upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
    /// Only whole words.
    #[serde(default)]
    words: bool,
    /// No expression: the characters themselves.
    #[serde(default)]
    fixed: bool,
    /// How many lines around each match.
    #[serde(default)]
    context: usize,
    /// Only in this session, by name or id.
    session: Option<String>,
    /// At most so many lines.
    limit: Option<usize>,
}

/// What was found.
#[derive(Serialize, JsonSchema)]
struct FoundLines {
    /// In order.
    lines: Vec<Line>,
    /// There is more, or there may be: a search that takes long is cut short.
    more: bool,
    /// What could not be searched.
    damaged: Vec<String>,
}

/// When a search is to end: its time is up, or nobody waits for it any more.
#[derive(Debug)]
struct Until {
    end: Instant,
    is_left: AtomicBool,
}

impl Progress for Until {
    fn begin(&self, _: u64) {}

    fn add(&self, _: u64) {}

    fn is_enough(&self) -> bool {
        self.is_left.load(Ordering::Relaxed) || Instant::now() >= self.end
    }
}

/// Whoever waits for a search, until they go away.
struct Waiting(Arc<Until>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.is_left.store(true, Ordering::Relaxed);
    }
}

async fn find(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Query(search): Query<Search>,
) -> Result<Json<FoundLines>, Fault> {
    let ctx = caller.ctx(&gate);
    let only = match &search.session {
        Some(named) => Some(Target::find(&gate, caller.clone(), named.clone()).await?.id),
        None => None,
    };
    if search.pattern.chars().count() > MOST_PATTERN_CHARS {
        return Err(Fault::usage(format!("the pattern has more than {MOST_PATTERN_CHARS} characters")));
    }
    let seat = seats::search()?;
    let end = Instant::now() + killpoint::patience(SEARCH_VARIABLE, SEARCH_PATIENCE);
    let until = Arc::new(Until { end, is_left: AtomicBool::new(false) });
    let _waiting = Waiting(Arc::clone(&until));
    let found = work(move || {
        let _seat = seat;
        let limit = search.limit.unwrap_or(USUAL_LINES).min(MOST_LINES);
        let manner = Manner { ignore_case: search.ignore_case, words: search.words, fixed: search.fixed };
        if search.pattern.is_empty() {
            return Err(Problem::new(Code::Usage, "the pattern is empty"));
        }
        let pattern = Pattern::within(&[search.pattern], manner, MAX_PATTERN_BYTES)?;
        let around = search.context.min(MOST_AROUND);
        let extent = Extent {
            context: Context { before: around, after: around },
            most: u64::try_from(limit).unwrap_or(u64::MAX),
            one_each: false,
        };
        let ids = match only {
            Some(id) => vec![id],
            None => {
                let mut ids = listing::ids(&ctx).map_err(|problem| or_no_store(&ctx.home, problem))?;
                ids.retain(|id| caller.may_see(id));
                ids
            }
        };
        let (subjects, mut problems) = grep::subjects(&ctx, &Filter::default(), ids);
        let (mut lines, mut more) = (Vec::new(), false);
        let trouble = grep::find(&subjects, &pattern, extent, &*until, |subject, hits| {
            for hit in hits {
                if lines.len() >= limit {
                    more = true;
                    return Ok(ControlFlow::Break(()));
                }
                lines.push(Line::of(subject, hit));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        problems.extend(trouble);
        problems.dedup();
        let more = more || until.is_enough();
        Ok(FoundLines { lines, more, damaged: problems.into_iter().map(|problem| problem.what).collect() })
    });
    Ok(Json(found.await?))
}
