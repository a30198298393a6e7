//! Recovery: reads a journal back, and tells a crash from damage.
//!
//! Promise: the events are exactly those that were written, from the first number on without a gap; where that is
//! impossible, the result is an error and not one byte is changed. Only the last write of the last segment may be
//! incomplete.
//! Not here: putting the tail in order (see `Journal::open`); everything in this file only reads.
//! Start with [`scan`].

use std::ops::RangeInclusive;

use crate::disk::JournalDisk;
use crate::error::{JournalError, SegmentDamage};
use crate::event::{Checkpoint, Committed, JournalRecord, Seq};
use crate::files;
use crate::frame::{FRAME_HEADER_BYTES, FrameCodec, JournalFrame, u32_at, u64_at};
use crate::index::{self, FrameOffset};
use crate::segment::{self, HEADER_BYTES, JournalSegment, SegmentWalk, WalkEnd};

/// A guess at the size of an event, to read what is wanted at once.
const LIKELY_EVENT_BYTES: u64 = 512;
/// The smallest piece of a segment that is read.
const LEAST_READ_BYTES: usize = 4096;

/// Result of [`Journal::open`](crate::Journal::open).
#[derive(Debug)]
pub struct RecoveredJournal<T> {
    /// All events, or those behind the checkpoint. Events that were written but not confirmed when the last writer
    /// died are safe now as well.
    pub events: Vec<Committed<T>>,
    /// Torn tail of the last writer, if there is one.
    pub torn: Option<TornTail>,
}

/// Bytes of an append that was cut short by a crash. No caller was ever told that they are safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Number of bytes.
    pub bytes: u64,
    /// File in the journal's directory that has them now.
    pub kept_as: String,
    /// File that they were found in.
    pub segment: String,
    /// Offset in that file at which they began.
    pub offset: u64,
}

/// Reads the events from `from` on, without a lock and without writing, while a writer may be at work.
///
/// An incomplete tail is simply the end. The last batch seen may be one whose append is still under way in the other
/// process, so do not act on the newest events on its behalf: ask the writer for that.
pub fn read_journal<T: JournalRecord, D: JournalDisk>(
    disk: &D,
    owner: &str,
    from: Seq,
) -> Result<Vec<Committed<T>>, JournalError> {
    read_journal_range(disk, owner, from, Seq(u64::MAX), usize::MAX)
}

/// Reads the events from `from` to `to`, and stops once there are `most_bytes`. The cost is that of these events: the
/// index of a segment says where they begin, and what lies behind them is not read, so a long journal can be read piece
/// by piece and its damage shows where it is read. What is there gives at least one event.
pub fn read_journal_range<T: JournalRecord, D: JournalDisk>(
    disk: &D,
    owner: &str,
    from: Seq,
    to: Seq,
    most_bytes: usize,
) -> Result<Vec<Committed<T>>, JournalError> {
    let reading = ScanRequest { wanted: from..=to, most_bytes, after: None, opening: None };
    Ok(read_beside_writer(disk, owner, &reading)?.events)
}

/// Reads the events behind a checkpoint, like [`read_journal`]. `None` if the event at the checkpoint is missing or
/// differs: then data derived from it does not belong to this journal.
pub fn read_journal_after<T: JournalRecord, D: JournalDisk>(
    disk: &D,
    owner: &str,
    checkpoint: Checkpoint,
) -> Result<Option<Vec<Committed<T>>>, JournalError> {
    let history = read_beside_writer(disk, owner, &ScanRequest::after(checkpoint, None))?;
    Ok(history.fits.then_some(history.events))
}

fn read_beside_writer<T: JournalRecord, D: JournalDisk>(
    disk: &D,
    owner: &str,
    reading: &ScanRequest,
) -> Result<ScannedJournal<T>, JournalError> {
    let codec = FrameCodec::new(owner);
    let mut segments = files::segments(disk)?;
    loop {
        let error = match scan(disk, &codec, &segments, reading) {
            Ok(history) => return Ok(history),
            Err(error) => error,
        };
        // The writer may have made or replaced a segment between our listing and our reading. If the directory
        // still looks the same, the trouble is real.
        let now = files::segments(disk)?;
        if now == segments {
            return Err(error);
        }
        segments = now;
    }
}

/// Contents of the files.
pub(crate) struct ScannedJournal<T> {
    pub(crate) events: Vec<Committed<T>>,
    pub(crate) next: Seq,
    pub(crate) tail: JournalTail,
    /// Last segment, if it is small enough to be taken over into the next one.
    pub(crate) small: Option<CarriedEvents>,
    /// Last event that was read, also if it was not wanted.
    pub(crate) last: Option<Checkpoint>,
    /// False if the reading began behind a checkpoint, and the event there differs from it.
    pub(crate) fits: bool,
    /// First segment that was read.
    pub(crate) begin: Seq,
    /// Segments from there on whose index lacks entries, or has wrong ones. Only an opening checks them.
    pub(crate) unindexed: Vec<Seq>,
    payload_bytes: usize,
}

/// Events that a new segment takes over from the one it replaces, so that many short lives of a journal do not leave a
/// file each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CarriedEvents {
    pub(crate) first: Seq,
    pub(crate) payloads: Vec<Vec<u8>>,
}

impl CarriedEvents {
    /// Takes nothing over; the next event is `next`.
    pub(crate) fn nothing(next: Seq) -> Self {
        CarriedEvents { first: next, payloads: Vec::new() }
    }
}

/// State of the tail, which a new writer has to settle first.
pub(crate) enum JournalTail {
    /// Nothing: there is no event yet, or everything was synced before the seal was written.
    Settled,
    /// The last segment was being created, and nothing can be read from it. Those before it are complete.
    Unborn(TornBytes),
    /// The last writer did not close the journal. The bytes of its last write may be in the kernel's memory only,
    /// even if a sync succeeds now, because an earlier one may have failed.
    Unproven { payloads: Vec<Vec<u8>>, torn: Option<TornBytes> },
}

/// End of the good part of the last segment, and the bytes behind it.
pub(crate) struct TornBytes {
    pub(crate) segment: String,
    pub(crate) offset: usize,
    pub(crate) bytes: Vec<u8>,
}

/// Purpose of a scan.
pub(crate) struct ScanRequest {
    wanted: RangeInclusive<Seq>,
    most_bytes: usize,
    /// Event before the wanted ones, which must match.
    after: Option<Checkpoint>,
    opening: Option<WriterScan>,
}

/// Data that only a writer needs: how the last segment ends.
#[derive(Clone, Copy)]
pub(crate) struct WriterScan {
    /// Size below which the last segment is kept for the next one to take over. Such a segment needs no index.
    pub(crate) carry_below: u64,
}

impl ScanRequest {
    pub(crate) fn all(opening: WriterScan) -> Self {
        let wanted = Seq(1)..=Seq(u64::MAX);
        ScanRequest { wanted, most_bytes: usize::MAX, after: None, opening: Some(opening) }
    }

    pub(crate) fn after(checkpoint: Checkpoint, opening: Option<WriterScan>) -> Self {
        let wanted = Seq(checkpoint.seq.0.saturating_add(1))..=Seq(u64::MAX);
        ScanRequest { wanted, most_bytes: usize::MAX, after: Some(checkpoint), opening }
    }

    /// First event that is looked at.
    fn begin(&self) -> Seq {
        self.after.map_or(*self.wanted.start(), |checkpoint| checkpoint.seq)
    }

    /// Likely size of the wanted events in a segment, in bytes. Frames have headers, and the event that reaches the limit
    /// is read as a whole: a piece of just `most_bytes` would always be too small, and be read again.
    fn likely_bytes(&self) -> usize {
        let events = self.wanted.end().0.saturating_sub(self.wanted.start().0).saturating_add(1);
        let bytes = usize::try_from(events.saturating_mul(LIKELY_EVENT_BYTES)).unwrap_or(usize::MAX);
        let most =
            self.most_bytes.saturating_add(self.most_bytes / 4).saturating_add(LIKELY_EVENT_BYTES as usize);
        bytes.min(most).max(LEAST_READ_BYTES)
    }
}

/// Reads the segments with the wanted events, and checks that each continues the one before. `segments` are all of
/// the journal.
pub(crate) fn scan<T: JournalRecord, D: JournalDisk>(
    disk: &D,
    codec: &FrameCodec,
    segments: &[Seq],
    reading: &ScanRequest,
) -> Result<ScannedJournal<T>, JournalError> {
    let scan = JournalScan { disk, codec, reading };
    let mut history = ScannedJournal {
        events: Vec::new(),
        next: Seq(1),
        tail: JournalTail::Settled,
        small: None,
        last: None,
        fits: reading.after.is_none(),
        begin: Seq(1),
        unindexed: Vec::new(),
        payload_bytes: 0,
    };
    let Some(&oldest) = segments.first().filter(|_| !reading.wanted.is_empty()) else { return Ok(history) };
    if oldest != Seq(1) {
        let damage = SegmentDamage::Gap { expected: Seq(1), found: oldest };
        return Err(JournalError::Corrupt { path: disk.path(""), offset: 0, damage });
    }
    let begin = reading.begin();
    let skipped = segments.partition_point(|&first| first <= begin).saturating_sub(1);
    history.begin = segments[skipped];
    for at in skipped..segments.len() {
        // The successor determines where a segment ends, so its header is read even if none of its events is wanted.
        let successor = match segments.get(at + 1) {
            Some(&first) => Some(JournalSegment::load_front(disk, codec, first, HEADER_BYTES)?),
            None => None,
        };
        let begin = if at == skipped { scan.place(segments[at], begin) } else { None };
        if scan.take_from(segments[at], begin, successor.as_ref(), &mut history)? == ScanProgress::Enough {
            break;
        }
    }
    Ok(history)
}

/// Outcome of reading a piece of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanProgress {
    /// The piece is too small to decide. Nothing of it was taken.
    Cut,
    /// The segment is through, the next one is to be read.
    Through,
    /// All wanted events are there, or there are no more.
    Enough,
}

struct JournalScan<'a, D> {
    disk: &'a D,
    codec: &'a FrameCodec,
    reading: &'a ScanRequest,
}

impl<D: JournalDisk> JournalScan<'_, D> {
    /// Offset in a segment from which to read, if skipping the part before it saves time. The offset is not proven
    /// to be right.
    fn place(&self, first: Seq, begin: Seq) -> Option<FrameOffset> {
        if begin <= first {
            return None;
        }
        let place = index::place(self.disk, first, begin)?;
        let Some(opening) = self.reading.opening else { return Some(place) };
        // A writer needs the last write as a whole, and this may be it. So begin where the write began.
        let name = segment::file_name(first);
        let frame_header = |offset| {
            let bytes = self.disk.read_at(&name, offset, FRAME_HEADER_BYTES).ok()?;
            (bytes.len() == FRAME_HEADER_BYTES).then_some(bytes)
        };
        let back = u32_at(&frame_header(place.offset)?, 4);
        let offset = place.offset.checked_sub(u64::from(back))?;
        if offset < opening.carry_below.max(HEADER_BYTES as u64) {
            return None;
        }
        Some(FrameOffset { seq: Seq(u64_at(&frame_header(offset)?, 8)), offset })
    }

    /// Takes the wanted events of one segment, and reads no more of it than necessary. The offset from the index is
    /// tried first; in doubt the segment is read from its start.
    fn take_from<T: JournalRecord>(
        &self,
        first: Seq,
        mut begin: Option<FrameOffset>,
        successor: Option<&JournalSegment>,
        history: &mut ScannedJournal<T>,
    ) -> Result<ScanProgress, JournalError> {
        let mut most = if self.reading.opening.is_some() { usize::MAX } else { self.reading.likely_bytes() };
        loop {
            let segment = match begin {
                None => JournalSegment::load_front(self.disk, self.codec, first, most)?,
                Some(place) => match JournalSegment::load_from(self.disk, self.codec, first, place, most)? {
                    Some(segment) => segment,
                    None => {
                        begin = None;
                        continue;
                    }
                },
            };
            match self.take(&segment, successor, history) {
                Ok(ScanProgress::Cut) => most = most.saturating_mul(4),
                Ok(progress) => return Ok(progress),
                Err(_) if begin.is_some() => begin = None,
                Err(error) => return Err(error),
            }
        }
    }

    fn take<T: JournalRecord>(
        &self,
        segment: &JournalSegment,
        successor: Option<&JournalSegment>,
        history: &mut ScannedJournal<T>,
    ) -> Result<ScanProgress, JournalError> {
        let reading = self.reading;
        if segment.header.is_none() {
            if segment.is_cut {
                return Ok(ScanProgress::Cut);
            }
            self.expect_unborn(segment, successor.is_none())?;
            history.next = segment.first;
            let bytes = segment.bytes.clone();
            history.tail = JournalTail::Unborn(TornBytes { segment: segment.name.clone(), offset: 0, bytes });
            return Ok(ScanProgress::Enough);
        }
        let superseded = successor.filter(|successor| successor.supersedes());
        let walk = segment.walk(self.codec, superseded.map(|successor| successor.first));
        // If a segment has events of its successor as well, those in the successor count.
        let counts =
            |frame: &&JournalFrame<'_>| successor.is_none_or(|successor| frame.seq < successor.first);
        let (mut taken, mut payload_bytes, mut is_enough) = (Vec::new(), history.payload_bytes, false);
        for frame in walk.events.iter().filter(counts).filter(|frame| reading.wanted.contains(&frame.seq)) {
            taken.push(frame);
            payload_bytes += frame.payload.len();
            is_enough = frame.seq == *reading.wanted.end() || payload_bytes >= reading.most_bytes;
            if is_enough {
                break;
            }
        }
        if !is_enough && !matches!(walk.end, WalkEnd::Reached) {
            if segment.is_cut {
                return Ok(ScanProgress::Cut);
            }
            match successor {
                Some(successor) => self.check_inner(segment, &walk, successor)?,
                None => self.check_last(segment, &walk)?,
            }
        }
        let taken = taken.into_iter().map(|frame| self.decode(segment, frame));
        history.events.extend(taken.collect::<Result<Vec<_>, _>>()?);
        history.payload_bytes = payload_bytes;
        if let Some(after) = reading.after {
            let found = walk.events.iter().find(|frame| frame.seq == after.seq);
            history.fits |= found.is_some_and(|frame| self.checkpoint(frame) == after);
        }
        if let Some(opening) = reading.opening {
            self.note_end(segment, &walk, opening, successor.is_none(), history);
        }
        Ok(if is_enough { ScanProgress::Enough } else { ScanProgress::Through })
    }

    /// Notes the facts that a writer needs about a segment that was read to its end.
    fn note_end<T>(
        &self,
        segment: &JournalSegment,
        walk: &SegmentWalk<'_>,
        opening: WriterScan,
        is_last: bool,
        history: &mut ScannedJournal<T>,
    ) {
        history.next = walk.next;
        history.last = walk.events.last().map(|frame| self.checkpoint(frame)).or(history.last);
        let is_small = ((segment.base + walk.offset) as u64) < opening.carry_below;
        if is_last {
            history.tail = tail(segment, walk);
            // A small segment is never read from the middle by an opening.
            if is_small && !walk.events.is_empty() {
                let payloads = walk.events.iter().map(|frame| frame.payload.to_vec()).collect();
                history.small = Some(CarriedEvents { first: segment.first, payloads });
            }
        }
        if let Some(begin) = walk.events.first().filter(|_| !is_small) {
            let entries =
                index::entries(walk.events.iter().map(|frame| (segment.base + frame.offset) as u64));
            if !index::is_current(self.disk, segment.first, begin.seq, &entries) {
                history.unindexed.push(segment.first);
            }
        }
    }

    fn checkpoint(&self, frame: &JournalFrame<'_>) -> Checkpoint {
        Checkpoint { seq: frame.seq, sum: self.codec.event_sum(frame.seq, frame.payload) }
    }

    /// Checks a segment without a header. A crash can explain it if it is the last segment, and had one write at most.
    fn expect_unborn(&self, segment: &JournalSegment, is_last: bool) -> Result<(), JournalError> {
        match self.codec.later_write(&segment.bytes, 0, segment.first) {
            None if is_last => Ok(()),
            None | Some(_) => Err(self.corrupt(segment, 0, SegmentDamage::Header)),
        }
    }

    /// Checks that a segment with another behind it is complete up to that one.
    fn check_inner(
        &self,
        segment: &JournalSegment,
        walk: &SegmentWalk<'_>,
        successor: &JournalSegment,
    ) -> Result<(), JournalError> {
        let expected = successor.first;
        let damage = match &walk.end {
            WalkEnd::Reached => return Ok(()),
            // A missing seal is an error even if the next segment is unborn: only a writer that has sealed this one
            // makes the next one in the open.
            WalkEnd::Seal(_) if walk.next == expected => return Ok(()),
            WalkEnd::Seal(_) if walk.next < expected => {
                SegmentDamage::Gap { expected: walk.next, found: expected }
            }
            WalkEnd::Seal(_) => SegmentDamage::Misnumbered { expected, found: walk.next },
            WalkEnd::File if successor.supersedes() => SegmentDamage::EndsEarly { expected: walk.next },
            WalkEnd::File => SegmentDamage::Unsealed { last: Seq(walk.next.0 - 1) },
            WalkEnd::Flawed(flaw) => SegmentDamage::Frame { expected: walk.next, flaw: *flaw },
            WalkEnd::Wrong(damage) => damage.clone(),
        };
        Err(self.corrupt(segment, walk.offset, damage))
    }

    /// Checks the last segment. It may end in an incomplete write.
    fn check_last(&self, segment: &JournalSegment, walk: &SegmentWalk<'_>) -> Result<(), JournalError> {
        // A superseding segment gets its name when its first write is complete. To take a flaw in that for a torn end
        // would lose what the segment took over, or bring back what it superseded.
        let was_complete = segment.is_placed(walk.offset) || (walk.events.is_empty() && segment.supersedes());
        let damage = match &walk.end {
            WalkEnd::Wrong(damage) => Some(damage.clone()),
            WalkEnd::Flawed(flaw) => {
                let was_safe =
                    was_complete || self.codec.later_write(&segment.bytes, walk.offset, walk.next).is_some();
                was_safe.then_some(SegmentDamage::Frame { expected: walk.next, flaw: *flaw })
            }
            WalkEnd::File if was_complete => Some(SegmentDamage::EndsEarly { expected: walk.next }),
            WalkEnd::File | WalkEnd::Seal(_) | WalkEnd::Reached => None,
        };
        match damage {
            Some(damage) => Err(self.corrupt(segment, walk.offset, damage)),
            None => Ok(()),
        }
    }

    fn decode<T: JournalRecord>(
        &self,
        segment: &JournalSegment,
        frame: &JournalFrame<'_>,
    ) -> Result<Committed<T>, JournalError> {
        match T::decode(frame.payload) {
            Ok(event) => Ok(Committed::new(frame.seq, event)),
            Err(why) => Err(JournalError::Undecodable {
                path: self.disk.path(&segment.name),
                offset: (segment.base + frame.offset) as u64,
                seq: frame.seq,
                why,
            }),
        }
    }

    fn corrupt(&self, segment: &JournalSegment, offset: usize, damage: SegmentDamage) -> JournalError {
        let offset = (segment.base + offset) as u64;
        JournalError::Corrupt { path: self.disk.path(&segment.name), offset, damage }
    }
}

/// The tail of the last segment, which is to be settled.
fn tail(segment: &JournalSegment, walk: &SegmentWalk<'_>) -> JournalTail {
    let Some(last_event) = walk.events.last() else {
        return JournalTail::Unborn(TornBytes {
            segment: segment.name.clone(),
            offset: 0,
            bytes: segment.bytes.clone(),
        });
    };
    let last = match &walk.end {
        // Such a seal came in a write of its own, after all events had been synced.
        WalkEnd::Seal(seal) if seal.write_start() == seal.offset => return JournalTail::Settled,
        WalkEnd::Seal(seal) => seal,
        WalkEnd::File | WalkEnd::Flawed(_) | WalkEnd::Wrong(_) | WalkEnd::Reached => last_event,
    };
    let unproven = walk.events.iter().filter(|frame| frame.offset >= last.write_start());
    let torn = matches!(walk.end, WalkEnd::Flawed(_)).then(|| TornBytes {
        segment: segment.name.clone(),
        offset: segment.base + walk.offset,
        bytes: segment.bytes[walk.offset..].to_vec(),
    });
    JournalTail::Unproven { payloads: unproven.map(|frame| frame.payload.to_vec()).collect(), torn }
}
