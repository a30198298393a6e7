//! `berth serve`: the gateway.

use berth_api::Problem;
use berth_gateway::{Listen, Options};

use crate::args::Serve;
use crate::ctx::Ctx;
use crate::print;

pub(crate) fn run(ctx: &Ctx, args: &Serve) -> Result<u8, Problem> {
    let tcp = args.listen.iter().copied().map(Listen::Tcp);
    let listen = std::iter::once(Listen::Socket).chain(tcp).collect();
    berth_gateway::serve(ctx.home.clone(), Options { listen }, |address| {
        // Whoever does not read this wants the gateway all the same.
        let _ = print::text(&format!("listening on {address}\n"));
    })?;
    Ok(0)
}
