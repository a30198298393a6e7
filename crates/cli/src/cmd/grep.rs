//! `berth grep`: finds text in all sessions.

use berth_api::{Problem, ProblemCode};
use berth_verbs::grep::{ContextLines, PatternOptions, SearchExtent, SearchPattern, subjects};

use crate::args::GrepArgs;
use crate::cmd::ls::conditions;
use crate::ctx::CommandContext;
use crate::grep::{GrepStyle, find};
use crate::{print, target_session};

/// The exit code if nothing was found.
const NOTHING: u8 = 1;

pub(crate) fn run(ctx: &CommandContext, args: &GrepArgs) -> Result<u8, Problem> {
    // With -e the first word is a session, not the pattern.
    let (patterns, sessions): (Vec<String>, Vec<&String>) = match args.regexps.is_empty() {
        true => (args.pattern.iter().cloned().collect(), args.sessions.iter().collect()),
        false => (args.regexps.clone(), args.pattern.iter().chain(&args.sessions).collect()),
    };
    let manner =
        PatternOptions { ignore_case: args.ignore_case, words: args.word_regexp, fixed: args.fixed_strings };
    let pattern = SearchPattern::new(&patterns, manner)?;
    let around = args.context.unwrap_or(0);
    let context = ContextLines {
        before: args.before_context.unwrap_or(around),
        after: args.after_context.unwrap_or(around),
    };
    let style = match (args.json, args.count, args.files_with_matches) {
        (true, ..) => GrepStyle::Json,
        (_, true, _) => GrepStyle::Counts,
        (_, _, true) => GrepStyle::Names,
        (false, false, false) => GrepStyle::Lines,
    };
    // Counts and names have no context lines.
    let context =
        if matches!(style, GrepStyle::Counts | GrepStyle::Names) { ContextLines::default() } else { context };
    // The current session does not narrow the search: a user who searches does not know which session has the text.
    let ids = match (&ctx.session, sessions.is_empty()) {
        (Some(_), true) => vec![ctx.target(None)?.id],
        (Some(_), false) => return Err(target_session::named_twice(sessions[0])),
        (None, true) => ctx.home.list()?,
        (None, false) => sessions.into_iter().map(|session| ctx.find(session)).collect::<Result<_, _>>()?,
    };
    let (subjects, mut problems) = subjects(ctx, &conditions(&args.which)?, ids);
    let extent = SearchExtent { context, most: args.max_count.unwrap_or(u64::MAX), one_each: false };
    let (total, more) = find(&subjects, &pattern, extent, style)?;
    problems.extend(more);
    problems.dedup();
    for problem in &problems {
        print::problem(problem);
    }
    Ok(if !problems.is_empty() {
        ProblemCode::Refused.exit_code()
    } else if total == 0 {
        NOTHING
    } else {
        0
    })
}
