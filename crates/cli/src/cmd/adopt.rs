//! `berth adopt`: continues a conversation from outside berth in a session.

use berth_api::Problem;
use berth_api::message::WriterTakeover;
use berth_verbs::foreign::adopt::{self, AdoptOptions, AdoptedSession, HolderPolicy};
use berth_verbs::foreign::{self};
use berth_verbs::run::id_of;

use crate::args::{AdoptArgs, LeaveKeyArgs};
use crate::chat;
use crate::cmd::run::{self, StartFollowOptions};
use crate::ctx::CommandContext;
use crate::{print, tty};

pub(crate) fn run(ctx: &CommandContext, args: &AdoptArgs) -> Result<u8, Problem> {
    let agent = args.agent.as_deref().map(foreign::kind).transpose()?;
    let conversation = foreign::find(ctx, &args.conversation, agent)?;
    let others = match &args.take {
        Some(pids) if pids.is_empty() => HolderPolicy::Take(WriterTakeover::All),
        Some(pids) => HolderPolicy::Take(WriterTakeover::Only(pids.clone())),
        None if args.wait => HolderPolicy::Wait(args.timeout),
        None => HolderPolicy::Refuse,
    };
    let order = AdoptOptions { name: args.name.clone(), others, tui: args.tui };
    let adopted = adopt::adopt(ctx, &conversation, &order, &mut |what| print::note(what))?;
    let AdoptedSession { status, connection, was_ours } = adopted;
    let id = id_of(&status)?;
    berth_tui::current_session::set_current_session(&ctx.home, &id);
    let came = if was_ours { "goes on in" } else { "is now" };
    print::note(&format!("conversation {} {came} session {}", conversation.id, status.handle()));
    let takes_turns = status.turns.is_some();
    if takes_turns && !args.detach && !args.json && tty::is_interactive() {
        return chat::run_chat(ctx, &id);
    }
    let stay = StartFollowOptions {
        detach: args.detach || takes_turns,
        json: args.json,
        leave: LeaveKeyArgs::default(),
    };
    run::follow_start(ctx, connection, &status, stay)
}
