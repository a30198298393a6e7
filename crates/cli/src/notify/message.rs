//! What people read: who, what, where, and what to do next.
//!
//! Promise: short, on few lines, without control characters and without secrets.
//! Start with [`Past::notification`].

use berth_api::status::Timestamp;
use berth_api::turn::{Hold, turn_id};
use berth_api::{Code, Problem, redact};
use berth_core::{Ask, Event, Exit, Final, Notify, Occasion, Outcome, Release, SessionId, TurnEnd};
use berth_host::clock;
use berth_keeper::notify::Delivery;
use berth_store::SessionFiles;
use berth_store::{History, Home, view};
use serde::Serialize;

use super::Came;
use crate::print;
use crate::replies::QuestionId;

/// How much of an answer, a question or a reason is told. A lock screen shows less.
const MOST_CHARS: usize = 240;

/// Why people are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Occasion(Occasion),
    /// Somebody tries whether they would be.
    Test,
}

impl What {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Occasion(occasion) => occasion.word(),
            Self::Test => "test",
        }
    }

    /// What webhooks call it.
    fn event_type(self) -> &'static str {
        match self {
            Self::Occasion(Occasion::NeedsYou) => "session.needs_you",
            Self::Occasion(Occasion::Failed) => "session.failed",
            Self::Occasion(Occasion::Finished) => "session.finished",
            Self::Test => "test",
        }
    }

    pub(crate) fn is_urgent(self) -> bool {
        match self {
            Self::Occasion(Occasion::NeedsYou | Occasion::Failed) => true,
            Self::Occasion(Occasion::Finished) | Self::Test => false,
        }
    }
}

/// What is told.
#[derive(Clone, Debug)]
pub(crate) struct Notification {
    pub(crate) what: What,
    /// The same for every try of every webhook.
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    /// One line: who, and what with them.
    pub(crate) title: String,
    pub(crate) data: Data,
}

/// Everything else, as webhooks and commands get it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Data {
    /// `needs-you`, `failed`, `finished` or `test`.
    pub(crate) what: &'static str,
    /// The session's id.
    pub(crate) session: String,
    pub(crate) name: Option<String>,
    pub(crate) agent: Option<String>,
    /// The session's directory.
    pub(crate) cwd: String,
    pub(crate) host: String,
    /// The number of the event in the session's journal.
    pub(crate) event: u64,
    pub(crate) turn: Option<String>,
    /// The question and, in `epoch`, the run in which it is asked: an answer names both.
    pub(crate) request: Option<String>,
    pub(crate) epoch: Option<u64>,
    pub(crate) title: String,
    /// What happened, on one line.
    pub(crate) text: String,
    /// What to do next: a command.
    pub(crate) next: String,
}

/// The body of a webhook.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    event_type: &'static str,
    timestamp: Timestamp,
    data: &'a Data,
}

impl Notification {
    /// One that tries whether people would be told, of this session or of none.
    pub(crate) fn test(past: Option<&Past>) -> Self {
        let at = Timestamp(clock::wall_ms());
        let mut data = past.map(Past::data).unwrap_or_else(|| Data { host: host(), ..Data::default() });
        data.text = "This is a test notification.".to_owned();
        data.next = match past {
            Some(past) => format!("berth show {}", past.handle()),
            None => "berth ls".to_owned(),
        };
        let who = past.map_or("berth", |past| past.handle());
        Self::new(What::Test, format!("msg_test_{}", at.0), at, format!("{who}: a test"), data)
    }

    fn new(what: What, id: String, at: Timestamp, title: String, data: Data) -> Self {
        let data = Data { what: what.word(), title: title.clone(), ..data };
        Self { what, id, at, title, data }
    }

    /// What is written under the title, on a few lines.
    pub(crate) fn lines(&self) -> String {
        let place = match self.data.cwd.as_str() {
            "" => format!("on {}", self.data.host),
            cwd => format!("{cwd} on {}", self.data.host),
        };
        let lines = [self.data.text.as_str(), &place, &self.data.next];
        lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// The body of a webhook, and what a command reads.
    pub(crate) fn json(&self) -> Vec<u8> {
        let body = Body { event_type: self.what.event_type(), timestamp: self.at, data: &self.data };
        serde_json::to_vec(&body).expect("a notification is plain data")
    }

    /// For the log.
    pub(crate) fn delivery(&self, channel: String, came: Came) -> Delivery {
        Delivery {
            at: Timestamp(clock::wall_ms()),
            session: self.data.session.clone(),
            name: self.data.name.clone(),
            event: self.data.event,
            what: self.what.word().to_owned(),
            channel,
            outcome: came.outcome,
            detail: came.detail,
            tries: came.tries,
        }
    }
}

/// A session's history, to tell of.
#[derive(Debug)]
pub(crate) struct Past {
    id: SessionId,
    files: SessionFiles,
    history: History,
    /// How people address it: the name, else the id.
    handle: String,
}

impl Past {
    pub(crate) fn read(home: &Home, id: &SessionId) -> Result<Self, Problem> {
        let history = view::history(home, id)?;
        let handle = history.session.name.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
        Ok(Self { id: id.clone(), files: home.session(id), history, handle })
    }

    /// What this session's people are told of.
    pub(crate) fn policy(&self) -> Notify {
        self.history.session.spec.as_ref().map(|spec| spec.policy.notify.clone()).unwrap_or_default()
    }

    pub(crate) fn handle(&self) -> &str {
        &self.handle
    }

    /// What is told of an event.
    pub(crate) fn notification(&self, seq: u64, occasion: Occasion) -> Result<Notification, Problem> {
        let found = self.files.read_range(seq, seq, usize::MAX)?;
        let Some(stored) = found.first().map(|event| event.get()) else {
            let what = format!("session {} has no event {seq}", self.id);
            return Err(Problem::new(Code::NotFound, what).hint("notifiers are started by keepers"));
        };
        let mut data = self.data();
        data.event = seq;
        let who = &self.handle;
        let verb = match occasion {
            Occasion::NeedsYou => "needs you",
            Occasion::Failed => "failed",
            Occasion::Finished => "finished",
        };
        (data.text, data.next) = match &stored.event {
            Event::Asked { ask } => {
                data.request = Some(ask.request.clone());
                data.epoch = self.epoch_at(seq)?;
                (question(ask), self.how_to_answer(ask, data.epoch))
            }
            Event::QueueHeld { hold } => held(&Hold::from(hold.clone()), who),
            Event::TurnEnded { turn, end, .. } => {
                data.turn = Some(turn_id(self.id.as_str(), *turn));
                (ended(end), format!("berth result {who}.{turn}"))
            }
            Event::RunEnded { outcome, .. } => (self.run_ended(outcome), self.how_to_look(outcome)),
            // Nothing else is an occasion; if it were, that it happened is still true.
            _ => (String::new(), format!("berth show {who}")),
        };
        let id = format!("msg_{}_{seq}", self.id);
        let what = What::Occasion(occasion);
        Ok(Notification::new(what, id, Timestamp(stored.at_ms), format!("{who} {verb}"), data))
    }

    fn data(&self) -> Data {
        let spec = self.history.session.spec.as_ref();
        Data {
            session: self.id.to_string(),
            name: self.history.session.name.as_ref().map(ToString::to_string),
            agent: spec.and_then(|spec| spec.agent.clone()),
            cwd: spec.map(|spec| short(&spec.cwd)).unwrap_or_default(),
            host: host(),
            ..Data::default()
        }
    }

    /// The run in which an event happened.
    fn epoch_at(&self, seq: u64) -> Result<Option<u64>, Problem> {
        let History { session, run_seq, .. } = &self.history;
        if seq >= *run_seq {
            return Ok(Some(session.epoch.0).filter(|_| *run_seq > 0));
        }
        // A notifier that is late: the session is in its next run.
        let before = self.files.read_range(1, seq, usize::MAX)?;
        Ok(before.iter().rev().find_map(|event| match &event.get().event {
            Event::RunStarting { epoch, .. } => Some(epoch.0),
            _ => None,
        }))
    }

    fn how_to_answer(&self, ask: &Ask, epoch: Option<u64>) -> String {
        if self.history.session.has_terminal() {
            return format!("berth attach {}", self.handle);
        }
        // Names the question: a command that is pasted late must not answer another one.
        let question = QuestionId::new(epoch, &short(&ask.request));
        format!("berth answer {} allow --request {question}", self.handle)
    }

    fn how_to_look(&self, outcome: &Outcome) -> String {
        let takes_turns = self.history.session.spec.as_ref().is_some_and(berth_core::Spec::takes_turns);
        let verb = match outcome {
            Outcome::Lost => "resume",
            Outcome::Exited(_) | Outcome::OutOfMemory | Outcome::StartFailed(_) if takes_turns => "log",
            Outcome::Exited(_) | Outcome::OutOfMemory | Outcome::StartFailed(_) => "output",
        };
        format!("berth {verb} {}", self.handle)
    }

    fn run_ended(&self, outcome: &Outcome) -> String {
        let released = self.history.session.released.as_ref();
        match (outcome, released) {
            (_, Some(Release::Expired)) => "its time was up".to_owned(),
            (_, Some(Release::Broken { reason })) => short(&format!("the agent cannot be used: {reason}")),
            (Outcome::Exited(Exit::Code(0)), _) => "it ended by itself".to_owned(),
            (Outcome::Exited(Exit::Code(code)), _) => format!("it ended with exit code {code}"),
            (Outcome::Exited(Exit::Signal(signal)), _) => format!("signal {signal} ended it"),
            (Outcome::OutOfMemory, _) => "the kernel ended it because memory ran out".to_owned(),
            (Outcome::StartFailed(reason), _) => short(&format!("it could not be started: {reason}")),
            (Outcome::Lost, _) => "its keeper died, and the run with it".to_owned(),
        }
    }
}

fn question(ask: &Ask) -> String {
    match ask.detail.as_str() {
        "" => short(&format!("it asks to use {}", ask.tool)),
        detail => short(&format!("{}: {detail}", ask.tool)),
    }
}

/// Why the queue is held, and what to do: the description says both.
fn held(hold: &Hold, who: &str) -> (String, String) {
    let described = hold.describe(who);
    let (why, next) = described.split_once("; ").unwrap_or((&described, ""));
    (short(why), short(next))
}

fn ended(end: &TurnEnd) -> String {
    let said = end.answer.lines().map(str::trim).find(|line| !line.is_empty());
    let reason = end.reason.as_deref().and_then(|reason| reason.lines().next());
    let text = match end.state {
        Final::Done => said.or(reason).unwrap_or("done, without an answer"),
        Final::Failed | Final::Cancelled | Final::Interrupted | Final::Unknown => {
            reason.or(said).unwrap_or("the reason is unknown")
        }
    };
    short(text)
}

/// One line of bounded length that may be shown to anybody who sees the person's screen.
fn short(text: &str) -> String {
    print::cut(&redact::text(text), MOST_CHARS)
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_told_on_one_short_line_without_its_secrets() {
        let ask = Ask {
            request: "1".to_owned(),
            tool: "Bash".to_owned(),
            detail: format!(
                "curl -H 'Authorization: Bearer abcdef0123456789' x\n\u{1b}[2J{}",
                "y".repeat(999)
            ),
            ..Ask::default()
        };
        let text = question(&ask);
        assert!(text.starts_with("Bash: curl"), "{text}");
        assert!(!text.contains("abcdef0123456789"), "{text}");
        assert!(!text.contains(['\n', '\u{1b}']), "{text:?}");
        assert!(text.chars().count() <= MOST_CHARS, "{}", text.chars().count());
    }

    #[test]
    fn of_an_answer_the_first_line_is_told_and_of_a_failure_the_reason() {
        let mut end = TurnEnd::without_answer(Final::Done, "");
        end.answer = "\n\n  It works.\nAnd more.".to_owned();
        assert_eq!(ended(&end), "It works.");
        let failed = TurnEnd { state: Final::Failed, reason: Some("no credit\nat all".to_owned()), ..end };
        assert_eq!(ended(&failed), "no credit");
    }
}
