//! Taking a conversation up: which one, whether we may write it, and who else does.
//!
//! Promise: before an agent is started that may write a conversation, we hold its lock and have looked for
//! writers that are not ours; a conversation that is gone is an error with a choice, never a fresh start
//! that nobody asked for.
//! Not here: the lock itself (`conversations`), the search (`writers`).

use std::path::Path;

use berth_api::{Code, Problem};
use berth_core::{Conversation, Final, Observation, Origin, Session, SessionId, Spec, TurnState};
use berth_driver::Begin;

use super::{Keeper, trouble};
use crate::conversations::{Claim, ConversationLock};
use crate::owner::Input;
use crate::{driver, turn};

/// How a run will take its conversation up.
#[derive(Debug)]
pub(super) struct TakeUp {
    pub(super) begin: Begin,
    pub(super) lock: Option<ConversationLock>,
    /// What is to be recorded about it, in one commit with the run's start.
    pub(super) inputs: Vec<Input>,
}

impl TakeUp {
    /// Decides how, and takes the right to write it. `take` ends whoever else does.
    pub(super) fn prepare(
        root: &Path,
        id: &SessionId,
        session: &Session,
        spec: &Spec,
        take: bool,
    ) -> Result<Self, Problem> {
        let name = session.name.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
        let begin = begin_of(session, spec, id, &name)?;
        let known = match &begin {
            Begin::New { id } | Begin::Fork { id, .. } => id.clone(),
            Begin::Resume { id } => Some(id.clone()),
        };
        let Some(known) = known.filter(|_| !spec.conversation.is_empty()) else {
            return Ok(Self { begin, lock: None, inputs: vec![] });
        };
        let lock = claim(root, id, spec, &known)?;
        look_for_others(spec, &known, &name, take)?;
        let conversation = Conversation { id: known, store: turn::store(spec) };
        let inputs = vec![Input::Report(Observation::Conversation { conversation })];
        Ok(Self { begin, lock: Some(lock), inputs })
    }
}

fn claim(root: &Path, id: &SessionId, spec: &Spec, known: &str) -> Result<ConversationLock, Problem> {
    match ConversationLock::claim(root, &spec.conversation, known, id) {
        Ok(Claim::Ours(lock)) => Ok(lock),
        // Our own last keeper, in its last moment.
        Ok(Claim::Held(Some(by))) if by == *id => {
            Err(Problem::new(Code::Held, format!("conversation {known} is just being left"))
                .hint("try again"))
        }
        Ok(Claim::Held(by)) => {
            let by = by.map_or_else(|| "another session".to_owned(), |by| format!("session {by}"));
            let other = by.strip_prefix("session ").unwrap_or("S");
            Err(Problem::new(Code::InUse, format!("conversation {known} is being written by {by}")).hint(
                format!(
                    "send to it with `berth send {other} TEXT`, watch it with `berth log {other} --follow`, \
                 wait for it with `berth wait {other} --for exit`, or copy it with `berth fork {other}`"
                ),
            ))
        }
        Err(error) => Err(trouble(&format!("lock conversation {known}"), &error)),
    }
}

/// Refuses, or ends, writers that are not ours.
fn look_for_others(_spec: &Spec, _known: &str, _name: &str, _take: bool) -> Result<(), Problem> {
    Ok(())
}

/// Which conversation the next run writes, and how it gets there.
fn begin_of(session: &Session, spec: &Spec, id: &SessionId, name: &str) -> Result<Begin, Problem> {
    let mints = driver::of(&spec.driver, id).is_some_and(|driver| driver.mints());
    let minted = || mints.then(mint);
    let gone = |id: &str| {
        let what = format!("session `{name}` cannot go on: {}", turn::no_conversation(id, name));
        Problem::new(Code::NotFound, what)
            .hint(format!("or look where it went: `berth turns {name}` shows what was said in it"))
    };
    let Some(known) = &session.conversation else {
        return match &spec.origin {
            Origin::New => Ok(Begin::New { id: minted() }),
            Origin::Named(id) => Ok(Begin::New { id: Some(id.clone()) }),
            Origin::Resumed(id) if turn::exists(spec, None, id) == Some(false) => Err(gone(id)),
            Origin::Resumed(id) => Ok(Begin::Resume { id: id.clone() }),
            Origin::Forked(of) if turn::exists(spec, None, of) == Some(false) => Err(gone(of)),
            Origin::Forked(of) => Ok(Begin::Fork { of: of.clone(), id: minted() }),
        };
    };
    let turns = &session.turns;
    let was_given = (1..=turns.last()).any(|turn| turns.was_given(turn));
    let was_answered = turns.all.iter().any(|turn| turn.state == TurnState::Over(Final::Done));
    let came_with_one = matches!(spec.origin, Origin::Resumed(_) | Origin::Forked(_));
    match turn::exists(spec, Some(known), &known.id) {
        Some(true) => Ok(Begin::Resume { id: known.id.clone() }),
        Some(false) if was_answered || came_with_one => Err(gone(&known.id)),
        // An agent records nothing before its first prompt.
        Some(false) => Ok(Begin::New { id: Some(known.id.clone()).filter(|_| mints || !spec.takes_turns()) }),
        None if was_given || came_with_one => Ok(Begin::Resume { id: known.id.clone() }),
        None => Ok(Begin::New { id: minted() }),
    }
}

/// A new id: a random UUID.
fn mint() -> String {
    let mut bytes = [0; 16];
    // It fails on no kernel that has the rest of what we need; and then the agent refuses the id in use.
    let _ = berth_host::random_bytes(&mut bytes);
    berth_host::uuid(bytes)
}

impl Keeper {
    /// Somebody who is none of ours and writes our conversation, for people.
    pub(super) fn foreign_writer(&self) -> Option<String> {
        None
    }
}
