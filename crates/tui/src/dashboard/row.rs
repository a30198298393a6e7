//! One row of the list: a session, and short texts about it.
//!
//! Promise: every text here is one line without control characters, for any name or text of a session.
//! Start with [`DashboardRow`].

use std::fmt;

use berth_api::turn::AgentQuestion;
use berth_api::{Problem, SessionState, SessionStatus};
use berth_core::SessionId;
use berth_verbs::listing;

use crate::print;
use crate::session_row as row;

/// Sessions that stopped longer ago than this are hidden unless asked for, as in `berth ls`.
const RECENT_MS: u64 = 24 * 3600 * 1000;
/// The longest text of a column before the column is cut to the screen.
const MOST_CHARS: usize = 300;

/// A session in the list.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DashboardRow {
    pub(crate) id: SessionId,
    pub(crate) known: RowStatus,
    /// Memory of its processes, once measured.
    pub(crate) memory_bytes: Option<u64>,
    /// True if a signal suspended the keeper, which then answers no client.
    pub(crate) suspended: bool,
    /// Time that decides its place in the order; set only now and then, so that rows do not jump with every byte.
    pub(crate) placed_at: u64,
}

/// The record of a session, or why it cannot be read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum RowStatus {
    Status(Box<SessionStatus>),
    Damaged(Problem),
}

/// The state of a session, if it can be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RowState {
    Of(SessionState),
    Damaged,
    Unreachable,
}

impl fmt::Display for RowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(state) => state.fmt(f),
            Self::Damaged => f.write_str("damaged"),
            Self::Unreachable => f.write_str("unreachable"),
        }
    }
}

impl DashboardRow {
    pub(crate) fn new(id: SessionId, known: RowStatus) -> Self {
        let mut row = Self { id, known, memory_bytes: None, suspended: false, placed_at: 0 };
        row.placed_at = row.last_activity_at();
        row
    }

    pub(crate) fn status(&self) -> Option<&SessionStatus> {
        match &self.known {
            RowStatus::Status(status) => Some(status),
            RowStatus::Damaged(_) => None,
        }
    }

    pub(crate) fn state(&self) -> RowState {
        match &self.known {
            RowStatus::Damaged(_) => RowState::Damaged,
            RowStatus::Status(_) if self.suspended => RowState::Unreachable,
            RowStatus::Status(status) => RowState::Of(status.state.clone()),
        }
    }

    /// Order in the list: sessions that need a user come first.
    pub(crate) fn rank(&self) -> u8 {
        match self.state() {
            RowState::Damaged | RowState::Unreachable => 1,
            RowState::Of(state) => listing::rank(&state),
        }
    }

    pub(crate) fn needs_you(&self) -> bool {
        self.rank() == 0
    }

    /// Name of the session for people.
    pub(crate) fn handle(&self) -> String {
        self.status().map_or_else(|| self.id.to_string(), |status| print::first_words(status.handle(), 64))
    }

    /// True if it has a keeper, or should have one.
    pub(crate) fn is_live(&self) -> bool {
        self.status().is_some_and(|status| status.keeper_pid.is_some())
    }

    /// True if its agent takes turns and has no terminal to attach to.
    pub(crate) fn takes_turns(&self) -> bool {
        self.status().is_some_and(|status| status.turns.is_some() && !status.what.has_terminal())
    }

    /// True if a message can be sent to it.
    pub(crate) fn can_be_sent_to(&self) -> bool {
        self.status().is_some_and(|status| status.turns.is_some())
    }

    /// Open questions of the session.
    pub(crate) fn asks(&self) -> &[AgentQuestion] {
        self.status().and_then(|status| status.turns.as_ref()).map_or(&[], |turns| &turns.asks)
    }

    /// Epoch of its present run, or of the last one.
    pub(crate) fn epoch(&self) -> u64 {
        self.status().map_or(0, |status| status.epoch)
    }

    /// Id of the turn that the agent has.
    pub(crate) fn current_turn(&self) -> Option<&str> {
        self.status()?.turns.as_ref()?.current.as_deref()
    }

    /// Why its queue does not go on.
    pub(crate) fn held(&self) -> Option<&str> {
        self.status()?.turns.as_ref()?.held.as_deref()
    }

    /// Number of its waiting turns.
    pub(crate) fn queued(&self) -> usize {
        self.status().and_then(|status| status.turns.as_ref()).map_or(0, |turns| turns.queued.len())
    }

    /// Time of its last activity, which is the age of the evidence.
    pub(crate) fn last_activity_at(&self) -> u64 {
        self.status().map_or(0, |status| status.last_activity_at.0)
    }

    /// True if its last run failed by itself.
    pub(crate) fn is_failed(&self) -> bool {
        self.status().is_some_and(berth_verbs::format::is_failed)
    }

    pub(crate) fn is_archived(&self) -> bool {
        self.status()
            .is_some_and(|status| status.archived_at.is_some() || status.state == SessionState::Archived)
    }

    /// True if it is archived, or ended long ago.
    pub(crate) fn is_old(&self, now_ms: u64) -> bool {
        let Some(status) = self.status() else { return false };
        let over_since = status.ended_at.filter(|_| status.state == SessionState::Stopped);
        self.is_archived() || over_since.is_some_and(|ended| now_ms.saturating_sub(ended.0) >= RECENT_MS)
    }

    /// Activity, end or command of the session, as `berth ls` shows it.
    pub(crate) fn activity(&self) -> String {
        let status = match &self.known {
            RowStatus::Damaged(problem) => return print::first_words(&problem.what, MOST_CHARS),
            RowStatus::Status(status) => status,
        };
        if self.suspended {
            return "its keeper is suspended and does not answer".to_owned();
        }
        let doing = row::activity_text(status);
        // The directory is in no column, and tells agents of one kind apart.
        let is_only_named = status.what.agent.as_ref() == Some(&doing);
        let doing = if is_only_named { format!("{doing} in {}", row::directory_text(status)) } else { doing };
        let apart = [&status.branch, &status.model]
            .into_iter()
            .flatten()
            .filter(|_| status.state == SessionState::Idle);
        let doing = apart.fold(doing, |doing, word| format!("{doing} · {word}"));
        print::first_words(&doing, MOST_CHARS)
    }

    /// True if every word of the filter is in the session's name, id, agent, command, directory, state or a tag.
    pub(crate) fn matches(&self, filter: &str) -> bool {
        let mut words = filter.split_whitespace().peekable();
        if words.peek().is_none() {
            return true;
        }
        let mut about = vec![self.id.to_string(), self.state().to_string()];
        if let Some(status) = self.status() {
            about.extend(status.name.clone());
            about.extend(status.what.agent.clone());
            about.push(print::command_line(&status.what.command, MOST_CHARS));
            about.push(status.what.cwd.clone());
            about.extend(status.tags.iter().cloned());
        }
        let about = about.join("\n").to_lowercase();
        words.all(|word| about.contains(&word.to_lowercase()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use berth_api::Timestamp;
    use berth_api::status::{SpecView, TurnsStatus};
    use berth_api::turn::QuestionOption;

    use super::*;

    /// A session as lists know it.
    pub(crate) fn status(letter: char, name: &str, state: &str) -> SessionStatus {
        let command = vec!["cargo".to_owned(), "test".to_owned()];
        SessionStatus {
            id: letter.to_string().repeat(SessionId::LENGTH),
            name: Some(name.to_owned()),
            keeper_pid: (!SessionState::from(state).is_final()).then_some(1),
            state: state.into(),
            what: SpecView { driver: "pty".into(), command, cwd: "/src/berth".into(), ..SpecView::default() },
            last_activity_at: Timestamp(100_000),
            ..SessionStatus::default()
        }
    }

    /// An agent that takes turns, as lists know it.
    pub(crate) fn agent(letter: char, name: &str, state: &str) -> SessionStatus {
        let mut status = status(letter, name, state);
        status.what.driver = "acp".into();
        status.what.agent = Some("claude".into());
        status.turns = Some(TurnsStatus::default());
        status
    }

    /// A session with an open question.
    pub(crate) fn asking(letter: char, name: &str) -> SessionStatus {
        let mut status = agent(letter, name, "needs-you");
        let option = |id: &str, name: &str, kind| QuestionOption { id: id.into(), name: name.into(), kind };
        use berth_api::turn::QuestionOptionKind::{AllowAlways, AllowOnce, RejectOnce};
        let options = vec![
            option("once", "Yes", AllowOnce),
            option("always", "Yes, always", AllowAlways),
            option("no", "No", RejectOnce),
        ];
        let detail = "rm -rf target".to_owned();
        let ask = AgentQuestion {
            request: "7".into(),
            tool: "Bash".into(),
            detail,
            options,
            ..AgentQuestion::default()
        };
        status.turns = Some(TurnsStatus { asks: vec![ask], ..TurnsStatus::default() });
        status
    }

    pub(crate) fn row(status: SessionStatus) -> DashboardRow {
        let id = SessionId::parse(&status.id).expect("an id");
        DashboardRow::new(id, RowStatus::Status(Box::new(status)))
    }

    #[test]
    fn a_row_shows_the_most_important_fact_first() {
        assert_eq!(row(asking('a', "fix")).activity(), "asks: Bash: rm -rf target");
        let mut busy = agent('b', "busy", "working");
        busy.turns =
            Some(TurnsStatus { activity: Some("Bash: cargo\ntest".into()), ..TurnsStatus::default() });
        assert_eq!(row(busy).activity(), "Bash: cargo test");
        let mut thinks = agent('b', "thinks", "working");
        thinks.turns = Some(TurnsStatus { prompt: Some("mend the login".into()), ..TurnsStatus::default() });
        assert_eq!(row(thinks.clone()).activity(), "> mend the login");
        thinks.state = "idle".into();
        assert_eq!(row(thinks.clone()).activity(), "claude in /src/berth");
        thinks.last_prompt = Some("mend the login".into());
        assert_eq!(row(thinks.clone()).activity(), "> mend the login");
        thinks.last_answer = Some("The login works.".into());
        assert_eq!(row(thinks.clone()).activity(), "The login works.");
        (thinks.branch, thinks.model) = (Some("main".into()), Some("opus".into()));
        assert_eq!(row(thinks).activity(), "The login works. · main · opus");
        let mut failed = status('c', "job", "stopped");
        failed.exit = Some(3);
        assert_eq!(row(failed).activity(), "failed · exit 3 · cargo test");
        let mut tests = status('d', "tests", "running");
        tests.what.command[0] = "/usr/bin/cargo".into();
        assert_eq!(row(tests).activity(), "cargo test");
        let mut stuck = row(status('d', "tests", "running"));
        stuck.suspended = true;
        assert_eq!((stuck.state(), stuck.rank()), (RowState::Unreachable, 1));
    }

    #[test]
    fn a_filter_searches_every_field_that_a_user_would_name() {
        let mut status = agent('a', "Fix-Login", "working");
        status.tags = vec!["urgent".into()];
        let row = row(status);
        for found in ["", "fix", "LOGIN", "claude", "berth", "working", "urgent", "aaa", "fix urgent"] {
            assert!(row.matches(found), "{found:?}");
        }
        for missed in ["codex", "fix codex", "stopped"] {
            assert!(!row.matches(missed), "{missed:?}");
        }
    }

    #[test]
    fn an_archived_or_long_ended_session_is_old() {
        let mut over = status('a', "a", "stopped");
        over.ended_at = Some(Timestamp(0));
        assert!(!row(over.clone()).is_old(RECENT_MS - 1));
        assert!(row(over.clone()).is_old(RECENT_MS));
        over.state = "lost".into();
        assert!(!row(over).is_old(RECENT_MS));
        let mut away = status('b', "b", "archived");
        away.archived_at = Some(Timestamp(0));
        assert!(row(away).is_old(1));
    }
}
