//! Grants: what an agent may ask of berth.
//!
//! Promise: one table for every door. Somebody outside of all sessions may do everything; whoever is inside of
//! one may look, start sessions and see to those, and no more than that without a grant. Who cannot be told is
//! trusted with little more than looking.
//! Not here: finding out who asks (callers bring evidence), tokens (they are for people and programs outside).
//! Start with [`may`]; [`needed`] is the table.

use std::fmt;

/// How far an agent may go beyond what every agent may. Each includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Grant {
    /// Nothing beyond.
    #[default]
    Nothing,
    /// Say something to any session, its own as well.
    Send,
    /// Decide about any session: end it, type into it, answer what it asks.
    Control,
    /// Everything, as a person may.
    Admin,
}

impl Grant {
    /// All of them, the least first.
    pub const ALL: [Self; 4] = [Self::Nothing, Self::Send, Self::Control, Self::Admin];

    /// As it is written.
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

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    /// Somebody outside of all sessions.
    Outside,
    /// A process of a session's run, whose session was given this.
    Agent(Grant),
    /// Nobody could tell: the process is gone, or the system would not say.
    Unseen,
}

/// Whom it is about, as seen from the session the caller is inside of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// No session in particular.
    Nobody,
    /// That session.
    Itself,
    /// One that it started, or that one of those started.
    Child,
    /// Any other.
    Stranger,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nobody, Self::Itself, Self::Child, Self::Stranger];
}

/// What is asked, as far as it matters who may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Read, list, watch, wait, observe.
    Look,
    /// Start a new session.
    Start {
        /** With this grant. */
        grant: Grant,
        /** Ending whoever else writes the conversation. */
        takes: bool,
    },
    /// Begin the next run of one.
    Resume {
        /** Ending whoever else writes the conversation. */
        takes: bool,
    },
    /// Start one with a copy of its conversation.
    Fork,
    /// Have something said to it, break that off, change what waits.
    Send,
    /// Tag it, write a note about it.
    Describe,
    /// Give it another name.
    Rename,
    /// Say when it ends by itself.
    SetPolicy,
    /// End its run.
    Stop,
    /// Put it away, or bring it back.
    Archive,
    /// Type into its terminal, or take that over.
    Type {
        /** Keys may answer what an agent asks: it is an agent's own interface. */
        answers: bool,
    },
    /// Answer what its agent asks.
    Answer,
    /// Own a helper in the name of this session.
    Share,
    /// Own a helper no longer, in the name of this session.
    Release,
    /// End a helper. The target is the farthest of its owners.
    StopHelper,
    /// Have its keeper replace its own program.
    Restart,
    /// Clear up.
    Sweep,
    /// Delete for good.
    Purge,
    /// Make and revoke tokens.
    Tokens,
    /// Run a gateway.
    Serve,
    /// Say which other hosts there are, and how they are reached.
    Hosts,
    /// Have something run beside the commands.
    SetUp,
}

/// A polite no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forbidden {
    /// What was asked.
    pub deed: Deed,
    /// Of whom.
    pub target: Target,
    /// The grant it would take.
    pub needs: Grant,
    /// What the caller has; nothing is known of one nobody could see.
    pub has: Option<Grant>,
}

/// Whether somebody may do something.
pub fn may(caller: Caller, deed: Deed, target: Target) -> Result<(), Forbidden> {
    let (has, target, known) = match caller {
        Caller::Outside => return Ok(()),
        Caller::Agent(grant) => (grant, target, Some(grant)),
        // It may be an agent that saw to it that nobody can tell, and then it is a stranger to everyone.
        Caller::Unseen => match target {
            Target::Nobody => (Grant::Nothing, Target::Nobody, None),
            Target::Itself | Target::Child | Target::Stranger => (Grant::Nothing, Target::Stranger, None),
        },
    };
    let needs = needed(deed, target);
    if has >= needs { Ok(()) } else { Err(Forbidden { deed, target, needs, has: known }) }
}

/// The grant an agent needs for this.
pub fn needed(deed: Deed, target: Target) -> Grant {
    match deed {
        Deed::Look => Grant::Nothing,
        // What it gives away it must have; and to end another writer is to end something.
        Deed::Start { grant, takes } => grant.max(if takes { Grant::Control } else { Grant::Nothing }),
        // Whoever has a child's conversation open is no child: a person may have it, and an import makes any a child.
        Deed::Resume { takes: true } => Grant::Control,
        Deed::Resume { takes: false } | Deed::Send => of_children(target, Grant::Send),
        Deed::Fork => of_its_own(target, Grant::Send),
        Deed::Share | Deed::Release | Deed::StopHelper | Deed::Describe => of_its_own(target, Grant::Control),
        Deed::Rename | Deed::SetPolicy | Deed::Stop | Deed::Archive | Deed::Restart => {
            of_children(target, Grant::Control)
        }
        Deed::Type { answers: false } => of_children(target, Grant::Control),
        // To start a child and to approve for it is to approve for oneself, by whatever door.
        Deed::Type { answers: true } | Deed::Answer | Deed::Sweep => Grant::Control,
        Deed::Purge | Deed::Tokens | Deed::Serve | Deed::Hosts | Deed::SetUp => Grant::Admin,
    }
}

/// Free for what it started.
fn of_children(target: Target, otherwise: Grant) -> Grant {
    match target {
        Target::Child => Grant::Nothing,
        Target::Nobody | Target::Itself | Target::Stranger => otherwise,
    }
}

/// Free for itself, and for what it started.
fn of_its_own(target: Target, otherwise: Grant) -> Grant {
    match target {
        Target::Itself | Target::Child => Grant::Nothing,
        Target::Nobody | Target::Stranger => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Deed = Deed::Start { grant: Grant::Nothing, takes: false };

    /// The table as people read it: what an agent needs for itself, for its children, for strangers. `-` is
    /// nothing. docs/grants.md shows the same.
    const TABLE: &[(Deed, &str)] = &[
        (Deed::Look, "-       -       -"),
        (NEW, "-       -       -"),
        (Deed::Start { grant: Grant::Nothing, takes: true }, "control control control"),
        (Deed::Start { grant: Grant::Send, takes: false }, "send    send    send"),
        (Deed::Start { grant: Grant::Control, takes: false }, "control control control"),
        (Deed::Start { grant: Grant::Admin, takes: false }, "admin   admin   admin"),
        (Deed::Start { grant: Grant::Send, takes: true }, "control control control"),
        (Deed::Resume { takes: false }, "send    -       send"),
        (Deed::Resume { takes: true }, "control control control"),
        (Deed::Fork, "-       -       send"),
        (Deed::Send, "send    -       send"),
        (Deed::Describe, "-       -       control"),
        (Deed::Rename, "control -       control"),
        (Deed::SetPolicy, "control -       control"),
        (Deed::Stop, "control -       control"),
        (Deed::Archive, "control -       control"),
        (Deed::Type { answers: false }, "control -       control"),
        (Deed::Type { answers: true }, "control control control"),
        (Deed::Answer, "control control control"),
        (Deed::Share, "-       -       control"),
        (Deed::Release, "-       -       control"),
        (Deed::StopHelper, "-       -       control"),
        (Deed::Restart, "control -       control"),
        (Deed::Sweep, "control control control"),
        (Deed::Purge, "admin   admin   admin"),
        (Deed::Tokens, "admin   admin   admin"),
        (Deed::Serve, "admin   admin   admin"),
        (Deed::Hosts, "admin   admin   admin"),
        (Deed::SetUp, "admin   admin   admin"),
    ];

    fn rows() -> impl Iterator<Item = (Deed, Target, Grant)> {
        let targets = [Target::Itself, Target::Child, Target::Stranger];
        TABLE.iter().flat_map(move |(deed, row)| {
            let words: Vec<&str> = row.split_whitespace().collect();
            assert_eq!(words.len(), targets.len(), "{deed:?}");
            let grant = |word: &str| match word {
                "-" => Grant::Nothing,
                word => Grant::ALL.into_iter().find(|grant| grant.word() == word).expect("a grant"),
            };
            let row: Vec<_> = targets.iter().zip(&words).map(|(t, word)| (*deed, *t, grant(word))).collect();
            row
        })
    }

    #[test]
    fn an_agent_may_do_what_the_table_says_and_with_each_grant_more() {
        for (deed, target, needs) in rows() {
            for has in Grant::ALL {
                let said = may(Caller::Agent(has), deed, target);
                let no = Err(Forbidden { deed, target, needs, has: Some(has) });
                assert_eq!(said, if has >= needs { Ok(()) } else { no }, "{has} {deed:?} {target:?}");
            }
        }
    }

    #[test]
    fn somebody_outside_may_do_everything() {
        for (deed, target, _) in rows() {
            assert_eq!(may(Caller::Outside, deed, target), Ok(()), "{deed:?} {target:?}");
        }
    }

    #[test]
    fn a_caller_that_cannot_be_attributed_may_look_and_start_what_has_no_grant_and_no_more() {
        for (deed, target, _) in rows() {
            let allowed = [Deed::Look, NEW].contains(&deed);
            assert_eq!(may(Caller::Unseen, deed, target).is_ok(), allowed, "{deed:?} {target:?}");
        }
    }

    #[test]
    fn nobody_gives_more_than_they_have() {
        for has in Grant::ALL {
            for grant in Grant::ALL {
                let said = may(Caller::Agent(has), Deed::Start { grant, takes: false }, Target::Nobody);
                assert_eq!(said.is_ok(), grant <= has, "{has} gives {grant}");
            }
        }
    }
}
