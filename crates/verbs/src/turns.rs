//! Turns from the outside: naming one, sending one, following one, and the exit code it stands for.
//!
//! Promise: what is sent is on disk when this says so, once, also if the keeper dies or replaces itself on the
//! way; who waits hears the end.
//! Not here: what is printed (see `cmd/send`).
//! Start with [`send`], then [`follow`].

use std::time::{Duration, Instant};

use berth_api::message::{Answer, Notice, Request, Take};
use berth_api::record::Event;
use berth_api::turn::{NewTurn, Receipt, TurnPage, TurnView, split_turn_id, turn_id};
use berth_api::{Code, Connection, Problem, Status, TurnState};
use berth_core::{
    Actor, CANCEL_PATIENCE, Command, MAX_PROMPT_BYTES, Now, Prompt, RELEASE_GRACE, Refusal, SessionId,
    TurnLookup, decide,
};
use berth_keeper::{callers, recover, start, turn};
use berth_store::{killpoint, turn_view, view};

use crate::ctx::{Ctx, ReadAnswer};
use crate::{cursor, history};

/// How long a session may take to accept a turn: its last keeper leaves, the next one starts.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(30);
/// The variable by which tests are less patient with it, in milliseconds. Not in release builds.
const ACCEPT_VARIABLE: &str = "BERTH_ACCEPT_MS";
/// How many turns a conversation that is taken up again shows at most, besides those that wait.
const LATEST_TURNS: u64 = 100;
/// Keys that nobody gave begin with this.
const OWN_KEY: &str = "~";

fn accept_patience() -> Duration {
    killpoint::patience(ACCEPT_VARIABLE, ACCEPT_PATIENCE)
}

/// All turns of a session. A run whose keeper died is brought to its end first.
pub fn views(ctx: &Ctx, id: &SessionId) -> Result<Vec<TurnView>, Problem> {
    let (status, _) = ctx.known(id)?;
    read_views(ctx, id, status.keeper_silent)
}

/// The latest turns, and all that wait.
pub fn latest(ctx: &Ctx, id: &SessionId, status: &Status) -> Result<TurnPage, Problem> {
    let known = status.turns.as_ref();
    let queued = known.into_iter().flat_map(|known| &known.queued);
    let first_queued = queued.filter_map(|turn| split_turn_id(turn)).map(|(_, number)| number).min();
    let latest = known.map_or(1, |known| known.total.saturating_sub(LATEST_TURNS) + 1);
    page(ctx, id, first_queued.map_or(latest, |queued| queued.min(latest)), u64::MAX, usize::MAX)
}

/// All turns on disk, for a caller that has asked the keeper already.
pub(crate) fn read_views(ctx: &Ctx, id: &SessionId, keeper_silent: bool) -> Result<Vec<TurnView>, Problem> {
    let events = ctx.home.session(id).read(1)?;
    let mut views = turn_view::views(&events, id);
    hide_own_keys(&mut views);
    views.iter_mut().for_each(|view| view.keeper_silent = keeper_silent);
    Ok(views)
}

/// Keys that nobody gave are nobody's business.
pub(crate) fn hide_own_keys(views: &mut [TurnView]) {
    for view in views {
        view.key = view.key.take().filter(|key| !key.starts_with(OWN_KEY));
    }
}

/// At most `limit` turns from the turn `from` on, and no more once their texts have `most_bytes`. A run whose keeper died
/// is brought to its end first.
pub fn page(
    ctx: &Ctx,
    id: &SessionId,
    from: u64,
    limit: u64,
    most_bytes: usize,
) -> Result<TurnPage, Problem> {
    let (answer, mut keeper) = ctx.read_on(id, Request::Turns { from, limit })?;
    let mut page = match answer {
        ReadAnswer::Keeper(Answer::Turns(page)) => page,
        ReadAnswer::Keeper(other) => return Err(odd(&other)),
        ReadAnswer::NoKeeper => {
            ctx.healed(id)?;
            return page_on_disk(ctx, id, (from, limit, most_bytes));
        }
        ReadAnswer::Silent => {
            let mut page = page_on_disk(ctx, id, (from, limit, most_bytes))?;
            let keeper_silent = ctx.of_silent(id)?.keeper_silent;
            page.turns.iter_mut().for_each(|view| view.keeper_silent = keeper_silent);
            return Ok(page);
        }
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
        match asked.map(|keeper| ask_in_time(keeper, Request::Turns { from: next, limit: left })) {
            Some(Ok(Answer::Turns(mut more))) if !more.turns.is_empty() => page.turns.append(&mut more.turns),
            // A keeper that left, or a turn that is too long for a frame: the files have the rest.
            _ => {
                let rest = page_on_disk(ctx, id, (next, left, most_bytes.saturating_sub(bytes)))?;
                page.turns.extend(rest.turns);
                // Not the number of the later look: the first turns do not follow from the events in between.
                page.total = page.total.max(rest.total);
                break;
            }
        }
    }
    hide_own_keys(&mut page.turns);
    Ok(page)
}

fn page_on_disk(
    ctx: &Ctx,
    id: &SessionId,
    (from, limit, most_bytes): (u64, u64, usize),
) -> Result<TurnPage, Problem> {
    let past = ctx.home.session(id).past()?;
    let mut turns = past.turns(from, limit, most_bytes)?;
    hide_own_keys(&mut turns);
    Ok(TurnPage { turns, total: past.history.session.turns.last(), seq: past.history.seq })
}

/// One turn. A run whose keeper died is brought to its end first.
pub fn view(ctx: &Ctx, id: &SessionId, number: u64) -> Result<TurnView, Problem> {
    look(ctx, id, number).map(|look| look.view)
}

/// A turn, and what decides whether it goes on.
struct TurnLook {
    view: TurnView,
    /// Something holds the queue that only a user can mend.
    needs_someone: bool,
    /// The keeper that told it.
    keeper: Option<Connection>,
}

fn look(ctx: &Ctx, id: &SessionId, number: u64) -> Result<TurnLook, Problem> {
    let (answer, keeper) = ctx.read_on(id, Request::Turn { turn: number })?;
    let mut keeper_silent = false;
    match answer {
        ReadAnswer::Keeper(Answer::Turn { turn, needs_someone }) => {
            let mut view = *turn;
            hide_own_keys(std::slice::from_mut(&mut view));
            return Ok(TurnLook { view, needs_someone, keeper });
        }
        // Too long for a frame.
        ReadAnswer::Keeper(_) => {}
        ReadAnswer::NoKeeper => drop(ctx.healed(id)?),
        ReadAnswer::Silent => keeper_silent = ctx.of_silent(id)?.keeper_silent,
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
    let needs_someone = session.turns.hold.as_ref().is_some_and(berth_core::Hold::needs_someone);
    Ok(TurnLook { view, needs_someone, keeper })
}

/// The exit code a turn stands for.
pub fn exit_code(view: &TurnView) -> u8 {
    match view.state {
        TurnState::Done => 0,
        TurnState::Failed => Code::Refused.exit_code(),
        TurnState::Cancelled => 8,
        TurnState::Interrupted => 9,
        TurnState::Unknown => 10,
        TurnState::Queued | TurnState::Delivered | TurnState::Working => Code::Held.exit_code(),
    }
}

/// Whether something can be said at all, before anything is made for it.
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

/// Sends a turn. Starts the session again if nobody keeps it.
pub fn send(
    ctx: &Ctx,
    id: &SessionId,
    mut submit: NewTurn,
) -> Result<(Option<Connection>, Receipt), Problem> {
    give_key(&mut submit)?;
    let asked_at = Instant::now();
    let mut pause = Duration::from_millis(1);
    let mut connection = ctx.keeper_of(id)?;
    loop {
        let refused = match &mut connection {
            Some(keeper) => match ask_in_time(keeper, Request::Send { submit: submit.clone() }) {
                Ok(Answer::Receipt { receipt }) => return Ok((connection, *receipt)),
                Ok(other) => return Err(odd(&other)),
                Err(problem) if problem.code == Code::Unreachable => unanswered(problem, &submit),
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
                    // Somebody else is doing the same, or the last keeper is still leaving.
                    Err(problem) if problem.may_pass() => problem,
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
    let what = format!("{}; the turn is withdrawn, unless it was accepted in that moment", problem.what);
    Problem::new(problem.code, what).hint(format!(
        "send the same text again with the key `{key}`: under one key a turn never runs twice; `berth why` tells \
         what the keeper does"
    ))
}

/// Gives a key to what has none: then every send can be repeated when its answer is lost.
fn give_key(submit: &mut NewTurn) -> Result<(), Problem> {
    if submit.key.is_none() {
        submit.key = Some(own_key()?);
    }
    Ok(())
}

/// Asks without waiting for ever: a keeper that is stopped does not answer, and asking again does no harm.
fn ask_in_time(keeper: &mut Connection, request: Request) -> Result<Answer, Problem> {
    let _ = keeper.set_patience(Some(accept_patience()));
    let answer = keeper.ask(request);
    let _ = keeper.set_patience(None);
    answer
}

/// Starts the next run of a session that has none.
pub(crate) fn begin_again(ctx: &Ctx, id: &SessionId) -> Result<Connection, Problem> {
    recover::heal(&ctx.home, id)?;
    ctx.may_start_again(id)?;
    free_conversation(ctx, id)?;
    // Whoever sends something has not asked for what was put away.
    let resume = Request::Resume {
        size: ctx.size.unwrap_or_default(),
        fresh: false,
        take: Take::Nobody,
        restore: false,
        interface: None,
    };
    start::keeper_with(&ctx.home, id, resume, ctx.asker(), &history::variables())
        .map(|(connection, _)| connection)
}

/// If whoever wrote a session's conversation last was another one, and lost its keeper, that is cleared up.
pub(crate) fn free_conversation(ctx: &Ctx, id: &SessionId) -> Result<(), Problem> {
    let session = view::history(&ctx.home, id)?.session;
    if let Some((spec, known)) = session.spec.as_ref().zip(session.conversation.as_ref()) {
        recover::heal_last_writer(&ctx.home, &spec.conversation, &known.id);
    }
    Ok(())
}

/// What can be said without starting anything: a no, or the receipt of a turn that was accepted before.
fn look_first(ctx: &Ctx, id: &SessionId, submit: &NewTurn) -> Result<Option<Receipt>, Problem> {
    let past = ctx.home.session(id).past_with_keys()?;
    let session = &past.history.session;
    if let Some(expected) = &submit.expected_session {
        turn::is_expected(session, id, expected)?;
    }
    let name = session.name.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
    let prompt = Prompt {
        by: Actor::default(),
        text: submit.text.clone(),
        key: submit.key.clone(),
        start_by: None,
        manner: submit.manner.into(),
        retry: None,
    };
    let decided = decide(session, Command::Send { prompt }, Now::default());
    let events = decided.map_err(|refusal| berth_api::problem::refusal(&refusal, &name))?;
    let known = submit.key.as_deref().and_then(|key| session.turns.keyed(key)).filter(|_| events.is_empty());
    let Some(number) = known else { return Ok(None) };
    let state = match session.turns.find(number) {
        TurnLookup::Here(turn) if turn.state.is_over() => turn.state.into(),
        TurnLookup::Past => past.turns(number, 1, 0)?.pop().map(|view| view.state).unwrap_or_default(),
        // One that waits needs its session to be started.
        TurnLookup::Here(_) | TurnLookup::Absent => return Ok(None),
    };
    Ok(Some(Receipt {
        turn: turn_id(id.as_str(), number),
        session: id.to_string(),
        number,
        state,
        repeated: true,
        ..Receipt::default()
    }))
}

/// What happens to a turn that is followed.
pub enum News<'a> {
    /// A piece of the answer.
    Said(&'a str),
    /// What the agent does.
    #[expect(missing_docs, reason = "as in `Notice::Doing`")]
    Doing { what: &'a str, detail: &'a str, tokens: Option<u64> },
    /// Something about it, or about what it waits for, happened.
    Event(&'a Event),
    /// Time passed.
    Tick,
}

impl News<'_> {
    /// Whether the agent gets this turn.
    pub fn begins(&self, number: u64) -> bool {
        matches!(self, Self::Event(Event::TurnDelivered { turn, .. }) if *turn == number)
    }
}

/// Whether whoever follows has heard enough.
pub type Heard = Result<bool, Problem>;

/// How often whoever follows is told that time passes.
const TICK: Duration = Duration::from_millis(200);

/// Follows a turn until it is over, or `hear` has heard enough, or `until` has come (then exit 6). If the
/// keeper dies on the way, the session is brought back: whoever waits for a turn has asked for it.
pub fn follow(
    ctx: &Ctx,
    id: &SessionId,
    number: u64,
    connection: Option<Connection>,
    until: Option<Instant>,
    mut hear: impl FnMut(News<'_>) -> Heard,
) -> Result<TurnView, Problem> {
    let mut cursor = ctx.session(id).turn_news(number, connection);
    let mut refused_since: Option<Instant> = None;
    // The turn, while it waits.
    let mut waiting: Option<String> = None;
    loop {
        let now = Instant::now();
        if until.is_some_and(|until| until <= now) {
            return Err(not_over(&turn_id(id.as_str(), number)));
        }
        let tick = now + TICK;
        let enough = match cursor.next(Some(until.map_or(tick, |until| until.min(tick)))) {
            None => hear(News::Tick)?,
            Some(cursor::News::Answer(Answer::Receipt { receipt })) if receipt.state.is_final() => true,
            Some(cursor::News::Answer(Answer::Receipt { receipt })) => {
                if let Some(held) = receipt.held.as_ref().filter(|_| !receipt.paused) {
                    return Err(held_problem(&receipt.turn, held));
                }
                waiting = receipt.position.map(|_| receipt.turn.clone());
                false
            }
            Some(cursor::News::Notice(Notice::Said { text, .. })) => hear(News::Said(&text))?,
            Some(cursor::News::Notice(Notice::Doing { what, detail, tokens, .. })) => {
                hear(News::Doing { what: &what, detail: &detail, tokens })?
            }
            Some(cursor::News::Event { entry, .. }) => {
                let is_end = matches!(&entry.event, Event::TurnEnded { turn, .. } if *turn == number);
                match (&entry.event, &waiting) {
                    (Event::TurnDelivered { turn, .. }, _) if *turn == number => waiting = None,
                    (Event::QueueHeld { hold }, Some(turn))
                        if berth_core::Hold::from(hold.clone()).needs_someone() =>
                    {
                        let session = split_turn_id(turn).map_or("S", |(session, _)| session);
                        return Err(held_problem(turn, &hold.describe(session)));
                    }
                    _ => {}
                }
                hear(News::Event(&entry.event))? || is_end
            }
            // It serves too many already: then we look now and then.
            Some(cursor::News::Refused(_)) => view(ctx, id, number)?.state.is_final(),
            Some(cursor::News::Trouble(problem)) => return Err(problem),
            Some(cursor::News::NoKeeper(_) | cursor::News::Purged(_)) => match bring_back(ctx, id, number)? {
                Brought::Over(view) => return Ok(*view),
                Brought::Kept(keeper) => {
                    cursor.go_on_with(keeper);
                    false
                }
                Brought::NotYet(problem) => {
                    if refused_since.get_or_insert_with(Instant::now).elapsed() > accept_patience() {
                        return Err(problem);
                    }
                    false
                }
            },
            Some(
                cursor::News::Connected(_)
                | cursor::News::Answer(_)
                | cursor::News::Notice(_)
                | cursor::News::Silent
                | cursor::News::Lost,
            ) => false,
        };
        if enough {
            return view(ctx, id, number);
        }
    }
}

/// What there is of a turn that is waited for.
pub enum Brought {
    /// Its end.
    Over(Box<TurnView>),
    /// A keeper to hear it from.
    Kept(Connection),
    /// Neither at this moment: somebody else brings the session back, or its last keeper is still leaving.
    NotYet(Problem),
}

/// Sees to it that a turn can be waited for: whoever waits for it has asked for its session to go on, unless
/// somebody stopped it or something holds its queue.
pub fn bring_back(ctx: &Ctx, id: &SessionId, number: u64) -> Result<Brought, Problem> {
    bring_back_from(ctx, id, number, look(ctx, id, number)?)
}

fn bring_back_from(ctx: &Ctx, id: &SessionId, number: u64, look: TurnLook) -> Result<Brought, Problem> {
    let TurnLook { view: known, keeper, .. } = look;
    if known.state.is_final() {
        return Ok(Brought::Over(Box::new(known)));
    }
    if let Some(keeper) = keeper.map_or_else(|| ctx.keeper_of(id), |keeper| Ok(Some(keeper)))? {
        return Ok(Brought::Kept(keeper));
    }
    let session = view::history(&ctx.home, id)?.session;
    if let Some(by) = session.stopped_by.clone().filter(|_| !session.is_live()) {
        let turn = turn_id(id.as_str(), number);
        return Err(Problem::new(
            Code::Held,
            format!("the session was stopped by {}; turn {turn} is {}", by.place, known.state),
        )
        .hint(format!("`berth resume {id}` goes on with what waits")));
    }
    if let Some(held) = &known.held {
        return Err(held_problem(&known.turn, held));
    }
    match begin_again(ctx, id) {
        Ok(keeper) => Ok(Brought::Kept(keeper)),
        Err(problem) if problem.may_pass() => Ok(Brought::NotYet(problem)),
        Err(problem) => Err(problem),
    }
}

/// Where a turn stands that somebody waits for.
pub enum Standing {
    /// It is over.
    Over(Box<TurnView>),
    /// It will be: a keeper has it.
    Coming(Box<TurnView>),
    /// It cannot begin by itself.
    Held(Problem),
    /// Nobody keeps the session at this moment; asking again in a moment tells more.
    NotYet(Problem),
}

/// Looks where a turn stands. Whoever may start something brings its session back, if that is what it waits for.
pub fn standing(ctx: &Ctx, id: &SessionId, number: u64, may_start: bool) -> Result<Standing, Problem> {
    let known = look(ctx, id, number)?;
    if known.view.state.is_final() {
        return Ok(Standing::Over(Box::new(known.view)));
    }
    if known.keeper.is_some() {
        return Ok(going_on(known));
    }
    if !may_start && ctx.keeper_of(id)?.is_none() {
        let TurnView { turn, state, .. } = known.view;
        let what = format!("the session is not running at this moment; turn {turn} is {state}");
        let hint = format!("`berth resume {id}` goes on with what waits, and so does the next `berth send`");
        return Ok(Standing::Held(Problem::new(Code::Held, what).hint(hint)));
    }
    match bring_back_from(ctx, id, number, known) {
        Ok(Brought::Over(view)) => Ok(Standing::Over(view)),
        Ok(Brought::NotYet(problem)) => Ok(Standing::NotYet(problem)),
        Ok(Brought::Kept(_)) => Ok(going_on(look(ctx, id, number)?)),
        Err(problem) if problem.code == Code::Held => Ok(Standing::Held(problem)),
        Err(problem) => Err(problem),
    }
}

/// Where a turn stands whose session has a keeper.
fn going_on(TurnLook { view, needs_someone, .. }: TurnLook) -> Standing {
    match &view.held {
        _ if view.state.is_final() => Standing::Over(Box::new(view)),
        Some(held) if needs_someone => Standing::Held(held_problem(&view.turn, held)),
        Some(_) | None => Standing::Coming(Box::new(view)),
    }
}

/// How long it may take until a turn that is to be broken off is over: the agent is asked, then its run is ended.
pub const CANCEL_TAKES: Duration =
    Duration::from_secs(CANCEL_PATIENCE.as_secs() + RELEASE_GRACE.as_secs() + END_PATIENCE.as_secs());
/// How long the end of a run may take that is ended because its agent does not heed.
const END_PATIENCE: Duration = Duration::from_secs(15);

/// Withdraws a turn, or asks the agent to break it off. It may be over only later.
pub fn cancel(ctx: &Ctx, id: &SessionId, number: u64) -> Result<TurnView, Problem> {
    view(ctx, id, number)?;
    let command = Command::Cancel { turn: number, by: ctx.me() };
    change(ctx, id, Request::Cancel { turn: number }, command)?;
    view(ctx, id, number)
}

/// A turn that did not begin in time and was withdrawn for that.
pub fn withdrawn(view: &TurnView) -> Option<Problem> {
    let is_late = view.reason.as_deref().is_some_and(|why| why.starts_with("withdrawn: "));
    let never_began =
        view.state == TurnState::Cancelled && view.delivered_at.is_none() && view.cancelled_by.is_none();
    (never_began && is_late).then(|| {
        let why = view.reason.clone().unwrap_or_default();
        Problem::new(Code::TimedOut, format!("turn {} did not begin and will not: {why}", view.turn))
            .hint("nothing was sent to the agent; send it again, with another key, when it has less to do")
    })
}

fn not_over(turn: &str) -> Problem {
    Problem::new(Code::TimedOut, format!("turn {turn} is not over yet"))
        .hint(format!("it goes on; `berth wait {turn}` waits for it, `berth cancel {turn}` ends it"))
}

/// A turn that is accepted and cannot begin by itself.
fn held_problem(turn: &str, held: &str) -> Problem {
    Problem::new(Code::Held, format!("turn {turn} is accepted, and waits: {held}"))
        .hint(format!("it stays in the queue; `berth cancel {turn}` withdraws it"))
}

/// A key that nobody is shown.
pub fn own_key() -> Result<String, Problem> {
    Ok(random()?.iter().fold(OWN_KEY.to_owned(), |key, byte| format!("{key}{byte:02x}")))
}

/// A new id for a conversation.
pub fn uuid() -> Result<String, Problem> {
    Ok(berth_host::uuid(random()?))
}

fn random() -> Result<[u8; 16], Problem> {
    let mut bytes = [0; 16];
    berth_host::random_bytes(&mut bytes)
        .map_err(|error| Problem::new(Code::Refused, format!("cannot get random bytes: {error}")))?;
    Ok(bytes)
}

/// An answer to another question.
pub fn odd(answer: &Answer) -> Problem {
    Problem::new(Code::Bug, format!("the keeper gave an odd answer: {answer:?}"))
}

/// Does one thing to a session's turns: through its keeper, or, if nobody keeps it, as its keeper for that
/// moment.
pub fn change(ctx: &Ctx, id: &SessionId, request: Request, command: Command) -> Result<(), Problem> {
    ctx.may(callers::deed_of(&request), id)?;
    if ctx.ask(id, request)?.is_some() {
        return Ok(());
    }
    recover::heal(&ctx.home, id)?;
    recover::with_lease(&ctx.home, id, command)
}
