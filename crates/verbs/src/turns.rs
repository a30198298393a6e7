//! Turns for clients: finding, sending and following a turn, and its exit code.
//!
//! Promise: a sent turn is on disk exactly once when this returns, even if the keeper dies or replaces itself
//! meanwhile; a client that waits gets the final state.
//! Not here: printing (see `cmd/send`).
//! Start with [`crate::SessionHandle::send`], then [`follow`].

use std::time::{Duration, Instant};

use berth_api::message::{KeeperAnswer, KeeperNotice, KeeperRequest, WriterTakeover};
use berth_api::record::Event;
use berth_api::status::TurnsStatus;
use berth_api::turn::{NewTurn, TurnPage, TurnReceipt, TurnView, split_turn_id, turn_id};
use berth_api::{KeeperConnection, Problem, ProblemCode, SessionStatus, TurnState};
use berth_core::{
    Actor, CANCEL_PATIENCE, ClockReading, Command, MAX_PROMPT_BYTES, RELEASE_GRACE, Refusal, SessionId,
    TurnLookup, TurnPrompt, decide,
};
use berth_keeper::{recover, spawn_keeper, turn_outcome};
use berth_procs::callers;
use berth_store::{killpoint, session_status};

use crate::context::{ReadAnswer, VerbContext};
use crate::{history, session_cursor};

/// Time that a session may take to accept a turn: its last keeper leaves, the next one starts.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(30);
/// Variable by which tests shorten that time, in milliseconds. Not in release builds.
const ACCEPT_VARIABLE: &str = "BERTH_ACCEPT_MS";
/// Limit for the turns that a resumed conversation shows, besides the waiting ones.
const LATEST_TURNS: u64 = 100;
/// Turns with fewer numbers between them are read at once.
const NEAR_TURNS: u64 = 16;
/// Prefix of keys that berth generated.
const OWN_KEY: &str = "~";

fn accept_patience() -> Duration {
    killpoint::patience(ACCEPT_VARIABLE, ACCEPT_PATIENCE)
}

/// The latest turns, and all that wait.
pub fn latest(ctx: &VerbContext, id: &SessionId, status: &SessionStatus) -> Result<TurnPage, Problem> {
    let known = status.turns.as_ref();
    let first = known.map_or(1, |known| known.total.saturating_sub(LATEST_TURNS) + 1);
    let mut latest = page(ctx, id, first, u64::MAX, usize::MAX)?;
    let mut older = known.map_or_else(Vec::new, queued_numbers);
    older.retain(|number| *number < first);
    let older = with_numbers(ctx, id, older)?;
    latest.turns.splice(0..0, older);
    Ok(latest)
}

/// Numbers of the waiting turns.
pub(crate) fn queued_numbers(turns: &TurnsStatus) -> Vec<u64> {
    turns.queued.iter().filter_map(|turn| split_turn_id(turn)).map(|(_, number)| number).collect()
}

/// The turns with these numbers, in the order they were accepted. Turns in between are read only if they are few.
pub(crate) fn with_numbers(
    ctx: &VerbContext,
    id: &SessionId,
    mut numbers: Vec<u64>,
) -> Result<Vec<TurnView>, Problem> {
    numbers.sort_unstable();
    let mut turns = Vec::new();
    for near in numbers.chunk_by(|before, next| next - before <= NEAR_TURNS) {
        let (first, last) = (near[0], near[near.len() - 1]);
        let mut found = page(ctx, id, first, last - first + 1, usize::MAX)?.turns;
        found.retain(|turn| near.binary_search(&turn.number).is_ok());
        turns.append(&mut found);
    }
    Ok(turns)
}

/// Removes keys that berth generated: they mean nothing to clients.
pub(crate) fn hide_own_keys(views: &mut [TurnView]) {
    for view in views {
        view.key = view.key.take().filter(|key| !key.starts_with(OWN_KEY));
    }
}

/// At most `limit` turns, beginning with the turn `from`; stops once their texts have `most_bytes`. A run whose keeper
/// died is brought to its end first.
pub(crate) fn page(
    ctx: &VerbContext,
    id: &SessionId,
    from: u64,
    limit: u64,
    most_bytes: usize,
) -> Result<TurnPage, Problem> {
    let (answer, mut keeper) = ctx.read_on(id, KeeperRequest::Turns { from, limit })?;
    let mut page = match answer {
        ReadAnswer::Keeper(KeeperAnswer::Turns(page)) => page,
        ReadAnswer::Keeper(other) => return Err(unexpected_answer(&other)),
        ReadAnswer::NoKeeper => {
            ctx.healed(id)?;
            return page_on_disk(ctx, id, (from, limit, most_bytes));
        }
        ReadAnswer::Silent => return page_of_silent(ctx, id, (from, limit, most_bytes)),
    };
    loop {
        let next = page.turns.last().map_or(from.max(1), |last| last.number + 1);
        let left = limit.saturating_sub(page.turns.len() as u64);
        let bytes: usize = page.turns.iter().map(TurnView::text_bytes).sum();
        let is_enough = bytes >= most_bytes && !page.turns.is_empty();
        if left == 0 || is_enough || next > page.total {
            break;
        }
        let asked = keeper.as_mut().filter(|_| !page.turns.is_empty());
        match asked.map(|keeper| ask_in_time(keeper, KeeperRequest::Turns { from: next, limit: left })) {
            Some(Ok(KeeperAnswer::Turns(mut more))) if !more.turns.is_empty() => {
                page.turns.append(&mut more.turns)
            }
            // A keeper that left, or a turn that is too long for a frame: the files have the rest.
            _ => {
                let rest = page_on_disk(ctx, id, (next, left, most_bytes.saturating_sub(bytes)))?;
                page.turns.extend(rest.turns);
                // The number from the first read counts: the first turns do not follow from the events in between.
                page.total = page.total.max(rest.total);
                break;
            }
        }
    }
    hide_own_keys(&mut page.turns);
    Ok(page)
}

/// All turns from the turn `from` on, in pages that end once their texts have `most_bytes`. A keeper that is known to be
/// silent is not asked again: each question would have to time out.
pub(crate) fn pages(
    ctx: &VerbContext,
    id: &SessionId,
    from: u64,
    most_bytes: usize,
    mut keeper_silent: bool,
) -> impl Iterator<Item = Result<TurnPage, Problem>> {
    let mut next = Some(from);
    std::iter::from_fn(move || {
        let from = next.take()?;
        let page = match keeper_silent {
            true => page_of_silent(ctx, id, (from, u64::MAX, most_bytes)),
            false => page(ctx, id, from, u64::MAX, most_bytes),
        };
        if let Ok(page) = &page {
            let last = page.turns.last()?;
            keeper_silent |= last.keeper_silent;
            next = (last.number < page.total).then_some(last.number + 1);
        }
        Some(page)
    })
}

/// A page from disk of a session whose keeper does not answer.
fn page_of_silent(ctx: &VerbContext, id: &SessionId, wanted: (u64, u64, usize)) -> Result<TurnPage, Problem> {
    let mut page = page_on_disk(ctx, id, wanted)?;
    let keeper_silent = ctx.status_of_silent(id)?.keeper_silent;
    page.turns.iter_mut().for_each(|view| view.keeper_silent = keeper_silent);
    Ok(page)
}

fn page_on_disk(
    ctx: &VerbContext,
    id: &SessionId,
    (from, limit, most_bytes): (u64, u64, usize),
) -> Result<TurnPage, Problem> {
    let past = ctx.home.session(id).past()?;
    let mut turns = past.turns(from, limit, most_bytes)?;
    hide_own_keys(&mut turns);
    Ok(TurnPage { turns, total: past.history.session.turns.last(), seq: past.history.seq })
}

/// One turn. A run whose keeper died is brought to its end first.
pub(crate) fn view(ctx: &VerbContext, id: &SessionId, number: u64) -> Result<TurnView, Problem> {
    turn_snapshot(ctx, id, number).map(|snapshot| snapshot.view)
}

/// A turn, and the facts that decide whether it goes on.
struct TurnSnapshot {
    view: TurnView,
    /// True if something holds the queue that only a user can fix.
    needs_someone: bool,
    /// Connection to the keeper that reported the turn.
    keeper: Option<KeeperConnection>,
}

fn turn_snapshot(ctx: &VerbContext, id: &SessionId, number: u64) -> Result<TurnSnapshot, Problem> {
    let (answer, keeper) = ctx.read_on(id, KeeperRequest::Turn { turn: number })?;
    let mut keeper_silent = false;
    match answer {
        ReadAnswer::Keeper(KeeperAnswer::Turn { turn, needs_someone }) => {
            let mut view = *turn;
            hide_own_keys(std::slice::from_mut(&mut view));
            return Ok(TurnSnapshot { view, needs_someone, keeper });
        }
        // The turn is too long for a frame.
        ReadAnswer::Keeper(_) => {}
        ReadAnswer::NoKeeper => drop(ctx.healed(id)?),
        ReadAnswer::Silent => keeper_silent = ctx.status_of_silent(id)?.keeper_silent,
    }
    let past = ctx.home.session(id).past()?;
    let session = &past.history.session;
    let found = past.turns(number, 1, 0)?.pop().filter(|found| found.number == number);
    let mut view = found.ok_or_else(|| {
        let name = session.name.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
        berth_api::problem::refusal(&Refusal::NoSuchTurn { turn: number }, &name)
    })?;
    hide_own_keys(std::slice::from_mut(&mut view));
    view.keeper_silent = keeper_silent;
    let needs_someone = session.turns.hold.as_ref().is_some_and(berth_core::QueueHold::needs_someone);
    Ok(TurnSnapshot { view, needs_someone, keeper })
}

/// The exit code for the state of a turn.
pub fn exit_code(view: &TurnView) -> u8 {
    match view.state {
        TurnState::Done => 0,
        TurnState::Failed => ProblemCode::Refused.exit_code(),
        TurnState::Cancelled => 8,
        TurnState::Interrupted => 9,
        TurnState::Unknown => 10,
        TurnState::Queued | TurnState::Delivered | TurnState::Working => ProblemCode::Held.exit_code(),
    }
}

/// Refuses a text that cannot be a prompt, before anything is created for it.
pub fn check_prompt(text: &str) -> Result<(), Problem> {
    let refusal = if text.trim().is_empty() {
        Refusal::EmptyPrompt
    } else if text.len() > MAX_PROMPT_BYTES {
        Refusal::PromptTooLong { bytes: text.len(), limit: MAX_PROMPT_BYTES }
    } else {
        return Ok(());
    };
    Err(berth_api::problem::refusal(&refusal, ""))
}

/// Sends a turn. A session without a keeper is started again.
pub(crate) fn send(
    ctx: &VerbContext,
    id: &SessionId,
    mut submit: NewTurn,
) -> Result<(Option<KeeperConnection>, TurnReceipt), Problem> {
    ensure_turn_key(&mut submit)?;
    let asked_at = Instant::now();
    let mut pause = Duration::from_millis(1);
    let mut connection = ctx.keeper_of(id)?;
    loop {
        let refused = match &mut connection {
            Some(keeper) => match ask_in_time(keeper, KeeperRequest::Send { submit: submit.clone() }) {
                Ok(KeeperAnswer::Receipt { receipt }) => return Ok((connection, *receipt)),
                Ok(other) => return Err(unexpected_answer(&other)),
                Err(problem) if problem.code == ProblemCode::Unreachable => unanswered(problem, &submit),
                Err(problem) => return Err(problem),
            },
            None => {
                if let Some(receipt) = look_first(ctx, id, &submit)? {
                    return Ok((None, receipt));
                }
                match begin_again(ctx, id) {
                    Ok(keeper) => {
                        connection = Some(keeper);
                        continue;
                    }
                    // Another client starts the session, or its last keeper is still leaving.
                    Err(problem) if problem.is_transient() => problem,
                    Err(problem) => return Err(problem),
                }
            }
        };
        if asked_at.elapsed() > accept_patience() {
            return Err(refused);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
        connection = ctx.keeper_of(id).map_err(|problem| unanswered(problem, &submit))?;
    }
}

/// The problem for a sender whose turn got no answer. The keeper drops a turn whose sender has disconnected, but may have
/// accepted it just as the sender gave up: only the key makes sending it again safe.
fn unanswered(problem: Problem, submit: &NewTurn) -> Problem {
    let key = submit.key.as_deref().unwrap_or_default();
    let what = format!("{}; it is unknown whether the turn was accepted", problem.what);
    Problem::new(problem.code, what).hint(format!(
        "send the same text again with the key `{key}`: a key runs at most once; `berth why` shows the state \
         of the keeper"
    ))
}

/// Adds a key to a turn without one, so that the turn can be sent again when the answer is lost.
fn ensure_turn_key(submit: &mut NewTurn) -> Result<(), Problem> {
    if submit.key.is_none() {
        submit.key = Some(random_turn_key()?);
    }
    Ok(())
}

/// Sends a request with a timeout: a suspended keeper does not answer, and a repetition does no harm.
fn ask_in_time(keeper: &mut KeeperConnection, request: KeeperRequest) -> Result<KeeperAnswer, Problem> {
    let _ = keeper.set_timeout(Some(accept_patience()));
    let answer = keeper.ask(request);
    let _ = keeper.set_timeout(None);
    answer
}

/// Starts the next run of a session without a run.
pub(crate) fn begin_again(ctx: &VerbContext, id: &SessionId) -> Result<KeeperConnection, Problem> {
    recover::recover_session(&ctx.home, id)?;
    ctx.may_start_again(id)?;
    free_conversation(ctx, id)?;
    // Sending a turn is no request to restore an archived session.
    let resume = KeeperRequest::Resume {
        size: ctx.size.unwrap_or_default(),
        fresh: false,
        take: WriterTakeover::None,
        restore: false,
        interface: None,
    };
    spawn_keeper::spawn_keeper_with_variables(&ctx.home, id, resume, ctx.asker(), &history::variables())
        .map(|(connection, _)| connection)
}

/// Ends the lost run of another session that wrote this session's conversation last and lost its keeper.
pub(crate) fn free_conversation(ctx: &VerbContext, id: &SessionId) -> Result<(), Problem> {
    let session = session_status::history(&ctx.home, id)?.session;
    if let Some((spec, known)) = session.spec.as_ref().zip(session.conversation.as_ref()) {
        recover::recover_last_writer(&ctx.home, &spec.conversation, &known.id);
    }
    Ok(())
}

/// Checks a turn without starting anything: an error, or the receipt of a turn that was accepted before.
fn look_first(ctx: &VerbContext, id: &SessionId, submit: &NewTurn) -> Result<Option<TurnReceipt>, Problem> {
    let past = ctx.home.session(id).past_with_keys()?;
    let session = &past.history.session;
    if let Some(expected) = &submit.expected_session {
        turn_outcome::check_expected_session(session, id, expected)?;
    }
    let name = session.name.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
    let prompt = TurnPrompt {
        by: Actor::default(),
        text: submit.text.clone(),
        key: submit.key.clone(),
        start_by: None,
        manner: submit.manner.into(),
        retry: None,
    };
    let decided = decide(session, Command::Send { prompt }, ClockReading::default());
    let events = decided.map_err(|refusal| berth_api::problem::refusal(&refusal, &name))?;
    let known = submit.key.as_deref().and_then(|key| session.turns.keyed(key)).filter(|_| events.is_empty());
    let Some(number) = known else { return Ok(None) };
    let state = match session.turns.find(number) {
        TurnLookup::Here(turn) if turn.state.is_over() => turn.state.into(),
        TurnLookup::Past => past.turns(number, 1, 0)?.pop().map(|view| view.state).unwrap_or_default(),
        // A waiting turn needs its session to be started.
        TurnLookup::Here(_) | TurnLookup::Absent => return Ok(None),
    };
    Ok(Some(TurnReceipt {
        turn: turn_id(id.as_str(), number),
        session: id.to_string(),
        number,
        state,
        repeated: true,
        ..TurnReceipt::default()
    }))
}

/// Report about a turn that a client follows.
pub enum TurnNews<'a> {
    /// A piece of the answer.
    Said(&'a str),
    /// An activity of the agent.
    #[expect(missing_docs, reason = "as in `Notice::Doing`")]
    Doing { activity: &'a str, detail: &'a str, tokens: Option<u64> },
    /// An event of the turn, or of a turn before it.
    Event(&'a Event),
    /// Time has passed; sent several times a second.
    Tick,
}

impl TurnNews<'_> {
    /// True if the agent gets this turn.
    pub fn begins(&self, number: u64) -> bool {
        matches!(self, Self::Event(Event::TurnDelivered { turn, .. }) if *turn == number)
    }
}

/// Answer of a follower: true if it wants no more reports.
pub type FollowResult = Result<bool, Problem>;

/// Interval of [`TurnNews::Tick`].
const TICK: Duration = Duration::from_millis(200);

/// Follows a turn until it is over, `hear` wants no more reports, or `until` has come (then exit 6). If the keeper dies
/// meanwhile, the session is brought back: the caller that waits for a turn has asked for it.
pub fn follow(
    ctx: &VerbContext,
    id: &SessionId,
    number: u64,
    connection: Option<KeeperConnection>,
    until: Option<Instant>,
    mut hear: impl FnMut(TurnNews<'_>) -> FollowResult,
) -> Result<TurnView, Problem> {
    let mut cursor = ctx.session(id).turn_news(number, connection);
    let mut refused_since: Option<Instant> = None;
    // Id of the turn, while it waits.
    let mut waiting: Option<String> = None;
    loop {
        let now = Instant::now();
        if until.is_some_and(|until| until <= now) {
            return Err(not_over(&turn_id(id.as_str(), number)));
        }
        let tick = now + TICK;
        let enough = match cursor.next(Some(until.map_or(tick, |until| until.min(tick)))) {
            None => hear(TurnNews::Tick)?,
            Some(session_cursor::CursorNews::Answer(KeeperAnswer::Receipt { receipt }))
                if receipt.state.is_final() =>
            {
                true
            }
            Some(session_cursor::CursorNews::Answer(KeeperAnswer::Receipt { receipt })) => {
                if let Some(held) = receipt.held.as_ref().filter(|_| !receipt.paused) {
                    return Err(held_problem(&receipt.turn, held));
                }
                waiting = receipt.position.map(|_| receipt.turn.clone());
                false
            }
            Some(session_cursor::CursorNews::Notice(KeeperNotice::Said { text, .. })) => {
                hear(TurnNews::Said(&text))?
            }
            Some(session_cursor::CursorNews::Notice(KeeperNotice::Doing {
                activity,
                detail,
                tokens,
                ..
            })) => hear(TurnNews::Doing { activity: &activity, detail: &detail, tokens })?,
            Some(session_cursor::CursorNews::Event { entry, .. }) => {
                let is_end = matches!(&entry.event, Event::TurnEnded { turn, .. } if *turn == number);
                match (&entry.event, &waiting) {
                    (Event::TurnDelivered { turn, .. }, _) if *turn == number => waiting = None,
                    (Event::QueueHeld { hold }, Some(turn))
                        if berth_core::QueueHold::from(hold.clone()).needs_someone() =>
                    {
                        let session = split_turn_id(turn).map_or("S", |(session, _)| session);
                        return Err(held_problem(turn, &hold.describe(session)));
                    }
                    _ => {}
                }
                hear(TurnNews::Event(&entry.event))? || is_end
            }
            // The keeper serves too many clients already: the turn is polled.
            Some(session_cursor::CursorNews::Refused(_)) => view(ctx, id, number)?.state.is_final(),
            Some(session_cursor::CursorNews::Trouble(problem)) => return Err(problem),
            Some(session_cursor::CursorNews::NoKeeper(_) | session_cursor::CursorNews::Purged(_)) => {
                match ensure_keeper(ctx, id, number)? {
                    TurnAccess::Over(view) => return Ok(*view),
                    TurnAccess::Kept(keeper) => {
                        cursor.use_connection(keeper);
                        false
                    }
                    TurnAccess::NotYet(problem) => {
                        if refused_since.get_or_insert_with(Instant::now).elapsed() > accept_patience() {
                            return Err(problem);
                        }
                        false
                    }
                }
            }
            Some(
                session_cursor::CursorNews::Connected(_)
                | session_cursor::CursorNews::Answer(_)
                | session_cursor::CursorNews::Notice(_)
                | session_cursor::CursorNews::Silent
                | session_cursor::CursorNews::Lost,
            ) => false,
        };
        if enough {
            return view(ctx, id, number);
        }
    }
}

/// Result of [`ensure_keeper`].
pub enum TurnAccess {
    /// The turn is over.
    Over(Box<TurnView>),
    /// Connection to the keeper that has the turn.
    Kept(KeeperConnection),
    /// Neither at this moment: another client brings the session back, or its last keeper is still leaving.
    NotYet(Problem),
}

/// Makes sure that a client can wait for a turn: the client has asked for the session to go on, so it is brought back,
/// unless a user stopped it or something holds its queue.
pub fn ensure_keeper(ctx: &VerbContext, id: &SessionId, number: u64) -> Result<TurnAccess, Problem> {
    bring_back_from(ctx, id, number, turn_snapshot(ctx, id, number)?)
}

fn bring_back_from(
    ctx: &VerbContext,
    id: &SessionId,
    number: u64,
    look: TurnSnapshot,
) -> Result<TurnAccess, Problem> {
    let TurnSnapshot { view: known, keeper, .. } = look;
    if known.state.is_final() {
        return Ok(TurnAccess::Over(Box::new(known)));
    }
    if let Some(keeper) = keeper.map_or_else(|| ctx.keeper_of(id), |keeper| Ok(Some(keeper)))? {
        return Ok(TurnAccess::Kept(keeper));
    }
    let session = session_status::history(&ctx.home, id)?.session;
    if let Some(by) = session.stopped_by.clone().filter(|_| !session.is_live()) {
        let turn = turn_id(id.as_str(), number);
        return Err(Problem::held(format!(
            "the session was stopped by {}; turn {turn} is {}",
            by.place, known.state
        ))
        .hint(format!("`berth resume {id}` continues with the waiting turns")));
    }
    if let Some(held) = &known.held {
        return Err(held_problem(&known.turn, held));
    }
    match begin_again(ctx, id) {
        Ok(keeper) => Ok(TurnAccess::Kept(keeper)),
        Err(problem) if problem.is_transient() => Ok(TurnAccess::NotYet(problem)),
        Err(problem) => Err(problem),
    }
}

/// Progress of a turn that a client waits for.
pub enum TurnWaitState {
    /// The turn is over.
    Over(Box<TurnView>),
    /// The turn will finish: a keeper has it.
    Coming(Box<TurnView>),
    /// The turn cannot begin by itself.
    Held(Problem),
    /// The session has no keeper at this moment; try again in a moment.
    NotYet(Problem),
}

/// Reads the progress of a turn. With `may_start` the session is brought back if the turn needs that.
pub fn turn_wait_state(
    ctx: &VerbContext,
    id: &SessionId,
    number: u64,
    may_start: bool,
) -> Result<TurnWaitState, Problem> {
    let known = turn_snapshot(ctx, id, number)?;
    if known.view.state.is_final() {
        return Ok(TurnWaitState::Over(Box::new(known.view)));
    }
    if known.keeper.is_some() {
        return Ok(wait_state_of(known));
    }
    if !may_start && ctx.keeper_of(id)?.is_none() {
        let TurnView { turn, state, .. } = known.view;
        let what = format!("the session is not running at this moment; turn {turn} is {state}");
        let hint = format!(
            "`berth resume {id}` continues with the waiting turns, and so does the next `berth send`"
        );
        return Ok(TurnWaitState::Held(Problem::held(what).hint(hint)));
    }
    match bring_back_from(ctx, id, number, known) {
        Ok(TurnAccess::Over(view)) => Ok(TurnWaitState::Over(view)),
        Ok(TurnAccess::NotYet(problem)) => Ok(TurnWaitState::NotYet(problem)),
        Ok(TurnAccess::Kept(_)) => Ok(wait_state_of(turn_snapshot(ctx, id, number)?)),
        Err(problem) if problem.code == ProblemCode::Held => Ok(TurnWaitState::Held(problem)),
        Err(problem) => Err(problem),
    }
}

/// The progress of a turn whose session has a keeper.
fn wait_state_of(TurnSnapshot { view, needs_someone, .. }: TurnSnapshot) -> TurnWaitState {
    match &view.held {
        _ if view.state.is_final() => TurnWaitState::Over(Box::new(view)),
        Some(held) if needs_someone => TurnWaitState::Held(held_problem(&view.turn, held)),
        Some(_) | None => TurnWaitState::Coming(Box::new(view)),
    }
}

/// Limit for the time until a cancelled turn is over: the agent is asked first, then its run is ended.
pub const CANCEL_TAKES: Duration =
    Duration::from_secs(CANCEL_PATIENCE.as_secs() + RELEASE_GRACE.as_secs() + END_PATIENCE.as_secs());
/// Time that the end of a run may take if its agent does not react.
const END_PATIENCE: Duration = Duration::from_secs(15);

/// Withdraws a waiting turn, or asks the agent to interrupt a running one. The turn may still be running when this
/// returns.
pub fn cancel(ctx: &VerbContext, id: &SessionId, number: u64) -> Result<TurnView, Problem> {
    view(ctx, id, number)?;
    let command = Command::Cancel { turn: number, by: ctx.me() };
    change(ctx, id, KeeperRequest::Cancel { turn: number }, command)?;
    view(ctx, id, number)
}

/// The error for a turn that did not begin in time and was withdrawn for that.
pub fn turn_withdrawn_problem(view: &TurnView) -> Option<Problem> {
    let is_late = view.reason.as_deref().is_some_and(|why| why.starts_with("withdrawn: "));
    let never_began =
        view.state == TurnState::Cancelled && view.delivered_at.is_none() && view.cancelled_by.is_none();
    (never_began && is_late).then(|| {
        let why = view.reason.clone().unwrap_or_default();
        Problem::timed_out(format!("turn {} did not begin and will not: {why}", view.turn))
            .hint("nothing was sent to the agent; send it again later, with another key")
    })
}

fn not_over(turn: &str) -> Problem {
    Problem::timed_out(format!("turn {turn} is not over yet"))
        .hint(format!("it goes on; `berth wait {turn}` waits for it, `berth cancel {turn}` ends it"))
}

/// The error for a turn that is accepted and cannot begin by itself.
fn held_problem(turn: &str, held: &str) -> Problem {
    Problem::held(format!("turn {turn} is accepted, and waits: {held}"))
        .hint(format!("it stays in the queue; `berth cancel {turn}` withdraws it"))
}

/// A key that no client is shown.
pub fn random_turn_key() -> Result<String, Problem> {
    Ok(random()?.iter().fold(OWN_KEY.to_owned(), |key, byte| format!("{key}{byte:02x}")))
}

/// A random id for a new conversation.
pub fn random_conversation_id() -> Result<String, Problem> {
    Ok(berth_host::uuid_from_random_bytes(random()?))
}

fn random() -> Result<[u8; 16], Problem> {
    let mut bytes = [0; 16];
    berth_host::random_bytes(&mut bytes)
        .map_err(|error| Problem::refused(format!("cannot get random bytes: {error}")))?;
    Ok(bytes)
}

/// The error for an answer that does not fit the request.
pub fn unexpected_answer(answer: &KeeperAnswer) -> Problem {
    Problem::bug(format!("the keeper sent an unexpected answer: {answer:?}"))
}

/// Applies one change to a session's turns: through its keeper, else with its lease.
pub fn change(
    ctx: &VerbContext,
    id: &SessionId,
    request: KeeperRequest,
    command: Command,
) -> Result<(), Problem> {
    ctx.may(callers::action_of_request(&request), id)?;
    if ctx.ask(id, request)?.is_some() {
        return Ok(());
    }
    recover::recover_session(&ctx.home, id)?;
    recover::with_lease(&ctx.home, id, command)
}
