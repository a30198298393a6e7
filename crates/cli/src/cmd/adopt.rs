//! `berth adopt`: a conversation had without berth, gone on with here.

use berth_api::Problem;
use berth_api::message::Take;
use berth_verbs::foreign::adopt::{self, Adopted, Order, Others};
use berth_verbs::foreign::{self};
use berth_verbs::run::id_of;

use crate::args::{Adopt, Leave};
use crate::cmd::run::{self, Stay};
use crate::cmd::talk;
use crate::ctx::Ctx;
use crate::{print, tty};

pub(crate) fn run(ctx: &Ctx, args: &Adopt) -> Result<u8, Problem> {
    let agent = args.agent.as_deref().map(foreign::kind).transpose()?;
    let conversation = foreign::find(ctx, &args.conversation, agent)?;
    let others = match &args.take {
        Some(pids) if pids.is_empty() => Others::Take(Take::Anybody),
        Some(pids) => Others::Take(Take::Only(pids.clone())),
        None if args.wait => Others::Wait(args.timeout),
        None => Others::Refuse,
    };
    let order = Order { name: args.name.clone(), others, tui: args.tui };
    let adopted = adopt::adopt(ctx, &conversation, &order, &mut |what| print::note(what))?;
    let Adopted { status, connection, was_ours } = adopted;
    let id = id_of(&status)?;
    ctx.make_current(&id);
    let came = if was_ours { "goes on in" } else { "is now" };
    print::note(&format!("conversation {} {came} session {}", conversation.id, status.handle()));
    let takes_turns = status.turns.is_some();
    if takes_turns && !args.detach && !args.json && tty::is_interactive() {
        return talk::talk(ctx, &id);
    }
    let stay = Stay { detach: args.detach || takes_turns, json: args.json, leave: Leave::default() };
    run::stay(ctx, connection, &status, stay)
}
