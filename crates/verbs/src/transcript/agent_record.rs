//! The part of a session's conversation that only the agent's transcript has.
//!
//! For a conversation that began without berth, that is the dialogue before its adoption; for an agent in a terminal
//! interface of its own, the whole dialogue.
//! Promise: the cost of the newest part does not depend on the length of the record.
//! Start with [`find`].

use std::collections::HashSet;
use std::path::PathBuf;

use berth_api::turn::TurnView;
use berth_api::{Problem, SessionStatus, Timestamp};
use berth_conversations::location;
use berth_core::{ConversationOrigin, Event, SessionId};
use berth_journal::Committed;
use berth_store::SessionView;
use berth_store::session_view::StoredEvent;
use berth_transcript::TranscriptKind;

use super::{ItemSource, RecordedConversation, TranscriptTurn};
use crate::context::VerbContext;
use crate::foreign::conversation_text::{self, ConversationExchange, ConversationText};

/// The kind and origin of a session are among this many first events.
const FIRST_EVENTS: u64 = 4;
/// Exchanges per read when the exchanges of turns are searched, and limit for those reads.
const EXCHANGES_AT_A_TIME: usize = 100;
const MOST_PIECES: usize = 8;
/// Time by which the agent may record a prompt before berth learns of it, or after that.
const CLOCK_SLACK_MS: u64 = 2000;

/// The agent's transcript of a session's conversation.
#[derive(Debug)]
pub(crate) struct AgentRecord {
    kind: TranscriptKind,
    pub(crate) path: PathBuf,
    /// Offset after which the record is covered by turns.
    until: Option<u64>,
    /// Time from which exchanges are covered by turns.
    until_at: Option<Timestamp>,
}

/// The record of this session's conversation, if it has dialogue that no turn has.
pub(crate) fn find(
    ctx: &VerbContext,
    id: &SessionId,
    status: &SessionStatus,
) -> Result<Option<AgentRecord>, Problem> {
    let Some(kind) = TranscriptKind::of(&status.what.conversation) else { return Ok(None) };
    let events = ctx.home.session(id).read_range(1, FIRST_EVENTS, usize::MAX).unwrap_or_default();
    let imported = events.iter().find_map(|event| match &event.get().event {
        Event::Imported { bytes, .. } => Some(*bytes),
        _ => None,
    });
    let mut session = SessionView::replay(&events).session;
    let (mut until, mut until_at) = (None, None);
    if !status.what.has_terminal() {
        let origin = session.spec.as_ref().map(|spec| &spec.origin);
        match (imported, origin) {
            (Some(bytes), _) => until = Some(bytes),
            (None, Some(ConversationOrigin::Resumed(_) | ConversationOrigin::Forked(_))) => {
                until_at = Some(status.created_at)
            }
            // A keeper recorded the whole dialogue.
            (None, Some(ConversationOrigin::New | ConversationOrigin::Named(_)) | None) => return Ok(None),
        }
    }
    // The session may have another conversation by now; the agent keeps it in the same place.
    if let Some(conversation_id) = &status.conversation_id {
        let store = session.conversation.take().map(|known| known.store).unwrap_or_default();
        session.conversation = Some(berth_core::Conversation { id: conversation_id.clone(), store });
    }
    let files = location::conversation_files(&session).unwrap_or_default();
    Ok(files.into_iter().next().map(|path| AgentRecord { kind, path, until, until_at }))
}

impl AgentRecord {
    /// Dialogue that is not in turns: the newest exchanges before `before`, at most `limit`. `first` is the first turn
    /// of an agent in a terminal, which the record has as well.
    pub(super) fn before_turns(
        &self,
        first: Option<&TurnView>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Option<RecordedConversation>, Problem> {
        let mut until = match (before, self.until) {
            (Some(before), Some(until)) => Some(before.min(until)),
            (before, until) => before.or(until),
        };
        let ends_at = self.until_at.or(first.map(|first| Timestamp(earliest(first))));
        let mut pieces = 0;
        let said = loop {
            let mut said = conversation_text::tail(&self.path, until, limit)?;
            let begin = said.exchanges.first().map(|one| one.offset);
            if let Some(ends_at) = ends_at {
                said.exchanges.retain(|one| one.at.is_none_or(|at| at < ends_at));
            }
            pieces += 1;
            // All of these exchanges are turns: the others are before them.
            match begin.filter(|_| said.exchanges.is_empty() && said.cut && pieces < MOST_PIECES) {
                Some(begin) => until = Some(begin),
                None => break said,
            }
        };
        let before = said.exchanges.first().map(|one| one.offset).filter(|_| said.cut);
        let exchanges = said.exchanges;
        let some = (!exchanges.is_empty()).then(|| RecordedConversation {
            agent: self.kind.word(),
            exchanges,
            before,
        });
        Ok(some)
    }

    /// Adds the record's items to turns that were typed into a terminal.
    pub(super) fn fill(&self, turns: &mut [TranscriptTurn]) -> Result<(), Problem> {
        let Some(first) = turns.first().map(|told| earliest(&told.turn)) else { return Ok(()) };
        let (mut until, mut exchanges) = (self.until, Vec::<ConversationExchange>::new());
        for _ in 0..MOST_PIECES {
            let mut said = conversation_text::tail(&self.path, until, EXCHANGES_AT_A_TIME)?;
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
            let is_it = |one: &ConversationExchange| {
                let is_late_enough = one.at.is_none_or(|at| at.0 >= earliest(&told.turn));
                is_late_enough && one.prompt.as_deref().is_some_and(|prompt| same(prompt, &told.turn.prompt))
            };
            let Some(at) = rest.iter().position(is_it) else { continue };
            let (before, behind) = rest.split_at_mut(at + 1);
            let items = std::mem::take(&mut before[at].items);
            if !items.is_empty() {
                (told.items, told.items_from) = (items, ItemSource::Record);
            }
            rest = behind;
        }
        Ok(())
    }

    /// The whole dialogue that is not in turns, from its beginning.
    pub(crate) fn read(&self) -> Result<ConversationText, Problem> {
        let mut said = conversation_text::read_until(&self.path, self.until)?;
        if let Some(ends_at) = self.until_at {
            said.exchanges.retain(|one| one.at.is_none_or(|at| at < ends_at));
        }
        Ok(said)
    }
}

/// The agent's transcripts of all conversations that a session had, in order, and true if every record exists.
pub(crate) fn own_files(events: &[Committed<StoredEvent>]) -> (Vec<PathBuf>, bool) {
    let mut session = SessionView::replay(events).session;
    // A user may begin a new conversation in the same terminal.
    let entered = |event: &Committed<StoredEvent>| match &event.get().event {
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
        let files = location::conversation_files(&session).unwrap_or_default();
        is_all &= !files.is_empty();
        paths.extend(files);
    }
    let mut known = HashSet::new();
    paths.retain(|path| known.insert(path.clone()));
    (paths, is_all)
}

/// The earliest time at which the record may have this turn's prompt.
fn earliest(turn: &TurnView) -> u64 {
    turn.accepted_at.0.saturating_sub(CLOCK_SLACK_MS)
}

/// True if both texts have the same words: a terminal changes spaces and line ends.
fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}
