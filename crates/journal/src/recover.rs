//! Reading a journal back, and telling a crash from damage.
//!
//! Promise: what comes out is exactly what went in, from the first number on without a gap; where that cannot be
//! had, an error and not one byte changed. Only the last write of the last segment may be incomplete.
//! Not here: putting the tail in order (see `Journal::open`); everything in this file only reads.
//! Start with [`scan`].

use std::ops::RangeInclusive;

use crate::disk::Disk;
use crate::error::{Damage, JournalError};
use crate::event::{Committed, Record, Seq};
use crate::files;
use crate::frame::{Codec, Frame};
use crate::segment::{End, Segment, Walk};

/// What [`Journal::open`](crate::Journal::open) found.
#[derive(Debug)]
pub struct Recovered<T> {
    /// All events. Those that had been written but not confirmed when the last writer died are safe now, too.
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

/// The same up to and with `to`, and no more once there are `most_bytes`: what lies in later files is not read, so a
/// long journal can be read piece by piece. What is there gives at least one event.
pub fn read_range<T: Record, D: Disk>(
    disk: &D,
    owner: &str,
    from: Seq,
    to: Seq,
    most_bytes: usize,
) -> Result<Vec<Committed<T>>, JournalError> {
    let codec = Codec::new(owner);
    let mut segments = files::segments(disk)?;
    loop {
        // One more than needed: it says where the one before it ends.
        let wanted = (segments.partition_point(|&first| first <= to) + 1).min(segments.len());
        let error = match scan_range(
            disk,
            &codec,
            &segments[..wanted],
            Reading { wanted: from..=to, most_bytes, carry_below: 0 },
        ) {
            Ok(history) => return Ok(history.events),
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

/// Reads the given segments and checks that each continues the one before. A last segment of fewer than `carry_below`
/// bytes comes along as a whole.
pub(crate) fn scan<T: Record, D: Disk>(
    disk: &D,
    codec: &Codec,
    segments: &[Seq],
    carry_below: u64,
) -> Result<History<T>, JournalError> {
    let reading = Reading { wanted: Seq(1)..=Seq(u64::MAX), most_bytes: usize::MAX, carry_below };
    scan_range(disk, codec, segments, reading)
}

/// What a scan is for.
struct Reading {
    wanted: RangeInclusive<Seq>,
    most_bytes: usize,
    /// A last segment of fewer bytes is kept for the next one to take over.
    carry_below: u64,
}

fn scan_range<T: Record, D: Disk>(
    disk: &D,
    codec: &Codec,
    segments: &[Seq],
    reading: Reading,
) -> Result<History<T>, JournalError> {
    let Reading { wanted, most_bytes, carry_below } = reading;
    let scan = Scan { disk, codec };
    let mut history = History { events: Vec::new(), next: Seq(1), tail: Tail::Settled, small: None };
    let Some(&oldest) = segments.first() else { return Ok(history) };
    if oldest != Seq(1) {
        let damage = Damage::Gap { expected: Seq(1), found: oldest };
        return Err(JournalError::Corrupt { path: disk.path(""), offset: 0, damage });
    }
    let mut bytes = 0;
    let skipped = segments.partition_point(|&first| first <= *wanted.start()).saturating_sub(1);
    let mut rest = segments[skipped..].iter();
    let mut upcoming = rest.next().map(|&first| Segment::load(disk, codec, first)).transpose()?;
    while let Some(segment) = upcoming {
        upcoming = rest.next().map(|&first| Segment::load(disk, codec, first)).transpose()?;
        let is_last = upcoming.is_none();
        if segment.header.is_none() {
            scan.expect_unborn(&segment, is_last)?;
            history.next = segment.first;
            history.tail = Tail::Unborn(Torn { segment: segment.name, offset: 0, bytes: segment.bytes });
            break;
        }
        let walk = match &upcoming {
            Some(successor) => scan.walk_inner(&segment, successor)?,
            None => scan.walk_last(&segment)?,
        };
        for frame in walk.events.iter().filter(|frame| wanted.contains(&frame.seq)) {
            if bytes >= most_bytes {
                return Ok(history);
            }
            bytes += frame.payload.len();
            history.events.push(scan.decode(&segment, frame)?);
        }
        history.next = walk.next;
        if is_last {
            history.tail = tail(&segment, &walk);
            if !walk.events.is_empty() && (walk.offset as u64) < carry_below {
                let payloads = walk.events.iter().map(|frame| frame.payload.to_vec()).collect();
                history.small = Some(Carried { first: segment.first, payloads });
            }
        }
    }
    Ok(history)
}

struct Scan<'a, D> {
    disk: &'a D,
    codec: &'a Codec,
}

impl<D: Disk> Scan<'_, D> {
    /// A segment without a header is fine if a crash can explain it: it is the last one, and had one write at most.
    fn expect_unborn(&self, segment: &Segment, is_last: bool) -> Result<(), JournalError> {
        match self.codec.later_write(&segment.bytes, 0, segment.first) {
            None if is_last => Ok(()),
            None | Some(_) => Err(self.corrupt(segment, 0, Damage::Header)),
        }
    }

    /// A segment with another behind it must be complete up to there.
    fn walk_inner<'a>(&self, segment: &'a Segment, successor: &Segment) -> Result<Walk<'a>, JournalError> {
        let expected = successor.first;
        let walk = segment.walk(self.codec, successor.supersedes().then_some(expected));
        let damage = match &walk.end {
            End::Reached => return Ok(walk),
            // Not even the next segment being unborn excuses a missing seal: only a writer that has sealed this one
            // makes the next one in the open.
            End::Seal(_) if walk.next == expected => return Ok(walk),
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
    fn walk_last<'a>(&self, segment: &'a Segment) -> Result<Walk<'a>, JournalError> {
        let walk = segment.walk(self.codec, None);
        // A superseding segment gets its name when its first write is complete. To take a flaw in that for a torn end
        // would lose what the segment took over, or bring back what it superseded.
        let was_complete = walk.offset < segment.placed() || (walk.events.is_empty() && segment.supersedes());
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
            None => Ok(walk),
        }
    }

    fn decode<T: Record>(&self, segment: &Segment, frame: &Frame<'_>) -> Result<Committed<T>, JournalError> {
        match T::decode(frame.payload) {
            Ok(event) => Ok(Committed::new(frame.seq, event)),
            Err(why) => Err(JournalError::Undecodable {
                path: self.disk.path(&segment.name),
                offset: frame.offset as u64,
                seq: frame.seq,
                why,
            }),
        }
    }

    fn corrupt(&self, segment: &Segment, offset: usize, damage: Damage) -> JournalError {
        JournalError::Corrupt { path: self.disk.path(&segment.name), offset: offset as u64, damage }
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
        offset: walk.offset,
        bytes: segment.bytes[walk.offset..].to_vec(),
    });
    Tail::Unproven { payloads: unproven.map(|frame| frame.payload.to_vec()).collect(), torn }
}
