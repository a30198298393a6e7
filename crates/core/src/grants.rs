//! Grants: rights of agents towards berth.
//!
//! Promise: one table for every entrance. A caller outside of all sessions may do everything. An agent may look,
//! start sessions and manage those, and no more than that without a grant. A caller that cannot be identified may
//! do little more than look.
//! Not here: identifying the caller (callers bring evidence), and tokens (they are for people and programs outside).
//! Start with [`check_permission`]; [`required_grant`] is the table.

use std::fmt;

/// Rights of an agent beyond those of every agent. Each grant includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Grant {
    /// No further rights.
    #[default]
    Nothing,
    /// Send turns to any session, its own included.
    Send,
    /// Control any session: end it, type into it, answer its agent's questions.
    Control,
    /// Everything that a person may do.
    Admin,
}

impl Grant {
    /// All grants, the smallest first.
    pub const ALL: [Self; 4] = [Self::Nothing, Self::Send, Self::Control, Self::Admin];

    /// Word that stands for the grant.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Send => "send",
            Self::Control => "control",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Origin of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallerKind {
    /// A process outside of all sessions.
    Outside,
    /// A process of a session's run; the session has this grant.
    Agent(Grant),
    /// Unknown: the process is gone, or the system did not identify it.
    Unseen,
}

/// Target of a request, as seen from the session that the caller runs inside of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActionTarget {
    /// No session in particular.
    NoSession,
    /// The session that the caller runs inside of.
    Itself,
    /// A session that it started, directly or through another one.
    Child,
    /// Any other session.
    Stranger,
}

/// Requests, as far as they differ in the rights that they need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallerAction {
    /// Read, list, watch, wait, observe.
    Look,
    /// Start a new session.
    Start {
        /** Grant of the new session. */
        grant: Grant,
        /** True to end other writers of the conversation. */
        takes: bool,
    },
    /// Begin the next run of a session.
    Resume {
        /** True to end other writers of the conversation. */
        takes: bool,
    },
    /// Start a session with a copy of the target's conversation.
    Fork,
    /// Send it a turn, interrupt one, change its queue.
    Send,
    /// Change its tags or its note.
    Describe,
    /// Rename it.
    Rename,
    /// Change its policy.
    SetPolicy,
    /// End its run.
    Stop,
    /// Archive or restore it.
    Archive,
    /// Type into its terminal, or take the terminal over.
    Type {
        /** True if keys may answer an agent's question: the terminal shows its own interface. */
        answers: bool,
    },
    /// Answer a question of its agent.
    Answer,
    /// Own a helper in the name of this session.
    Share,
    /// Stop owning a helper, in the name of this session.
    Release,
    /// End a helper. The target is the most distant of its owners.
    StopHelper,
    /// Replace the program of its keeper in place.
    Restart,
    /// Sweep: clean up after dead processes.
    Sweep,
    /// Delete for good.
    Purge,
    /// Make and revoke tokens.
    Tokens,
    /// Run a gateway.
    Serve,
    /// Add or remove other hosts.
    Hosts,
    /// Set up a service that runs beside the commands.
    SetUp,
}

/// A denied request, with the grant that it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActionForbidden {
    /// The request.
    pub action: CallerAction,
    /// Relation of the caller to the session that the request is about.
    pub target: ActionTarget,
    /// Grant that the request needs.
    pub needs: Grant,
    /// Grant that the caller has; `None` if the caller could not be identified.
    pub has: Option<Grant>,
}

/// Decides whether a caller may do this.
pub fn check_permission(
    caller: CallerKind,
    action: CallerAction,
    target: ActionTarget,
) -> Result<(), ActionForbidden> {
    let (has, target, known) = match caller {
        CallerKind::Outside => return Ok(()),
        CallerKind::Agent(grant) => (grant, target, Some(grant)),
        // The caller may be an agent that made itself unidentifiable; then it is a stranger to every session.
        CallerKind::Unseen => match target {
            ActionTarget::NoSession => (Grant::Nothing, ActionTarget::NoSession, None),
            ActionTarget::Itself | ActionTarget::Child | ActionTarget::Stranger => {
                (Grant::Nothing, ActionTarget::Stranger, None)
            }
        },
    };
    let needs = required_grant(action, target);
    if has >= needs { Ok(()) } else { Err(ActionForbidden { action, target, needs, has: known }) }
}

/// Grant that an agent needs for a request.
pub fn required_grant(action: CallerAction, target: ActionTarget) -> Grant {
    match action {
        CallerAction::Look => Grant::Nothing,
        // An agent must have the grant that it gives; and ending another writer is ending something.
        CallerAction::Start { grant, takes } => {
            grant.max(if takes { Grant::Control } else { Grant::Nothing })
        }
        // The process that has a child's conversation open need not be a child: it may be a person's, and any
        // conversation becomes a child's by an import.
        CallerAction::Resume { takes: true } => Grant::Control,
        CallerAction::Resume { takes: false } | CallerAction::Send => of_children(target, Grant::Send),
        CallerAction::Fork => of_its_own(target, Grant::Send),
        CallerAction::Share | CallerAction::Release | CallerAction::StopHelper | CallerAction::Describe => {
            of_its_own(target, Grant::Control)
        }
        CallerAction::Rename
        | CallerAction::SetPolicy
        | CallerAction::Stop
        | CallerAction::Archive
        | CallerAction::Restart => of_children(target, Grant::Control),
        CallerAction::Type { answers: false } => of_children(target, Grant::Control),
        // To start a child and to approve for it is to approve one's own requests, by whatever entrance.
        CallerAction::Type { answers: true } | CallerAction::Answer | CallerAction::Sweep => Grant::Control,
        CallerAction::Purge
        | CallerAction::Tokens
        | CallerAction::Serve
        | CallerAction::Hosts
        | CallerAction::SetUp => Grant::Admin,
    }
}

/// Free for sessions that it started.
fn of_children(target: ActionTarget, otherwise: Grant) -> Grant {
    match target {
        ActionTarget::Child => Grant::Nothing,
        ActionTarget::NoSession | ActionTarget::Itself | ActionTarget::Stranger => otherwise,
    }
}

/// Free for itself, and for sessions that it started.
fn of_its_own(target: ActionTarget, otherwise: Grant) -> Grant {
    match target {
        ActionTarget::Itself | ActionTarget::Child => Grant::Nothing,
        ActionTarget::NoSession | ActionTarget::Stranger => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: CallerAction = CallerAction::Start { grant: Grant::Nothing, takes: false };

    /// The table as people read it: the grants that an agent needs for itself, for its children, for strangers. `-`
    /// is no grant. docs/grants.md shows the same table.
    const TABLE: &[(CallerAction, &str)] = &[
        (CallerAction::Look, "-       -       -"),
        (NEW, "-       -       -"),
        (CallerAction::Start { grant: Grant::Nothing, takes: true }, "control control control"),
        (CallerAction::Start { grant: Grant::Send, takes: false }, "send    send    send"),
        (CallerAction::Start { grant: Grant::Control, takes: false }, "control control control"),
        (CallerAction::Start { grant: Grant::Admin, takes: false }, "admin   admin   admin"),
        (CallerAction::Start { grant: Grant::Send, takes: true }, "control control control"),
        (CallerAction::Resume { takes: false }, "send    -       send"),
        (CallerAction::Resume { takes: true }, "control control control"),
        (CallerAction::Fork, "-       -       send"),
        (CallerAction::Send, "send    -       send"),
        (CallerAction::Describe, "-       -       control"),
        (CallerAction::Rename, "control -       control"),
        (CallerAction::SetPolicy, "control -       control"),
        (CallerAction::Stop, "control -       control"),
        (CallerAction::Archive, "control -       control"),
        (CallerAction::Type { answers: false }, "control -       control"),
        (CallerAction::Type { answers: true }, "control control control"),
        (CallerAction::Answer, "control control control"),
        (CallerAction::Share, "-       -       control"),
        (CallerAction::Release, "-       -       control"),
        (CallerAction::StopHelper, "-       -       control"),
        (CallerAction::Restart, "control -       control"),
        (CallerAction::Sweep, "control control control"),
        (CallerAction::Purge, "admin   admin   admin"),
        (CallerAction::Tokens, "admin   admin   admin"),
        (CallerAction::Serve, "admin   admin   admin"),
        (CallerAction::Hosts, "admin   admin   admin"),
        (CallerAction::SetUp, "admin   admin   admin"),
    ];

    fn rows() -> impl Iterator<Item = (CallerAction, ActionTarget, Grant)> {
        let targets = [ActionTarget::Itself, ActionTarget::Child, ActionTarget::Stranger];
        TABLE.iter().flat_map(move |(action, row)| {
            let words: Vec<&str> = row.split_whitespace().collect();
            assert_eq!(words.len(), targets.len(), "{action:?}");
            let grant = |word: &str| match word {
                "-" => Grant::Nothing,
                word => Grant::ALL.into_iter().find(|grant| grant.word() == word).expect("a grant"),
            };
            let row: Vec<_> =
                targets.iter().zip(&words).map(|(t, word)| (*action, *t, grant(word))).collect();
            row
        })
    }

    #[test]
    fn an_agent_may_do_what_the_table_says_and_with_each_grant_more() {
        for (action, target, needs) in rows() {
            for has in Grant::ALL {
                let said = check_permission(CallerKind::Agent(has), action, target);
                let no = Err(ActionForbidden { action, target, needs, has: Some(has) });
                assert_eq!(said, if has >= needs { Ok(()) } else { no }, "{has} {action:?} {target:?}");
            }
        }
    }

    #[test]
    fn a_caller_outside_of_all_sessions_may_do_everything() {
        for (action, target, _) in rows() {
            assert_eq!(
                check_permission(CallerKind::Outside, action, target),
                Ok(()),
                "{action:?} {target:?}"
            );
        }
    }

    #[test]
    fn a_caller_that_cannot_be_attributed_may_look_and_start_what_has_no_grant_and_no_more() {
        for (action, target, _) in rows() {
            let allowed = [CallerAction::Look, NEW].contains(&action);
            assert_eq!(
                check_permission(CallerKind::Unseen, action, target).is_ok(),
                allowed,
                "{action:?} {target:?}"
            );
        }
    }

    #[test]
    fn an_agent_cannot_give_more_than_its_own_grant() {
        for has in Grant::ALL {
            for grant in Grant::ALL {
                let said = check_permission(
                    CallerKind::Agent(has),
                    CallerAction::Start { grant, takes: false },
                    ActionTarget::NoSession,
                );
                assert_eq!(said.is_ok(), grant <= has, "{has} gives {grant}");
            }
        }
    }
}
