//! Turn edges of an agent in a terminal: the beginnings, questions and ends that its hooks report.
//!
//! Promise: a hook's report about one of our turns counts only if the prompt it names is that turn's, and the turn
//! was given to the agent and is not over. A turn is `done` without a remark only if the agent's transcript has its
//! end. Text that a person typed there is not one of our turns, and only makes the agent busy. A run without any
//! report behaves as if there were no hooks.
//! Not here: proving that a hook belongs to the run's own agent (the keeper does), typing and the screen (the
//! keeper's `edges`).
//! Start with [`terminal_report`]; [`TerminalActivity`] is the state.

use crate::turns::{
    self, AgentQuestion, FinalState, MOST_ASKS, QuestionOption, QuestionOptionKind, QueueHold, TurnEnd,
    TurnProgress,
};
use crate::{AgentCapabilities, ClockReading, Epoch, Event, RunPhase, Session, TerminalTraits};

/// Limit up to which prompts that were typed while the agent worked are counted.
const MOST_AHEAD: u32 = 1000;
/// Limit of the stored text of a question, in bytes.
const MAX_ASKED_BYTES: usize = 4096;

/// Separator between a tool and its command in the text of a question.
const TOOL_ENDS: &str = ": ";
/// Reason of an end that the agent's transcript does not prove.
const TOLD_BY_HOOK: &str = "reported only by a hook; the agent's transcript does not show it";

/// Stands for the tool in a question of an agent that did not name one.
const ON_SCREEN: &str = "on its screen";

/// State of an agent in a terminal that reports its turn edges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TerminalActivity {
    /// True if the agent works.
    pub working: bool,
    /// Number of prompts that the agent was given while it worked: it goes on with them by itself.
    pub ahead: u32,
    /// Number of ends of earlier prompts that come before the end of the turn it has.
    pub before: u32,
    /// Latest reported edge; `None` before the first.
    pub last: Option<ActivityChange>,
}

/// A report that changes whether an agent in a terminal works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActivityChange {
    /// The agent has a prompt.
    Prompt,
    /// The agent uses a tool.
    Tool,
    /// The agent ended its turn.
    Stopped,
    /// The turn was interrupted.
    Interrupted,
    /// The agent is idle by its own report, which did not say when that began.
    Quiet,
}

impl ActivityChange {
    /// Word that people see.
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

/// Proof that the agent's transcript gives for an end that a hook reported. Every tool of the agent can call its hooks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndProof {
    /// The record has that end.
    Recorded,
    /// There is no record, or the turn cannot be found in it: the hook is the only source.
    HookOnly,
    /// The record has the turn, but not its end.
    Contradicted,
}

/// A report of an agent in a terminal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TerminalReport {
    /// The agent is there and takes prompts.
    Started,
    /// The agent has a prompt, and begins.
    Prompt {
        /** Text of the prompt. */
        text: String,
    },
    /// The agent uses a tool.
    Tool,
    /// The agent's own list says that it works again after a question: the dialogs on its screen are answered.
    GoesOn,
    /// The agent waits for a user at its terminal.
    NeedsYou {
        /** Name of the question, for recognising it. */
        request: String,
        /** Subject of the question. */
        what: String,
        /** True if its hook waits, so that berth can answer as well. */
        answerable: bool,
    },
    /// The hook of a question no longer waits: only a user at the terminal can answer.
    HookLeft {
        /** Name of the question. */
        request: String,
    },
    /// The agent ended its turn.
    Stopped {
        /** Last message of the agent, if it was reported. */
        answer: Option<String>,
        /** True if `answer` is only the beginning. */
        cut: bool,
        /** The proof of the end. */
        proof: EndProof,
    },
    /// The turn was interrupted.
    Interrupted,
    /// The agent is idle by its own report.
    Quiet {
        /** End of its turn according to the agent's transcript. */
        end: Option<TurnEnd>,
    },
}

impl TerminalActivity {
    /// Applies an edge. `joins` is true if text that is typed while the agent works goes into the running turn, and
    /// gets no end of its own.
    pub(crate) fn apply(&mut self, edge: ActivityChange, joins: bool) {
        match edge {
            ActivityChange::Prompt if self.working && !joins => self.ahead = (self.ahead + 1).min(MOST_AHEAD),
            ActivityChange::Prompt | ActivityChange::Tool => self.working = true,
            ActivityChange::Stopped if self.ahead > 0 => {
                (self.ahead, self.before) = (self.ahead - 1, self.before.saturating_sub(1));
            }
            ActivityChange::Stopped | ActivityChange::Interrupted | ActivityChange::Quiet => {
                (self.working, self.ahead, self.before) = (false, 0, 0);
            }
        }
        self.last = Some(edge);
    }

    /// Counts the latest prompt as the start of our turn: the prompts ahead of it end first.
    pub(crate) fn turn_began(&mut self) {
        self.before = self.ahead;
    }
}

impl Session {
    /// True if the agent has a terminal, also if it reports nothing.
    pub fn has_terminal(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| !spec.takes_turns())
    }

    /// True if the agent takes text that is typed while it works into its running turn.
    pub(crate) fn joins_prompts(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.terminal.joins_prompts)
    }

    /// True if the agent has a terminal and can be given a turn in it now.
    pub(crate) fn is_free(&self) -> bool {
        !self.has_terminal() || (self.edges.is_some_and(|edges| !edges.working) && !self.asks_on_screen())
    }

    /// True if the agent in the terminal waits for a user there.
    pub fn asks_on_screen(&self) -> bool {
        self.has_terminal() && !self.turns.asks.is_empty()
    }
}

/// Records that the agent will report its turn edges: it was started with our hooks.
pub(crate) fn hooks_injected(session: &Session, epoch: Epoch) -> Vec<Event> {
    let is_news = epoch == session.epoch && session.has_terminal() && !session.tells;
    if is_news { vec![Event::HooksInjected { epoch }] } else { vec![] }
}

/// Events that follow from a report of an agent in a terminal.
pub(crate) fn terminal_report(
    session: &Session,
    epoch: Epoch,
    told: &TerminalReport,
    now: ClockReading,
) -> Vec<Event> {
    let runs = match session.phase {
        RunPhase::Starting | RunPhase::Running { .. } => true,
        RunPhase::New | RunPhase::Ending(_) | RunPhase::Ended { .. } => false,
    };
    if epoch != session.epoch || !session.has_terminal() || !runs {
        return vec![];
    }
    let mut events = Vec::new();
    // Some agents report only ends where the user did not trust their hooks. An agent that reports no beginnings
    // cannot confirm a turn, and is treated like one that reports nothing.
    let tells_beginnings = match told {
        TerminalReport::Started | TerminalReport::Prompt { .. } => true,
        TerminalReport::Tool
        | TerminalReport::GoesOn
        | TerminalReport::NeedsYou { .. }
        | TerminalReport::HookLeft { .. }
        | TerminalReport::Stopped { .. }
        | TerminalReport::Interrupted
        | TerminalReport::Quiet { .. } => false,
    };
    if session.edges.is_none() && !tells_beginnings {
        return vec![];
    }
    if session.edges.is_none() {
        // The agent cannot take text into a running turn, and it is never released for being idle: a user may be
        // about to type.
        let able = AgentCapabilities { steer: false, resume: false };
        events.push(Event::AgentReady { epoch, able, at_boot_ms: now.boot_ms });
    }
    match told {
        TerminalReport::Started => {}
        TerminalReport::Prompt { text } => {
            unask(session, &mut events);
            events.push(edge(session, ActivityChange::Prompt));
            events.extend(prompted(session, text, now));
            events.extend(draft_cleared(session));
        }
        TerminalReport::Tool => {
            // Another tool or sub-agent may have asked and still wait. A question whose hook waits ends with that hook.
            let on_screen = session.turns.asks.iter().filter(|ask| !ask.is_answerable());
            let closed: Vec<Event> = on_screen.map(withdrawn).collect();
            let is_news = !session.edges.is_some_and(|edges| edges.working) || !closed.is_empty();
            events.extend(closed);
            events.extend(is_news.then(|| edge(session, ActivityChange::Tool)));
        }
        TerminalReport::GoesOn => {
            if session.asks_on_screen() {
                unask(session, &mut events);
                events.push(edge(session, ActivityChange::Tool));
            }
        }
        TerminalReport::NeedsYou { request, what, answerable } => {
            let works = session.edges.is_some_and(|edges| edges.working);
            let names_tool = what.contains(TOOL_ENDS);
            // An agent that wants to use a tool works. A reminder that came late has no question any more.
            events.extend((!works && names_tool).then(|| edge(session, ActivityChange::Tool)));
            if works || names_tool {
                events.extend(asked(session, request, what, *answerable));
            }
        }
        TerminalReport::HookLeft { request } => events.extend(hook_left(session, request)),
        TerminalReport::Stopped { answer, cut, proof } => {
            unask(session, &mut events);
            let is_news = session.edges.is_none_or(|edges| edges.working);
            events.extend(is_news.then(|| edge(session, ActivityChange::Stopped)));
            let done = |reason: Option<&str>| TurnEnd {
                answer: answer.clone().unwrap_or_default(),
                cut: *cut,
                reason: reason.map(str::to_owned),
                ..TurnEnd::without_answer(FinalState::Done, "")
            };
            let end = match proof {
                EndProof::Recorded => done(None),
                EndProof::HookOnly => done(Some(TOLD_BY_HOOK)),
                // The answer that came with the hook is not proven to be the agent's either.
                EndProof::Contradicted => TurnEnd::without_answer(FinalState::Unknown, TOLD_BY_HOOK),
            };
            // The agent reports the ends of earlier prompts as well.
            let is_its_own = session.edges.is_none_or(|edges| edges.before == 0);
            events.extend(is_its_own.then(|| over(session, end, now)).into_iter().flatten());
        }
        TerminalReport::Interrupted => {
            unask(session, &mut events);
            let is_news = session.edges.is_none_or(|edges| edges.working);
            events.extend(is_news.then(|| edge(session, ActivityChange::Interrupted)));
            let end = TurnEnd::without_answer(FinalState::Interrupted, "it was interrupted at its terminal");
            events.extend(over(session, end, now));
        }
        TerminalReport::Quiet { end } => {
            if session.edges.is_some_and(|edges| edges.working) {
                unask(session, &mut events);
                events.push(edge(session, ActivityChange::Quiet));
                let unproven = || {
                    let reason =
                        "the agent has nothing to do any more; there is no proof that it finished the turn";
                    TurnEnd::without_answer(FinalState::Unknown, reason)
                };
                events.extend(over(session, end.clone().unwrap_or_else(unproven), now));
            }
        }
    }
    events
}

/// An agent was asked to interrupt its turn and did not confirm it. Whether it works is unknown, so waiting turns
/// are held until a user has checked.
pub(crate) fn interrupt_unconfirmed(session: &Session, turn: u64, now: ClockReading) -> Vec<Event> {
    let mut events = vec![];
    unask(session, &mut events);
    if session.edges.is_some_and(|edges| edges.working) {
        events.push(edge(session, ActivityChange::Quiet));
    }
    let reason = "an interruption was requested, and the agent did not confirm it";
    events.extend(turns::turn_over(session, turn, TurnEnd::without_answer(FinalState::Unknown, reason), now));
    let is_held = events.iter().any(|event| matches!(event, Event::QueueHeld { .. }));
    if session.turns.hold.is_none() && !is_held {
        events.push(Event::QueueHeld { hold: QueueHold::Unknown { turn } });
    }
    events
}

/// The unsent text in the terminal is gone.
pub(crate) fn draft_cleared(session: &Session) -> Vec<Event> {
    match &session.turns.hold {
        Some(QueueHold::Draft) => {
            let by = crate::Actor {
                place: "the terminal: what was typed is gone".to_owned(),
                ..Default::default()
            };
            vec![Event::QueueResumed { by }]
        }
        Some(
            QueueHold::Paused { .. }
            | QueueHold::Unknown { .. }
            | QueueHold::ForeignWriter { .. }
            | QueueHold::AgentFailed { .. }
            | QueueHold::ModelFailed { .. }
            | QueueHold::Retrying { .. },
        )
        | None => vec![],
    }
}

fn edge(session: &Session, edge: ActivityChange) -> Event {
    Event::ActivityReported { epoch: session.epoch, edge }
}

fn unask(session: &Session, events: &mut Vec<Event>) {
    events.extend(session.turns.asks.iter().map(withdrawn));
}

fn withdrawn(ask: &AgentQuestion) -> Event {
    Event::QuestionWithdrawn { request: ask.request.clone() }
}

/// A question on the screen. Agents report one twice, in other words: while one waits, another report is the same
/// question unless it says more. A question whose hook waits stays beside others: each has an answer of its own.
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
    let before = before.map(withdrawn);
    let options = if answerable { hook_options() } else { vec![] };
    let ask = AgentQuestion {
        request: request.to_owned(),
        tool,
        detail,
        options,
        takes_reason: answerable,
        ..AgentQuestion::default()
    };
    before.chain([Event::QuestionAsked { ask }]).collect()
}

/// Options of a question that a hook answers.
fn hook_options() -> Vec<QuestionOption> {
    let option =
        |id: &str, name: &str, kind| QuestionOption { id: id.to_owned(), name: name.to_owned(), kind };
    vec![
        option("allow", "Allow", QuestionOptionKind::AllowOnce),
        option("deny", "Deny", QuestionOptionKind::RejectOnce),
    ]
}

/// Keeps a question whose hook has left: only the terminal can answer it.
fn hook_left(session: &Session, request: &str) -> Vec<Event> {
    let mut waiting = session.turns.asks.iter();
    let Some(ask) = waiting.find(|ask| ask.request == request && ask.is_answerable()) else { return vec![] };
    let ask = AgentQuestion { options: vec![], takes_reason: false, ..ask.clone() };
    vec![Event::QuestionWithdrawn { request: request.to_owned() }, Event::QuestionAsked { ask }]
}

/// Compares a reported prompt with the turn that the keeper typed.
fn prompted(session: &Session, text: &str, now: ClockReading) -> Vec<Event> {
    let Some(turn) = unconfirmed(session) else { return vec![] };
    let Some(sent) = session.turns.open(turn).map(|turn| turn.prompt.clone()) else { return vec![] };
    if is_same(&sent, text) {
        return turns::began(session, turn);
    }
    if !has_within(text, &sent) {
        return vec![];
    }
    let reason = "its text was joined with something else that was in the input box";
    turns::turn_over(session, turn, TurnEnd::without_answer(FinalState::Unknown, reason), now)
}

/// The turn that was typed and that the agent has not confirmed yet.
fn unconfirmed(session: &Session) -> Option<u64> {
    let turn = session.turns.current.as_ref()?.turn;
    session.turns.open(turn).filter(|turn| turn.state == TurnProgress::Delivered).map(|_| turn)
}

/// Ends the turn that the agent has, if the agent confirmed it.
fn over(session: &Session, end: TurnEnd, now: ClockReading) -> Vec<Event> {
    let Some(current) = &session.turns.current else { return vec![] };
    match session.turns.open(current.turn).map(|turn| turn.state) {
        Some(TurnProgress::Working) => turns::turn_over(session, current.turn, end, now),
        Some(TurnProgress::Delivered | TurnProgress::Queued | TurnProgress::Over(_)) | None => vec![],
    }
}

/// True if two texts are equal up to the changes that terminals make: they turn tabs into blanks, convert line
/// ends, and drop white space at the end.
fn is_same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

fn has_within(text: &str, part: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let part = words(part);
    !part.is_empty() && words(text).contains(&part)
}

/// True if a text can be pasted into a terminal: no character in it ends the paste or is a key.
pub(crate) fn can_be_pasted(text: &str) -> bool {
    text.chars().all(|letter| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t'))
}

/// The character that makes a text a command of the agent's interface when it is typed into the terminal: the
/// command would run at once, without a permission prompt.
pub(crate) fn command_prefix(terminal: TerminalTraits, text: &str) -> Option<char> {
    // Interfaces trim more than white space: invisible characters at the beginning do not count.
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
