//! A turn in lines: the answer on standard output, and what the agent does and asks on standard error.
//!
//! Promise: a question takes an answer only after its reading time; an answer that was not whole is called that.
//! Not here: the turn itself (see `berth_verbs::turns`). Start with [`watch_turn`].

use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal};
use std::time::{Duration, Instant};

use berth_api::message::KeeperRequest;
use berth_api::record::{AgentInterface, Event};
use berth_api::turn::{AgentQuestion, QuestionReply, QueueHold, TurnView, turn_id};
use berth_api::{KeeperConnection, Problem, TurnState};
use berth_core::SessionId;
use berth_store::killpoint;
use berth_verbs::VerbContext;
use berth_verbs::answer::QuestionId;
use berth_verbs::turns::{self, FollowResult, TurnNews};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{QueueSelector, tcflush};

use crate::reading_time::ReadingTime;
use crate::safe_text::{SafeText, TextStyle};
use crate::{print, question_replies, tty};

/// How long a turn that is next may wait for its agent until the user is told where to look.
const DELAY_NOTED_AFTER: Duration = Duration::from_secs(10);

/// Follows a turn to its end, shows it, and gives its exit code.
pub fn watch_turn(
    ctx: &VerbContext,
    id: &SessionId,
    number: u64,
    connection: Option<KeeperConnection>,
    json: bool,
) -> Result<u8, Problem> {
    let mut shown = TurnPrinter::new(json, id);
    let view = turns::follow(ctx, id, number, connection, None, |news| {
        match &news {
            TurnNews::Event(Event::QuestionAsked { ask }) if shown.asks => shown.ask(ask),
            TurnNews::Event(Event::Answered { request, reply, by }) => {
                shown.unask(request, &format!("answered by {}: {reply}", by.place));
            }
            TurnNews::Event(Event::TurnDelivered { epoch, .. }) => shown.epoch = Some(*epoch),
            TurnNews::Event(Event::QuestionWithdrawn { request }) => {
                shown.unask(request, "the agent no longer asks")
            }
            _ => {}
        }
        if matches!(news, TurnNews::Tick) {
            shown.note_delay(ctx, id, number);
        }
        shown.answer(ctx, id);
        shown.hear(&news)
    });
    shown.clear();
    shown.end_questions();
    let view = view?;
    if view.state == TurnState::Cancelled && view.delivered_at.is_none() && view.cancelled_by.is_none() {
        if json {
            print::json(&view)?;
        }
        return turns::turn_withdrawn_problem(&view).map_or(Ok(turns::exit_code(&view)), Err);
    }
    if json {
        print::json(&view)?;
        return Ok(turns::exit_code(&view));
    }
    shown.finish(&view)?;
    Ok(turns::exit_code(&view))
}

/// The part of an answer that is still to be printed after `said`, with the gap to print before it.
pub fn unprinted_rest<'a>(said: &str, answer: &'a str, cut: bool) -> (&'static str, &'a str) {
    // The answer contains text that came while this client had no connection. It lacks messages from before the answer.
    match answer.strip_prefix(said) {
        Some(rest) => ("", rest),
        None if cut && said.starts_with(answer) => ("", ""),
        None if said.trim_end().ends_with(answer.trim_end()) => ("", ""),
        None => ("\n\n", answer),
    }
}

/// Prints a note if only the beginning of an answer is kept.
pub fn note_cut(view: &TurnView) {
    if view.cut {
        let from = view.output_from.unwrap_or_default();
        let session = &view.session;
        print::note(&format!(
            "only the beginning of the answer is kept; `berth output {session} --from {from}` prints all of it"
        ));
    }
}

/// A turn on the screen: the answer on standard output, activity and questions on standard error.
struct TurnPrinter {
    session: String,
    json: bool,
    /// True if a user is at the terminal, to answer questions.
    asks: bool,
    /// True on a terminal: the agent's activity is painted on a line of its own.
    live: bool,
    line: bool,
    since: Instant,
    doing: String,
    tokens: Option<u64>,
    /// The part of the answer that was printed.
    said: String,
    /// Open questions of the agent; the first one is on the screen.
    questions: VecDeque<AgentQuestion>,
    /// The reading time of the first question, until its prompt is shown.
    reading: Option<ReadingTime>,
    /// The run of the questions; `None` until an event names it.
    epoch: Option<u64>,
    /// When the turn was first seen to be next and not taken.
    next_since: Option<Instant>,
    is_delay_noted: bool,
}

impl TurnPrinter {
    fn new(json: bool, session: &SessionId) -> Self {
        let live = print::is_error_terminal() && !json;
        let (since, doing) = (Instant::now(), "waiting".to_owned());
        let asks = live && std::io::stdin().is_terminal();
        Self {
            session: session.to_string(),
            json,
            asks,
            live,
            line: false,
            since,
            doing,
            tokens: None,
            said: String::new(),
            questions: VecDeque::new(),
            reading: None,
            epoch: None,
            next_since: None,
            is_delay_noted: false,
        }
    }

    fn hear(&mut self, news: &TurnNews<'_>) -> FollowResult {
        match news {
            TurnNews::Said(text) if !self.json => {
                self.clear();
                print::text(text)?;
                self.said.push_str(text);
            }
            TurnNews::Doing { activity, detail, tokens } => {
                self.tokens = tokens.or(self.tokens);
                let detail = print::first_words(detail, 60);
                self.doing =
                    if detail.is_empty() { (*activity).to_owned() } else { format!("{activity}: {detail}") };
                self.paint();
            }
            TurnNews::Event(Event::QuestionAsked { .. }) if self.asks => {}
            TurnNews::Event(Event::QuestionAsked { ask }) => self.note(&format!(
                "needs you ({0}): {1}: {2} — answer with `berth answer {3} {4} --request {0}`",
                QuestionId::new(self.epoch, &ask.request),
                ask.tool,
                print::first_words(&ask.detail, 200),
                self.session,
                ask.options.iter().map(|option| option.id.as_str()).collect::<Vec<_>>().join("|"),
            )),
            TurnNews::Event(Event::QueueHeld { hold: QueueHold::Paused(by) }) => {
                self.note(&format!("the turn waits: the queue was paused by {}", by.place));
            }
            TurnNews::Said(_) | TurnNews::Event(_) => {}
            TurnNews::Tick => self.paint(),
        }
        Ok(false)
    }

    /// Says once where to look if the turn has been next for some time, nothing holds it, and an agent in a terminal does
    /// not take it: it may be asking there whether it may start.
    fn note_delay(&mut self, ctx: &VerbContext, id: &SessionId, number: u64) {
        if self.epoch.is_some() || self.is_delay_noted {
            return;
        }
        let Ok(status) = ctx.session(id).status() else { return };
        let turn = turn_id(&self.session, number);
        let is_next = status.interface == Some(AgentInterface::Terminal)
            && status.turns.as_ref().is_some_and(|turns| {
                turns.current.is_none() && turns.held.is_none() && turns.queued.first() == Some(&turn)
            });
        if !is_next {
            self.next_since = None;
            return;
        }
        let since = *self.next_since.get_or_insert_with(Instant::now);
        if since.elapsed() < killpoint::patience("BERTH_NOTE_DELAY_MS", DELAY_NOTED_AFTER) {
            return;
        }
        self.is_delay_noted = true;
        let handle = status.handle();
        self.note(&format!(
            "the agent does not take the turn yet; it may be asking something on its screen: `berth attach {handle}`"
        ));
    }

    /// Adds a question of the agent. The user is asked one question at a time.
    fn ask(&mut self, ask: &AgentQuestion) {
        if self.questions.iter().any(|known| known.request == ask.request) {
            return;
        }
        self.questions.push_back(ask.clone());
        if self.questions.len() == 1 {
            self.show_question();
        }
    }

    fn show_question(&mut self) {
        self.clear();
        let Some(ask) = self.questions.front() else { return };
        print::note(&format!("{} {}", question_replies::question_headline(ask), ask.detail));
        self.reading = Some(ReadingTime::begin(self.since.elapsed()));
    }

    /// Prompts for an answer once the reading time is over. Earlier input is discarded: it was not meant as an answer.
    fn prompt(&mut self) {
        let Some(ask) = self.questions.front() else { return };
        if self.reading.is_none_or(|reading| !reading.is_over(self.since.elapsed())) {
            return;
        }
        self.reading = None;
        let _ = tcflush(stdin(), QueueSelector::IFlush);
        let options: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
        print::prompt(&format!("answer ({}): ", options.join(", ")));
    }

    /// Removes a question that was answered elsewhere, or that the agent no longer asks.
    fn unask(&mut self, request: &str, why: &str) {
        let Some(at) = self.questions.iter().position(|ask| ask.request == request) else { return };
        self.questions.remove(at);
        if at == 0 {
            print::note(&format!("\n{why}"));
            self.show_question();
        }
    }

    /// Takes the answer if the user has typed one. After an empty line the question stays open, for another client.
    fn answer(&mut self, ctx: &VerbContext, id: &SessionId) {
        self.prompt();
        if self.reading.is_some() {
            return;
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut input = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
        let has_typed =
            !self.questions.is_empty() && poll(&mut input, Some(&at_once)).is_ok_and(|ready| ready > 0);
        if !has_typed {
            return;
        }
        let Some(ask) = self.questions.pop_front() else { return };
        let mut line = String::new();
        let _ = std::io::stdin().lock().read_line(&mut line);
        let reply = match line.trim() {
            "" => {
                let options: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
                let (options, request) = (options.join("|"), QuestionId::new(self.epoch, &ask.request));
                print::note(&format!("not answered; `berth answer {id} {options} --request {request}` does"));
                return self.show_question();
            }
            "y" | "yes" | "allow" => QuestionReply::Allow,
            "n" | "no" | "deny" => QuestionReply::DENY,
            line => typed(&ask, line),
        };
        let request =
            KeeperRequest::AnswerAsk { request: Some(ask.request.clone()), reply, epoch: self.epoch };
        // Another client may have answered meanwhile; after an answer that does not fit the question stays open.
        if let Err(problem) = ctx.ask(id, request) {
            print::problem(&problem);
        }
        self.show_question();
    }

    /// Drops the questions of a turn that is over.
    fn end_questions(&mut self) {
        if !std::mem::take(&mut self.questions).is_empty() {
            print::note("");
        }
    }

    fn note(&mut self, text: &str) {
        self.clear();
        print::note(text);
    }

    fn paint(&mut self) {
        // The activity must not be painted into a line of the answer, nor over a question.
        if !self.live || !(self.said.is_empty() || self.said.ends_with('\n')) || !self.questions.is_empty() {
            return;
        }
        let width = tty::terminal_size().map_or(80, |size| usize::from(size.cols));
        let elapsed = self.since.elapsed().as_secs();
        let tokens = self.tokens.map(|tokens| format!(" · {tokens} tokens")).unwrap_or_default();
        let text =
            print::first_words(&format!("{} · {elapsed} s{tokens}", self.doing), width.saturating_sub(3));
        print::overwrite_line(&SafeText::painted(TextStyle::Dim, format!("· {text}"), true));
        self.line = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.line) {
            print::overwrite_line("");
        }
    }

    fn finish(&mut self, view: &TurnView) -> Result<(), Problem> {
        let (gap, rest) = unprinted_rest(&self.said, view.answer.as_deref().unwrap_or_default(), view.cut);
        print::text(gap)?;
        print::text(rest)?;
        let printed = if rest.is_empty() { self.said.as_str() } else { rest };
        if !printed.is_empty() && !printed.ends_with('\n') {
            print::text("\n")?;
        }
        note_cut(view);
        if view.state != TurnState::Done {
            let why = view.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            print::note(&format!("turn {} {}{why}", view.turn, view.state));
        }
        Ok(())
    }
}

/// The answer that a typed line gives to a question.
fn typed(ask: &AgentQuestion, line: &str) -> QuestionReply {
    let is_option = |word: &str| ask.options.iter().any(|option| option.id == word);
    let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    match line.split_once(' ') {
        _ if is_option(line) => QuestionReply::option(line),
        Some(("n" | "no" | "deny", reason)) => QuestionReply::Deny { reason: Some(reason.trim().to_owned()) },
        _ if ask.several && words.iter().all(|word| is_option(word)) => {
            QuestionReply::Options { ids: words.into_iter().map(str::to_owned).collect(), text: None }
        }
        _ if ask.takes_text => QuestionReply::Options { ids: vec![], text: Some(line.to_owned()) },
        _ => QuestionReply::option(line),
    }
}
