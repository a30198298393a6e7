//! The journal itself: the one place that writes.
//!
//! Promise: see the crate. Each append is one write and one sync; a new segment costs one sync of the directory more.
//! A segment is written by one journal value only: after a reopening or a failure the next append starts a new one,
//! which takes over what was in a small last one and replaces it.
//! Not here: judging what is on disk (see `recover.rs`).
//! Start with [`Journal::append`].

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem;

use crate::disk::{JournalDisk, RealDisk};
use crate::error::JournalError;
use crate::event::{Checkpoint, Committed, JournalRecord, Seq};
use crate::files;
use crate::frame::{FrameCodec, MAX_RECORD_BYTES};
use crate::index::{self, SegmentIndex, SegmentWrite};
use crate::recover::{
    CarriedEvents, JournalTail, RecoveredJournal, ScanRequest, ScannedJournal, TornBytes, TornTail,
    WriterScan, scan,
};
use crate::segment::{JournalSegment, SegmentHeader, file_name, first_seq};

/// Size limits of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalLimits {
    /// Size at which a segment is sealed, in bytes. The batch that reaches it may go beyond.
    pub segment_bytes: u64,
    /// Size limit of a record, in bytes. Larger records are refused; at most 64 MiB.
    pub record_bytes: usize,
    /// The first append after an opening takes over the events of the last segment, if that has fewer bytes than
    /// this and is not full. So the number of segments follows from the size of a journal and not from the number
    /// of its lives, and an opening copies no more than this.
    pub merge_bytes: u64,
}

impl Default for JournalLimits {
    fn default() -> Self {
        JournalLimits { segment_bytes: 8 << 20, record_bytes: 1 << 20, merge_bytes: 256 << 10 }
    }
}

/// An append-only sequence of records in one directory. Dropping it without [`close`](Journal::close) is the same as
/// a crash of the process: nothing committed is lost, and the next opening has a little more to do.
pub struct Journal<T: JournalRecord, D: JournalDisk = RealDisk> {
    disk: D,
    codec: FrameCodec,
    limits: JournalLimits,
    next: Seq,
    last: Option<Checkpoint>,
    current: AppendTarget<D::File>,
    record: PhantomData<fn(T) -> T>,
}

/// Place of the next append.
enum AppendTarget<F> {
    /// To this segment, of which every byte is safe.
    Open(OpenSegment<F>),
    /// To a new one. The one before, if any, was sealed and synced by us.
    Fresh,
    /// To a new one that supersedes the tail of the one before, because the state of that tail on disk is unknown.
    /// The new segment takes these events over from the one before, all or none, and then has its name.
    Doubtful(CarriedEvents),
}

struct OpenSegment<F> {
    first: Seq,
    file: F,
    bytes: u64,
    index: SegmentIndex<F>,
}

/// A journal that was read and checked, and that nothing was written to yet.
pub struct UnsettledJournal<T: JournalRecord, D: JournalDisk = RealDisk> {
    disk: D,
    codec: FrameCodec,
    limits: JournalLimits,
    history: ScannedJournal<T>,
}

impl<T: JournalRecord, D: JournalDisk> UnsettledJournal<T, D> {
    /// All events, or those behind the checkpoint. The events of the last write may not be safe on disk yet.
    pub fn events(&self) -> &[Committed<T>] {
        &self.history.events
    }

    /// Settles the tail, and opens the journal for writing.
    pub fn settle(self) -> Result<(Journal<T, D>, RecoveredJournal<T>), JournalError> {
        let UnsettledJournal { disk, codec, limits, history } = self;
        // The seal of the last writer may have failed to reach the disk although we see it, hence the doubt.
        let next = history.next;
        let carried = history.small.unwrap_or_else(|| CarriedEvents::nothing(next));
        let (current, last) = (AppendTarget::Doubtful(carried), history.last);
        let mut journal = Journal { disk, codec, limits, next, last, current, record: PhantomData };
        let torn = journal.settle(history.tail)?;
        journal.repair_index(history.begin, history.unindexed)?;
        Ok((journal, RecoveredJournal { events: history.events, torn }))
    }
}

impl<T: JournalRecord, D: JournalDisk> fmt::Debug for UnsettledJournal<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsettled").field("dir", &self.disk.path("")).finish_non_exhaustive()
    }
}

impl<T: JournalRecord, D: JournalDisk> fmt::Debug for Journal<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.disk.path("");
        f.debug_struct("Journal").field("dir", &dir).field("next", &self.next).finish_non_exhaustive()
    }
}

impl<T: JournalRecord, D: JournalDisk> Journal<T, D> {
    /// Starts a journal in a directory that has none. Nothing is written before the first append.
    pub fn create(disk: D, owner: &str, limits: JournalLimits) -> Result<Self, JournalError> {
        Self::create_with(disk, FrameCodec::new(owner), limits)
    }

    /// Opens a journal in whatever state its last writer left it, and settles its tail. An empty directory is a
    /// journal without events, as a crash right after [`create`](Journal::create) leaves it.
    pub fn open(
        disk: D,
        owner: &str,
        limits: JournalLimits,
    ) -> Result<(Self, RecoveredJournal<T>), JournalError> {
        Self::open_with(disk, FrameCodec::new(owner), limits)
    }

    /// Reads and checks everything, as [`open`](Journal::open) does, and writes nothing yet: a caller that finds in
    /// the events that it may not write drops the result.
    pub fn inspect(
        disk: D,
        owner: &str,
        limits: JournalLimits,
    ) -> Result<UnsettledJournal<T, D>, JournalError> {
        Self::inspect_all(disk, FrameCodec::new(owner), limits)
    }

    /// Reads and checks the events behind a checkpoint, as [`inspect`](Journal::inspect) does with all. `None` if
    /// the event at the checkpoint is missing or differs: then inspect everything.
    ///
    /// Damage in segments before that event is not found here: [`read`](crate::read_journal), [`chain_heads`](crate::chain_heads) and
    /// [`salvage_journal`](crate::salvage_journal) read everything.
    pub fn inspect_from(
        disk: D,
        owner: &str,
        limits: JournalLimits,
        checkpoint: Checkpoint,
    ) -> Result<Option<UnsettledJournal<T, D>>, JournalError> {
        Self::inspect_with(disk, FrameCodec::new(owner), limits, Some(checkpoint))
    }

    /// [`create`](Journal::create), with bugs.
    #[cfg(feature = "testing")]
    pub fn create_planted(
        disk: D,
        owner: &str,
        limits: JournalLimits,
        planted: crate::PlantedBugs,
    ) -> Result<Self, JournalError> {
        Self::create_with(disk, FrameCodec { planted, ..FrameCodec::new(owner) }, limits)
    }

    /// [`open`](Journal::open), with bugs.
    #[cfg(feature = "testing")]
    pub fn open_planted(
        disk: D,
        owner: &str,
        limits: JournalLimits,
        planted: crate::PlantedBugs,
    ) -> Result<(Self, RecoveredJournal<T>), JournalError> {
        Self::open_with(disk, FrameCodec { planted, ..FrameCodec::new(owner) }, limits)
    }

    /// Commits a batch: when this returns, all of it is on disk.
    ///
    /// After an error none of it is committed and the journal can be used on. If the process ends before another
    /// append succeeds, the beginning of the failed batch may turn up at the next opening; after a successful one
    /// it never will.
    pub fn append(&mut self, batch: Vec<T>) -> Result<Vec<Committed<T>>, JournalError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let first = self.next;
        let mut write = Vec::new();
        let (mut begin, mut bytes_before, mut is_placed) = (first, 0, false);
        match &self.current {
            AppendTarget::Open(open) => bytes_before = open.bytes,
            AppendTarget::Fresh => SegmentHeader::next(first).push(&self.codec, &mut write),
            AppendTarget::Doubtful(carried) => {
                (begin, is_placed) = (carried.first, true);
                self.push_superseding(carried, &mut write);
            }
        }
        let last_sum = self.encode(&batch, &mut write)?;
        let is_full = bytes_before + write.len() as u64 >= self.limits.segment_bytes;
        if is_full {
            self.codec.push(&mut write, Seq(first.0 + batch.len() as u64 - 1), &[]);
        }
        if is_placed {
            SegmentHeader::seal_placed(&mut write);
        }
        let mut open = self.commit(begin, first, &write)?;
        open.index_write(&self.disk, &write, index_from(self.limits));
        self.current = if is_full { AppendTarget::Fresh } else { AppendTarget::Open(open) };
        self.next = first.plus(batch.len());
        self.last = Some(Checkpoint { seq: Seq(self.next.0 - 1), sum: last_sum });
        Ok(batch.into_iter().enumerate().map(|(n, event)| Committed::new(first.plus(n), event)).collect())
    }

    /// The last committed event, for a reader or an opening to begin behind it. `None` without events.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.last
    }

    /// Number of the next event.
    pub fn next_seq(&self) -> Seq {
        self.next
    }

    /// Writes a seal, so that later damage to the last events can be told from a crash. If it fails, all committed
    /// events are still safe.
    pub fn close(self) -> Result<(), JournalError> {
        match self.current {
            AppendTarget::Open(mut open) => {
                let mut seal = Vec::new();
                self.codec.push(&mut seal, Seq(self.next.0 - 1), &[]);
                files::write(&self.disk, &self.codec, &file_name(open.first), &mut open.file, &seal)
            }
            AppendTarget::Fresh | AppendTarget::Doubtful(_) => Ok(()),
        }
    }

    fn create_with(disk: D, codec: FrameCodec, limits: JournalLimits) -> Result<Self, JournalError> {
        if !files::segments(&disk)?.is_empty() {
            return Err(JournalError::NotEmpty { path: disk.path("") });
        }
        let (next, last, current) = (Seq(1), None, AppendTarget::Fresh);
        Ok(Journal { disk, codec, limits, next, last, current, record: PhantomData })
    }

    fn open_with(
        disk: D,
        codec: FrameCodec,
        limits: JournalLimits,
    ) -> Result<(Self, RecoveredJournal<T>), JournalError> {
        Self::inspect_all(disk, codec, limits)?.settle()
    }

    fn inspect_all(
        disk: D,
        codec: FrameCodec,
        limits: JournalLimits,
    ) -> Result<UnsettledJournal<T, D>, JournalError> {
        let unsettled = Self::inspect_with(disk, codec, limits, None)?;
        Ok(unsettled.expect("only a checkpoint can fail to fit"))
    }

    fn inspect_with(
        disk: D,
        codec: FrameCodec,
        limits: JournalLimits,
        checkpoint: Option<Checkpoint>,
    ) -> Result<Option<UnsettledJournal<T, D>>, JournalError> {
        let segments = files::segments(&disk)?;
        let opening = WriterScan { carry_below: index_from(limits) };
        let reading = match checkpoint {
            Some(checkpoint) => ScanRequest::after(checkpoint, Some(opening)),
            None => ScanRequest::all(opening),
        };
        let history = scan(&disk, &codec, &segments, &reading)?;
        Ok(history.fits.then_some(UnsettledJournal { disk, codec, limits, history }))
    }

    /// Encodes the batch behind what is in `write`, or refuses it, and returns the sum of the last event. Nothing has
    /// touched the disk yet.
    fn encode(&self, batch: &[T], write: &mut Vec<u8>) -> Result<u32, JournalError> {
        let limit = self.limits.record_bytes.min(MAX_RECORD_BYTES);
        let mut payload = Vec::new();
        for (n, record) in batch.iter().enumerate() {
            let seq = self.next.plus(n);
            payload.clear();
            record.encode(&mut payload);
            if payload.is_empty() {
                return Err(JournalError::EmptyRecord { seq });
            }
            if payload.len() > limit {
                return Err(JournalError::RecordTooLarge { seq, bytes: payload.len(), limit });
            }
            self.codec.push(write, seq, &payload);
        }
        // A frame has 32 bits for its distance from the start of its write.
        match u32::try_from(write.len()) {
            Ok(_) => Ok(self.codec.event_sum(Seq(self.next.0 + batch.len() as u64 - 1), &payload)),
            Err(_) => Err(JournalError::BatchTooLarge { bytes: write.len() }),
        }
    }

    /// Begins a superseding segment with the events that it takes over.
    fn push_superseding(&self, carried: &CarriedEvents, write: &mut Vec<u8>) {
        SegmentHeader::superseding(carried.first).push(&self.codec, write);
        for (n, payload) in carried.payloads.iter().enumerate() {
            self.codec.push(write, carried.first.plus(n), payload);
        }
    }

    /// Brings a write to disk and returns the segment that has it now. `begin` is the first event in the write, `first`
    /// the first new one. After an error the current segment, whichever it was, is never touched again.
    fn commit(&mut self, begin: Seq, first: Seq, write: &[u8]) -> Result<OpenSegment<D::File>, JournalError> {
        match mem::replace(&mut self.current, AppendTarget::Doubtful(CarriedEvents::nothing(first))) {
            AppendTarget::Open(mut open) => {
                files::write(&self.disk, &self.codec, &file_name(open.first), &mut open.file, write)?;
                Ok(open)
            }
            AppendTarget::Fresh => self.start_segment(begin, write),
            AppendTarget::Doubtful(_) => self.supersede(begin, write),
        }
    }

    /// Makes the next segment under its own name. Creating, writing and syncing in this order lets common file
    /// systems put the name into the same transaction as the data, and the second sync is nearly free.
    fn start_segment(&mut self, first: Seq, write: &[u8]) -> Result<OpenSegment<D::File>, JournalError> {
        let name = file_name(first);
        let mut file = files::create(&self.disk, &name).inspect_err(|error| {
            // The file is not ours. Superseding would destroy it, so refuse again.
            if matches!(error, JournalError::Create { source, .. } if source.kind() == io::ErrorKind::AlreadyExists) {
                self.current = AppendTarget::Fresh;
            }
        })?;
        files::write(&self.disk, &self.codec, &name, &mut file, write)?;
        // The name lives in the directory, so a crash could hide a file whose contents are safe.
        files::sync_dir(&self.disk, &self.codec)?;
        Ok(OpenSegment::new(first, file))
    }

    /// Makes a segment that voids the tail of the one before. It must not be seen half made: a header alone would
    /// void events that are committed and were to be copied into it. It may replace a segment of the same name, whose
    /// first write failed or whose events are all in this one.
    fn supersede(&self, first: Seq, write: &[u8]) -> Result<OpenSegment<D::File>, JournalError> {
        let file = files::rename_into_place(&self.disk, &self.codec, &file_name(first), write)?;
        Ok(OpenSegment::new(first, file))
    }

    /// Makes sure that the events that are about to be handed out as committed are safe, and that a torn tail is
    /// out of the way. An interruption is harmless: the next opening does it again.
    fn settle(&mut self, tail: JournalTail) -> Result<Option<TornTail>, JournalError> {
        let settled = match tail {
            JournalTail::Settled => None,
            // The file stays until the next append replaces it. Taking its name away could fail to reach the disk,
            // and then the file would come back when it no longer fits to what is before it.
            JournalTail::Unborn(torn) => Some(self.keep(&torn)?),
            JournalTail::Unproven { payloads, torn } => {
                let kept = torn.as_ref().map(|torn| self.keep(torn)).transpose()?;
                let unproven = CarriedEvents { first: Seq(self.next.0 - payloads.len() as u64), payloads };
                let carried = match &self.current {
                    // The end of these events is unproven.
                    AppendTarget::Doubtful(small) if !small.payloads.is_empty() => small,
                    AppendTarget::Doubtful(_) | AppendTarget::Open(_) | AppendTarget::Fresh => &unproven,
                };
                let mut write = Vec::new();
                self.push_superseding(carried, &mut write);
                SegmentHeader::seal_placed(&mut write);
                #[cfg(feature = "testing")]
                if self.codec.planted.keep_torn_tail {
                    write.extend(torn.iter().flat_map(|torn| &torn.bytes));
                }
                let mut open = self.supersede(carried.first, &write)?;
                open.index_write(&self.disk, &write, index_from(self.limits));
                self.current = AppendTarget::Open(open);
                kept
            }
        };
        // Files that a crash kept from being finished never counted, and never will.
        for name in files::list(&self.disk)?.iter().filter(|name| files::is_unfinished(name)) {
            files::remove(&self.disk, name)?;
        }
        Ok(settled)
    }

    /// Makes the index of segments that need one: those where this opening found it wrong, and those before `begin`
    /// that have none. A segment that cannot be read is left alone: this opening does not depend on it.
    fn repair_index(&self, begin: Seq, mut unindexed: Vec<Seq>) -> Result<(), JournalError> {
        let names = files::list(&self.disk)?;
        let segments = names.iter().filter_map(|name| first_seq(name));
        let older = segments.filter(|&first| first < begin);
        unindexed.extend(older.filter(|&first| !names.contains(&index::file_name(first))));
        for first in unindexed {
            let Ok(segment) = JournalSegment::load(&self.disk, &self.codec, first) else { continue };
            if segment.header.is_none() {
                continue;
            }
            let walk = segment.walk(&self.codec, None);
            if walk.offset as u64 >= index_from(self.limits) {
                let entries = index::entries(walk.events.iter().map(|frame| frame.offset as u64));
                index::replace(&self.disk, first, &entries);
            }
        }
        Ok(())
    }

    /// Copies torn bytes to a file of their own. The segment they are in is not touched: the one that is made next
    /// voids them there.
    ///
    /// A name that is taken by the same bytes is from an opening that was interrupted; other bytes are from an older
    /// crash, and stay.
    fn keep(&self, torn: &TornBytes) -> Result<TornTail, JournalError> {
        let taken = files::list(&self.disk)?;
        let base = format!("{}.torn-{}", torn.segment, torn.offset);
        let mut kept_as = base.clone();
        for n in 2.. {
            if !taken.contains(&kept_as) || files::read(&self.disk, &kept_as)? == torn.bytes {
                break;
            }
            kept_as = format!("{base}.{n}");
        }
        files::rename_into_place(&self.disk, &self.codec, &kept_as, &torn.bytes)?;
        let (segment, offset) = (torn.segment.clone(), torn.offset as u64);
        Ok(TornTail { bytes: torn.bytes.len() as u64, kept_as, segment, offset })
    }
}

impl<F> OpenSegment<F> {
    /// A segment whose first write is safe, and not noted yet.
    fn new(first: Seq, file: F) -> Self {
        OpenSegment { first, file, bytes: 0, index: SegmentIndex::Waiting(Vec::new()) }
    }

    /// Notes a write that is safe, and adds its events to the index.
    fn index_write<D: JournalDisk<File = F>>(&mut self, disk: &D, write: &[u8], index_from: u64) {
        self.index.add(disk, self.first, SegmentWrite { offset: self.bytes, bytes: write }, index_from);
        self.bytes += write.len() as u64;
    }
}

/// Size from which on a segment has an index, in bytes. Smaller ones are quickly read, and replaced by the next
/// opening.
fn index_from(limits: JournalLimits) -> u64 {
    limits.merge_bytes.min(limits.segment_bytes)
}
