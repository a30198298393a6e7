//! The text of a notification: session, event, place, and the next command.
//!
//! Promise: short, on few lines, without control characters and without secrets.
//! Start with [`NotifiedSession::notification`].

use berth_api::status::Timestamp;
use berth_api::turn::{QueueHold, turn_id};
use berth_api::{Problem, redact};
use berth_core::{
    AgentQuestion, Event, FinalState, NotificationKind, NotificationPolicy, ProcessExit, ReleaseReason,
    RunOutcome, SessionId, TurnEnd,
};
use berth_host::clock;
use berth_store::SessionFiles;
use berth_store::notifications::NotificationDelivery;
use berth_store::{SessionView, StateDir, session_status};
use berth_verbs::answer::QuestionId;
use serde::Serialize;

use super::DeliveryResult;
use crate::print;

/// Most characters of an answer, a question or a reason. A lock screen shows fewer.
const MOST_CHARS: usize = 240;

/// The kind of a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotificationReason {
    Occasion(NotificationKind),
    /// A user tests if notifications arrive.
    Test,
}

impl NotificationReason {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Occasion(occasion) => occasion.word(),
            Self::Test => "test",
        }
    }

    /// The event type in webhooks.
    fn event_type(self) -> &'static str {
        match self {
            Self::Occasion(NotificationKind::NeedsYou) => "session.needs_you",
            Self::Occasion(NotificationKind::Failed) => "session.failed",
            Self::Occasion(NotificationKind::Finished) => "session.finished",
            Self::Test => "test",
        }
    }

    pub(crate) fn is_urgent(self) -> bool {
        match self {
            Self::Occasion(NotificationKind::NeedsYou | NotificationKind::Failed) => true,
            Self::Occasion(NotificationKind::Finished) | Self::Test => false,
        }
    }
}

/// A notification of one event.
#[derive(Clone, Debug)]
pub(crate) struct EventNotification {
    pub(crate) what: NotificationReason,
    /// Constant over all tries of all webhooks.
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    /// One line: the session, and what happened to it.
    pub(crate) title: String,
    pub(crate) data: NotificationData,
}

/// Details, as webhooks and commands get them.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct NotificationData {
    /// `needs-you`, `failed`, `finished` or `test`.
    pub(crate) what: &'static str,
    /// Id of the session; empty in a test of no session.
    pub(crate) session: String,
    pub(crate) name: Option<String>,
    pub(crate) agent: Option<String>,
    /// Directory that the session works in.
    pub(crate) cwd: String,
    pub(crate) host: String,
    /// Number of the event in the session's journal.
    pub(crate) event: u64,
    pub(crate) turn: Option<String>,
    /// Id of the question, if there is one. An answer needs it and `epoch`, the run that asks.
    pub(crate) request: Option<String>,
    pub(crate) epoch: Option<u64>,
    pub(crate) title: String,
    /// The event, on one line.
    pub(crate) text: String,
    /// The next command for the user to run.
    pub(crate) next: String,
}

/// The body of a webhook.
#[derive(Serialize)]
struct WebhookBody<'a> {
    #[serde(rename = "type")]
    event_type: &'static str,
    timestamp: Timestamp,
    data: &'a NotificationData,
}

impl EventNotification {
    /// A test notification, of this session or of none.
    pub(crate) fn test(past: Option<&NotifiedSession>) -> Self {
        let at = Timestamp(clock::wall_ms());
        let mut data = past
            .map(NotifiedSession::data)
            .unwrap_or_else(|| NotificationData { host: host(), ..NotificationData::default() });
        data.text = "This is a test notification.".to_owned();
        data.next = match past {
            Some(past) => format!("berth show {}", past.handle()),
            None => "berth ls".to_owned(),
        };
        let who = past.map_or("berth", |past| past.handle());
        Self::new(NotificationReason::Test, format!("msg_test_{}", at.0), at, format!("{who}: a test"), data)
    }

    fn new(
        what: NotificationReason,
        id: String,
        at: Timestamp,
        title: String,
        data: NotificationData,
    ) -> Self {
        let data = NotificationData { what: what.word(), title: title.clone(), ..data };
        Self { what, id, at, title, data }
    }

    /// The lines under the title.
    pub(crate) fn lines(&self) -> String {
        let place = match self.data.cwd.as_str() {
            "" => format!("on {}", self.data.host),
            cwd => format!("{cwd} on {}", self.data.host),
        };
        let lines = [self.data.text.as_str(), &place, &self.data.next];
        lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// The JSON body of a webhook and the input of a command.
    pub(crate) fn json(&self) -> Vec<u8> {
        let body = WebhookBody { event_type: self.what.event_type(), timestamp: self.at, data: &self.data };
        serde_json::to_vec(&body).expect("a notification is plain data")
    }

    /// The result of one channel, for the log.
    pub(crate) fn delivery(&self, channel: String, came: DeliveryResult) -> NotificationDelivery {
        NotificationDelivery {
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

/// A session with its history, from which notifications are written.
#[derive(Debug)]
pub(crate) struct NotifiedSession {
    id: SessionId,
    files: SessionFiles,
    history: SessionView,
    /// The name, else the id.
    handle: String,
}

impl NotifiedSession {
    pub(crate) fn read(home: &StateDir, id: &SessionId) -> Result<Self, Problem> {
        let history = session_status::history(home, id)?;
        let handle = history.session.name.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
        Ok(Self { id: id.clone(), files: home.session(id), history, handle })
    }

    /// The session's notification policy.
    pub(crate) fn policy(&self) -> NotificationPolicy {
        self.history.session.spec.as_ref().map(|spec| spec.policy.notify.clone()).unwrap_or_default()
    }

    pub(crate) fn handle(&self) -> &str {
        &self.handle
    }

    /// The notification of an event.
    pub(crate) fn notification(
        &self,
        seq: u64,
        occasion: NotificationKind,
    ) -> Result<EventNotification, Problem> {
        let found = self.files.read_range(seq, seq, usize::MAX)?;
        let Some(stored) = found.first().map(|event| event.get()) else {
            let what = format!("session {} has no event {seq}", self.id);
            return Err(Problem::not_found(what).hint("notifiers are started by keepers"));
        };
        let mut data = self.data();
        data.event = seq;
        let who = &self.handle;
        let verb = match occasion {
            NotificationKind::NeedsYou => "needs you",
            NotificationKind::Failed => "failed",
            NotificationKind::Finished => "finished",
        };
        (data.text, data.next) = match &stored.event {
            Event::QuestionAsked { ask } => {
                data.request = Some(ask.request.clone());
                data.epoch = self.epoch_at(seq)?;
                (question(ask), self.how_to_answer(ask, data.epoch))
            }
            Event::QueueHeld { hold } => held(&QueueHold::from(hold.clone()), who),
            Event::TurnEnded { turn, end, .. } => {
                data.turn = Some(turn_id(self.id.as_str(), *turn));
                (ended(end), format!("berth result {who}.{turn}"))
            }
            Event::RunEnded { outcome, .. } => (self.run_ended(outcome), self.how_to_look(outcome)),
            // No other event is an occasion. If one were, the text is left out, but the title is still true.
            _ => (String::new(), format!("berth show {who}")),
        };
        let id = format!("msg_{}_{seq}", self.id);
        let what = NotificationReason::Occasion(occasion);
        Ok(EventNotification::new(what, id, Timestamp(stored.at_ms), format!("{who} {verb}"), data))
    }

    fn data(&self) -> NotificationData {
        let spec = self.history.session.spec.as_ref();
        NotificationData {
            session: self.id.to_string(),
            name: self.history.session.name.as_ref().map(ToString::to_string),
            agent: spec.and_then(|spec| spec.agent.clone()),
            cwd: spec.map(|spec| short(&spec.cwd)).unwrap_or_default(),
            host: host(),
            ..NotificationData::default()
        }
    }

    /// The epoch of the run in which an event happened.
    fn epoch_at(&self, seq: u64) -> Result<Option<u64>, Problem> {
        let SessionView { session, run_seq, .. } = &self.history;
        if seq >= *run_seq {
            return Ok(Some(session.epoch.0).filter(|_| *run_seq > 0));
        }
        // This notifier is late: the session is in a later run by now.
        for page in self.files.pages_back(seq) {
            let epoch = page?.iter().rev().find_map(|event| match &event.get().event {
                Event::RunStarting { epoch, .. } => Some(epoch.0),
                _ => None,
            });
            if epoch.is_some() {
                return Ok(epoch);
            }
        }
        Ok(None)
    }

    fn how_to_answer(&self, ask: &AgentQuestion, epoch: Option<u64>) -> String {
        if self.history.session.has_terminal() {
            return format!("berth attach {}", self.handle);
        }
        // The id of the question is in the command: a command that is pasted late must not answer another question.
        let question = QuestionId::new(epoch, &short(&ask.request));
        format!("berth answer {} allow --request {question}", self.handle)
    }

    fn how_to_look(&self, outcome: &RunOutcome) -> String {
        let takes_turns =
            self.history.session.spec.as_ref().is_some_and(berth_core::SessionSpec::takes_turns);
        let verb = match outcome {
            RunOutcome::Lost => "resume",
            RunOutcome::Exited(_) | RunOutcome::OutOfMemory | RunOutcome::StartFailed(_) if takes_turns => {
                "log"
            }
            RunOutcome::Exited(_) | RunOutcome::OutOfMemory | RunOutcome::StartFailed(_) => "output",
        };
        format!("berth {verb} {}", self.handle)
    }

    fn run_ended(&self, outcome: &RunOutcome) -> String {
        let released = self.history.session.released.as_ref();
        match (outcome, released) {
            (_, Some(ReleaseReason::Expired)) => "the session's time limit was reached".to_owned(),
            (_, Some(ReleaseReason::Broken { reason })) => {
                short(&format!("the agent cannot be used: {reason}"))
            }
            (RunOutcome::Exited(ProcessExit::Code(0)), _) => "the run ended by itself".to_owned(),
            (RunOutcome::Exited(ProcessExit::Code(code)), _) => {
                format!("the run ended with exit code {code}")
            }
            (RunOutcome::Exited(ProcessExit::Signal(signal)), _) => format!("signal {signal} ended the run"),
            (RunOutcome::OutOfMemory, _) => "the kernel ended the run because memory ran out".to_owned(),
            (RunOutcome::StartFailed(reason), _) => short(&format!("the run could not be started: {reason}")),
            (RunOutcome::Lost, _) => "the keeper died, and the run with it".to_owned(),
        }
    }
}

fn question(ask: &AgentQuestion) -> String {
    match ask.detail.as_str() {
        "" => short(&format!("the agent asks to use {}", ask.tool)),
        detail => short(&format!("{}: {detail}", ask.tool)),
    }
}

/// Why the queue is held, and what to do. The description has both.
fn held(hold: &QueueHold, who: &str) -> (String, String) {
    let described = hold.describe(who);
    let (why, next) = described.split_once("; ").unwrap_or((&described, ""));
    (short(why), short(next))
}

fn ended(end: &TurnEnd) -> String {
    let said = end.answer.lines().map(str::trim).find(|line| !line.is_empty());
    let reason = end.reason.as_deref().and_then(|reason| reason.lines().next());
    let text = match end.state {
        FinalState::Done => said.or(reason).unwrap_or("done, without an answer"),
        FinalState::Failed | FinalState::Cancelled | FinalState::Interrupted | FinalState::Unknown => {
            reason.or(said).unwrap_or("the reason is unknown")
        }
    };
    short(text)
}

/// A text on one line, of bounded length and redacted: other people may see the user's screen.
fn short(text: &str) -> String {
    print::truncate(&redact::redact_text(text), MOST_CHARS)
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_shown_on_one_short_line_without_its_secrets() {
        let ask = AgentQuestion {
            request: "1".to_owned(),
            tool: "Bash".to_owned(),
            detail: format!(
                "curl -H 'Authorization: Bearer abcdef0123456789' x\n\u{1b}[2J{}",
                "y".repeat(999)
            ),
            ..AgentQuestion::default()
        };
        let text = question(&ask);
        assert!(text.starts_with("Bash: curl"), "{text}");
        assert!(!text.contains("abcdef0123456789"), "{text}");
        assert!(!text.contains(['\n', '\u{1b}']), "{text:?}");
        assert!(text.chars().count() <= MOST_CHARS, "{}", text.chars().count());
    }

    #[test]
    fn an_answer_is_shown_by_its_first_line_and_a_failure_by_its_reason() {
        let mut end = TurnEnd::without_answer(FinalState::Done, "");
        end.answer = "\n\n  It works.\nAnd more.".to_owned();
        assert_eq!(ended(&end), "It works.");
        let failed =
            TurnEnd { state: FinalState::Failed, reason: Some("no credit\nat all".to_owned()), ..end };
        assert_eq!(ended(&failed), "no credit");
    }
}
