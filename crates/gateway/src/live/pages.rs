//! The journal for those who are behind: read in pieces, each once for all who want it at that moment.
//!
//! Promise: what is kept has a limit; a piece that is not kept is read again. Who waits for a piece waits in line,
//! so that a thousand readers who come back at once cost one reading.

use std::collections::VecDeque;
use std::sync::Arc;

use berth_api::{Code, Problem, Viewer};
use berth_core::SessionId;
use berth_verbs::Ctx;
use berth_verbs::events::{self, Line};
use bytes::Bytes;
use tokio::sync::{Mutex, Semaphore};

use super::sse;
use crate::visible::Shared;

/// How much of a journal is read at a time.
const PIECE_BYTES: usize = 1024 * 1024;
/// How many pieces of one session are kept for those who come right behind.
const KEPT_PIECES: usize = 4;

/// The pieces of one session.
#[derive(Debug)]
pub(crate) struct Pages {
    ctx: Ctx,
    id: SessionId,
    /// Everybody's right to read the disk.
    disk: Arc<Semaphore>,
    kept: Mutex<VecDeque<Piece>>,
}

/// Events that follow each other, as they are sent.
#[derive(Clone, Debug)]
struct Piece {
    first: u64,
    bytes: Bytes,
    /// Where each event begins.
    starts: Arc<[usize]>,
    /// Those that not all readers may see all of.
    hides: Arc<[(u64, Shared<Line>)]>,
}

impl Piece {
    fn last(&self) -> u64 {
        self.first + self.starts.len() as u64 - 1
    }

    /// The events from number `from` to the last that is wanted, as the caller may see them, and its number.
    fn cut(&self, from: u64, to: u64, viewer: &Viewer) -> Option<(Bytes, u64)> {
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

impl Pages {
    pub(crate) fn new(ctx: Ctx, id: SessionId, disk: Arc<Semaphore>) -> Self {
        Self { ctx, id, disk, kept: Mutex::default() }
    }

    /// Whether the session is no more. One whose place cannot be looked at may be there all the same.
    pub(crate) fn is_gone(&self) -> bool {
        self.ctx.home.is_purged(&self.id)
    }

    /// Some of the events from number `from` to number `to`, all of which are on disk: the bytes, as the caller may
    /// see them, and the number of the last one in them.
    pub(crate) async fn get(&self, from: u64, to: u64, viewer: &Viewer) -> Result<(Bytes, u64), Problem> {
        let mut kept = self.kept.lock().await;
        if let Some(found) = kept.iter().find_map(|piece| piece.cut(from, to, viewer)) {
            return Ok(found);
        }
        let _turn = self.disk.acquire().await.expect("nobody closes it");
        let (ctx, id) = (self.ctx.clone(), self.id.clone());
        let read = tokio::task::spawn_blocking(move || read(&ctx, &id, from, to)).await;
        let piece =
            read.map_err(|error| Problem::new(Code::Bug, format!("reading a journal failed: {error}")))??;
        let cut = piece.cut(from, to, viewer).ok_or_else(|| {
            Problem::new(Code::Refused, format!("the journal of session {} lacks event {from}", self.id))
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

fn read(ctx: &Ctx, id: &SessionId, from: u64, to: u64) -> Result<Piece, Problem> {
    let lines = events::read(ctx, id, from, to, PIECE_BYTES)?;
    let mut bytes = Vec::new();
    let (mut starts, mut hides) = (Vec::with_capacity(lines.len()), Vec::new());
    for line in &lines {
        starts.push(bytes.len());
        sse::write(&mut bytes, Some(line.seq), "event", line);
        let line = (line.seq, Shared::new(line, sse::line));
        hides.extend(Some(line).filter(|(_, line)| line.hides()));
    }
    Ok(Piece { first: from, bytes: bytes.into(), starts: starts.into(), hides: hides.into() })
}
