//! Finding words in sessions: in what was said, in what agents wrote, and in their own records of it.
//!
//! Promise: escape sequences and the escapes of JSON neither hide a match nor make one; results come in one order, the
//! newest session first; memory has a limit whatever is searched.
//! Not here: the command line and how it looks (see the CLI).
//! Start with [`subjects`], then [`find`]; `session` has what there is to search, `lines` how, `literals` the short way.

mod lines;
mod literals;
mod pattern;
mod record;
mod session;
mod text;
mod work;

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_store::view::{self, Brief};

pub use lines::{Context, Found};
pub use pattern::{Manner, Pattern};
pub use record::{Line, Span};
pub use session::{Extent, Hit, Part, Subject};

use crate::ctx::Ctx;
use crate::listing::Filter;
use crate::progress::Progress;

/// Those of these sessions that are wanted, the newest first, and what is wrong with some. With a filter that wants
/// all, one whose record is damaged is searched as far as it can be read.
pub fn subjects(ctx: &Ctx, filter: &Filter, mut ids: Vec<SessionId>) -> (Vec<Subject>, Vec<Problem>) {
    ids.sort();
    ids.dedup();
    let (mut subjects, mut problems) = (Vec::new(), Vec::new());
    for id in ids {
        let files = ctx.home.session(&id);
        match view::status(&ctx.home, &id) {
            Ok(status) if filter.wants(&Brief::from(&status)) => subjects.push(Subject { id, files, status }),
            Ok(_) => {}
            // Being made this very moment, or given up before anything was said in it.
            Err(problem) if problem.code == Code::NotFound => {}
            Err(problem) => {
                problems.push(problem);
                if !filter.is_choosy() {
                    let status = crate::export::salvaged(ctx, &id).0;
                    subjects.push(Subject { id, files, status });
                }
            }
        }
    }
    subjects.sort_by_key(|subject| (Reverse(subject.status.created_at), subject.id.clone()));
    (subjects, problems)
}

/// Searches these sessions, in this order; `take` gets what is found of one after the other, until it has enough, or
/// whoever hears of the progress has.
/// Returns what could not be searched.
pub fn find(
    subjects: &[Subject],
    pattern: &Pattern,
    extent: Extent,
    progress: &dyn Progress,
    mut take: impl FnMut(&Subject, &[Hit]) -> Result<ControlFlow<()>, Problem>,
) -> Result<Vec<Problem>, Problem> {
    let mut problems = Vec::new();
    let mut jobs = Vec::new();
    for (number, subject) in subjects.iter().enumerate() {
        if progress.is_enough() {
            return Ok(problems);
        }
        match subject.jobs(extent.context) {
            Ok(more) => jobs.extend(more.into_iter().map(|job| (number, job))),
            Err(problem) => problems.push(problem),
        }
    }
    // One match is enough to name a session, and then the rest of it need not be read.
    let is_enough = extent.one_each;
    let named: Vec<AtomicBool> = subjects.iter().map(|_| AtomicBool::new(false)).collect();
    let extent = Extent { most: if is_enough { 1 } else { extent.most }, ..extent };
    progress.begin(jobs.iter().map(|(_, job)| job.bytes).sum());
    let worker = || {
        let (pattern, mut scratch) = (pattern.clone(), lines::Scratch::default());
        let (jobs, named) = (&jobs, &named);
        move |number: usize, enough: &AtomicBool| {
            let (subject, job) = &jobs[number];
            let mut read = |bytes: u64| {
                progress.add(bytes);
                let is_named = is_enough && named[*subject].load(Ordering::Relaxed);
                if is_named || enough.load(Ordering::Relaxed) || progress.is_enough() {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            };
            let found = job.run(&subjects[*subject], &pattern, extent, &mut scratch, &mut read);
            named[*subject].fetch_or(!found.0.is_empty(), Ordering::Relaxed);
            found
        }
    };
    work::each(jobs.len(), worker, |number, (hits, more)| {
        problems.extend(more);
        if !hits.is_empty() && take(&subjects[jobs[number].0], &hits)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        Ok(if progress.is_enough() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(problems)
}
