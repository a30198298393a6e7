//! What an agent may not even begin: verbs that are about no session in particular, and beyond its grant.
//!
//! Promise: every verb is here, with what it is. Those that are about a session are looked at where it is known
//! which: by its keeper, or by the verb that does without one.
//! Start with [`check`].

use berth_api::Problem;
use berth_core::Deed;

use crate::args::{Hosts, HostsVerb, Token, TokenVerb, Verb};
use crate::ctx::Ctx;

/// Refuses what whoever runs this command may not do at all.
pub(crate) fn check(ctx: &Ctx, verb: &Verb) -> Result<(), Problem> {
    ctx.may_at_all(of_nobody(verb), "sessions")
}

/// What a verb is, as far as it is about no session.
fn of_nobody(verb: &Verb) -> Deed {
    match verb {
        Verb::Sweep(args) if !args.dry_run => Deed::Sweep,
        Verb::Purge(args) if !args.dry_run => Deed::Purge,
        Verb::Serve(_) => Deed::Serve,
        Verb::Token(Token { verb: TokenVerb::New(_) | TokenVerb::Revoke(_) }) | Verb::Link(_) => Deed::Tokens,
        Verb::Hosts(Hosts { verb: Some(HostsVerb::Add(_) | HostsVerb::Rm(_)) }) => Deed::Hosts,
        Verb::Setup(setup) if !setup.only_looks() => Deed::SetUp,
        // These are about sessions.
        Verb::Run(_)
        | Verb::Resume(_)
        | Verb::Attach(_)
        | Verb::Input(_)
        | Verb::Stop(_)
        | Verb::Send(_)
        | Verb::Cancel(_)
        | Verb::Queue(_)
        | Verb::Answer(_)
        | Verb::Fork(_)
        | Verb::Adopt(_)
        | Verb::Import(_)
        | Verb::Rename(_)
        | Verb::Tag(_)
        | Verb::Note(_)
        | Verb::Policy(_)
        | Verb::Archive(_)
        | Verb::Restore(_)
        | Verb::Acp(_)
        | Verb::Mcp(_)
        | Verb::Helper(_) => Deed::Look,
        // And these only look, or change nothing about a session here. What a proxy is asked is looked at there.
        Verb::Sweep(_)
        | Verb::Purge(_)
        | Verb::History(_)
        | Verb::Ls(_)
        | Verb::Show(_)
        | Verb::Why(_)
        | Verb::Ps(_)
        | Verb::Screen(_)
        | Verb::Output(_)
        | Verb::Log(_)
        | Verb::Grep(_)
        | Verb::Export(_)
        | Verb::Transcript(_)
        | Verb::Wait(_)
        | Verb::Turns(_)
        | Verb::Turn(_)
        | Verb::Result(_)
        | Verb::Use(_)
        | Verb::Notify(_)
        | Verb::Agents(_)
        | Verb::Config(_)
        | Verb::Token(Token { verb: TokenVerb::Ls(_) })
        | Verb::Hosts(Hosts { verb: Some(HostsVerb::Ls(_)) | None })
        | Verb::Proxy(_)
        | Verb::Completions(_)
        | Verb::Man(_)
        | Verb::Setup(_)
        // It says something of its own agent, and commands nothing.
        | Verb::Hook(_)
        | Verb::OpenApi(_)
        | Verb::Audit(_)
        | Verb::Doctor(_)
        | Verb::Demo(_) => Deed::Look,
    }
}
