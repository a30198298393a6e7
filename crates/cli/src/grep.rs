//! Finding words in sessions: in what was said, in what agents wrote, and in their own records of it.
//!
//! Promise: escape sequences and the escapes of JSON neither hide a match nor make one; results come in one order, the
//! newest session first; memory has a limit whatever is searched.
//! Not here: the command line (see `cmd::grep`).
//! Start with [`find`]; `session` has what there is to search, `lines` how, `literals` the short way.

mod lines;
mod literals;
mod pattern;
mod raw;
mod session;
mod show;
mod text;
mod work;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_api::Problem;

pub(crate) use lines::Context;
pub(crate) use pattern::{Manner, Pattern};
pub(crate) use session::{Subject, Wish};
pub(crate) use show::{Show, Style};

use crate::print;
use crate::progress::Progress;

/// Searches these sessions, in this order. Returns what could not be searched.
pub(crate) fn find(
    subjects: &[Subject],
    pattern: &Pattern,
    wish: Wish,
    style: Style,
) -> Result<(u64, Vec<Problem>), Problem> {
    let mut problems = Vec::new();
    let mut jobs = Vec::new();
    for (number, subject) in subjects.iter().enumerate() {
        match subject.jobs(wish.context) {
            Ok(more) => jobs.extend(more.into_iter().map(|job| (number, job))),
            Err(problem) => problems.push(problem),
        }
    }
    // One match is enough to name a session, and then the rest of it need not be read.
    let is_enough = style == Style::Names;
    let named: Vec<AtomicBool> = subjects.iter().map(|_| AtomicBool::new(false)).collect();
    let wish = Wish { most: if is_enough { 1 } else { wish.most }, ..wish };
    let progress = Progress::of("searching", jobs.iter().map(|(_, job)| job.bytes).sum());
    let mut show = Show::new(style, wish.context != Context::default(), wish.most);
    let worker = || {
        let (pattern, mut scratch) = (pattern.clone(), lines::Scratch::default());
        let (jobs, named, progress) = (&jobs, &named, &progress);
        move |number: usize, enough: &AtomicBool| {
            let (subject, job) = &jobs[number];
            let mut read = |bytes: u64| {
                progress.add(bytes);
                let is_named = is_enough && named[*subject].load(Ordering::Relaxed);
                if is_named || enough.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            };
            let found = job.run(&subjects[*subject], &pattern, wish, &mut scratch, &mut read);
            named[*subject].fetch_or(!found.0.is_empty(), Ordering::Relaxed);
            found
        }
    };
    work::each(jobs.len(), worker, |number, (hits, more)| {
        problems.extend(more);
        let text = show.hits(&subjects[jobs[number].0], &hits);
        if !text.is_empty() {
            progress.suspend(|| print::text(&text))?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    print::text(&show.finish_counting())?;
    Ok((show.total, problems))
}
