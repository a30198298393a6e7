//! `berth hosts`: lists, adds and removes hosts.

use berth_api::{Problem, SessionStatus};
use berth_verbs::hosts::{self, HostStatus, PATIENCE, RemoteHost, ssh::PasswordPrompt};

use crate::args::{HostsAddArgs, HostsArgs, HostsLsArgs, HostsVerb};
use crate::ctx::CommandContext;
use crate::{print, tty};

pub(crate) fn run(ctx: &CommandContext, args: &HostsArgs) -> Result<u8, Problem> {
    match &args.verb {
        None => list(ctx, &HostsLsArgs::default()),
        Some(HostsVerb::Ls(args)) => list(ctx, args),
        Some(HostsVerb::Add(args)) => add(ctx, args),
        Some(HostsVerb::Rm(args)) => hosts::remove_host(&ctx.home, &args.name).map(|()| 0),
    }
}

fn add(ctx: &CommandContext, args: &HostsAddArgs) -> Result<u8, Problem> {
    let host = RemoteHost::new(args.name.as_deref(), &args.target, args.berth.as_deref())?;
    let asking = if tty::can_ask() { PasswordPrompt::Person } else { PasswordPrompt::Never };
    let look = (!args.no_check).then(|| hosts::ask_host(&host, asking, PATIENCE)).transpose()?;
    hosts::add_host(&ctx.home, &host, args.replace)?;
    if let Some(known) = &look {
        hosts::save_snapshot(&ctx.home, &host, known);
    }
    if args.json {
        print::json(&host)?;
        return Ok(0);
    }
    let Some(known) = look else {
        print::note(&format!("{} is added, without a check", host.name));
        return Ok(0);
    };
    let sessions = sessions(&known.sessions, known.more);
    print::note(&format!("{} is added: berth {}, {sessions}", host.name, known.version));
    if let Some(skew) = hosts::version_skew(&known.version) {
        print::note(&format!("{skew}: most commands work, and the others print an error"));
    }
    Ok(0)
}

fn list(ctx: &CommandContext, args: &HostsLsArgs) -> Result<u8, Problem> {
    let looks = hosts::all_host_statuses(&ctx.home, PATIENCE)?;
    if args.json {
        print::json(&looks)?;
        return Ok(0);
    }
    if looks.is_empty() {
        print::note("no hosts yet: `berth hosts add user@box` adds one");
        return Ok(0);
    }
    let head = format!("{:12} {:24} {:8} SESSIONS\n", "HOST", "TARGET", "VERSION");
    print::text(&(head + &looks.iter().map(line).collect::<String>()))?;
    Ok(0)
}

fn line(look: &HostStatus) -> String {
    let sessions = sessions(&look.sessions, look.more);
    let state = match (&look.away, look.age_ms) {
        (None, _) => sessions,
        (Some(why), Some(age)) => {
            format!("{sessions} {} ago; away ({})", print::describe_age(age), one_line(why))
        }
        (Some(why), None) => format!("away ({}); never answered", one_line(why)),
    };
    let version = look.version.as_deref().unwrap_or("?");
    let skew = look.skew.as_ref().map(|skew| format!("; {skew}")).unwrap_or_default();
    format!("{:12} {:24} {version:8} {state}{skew}\n", look.host.name, look.host.target)
}

/// The number of sessions of a host in words, including those that are not stored here.
fn sessions(kept: &[SessionStatus], more: u64) -> String {
    let more = usize::try_from(more).unwrap_or(usize::MAX);
    crate::cmd::archive::sessions(kept.len().saturating_add(more))
}

fn one_line(text: &str) -> String {
    crate::text_width::one_line(text)
}
