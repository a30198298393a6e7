//! The journalled session as the keeper writes it: with its lease, the thread that writes the journal, and the inputs that
//! wait for the batch in flight or for room on the disk.
//!
//! Promise: one batch is in flight at a time, and none is written without the lease.
//! Not here: the loop while a batch is in flight ([`Keeper::commit`](super::Keeper)), the rules (`berth_core`), the order
//! of decide, append and apply (`journaled_session`).
//! Start with [`CommitPipeline::begin`], then [`CommitPipeline::finish`].

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_api::turn::TurnView;
use berth_core::{ClockReading, Effect, Epoch, Observation, Refusal, RunPhase, Session};
use berth_host::clock;
use berth_host::identity::ProcessIdentity;
use berth_store::claim::AppendError;
use berth_store::store::Lease;
use berth_store::{SessionView, killpoint};
use rustix::event::{EventfdFlags, eventfd};

use super::lease_loss::LeaseLoss;
use super::sync_pace::SyncPace;
use super::waiting_reports::WaitingReports;
use crate::journaled_session::{CommittedBatch, DecidedBatch, JournaledSession, SessionInput, WrittenBatch};

/// The thread encodes and writes batches, and does nothing else.
const STACK_BYTES: usize = 256 * 1024;
/// The time that the loop spins for a written batch before it sleeps until the kernel wakes it. Most disks are
/// quicker, and being woken twice costs as much as a quick sync.
const QUICK_SYNC: Duration = Duration::from_micros(300);
/// How long to wait before what the disk refused is tried again.
const RETRY_MS: u64 = 1000;

/// One session's state and journal, and all inputs that wait to get into it.
#[derive(Debug)]
pub(super) struct CommitPipeline {
    session: JournaledSession,
    lease: Lease,
    /// Set once the lease is no longer the one that was locked.
    lease_loss: Option<LeaseLoss>,
    thread: Option<JournalThread>,
    is_busy: bool,
    pace: SyncPace,
    /// Inputs that arrived while a batch was in flight.
    deferred: Vec<SessionInput>,
    waiting: WaitingReports,
    /// The time of the next attempt after the disk refused a write, on the boot clock.
    retry_at_ms: Option<u64>,
}

/// The thread that writes the journal. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct JournalThread {
    batches: SyncSender<DecidedBatch>,
    written: Receiver<WrittenBatch>,
    /// Readable when a batch was written and the loop waits for it.
    done: OwnedFd,
    /// True while the loop waits for the kernel to say that a batch was written.
    is_awaited: Arc<AtomicBool>,
}

impl CommitPipeline {
    pub(super) fn new(session: JournaledSession, lease: Lease) -> Self {
        Self {
            session,
            lease,
            lease_loss: None,
            thread: None,
            is_busy: false,
            pace: SyncPace::new(),
            deferred: Vec::new(),
            waiting: WaitingReports::default(),
            retry_at_ms: None,
        }
    }

    /// Starts the thread. Without it the loop waits for the disk itself.
    pub(super) fn start_thread(&mut self) {
        match JournalThread::start() {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => tracing::warn!(%error, "no thread for the journal: the loop waits for the disk"),
        }
    }

    pub(super) fn history(&self) -> &SessionView {
        self.session.history()
    }

    /// The state that the committed events lead to.
    pub(super) fn session(&self) -> &Session {
        &self.session.history().session
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.session().epoch
    }

    /// The epoch of the claim, for the order that begins the next run (see [`JournaledSession::next_epoch`]).
    pub(super) fn next_epoch(&mut self) -> Epoch {
        self.session.next_epoch()
    }

    /// The effects that the world owes this state.
    pub(super) fn owed(&self) -> Vec<Effect> {
        self.session.owed()
    }

    /// The first refusal among the answers to a batch. Nothing is taken.
    pub(super) fn refusal(&self, inputs: &[SessionInput], now: ClockReading) -> Option<Refusal> {
        self.session.refusal(inputs, now)
    }

    /// At most `limit` turns from the turn `from` on, and no more once their texts have `most_bytes`.
    pub(super) fn turns(
        &mut self,
        from: u64,
        limit: u64,
        most_bytes: usize,
    ) -> Result<Vec<TurnView>, Problem> {
        self.session.turns(from, limit, most_bytes)
    }

    /// True while a batch is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Decides a batch, which is written with [`JournalThread::write`]; or by the caller, if nothing is to be written, or
    /// if the disk is quick and no terminal waits meanwhile. Handing a batch over costs as much as a quick sync.
    pub(super) fn begin(
        &mut self,
        inputs: Vec<SessionInput>,
        now: ClockReading,
    ) -> (DecidedBatch, Option<JournalThread>) {
        let has_terminal = self.session().has_terminal();
        let batch = self.session.begin(inputs, now);
        let by_caller = batch.is_empty() || (!has_terminal && self.is_disk_quick());
        let thread = if by_caller { None } else { self.thread.take() };
        self.is_busy = thread.is_some();
        (batch, thread)
    }

    /// True if the disk has been quick for some time. A test that can hold a sync has a slow disk.
    fn is_disk_quick(&self) -> bool {
        self.pace.is_quick() && !killpoint::may_hold("sync")
    }

    /// Applies what the journal took, and takes the thread back.
    pub(super) fn finish(
        &mut self,
        written: WrittenBatch,
        thread: Option<JournalThread>,
    ) -> Result<CommittedBatch, AppendError> {
        self.is_busy = false;
        self.thread = thread.or(self.thread.take());
        let took = written.took();
        let taken = self.session.finish(written);
        if !taken.as_ref().is_ok_and(|taken| taken.events.is_empty()) {
            self.pace.note(took, taken.is_err());
        }
        taken
    }

    /// Keeps an input for the batch after the one in flight.
    pub(super) fn defer(&mut self, input: SessionInput) {
        self.deferred.push(input);
    }

    pub(super) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// The number of inputs that wait for the batch in flight.
    pub(super) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    pub(super) fn take_deferred(&mut self) -> Vec<SessionInput> {
        std::mem::take(&mut self.deferred)
    }

    /// Adds reports to those that wait for the journal. Returns all of them, as one batch.
    pub(super) fn with_waiting(&mut self, reports: Vec<Observation>) -> Vec<SessionInput> {
        let epoch = self.epoch();
        self.waiting.add(reports, epoch);
        self.waiting.iter().cloned().map(SessionInput::Report).collect()
    }

    /// The reports that the journal has not taken yet.
    pub(super) fn waiting(&self) -> &WaitingReports {
        &self.waiting
    }

    /// The journal has taken all that waited.
    pub(super) fn clear_waiting(&mut self) {
        self.waiting.clear();
    }

    /// True if the journal was told that time has passed and has not taken that: a full disk decides when it is tried again.
    pub(super) fn has_reported_tick(&self) -> bool {
        self.waiting.contains(&Observation::Tick)
    }

    /// When the patience with a run that was asked to end is over, on the boot clock.
    pub(super) fn kill_at_ms(&self) -> Option<u64> {
        match &self.session().phase {
            RunPhase::Ending(ending) if !ending.killed && !self.has_reported_tick() => {
                Some(ending.kill_at_boot_ms)
            }
            RunPhase::New
            | RunPhase::Starting
            | RunPhase::Running { .. }
            | RunPhase::Ending(_)
            | RunPhase::Ended { .. } => None,
        }
    }

    /// When a helper without owners is stopped, on the boot clock.
    pub(super) fn idle_end_ms(&self) -> Option<u64> {
        self.session().idle_end_boot_ms().filter(|_| !self.has_reported_tick())
    }

    /// Schedules another attempt of the writes that the disk refused.
    pub(super) fn retry_soon(&mut self) {
        self.retry_at_ms = Some(clock::boot_ms() + RETRY_MS);
    }

    /// The time of the next attempt, on the boot clock.
    pub(super) fn retry_at_ms(&self) -> Option<u64> {
        self.retry_at_ms
    }

    /// True once when it is time to try again.
    pub(super) fn take_retry(&mut self, now: u64) -> bool {
        self.retry_at_ms.take_if(|at| *at <= now).is_some()
    }

    /// Writes the keeper and its run into the lease. The journal has both as well, so a failure costs only the comfort of
    /// the next reader.
    pub(super) fn sign_lease(&self, holder: &ProcessIdentity) {
        let _ = self.lease.sign(holder, self.epoch().0);
    }

    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(super) fn lease_loss(&self) -> Option<LeaseLoss> {
        self.lease_loss
    }

    /// Notes a loss. True if it was not known.
    pub(super) fn note_loss(&mut self, loss: LeaseLoss) -> bool {
        self.lease_loss.replace(loss) != Some(loss)
    }

    /// True if the session's directory is no longer the one at its path.
    pub(super) fn is_disowned(&self) -> bool {
        self.lease_loss == Some(LeaseLoss::Directory)
    }

    /// The locks on the lease file and on the directory.
    pub(super) fn lease_fds(&self) -> (RawFd, RawFd) {
        (self.lease.file().as_fd().as_raw_fd(), self.lease.dir_lock().as_fd().as_raw_fd())
    }

    /// Writes a snapshot if the last one is old. No caller depends on it.
    pub(super) fn write_snapshot(&mut self) {
        self.session.write_snapshot();
    }

    /// Closes the journal so that later damage can be told from a torn end, and returns the lease.
    pub(super) fn close(mut self) -> Lease {
        if self.is_disowned() {
            self.session.stop_derived_files();
        }
        // Sealing is a courtesy to the next reader; the events themselves are on disk.
        let _ = self.session.close();
        self.lease
    }
}

/// Wakes the loop, also if the thread panics: then the loop finds that the thread is gone.
struct WakeOnDrop(OwnedFd);

impl WakeOnDrop {
    fn wake(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.wake();
    }
}

impl JournalThread {
    fn start() -> io::Result<Self> {
        let done = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let wakes = WakeOnDrop(done.try_clone()?);
        let (batches, incoming) = sync_channel::<DecidedBatch>(1);
        let (outgoing, written) = sync_channel(1);
        let is_awaited = Arc::new(AtomicBool::new(false));
        let awaited = Arc::clone(&is_awaited);
        let write = move || {
            // If the thread panics, its end of the channel is closed first, and then the loop is woken.
            let (wakes, outgoing) = (wakes, outgoing);
            for batch in incoming {
                killpoint::wait_if_armed("sync");
                if outgoing.send(batch.write()).is_err() {
                    return;
                }
                // The loop sets this and looks once more before it waits, so one of the two sees the other.
                fence(Ordering::SeqCst);
                if awaited.load(Ordering::SeqCst) {
                    wakes.wake();
                }
            }
        };
        std::thread::Builder::new().stack_size(STACK_BYTES).spawn(write)?;
        Ok(Self { batches, written, done, is_awaited })
    }

    /// Brings a batch to the disk, and calls `attend` again and again until it is there.
    pub(super) fn write(&self, batch: DecidedBatch, mut attend: impl FnMut(&OwnedFd)) -> WrittenBatch {
        self.batches.send(batch).expect("the thread lives as long as its channel");
        let began_at = Instant::now();
        while began_at.elapsed() < QUICK_SYNC {
            if let Some(written) = self.written() {
                return written;
            }
            std::thread::yield_now();
        }
        self.is_awaited.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let written = loop {
            match self.written() {
                Some(written) => break written,
                None => attend(&self.done),
            }
        };
        self.is_awaited.store(false, Ordering::SeqCst);
        let _ = rustix::io::read(&self.done, &mut [0; 8]);
        written
    }

    /// The batch, if it was written.
    fn written(&self) -> Option<WrittenBatch> {
        match self.written.try_recv() {
            Ok(written) => Some(written),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("the thread that writes the journal is gone"),
        }
    }
}
