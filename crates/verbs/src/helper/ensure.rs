//! Own a helper, and start it if it does not run.
//!
//! Promise: of any number who ask at once, one starts it and all own it; nobody is given one that is
//! being ended. The lock on starting is held only while one is started, not while it gets ready.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_api::client::Arrival;
use berth_api::helper::{HelperStatus, Owner, ReadyWhen, Terms, Wanted};
use berth_api::message::{Answer, Request};
use berth_api::record::Spec;
use berth_api::{Code, Connection, Problem, SessionState, Status};
use berth_core::{Name, OWNERLESS_GRACE, PROOF_PATIENCE, Scope, SessionId};
use berth_keeper::helpers::{self, helper_id};
use berth_keeper::{recover, start};

use super::{described, reworded};
use crate::ctx::Ctx;
use crate::run::directory;

/// How long a helper may turn out to be over, or in somebody else's hands, each time we try to have it.
const AGAIN_PATIENCE: Duration = Duration::from_secs(10);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// How long a keeper may take for everything but what it waits for itself.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// How long a helper may take to get ready if nobody says.
pub const READY_WITHIN: Duration = Duration::from_secs(60);

/// What somebody wants of a helper, as they said it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What people call it.
    pub name: String,
    /// The session that owns it.
    pub owner: SessionId,
    /// Whether the session wants it between its turns, too.
    pub keep: bool,
    /// Whether all of the account share it; else those of its directory.
    pub is_of_account: bool,
    /// Where it runs; here if nobody says.
    pub cwd: Option<PathBuf>,
    /// How long it stays when its last owner has left.
    pub linger: Option<Duration>,
    /// What makes it ready.
    pub ready: Option<ReadyWhen>,
    /// How long it may take to get ready.
    pub ready_within: Duration,
    /// The command and its arguments.
    pub command: Vec<String>,
}

/// Makes a session own a helper; answered when it is ready.
pub fn ensure(helpers: &Ctx, asked: &Asked) -> Result<Status, Problem> {
    let wish = Wish::new(helpers, asked)?;
    let status = have(helpers, &wish).map_err(|problem| reworded(problem, &wish.id))?;
    Ok(described(helpers, status))
}

/// What is asked for.
struct Wish {
    id: SessionId,
    owner: Owner,
    spec: Spec,
    terms: Terms,
    wanted: Wanted,
}

impl Wish {
    fn new(helpers: &Ctx, asked: &Asked) -> Result<Self, Problem> {
        let name = Name::parse(&asked.name).map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
        let owner = Owner { session: asked.owner.to_string(), keep: asked.keep };
        let command = asked.command.clone();
        let cwd = directory(asked.cwd.as_deref())?;
        let scope = if asked.is_of_account { Scope::User } else { Scope::Dir(cwd.clone()) };
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let linger_ms = asked.linger.map(millis);
        let wanted = Wanted {
            name: name.to_string(),
            scope: Some(scope.clone().into()),
            command: command.clone(),
            // One of the account runs wherever its first owner was.
            cwd: asked.cwd.as_ref().map(|_| cwd.clone()),
            linger_ms,
            ready: asked.ready.clone(),
        };
        let terms = Terms {
            name: name.to_string(),
            scope: scope.clone().into(),
            linger_ms: linger_ms.unwrap_or(0),
            ready: asked.ready.clone(),
            ready_within_ms: millis(asked.ready_within),
        };
        let spec = Spec { driver: "pty".to_owned(), command, cwd, ..Spec::default() };
        Ok(Self { id: helper_id(&helpers.home, &name, &scope)?, owner, spec, terms, wanted })
    }

    /// How long the answer may take: it comes when the helper is ready, or over.
    fn patience(&self) -> Duration {
        let ready = Duration::from_millis(self.terms.ready_within_ms);
        ready.saturating_add(OWNERLESS_GRACE + 2 * PROOF_PATIENCE + ANSWER_PATIENCE)
    }
}

fn have(ctx: &Ctx, wish: &Wish) -> Result<Status, Problem> {
    let began_at = Instant::now();
    let mut patience = AGAIN_PATIENCE;
    let mut pause = Duration::from_micros(500);
    let mut last = None;
    loop {
        for attempt in [join, start] {
            match attempt(ctx, wish)? {
                Tried::Ready(status) => return Ok(*status),
                Tried::Again(problem) => last = problem.or(last),
                Tried::Interrupted(problem) => {
                    // There is a helper, and it may take its time to get ready.
                    patience = wish.patience();
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
        Problem::new(Code::Held, format!("helper `{}` was over each time we had it", wish.terms.name))
            .hint("it is stopped again and again; `berth helper log` tells by which client")
    }))
}

/// What came of an attempt.
enum Tried {
    Ready(Box<Status>),
    /// It does not run, or not any more, or somebody else has it in their hands: try the other way.
    Again(Option<Problem>),
    /// It is there, but has no room for us now, or it replaced its program while we waited.
    Interrupted(Problem),
}

/// Joins the helper, if it runs.
fn join(ctx: &Ctx, wish: &Wish) -> Result<Tried, Problem> {
    let mut keeper = match ctx.keeper_of(&wish.id) {
        Ok(Some(keeper)) => keeper,
        Ok(None) => return Ok(Tried::Again(None)),
        Err(problem) if problem.code == Code::Unreachable => return Ok(Tried::Again(Some(problem))),
        Err(problem) => return Err(problem),
    };
    let request = Request::Join { owner: wish.owner.clone(), wanted: wish.wanted.clone() };
    if let Err(error) = keeper.send(request) {
        return Ok(Tried::Interrupted(went_away(wish, &error.to_string())));
    }
    // Our own time first: the helper may have been given more by whoever started it.
    let mut word = next_word(&mut keeper, Duration::from_millis(wish.terms.ready_within_ms));
    if matches!(word, Word::Silence) {
        if gets_ready(ctx, wish) {
            return Err(not_ready(wish));
        }
        // It is being ended, and that may take longer.
        word = next_word(&mut keeper, wish.patience());
    }
    match word {
        Word::Answer(Answer::Done { status }) if is_ours(&status, wish) => Ok(Tried::Ready(status)),
        // It was being ended, and now it is over.
        Word::Answer(Answer::Done { .. }) => Ok(Tried::Again(None)),
        Word::Answer(Answer::Problem { problem }) if problem.code == Code::Held => {
            Ok(Tried::Interrupted(problem))
        }
        Word::Answer(Answer::Problem { problem }) => Err(problem),
        Word::Answer(other) => Err(odd(&other)),
        // By now there may be another one: joining twice is joining once.
        Word::End(why) => Ok(Tried::Interrupted(went_away(wish, &why))),
        Word::Silence => Err(silent(wish)),
    }
}

/// What a keeper says next.
enum Word {
    Answer(Answer),
    /// The connection is over.
    End(String),
    /// Nothing yet.
    Silence,
}

fn next_word(keeper: &mut Connection, patience: Duration) -> Word {
    let began_at = Instant::now();
    loop {
        let left = patience.saturating_sub(began_at.elapsed());
        let _ = keeper.set_patience(Some(left.max(Duration::from_millis(1))));
        match keeper.next() {
            Ok(Some(Arrival::Answer(answer))) => return Word::Answer(answer),
            Ok(Some(Arrival::Output(_) | Arrival::Screen(_) | Arrival::Notice(_))) => {}
            Ok(None) => return Word::End("it ended".to_owned()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Word::Silence;
            }
            Err(error) => return Word::End(error.to_string()),
        }
    }
}

/// Whether the helper is up, ours, and on its way to being ready.
fn gets_ready(ctx: &Ctx, wish: &Wish) -> bool {
    match ctx.ask(&wish.id, Request::Status) {
        Ok(Some(Answer::Done { status })) => {
            let is_up = matches!(status.state, SessionState::Starting | SessionState::Running);
            is_up && status.helper.as_ref().is_some_and(|helper| !helper.ready && owns(helper, wish))
        }
        Ok(_) | Err(_) => false,
    }
}

fn not_ready(wish: &Wish) -> Problem {
    let within = Duration::from_millis(wish.terms.ready_within_ms);
    let name = &wish.terms.name;
    Problem::new(Code::TimedOut, format!("helper `{name}` is not ready within {within:?}; it goes on"))
        .hint(format!("ask again to wait on; the session owns it until `berth helper release {}`", wish.id))
}

fn is_ours(status: &Status, wish: &Wish) -> bool {
    status.helper.as_ref().is_some_and(|helper| helper.ready && owns(helper, wish))
}

fn owns(helper: &HelperStatus, wish: &Wish) -> bool {
    helper.owners.iter().any(|owner| owner.session == wish.owner.session)
}

/// Who has ended a run holds the lease a moment longer, to say goodbye; and so does who clears up.
fn wait_until_free(ctx: &Ctx, id: &SessionId) {
    let started = Instant::now();
    let mut pause = Duration::from_micros(200);
    while ctx.is_kept(id) && started.elapsed() < recover::GOODBYE_PATIENCE {
        if ctx.home.session(id).has_socket() {
            // Somebody else was faster: there is a new one to join.
            return;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn start(ctx: &Ctx, wish: &Wish) -> Result<Tried, Problem> {
    wait_until_free(ctx, &wish.id);
    let files = ctx.home.session(&wish.id);
    files.refuse_stranger(wish.terms.name.as_str())?;
    files.make()?;
    let lock = helpers::starting(&ctx.home, &wish.id)?;
    if ctx.is_kept(&wish.id) {
        return Ok(Tried::Again(None));
    }
    let (spec, terms, owner) = (wish.spec.clone(), wish.terms.clone(), wish.owner.clone());
    let request = Request::StartHelper { spec, terms, owner };
    match start::keeper(&ctx.home, &wish.id, request, ctx.asker()) {
        Ok((mut keeper, _)) => {
            drop(lock);
            second_answer(&mut keeper, wish)
        }
        // Somebody looks at it, or clears up after a crash; or something of the last run is still there.
        Err(problem) if problem.code == Code::Held => Ok(Tried::Again(Some(problem))),
        Err(problem) => Err(problem),
    }
}

/// Waits for the word that it is ready, or never will be.
fn second_answer(keeper: &mut Connection, wish: &Wish) -> Result<Tried, Problem> {
    match next_word(keeper, wish.patience()) {
        Word::Answer(Answer::Done { status }) => Ok(Tried::Ready(status)),
        Word::Answer(Answer::Problem { problem }) => Err(problem),
        Word::Answer(other) => Err(odd(&other)),
        // A keeper that replaces its program drops its connections, and nothing else.
        Word::End(why) => Ok(Tried::Interrupted(went_away(wish, &why))),
        Word::Silence => Err(silent(wish)),
    }
}

fn silent(wish: &Wish) -> Problem {
    let what = format!("the keeper of helper `{}` does not answer", wish.terms.name);
    Problem::new(Code::Unreachable, what)
        .hint(format!("`berth helper show {}` shows what is known about it", wish.id))
}

fn went_away(wish: &Wish, why: &str) -> Problem {
    let name = &wish.terms.name;
    let what = format!("the keeper of helper `{name}` went away before the helper was ready: {why}");
    Problem::new(Code::Unreachable, what).hint("try again; what it left behind is ended first")
}

fn odd(answer: &Answer) -> Problem {
    Problem::new(Code::Bug, format!("the keeper gave an odd answer: {answer:?}"))
}
