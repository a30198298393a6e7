//! One session in the list: what is known, and how it is said in a few words.
//!
//! Promise: every text here is one line without control characters, whatever a session is called or says.
//! Start with [`Row`].

use std::fmt;

use berth_api::turn::Ask;
use berth_api::{Problem, SessionState, Status};
use berth_core::SessionId;

use crate::listing::{self, row};
use crate::print;

/// What stopped longer ago than this is not shown unless asked for, as in `berth ls`.
const RECENT_MS: u64 = 24 * 3600 * 1000;
/// The longest text that is made for a column; the column cuts it further.
const MOST_CHARS: usize = 300;

/// A session.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    pub(crate) id: SessionId,
    pub(crate) known: Known,
    /// What its processes cost, once that was measured.
    pub(crate) memory_bytes: Option<u64>,
    /// Its keeper was stopped by a signal and answers nobody.
    pub(crate) suspended: bool,
    /// When it came to the place in the order that it has: so that rows do not jump with every byte.
    pub(crate) placed_at: u64,
}

/// What is known of a session.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Known {
    Status(Box<Status>),
    Damaged(Problem),
}

/// The state of a session, as far as it can be told.
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

impl Row {
    pub(crate) fn new(id: SessionId, known: Known) -> Self {
        let mut row = Self { id, known, memory_bytes: None, suspended: false, placed_at: 0 };
        row.placed_at = row.last_activity_at();
        row
    }

    pub(crate) fn status(&self) -> Option<&Status> {
        match &self.known {
            Known::Status(status) => Some(status),
            Known::Damaged(_) => None,
        }
    }

    pub(crate) fn state(&self) -> RowState {
        match &self.known {
            Known::Damaged(_) => RowState::Damaged,
            Known::Status(_) if self.suspended => RowState::Unreachable,
            Known::Status(status) => RowState::Of(status.state.clone()),
        }
    }

    /// Who needs a person comes first.
    pub(crate) fn rank(&self) -> u8 {
        match self.state() {
            RowState::Damaged | RowState::Unreachable => 1,
            RowState::Of(state) => listing::rank(&state),
        }
    }

    pub(crate) fn needs_you(&self) -> bool {
        self.rank() == 0
    }

    /// What people call it.
    pub(crate) fn handle(&self) -> String {
        self.status().map_or_else(|| self.id.to_string(), |status| print::excerpt(status.handle(), 64))
    }

    /// Whether it has a keeper, or should.
    pub(crate) fn is_live(&self) -> bool {
        self.status().is_some_and(|status| status.keeper_pid.is_some())
    }

    /// Whether it is talked to, and has no terminal to attach to.
    pub(crate) fn takes_turns(&self) -> bool {
        self.status().is_some_and(|status| status.turns.is_some() && !status.what.has_terminal())
    }

    /// Whether something can be sent to it.
    pub(crate) fn can_be_sent_to(&self) -> bool {
        self.status().is_some_and(|status| status.turns.is_some())
    }

    /// What it asks, if it does.
    pub(crate) fn asks(&self) -> &[Ask] {
        self.status().and_then(|status| status.turns.as_ref()).map_or(&[], |turns| &turns.asks)
    }

    /// The run it is in, or was in last.
    pub(crate) fn epoch(&self) -> u64 {
        self.status().map_or(0, |status| status.epoch)
    }

    /// The turn the agent has.
    pub(crate) fn current_turn(&self) -> Option<&str> {
        self.status()?.turns.as_ref()?.current.as_deref()
    }

    /// Why the queue does not go on.
    pub(crate) fn held(&self) -> Option<&str> {
        self.status()?.turns.as_ref()?.held.as_deref()
    }

    /// How many turns wait.
    pub(crate) fn queued(&self) -> usize {
        self.status().and_then(|status| status.turns.as_ref()).map_or(0, |turns| turns.queued.len())
    }

    /// The age of the evidence: when something last happened.
    pub(crate) fn last_activity_at(&self) -> u64 {
        self.status().map_or(0, |status| status.last_activity_at.0)
    }

    /// Whether its last run failed by itself.
    pub(crate) fn is_failed(&self) -> bool {
        self.status().is_some_and(berth_verbs::words::is_failed)
    }

    pub(crate) fn is_archived(&self) -> bool {
        self.status()
            .is_some_and(|status| status.archived_at.is_some() || status.state == SessionState::Archived)
    }

    /// Whether it is put away, or over for long.
    pub(crate) fn is_old(&self, now_ms: u64) -> bool {
        let Some(status) = self.status() else { return false };
        let over_since = status.ended_at.filter(|_| status.state == SessionState::Stopped);
        self.is_archived() || over_since.is_some_and(|ended| now_ms.saturating_sub(ended.0) >= RECENT_MS)
    }

    /// What it does at the moment, or how it ended, or what it is: as `berth ls` says it.
    pub(crate) fn activity(&self) -> String {
        let status = match &self.known {
            Known::Damaged(problem) => return print::excerpt(&problem.what, MOST_CHARS),
            Known::Status(status) => status,
        };
        if self.suspended {
            return "its keeper is suspended and does not answer".to_owned();
        }
        let doing = row::doing(status);
        // No column has the directory, and it tells agents of one kind apart.
        let is_only_named = status.what.agent.as_ref() == Some(&doing);
        let doing = if is_only_named { format!("{doing} in {}", row::dir_of(status)) } else { doing };
        let apart = [&status.branch, &status.model]
            .into_iter()
            .flatten()
            .filter(|_| status.state == SessionState::Idle);
        let doing = apart.fold(doing, |doing, word| format!("{doing} · {word}"));
        print::excerpt(&doing, MOST_CHARS)
    }

    /// Whether a person who types this looks for this one: every word is in the name, the id, the agent, the
    /// command, the directory, the state or a tag.
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
    use berth_api::status::{TurnsStatus, What};
    use berth_api::turn::AskOption;

    use super::*;

    /// A session as lists know it.
    pub(crate) fn status(letter: char, name: &str, state: &str) -> Status {
        let command = vec!["cargo".to_owned(), "test".to_owned()];
        Status {
            id: letter.to_string().repeat(SessionId::LENGTH),
            name: Some(name.to_owned()),
            keeper_pid: (!SessionState::from(state).is_final()).then_some(1),
            state: state.into(),
            what: What { driver: "pty".into(), command, cwd: "/src/berth".into(), ..What::default() },
            last_activity_at: Timestamp(100_000),
            ..Status::default()
        }
    }

    /// The same for an agent that takes turns.
    pub(crate) fn agent(letter: char, name: &str, state: &str) -> Status {
        let mut status = status(letter, name, state);
        status.what.driver = "acp".into();
        status.what.agent = Some("claude".into());
        status.turns = Some(TurnsStatus::default());
        status
    }

    /// One that asks something.
    pub(crate) fn asking(letter: char, name: &str) -> Status {
        let mut status = agent(letter, name, "needs-you");
        let option = |id: &str, name: &str, kind| AskOption { id: id.into(), name: name.into(), kind };
        use berth_api::turn::AskKind::{AllowAlways, AllowOnce, RejectOnce};
        let options = vec![
            option("once", "Yes", AllowOnce),
            option("always", "Yes, always", AllowAlways),
            option("no", "No", RejectOnce),
        ];
        let detail = "rm -rf target".to_owned();
        let ask = Ask { request: "7".into(), tool: "Bash".into(), detail, options, ..Ask::default() };
        status.turns = Some(TurnsStatus { asks: vec![ask], ..TurnsStatus::default() });
        status
    }

    pub(crate) fn row(status: Status) -> Row {
        let id = SessionId::parse(&status.id).expect("an id");
        Row::new(id, Known::Status(Box::new(status)))
    }

    #[test]
    fn a_row_says_what_matters_most_first() {
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
    fn a_filter_looks_at_everything_a_person_would_name() {
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
    fn what_is_over_for_long_or_put_away_is_old() {
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
