//! Pages of the journal for readers that are behind: each page is read once for all concurrent readers.
//!
//! Promise: the cache has a limit, and a page that is not cached is read again. Readers of a page wait in line, so that
//! a thousand readers that reconnect at once cost one read.

use std::collections::VecDeque;
use std::sync::Arc;

use berth_api::{Problem, ViewerRights};
use berth_core::SessionId;
use berth_verbs::VerbContext;
use berth_verbs::events::{self, EventLine};
use bytes::Bytes;
use tokio::sync::{Mutex, Semaphore};

use super::sse;
use crate::viewer_filter::SharedJson;

/// Size of a page.
const PIECE_BYTES: usize = 1024 * 1024;
/// Number of cached pages of one session, for readers that follow closely.
const KEPT_PIECES: usize = 4;

/// Cached pages of one session.
#[derive(Debug)]
pub(crate) struct EventPages {
    ctx: VerbContext,
    id: SessionId,
    /// Limits reads of the disk, for all sessions together.
    disk: Arc<Semaphore>,
    kept: Mutex<VecDeque<EventPage>>,
}

/// Consecutive serialized events.
#[derive(Clone, Debug)]
struct EventPage {
    first: u64,
    bytes: Bytes,
    /// Offset of each event.
    starts: Arc<[usize]>,
    /// The events of which parts are hidden from some readers.
    hides: Arc<[(u64, SharedJson<EventLine>)]>,
}

impl EventPage {
    fn last(&self) -> u64 {
        self.first + self.starts.len() as u64 - 1
    }

    /// The events from number `from` up to `to`, as the caller may see them, and the number of the last one.
    fn cut(&self, from: u64, to: u64, viewer: &ViewerRights) -> Option<(Bytes, u64)> {
        let last = self.last().min(to);
        if from < self.first || from > last {
            return None;
        }
        let at = |seq: u64| self.starts.get((seq - self.first) as usize).copied();
        let (mut start, end) = (at(from)?, at(last + 1).unwrap_or(self.bytes.len()));
        let mut shown = Vec::new();
        let hidden = self.hides.iter().filter(|(seq, _)| (from..=last).contains(seq) && !viewer.sees_all());
        for (seq, line) in hidden {
            shown.extend_from_slice(&self.bytes[start..at(*seq)?]);
            shown.extend_from_slice(&line.bytes(viewer));
            start = at(seq + 1).unwrap_or(self.bytes.len());
        }
        let rest = self.bytes.slice(start..end);
        Some((if shown.is_empty() { rest } else { [&shown[..], &rest[..]].concat().into() }, last))
    }
}

impl EventPages {
    pub(crate) fn new(ctx: VerbContext, id: SessionId, disk: Arc<Semaphore>) -> Self {
        Self { ctx, id, disk, kept: Mutex::default() }
    }

    /// True if the session is deleted. A session whose directory cannot be read may still exist.
    pub(crate) fn is_gone(&self) -> bool {
        self.ctx.home.is_purged(&self.id)
    }

    /// Reads some of the events from number `from` to number `to`, all of which are on disk: their bytes, as the caller
    /// may see them, and the number of the last one.
    pub(crate) async fn get(
        &self,
        from: u64,
        to: u64,
        viewer: &ViewerRights,
    ) -> Result<(Bytes, u64), Problem> {
        let mut kept = self.kept.lock().await;
        if let Some(found) = kept.iter().find_map(|piece| piece.cut(from, to, viewer)) {
            return Ok(found);
        }
        let _turn = self.disk.acquire().await.expect("the semaphore is never closed");
        let (ctx, id) = (self.ctx.clone(), self.id.clone());
        let read = tokio::task::spawn_blocking(move || read(&ctx, &id, from, to)).await;
        let piece = read.map_err(|error| Problem::bug(format!("reading a journal failed: {error}")))??;
        let cut = piece.cut(from, to, viewer).ok_or_else(|| {
            Problem::refused(format!("the journal of session {} lacks event {from}", self.id))
                .hint("docs/recovery.md says what to do with damaged journals")
        })?;
        if kept.len() == KEPT_PIECES {
            kept.pop_front();
        }
        if piece.bytes.len() <= 2 * PIECE_BYTES {
            kept.push_back(piece);
        }
        Ok(cut)
    }
}

fn read(ctx: &VerbContext, id: &SessionId, from: u64, to: u64) -> Result<EventPage, Problem> {
    let lines = events::read(ctx, id, from, to, PIECE_BYTES)?;
    let mut bytes = Vec::new();
    let (mut starts, mut hides) = (Vec::with_capacity(lines.len()), Vec::new());
    for line in &lines {
        starts.push(bytes.len());
        sse::write(&mut bytes, Some(line.seq), "event", line);
        let line = (line.seq, SharedJson::new(line, sse::line));
        hides.extend(Some(line).filter(|(_, line)| line.hides()));
    }
    Ok(EventPage { first: from, bytes: bytes.into(), starts: starts.into(), hides: hides.into() })
}
