//! `berth helper`: manages processes that sessions share.

mod ensure;
mod ls;
mod release;
mod show;
mod stop;

use berth_api::Problem;
use berth_core::SessionId;
use berth_verbs::helper::{describe_helper, reword_for_helper};
use berth_verbs::run::directory;

use crate::args::{HelperArgs, HelperVerb, LogArgs, OutputArgs};
use crate::cmd;
use crate::ctx::CommandContext;

pub(crate) fn run(ctx: &CommandContext, args: HelperArgs) -> Result<u8, Problem> {
    let helpers = ctx.helpers()?;
    match args.verb {
        HelperVerb::Ensure(args) => ensure::run(ctx, &helpers, &args),
        HelperVerb::Release(args) => release::run(ctx, &helpers, &args),
        HelperVerb::Ls(args) => ls::run(&helpers, &args),
        HelperVerb::Show(args) => show::run(&helpers, &args),
        HelperVerb::Stop(args) => stop::run(&helpers, &args),
        HelperVerb::Log(args) => {
            let id = find(&helpers, args.session.as_deref().unwrap_or_default())?;
            cmd::log::run(&helpers, &LogArgs { session: Some(id.to_string()), ..args })
                .map_err(|it| reword_for_helper(it, &id))
        }
        HelperVerb::Output(args) => {
            let id = find(&helpers, args.session.as_deref().unwrap_or_default())?;
            cmd::output::run(&helpers, &OutputArgs { session: Some(id.to_string()), ..args })
                .map_err(|it| reword_for_helper(it, &id))
        }
    }
}

/// The session that `--owner` names, which is required.
fn owner(ctx: &CommandContext, named: Option<&String>) -> Result<SessionId, Problem> {
    let named = named.filter(|named| !named.is_empty()).ok_or_else(|| {
        Problem::usage("no owner is named for the helper")
            .hint("name a session with --owner S; inside a session that session is the default")
    })?;
    ctx.find(named)
}

/// The current directory: its helpers come first when a name is looked up.
fn here() -> Option<String> {
    directory(None).ok()
}

/// Finds the helper with this name or id.
fn find(helpers: &CommandContext, text: &str) -> Result<SessionId, Problem> {
    berth_verbs::helper::find(helpers, text, here().as_deref())
}
