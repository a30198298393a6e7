//! Lists beside the sessions: what waits in a queue, conversations from outside, other hosts.
//!
//! Promise: what is done to an entry is done to the one that was selected, also if the list changed meanwhile.
//! Not here: drawing (`view::panel`), where entries come from (`actions`).
//! Start with [`Panel`].

use berth_api::turn::TurnView;
use berth_api::{Problem, Status};
use berth_core::SessionId;
use berth_verbs::foreign::Conversation;
use berth_verbs::hosts::Host;

/// Which list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PanelKind {
    /// The turns that wait in a session.
    Queue { of: SessionId },
    /// Conversations that no session has.
    Conversations,
    /// Other hosts and their sessions.
    Hosts,
}

/// A list that is shown in place of the sessions.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Panel {
    pub(crate) kind: PanelKind,
    /// The entries, once they are known.
    pub(crate) entries: Option<Result<Entries, Problem>>,
    /// The selected one.
    pub(crate) at: usize,
    look: Look,
}

/// Whether the entries are being looked for. A queue is read from the whole journal, so one look runs at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    Done,
    UnderWay,
    /// Something changed since it began: another one has to follow.
    Outdated,
}

/// What is listed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Entries {
    Queue {
        /// Why nothing begins, if something holds the queue.
        held: Option<String>,
        turns: Vec<TurnView>,
    },
    Conversations {
        all: Vec<Conversation>,
        /// How many more there may be.
        beyond: usize,
    },
    Hosts(Vec<HostEntry>),
}

/// A line in the list of hosts.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum HostEntry {
    Host {
        host: Host,
        /// How it is, in words.
        about: String,
        is_away: bool,
    },
    Session {
        host: Host,
        status: Box<Status>,
    },
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Queue { turns, .. } => turns.len(),
            Self::Conversations { all, .. } => all.len(),
            Self::Hosts(all) => all.len(),
        }
    }
}

impl Panel {
    /// One whose entries are still being looked for.
    pub(crate) fn new(kind: PanelKind) -> Self {
        Self { kind, entries: None, at: 0, look: Look::UnderWay }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.as_ref().and_then(|entries| entries.as_ref().ok()).map_or(0, Entries::len)
    }

    /// Something changed. Returns true if a look has to begin; one that is under way is followed by another.
    pub(crate) fn look_again(&mut self) -> bool {
        let begins = self.look == Look::Done;
        self.look = if begins { Look::UnderWay } else { Look::Outdated };
        begins
    }

    /// Takes in what a look found; returns true if another one has to begin. A turn that was selected stays selected where
    /// it moved.
    pub(crate) fn set(&mut self, entries: Result<Entries, Problem>) -> bool {
        let turn = self.turn().map(|turn| turn.number);
        self.entries = Some(entries);
        if let (Some(number), Some(Ok(Entries::Queue { turns, .. }))) = (turn, &self.entries)
            && let Some(at) = turns.iter().position(|turn| turn.number == number)
        {
            self.at = at;
        }
        self.at = self.at.min(self.len().saturating_sub(1));
        let is_outdated = self.look == Look::Outdated;
        self.look = if is_outdated { Look::UnderWay } else { Look::Done };
        is_outdated
    }

    pub(crate) fn step(&mut self, by: isize) {
        self.at = self.at.saturating_add_signed(by).min(self.len().saturating_sub(1));
    }

    /// The selected turn of a queue.
    pub(crate) fn turn(&self) -> Option<&TurnView> {
        match &self.entries {
            Some(Ok(Entries::Queue { turns, .. })) => turns.get(self.at),
            _ => None,
        }
    }

    /// Why the queue does not go on.
    pub(crate) fn held(&self) -> Option<&str> {
        match &self.entries {
            Some(Ok(Entries::Queue { held, .. })) => held.as_deref(),
            _ => None,
        }
    }

    /// The selected conversation.
    pub(crate) fn conversation(&self) -> Option<&Conversation> {
        match &self.entries {
            Some(Ok(Entries::Conversations { all, .. })) => all.get(self.at),
            _ => None,
        }
    }

    /// The selected line of the hosts.
    pub(crate) fn host_entry(&self) -> Option<&HostEntry> {
        match &self.entries {
            Some(Ok(Entries::Hosts(all))) => all.get(self.at),
            _ => None,
        }
    }
}
