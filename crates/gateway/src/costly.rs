//! Questions whose answers cost processes: asked once for everybody who wants to know meanwhile.
//!
//! Promise: however many ask, there is one who looks; who comes while it looks hears what it sees, and who comes a
//! moment later hears the same with its age. What went wrong is told to those who waited for it, and not kept.
//! A question about something else (another key) is another question.
//! Not here: what is asked (see `http::hosts`, `http::look`).
//! Start with [`Costly::ask`].

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::{Code, Problem};
use berth_keeper::killpoint;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use crate::fault::Fault;
use crate::trace;

/// The variable by which tests say how long an answer counts, in milliseconds.
const AGE_VARIABLE: &str = "BERTH_ANSWER_AGE_MS";

/// How many keys have an answer at a time; the oldest goes first.
const MOST_KEYS: usize = 32;

/// One kind of question, the last answers by their keys, and who is looking for the next.
pub(crate) struct Costly<K, T> {
    /// How long an answer counts.
    counts_for: fn(&T) -> Duration,
    last: Mutex<Vec<(K, Look<T>)>>,
}

impl<K, T> std::fmt::Debug for Costly<K, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Costly").finish_non_exhaustive()
    }
}

/// What was seen, and when.
type Look<T> = Shared<BoxFuture<'static, (Instant, Result<T, Problem>)>>;

impl<K: PartialEq, T: Clone + Send + Sync + 'static> Costly<K, T> {
    /// A question whose answers count for as long as `counts_for` says.
    pub(crate) fn new(counts_for: fn(&T) -> Duration) -> Self {
        Self { counts_for, last: Mutex::default() }
    }

    /// The answer, and how old it is. `look` finds it, if nobody does and none counts.
    pub(crate) async fn ask(
        &self,
        key: K,
        look: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<(T, Duration), Fault>
    where
        K: Clone,
    {
        let (mut look, came) = (Some(look), Instant::now());
        loop {
            let seen = {
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                last.retain(|(_, seen)| self.still_counts(seen));
                match last.iter().find(|(about, _)| *about == key) {
                    Some((_, seen)) => seen.clone(),
                    None => {
                        let Some(look) = look.take() else {
                            return Err(Problem::new(Code::Bug, "nobody looks").into());
                        };
                        let seen = begin(look);
                        if last.len() >= MOST_KEYS {
                            drop(last.remove(0));
                        }
                        last.push((key.clone(), seen.clone()));
                        seen
                    }
                }
            };
            let (at, answer) = seen.await;
            // One that nobody waited for to its end may have ended long ago: that is no answer to who came later.
            let is_of_now = at >= came || self.is_young(at, &answer);
            if is_of_now || look.is_none() {
                return Ok((answer?, at.elapsed()));
            }
        }
    }

    /// Whether somebody still looks, or what they saw is good and young.
    fn still_counts(&self, seen: &Look<T>) -> bool {
        seen.peek().is_none_or(|(at, answer)| self.is_young(*at, answer))
    }

    fn is_young(&self, at: Instant, answer: &Result<T, Problem>) -> bool {
        let counts_for = |answer| killpoint::patience(AGE_VARIABLE, (self.counts_for)(answer));
        answer.as_ref().is_ok_and(|answer| at.elapsed() <= counts_for(answer))
    }
}

/// Looks in a thread that waits for processes, to the end, whoever still waits for it.
fn begin<T: Clone + Send + Sync + 'static>(
    look: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Look<T> {
    let trace = trace::current();
    let looking = tokio::task::spawn_blocking(move || {
        let seen = berth_api::trace::within(trace, look);
        (Instant::now(), seen)
    });
    let told = looking.map(|seen| match seen {
        Ok(seen) => seen,
        Err(error) => (Instant::now(), Err(Problem::new(Code::Bug, format!("a look failed: {error}")))),
    });
    told.boxed().shared()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(3600);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().expect("a runtime")
    }

    /// Looks that are counted.
    fn counted(count: &Arc<AtomicUsize>) -> impl FnOnce() -> Result<usize, Problem> + Send + 'static {
        let count = count.clone();
        move || Ok(count.fetch_add(1, Ordering::SeqCst) + 1)
    }

    #[test]
    fn who_asks_while_somebody_looks_hears_what_they_see() {
        runtime().block_on(async {
            // Nothing counts that is over, so it is the looking that they share.
            let (question, count) = (Costly::new(|_| Duration::ZERO), Arc::new(AtomicUsize::new(0)));
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
            let (question, count) = (Costly::new(counts_for), Arc::new(AtomicUsize::new(0)));
            for expected in [1, 2, 2, 2] {
                assert_eq!(question.ask((), counted(&count)).await.expect("an answer").0, expected);
            }
        });
    }

    #[test]
    fn answers_of_several_keys_count_at_the_same_time_and_the_oldest_goes_first() {
        runtime().block_on(async {
            let (question, count) = (Costly::new(|_| LONG), Arc::new(AtomicUsize::new(0)));
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
            let (question, count) = (Costly::new(|_| LONG), Arc::new(AtomicUsize::new(0)));
            for _ in 0..3 {
                assert_eq!(question.ask("a", counted(&count)).await.expect("an answer").0, 1);
            }
            assert_eq!(question.ask("b", counted(&count)).await.expect("an answer").0, 2);
        });
    }

    #[test]
    fn what_went_wrong_is_not_kept() {
        runtime().block_on(async {
            let (question, count) = (Costly::new(|_| LONG), Arc::new(AtomicUsize::new(0)));
            let wrong = question.ask((), || Err(Problem::new(Code::Refused, "not now"))).await;
            assert_eq!(wrong.expect_err("a problem").problem.code, Code::Refused);
            assert_eq!(question.ask((), counted(&count)).await.expect("an answer").0, 1);
        });
    }

    #[test]
    fn what_nobody_waited_for_is_no_answer_to_who_comes_much_later() {
        runtime().block_on(async {
            let (question, count) = (Costly::new(|_| Duration::ZERO), Arc::new(AtomicUsize::new(0)));
            let mut left = Box::pin(question.ask((), counted(&count)));
            assert!(futures_util::poll!(&mut left).is_pending());
            drop(left);
            // There is one thread: who comes to it next comes after that look, of which nobody took note.
            tokio::task::spawn_blocking(|| ()).await.expect("a turn");
            assert_eq!(question.ask((), counted(&count)).await.expect("an answer").0, 2);
        });
    }
}
