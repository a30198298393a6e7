//! `berth hosts`: the hosts there are.

use berth_api::{Problem, Status};
use berth_verbs::hosts::{self, Host, Look, PATIENCE, ssh::Asking};

use crate::args::{Hosts, HostsAdd, HostsLs, HostsVerb};
use crate::ctx::Ctx;
use crate::{print, tty};

pub(crate) fn run(ctx: &Ctx, args: &Hosts) -> Result<u8, Problem> {
    match &args.verb {
        None => list(ctx, &HostsLs::default()),
        Some(HostsVerb::Ls(args)) => list(ctx, args),
        Some(HostsVerb::Add(args)) => add(ctx, args),
        Some(HostsVerb::Rm(args)) => hosts::remove(&ctx.home, &args.name).map(|()| 0),
    }
}

fn add(ctx: &Ctx, args: &HostsAdd) -> Result<u8, Problem> {
    let host = Host::new(args.name.as_deref(), &args.target, args.berth.as_deref())?;
    let asking = if tty::can_ask() { Asking::Person } else { Asking::Nobody };
    let look = (!args.no_check).then(|| hosts::ask(&host, asking, PATIENCE)).transpose()?;
    hosts::add(&ctx.home, &host, args.replace)?;
    if let Some(known) = &look {
        hosts::remember(&ctx.home, &host, known);
    }
    if args.json {
        print::json(&host)?;
        return Ok(0);
    }
    let Some(known) = look else {
        print::note(&format!("{} is added, and was not asked", host.name));
        return Ok(0);
    };
    let sessions = sessions(&known.sessions, known.beyond);
    print::note(&format!("{} is added: berth {}, {sessions}", host.name, known.version));
    if let Some(skew) = hosts::skew(&known.version) {
        print::note(&format!("{skew}: most things work, and what does not says so"));
    }
    Ok(0)
}

fn list(ctx: &Ctx, args: &HostsLs) -> Result<u8, Problem> {
    let looks = hosts::look_at_all(&ctx.home, PATIENCE)?;
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

fn line(look: &Look) -> String {
    let sessions = sessions(&look.sessions, look.beyond);
    let state = match (&look.away, look.age_ms) {
        (None, _) => sessions,
        (Some(why), Some(age)) => format!("{sessions} {} ago; away ({})", print::age(age), one_line(why)),
        (Some(why), None) => format!("away ({}); never answered", one_line(why)),
    };
    let version = look.version.as_deref().unwrap_or("?");
    let skew = look.skew.as_ref().map(|skew| format!("; {skew}")).unwrap_or_default();
    format!("{:12} {:24} {version:8} {state}{skew}\n", look.host.name, look.host.target)
}

/// How many there are, also of those that are not kept here.
fn sessions(kept: &[Status], beyond: u64) -> String {
    let beyond = usize::try_from(beyond).unwrap_or(usize::MAX);
    crate::cmd::archive::sessions(kept.len().saturating_add(beyond))
}

fn one_line(text: &str) -> String {
    crate::width::one_line(text)
}
