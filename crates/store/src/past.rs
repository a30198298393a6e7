//! A session's past without its keeper: what the journal tells, and its turns.
//!
//! Promise: what is told follows from the journal alone. Snapshot and turn index save reading, and are believed only as
//! far as the journal bears them out.
//! Start with `SessionPast::read`.

use std::ops::Range;
use std::path::{Path, PathBuf};

use berth_api::Problem;
use berth_api::turn::TurnView;
use berth_core::SessionId;
use berth_journal::Committed;

use crate::history::{History, Stored};
use crate::snapshot::Snapshot;
use crate::turn_index::{Link, TurnIndex, by_turn};
use crate::{store, turn_view};

/// How many turns are read at once.
const CHUNK_TURNS: usize = 32;

/// What the journal tells of a session.
#[derive(Debug)]
pub struct SessionPast {
    dir: PathBuf,
    id: SessionId,
    /// The session's past, summed up.
    pub history: History,
    /// Which events of the tail tell something of a turn.
    links: Vec<Link>,
    /// The number of the last event before the tail: the turn index tells of the events up to this one.
    indexed_to: u64,
}

impl SessionPast {
    /// Reads what the journal of the session in `dir` tells: the snapshot, and the events behind it.
    pub(crate) fn read(dir: &Path, id: &SessionId) -> Result<Self, Problem> {
        Self::behind(Snapshot::read(dir, id), dir, id)
    }

    /// Reads what the journal tells, and the keys of all turns.
    pub(crate) fn read_with_keys(dir: &Path, id: &SessionId) -> Result<Self, Problem> {
        Self::behind(Snapshot::read(dir, id).and_then(|snapshot| snapshot.with_keys(dir)), dir, id)
    }

    fn behind(snapshot: Option<Snapshot>, dir: &Path, id: &SessionId) -> Result<Self, Problem> {
        let tail = snapshot.and_then(|Snapshot { checkpoint, history, .. }| {
            // An error is told by whoever reads the whole journal.
            Some((store::read_after(dir, id, checkpoint).ok()??, history))
        });
        let (events, mut history) = match tail {
            Some(tail) => tail,
            None => (store::read(dir, id, 1)?, History::default()),
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
        let page = Page { from, limit, most_bytes };
        match page.read(&self.dir, &self.id, &self.history, links)? {
            Some(views) => Ok(views),
            None => Ok(page.replay(&self.id, &store::read(&self.dir, &self.id, 1)?, &self.history)),
        }
    }
}

/// Which turns are wanted: at most `limit` from the turn `from` on, and no more once their texts have `most_bytes`. What
/// is there gives at least one.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// The number of the first turn.
    pub from: u64,
    /// The most turns.
    pub limit: u64,
    /// The size of texts at which a page is full.
    pub most_bytes: usize,
}

impl Page {
    /// Reads turns by their links; `None` where the links of one are not to be trusted.
    pub(crate) fn read(
        self,
        dir: &Path,
        id: &SessionId,
        history: &History,
        links: impl Fn(u64) -> Vec<Link>,
    ) -> Result<Option<Vec<TurnView>>, Problem> {
        let numbers = self.numbers(history);
        let mut views = Vec::new();
        for first in numbers.clone().step_by(CHUNK_TURNS) {
            let chunk = first..numbers.end.min(first + CHUNK_TURNS as u64);
            let chunk: Vec<Vec<Link>> = chunk.map(&links).collect();
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
        events: &[Committed<Stored>],
        history: &History,
    ) -> Vec<TurnView> {
        tracing::warn!(session = %id, turn = self.from, "the turn index is in doubt: the journal is replayed");
        let known = events.partition_point(|event| event.seq().0 <= history.seq);
        let mut views = turn_view::views(&events[..known], id);
        let numbers = self.numbers(history);
        views.retain(|view| numbers.contains(&view.number));
        self.cut(&mut views);
        views
    }

    fn numbers(self, history: &History) -> Range<u64> {
        let end = history.session.turns.last().saturating_add(1);
        self.from.max(1)..end.min(self.from.max(1).saturating_add(self.limit))
    }

    /// Drops the turns behind the one that reaches the limit; says whether there is one.
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
