//! `berth ls`: lists sessions.
//!
//! Not here: collecting and drawing the list (see `listing`).

mod hosts;
mod watch;

use berth_api::{Problem, ProblemCode};
use berth_verbs::run::directory;

use crate::args::{LsArgs, SessionFilterArgs};
use crate::cmd::ls::hosts::MultiHostListing;
use crate::ctx::CommandContext;
use crate::listing::row::ListingRow;
use crate::listing::table::{self, TableFormat};
use crate::listing::template::RowTemplate;
use crate::listing::{ListExtent, SessionFilter, SessionListing, collect, tree};
use crate::safe_text::{SafeText, TextStyle};
use crate::{print, tty};

pub(crate) fn run(ctx: &CommandContext, args: &LsArgs) -> Result<u8, Problem> {
    if args.foreign {
        return crate::cmd::conversations::foreign(ctx, args);
    }
    let filter = filter(args)?;
    // A mistake in the template is reported before any session is read.
    let template = args.format.as_deref().map(RowTemplate::parse).transpose()?;
    if args.watch {
        return watch::run(ctx, args, filter);
    }
    let fleet = args.hosts.then(|| MultiHostListing::collect(ctx, &filter)).transpose()?;
    if let Some(fleet) = fleet.as_ref().filter(|_| args.json) {
        fleet.print_json()?;
        return Ok(0);
    }
    let mut listing = match &fleet {
        Some(fleet) => fleet.listing.clone(),
        None => collect(ctx, &filter)?,
    };
    let printed = if let Some(template) = template {
        lines(&listing, |status| template.fill(status))
    } else if args.ids {
        lines(&listing, |status| Ok(status.id.clone()))
    } else if args.json && args.tree {
        let nodes = build_tree(ctx, &mut listing)?;
        print::json(&nodes)
    } else if args.json {
        print::json(&listing.sessions)
    } else {
        let paper = TableFormat { columns: columns(), colour: tty::wants_colour() };
        let drawn = rendered(ctx, args, &mut listing, fleet.as_ref(), paper)?;
        print::text(&drawn.into_iter().map(|line| line + "\n").collect::<SafeText>())
            .map(|()| hidden_sessions_notes(args, &listing).iter().for_each(print::note))
            .map(|()| {
                fleet.iter().flat_map(MultiHostListing::remarks).for_each(|remark| print::note(&remark))
            })
    };
    printed?;
    for problem in &listing.damaged {
        print::problem(problem);
    }
    Ok(if listing.damaged.is_empty() { 0 } else { ProblemCode::Refused.exit_code() })
}

/// The filter that the arguments describe.
fn filter(args: &LsArgs) -> Result<SessionFilter, Problem> {
    let extent = match (args.all, args.archived) {
        (true, _) => ListExtent::All,
        (false, true) => ListExtent::Archived,
        (false, false) => ListExtent::Recent,
    };
    let limit = args.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(SessionFilter { extent, order: args.sort.into(), limit, ..conditions(&args.which)? })
}

/// The filter of `--state`, `--agent` and the other conditions, for every command that has them.
pub(crate) fn conditions(which: &SessionFilterArgs) -> Result<SessionFilter, Problem> {
    let under = match (&which.cwd, which.here) {
        (Some(dir), _) => Some(directory_there_was(dir)?),
        (None, true) => Some(directory(None)?.into()),
        (None, false) => None,
    };
    Ok(SessionFilter {
        states: which.state.clone(),
        agent: which.agent.clone(),
        under,
        tags: which.tag.clone(),
        name: which.name.clone(),
        ..SessionFilter::default()
    })
}

/// The absolute path of a directory, as sessions record it. A directory may be gone while its sessions are still there.
fn directory_there_was(dir: &std::path::Path) -> Result<std::path::PathBuf, Problem> {
    std::fs::canonicalize(dir).or_else(|_| std::path::absolute(dir)).map_err(|error| {
        Problem::usage(format!("cannot use the directory {}: {error}", dir.display()))
            .hint("name a directory with --cwd DIR, or use --here")
    })
}

/// Width of the terminal on standard output; `None` off a terminal.
fn columns() -> Option<usize> {
    print::is_terminal().then(|| tty::terminal_size().map(|size| usize::from(size.cols)))?
}

fn lines(
    listing: &SessionListing,
    line: impl Fn(&berth_api::SessionStatus) -> Result<String, Problem>,
) -> Result<(), Problem> {
    let mut text = String::new();
    for status in &listing.sessions {
        text.push_str(&line(status)?);
        text.push('\n');
    }
    print::text(&text)
}

/// The listed sessions as a tree. Damaged helpers are added to the problems of the list.
fn build_tree(
    ctx: &CommandContext,
    listing: &mut SessionListing,
) -> Result<Vec<tree::SessionTreeNode>, Problem> {
    let (helpers, damaged) = tree::helpers(ctx)?;
    listing.damaged.extend(damaged);
    Ok(tree::grow(listing.sessions.clone(), &helpers))
}

fn rendered(
    ctx: &CommandContext,
    args: &LsArgs,
    listing: &mut SessionListing,
    fleet: Option<&MultiHostListing>,
    paper: TableFormat,
) -> Result<Vec<SafeText>, Problem> {
    let now_ms = berth_host::clock::wall_ms();
    let current = ctx.current().map(|id| id.to_string());
    let rows = if args.tree {
        tree::rows(&build_tree(ctx, listing)?, now_ms, current.as_deref())
    } else {
        let row = |status: &berth_api::SessionStatus| {
            let mut row = ListingRow::of(status, now_ms);
            if fleet.is_some_and(|fleet| fleet.is_away(status)) {
                (row.state, row.paint) = ("away".to_owned(), TextStyle::Dim);
            }
            let session = fleet.and_then(|fleet| fleet.called(status)).unwrap_or(row.session);
            ListingRow { is_current: current.as_deref() == Some(status.id.as_str()), session, ..row }
        };
        listing.sessions.iter().map(row).collect()
    };
    Ok(table::draw(&rows, paper))
}

/// Remarks about sessions that are not in the list, and how to see them.
fn hidden_sessions_notes(args: &LsArgs, listing: &SessionListing) -> Vec<String> {
    let SessionListing { sessions, older, archived, more, .. } = listing;
    let mut hidden = Vec::new();
    if *more > 0 {
        hidden.push(format!("{more} more: leave --limit out"));
    }
    if *older > 0 {
        hidden.push(format!("{older} more stopped over a day ago: `berth ls --all`"));
    }
    if *archived > 0 {
        hidden.push(format!("{archived} archived: `berth ls --archived`"));
    }
    if sessions.is_empty() && hidden.is_empty() {
        hidden.push(match (args.which.is_choosy(), args.archived) {
            (true, _) => "no session meets the conditions: `berth ls --all` lists all sessions".to_owned(),
            (false, true) => "no session is archived".to_owned(),
            (false, false) => {
                "no sessions yet: `berth run -- COMMAND` starts one, `berth demo` shows how it works"
                    .to_owned()
            }
        });
    }
    hidden
}
