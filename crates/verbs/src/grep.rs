//! Search in sessions: in prompts and answers, in the output of agents, and in their own transcripts.
//!
//! Promise: escape sequences and the escapes of JSON neither hide a match nor make one; results come in one order, the
//! newest session first; memory is bounded whatever is searched.
//! Not here: the command line and the display of results (see the CLI).
//! Start with [`subjects`], then [`find`]; `session` has the searchable parts, `lines` searches them, `literals` is the
//! fast path.

mod lines;
mod literals;
mod parallel;
mod pattern;
mod record;
mod session;
mod text;

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_api::{Problem, ProblemCode};
use berth_core::SessionId;
use berth_store::session_status::{self, StatusSummary};

pub use lines::{ContextLines, MatchedLine};
pub use pattern::{PatternOptions, SearchPattern};
pub use record::{FoundLine, MatchSpan};
pub use session::{MatchPlace, SearchExtent, SearchHit, SearchSubject};

use crate::context::VerbContext;
use crate::listing::SessionFilter;
use crate::progress::ProgressSink;

/// The sessions that pass the filter, the newest first, and the errors of those that cannot be read. With a filter that
/// passes all, a damaged session is searched as far as it can be read.
pub fn subjects(
    ctx: &VerbContext,
    filter: &SessionFilter,
    mut ids: Vec<SessionId>,
) -> (Vec<SearchSubject>, Vec<Problem>) {
    ids.sort();
    ids.dedup();
    let (mut subjects, mut problems) = (Vec::new(), Vec::new());
    for id in ids {
        let files = ctx.home.session(&id);
        match session_status::status(&ctx.home, &id) {
            Ok(status) if filter.wants(&StatusSummary::from(&status)) => {
                subjects.push(SearchSubject { id, files, status })
            }
            Ok(_) => {}
            // A session that is just being created, or that was given up before its first event.
            Err(problem) if problem.code == ProblemCode::NotFound => {}
            Err(problem) => {
                problems.push(problem);
                if !filter.is_choosy() {
                    let status = crate::export::readable_prefix(ctx, &id).0;
                    subjects.push(SearchSubject { id, files, status });
                }
            }
        }
    }
    subjects.sort_by_key(|subject| (Reverse(subject.status.created_at), subject.id.clone()));
    (subjects, problems)
}

/// Searches these sessions, in this order. `take` gets the matches of one session after the other, until it or the
/// progress callback stops the search. Returns the errors of parts that could not be searched.
pub fn find(
    subjects: &[SearchSubject],
    pattern: &SearchPattern,
    extent: SearchExtent,
    progress: &dyn ProgressSink,
    mut take: impl FnMut(&SearchSubject, &[SearchHit]) -> Result<ControlFlow<()>, Problem>,
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
    // One match is enough to name a session, so the rest of it is not read.
    let is_enough = extent.one_each;
    let named: Vec<AtomicBool> = subjects.iter().map(|_| AtomicBool::new(false)).collect();
    let extent = SearchExtent { most: if is_enough { 1 } else { extent.most }, ..extent };
    progress.begin(jobs.iter().map(|(_, job)| job.bytes).sum());
    let worker = || {
        let (pattern, mut scratch) = (pattern.clone(), lines::SearchBuffers::default());
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
    parallel::each(jobs.len(), worker, |number, (hits, more)| {
        problems.extend(more);
        if !hits.is_empty() && take(&subjects[jobs[number].0], &hits)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        Ok(if progress.is_enough() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(problems)
}
