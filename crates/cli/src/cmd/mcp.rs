//! `berth mcp`: serves sessions to other agents.
//!
//! Not here: the protocol (see `crate::mcp`).

use std::io::IsTerminal;

use berth_api::Problem;

use crate::ctx::CommandContext;
use crate::{print, turns};

pub(crate) fn run(ctx: &CommandContext) -> Result<u8, Problem> {
    if std::io::stdin().is_terminal() {
        print::note("`berth mcp` is started by an agent, which talks to it on standard input; Ctrl-C leaves");
    }
    let session = ctx.session.clone();
    let find_turn = move |verbs: &berth_verbs::VerbContext, text: &str| {
        turns::find(&CommandContext::of(verbs.clone(), session.clone()), text, None)
    };
    berth_adapters::mcp::serve(ctx, std::sync::Arc::new(find_turn))?;
    Ok(0)
}
