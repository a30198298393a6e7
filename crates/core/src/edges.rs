//! Turn edges of an agent in a terminal: when it began, asked and ended, as its hooks told.
//!
//! Promise: what a hook tells of a turn of ours counts only if the prompt it names is that turn's, and the turn was
//! given and not over. A turn is `done` without a remark only if the agent's own record has its end. Text that a person
//! typed there is not a turn of ours, and only makes the agent busy. A run whose agent tells nothing is as it was without
//! hooks.
//! Not here: whether a hook is the run's own agent's (the keeper proves that), typing and the screen (the keeper's
//! `edges`).
//! Start with [`told`]; [`Edges`] is what is known.

use crate::turns::{self, Ask, AskKind, AskOption, Final, Hold, MOST_ASKS, TurnEnd, TurnState};
use crate::{Able, Epoch, Event, Now, Phase, Session, TerminalTraits};

/// How many prompts that were typed while the agent worked are counted.
const MOST_AHEAD: u32 = 1000;
/// How much of what an agent asks is kept, in bytes.
const MAX_ASKED_BYTES: usize = 4096;

/// What stands between a tool and what it is to do.
const TOOL_ENDS: &str = ": ";
/// The reason of an end that is not proven.
const TOLD_BY_HOOK: &str = "told by a hook, not in the agent's own record";

/// What stands for the tool where an agent did not name one.
const ON_SCREEN: &str = "on its screen";

/// What is known of an agent in a terminal that tells its edges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Edges {
    /// Whether it works.
    pub working: bool,
    /// How many prompts it was given while it worked: it goes on with them by itself.
    pub ahead: u32,
    /// How many ends of what it was given before come before the end of the turn it has.
    pub before: u32,
    /// What told so last; `None` before the first.
    pub last: Option<Edge>,
}

/// Something that changes whether an agent in a terminal works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// It has a prompt.
    Prompt,
    /// It uses a tool.
    Tool,
    /// It ended its turn.
    Stopped,
    /// It was made to break off.
    Interrupted,
    /// It says of itself that it has nothing to do, without having told when that began.
    Quiet,
}

impl Edge {
    /// The word people see.
    pub fn word(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Tool => "tool",
            Self::Stopped => "stop",
            Self::Interrupted => "interrupt",
            Self::Quiet => "quiet",
        }
    }
}

/// What the agent's own record says of an end that a hook told. Every tool of the agent can call its hooks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndProof {
    /// The record has that end.
    Recorded,
    /// There is no record, or the turn cannot be found in it: the hook is all there is.
    HookOnly,
    /// The record has the turn, and not its end.
    Contradicted,
}

/// What an agent in a terminal told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// It is there and takes prompts.
    Started,
    /// It has a prompt, and begins.
    Prompt {
        /** What. */
        text: String,
    },
    /// It uses a tool.
    Tool,
    /// Its own list says that it works again after it asked: the dialogs on its screen are answered.
    GoesOn,
    /// It waits for somebody at its terminal.
    NeedsYou {
        /** What makes this question known again. */
        request: String,
        /** About what. */
        what: String,
        /** Whether its hook waits, so that it can be answered from elsewhere as well. */
        answerable: bool,
    },
    /// The hook of a question waits no longer: only somebody at its terminal can answer.
    HookLeft {
        /** Which question. */
        request: String,
    },
    /// It ended its turn.
    Stopped {
        /** What it said last, if it told. */
        answer: Option<String>,
        /** Whether that is only the beginning. */
        cut: bool,
        /** The proof of the end. */
        proof: EndProof,
    },
    /// It was made to break off.
    Interrupted,
    /// It says of itself that it has nothing to do.
    Quiet {
        /** What its own record says of the turn it had. */
        end: Option<TurnEnd>,
    },
}

impl Edges {
    /// `joins`: what is typed while it works goes into the turn it has, and gets no end of its own.
    pub(crate) fn apply(&mut self, edge: Edge, joins: bool) {
        match edge {
            Edge::Prompt if self.working && !joins => self.ahead = (self.ahead + 1).min(MOST_AHEAD),
            Edge::Prompt | Edge::Tool => self.working = true,
            Edge::Stopped if self.ahead > 0 => {
                (self.ahead, self.before) = (self.ahead - 1, self.before.saturating_sub(1));
            }
            Edge::Stopped | Edge::Interrupted | Edge::Quiet => {
                (self.working, self.ahead, self.before) = (false, 0, 0);
            }
        }
        self.last = Some(edge);
    }

    /// Its last prompt was a turn of ours: what it has ahead ends first.
    pub(crate) fn turn_began(&mut self) {
        self.before = self.ahead;
    }
}

impl Session {
    /// Whether its agent has a terminal, whether or not it tells anything.
    pub fn has_terminal(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| !spec.takes_turns())
    }

    /// Whether its agent takes what is typed while it works into the turn it has.
    pub(crate) fn joins_prompts(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.terminal.joins_prompts)
    }

    /// Whether its agent has a terminal and can be given a turn in it now.
    pub(crate) fn is_free(&self) -> bool {
        !self.has_terminal() || (self.edges.is_some_and(|edges| !edges.working) && !self.asks_on_screen())
    }

    /// Whether the agent in its terminal waits for somebody there.
    pub fn asks_on_screen(&self) -> bool {
        self.has_terminal() && !self.turns.asks.is_empty()
    }
}

/// The run's agent will tell its edges: it was started with our hooks.
pub(crate) fn hooks_carried(session: &Session, epoch: Epoch) -> Vec<Event> {
    let is_news = epoch == session.epoch && session.has_terminal() && !session.tells;
    if is_news { vec![Event::HooksCarried { epoch }] } else { vec![] }
}

/// What follows from what an agent in a terminal told.
pub(crate) fn told(session: &Session, epoch: Epoch, told: &Told, now: Now) -> Vec<Event> {
    let runs = match session.phase {
        Phase::Starting | Phase::Running { .. } => true,
        Phase::New | Phase::Ending(_) | Phase::Ended { .. } => false,
    };
    if epoch != session.epoch || !session.has_terminal() || !runs {
        return vec![];
    }
    let mut events = Vec::new();
    // Some agents tell only of ends where nobody trusted their hooks. What does not tell of beginnings cannot confirm
    // that it has a turn, and is as one that tells nothing.
    let tells_beginnings = match told {
        Told::Started | Told::Prompt { .. } => true,
        Told::Tool
        | Told::GoesOn
        | Told::NeedsYou { .. }
        | Told::HookLeft { .. }
        | Told::Stopped { .. }
        | Told::Interrupted
        | Told::Quiet { .. } => false,
    };
    if session.edges.is_none() && !tells_beginnings {
        return vec![];
    }
    if session.edges.is_none() {
        // It cannot take text into a turn that runs, and it is never ended for having nothing to do: somebody may
        // be about to type.
        let able = Able { steer: false, resume: false };
        events.push(Event::AgentReady { epoch, able, at_boot_ms: now.boot_ms });
    }
    match told {
        Told::Started => {}
        Told::Prompt { text } => {
            unask(session, &mut events);
            events.push(edge(session, Edge::Prompt));
            events.extend(prompted(session, text, now));
            events.extend(draft_gone(session));
        }
        Told::Tool => {
            // Another tool or sub-agent may have asked and still wait. A question whose hook waits ends with that hook.
            let on_screen = session.turns.asks.iter().filter(|ask| !ask.is_answerable());
            let closed: Vec<Event> = on_screen.map(unasked).collect();
            let is_news = !session.edges.is_some_and(|edges| edges.working) || !closed.is_empty();
            events.extend(closed);
            events.extend(is_news.then(|| edge(session, Edge::Tool)));
        }
        Told::GoesOn => {
            if session.asks_on_screen() {
                unask(session, &mut events);
                events.push(edge(session, Edge::Tool));
            }
        }
        Told::NeedsYou { request, what, answerable } => {
            let works = session.edges.is_some_and(|edges| edges.working);
            let names_tool = what.contains(TOOL_ENDS);
            // Who wants to use a tool works. A reminder that came late is about nothing any more.
            events.extend((!works && names_tool).then(|| edge(session, Edge::Tool)));
            if works || names_tool {
                events.extend(asked(session, request, what, *answerable));
            }
        }
        Told::HookLeft { request } => events.extend(hook_left(session, request)),
        Told::Stopped { answer, cut, proof } => {
            unask(session, &mut events);
            let is_news = session.edges.is_none_or(|edges| edges.working);
            events.extend(is_news.then(|| edge(session, Edge::Stopped)));
            let done = |reason: Option<&str>| TurnEnd {
                answer: answer.clone().unwrap_or_default(),
                cut: *cut,
                reason: reason.map(str::to_owned),
                ..TurnEnd::without_answer(Final::Done, "")
            };
            let end = match proof {
                EndProof::Recorded => done(None),
                EndProof::HookOnly => done(Some(TOLD_BY_HOOK)),
                // The answer that came with the hook is not proven to be the agent's either.
                EndProof::Contradicted => TurnEnd::without_answer(Final::Unknown, TOLD_BY_HOOK),
            };
            // Of what it was given before ours it tells the end as well.
            let is_its_own = session.edges.is_none_or(|edges| edges.before == 0);
            events.extend(is_its_own.then(|| over(session, end, now)).into_iter().flatten());
        }
        Told::Interrupted => {
            unask(session, &mut events);
            let is_news = session.edges.is_none_or(|edges| edges.working);
            events.extend(is_news.then(|| edge(session, Edge::Interrupted)));
            let end = TurnEnd::without_answer(Final::Interrupted, "it was interrupted at its terminal");
            events.extend(over(session, end, now));
        }
        Told::Quiet { end } => {
            if session.edges.is_some_and(|edges| edges.working) {
                unask(session, &mut events);
                events.push(edge(session, Edge::Quiet));
                let unproven = || {
                    let reason =
                        "the agent has nothing to do any more, and nothing tells whether it had finished";
                    TurnEnd::without_answer(Final::Unknown, reason)
                };
                events.extend(over(session, end.clone().unwrap_or_else(unproven), now));
            }
        }
    }
    events
}

/// An agent was to break off and did not say whether it did. Nobody knows whether it works; what waits is not typed
/// until somebody has looked.
pub(crate) fn break_unconfirmed(session: &Session, turn: u64, now: Now) -> Vec<Event> {
    let mut events = vec![];
    unask(session, &mut events);
    if session.edges.is_some_and(|edges| edges.working) {
        events.push(edge(session, Edge::Quiet));
    }
    let reason = "it was to be interrupted, and the agent did not confirm that";
    events.extend(turns::turn_over(session, turn, TurnEnd::without_answer(Final::Unknown, reason), now));
    let is_held = events.iter().any(|event| matches!(event, Event::QueueHeld { .. }));
    if session.turns.hold.is_none() && !is_held {
        events.push(Event::QueueHeld { hold: Hold::Unknown { turn } });
    }
    events
}

/// What was typed into the terminal is not waiting there any more.
pub(crate) fn draft_gone(session: &Session) -> Vec<Event> {
    match &session.turns.hold {
        Some(Hold::Draft) => {
            let by = crate::Actor {
                place: "the terminal: what was typed is gone".to_owned(),
                ..Default::default()
            };
            vec![Event::QueueResumed { by }]
        }
        Some(
            Hold::Paused { .. }
            | Hold::Unknown { .. }
            | Hold::ForeignWriter { .. }
            | Hold::AgentFailed { .. }
            | Hold::ModelFailed { .. }
            | Hold::Retrying { .. },
        )
        | None => vec![],
    }
}

fn edge(session: &Session, edge: Edge) -> Event {
    Event::EdgeSeen { epoch: session.epoch, edge }
}

fn unask(session: &Session, events: &mut Vec<Event>) {
    events.extend(session.turns.asks.iter().map(unasked));
}

fn unasked(ask: &Ask) -> Event {
    Event::Unasked { request: ask.request.clone() }
}

/// A question on the screen. Agents tell of one twice, in other words: while one waits, another is the same unless it
/// says more. One whose hook waits stays beside others: each has an answer of its own.
fn asked(session: &Session, request: &str, what: &str, answerable: bool) -> Vec<Event> {
    let mut detail = what.to_owned();
    detail.truncate(detail.floor_char_boundary(MAX_ASKED_BYTES));
    let (tool, detail, says_more) = match detail.split_once(TOOL_ENDS) {
        Some((tool, detail)) => (tool.to_owned(), detail.to_owned(), true),
        None => (ON_SCREEN.to_owned(), detail, false),
    };
    let waiting = &session.turns.asks;
    let is_known = waiting.iter().any(|ask| ask.tool == tool && ask.detail == detail);
    if is_known || (!says_more && !waiting.is_empty()) || waiting.len() >= MOST_ASKS {
        return vec![];
    }
    let before = waiting.iter().filter(|ask| !ask.is_answerable());
    let before = before.map(unasked);
    let options = if answerable { hook_options() } else { vec![] };
    let ask = Ask {
        request: request.to_owned(),
        tool,
        detail,
        options,
        takes_reason: answerable,
        ..Ask::default()
    };
    before.chain([Event::Asked { ask }]).collect()
}

/// What can be answered through a hook.
fn hook_options() -> Vec<AskOption> {
    let option = |id: &str, name: &str, kind| AskOption { id: id.to_owned(), name: name.to_owned(), kind };
    vec![option("allow", "Allow", AskKind::AllowOnce), option("deny", "Deny", AskKind::RejectOnce)]
}

/// The question waits on, at the terminal alone.
fn hook_left(session: &Session, request: &str) -> Vec<Event> {
    let mut waiting = session.turns.asks.iter();
    let Some(ask) = waiting.find(|ask| ask.request == request && ask.is_answerable()) else { return vec![] };
    let ask = Ask { options: vec![], takes_reason: false, ..ask.clone() };
    vec![Event::Unasked { request: request.to_owned() }, Event::Asked { ask }]
}

/// What a prompt means for the turn that was typed for somebody.
fn prompted(session: &Session, text: &str, now: Now) -> Vec<Event> {
    let Some(turn) = unconfirmed(session) else { return vec![] };
    let Some(sent) = session.turns.open(turn).map(|turn| turn.prompt.clone()) else { return vec![] };
    if is_same(&sent, text) {
        return turns::began(session, turn);
    }
    if !has_within(text, &sent) {
        return vec![];
    }
    let reason = "its text was joined with something else that was in the input box";
    turns::turn_over(session, turn, TurnEnd::without_answer(Final::Unknown, reason), now)
}

/// The turn that was typed and that the agent has not said it has.
fn unconfirmed(session: &Session) -> Option<u64> {
    let turn = session.turns.current.as_ref()?.turn;
    session.turns.open(turn).filter(|turn| turn.state == TurnState::Delivered).map(|_| turn)
}

/// The end of the turn the agent has, if it said that it has it.
fn over(session: &Session, end: TurnEnd, now: Now) -> Vec<Event> {
    let Some(current) = &session.turns.current else { return vec![] };
    match session.turns.open(current.turn).map(|turn| turn.state) {
        Some(TurnState::Working) => turns::turn_over(session, current.turn, end, now),
        Some(TurnState::Delivered | TurnState::Queued | TurnState::Over(_)) | None => vec![],
    }
}

/// Whether two texts are the same to somebody who types them: terminals turn tabs into blanks, line ends into others,
/// and drop what is at the end.
fn is_same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

fn has_within(text: &str, part: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let part = words(part);
    !part.is_empty() && words(text).contains(&part)
}

/// Whether this can be pasted into a terminal: nothing in it ends the paste or is a key.
pub(crate) fn can_be_pasted(text: &str) -> bool {
    text.chars().all(|letter| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t'))
}

/// The character that makes a command of the agent's interface out of this text, where it is typed into a terminal:
/// it would run at once, past whatever asks for leave.
pub(crate) fn commands_with(terminal: TerminalTraits, text: &str) -> Option<char> {
    // Interfaces trim more than what is white: what nobody sees at the beginning counts for nothing.
    let is_unseen = |letter: char| {
        letter.is_whitespace()
            || matches!(letter, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(letter, '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let first = text.trim_start_matches(is_unseen).chars().next();
    first.filter(|first| matches!(first, '!' | '/') || (*first == '#' && terminal.hash_makes_note))
}

#[cfg(test)]
mod tests;
