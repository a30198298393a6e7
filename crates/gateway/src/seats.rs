//! How many may do at once what keeps a thread for long.
//!
//! Promise: whatever takes long together takes far fewer threads than there are ([`crate::server`] has the number), so
//! that looking always has some; whoever finds no seat is told when to ask again, and nothing was done.
//! Start with [`long_work`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_api::{Code, Problem};
use berth_verbs::records::allowance;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::fault::Fault;
use crate::gate::work;

/// How many verbs that take long may run at once: starting, resuming, ending.
const MOST_LONG: usize = 128;
/// How long who wants one waits for a seat. That costs no thread.
const LONG_PATIENCE: Duration = Duration::from_secs(30);
/// How many files may be on their way at once: each keeps a thread for as long as its client reads.
const MOST_EXPORTS: usize = 16;
/// How many searches there may be at once: each has threads of its own for all processors.
const MOST_SEARCHES: usize = 4;
/// How many whole transcripts may be read at once: whoever may only look keeps nobody from starting and ending.
const MOST_READERS: usize = 4;
/// How many work trees are compared with their commits at once: each comparison reads a whole tree in a process of its own.
const MOST_COMPARISONS: usize = 4;
/// How much of transcripts is read for one request. A gibibyte takes about a second.
const MOST_READ_BYTES: u64 = 1 << 30;
/// When a seat may be free, in seconds.
const RETRY_SECONDS: u64 = 5;
/// How long anything that a caller may choose the length of takes at most.
const LONGEST_MS: u64 = 60 * 60 * 1000;

static LONG: Semaphore = Semaphore::const_new(MOST_LONG);
static EXPORTS: Semaphore = Semaphore::const_new(MOST_EXPORTS);
static SEARCHES: Semaphore = Semaphore::const_new(MOST_SEARCHES);
static READERS: Semaphore = Semaphore::const_new(MOST_READERS);
static COMPARISONS: Semaphore = Semaphore::const_new(MOST_COMPARISONS);

/// A seat until it is dropped.
pub(crate) type Seat = SemaphorePermit<'static>;

/// Runs a verb that may take long.
pub(crate) async fn long_work<T: Send + 'static>(
    verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Fault> {
    // Such work goes on without its caller, so only the number of bytes bounds its reads.
    let verb = move || allowance::within(MOST_READ_BYTES, Arc::default(), verb);
    seated(&LONG, MOST_LONG, "long requests are running", verb).await
}

/// Reads files of any size for a caller that waits: at most [`MOST_READ_BYTES`] in all, and nothing more once the
/// caller has left.
pub(crate) async fn reading<T: Send + 'static>(
    verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Fault> {
    let waiting = Waiting::default();
    let verb = waiting.bound(MOST_READ_BYTES, verb);
    seated(&READERS, MOST_READERS, "transcripts are being read", verb).await
}

/// A client that waits for the result, until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Arc<AtomicBool>);

impl Waiting {
    /// Wraps work so that it reads at most `most_bytes`, and fails to read on soon after the client has left.
    pub(crate) fn bound<T>(
        &self,
        most_bytes: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl FnOnce() -> T + Send + 'static {
        let is_abandoned = self.0.clone();
        move || allowance::within(most_bytes, is_abandoned, work)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn seated<T: Send + 'static>(
    seats: &'static Semaphore,
    most: usize,
    what: &str,
    verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Fault> {
    let seat = tokio::time::timeout(LONG_PATIENCE, seats.acquire()).await;
    let Ok(Ok(seat)) = seat else { return Err(full(most, what)) };
    // The seat is taken until it is done, also if nobody waits for it any more.
    work(move || {
        let _seat = seat;
        verb()
    })
    .await
}

/// A seat for who wants a file.
pub(crate) fn export() -> Result<Seat, Fault> {
    EXPORTS.try_acquire().map_err(|_| full(MOST_EXPORTS, "exports are on their way"))
}

/// A seat for who searches.
pub(crate) fn search() -> Result<Seat, Fault> {
    SEARCHES.try_acquire().map_err(|_| full(MOST_SEARCHES, "searches are running"))
}

/// A seat for a comparison of a work tree.
pub(crate) fn comparison() -> Result<Seat, Problem> {
    COMPARISONS.try_acquire().map_err(|_| full_problem(MOST_COMPARISONS, "work trees are being compared"))
}

/// Says when to ask again, if all seats were taken.
pub(crate) fn retry_if_full(fault: Fault) -> Fault {
    if fault.problem.code == Code::Full { fault.retry_after(RETRY_SECONDS) } else { fault }
}

fn full(most: usize, what: &str) -> Fault {
    Fault::from(full_problem(most, what)).retry_after(RETRY_SECONDS)
}

fn full_problem(most: usize, what: &str) -> Problem {
    let what = format!("{most} {what} at this gateway already; nothing was done");
    Problem::new(Code::Full, what).hint("ask again later")
}

/// A time that a caller chose, in milliseconds, unless it is too long.
pub(crate) fn at_most_an_hour(name: &str, ms: u64) -> Result<u64, Fault> {
    if ms > LONGEST_MS {
        return Err(Fault::usage(format!("`{name}` is at most {LONGEST_MS}, not {ms}")));
    }
    Ok(ms)
}
