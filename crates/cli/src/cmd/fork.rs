//! `berth fork`: starts a new session with a copy of another session's conversation.

use berth_api::Problem;

use crate::args::{ForkArgs, LeaveKeyArgs};
use crate::cmd::run::{self, StartFollowOptions};
use crate::ctx::CommandContext;
use crate::target_session::TargetSession;

pub(crate) fn run(ctx: &CommandContext, args: &ForkArgs) -> Result<u8, Problem> {
    let TargetSession { id, handle, .. } = ctx.target(args.session.as_deref())?;
    let (connection, status) = berth_verbs::fork::fork(ctx, &id, &handle, args.name.as_deref())?;
    let stay = StartFollowOptions { detach: true, json: args.json, leave: LeaveKeyArgs::default() };
    run::follow_start(ctx, connection, &status, stay)
}
