//! One look for everybody who wants to know the same.
//!
//! Promise: what somebody is told was looked at after they asked. However many ask, one look is under way at a time, and
//! all who come while it is share the next one. Whoever goes away in the middle of a look takes nobody along.
//! Start with [`OneLook::get`].

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::trace;

/// See the module.
#[derive(Debug)]
pub(crate) struct OneLook<T> {
    state: Arc<Mutex<State<T>>>,
    /// Held by who looks.
    looking: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct State<T> {
    /// How many looks were begun.
    begun: u64,
    /// The last one that came to an end: its number, and what was seen.
    last: Option<(u64, T)>,
}

impl<T> Default for OneLook<T> {
    fn default() -> Self {
        Self { state: Arc::new(Mutex::new(State { begun: 0, last: None })), looking: Arc::default() }
    }
}

impl<T: Clone + Send + 'static> OneLook<T> {
    /// What somebody saw who began to look after this was asked; by `look`, if nobody else did. A look that nobody waits
    /// for any more goes on to its end, and no other begins before.
    pub(crate) async fn get<F: Future<Output = T> + Send + 'static>(&self, look: impl FnOnce() -> F) -> T {
        // One that is under way may have passed by what is asked about.
        let wanted = state(&self.state).begun + 1;
        let looking = self.looking.clone().lock_owned().await;
        if let Some((number, seen)) = &state(&self.state).last
            && *number >= wanted
        {
            return seen.clone();
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
            // Nobody aborts it.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

fn state<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
    }

    #[test]
    fn a_hundred_who_ask_while_somebody_looks_share_the_next_look() {
        run(async {
            let one = Arc::new(OneLook::<u64>::default());
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
            // Something happens, and a hundred want to know: the look under way has passed it by.
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
    fn who_goes_away_in_the_middle_of_a_look_takes_nobody_along_and_no_second_one_begins_beside_it() {
        run(async {
            let one = Arc::new(OneLook::<u64>::default());
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
}
