//! `berth fork`: a new session with a copy of another one's conversation.

use berth_api::Problem;

use crate::args::{Fork, Leave};
use crate::cmd::run::{self, Stay};
use crate::ctx::Ctx;
use crate::meant::Meant;

pub(crate) fn run(ctx: &Ctx, args: &Fork) -> Result<u8, Problem> {
    let Meant { id, handle, .. } = ctx.target(args.session.as_deref())?;
    let (connection, status) = berth_verbs::fork::fork(ctx, &id, &handle, args.name.as_deref())?;
    let stay = Stay { detach: true, json: args.json, leave: Leave::default() };
    run::stay(ctx, connection, &status, stay)
}
