//! `berth helper`: processes that sessions share.

mod ensure;
mod ls;
mod release;
mod show;
mod stop;

use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_verbs::helper::{described, reworded};
use berth_verbs::run::directory;

use crate::args::{Helper, HelperVerb, Log, Output};
use crate::cmd;
use crate::ctx::Ctx;

pub(crate) fn run(ctx: &Ctx, args: Helper) -> Result<u8, Problem> {
    let helpers = ctx.helpers()?;
    match args.verb {
        HelperVerb::Ensure(args) => ensure::run(ctx, &helpers, &args),
        HelperVerb::Release(args) => release::run(ctx, &helpers, &args),
        HelperVerb::Ls(args) => ls::run(&helpers, &args),
        HelperVerb::Show(args) => show::run(&helpers, &args),
        HelperVerb::Stop(args) => stop::run(&helpers, &args),
        HelperVerb::Log(args) => {
            let id = find(&helpers, args.session.as_deref().unwrap_or_default())?;
            cmd::log::run(&helpers, &Log { session: Some(id.to_string()), ..args })
                .map_err(|it| reworded(it, &id))
        }
        HelperVerb::Output(args) => {
            let id = find(&helpers, args.session.as_deref().unwrap_or_default())?;
            cmd::output::run(&helpers, &Output { session: Some(id.to_string()), ..args })
                .map_err(|it| reworded(it, &id))
        }
    }
}

/// The session that owns, or owned, a helper.
fn owner(ctx: &Ctx, named: Option<&String>) -> Result<SessionId, Problem> {
    let named = named.filter(|named| !named.is_empty()).ok_or_else(|| {
        Problem::new(Code::Usage, "no session is named that owns the helper")
            .hint("name a session with --owner S; inside a session it is that one")
    })?;
    ctx.find(named)
}

/// The directory a person is in: its helpers come first.
fn here() -> Option<String> {
    directory(None).ok()
}

/// The helper a person means.
fn find(helpers: &Ctx, text: &str) -> Result<SessionId, Problem> {
    berth_verbs::helper::find(helpers, text, here().as_deref())
}
