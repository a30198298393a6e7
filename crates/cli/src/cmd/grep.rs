//! `berth grep`: find text in all sessions.

use berth_api::{Code, Problem};
use berth_verbs::grep::{Context, Extent, Manner, Pattern, subjects};

use crate::args::Grep;
use crate::cmd::ls::conditions;
use crate::ctx::Ctx;
use crate::grep::{Style, find};
use crate::{meant, print};

/// The exit code when there is nothing.
const NOTHING: u8 = 1;

pub(crate) fn run(ctx: &Ctx, args: &Grep) -> Result<u8, Problem> {
    // With -e the first word is a session already.
    let (patterns, sessions): (Vec<String>, Vec<&String>) = match args.regexps.is_empty() {
        true => (args.pattern.iter().cloned().collect(), args.sessions.iter().collect()),
        false => (args.regexps.clone(), args.pattern.iter().chain(&args.sessions).collect()),
    };
    let manner = Manner { ignore_case: args.ignore_case, words: args.word_regexp, fixed: args.fixed_strings };
    let pattern = Pattern::new(&patterns, manner)?;
    let around = args.context.unwrap_or(0);
    let context = Context {
        before: args.before_context.unwrap_or(around),
        after: args.after_context.unwrap_or(around),
    };
    let style = match (args.json, args.count, args.files_with_matches) {
        (true, ..) => Style::Json,
        (_, true, _) => Style::Counts,
        (_, _, true) => Style::Names,
        (false, false, false) => Style::Lines,
    };
    // Around what is only counted nothing is shown.
    let context = if matches!(style, Style::Counts | Style::Names) { Context::default() } else { context };
    // What is only current narrows nothing: who looks for something does not know where it is.
    let ids = match (&ctx.session, sessions.is_empty()) {
        (Some(_), true) => vec![ctx.target(None)?.id],
        (Some(_), false) => return Err(meant::twice(sessions[0])),
        (None, true) => ctx.home.list()?,
        (None, false) => sessions.into_iter().map(|session| ctx.find(session)).collect::<Result<_, _>>()?,
    };
    let (subjects, mut problems) = subjects(ctx, &conditions(&args.which)?, ids);
    let extent = Extent { context, most: args.max_count.unwrap_or(u64::MAX), one_each: false };
    let (total, more) = find(&subjects, &pattern, extent, style)?;
    problems.extend(more);
    problems.dedup();
    for problem in &problems {
        print::problem(problem);
    }
    Ok(if !problems.is_empty() {
        Code::Refused.exit_code()
    } else if total == 0 {
        NOTHING
    } else {
        0
    })
}
