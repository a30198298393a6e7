//! Owning a helper: join it if it runs, else start it.
//!
//! Promise: of several clients that ask at once, one starts the helper and all own it; no client joins a helper that is
//! being ended. The lock on starting is held only during the start, not while the helper gets ready.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_api::client::KeeperMessage;
use berth_api::helper::{HelperOwner, HelperRequirements, HelperStatus, HelperTerms, ReadinessProbe};
use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_api::record::SessionSpec;
use berth_api::{KeeperConnection, Problem, ProblemCode, SessionState, SessionStatus};
use berth_core::{HelperScope, OWNERLESS_GRACE, PROOF_TIMEOUT, SafeName, SessionId};
use berth_keeper::helpers::{self, helper_id};
use berth_keeper::{recover, spawn_keeper};

use super::{describe_helper, reword_for_helper};
use crate::context::VerbContext;
use crate::run::directory;

/// Limit for retries in which the helper has just ended, or another process has its lease.
const AGAIN_PATIENCE: Duration = Duration::from_secs(10);
/// Limit for the pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// Time that a keeper may take for every answer that does not wait for the helper itself.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// Default time in which a helper must be ready.
pub const READY_WITHIN: Duration = Duration::from_secs(60);

/// Options of [`ensure`].
#[derive(Clone, Debug)]
pub struct HelperRequest {
    /// Name of the helper.
    pub name: String,
    /// Session that is to own the helper.
    pub owner: SessionId,
    /// True if the session keeps the helper between its turns.
    pub keep: bool,
    /// True for a helper of the whole account; false for one of a directory.
    pub is_of_account: bool,
    /// Directory in which the helper runs; `None` for the current one.
    pub cwd: Option<PathBuf>,
    /// Time that the helper stays after its last owner left.
    pub linger: Option<Duration>,
    /// Condition under which the helper is ready.
    pub ready: Option<ReadinessProbe>,
    /// Time in which the helper must be ready.
    pub ready_within: Duration,
    /// Command and arguments of the helper.
    pub command: Vec<String>,
}

/// Makes a session own a helper, and waits until the helper is ready.
pub fn ensure(helpers: &VerbContext, asked: &HelperRequest) -> Result<SessionStatus, Problem> {
    let plan = HelperPlan::new(helpers, asked)?;
    let status = join_or_start(helpers, &plan).map_err(|problem| reword_for_helper(problem, &plan.id))?;
    Ok(describe_helper(helpers, status))
}

/// The options with names resolved.
struct HelperPlan {
    id: SessionId,
    owner: HelperOwner,
    spec: SessionSpec,
    terms: HelperTerms,
    wanted: HelperRequirements,
}

impl HelperPlan {
    fn new(helpers: &VerbContext, asked: &HelperRequest) -> Result<Self, Problem> {
        let name = SafeName::parse(&asked.name).map_err(|bad| Problem::usage(bad.to_string()))?;
        let owner = HelperOwner { session: asked.owner.to_string(), keep: asked.keep };
        let command = asked.command.clone();
        let cwd = directory(asked.cwd.as_deref())?;
        let scope = if asked.is_of_account { HelperScope::User } else { HelperScope::Dir(cwd.clone()) };
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let linger_ms = asked.linger.map(millis);
        let wanted = HelperRequirements {
            name: name.to_string(),
            scope: Some(scope.clone().into()),
            command: command.clone(),
            // A helper of the account runs in the directory of its first owner.
            cwd: asked.cwd.as_ref().map(|_| cwd.clone()),
            linger_ms,
            ready: asked.ready.clone(),
        };
        let terms = HelperTerms {
            name: name.to_string(),
            scope: scope.clone().into(),
            linger_ms: linger_ms.unwrap_or(0),
            ready: asked.ready.clone(),
            ready_within_ms: millis(asked.ready_within),
        };
        let spec = SessionSpec { driver: "pty".to_owned(), command, cwd, ..SessionSpec::default() };
        Ok(Self { id: helper_id(&helpers.home, &name, &scope)?, owner, spec, terms, wanted })
    }

    /// Time that the answer may take: it comes when the helper is ready, or has ended.
    fn answer_timeout(&self) -> Duration {
        let ready = Duration::from_millis(self.terms.ready_within_ms);
        ready.saturating_add(OWNERLESS_GRACE + 2 * PROOF_TIMEOUT + ANSWER_PATIENCE)
    }
}

fn join_or_start(ctx: &VerbContext, plan: &HelperPlan) -> Result<SessionStatus, Problem> {
    let began_at = Instant::now();
    let mut patience = AGAIN_PATIENCE;
    let mut pause = Duration::from_micros(500);
    let mut last = None;
    loop {
        for attempt in [join, start] {
            match attempt(ctx, plan)? {
                EnsureAttempt::Ready(status) => return Ok(*status),
                EnsureAttempt::Again(problem) => last = problem.or(last),
                EnsureAttempt::Interrupted(problem) => {
                    // A helper exists, and may take its time to get ready.
                    patience = plan.answer_timeout();
                    last = Some(problem);
                }
            }
        }
        if began_at.elapsed() > patience {
            break;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Err(last.unwrap_or_else(|| {
        Problem::held(format!("helper `{}` ended before it could be owned, several times", plan.terms.name))
            .hint("a client keeps stopping it; `berth helper log` names the client")
    }))
}

/// Result of one attempt.
enum EnsureAttempt {
    Ready(Box<SessionStatus>),
    /// Not running, ended meanwhile, or held by another process: try the other way.
    Again(Option<Problem>),
    /// The helper exists, but its keeper serves too many clients, or replaced its program while we waited.
    Interrupted(Problem),
}

/// Joins the helper, if it runs.
fn join(ctx: &VerbContext, plan: &HelperPlan) -> Result<EnsureAttempt, Problem> {
    let mut keeper = match ctx.keeper_of(&plan.id) {
        Ok(Some(keeper)) => keeper,
        Ok(None) => return Ok(EnsureAttempt::Again(None)),
        Err(problem) if problem.code == ProblemCode::Unreachable => {
            return Ok(EnsureAttempt::Again(Some(problem)));
        }
        Err(problem) => return Err(problem),
    };
    let request = KeeperRequest::Join { owner: plan.owner.clone(), wanted: plan.wanted.clone() };
    if let Err(error) = keeper.send(request) {
        return Ok(EnsureAttempt::Interrupted(went_away(plan, &error.to_string())));
    }
    // Our own limit first: the client that started the helper may have given it more time.
    let mut word = next_word(&mut keeper, Duration::from_millis(plan.terms.ready_within_ms));
    if matches!(word, KeeperReply::Silence) {
        if gets_ready(ctx, plan) {
            return Err(not_ready(plan));
        }
        // The helper is being ended, and that may take longer.
        word = next_word(&mut keeper, plan.answer_timeout());
    }
    match word {
        KeeperReply::Answer(KeeperAnswer::Done { status }) if is_ours(&status, plan) => {
            Ok(EnsureAttempt::Ready(status))
        }
        // The helper was being ended, and has ended now.
        KeeperReply::Answer(KeeperAnswer::Done { .. }) => Ok(EnsureAttempt::Again(None)),
        KeeperReply::Answer(KeeperAnswer::Problem { problem }) if problem.code == ProblemCode::Held => {
            Ok(EnsureAttempt::Interrupted(problem))
        }
        KeeperReply::Answer(KeeperAnswer::Problem { problem }) => Err(problem),
        KeeperReply::Answer(other) => Err(unexpected_answer(&other)),
        // There may be a new keeper by now: joining twice has the effect of joining once.
        KeeperReply::End(why) => Ok(EnsureAttempt::Interrupted(went_away(plan, &why))),
        KeeperReply::Silence => Err(silent(plan)),
    }
}

/// The next message of a keeper.
enum KeeperReply {
    Answer(KeeperAnswer),
    /// The connection ended, for this reason.
    End(String),
    /// No message in time.
    Silence,
}

fn next_word(keeper: &mut KeeperConnection, patience: Duration) -> KeeperReply {
    let began_at = Instant::now();
    loop {
        let left = patience.saturating_sub(began_at.elapsed());
        let _ = keeper.set_timeout(Some(left.max(Duration::from_millis(1))));
        match keeper.next() {
            Ok(Some(KeeperMessage::Answer(answer))) => return KeeperReply::Answer(answer),
            Ok(Some(KeeperMessage::Output(_) | KeeperMessage::Screen(_) | KeeperMessage::Notice(_))) => {}
            Ok(None) => return KeeperReply::End("it ended".to_owned()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return KeeperReply::Silence;
            }
            Err(error) => return KeeperReply::End(error.to_string()),
        }
    }
}

/// True if the helper runs, this session owns it, and it is getting ready.
fn gets_ready(ctx: &VerbContext, plan: &HelperPlan) -> bool {
    match ctx.ask(&plan.id, KeeperRequest::Status) {
        Ok(Some(KeeperAnswer::Done { status })) => {
            let is_up = matches!(status.state, SessionState::Starting | SessionState::Running);
            is_up && status.helper.as_ref().is_some_and(|helper| !helper.ready && owns(helper, plan))
        }
        Ok(_) | Err(_) => false,
    }
}

fn not_ready(plan: &HelperPlan) -> Problem {
    let within = Duration::from_millis(plan.terms.ready_within_ms);
    let name = &plan.terms.name;
    Problem::timed_out(format!("helper `{name}` is not ready after {within:?}; it goes on starting")).hint(
        format!("repeat the command to wait longer; `berth helper release {}` gives the helper up", plan.id),
    )
}

fn is_ours(status: &SessionStatus, plan: &HelperPlan) -> bool {
    status.helper.as_ref().is_some_and(|helper| helper.ready && owns(helper, plan))
}

fn owns(helper: &HelperStatus, plan: &HelperPlan) -> bool {
    helper.owners.iter().any(|owner| owner.session == plan.owner.session)
}

/// Waits for the lease: a keeper that has ended its run holds it a moment longer to notify its clients, and a process
/// that clears up after a keeper holds it as well.
fn wait_until_free(ctx: &VerbContext, id: &SessionId) {
    let started = Instant::now();
    let mut pause = Duration::from_micros(200);
    while ctx.is_kept(id) && started.elapsed() < recover::GOODBYE_PATIENCE {
        if ctx.home.session(id).has_socket() {
            // Another client was faster: there is a new helper to join.
            return;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn start(ctx: &VerbContext, plan: &HelperPlan) -> Result<EnsureAttempt, Problem> {
    wait_until_free(ctx, &plan.id);
    let files = ctx.home.session(&plan.id);
    files.refuse_stranger(plan.terms.name.as_str())?;
    files.make()?;
    let lock = helpers::acquire_start_lock(&ctx.home, &plan.id)?;
    if ctx.is_kept(&plan.id) {
        return Ok(EnsureAttempt::Again(None));
    }
    let (spec, terms, owner) = (plan.spec.clone(), plan.terms.clone(), plan.owner.clone());
    let request = KeeperRequest::StartHelper { spec, terms, owner };
    match spawn_keeper::spawn_keeper(&ctx.home, &plan.id, request, ctx.asker()) {
        Ok((mut keeper, _)) => {
            drop(lock);
            second_answer(&mut keeper, plan)
        }
        // Another process examines the helper, or clears up after a crash; or a process of the last run still exists.
        Err(problem) if problem.code == ProblemCode::Held => Ok(EnsureAttempt::Again(Some(problem))),
        Err(problem) => Err(problem),
    }
}

/// Waits until the keeper says that the helper is ready, or has failed.
fn second_answer(keeper: &mut KeeperConnection, plan: &HelperPlan) -> Result<EnsureAttempt, Problem> {
    match next_word(keeper, plan.answer_timeout()) {
        KeeperReply::Answer(KeeperAnswer::Done { status }) => Ok(EnsureAttempt::Ready(status)),
        KeeperReply::Answer(KeeperAnswer::Problem { problem }) => Err(problem),
        KeeperReply::Answer(other) => Err(unexpected_answer(&other)),
        // A keeper that replaces its program disconnects its clients, and does nothing else.
        KeeperReply::End(why) => Ok(EnsureAttempt::Interrupted(went_away(plan, &why))),
        KeeperReply::Silence => Err(silent(plan)),
    }
}

fn silent(plan: &HelperPlan) -> Problem {
    let what = format!("the keeper of helper `{}` does not answer", plan.terms.name);
    Problem::unreachable(what).hint(format!("`berth helper show {}` shows what is known about it", plan.id))
}

fn went_away(plan: &HelperPlan, why: &str) -> Problem {
    let name = &plan.terms.name;
    let what = format!("the keeper of helper `{name}` went away before the helper was ready: {why}");
    Problem::unreachable(what).hint("try again; processes that it left behind are ended first")
}

fn unexpected_answer(answer: &KeeperAnswer) -> Problem {
    Problem::bug(format!("the keeper sent an unexpected answer: {answer:?}"))
}
