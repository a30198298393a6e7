//! Lists beside the sessions: the turns of a queue, conversations from outside, other hosts.
//!
//! Promise: an action on an entry goes to the entry that was selected, even if the list changed meanwhile.
//! Not here: drawing (`view::panel`), data sources (`actions`).
//! Start with [`SidePanel`].

use berth_api::turn::TurnView;
use berth_api::{Problem, SessionStatus};
use berth_core::SessionId;
use berth_verbs::foreign::AgentConversation;
use berth_verbs::hosts::RemoteHost;

/// The kind of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PanelKind {
    /// The waiting turns of a session.
    Queue { of: SessionId },
    /// Conversations that belong to no session.
    Conversations,
    /// Other hosts and their sessions.
    Hosts,
}

/// A list that is shown in place of the sessions.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SidePanel {
    pub(crate) kind: PanelKind,
    /// The entries, once they are known.
    pub(crate) entries: Option<Result<PanelEntries, Problem>>,
    /// Index of the selected entry.
    pub(crate) at: usize,
    look: PanelLoadState,
}

/// The state of reading the entries. A queue is read from the whole journal, so one read runs at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PanelLoadState {
    Done,
    UnderWay,
    /// The data changed since the read began: another read has to follow.
    Outdated,
}

/// The entries of a list.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum PanelEntries {
    Queue {
        /// Why no turn begins, if something holds the queue.
        held: Option<String>,
        turns: Vec<TurnView>,
    },
    Conversations {
        all: Vec<AgentConversation>,
        /// Number of conversations that are not listed.
        more: usize,
    },
    Hosts(Vec<HostPanelEntry>),
}

/// A line in the list of hosts.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum HostPanelEntry {
    Host {
        host: RemoteHost,
        /// State of the host, for people.
        about: String,
        is_away: bool,
    },
    Session {
        host: RemoteHost,
        status: Box<SessionStatus>,
    },
}

impl PanelEntries {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Queue { turns, .. } => turns.len(),
            Self::Conversations { all, .. } => all.len(),
            Self::Hosts(all) => all.len(),
        }
    }
}

impl SidePanel {
    /// A list whose entries are still being read.
    pub(crate) fn new(kind: PanelKind) -> Self {
        Self { kind, entries: None, at: 0, look: PanelLoadState::UnderWay }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.as_ref().and_then(|entries| entries.as_ref().ok()).map_or(0, PanelEntries::len)
    }

    /// Call when the data changed. True if a read has to begin; a read under way is followed by another one.
    pub(crate) fn mark_outdated(&mut self) -> bool {
        let begins = self.look == PanelLoadState::Done;
        self.look = if begins { PanelLoadState::UnderWay } else { PanelLoadState::Outdated };
        begins
    }

    /// Applies the entries of a read; true if another read has to begin. A turn that was selected
    /// stays selected where it moved.
    pub(crate) fn set(&mut self, entries: Result<PanelEntries, Problem>) -> bool {
        let turn = self.turn().map(|turn| turn.number);
        self.entries = Some(entries);
        if let (Some(number), Some(Ok(PanelEntries::Queue { turns, .. }))) = (turn, &self.entries)
            && let Some(at) = turns.iter().position(|turn| turn.number == number)
        {
            self.at = at;
        }
        self.at = self.at.min(self.len().saturating_sub(1));
        let is_outdated = self.look == PanelLoadState::Outdated;
        self.look = if is_outdated { PanelLoadState::UnderWay } else { PanelLoadState::Done };
        is_outdated
    }

    pub(crate) fn step(&mut self, by: isize) {
        self.at = self.at.saturating_add_signed(by).min(self.len().saturating_sub(1));
    }

    /// The selected turn of a queue.
    pub(crate) fn turn(&self) -> Option<&TurnView> {
        match &self.entries {
            Some(Ok(PanelEntries::Queue { turns, .. })) => turns.get(self.at),
            _ => None,
        }
    }

    /// Why the queue does not go on.
    pub(crate) fn held(&self) -> Option<&str> {
        match &self.entries {
            Some(Ok(PanelEntries::Queue { held, .. })) => held.as_deref(),
            _ => None,
        }
    }

    /// The selected conversation.
    pub(crate) fn conversation(&self) -> Option<&AgentConversation> {
        match &self.entries {
            Some(Ok(PanelEntries::Conversations { all, .. })) => all.get(self.at),
            _ => None,
        }
    }

    /// The selected line of the hosts.
    pub(crate) fn host_entry(&self) -> Option<&HostPanelEntry> {
        match &self.entries {
            Some(Ok(PanelEntries::Hosts(all))) => all.get(self.at),
            _ => None,
        }
    }
}
