//! `berth mcp`: sessions for other agents.

use berth_api::Problem;

use crate::ctx::Ctx;

pub(crate) fn run(ctx: &Ctx) -> Result<u8, Problem> {
    crate::mcp::serve(ctx)?;
    Ok(0)
}
