//! `berth ls`: the sessions there are.

mod hosts;
mod watch;

use berth_api::{Code, Problem};
use berth_verbs::run::directory;

use crate::args::{Ls, Which};
use crate::cmd::ls::hosts::Fleet;
use crate::ctx::Ctx;
use crate::listing::row::Row;
use crate::listing::table::{self, Paper};
use crate::listing::template::Template;
use crate::listing::{Extent, Filter, Listing, collect, tree};
use crate::visible::{Paint, Visible};
use crate::{print, tty};

pub(crate) fn run(ctx: &Ctx, args: &Ls) -> Result<u8, Problem> {
    if args.foreign {
        return crate::cmd::conversations::foreign(ctx, args);
    }
    let filter = filter(args)?;
    // A mistake in it is told before anything is looked at.
    let template = args.format.as_deref().map(Template::parse).transpose()?;
    if args.watch {
        return watch::run(ctx, args, filter);
    }
    let fleet = args.hosts.then(|| Fleet::collect(ctx, &filter)).transpose()?;
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
        let nodes = grown(ctx, &mut listing)?;
        print::json(&nodes)
    } else if args.json {
        print::json(&listing.sessions)
    } else {
        let paper = Paper { columns: columns(), colour: tty::wants_colour() };
        let drawn = drawn(ctx, args, &mut listing, fleet.as_ref(), paper)?;
        print::text(&drawn.into_iter().map(|line| line + "\n").collect::<Visible>())
            .map(|()| remarks(args, &listing).iter().for_each(print::note))
            .map(|()| fleet.iter().flat_map(Fleet::remarks).for_each(|remark| print::note(&remark)))
    };
    printed?;
    for problem in &listing.damaged {
        print::problem(problem);
    }
    Ok(if listing.damaged.is_empty() { 0 } else { Code::Refused.exit_code() })
}

/// Which sessions the arguments ask for.
fn filter(args: &Ls) -> Result<Filter, Problem> {
    let extent = match (args.all, args.archived) {
        (true, _) => Extent::All,
        (false, true) => Extent::Archived,
        (false, false) => Extent::Recent,
    };
    let limit = args.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(Filter { extent, order: args.sort.into(), limit, ..conditions(&args.which)? })
}

/// What `--state`, `--agent` and the others ask for, for every command that has them.
pub(crate) fn conditions(which: &Which) -> Result<Filter, Problem> {
    let under = match (&which.cwd, which.here) {
        (Some(dir), _) => Some(directory_there_was(dir)?),
        (None, true) => Some(directory(None)?.into()),
        (None, false) => None,
    };
    Ok(Filter {
        states: which.state.clone(),
        agent: which.agent.clone(),
        under,
        tags: which.tag.clone(),
        name: which.name.clone(),
        ..Filter::default()
    })
}

/// A directory as sessions record it. It may be gone by now, and its sessions are still there.
fn directory_there_was(dir: &std::path::Path) -> Result<std::path::PathBuf, Problem> {
    std::fs::canonicalize(dir).or_else(|_| std::path::absolute(dir)).map_err(|error| {
        Problem::new(Code::Usage, format!("cannot use the directory {}: {error}", dir.display()))
            .hint("name one with --cwd DIR, or take --here")
    })
}

/// How wide the terminal is that is written to, if it is one.
fn columns() -> Option<usize> {
    print::is_terminal().then(|| tty::size().map(|size| usize::from(size.cols)))?
}

fn lines(
    listing: &Listing,
    line: impl Fn(&berth_api::Status) -> Result<String, Problem>,
) -> Result<(), Problem> {
    let mut text = String::new();
    for status in &listing.sessions {
        text.push_str(&line(status)?);
        text.push('\n');
    }
    print::text(&text)
}

/// The tree of what is listed. What is wrong with helpers is told with the rest.
fn grown(ctx: &Ctx, listing: &mut Listing) -> Result<Vec<tree::Node>, Problem> {
    let (helpers, damaged) = tree::helpers(ctx)?;
    listing.damaged.extend(damaged);
    Ok(tree::grow(listing.sessions.clone(), &helpers))
}

fn drawn(
    ctx: &Ctx,
    args: &Ls,
    listing: &mut Listing,
    fleet: Option<&Fleet>,
    paper: Paper,
) -> Result<Vec<Visible>, Problem> {
    let now_ms = berth_host::clock::wall_ms();
    let current = ctx.current().map(|id| id.to_string());
    let rows = if args.tree {
        tree::rows(&grown(ctx, listing)?, now_ms, current.as_deref())
    } else {
        let row = |status: &berth_api::Status| {
            let mut row = Row::of(status, now_ms);
            if fleet.is_some_and(|fleet| fleet.is_away(status)) {
                (row.state, row.paint) = ("away".to_owned(), Paint::Dim);
            }
            let session = fleet.and_then(|fleet| fleet.called(status)).unwrap_or(row.session);
            Row { is_current: current.as_deref() == Some(status.id.as_str()), session, ..row }
        };
        listing.sessions.iter().map(row).collect()
    };
    Ok(table::draw(&rows, paper))
}

/// What is not in the list, and how to see it.
fn remarks(args: &Ls, listing: &Listing) -> Vec<String> {
    let Listing { sessions, older, archived, beyond, .. } = listing;
    let mut hidden = Vec::new();
    if *beyond > 0 {
        hidden.push(format!("{beyond} more: leave --limit out"));
    }
    if *older > 0 {
        hidden.push(format!("{older} more stopped over a day ago: `berth ls --all`"));
    }
    if *archived > 0 {
        hidden.push(format!("{archived} archived: `berth ls --archived`"));
    }
    if sessions.is_empty() && hidden.is_empty() {
        hidden.push(match (args.which.is_choosy(), args.archived) {
            (true, _) => "no session is like that: `berth ls --all` lists all there are".to_owned(),
            (false, true) => "nothing is archived".to_owned(),
            (false, false) => {
                "no sessions yet: `berth run -- COMMAND` starts one, `berth demo` shows how it works"
                    .to_owned()
            }
        });
    }
    hidden
}
