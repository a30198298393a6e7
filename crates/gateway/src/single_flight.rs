//! Coalesces concurrent identical reads (single-flight).
//!
//! Promise: one read runs at a time, however many callers ask. [`SingleFlight::get`] returns the result of a read that began
//! after the call: callers that come during a read share the next one. [`ProbeCache::ask`] joins a read that is running, or
//! returns a recent result with its age; a failure reaches the callers that waited for it, and is not cached. A caller
//! that disconnects during a read does not cancel the read for the others.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_store::killpoint;

use crate::http_problem::HttpProblem;
use crate::trace;

/// Environment variable with which tests set how long an answer is cached, in milliseconds.
const AGE_VARIABLE: &str = "BERTH_ANSWER_AGE_MS";
/// Number of cached keys; the oldest one is removed first.
const MOST_KEYS: usize = 32;

/// A single-flight read; see the module.
#[derive(Debug)]
pub(crate) struct SingleFlight<T> {
    state: Arc<Mutex<FlightState<T>>>,
    /// Held by the task that reads, until the read ends.
    looking: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct FlightState<T> {
    /// Number of reads that were begun.
    begun: u64,
    /// The last finished read: its number and its result.
    last: Option<(u64, T)>,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { state: Arc::new(Mutex::new(FlightState { begun: 0, last: None })), looking: Arc::default() }
    }
}

impl<T: Clone + Send + 'static> SingleFlight<T> {
    /// Returns the result of a read that began after this call: of another caller's read, or else of `look`.
    pub(crate) async fn get<F: Future<Output = T> + Send + 'static>(&self, look: impl FnOnce() -> F) -> T {
        // A running read may have missed the change that the caller asks about.
        let wanted = state(&self.state).begun + 1;
        self.find(|number, _| number >= wanted, look).await
    }

    /// Returns the last result if `counts` accepts it, now or once the running read is over; else the result of `look`. A
    /// read whose callers all disconnected runs to its end, and no other read begins before.
    async fn find<F: Future<Output = T> + Send + 'static>(
        &self,
        counts: impl Fn(u64, &T) -> bool,
        look: impl FnOnce() -> F,
    ) -> T {
        let last = || {
            let last = state(&self.state).last.clone();
            last.filter(|(number, seen)| counts(*number, seen)).map(|(_, seen)| seen)
        };
        if let Some(seen) = last() {
            return seen;
        }
        let looking = self.looking.clone().lock_owned().await;
        if let Some(seen) = last() {
            return seen;
        }
        let number = {
            let mut state = state(&self.state);
            state.begun += 1;
            state.begun
        };
        let (look, told) = (look(), self.state.clone());
        let looked = trace::spawn(async move {
            let seen = look.await;
            state(&told).last = Some((number, seen.clone()));
            drop(looking);
            seen
        });
        match looked.await {
            Ok(seen) => seen,
            // Nothing aborts the task, so it panicked.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

fn state<T>(state: &Mutex<FlightState<T>>) -> MutexGuard<'_, FlightState<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cache of answers that take processes to find, each for a while, by key.
#[derive(Debug)]
pub(crate) struct ProbeCache<K, T> {
    /// How long an answer is cached.
    counts_for: fn(&T) -> Duration,
    looks: Mutex<Vec<(K, KeyedFlight<T>)>>,
}

/// Result of a read, and its time.
type ProbeResult<T> = (Instant, Result<T, Problem>);
/// The reads of one key.
type KeyedFlight<T> = Arc<SingleFlight<ProbeResult<T>>>;

impl<K: PartialEq, T: Clone + Send + Sync + 'static> ProbeCache<K, T> {
    /// Makes an empty cache. `counts_for` gives the time that an answer is cached.
    pub(crate) fn new(counts_for: fn(&T) -> Duration) -> Self {
        Self { counts_for, looks: Mutex::default() }
    }

    /// The answer and its age. Without a cached answer or a running read, `look` finds it in a thread that may wait for
    /// processes.
    pub(crate) async fn ask(
        &self,
        key: K,
        look: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<(T, Duration), HttpProblem> {
        let one = self.of(key);
        let asked_at = Instant::now();
        let trace = trace::current();
        let look = || async {
            let looked = tokio::task::spawn_blocking(move || berth_api::trace::with_trace(trace, look)).await;
            let failed = |error| Err(Problem::bug(format!("a look failed: {error}")));
            (Instant::now(), looked.unwrap_or_else(failed))
        };
        let (at, answer) = one.find(|_, seen| seen.0 >= asked_at || self.is_young(seen), look).await;
        Ok((answer?, at.elapsed()))
    }

    fn of(&self, key: K) -> KeyedFlight<T> {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|(_, one)| {
            let is_young = || state(&one.state).last.as_ref().is_some_and(|(_, seen)| self.is_young(seen));
            Arc::strong_count(one) > 1 || one.looking.try_lock().is_err() || is_young()
        });
        if let Some((_, one)) = looks.iter().find(|(about, _)| *about == key) {
            return one.clone();
        }
        if looks.len() >= MOST_KEYS {
            drop(looks.remove(0));
        }
        looks.push((key, Arc::default()));
        looks[looks.len() - 1].1.clone()
    }

    fn is_young(&self, (at, answer): &ProbeResult<T>) -> bool {
        let counts_for = |answer| killpoint::patience(AGE_VARIABLE, (self.counts_for)(answer));
        answer.as_ref().is_ok_and(|answer| at.elapsed() <= counts_for(answer))
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ProblemCode;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use tokio::sync::Semaphore;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
    }

    #[test]
    fn a_hundred_callers_during_a_read_share_the_next_read() {
        run(async {
            let one = Arc::new(SingleFlight::<u64>::default());
            let (looks, world, go) =
                (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(1)), Arc::new(Semaphore::new(0)));
            let ask = || {
                let (one, looks) = (one.clone(), looks.clone());
                let (world, go) = (world.clone(), go.clone());
                tokio::spawn(async move {
                    let look = async move {
                        looks.fetch_add(1, Ordering::SeqCst);
                        let seen = world.load(Ordering::SeqCst);
                        go.acquire().await.expect("open").forget();
                        seen
                    };
                    one.get(move || look).await
                })
            };
            let first = ask();
            while looks.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            // The value changes, and a hundred callers ask for it: the running read has missed the change.
            world.store(2, Ordering::SeqCst);
            let rest: Vec<_> = (0..100).map(|_| ask()).collect();
            tokio::task::yield_now().await;
            go.add_permits(2);
            assert_eq!(first.await.expect("it looks"), 1);
            for asked in rest {
                assert_eq!(asked.await.expect("it is told"), 2);
            }
            assert_eq!(looks.load(Ordering::SeqCst), 2);
        });
    }

    #[test]
    fn a_caller_that_leaves_during_a_read_cancels_it_for_no_other_and_no_second_read_begins() {
        run(async {
            let one = Arc::new(SingleFlight::<u64>::default());
            let (at_it, most, go) =
                (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(0)));
            let ask = |seen: u64| {
                let (one, at_it, most, go) = (one.clone(), at_it.clone(), most.clone(), go.clone());
                tokio::spawn(async move {
                    let look = async move {
                        most.fetch_max(at_it.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        go.acquire().await.expect("open").forget();
                        at_it.fetch_sub(1, Ordering::SeqCst);
                        seen
                    };
                    one.get(move || look).await
                })
            };
            let stuck = ask(1);
            while at_it.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            stuck.abort();
            let asked = ask(7);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            go.add_permits(2);
            assert_eq!(asked.await.expect("it looks for itself"), 7);
            assert_eq!(most.load(Ordering::SeqCst), 1);
        });
    }

    const LONG: Duration = Duration::from_secs(3600);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().expect("a runtime")
    }

    /// A read that counts how often it ran.
    fn counted(count: &Arc<AtomicUsize>) -> impl FnOnce() -> Result<usize, Problem> + Send + 'static {
        let count = count.clone();
        move || Ok(count.fetch_add(1, Ordering::SeqCst) + 1)
    }

    #[test]
    fn a_caller_during_a_read_gets_the_result_of_that_read() {
        runtime().block_on(async {
            // A finished read is never cached here, so the callers share the running one.
            let (question, count) = (ProbeCache::new(|_| Duration::ZERO), Arc::new(AtomicUsize::new(0)));
            let (go, gate) = mpsc::channel::<()>();
            let look = counted(&count);
            let first = question.ask((), move || {
                let _ = gate.recv();
                look()
            });
            let others = futures_util::future::join_all((0..5).map(|_| question.ask((), counted(&count))));
            let release = async {
                tokio::task::yield_now().await;
                drop(go);
            };
            let (first, others, ()) = tokio::join!(first, others, release);
            assert_eq!(first.expect("an answer").0, 1);
            others.into_iter().for_each(|other| assert_eq!(other.expect("an answer").0, 1));
            assert_eq!(question.ask((), counted(&count)).await.expect("an answer").0, 2, "it is over");
        });
    }

    #[test]
    fn an_answer_counts_for_as_long_as_its_contents_say() {
        runtime().block_on(async {
            let counts_for = |number: &usize| if number.is_multiple_of(2) { LONG } else { Duration::ZERO };
            let (question, count) = (ProbeCache::new(counts_for), Arc::new(AtomicUsize::new(0)));
            for expected in [1, 2, 2, 2] {
                assert_eq!(question.ask((), counted(&count)).await.expect("an answer").0, expected);
            }
        });
    }

    #[test]
    fn answers_of_several_keys_count_at_the_same_time_and_the_oldest_goes_first() {
        runtime().block_on(async {
            let (question, count) = (ProbeCache::new(|_| LONG), Arc::new(AtomicUsize::new(0)));
            for _ in 0..2 {
                for key in 0..MOST_KEYS {
                    assert_eq!(question.ask(key, counted(&count)).await.expect("an answer").0, key + 1);
                }
            }
            let next = MOST_KEYS + 1;
            assert_eq!(question.ask(MOST_KEYS, counted(&count)).await.expect("an answer").0, next);
            assert_eq!(question.ask(1, counted(&count)).await.expect("an answer").0, 2);
            assert_eq!(question.ask(0, counted(&count)).await.expect("an answer").0, next + 1);
        });
    }

    #[test]
    fn an_answer_counts_for_a_while_and_only_for_its_question() {
        runtime().block_on(async {
            let (question, count) = (ProbeCache::new(|_| LONG), Arc::new(AtomicUsize::new(0)));
            for _ in 0..3 {
                assert_eq!(question.ask("a", counted(&count)).await.expect("an answer").0, 1);
            }
            assert_eq!(question.ask("b", counted(&count)).await.expect("an answer").0, 2);
        });
    }

    #[test]
    fn a_failure_is_not_cached() {
        runtime().block_on(async {
            let (question, count) = (ProbeCache::new(|_| LONG), Arc::new(AtomicUsize::new(0)));
            let wrong = question.ask((), || Err(Problem::refused("not now"))).await;
            assert_eq!(wrong.expect_err("a problem").problem.code, ProblemCode::Refused);
            assert_eq!(question.ask((), counted(&count)).await.expect("an answer").0, 1);
        });
    }

    #[test]
    fn a_result_without_a_caller_is_too_old_for_a_much_later_caller() {
        runtime().block_on(async {
            let (question, count) = (ProbeCache::new(|_| Duration::ZERO), Arc::new(AtomicUsize::new(0)));
            let one = question.of(());
            let mut left = Box::pin(question.ask((), counted(&count)));
            let mut context = Context::from_waker(Waker::noop());
            assert!(left.as_mut().poll(&mut context).is_pending());
            drop(left);
            while state(&one.state).last.is_none() {
                tokio::task::yield_now().await;
            }
            assert_eq!(question.ask((), counted(&count)).await.expect("an answer").0, 2);
        });
    }
}
