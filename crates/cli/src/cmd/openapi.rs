//! `berth openapi`: what the gateway can be asked.

use berth_api::Problem;

use crate::print;

pub(crate) fn run() -> Result<u8, Problem> {
    print::json(&berth_gateway::openapi::description())?;
    Ok(0)
}
