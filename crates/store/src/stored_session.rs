//! A session's past without its keeper: its history, and its turns.
//!
//! Promise: the result follows from the journal alone. Snapshot and turn index save reading, and are believed only
//! as far as the journal confirms them.
//! Not here: asking a live keeper (see `verbs`).
//! Start with `StoredSession::read`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use berth_api::Problem;
use berth_api::turn::TurnView;
use berth_core::SessionId;
use berth_journal::Committed;

use crate::session_view::{SessionView, StoredEvent};
use crate::snapshot::Snapshot;
use crate::turn_index::{TurnIndex, TurnLink, by_turn};
use crate::turn_output::TurnOutputs;
use crate::{store, turn_view};

/// Number of turns that are read at once: first a few, because a page of long turns has no more, and then twice as many
/// each time, up to the limit.
const FIRST_CHUNK_TURNS: u64 = 4;
const MOST_CHUNK_TURNS: u64 = 32;
/// Size of the first piece of the journal that is searched for the end of a turn's output, in bytes: the end is usually
/// the next turn's delivery, a few events later.
const FIRST_PIECE_BYTES: usize = 2 << 10;
/// Limit for the size of the later pieces.
const MOST_PIECE_BYTES: usize = 256 << 10;
/// Events with fewer numbers between them are read together.
const NEAR_EVENTS: u64 = 16;

/// History and turns of a session, as its journal has them.
#[derive(Debug)]
pub struct StoredSession {
    dir: PathBuf,
    id: SessionId,
    /// Summary of the session's past.
    pub history: SessionView,
    /// Links from events of the tail to turns.
    links: Vec<TurnLink>,
    /// Number of the last event before the tail: the turn index has the events up to this one.
    indexed_to: u64,
}

impl StoredSession {
    /// Reads the session in `dir`: the snapshot, and the events behind it.
    pub(crate) fn read(dir: &Path, id: &SessionId) -> Result<Self, Problem> {
        Self::behind(Snapshot::read(dir, id), dir, id)
    }

    /// Reads the session, with the keys of all turns.
    pub(crate) fn read_with_keys(dir: &Path, id: &SessionId) -> Result<Self, Problem> {
        Self::behind(Snapshot::read(dir, id).and_then(|snapshot| snapshot.with_keys(dir)), dir, id)
    }

    fn behind(snapshot: Option<Snapshot>, dir: &Path, id: &SessionId) -> Result<Self, Problem> {
        let tail = snapshot.and_then(|Snapshot { checkpoint, history, .. }| {
            // Errors are ignored here: the reader of the whole journal reports them.
            Some((store::read_after(dir, id, checkpoint).ok()??, history))
        });
        let (events, mut history) = match tail {
            Some(tail) => tail,
            None => (store::read(dir, id, 1)?, SessionView::default()),
        };
        let indexed_to = history.seq;
        let links = events.iter().flat_map(|event| history.apply(event)).collect();
        Ok(Self { dir: dir.to_owned(), id: id.clone(), history, links, indexed_to })
    }

    /// At most `limit` turns from the turn `from` on, and no more once their texts have `most_bytes`.
    pub fn turns(&self, from: u64, limit: u64, most_bytes: usize) -> Result<Vec<TurnView>, Problem> {
        let index = TurnIndex::open(&self.dir).ok().filter(|_| self.indexed_to > 0);
        let tail = by_turn(&self.links);
        let links = |turn: u64| {
            let indexed = index.as_ref().map(|index| index.links(turn, self.indexed_to));
            let indexed = indexed.and_then(Result::ok).flatten();
            let tail = tail.get(&turn).cloned().unwrap_or_default();
            indexed.unwrap_or_default().into_iter().chain(tail).collect()
        };
        let page = TurnPageRequest { from, limit, most_bytes };
        match page.read(&self.dir, &self.id, &self.history, links)? {
            Some(views) => Ok(views),
            None => Ok(page.replay(&self.id, &store::read(&self.dir, &self.id, 1)?, &self.history)),
        }
    }

    /// Offsets at which the outputs of these turns end, by turn (see [`TurnOutputs`]). A turn whose output goes on is
    /// not among them. All turns must have been delivered: the whole journal is searched for a missing delivery.
    pub fn output_ends(&self, turns: &[u64]) -> Result<BTreeMap<u64, u64>, Problem> {
        let turns: BTreeSet<u64> = turns.iter().copied().collect();
        let index = TurnIndex::open(&self.dir).ok().filter(|_| self.indexed_to > 0);
        let indexed = |turn: &u64| index.as_ref()?.links(*turn, self.indexed_to).ok().flatten();
        let mut links: Vec<TurnLink> = turns.iter().filter_map(indexed).flatten().collect();
        links.extend(self.links.iter().filter(|link| turns.contains(&link.turn)));
        links.sort_unstable_by_key(|link| link.seq);
        let mut search = OutputEndSearch::new(self, &turns);
        for link in &links {
            if link.seq >= search.next && !search.outputs.is_delivered(link.turn) {
                search.skip_to(link.seq);
                while search.read_piece()? && search.has_open_turn() {}
            }
        }
        if !turns.iter().all(|turn| search.outputs.is_delivered(*turn)) {
            // Without valid links of some turn, one pass through the journal finds the deliveries of all.
            search = OutputEndSearch::new(self, &turns);
            while search.read_piece()? && !search.has_all_ends() {}
        }
        Ok(turns.iter().filter_map(|turn| Some((*turn, search.outputs.end(*turn)?))).collect())
    }
}

/// Search of the journal for the ends of the outputs of some turns.
struct OutputEndSearch<'a> {
    session: &'a StoredSession,
    turns: &'a BTreeSet<u64>,
    outputs: TurnOutputs,
    /// Number of the next event to read.
    next: u64,
    /// Size of the next piece, in bytes: each is twice as long as the one before it.
    piece_bytes: usize,
}

impl<'a> OutputEndSearch<'a> {
    fn new(session: &'a StoredSession, turns: &'a BTreeSet<u64>) -> Self {
        Self { session, turns, outputs: TurnOutputs::default(), next: 1, piece_bytes: FIRST_PIECE_BYTES }
    }

    /// Continues at this event. Ends that lie before it are of no interest.
    fn skip_to(&mut self, seq: u64) {
        if seq - self.next > NEAR_EVENTS {
            self.piece_bytes = FIRST_PIECE_BYTES;
        }
        self.next = seq;
    }

    /// Reads the next piece of the journal; false if there are no more events.
    fn read_piece(&mut self) -> Result<bool, Problem> {
        let StoredSession { dir, id, .. } = self.session;
        let events = store::read_range(dir, id, self.next, u64::MAX, self.piece_bytes)?;
        events.iter().for_each(|event| self.outputs.note(&event.get().event));
        let Some(last) = events.last() else { return Ok(false) };
        self.next = last.seq().0 + 1;
        self.piece_bytes = (self.piece_bytes * 2).min(MOST_PIECE_BYTES);
        Ok(true)
    }

    /// True if the output of one of the turns has begun and not ended.
    fn has_open_turn(&self) -> bool {
        self.outputs.open_turns().any(|turn| self.turns.contains(&turn))
    }

    fn has_all_ends(&self) -> bool {
        !self.has_open_turn() && self.turns.iter().all(|turn| self.outputs.is_delivered(*turn))
    }
}

/// A page of turns: at most `limit` from the turn `from` on, and no more once their texts have `most_bytes`. If
/// there are such turns, a page has at least one.
#[derive(Clone, Copy, Debug)]
pub struct TurnPageRequest {
    /// Number of the first turn.
    pub from: u64,
    /// Limit of the number of turns.
    pub limit: u64,
    /// Size of texts at which a page is full, in bytes.
    pub most_bytes: usize,
}

impl TurnPageRequest {
    /// Reads turns by their links; `None` where the links of one are not to be trusted.
    pub(crate) fn read(
        self,
        dir: &Path,
        id: &SessionId,
        history: &SessionView,
        links: impl Fn(u64) -> Vec<TurnLink>,
    ) -> Result<Option<Vec<TurnView>>, Problem> {
        let numbers = self.numbers(history);
        let (mut views, mut first, mut count) = (Vec::new(), numbers.start, FIRST_CHUNK_TURNS);
        while first < numbers.end {
            let chunk = first..numbers.end.min(first.saturating_add(count));
            (first, count) = (chunk.end, (count * 2).min(MOST_CHUNK_TURNS));
            let chunk: Vec<Vec<TurnLink>> = chunk.map(&links).collect();
            let Some(more) = turn_view::read_views(dir, id, &history.session, &chunk)? else {
                return Ok(None);
            };
            views.extend(more);
            if self.cut(&mut views) {
                break;
            }
        }
        Ok(Some(views))
    }

    /// Reads turns from the whole journal.
    pub(crate) fn replay(
        self,
        id: &SessionId,
        events: &[Committed<StoredEvent>],
        history: &SessionView,
    ) -> Vec<TurnView> {
        tracing::warn!(session = %id, turn = self.from, "the turn index is in doubt: the journal is replayed");
        let known = events.partition_point(|event| event.seq().0 <= history.seq);
        let mut views = turn_view::turn_views(&events[..known], id);
        let numbers = self.numbers(history);
        views.retain(|view| numbers.contains(&view.number));
        self.cut(&mut views);
        views
    }

    fn numbers(self, history: &SessionView) -> Range<u64> {
        let end = history.session.turns.last().saturating_add(1);
        self.from.max(1)..end.min(self.from.max(1).saturating_add(self.limit))
    }

    /// Drops the turns behind the one that reaches the limit; true if there is one.
    fn cut(self, views: &mut Vec<TurnView>) -> bool {
        let mut bytes = 0;
        let full = views.iter().position(|view| {
            bytes += view.text_bytes();
            bytes >= self.most_bytes
        });
        views.truncate(full.map_or(views.len(), |last| last + 1));
        full.is_some()
    }
}
