//! `berth send`: have something said to a session's agent, and show what comes of it.

use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal, Read};
use std::time::Instant;

use berth_api::message::Request;
use berth_api::record::Event;
use berth_api::turn::{Ask, Hold, Manner, NewTurn, Receipt, TurnView, Wish};
use berth_api::{Code, Connection, Problem, TurnState};
use berth_core::{MAX_PROMPT_BYTES, SessionId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{QueueSelector, tcflush};

use crate::args::Send;
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::reading::ReadingTime;
use crate::replies::QuestionId;
use crate::turns::{self, Heard, News};
use crate::visible::{Paint, Visible};
use crate::{print, replies, tty};

pub(crate) fn run(ctx: &Ctx, args: &Send) -> Result<u8, Problem> {
    let (Meant { id, .. }, words) = ctx.target_and(&args.session, &args.text, "what to say")?;
    let manner = match (args.steer, args.interrupt) {
        (true, _) => Manner::Steer,
        (_, true) => Manner::Interrupt,
        (false, false) => Manner::Queue,
    };
    let NewTurn { wait, max_wait_ms, key, .. } = &args.turn;
    let new = NewTurn { text: text(&words)?, manner, ..args.turn.clone() };
    let (connection, receipt) = turns::send(ctx, &id, new)?;
    let outcome = if *wait {
        watch(ctx, &id, receipt.number, connection, args.json)
    } else if max_wait_ms.is_some() && receipt.state == TurnState::Queued {
        until_begun(ctx, &id, &receipt, connection, args.json)
    } else {
        told(&receipt, args.json)
    };
    outcome.map_err(|problem| accepted(problem, &receipt, key.as_deref(), args.json))
}

/// Adds to a problem that the turn was accepted, so that its sender need not send it again to learn its id.
pub(crate) fn accepted(mut problem: Problem, receipt: &Receipt, key: Option<&str>, json: bool) -> Problem {
    let is_told = (json && problem.code != Code::TimedOut && print::json(receipt).is_ok())
        || problem.what.contains(&receipt.turn);
    if !is_told {
        let key = key.map(|key| format!(", with the key `{key}`")).unwrap_or_default();
        let Receipt { turn, session, .. } = receipt;
        problem.what.push_str(&format!("; turn {turn} of session {session} is accepted{key}"));
        if problem.hint.is_none() {
            problem = problem
                .hint(format!("`berth wait {turn}` waits for it, `berth result {turn}` shows the answer"));
        }
    }
    problem
}

fn told(receipt: &Receipt, json: bool) -> Result<u8, Problem> {
    if json {
        print::json(receipt)?;
        return Ok(0);
    }
    print::text(&format!("{}\n", receipt.turn))?;
    if let Some(held) = &receipt.held {
        print::note(&format!("it waits: {held}"));
    }
    Ok(0)
}

/// What is to be said: words, or standard input.
pub(crate) fn text(words: &[String]) -> Result<String, Problem> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know that it is too much.
    let read = std::io::stdin().lock().take(MAX_PROMPT_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Problem::new(Code::Refused, format!("cannot read standard input: {error}")))?;
    if bytes.len() > MAX_PROMPT_BYTES {
        return Err(Problem::new(
            Code::Usage,
            format!("the prompt on standard input has more than {MAX_PROMPT_BYTES} bytes; nothing was sent"),
        )
        .hint("put it into a file and name that in the prompt"));
    }
    String::from_utf8(bytes).map_err(|odd| {
        let at = odd.utf8_error().valid_up_to();
        Problem::new(
            Code::Usage,
            format!("the prompt on standard input is not UTF-8 (at byte {at}); nothing was sent"),
        )
    })
}

/// Waits until the agent has the turn, or it was withdrawn.
fn until_begun(
    ctx: &Ctx,
    id: &SessionId,
    receipt: &Receipt,
    connection: Option<Connection>,
    json: bool,
) -> Result<u8, Problem> {
    let number = receipt.number;
    let view = turns::follow(ctx, id, number, connection, None, |news| Ok(news.begins(number)))?;
    if view.state == TurnState::Cancelled && view.delivered_at.is_none() {
        return turns::withdrawn(&view).map_or(Ok(turns::exit_code(&view)), Err);
    }
    let receipt = Receipt { state: view.state, position: None, ..receipt.clone() };
    told(&receipt, json)
}

/// Follows a turn to its end, shows it, and gives its exit code.
pub(crate) fn watch(
    ctx: &Ctx,
    id: &SessionId,
    number: u64,
    connection: Option<Connection>,
    json: bool,
) -> Result<u8, Problem> {
    let mut shown = Shown::new(json, id);
    let view = turns::follow(ctx, id, number, connection, None, |news| {
        match &news {
            News::Event(Event::Asked { ask }) if shown.asks => shown.ask(ask),
            News::Event(Event::Answered { request, reply, by }) => {
                shown.unask(request, &format!("answered by {}: {reply}", by.place));
            }
            News::Event(Event::TurnDelivered { epoch, .. }) => shown.epoch = Some(*epoch),
            News::Event(Event::Unasked { request }) => shown.unask(request, "the agent no longer asks"),
            _ => {}
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
        return turns::withdrawn(&view).map_or(Ok(turns::exit_code(&view)), Err);
    }
    if json {
        print::json(&view)?;
        return Ok(turns::exit_code(&view));
    }
    shown.finish(&view)?;
    Ok(turns::exit_code(&view))
}

/// What is left to print of an answer when this was printed of it, and what to print before that.
pub(crate) fn rest_of<'a>(said: &str, answer: &'a str, cut: bool) -> (&'static str, &'a str) {
    // What came while nobody could listen is in the answer; what came before the answer is not.
    match answer.strip_prefix(said) {
        Some(rest) => ("", rest),
        None if cut && said.starts_with(answer) => ("", ""),
        None if said.trim_end().ends_with(answer.trim_end()) => ("", ""),
        None => ("\n\n", answer),
    }
}

/// Says that an answer is not whole.
pub(crate) fn note_cut(view: &TurnView) {
    if view.cut {
        let from = view.output_from.unwrap_or_default();
        let session = &view.session;
        print::note(&format!(
            "only its beginning is kept; all of it: `berth output {session} --from {from}`"
        ));
    }
}

/// What a person sees of a turn: the answer on standard output, the rest on standard error.
struct Shown {
    session: String,
    json: bool,
    /// A person is there to be asked.
    asks: bool,
    /// On a terminal: what the agent does now, on a line of its own that is painted over.
    live: bool,
    line: bool,
    since: Instant,
    doing: String,
    tokens: Option<u64>,
    /// What was printed of the answer.
    said: String,
    /// What the agent wants to know; the first one is on the screen.
    questions: VecDeque<Ask>,
    /// The reading time of the first question, until its prompt is shown.
    reading: Option<ReadingTime>,
    /// In which run they are asked, if that was heard.
    epoch: Option<u64>,
}

impl Shown {
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
        }
    }

    fn hear(&mut self, news: &News<'_>) -> Heard {
        match news {
            News::Said(text) if !self.json => {
                self.clear();
                print::text(text)?;
                self.said.push_str(text);
            }
            News::Doing { what, detail, tokens } => {
                self.tokens = tokens.or(self.tokens);
                let detail = print::excerpt(detail, 60);
                self.doing = if detail.is_empty() { (*what).to_owned() } else { format!("{what}: {detail}") };
                self.paint();
            }
            News::Event(Event::Asked { .. }) if self.asks => {}
            News::Event(Event::Asked { ask }) => self.note(&format!(
                "needs you ({0}): {1}: {2} — answer with `berth answer {3} {4} --request {0}`",
                QuestionId::new(self.epoch, &ask.request),
                ask.tool,
                print::excerpt(&ask.detail, 200),
                self.session,
                ask.options.iter().map(|option| option.id.as_str()).collect::<Vec<_>>().join("|"),
            )),
            News::Event(Event::QueueHeld { hold: Hold::Paused(by) }) => {
                self.note(&format!("it waits: the queue was paused by {}", by.place));
            }
            News::Said(_) | News::Event(_) => {}
            News::Tick => self.paint(),
        }
        Ok(false)
    }

    /// Asks the person what the agent asks, one thing at a time.
    fn ask(&mut self, ask: &Ask) {
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
        print::note(&format!("{} {}", replies::headline(ask), ask.detail));
        self.reading = Some(ReadingTime::begin(self.since.elapsed()));
    }

    /// Prompts for an answer once the reading time is over. Input that was typed before is discarded: it was meant for
    /// something else.
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

    /// Somebody has answered, or nobody needs to any more.
    fn unask(&mut self, request: &str, why: &str) {
        let Some(at) = self.questions.iter().position(|ask| ask.request == request) else { return };
        self.questions.remove(at);
        if at == 0 {
            print::note(&format!("\n{why}"));
            self.show_question();
        }
    }

    /// Takes the answer if the person has typed one. No answer is none: the question stays, for whoever knows.
    fn answer(&mut self, ctx: &Ctx, id: &SessionId) {
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
        let wish = match line.trim() {
            "" => {
                let options: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
                let (options, request) = (options.join("|"), QuestionId::new(self.epoch, &ask.request));
                print::note(&format!("not answered; `berth answer {id} {options} --request {request}` does"));
                return self.show_question();
            }
            "y" | "yes" | "allow" => Wish::Allow,
            "n" | "no" | "deny" => Wish::DENY,
            line => typed(&ask, line),
        };
        let request = Request::AnswerAsk { request: Some(ask.request.clone()), wish, epoch: self.epoch };
        // Somebody else may have answered meanwhile; an odd answer leaves the question where it is.
        if let Err(problem) = ctx.ask(id, request) {
            print::problem(&problem);
        }
        self.show_question();
    }

    /// The turn is over, and with it what it asked.
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
        // Not into the middle of a line of the answer, nor over a question.
        if !self.live || !(self.said.is_empty() || self.said.ends_with('\n')) || !self.questions.is_empty() {
            return;
        }
        let width = tty::size().map_or(80, |size| usize::from(size.cols));
        let elapsed = self.since.elapsed().as_secs();
        let tokens = self.tokens.map(|tokens| format!(" · {tokens} tokens")).unwrap_or_default();
        let text = print::excerpt(&format!("{} · {elapsed} s{tokens}", self.doing), width.saturating_sub(3));
        print::over_line(&Visible::painted(Paint::Dim, format!("· {text}"), true));
        self.line = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.line) {
            print::over_line("");
        }
    }

    fn finish(&mut self, view: &TurnView) -> Result<(), Problem> {
        let (gap, rest) = rest_of(&self.said, view.answer.as_deref().unwrap_or_default(), view.cut);
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

/// What a line means that a person typed as the answer to a question.
fn typed(ask: &Ask, line: &str) -> Wish {
    let is_option = |word: &str| ask.options.iter().any(|option| option.id == word);
    let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    match line.split_once(' ') {
        _ if is_option(line) => Wish::option(line),
        Some(("n" | "no" | "deny", reason)) => Wish::Deny { reason: Some(reason.trim().to_owned()) },
        _ if ask.several && words.iter().all(|word| is_option(word)) => {
            Wish::Options { ids: words.into_iter().map(str::to_owned).collect(), text: None }
        }
        _ if ask.takes_text => Wish::Options { ids: vec![], text: Some(line.to_owned()) },
        _ => Wish::option(line),
    }
}
