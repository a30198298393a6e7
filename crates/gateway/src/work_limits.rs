//! Limits on concurrent work that keeps a thread for long.
//!
//! Promise: all long work together takes far fewer threads than there are (see [`crate::server`] for the number), so
//! that short reads always find one. A request that finds no free seat is refused with the time of a useful retry,
//! before anything was done.
//! Start with [`long_work`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_api::{Problem, ProblemCode};
use berth_verbs::transcript_files::read_budget;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::app_state::run_blocking;
use crate::http_problem::HttpProblem;

/// Number of long verbs that may run at once: starting, resuming, ending.
const MOST_LONG: usize = 128;
/// Timeout for a request that waits for a free seat. Waiting takes no thread.
const LONG_PATIENCE: Duration = Duration::from_secs(30);
/// Number of exports at once: each keeps a thread for as long as its client reads.
const MOST_EXPORTS: usize = 16;
/// Number of searches at once: each uses threads on all processors.
const MOST_SEARCHES: usize = 4;
/// Number of whole transcripts that may be read at once. Readers have seats of their own, so they cannot block starts
/// and stops.
const MOST_READERS: usize = 4;
/// Number of work trees that are compared with their commits at once: each comparison reads a whole tree in a process
/// of its own.
const MOST_COMPARISONS: usize = 4;
/// Number of bytes of transcripts that one request may read. A gibibyte takes about a second.
const MOST_READ_BYTES: u64 = 1 << 30;
/// Time after which a seat may be free, in seconds.
const RETRY_SECONDS: u64 = 5;
/// Longest time limit that a caller may choose.
const LONGEST_MS: u64 = 60 * 60 * 1000;

static LONG: Semaphore = Semaphore::const_new(MOST_LONG);
static EXPORTS: Semaphore = Semaphore::const_new(MOST_EXPORTS);
static SEARCHES: Semaphore = Semaphore::const_new(MOST_SEARCHES);
static READERS: Semaphore = Semaphore::const_new(MOST_READERS);
static COMPARISONS: Semaphore = Semaphore::const_new(MOST_COMPARISONS);

/// A seat, taken until it is dropped.
pub(crate) type WorkPermit = SemaphorePermit<'static>;

/// Runs a verb that may take long.
pub(crate) async fn long_work<T: Send + 'static>(
    verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, HttpProblem> {
    // Such work goes on without its caller, so only the number of bytes bounds its reads.
    let verb = move || read_budget::with_budget(MOST_READ_BYTES, Arc::default(), verb);
    with_permit(&LONG, MOST_LONG, "long requests are running", verb).await
}

/// Reads files of any size for a caller that waits: at most [`MOST_READ_BYTES`] in all, and nothing more once the
/// caller has left.
pub(crate) async fn read_work<T: Send + 'static>(
    verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, HttpProblem> {
    let waiting = ReadCancelGuard::default();
    let verb = waiting.bound(MOST_READ_BYTES, verb);
    with_permit(&READERS, MOST_READERS, "transcripts are being read", verb).await
}

/// A client that waits for the result, until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct ReadCancelGuard(Arc<AtomicBool>);

impl ReadCancelGuard {
    /// Wraps work so that it reads at most `most_bytes`, and fails to read on soon after the client has left.
    pub(crate) fn bound<T>(
        &self,
        most_bytes: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl FnOnce() -> T + Send + 'static {
        let is_abandoned = self.0.clone();
        move || read_budget::with_budget(most_bytes, is_abandoned, work)
    }
}

impl Drop for ReadCancelGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn with_permit<T: Send + 'static>(
    seats: &'static Semaphore,
    most: usize,
    what: &str,
    verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, HttpProblem> {
    let seat = tokio::time::timeout(LONG_PATIENCE, seats.acquire()).await;
    let Ok(Ok(seat)) = seat else { return Err(full(most, what)) };
    // The seat is taken until the work is done, even if the caller has disconnected.
    run_blocking(move || {
        let _seat = seat;
        verb()
    })
    .await
}

/// Takes a seat for an export.
pub(crate) fn export() -> Result<WorkPermit, HttpProblem> {
    EXPORTS.try_acquire().map_err(|_| full(MOST_EXPORTS, "exports are on their way"))
}

/// Takes a seat for a search.
pub(crate) fn search() -> Result<WorkPermit, HttpProblem> {
    SEARCHES.try_acquire().map_err(|_| full(MOST_SEARCHES, "searches are running"))
}

/// Takes a seat for a comparison of a work tree.
pub(crate) fn comparison() -> Result<WorkPermit, Problem> {
    COMPARISONS.try_acquire().map_err(|_| full_problem(MOST_COMPARISONS, "work trees are being compared"))
}

/// Adds the time of a useful retry if all seats were taken.
pub(crate) fn retry_if_full(fault: HttpProblem) -> HttpProblem {
    if fault.problem.code == ProblemCode::Full { fault.retry_after(RETRY_SECONDS) } else { fault }
}

fn full(most: usize, what: &str) -> HttpProblem {
    HttpProblem::from(full_problem(most, what)).retry_after(RETRY_SECONDS)
}

fn full_problem(most: usize, what: &str) -> Problem {
    let what = format!("{most} {what} at this gateway already; nothing was done");
    Problem::full(what).hint("ask again later")
}

/// Checks a time in milliseconds that a caller chose.
pub(crate) fn check_duration(name: &str, ms: u64) -> Result<u64, HttpProblem> {
    if ms > LONGEST_MS {
        return Err(HttpProblem::usage(format!("`{name}` is at most {LONGEST_MS}, not {ms}")));
    }
    Ok(ms)
}
