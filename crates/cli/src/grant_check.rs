//! Checks the verbs that an agent calls and that are not about one session against its grant.
//!
//! Promise: every verb is classified here. A verb about a session is checked later, where the session is known: by its
//! keeper, or by the verb if it needs no keeper.
//! Start with [`check`].

use berth_api::Problem;
use berth_core::CallerAction;

use crate::args::{CliVerb, HostsArgs, HostsVerb, TokenArgs, TokenVerb};
use crate::ctx::CommandContext;

/// Refuses a verb that the caller may not use at all.
pub(crate) fn check(ctx: &CommandContext, verb: &CliVerb) -> Result<(), Problem> {
    ctx.may_at_all(action_without_session(verb), "sessions")
}

/// The action of a verb, apart from its effects on a session.
fn action_without_session(verb: &CliVerb) -> CallerAction {
    match verb {
        CliVerb::Sweep(args) if !args.dry_run => CallerAction::Sweep,
        CliVerb::Purge(args) if !args.dry_run => CallerAction::Purge,
        CliVerb::Serve(_) => CallerAction::Serve,
        CliVerb::Token(TokenArgs { verb: TokenVerb::New(_) | TokenVerb::Revoke(_) }) | CliVerb::Link(_) => CallerAction::Tokens,
        CliVerb::Hosts(HostsArgs { verb: Some(HostsVerb::Add(_) | HostsVerb::Rm(_)) }) => CallerAction::Hosts,
        CliVerb::Setup(setup) if !setup.only_looks() => CallerAction::SetUp,
        // Verbs about a session, which are checked once the session is known.
        CliVerb::Run(_)
        | CliVerb::Resume(_)
        | CliVerb::Attach(_)
        | CliVerb::Input(_)
        | CliVerb::Stop(_)
        | CliVerb::Send(_)
        | CliVerb::Cancel(_)
        | CliVerb::Queue(_)
        | CliVerb::Answer(_)
        | CliVerb::Fork(_)
        | CliVerb::Adopt(_)
        | CliVerb::Import(_)
        | CliVerb::Rename(_)
        | CliVerb::Tag(_)
        | CliVerb::Note(_)
        | CliVerb::Policy(_)
        | CliVerb::Archive(_)
        | CliVerb::Restore(_)
        | CliVerb::Acp(_)
        | CliVerb::Mcp(_)
        | CliVerb::Helper(_) => CallerAction::Look,
        // Verbs that only read, or change no session here. The far side checks the requests of a proxy.
        CliVerb::Sweep(_)
        | CliVerb::Purge(_)
        | CliVerb::History(_)
        | CliVerb::Ls(_)
        | CliVerb::Show(_)
        | CliVerb::Why(_)
        | CliVerb::Ps(_)
        | CliVerb::Screen(_)
        | CliVerb::Output(_)
        | CliVerb::Log(_)
        | CliVerb::Grep(_)
        | CliVerb::Export(_)
        | CliVerb::Transcript(_)
        | CliVerb::Wait(_)
        | CliVerb::Turns(_)
        | CliVerb::Turn(_)
        | CliVerb::Result(_)
        | CliVerb::Use(_)
        | CliVerb::Notify(_)
        | CliVerb::Agents(_)
        | CliVerb::Config(_)
        | CliVerb::Token(TokenArgs { verb: TokenVerb::Ls(_) })
        | CliVerb::Hosts(HostsArgs { verb: Some(HostsVerb::Ls(_)) | None })
        | CliVerb::Proxy(_)
        | CliVerb::Completions(_)
        | CliVerb::Man(_)
        | CliVerb::Setup(_)
        // A hook reports about its own agent, and commands nothing.
        | CliVerb::Hook(_)
        | CliVerb::OpenApi(_)
        | CliVerb::Audit(_)
        | CliVerb::Doctor(_)
        | CliVerb::Demo(_) => CallerAction::Look,
    }
}
