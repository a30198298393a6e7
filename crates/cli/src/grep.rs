//! Finding words in sessions, for people: see [`berth_verbs::grep`] for the search itself.
//!
//! Start with [`find`].

mod show;

use std::ops::ControlFlow;

use berth_api::Problem;
use berth_verbs::grep::{self, Context, Extent, Pattern, Subject};

pub(crate) use show::{Show, Style};

use crate::print;
use crate::progress::Later;

/// Searches these sessions, in this order, and prints what is found. Returns how much that was, and what could not
/// be searched.
pub(crate) fn find(
    subjects: &[Subject],
    pattern: &Pattern,
    extent: Extent,
    style: Style,
) -> Result<(u64, Vec<Problem>), Problem> {
    let progress = Later::new("searching");
    let extent = Extent { one_each: style == Style::Names, ..extent };
    let most = if extent.one_each { 1 } else { extent.most };
    let mut show = Show::new(style, extent.context != Context::default(), most);
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
