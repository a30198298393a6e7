//! `berth openapi`: prints the description of the gateway's HTTP API.

use berth_api::Problem;

use crate::print;

pub(crate) fn run() -> Result<u8, Problem> {
    print::json(&berth_gateway::openapi::openapi_document())?;
    Ok(0)
}
