//! `berth helper`: processes that sessions share.

mod ensure;
mod find;
mod ls;
mod release;
mod show;
mod stop;

use berth_api::helper::HelperStatus;
use berth_api::{Code, Problem, Status};
use berth_core::SessionId;
use berth_keeper::view;

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
            let id = find::find(&helpers, args.session.as_deref().unwrap_or_default())?;
            cmd::log::run(&helpers, &Log { session: Some(id.to_string()), ..args })
                .map_err(|it| reworded(it, &id))
        }
        HelperVerb::Output(args) => {
            let id = find::find(&helpers, args.session.as_deref().unwrap_or_default())?;
            cmd::output::run(&helpers, &Output { session: Some(id.to_string()), ..args })
                .map_err(|it| reworded(it, &id))
        }
    }
}

/// The session that owns, or owned, a helper.
fn owner(ctx: &Ctx, named: Option<&String>) -> Result<SessionId, Problem> {
    let named = named.filter(|named| !named.is_empty()).ok_or_else(|| {
        Problem::new(Code::Usage, "nobody is named who owns the helper")
            .hint("name a session with --owner S; inside a session it is that one")
    })?;
    ctx.find(named)
}

/// What is known about a helper, with the names of those who own it.
fn described(helpers: &Ctx, status: Status) -> Status {
    let sessions = helpers.home.sessions();
    // A record of an older version does not say who owns it.
    let mut helper = status.helper.clone().unwrap_or_else(|| HelperStatus {
        name: status.handle().to_owned(),
        scope: "unknown".to_owned(),
        ..HelperStatus::default()
    });
    for owner in &mut helper.owners {
        let known = SessionId::parse(&owner.session).and_then(|id| view::status(&sessions, &id).ok());
        owner.name = known.and_then(|session| session.name);
    }
    Status { helper: Some(helper), ..status }
}

/// What is known about sessions in general, said of a helper.
fn reworded(problem: Problem, id: &SessionId) -> Problem {
    let of_helper = |text: String| {
        text.replace(&format!("session `{id}`"), &format!("helper {id}"))
            .replace(&format!("session {id}"), &format!("helper {id}"))
            .replace(&format!("berth why {id}"), &format!("berth helper show {id}"))
            .replace(&format!("berth resume {id}"), "berth helper ensure")
            .replace(&format!("berth output {id}"), &format!("berth helper output {id}"))
            .replace(&format!("berth log {id}"), &format!("berth helper log {id}"))
    };
    Problem { what: of_helper(problem.what), hint: problem.hint.map(of_helper), ..problem }
}
