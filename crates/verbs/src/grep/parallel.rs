//! Worker threads: many jobs for a few threads, with results in order.
//!
//! Promise: results come in the order of the jobs, whichever thread finishes first; at most [`AHEAD`] results per
//! thread wait for the caller, so that memory is bounded; when the caller stops, all threads end.
//! Start with [`each`].

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use berth_api::Problem;

/// Limit for the results of a thread that wait for the caller.
const AHEAD: usize = 4;

/// Runs jobs 0 to `count` with as many threads as there are processors, and passes each result to `take`, in order, on
/// this thread. `work` makes a worker for each thread; a worker gets the job's number, and a flag that tells it to
/// stop.
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
    let (work, enough) = (&work, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let begin = |first: usize| {
            let (told, results) = sync_channel(AHEAD);
            scope.spawn(move || {
                let mut worker = work();
                for number in (first..count).step_by(threads) {
                    if enough.load(Ordering::Relaxed) || told.send(worker(number, enough)).is_err() {
                        return;
                    }
                }
            });
            results
        };
        let results: Vec<_> = (0..threads).map(begin).collect();
        let mut taken = || {
            for number in 0..count {
                let result = results[number % threads].recv();
                let ended = |_| Problem::bug("a thread of the search ended early");
                if take(number, result.map_err(ended)?)?.is_break() {
                    break;
                }
            }
            Ok(())
        };
        let taken = taken();
        enough.store(true, Ordering::Relaxed);
        taken
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn results_come_in_order_and_no_thread_runs_far_ahead() {
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
    fn a_caller_with_enough_results_ends_the_work_and_a_break_is_reported() {
        let begun = AtomicUsize::new(0);
        let work = || |_: usize, _: &AtomicBool| begun.fetch_add(1, Ordering::SeqCst);
        each(100_000, work, |_, _| Ok(ControlFlow::Break(()))).unwrap();
        assert!(begun.load(Ordering::SeqCst) < 100_000);
        let fails = each(
            10,
            || |_: usize, _: &AtomicBool| (),
            |_, ()| Err::<ControlFlow<()>, _>(Problem::refused("full")),
        );
        assert_eq!(fails.map_err(|problem| problem.what), Err("full".to_owned()));
    }
}
