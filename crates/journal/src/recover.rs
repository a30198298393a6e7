//! Reading a journal back, and telling a crash from damage.
//!
//! Promise: what comes out is exactly what went in, from the first number on without a gap; where that cannot be
//! had, an error and not one byte changed. Only the last write of the last segment may be incomplete.
//! Not here: putting the tail in order (see `Journal::open`); everything in this file only reads.
//! Start with [`scan`].

use std::ops::RangeInclusive;

use crate::disk::Disk;
use crate::error::{Damage, JournalError};
use crate::event::{Checkpoint, Committed, Record, Seq};
use crate::files;
use crate::frame::{Codec, FRAME_HEADER_BYTES, Frame, u32_at, u64_at};
use crate::index::{self, Place};
use crate::segment::{self, End, HEADER_BYTES, Segment, Walk};

/// A guess at the size of an event, to read what is wanted at once.
const LIKELY_EVENT_BYTES: u64 = 512;
/// The smallest piece of a segment that is read.
const LEAST_READ_BYTES: usize = 4096;

/// What [`Journal::open`](crate::Journal::open) found.
#[derive(Debug)]
pub struct Recovered<T> {
    /// All events, or those behind the checkpoint. Those that had been written but not confirmed when the last writer died
    /// are safe now, too.
    pub events: Vec<Committed<T>>,
    /// What the last writer left half written, if anything.
    pub torn: Option<TornTail>,
}

/// Bytes of an append that was cut short by a crash. Nobody was ever told that they are safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// How many.
    pub bytes: u64,
    /// The file in the journal's directory that has them now.
    pub kept_as: String,
    /// The file they were found in.
    pub segment: String,
    /// Where in that file they began.
    pub offset: u64,
}

/// Reads the events from `from` on, without a lock and without writing, while a writer may be at work.
///
/// An incomplete tail is simply the end. The last batch seen may be one whose append is still under way in the other
/// process, so do not act on the newest events on its behalf: ask the writer for that.
pub fn read<T: Record, D: Disk>(disk: &D, owner: &str, from: Seq) -> Result<Vec<Committed<T>>, JournalError> {
    read_range(disk, owner, from, Seq(u64::MAX), usize::MAX)
}

/// Reads the events from `from` to `to`, and stops once there are `most_bytes`. The cost is that of these events: the
/// index of a segment says where they begin, and what lies behind them is not read, so a long journal can be read piece
/// by piece and its damage shows where it is read. What is there gives at least one event.
pub fn read_range<T: Record, D: Disk>(
    disk: &D,
    owner: &str,
    from: Seq,
    to: Seq,
    most_bytes: usize,
) -> Result<Vec<Committed<T>>, JournalError> {
    let reading = Reading { wanted: from..=to, most_bytes, after: None, opening: None };
    Ok(read_beside_writer(disk, owner, &reading)?.events)
}

/// Reads the events behind a checkpoint, like [`read`]. `None` if the event at the checkpoint is not there or is another
/// one: what was derived from it does not belong to this journal.
pub fn read_after<T: Record, D: Disk>(
    disk: &D,
    owner: &str,
    checkpoint: Checkpoint,
) -> Result<Option<Vec<Committed<T>>>, JournalError> {
    let history = read_beside_writer(disk, owner, &Reading::after(checkpoint, None))?;
    Ok(history.fits.then_some(history.events))
}

fn read_beside_writer<T: Record, D: Disk>(
    disk: &D,
    owner: &str,
    reading: &Reading,
) -> Result<History<T>, JournalError> {
    let codec = Codec::new(owner);
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

/// All that the files say.
pub(crate) struct History<T> {
    pub(crate) events: Vec<Committed<T>>,
    pub(crate) next: Seq,
    pub(crate) tail: Tail,
    /// The last segment, if it is small enough to be taken over into the next one.
    pub(crate) small: Option<Carried>,
    /// The last event that was read, be it wanted or not.
    pub(crate) last: Option<Checkpoint>,
    /// False if the reading began behind a checkpoint, and the event there is not the one it should be.
    pub(crate) fits: bool,
    /// The first segment that was read.
    pub(crate) begin: Seq,
    /// Segments from there on whose index lacks entries, or has wrong ones. Only an opening looks.
    pub(crate) unindexed: Vec<Seq>,
    payload_bytes: usize,
}

/// Events that a new segment takes over from the one it replaces, so that many short lives of a journal do not leave a
/// file each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) first: Seq,
    pub(crate) payloads: Vec<Vec<u8>>,
}

impl Carried {
    /// Nothing is taken over, and the next event is `next`.
    pub(crate) fn nothing(next: Seq) -> Self {
        Carried { first: next, payloads: Vec::new() }
    }
}

/// What a new writer has to settle first.
pub(crate) enum Tail {
    /// Nothing: there is no event yet, or everything was synced before the seal was written.
    Settled,
    /// The last segment was being created, and nothing can be read from it. Those before it are complete.
    Unborn(Torn),
    /// The last writer did not say goodbye. What its last write brought may be in the kernel's memory only, and
    /// that even if a sync now says otherwise, because an earlier one may have failed.
    Unproven { payloads: Vec<Vec<u8>>, torn: Option<Torn> },
}

/// Where the good part of the last segment ends, and what is there instead.
pub(crate) struct Torn {
    pub(crate) segment: String,
    pub(crate) offset: usize,
    pub(crate) bytes: Vec<u8>,
}

/// What a scan is for.
pub(crate) struct Reading {
    wanted: RangeInclusive<Seq>,
    most_bytes: usize,
    /// The event before the wanted ones, which must be this one.
    after: Option<Checkpoint>,
    opening: Option<Opening>,
}

/// What a writer needs in addition: how the last segment ends.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    /// A last segment of fewer bytes is kept for the next one to take over. It needs no index.
    pub(crate) carry_below: u64,
}

impl Reading {
    pub(crate) fn all(opening: Opening) -> Self {
        let wanted = Seq(1)..=Seq(u64::MAX);
        Reading { wanted, most_bytes: usize::MAX, after: None, opening: Some(opening) }
    }

    pub(crate) fn after(checkpoint: Checkpoint, opening: Option<Opening>) -> Self {
        let wanted = Seq(checkpoint.seq.0.saturating_add(1))..=Seq(u64::MAX);
        Reading { wanted, most_bytes: usize::MAX, after: Some(checkpoint), opening }
    }

    /// The first event that is looked at.
    fn begin(&self) -> Seq {
        self.after.map_or(*self.wanted.start(), |checkpoint| checkpoint.seq)
    }

    /// About how many bytes of a segment the wanted events take.
    fn likely_bytes(&self) -> usize {
        let events = self.wanted.end().0.saturating_sub(self.wanted.start().0).saturating_add(1);
        let bytes = usize::try_from(events.saturating_mul(LIKELY_EVENT_BYTES)).unwrap_or(usize::MAX);
        bytes.min(self.most_bytes).max(LEAST_READ_BYTES)
    }
}

/// Reads the segments that have what is wanted, and checks that each continues the one before. `segments` are all of
/// the journal.
pub(crate) fn scan<T: Record, D: Disk>(
    disk: &D,
    codec: &Codec,
    segments: &[Seq],
    reading: &Reading,
) -> Result<History<T>, JournalError> {
    let scan = Scan { disk, codec, reading };
    let mut history = History {
        events: Vec::new(),
        next: Seq(1),
        tail: Tail::Settled,
        small: None,
        last: None,
        fits: reading.after.is_none(),
        begin: Seq(1),
        unindexed: Vec::new(),
        payload_bytes: 0,
    };
    let Some(&oldest) = segments.first().filter(|_| !reading.wanted.is_empty()) else { return Ok(history) };
    if oldest != Seq(1) {
        let damage = Damage::Gap { expected: Seq(1), found: oldest };
        return Err(JournalError::Corrupt { path: disk.path(""), offset: 0, damage });
    }
    let begin = reading.begin();
    let skipped = segments.partition_point(|&first| first <= begin).saturating_sub(1);
    history.begin = segments[skipped];
    for at in skipped..segments.len() {
        // The successor says where a segment ends, so its header is looked at even if nothing of it is wanted.
        let successor = match segments.get(at + 1) {
            Some(&first) => Some(Segment::load_front(disk, codec, first, HEADER_BYTES)?),
            None => None,
        };
        let begin = if at == skipped { scan.place(segments[at], begin) } else { None };
        if scan.take_from(segments[at], begin, successor.as_ref(), &mut history)? == Progress::Enough {
            break;
        }
    }
    Ok(history)
}

/// What came of reading a piece of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The piece is too small to say. Nothing of it was taken.
    Cut,
    /// The segment is through, the next one is to be read.
    Through,
    /// All that is wanted is there, or there is no more.
    Enough,
}

struct Scan<'a, D> {
    disk: &'a D,
    codec: &'a Codec,
    reading: &'a Reading,
}

impl<D: Disk> Scan<'_, D> {
    /// Where to begin in a segment to get to an event, if it is worth it to leave out what is before. Nothing of it is
    /// proven.
    fn place(&self, first: Seq, begin: Seq) -> Option<Place> {
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
        Some(Place { seq: Seq(u64_at(&frame_header(offset)?, 8)), offset })
    }

    /// Takes what is wanted of one segment, and reads no more of it than that needs. What the index says is tried, and
    /// in doubt the segment is read from its start.
    fn take_from<T: Record>(
        &self,
        first: Seq,
        mut begin: Option<Place>,
        successor: Option<&Segment>,
        history: &mut History<T>,
    ) -> Result<Progress, JournalError> {
        let mut most = if self.reading.opening.is_some() { usize::MAX } else { self.reading.likely_bytes() };
        loop {
            let segment = match begin {
                None => Segment::load_front(self.disk, self.codec, first, most)?,
                Some(place) => match Segment::load_from(self.disk, self.codec, first, place, most)? {
                    Some(segment) => segment,
                    None => {
                        begin = None;
                        continue;
                    }
                },
            };
            match self.take(&segment, successor, history) {
                Ok(Progress::Cut) => most = most.saturating_mul(4),
                Ok(progress) => return Ok(progress),
                Err(_) if begin.is_some() => begin = None,
                Err(error) => return Err(error),
            }
        }
    }

    fn take<T: Record>(
        &self,
        segment: &Segment,
        successor: Option<&Segment>,
        history: &mut History<T>,
    ) -> Result<Progress, JournalError> {
        let reading = self.reading;
        if segment.header.is_none() {
            if segment.is_cut {
                return Ok(Progress::Cut);
            }
            self.expect_unborn(segment, successor.is_none())?;
            history.next = segment.first;
            let bytes = segment.bytes.clone();
            history.tail = Tail::Unborn(Torn { segment: segment.name.clone(), offset: 0, bytes });
            return Ok(Progress::Enough);
        }
        let superseded = successor.filter(|successor| successor.supersedes());
        let walk = segment.walk(self.codec, superseded.map(|successor| successor.first));
        // Whatever a segment says about events of its successor, the successor says it better.
        let counts = |frame: &&Frame<'_>| successor.is_none_or(|successor| frame.seq < successor.first);
        let (mut taken, mut payload_bytes, mut is_enough) = (Vec::new(), history.payload_bytes, false);
        for frame in walk.events.iter().filter(counts).filter(|frame| reading.wanted.contains(&frame.seq)) {
            taken.push(frame);
            payload_bytes += frame.payload.len();
            is_enough = frame.seq == *reading.wanted.end() || payload_bytes >= reading.most_bytes;
            if is_enough {
                break;
            }
        }
        if !is_enough && !matches!(walk.end, End::Reached) {
            if segment.is_cut {
                return Ok(Progress::Cut);
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
        Ok(if is_enough { Progress::Enough } else { Progress::Through })
    }

    /// Notes what a writer needs to know of a segment that was read to its end.
    fn note_end<T>(
        &self,
        segment: &Segment,
        walk: &Walk<'_>,
        opening: Opening,
        is_last: bool,
        history: &mut History<T>,
    ) {
        history.next = walk.next;
        history.last = walk.events.last().map(|frame| self.checkpoint(frame)).or(history.last);
        let is_small = ((segment.base + walk.offset) as u64) < opening.carry_below;
        if is_last {
            history.tail = tail(segment, walk);
            // A small segment is never read from the middle by an opening.
            if is_small && !walk.events.is_empty() {
                let payloads = walk.events.iter().map(|frame| frame.payload.to_vec()).collect();
                history.small = Some(Carried { first: segment.first, payloads });
            }
        }
        if let Some(begin) = walk.events.first().filter(|_| !is_small) {
            let entries =
                index::entries(walk.events.iter().map(|frame| (segment.base + frame.offset) as u64));
            if !index::has(self.disk, segment.first, begin.seq, &entries) {
                history.unindexed.push(segment.first);
            }
        }
    }

    fn checkpoint(&self, frame: &Frame<'_>) -> Checkpoint {
        Checkpoint { seq: frame.seq, sum: self.codec.event_sum(frame.seq, frame.payload) }
    }

    /// A segment without a header is fine if a crash can explain it: it is the last one, and had one write at most.
    fn expect_unborn(&self, segment: &Segment, is_last: bool) -> Result<(), JournalError> {
        match self.codec.later_write(&segment.bytes, 0, segment.first) {
            None if is_last => Ok(()),
            None | Some(_) => Err(self.corrupt(segment, 0, Damage::Header)),
        }
    }

    /// A segment with another behind it must be complete up to there.
    fn check_inner(
        &self,
        segment: &Segment,
        walk: &Walk<'_>,
        successor: &Segment,
    ) -> Result<(), JournalError> {
        let expected = successor.first;
        let damage = match &walk.end {
            End::Reached => return Ok(()),
            // Not even the next segment being unborn excuses a missing seal: only a writer that has sealed this one
            // makes the next one in the open.
            End::Seal(_) if walk.next == expected => return Ok(()),
            End::Seal(_) if walk.next < expected => Damage::Gap { expected: walk.next, found: expected },
            End::Seal(_) => Damage::Misnumbered { expected, found: walk.next },
            End::File if successor.supersedes() => Damage::EndsEarly { expected: walk.next },
            End::File => Damage::Unsealed { last: Seq(walk.next.0 - 1) },
            End::Flawed(flaw) => Damage::Frame { expected: walk.next, flaw: *flaw },
            End::Wrong(damage) => damage.clone(),
        };
        Err(self.corrupt(segment, walk.offset, damage))
    }

    /// The last segment may end in a write that did not make it.
    fn check_last(&self, segment: &Segment, walk: &Walk<'_>) -> Result<(), JournalError> {
        // A superseding segment gets its name when its first write is complete. To take a flaw in that for a torn end
        // would lose what the segment took over, or bring back what it superseded.
        let was_complete = segment.is_placed(walk.offset) || (walk.events.is_empty() && segment.supersedes());
        let damage = match &walk.end {
            End::Wrong(damage) => Some(damage.clone()),
            End::Flawed(flaw) => {
                let was_safe =
                    was_complete || self.codec.later_write(&segment.bytes, walk.offset, walk.next).is_some();
                was_safe.then_some(Damage::Frame { expected: walk.next, flaw: *flaw })
            }
            End::File if was_complete => Some(Damage::EndsEarly { expected: walk.next }),
            End::File | End::Seal(_) | End::Reached => None,
        };
        match damage {
            Some(damage) => Err(self.corrupt(segment, walk.offset, damage)),
            None => Ok(()),
        }
    }

    fn decode<T: Record>(&self, segment: &Segment, frame: &Frame<'_>) -> Result<Committed<T>, JournalError> {
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

    fn corrupt(&self, segment: &Segment, offset: usize, damage: Damage) -> JournalError {
        let offset = (segment.base + offset) as u64;
        JournalError::Corrupt { path: self.disk.path(&segment.name), offset, damage }
    }
}

/// What the last segment leaves to settle.
fn tail(segment: &Segment, walk: &Walk<'_>) -> Tail {
    let Some(last_event) = walk.events.last() else {
        return Tail::Unborn(Torn { segment: segment.name.clone(), offset: 0, bytes: segment.bytes.clone() });
    };
    let last = match &walk.end {
        // Such a seal came in a write of its own, after all events had been synced.
        End::Seal(seal) if seal.write_start() == seal.offset => return Tail::Settled,
        End::Seal(seal) => seal,
        End::File | End::Flawed(_) | End::Wrong(_) | End::Reached => last_event,
    };
    let unproven = walk.events.iter().filter(|frame| frame.offset >= last.write_start());
    let torn = matches!(walk.end, End::Flawed(_)).then(|| Torn {
        segment: segment.name.clone(),
        offset: segment.base + walk.offset,
        bytes: segment.bytes[walk.offset..].to_vec(),
    });
    Tail::Unproven { payloads: unproven.map(|frame| frame.payload.to_vec()).collect(), torn }
}
