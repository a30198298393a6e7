//! Many jobs for a few threads, and what they find in order.
//!
//! Promise: results come in the order of the jobs whoever finishes first; at most [`AHEAD`] jobs per thread are done
//! before somebody takes what they found, so that memory has a limit; when nobody wants more, all threads end.
//! Start with [`each`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use berth_api::{Code, Problem};

/// How many jobs a thread may be ahead of who takes their results.
const AHEAD: usize = 4;

struct Shared<R> {
    state: Mutex<State<R>>,
    changed: Condvar,
    /// Nobody wants more.
    enough: AtomicBool,
}

struct State<R> {
    next: usize,
    taken: usize,
    done: BTreeMap<usize, R>,
    /// A thread did not survive its job.
    is_broken: bool,
}

impl<R> Shared<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Tells everybody when a thread panics: they wait for what it would have found.
struct Alarm<'a, R>(&'a Shared<R>);

impl<R> Drop for Alarm<'_, R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.enough.store(true, Ordering::Relaxed);
            self.0.lock().is_broken = true;
            self.0.changed.notify_all();
        }
    }
}

/// Runs jobs 0 to `count` with as many threads as there are processors, and gives what each found to `take`, in
/// order, on this thread. `work` makes a worker for each thread; a worker gets the job's number, and a flag that says
/// when it should stop.
pub(crate) fn each<R, W>(
    count: usize,
    work: impl Fn() -> W + Sync,
    mut take: impl FnMut(usize, R) -> Result<ControlFlow<()>, Problem>,
) -> Result<(), Problem>
where
    R: Send,
    W: FnMut(usize, &AtomicBool) -> R,
{
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 16).min(count.max(1));
    let state = State { next: 0, taken: 0, done: BTreeMap::new(), is_broken: false };
    let shared = Shared { state: Mutex::new(state), changed: Condvar::new(), enough: AtomicBool::new(false) };
    let labour = || {
        let _alarm = Alarm(&shared);
        let mut worker = work();
        loop {
            let mut state = shared.lock();
            while state.next < count
                && state.next >= state.taken + AHEAD * threads
                && !shared.enough.load(Ordering::Relaxed)
            {
                state = shared.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            if state.next >= count || shared.enough.load(Ordering::Relaxed) {
                return;
            }
            let number = state.next;
            state.next += 1;
            drop(state);
            let result = worker(number, &shared.enough);
            shared.lock().done.insert(number, result);
            shared.changed.notify_all();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(labour);
        }
        let done = (|| {
            for number in 0..count {
                let mut state = shared.lock();
                let result = loop {
                    if state.is_broken {
                        return Err(Problem::new(Code::Bug, "a thread of the search ended early"));
                    }
                    match state.done.remove(&number) {
                        Some(result) => break result,
                        None => {
                            state =
                                shared.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
                        }
                    }
                };
                state.taken = number + 1;
                drop(state);
                shared.changed.notify_all();
                if take(number, result)?.is_break() {
                    return Ok(());
                }
            }
            Ok(())
        })();
        shared.enough.store(true, Ordering::Relaxed);
        shared.changed.notify_all();
        done
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn results_come_in_order_and_nobody_runs_far_ahead() {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mut taken = Vec::new();
        let work = || {
            |number: usize, _: &AtomicBool| {
                let ahead = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(ahead, Ordering::SeqCst);
                number * 2
            }
        };
        each(500, work, |number, result: usize| {
            running.fetch_sub(1, Ordering::SeqCst);
            taken.push((number, result));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        assert_eq!(taken, (0..500).map(|number| (number, number * 2)).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= AHEAD * 16 + 16, "{most:?}");
    }

    #[test]
    fn who_has_enough_ends_it_and_who_breaks_is_told() {
        let begun = AtomicUsize::new(0);
        let work = || |_: usize, _: &AtomicBool| begun.fetch_add(1, Ordering::SeqCst);
        each(100_000, work, |_, _| Ok(ControlFlow::Break(()))).unwrap();
        assert!(begun.load(Ordering::SeqCst) < 100_000);
        let fails = each(
            10,
            || |_: usize, _: &AtomicBool| (),
            |_, ()| Err::<ControlFlow<()>, _>(Problem::new(Code::Refused, "full")),
        );
        assert_eq!(fails.map_err(|problem| problem.what), Err("full".to_owned()));
    }
}
