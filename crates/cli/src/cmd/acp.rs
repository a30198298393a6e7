//! `berth acp`: serves sessions to an editor as its agent.
//!
//! Not here: the protocol (see `crate::acp`).

use std::io::IsTerminal;

use berth_api::Problem;
use berth_config::agents::AgentTable;

use crate::args::AcpArgs;
use crate::ctx::CommandContext;
use crate::print;

pub(crate) fn run(ctx: &CommandContext, args: &AcpArgs) -> Result<u8, Problem> {
    // An editor inherits the terminal of a user but does not use it, so the terminal's current session is not taken.
    let named = args.session.as_deref().or(ctx.session.as_deref());
    let given = named.map(|named| ctx.find(named)).transpose()?;
    if let Some(id) = &given {
        berth_adapters::acp::check_takes_turns(ctx, id)?;
    }
    if given.is_none() {
        // Checked before the protocol begins: an editor shows an error only if this process ends with it.
        let table = AgentTable::load()?;
        berth_adapters::acp::check_usable_by_editor(table.find(&args.agent)?)?;
    }
    if std::io::stdin().is_terminal() {
        print::note(
            "`berth acp` is started by an editor, which talks to it on standard input; Ctrl-C leaves",
        );
    }
    berth_adapters::acp::serve(ctx, given, args.agent.clone())?;
    Ok(0)
}
