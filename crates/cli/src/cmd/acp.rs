//! `berth acp`: an editor's agent.

use std::io::IsTerminal;

use berth_api::Problem;
use berth_verbs::agents::Table;

use crate::args::Acp;
use crate::ctx::Ctx;
use crate::print;

pub(crate) fn run(ctx: &Ctx, args: &Acp) -> Result<u8, Problem> {
    // An editor runs in somebody's terminal and is not at it: only what is named is meant.
    let named = args.session.as_deref().or(ctx.session.as_deref());
    let given = named.map(|named| ctx.find(named)).transpose()?;
    if let Some(id) = &given {
        crate::acp::takes_turns(ctx, id)?;
    }
    if given.is_none() {
        // Before the editor says a word: it shows what is wrong only if this ends with it.
        let table = Table::load()?;
        crate::acp::suits(table.find(&args.agent)?)?;
    }
    if std::io::stdin().is_terminal() {
        print::note("an editor starts this and talks to it on standard input; Ctrl-C leaves");
    }
    crate::acp::serve(ctx, given, args.agent.clone())?;
    Ok(0)
}
