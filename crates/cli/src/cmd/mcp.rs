//! `berth mcp`: sessions for other agents.

use std::io::IsTerminal;

use berth_api::Problem;

use crate::ctx::Ctx;
use crate::print;

pub(crate) fn run(ctx: &Ctx) -> Result<u8, Problem> {
    if std::io::stdin().is_terminal() {
        print::note("an agent starts this and talks to it on standard input; Ctrl-C leaves");
    }
    crate::mcp::serve(ctx)?;
    Ok(0)
}
