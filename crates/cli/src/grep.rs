//! Finding words in sessions, for people: see [`berth_verbs::grep`] for the search itself.
//!
//! Start with [`find`].

mod printer;

use std::ops::ControlFlow;

use berth_api::Problem;
use berth_verbs::grep::{self, ContextLines, SearchExtent, SearchPattern, SearchSubject};

pub(crate) use printer::{GrepPrinter, GrepStyle};

use crate::print;
use crate::progress::DeferredProgress;

/// Searches these sessions, in this order, and prints the matches. Returns the number of matches, and a problem for
/// each session that could not be searched.
pub(crate) fn find(
    subjects: &[SearchSubject],
    pattern: &SearchPattern,
    extent: SearchExtent,
    style: GrepStyle,
) -> Result<(u64, Vec<Problem>), Problem> {
    let progress = DeferredProgress::new("searching");
    let extent = SearchExtent { one_each: style == GrepStyle::Names, ..extent };
    let most = if extent.one_each { 1 } else { extent.most };
    let mut show = GrepPrinter::new(style, extent.context != ContextLines::default(), most);
    let problems = grep::find(subjects, pattern, extent, &progress, |subject, hits| {
        let text = show.hits(subject, hits)?;
        if !text.is_empty() {
            progress.suspend(|| print::text(&text))?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    print::text(&show.finish_counting())?;
    Ok((show.total, problems))
}
