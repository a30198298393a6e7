//! The part of a session's conversation that only the agent's own record has.
//!
//! Of a conversation that began without berth that is what was said before it came here; of an agent in a terminal
//! interface of its own it is all of it.
//! Promise: the newest part costs the same however long the record is.
//! Start with [`find`].

use std::collections::HashSet;
use std::path::PathBuf;

use berth_api::turn::TurnView;
use berth_api::{Problem, Status, Timestamp};
use berth_core::{Event, Origin, SessionId};
use berth_journal::Committed;
use berth_keeper::turn;
use berth_store::History;
use berth_store::history::Stored;
use berth_transcript::Kind;

use super::{ItemsFrom, Recorded, Told};
use crate::ctx::Ctx;
use crate::foreign::said::{self, Exchange, Said};

/// Among so many first events are those that say what a session is, and where it comes from.
const FIRST_EVENTS: u64 = 4;
/// How many exchanges are read at a time to find those of turns, and in how many pieces at most.
const EXCHANGES_AT_A_TIME: usize = 100;
const MOST_PIECES: usize = 8;
/// How long before berth hears of a prompt the agent may have written it down, and the other way round.
const CLOCK_SLACK_MS: u64 = 2000;

/// The agent's own record of a session's conversation.
#[derive(Debug)]
pub(crate) struct OwnRecord {
    kind: Kind,
    pub(crate) path: PathBuf,
    /// What is behind this place was told to a keeper, and is in turns.
    until: Option<u64>,
    /// Exchanges from this moment on were told to a keeper.
    until_at: Option<Timestamp>,
}

/// The record of this session's conversation, if there is one that has something which no turn has.
pub(crate) fn find(ctx: &Ctx, id: &SessionId, status: &Status) -> Result<Option<OwnRecord>, Problem> {
    let Some(kind) = Kind::of(&status.what.conversation) else { return Ok(None) };
    let events = ctx.home.session(id).read_range(1, FIRST_EVENTS, usize::MAX).unwrap_or_default();
    let imported = events.iter().find_map(|event| match &event.get().event {
        Event::Imported { bytes, .. } => Some(*bytes),
        _ => None,
    });
    let mut session = History::replay(&events).session;
    let (mut until, mut until_at) = (None, None);
    if !status.what.has_terminal() {
        let origin = session.spec.as_ref().map(|spec| &spec.origin);
        match (imported, origin) {
            (Some(bytes), _) => until = Some(bytes),
            (None, Some(Origin::Resumed(_) | Origin::Forked(_))) => until_at = Some(status.created_at),
            // All of it was told to a keeper.
            (None, Some(Origin::New | Origin::Named(_)) | None) => return Ok(None),
        }
    }
    // The conversation of the first events may have been left since; where the agent keeps it is the same.
    if let Some(conversation_id) = &status.conversation_id {
        let store = session.conversation.take().map(|known| known.store).unwrap_or_default();
        session.conversation = Some(berth_core::Conversation { id: conversation_id.clone(), store });
    }
    let files = turn::conversation_files(&session).unwrap_or_default();
    Ok(files.into_iter().next().map(|path| OwnRecord { kind, path, until, until_at }))
}

impl OwnRecord {
    /// What is not in turns: the newest exchanges before `before`, at most `limit`. `first` is the first turn of an agent
    /// in a terminal, which the record has as well.
    pub(super) fn before_turns(
        &self,
        first: Option<&TurnView>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Option<Recorded>, Problem> {
        let mut until = match (before, self.until) {
            (Some(before), Some(until)) => Some(before.min(until)),
            (before, until) => before.or(until),
        };
        let ends_at = self.until_at.or(first.map(|first| Timestamp(earliest(first))));
        let mut pieces = 0;
        let said = loop {
            let mut said = said::tail(&self.path, until, limit)?;
            let begin = said.exchanges.first().map(|one| one.offset);
            if let Some(ends_at) = ends_at {
                said.exchanges.retain(|one| one.at.is_none_or(|at| at < ends_at));
            }
            pieces += 1;
            // All of these are turns: what is before them is further up.
            match begin.filter(|_| said.exchanges.is_empty() && said.cut && pieces < MOST_PIECES) {
                Some(begin) => until = Some(begin),
                None => break said,
            }
        };
        let before = said.exchanges.first().map(|one| one.offset).filter(|_| said.cut);
        let exchanges = said.exchanges;
        let some = (!exchanges.is_empty()).then(|| Recorded { agent: self.kind.word(), exchanges, before });
        Ok(some)
    }

    /// Gives turns that were typed into a terminal what the record has of them.
    pub(super) fn fill(&self, turns: &mut [Told]) -> Result<(), Problem> {
        let Some(first) = turns.first().map(|told| earliest(&told.turn)) else { return Ok(()) };
        let (mut until, mut exchanges) = (self.until, Vec::<Exchange>::new());
        for _ in 0..MOST_PIECES {
            let mut said = said::tail(&self.path, until, EXCHANGES_AT_A_TIME)?;
            let Some(oldest) = said.exchanges.first() else { break };
            let is_enough = !said.cut || oldest.at.is_some_and(|at| at.0 < first);
            until = Some(oldest.offset);
            said.exchanges.append(&mut exchanges);
            exchanges = said.exchanges;
            if is_enough {
                break;
            }
        }
        let mut rest = &mut exchanges[..];
        for told in turns {
            let is_it = |one: &Exchange| {
                let is_late_enough = one.at.is_none_or(|at| at.0 >= earliest(&told.turn));
                is_late_enough && one.prompt.as_deref().is_some_and(|prompt| same(prompt, &told.turn.prompt))
            };
            let Some(at) = rest.iter().position(is_it) else { continue };
            let (before, behind) = rest.split_at_mut(at + 1);
            let items = std::mem::take(&mut before[at].items);
            if !items.is_empty() {
                (told.items, told.items_from) = (items, ItemsFrom::Record);
            }
            rest = behind;
        }
        Ok(())
    }

    /// All of it that is not in turns, from its beginning.
    pub(crate) fn read(&self) -> Result<Said, Problem> {
        let mut said = said::read_until(&self.path, self.until)?;
        if let Some(ends_at) = self.until_at {
            said.exchanges.retain(|one| one.at.is_none_or(|at| at < ends_at));
        }
        Ok(said)
    }
}

/// The agent's own records of all conversations that a session had, in order, and whether all of them are there.
pub(crate) fn own_files(events: &[Committed<Stored>]) -> (Vec<PathBuf>, bool) {
    let mut session = History::replay(events).session;
    // A person may begin a new conversation in the same terminal.
    let entered = |event: &Committed<Stored>| match &event.get().event {
        Event::ConversationEntered { conversation } => Some(Some(conversation.clone())),
        _ => None,
    };
    let mut had: Vec<_> = events.iter().filter_map(entered).collect();
    if had.is_empty() {
        had.push(session.conversation.clone());
    }
    let (mut paths, mut is_all) = (Vec::new(), true);
    for conversation in had {
        session.conversation = conversation;
        let files = turn::conversation_files(&session).unwrap_or_default();
        is_all &= !files.is_empty();
        paths.extend(files);
    }
    let mut known = HashSet::new();
    paths.retain(|path| known.insert(path.clone()));
    (paths, is_all)
}

/// The earliest moment at which the record may have this turn's prompt.
fn earliest(turn: &TurnView) -> u64 {
    turn.accepted_at.0.saturating_sub(CLOCK_SLACK_MS)
}

/// Whether both are the same words: a terminal changes blanks and line ends.
fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}
