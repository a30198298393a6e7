//! `berth serve`: the gateway.

use std::io::IsTerminal;

use berth_api::{Problem, Scope, TokenKind};
use berth_gateway::{Listen, Options};
use berth_verbs::links;
use berth_verbs::tokens::{LINK_LIFE, Maker, Tokens, Wish};

use crate::args::Serve;
use crate::ctx::Ctx;
use crate::print;

pub(crate) fn run(ctx: &Ctx, args: &Serve) -> Result<u8, Problem> {
    let tcp = args.listen.iter().copied().map(Listen::Tcp);
    let listen = std::iter::once(Listen::Socket).chain(tcp).collect();
    let options = Options { listen, allow_hosts: args.allow_host.clone() };
    let mut urls = Vec::new();
    berth_gateway::serve(ctx.home.clone(), options, |address| {
        // Whoever does not read this wants the gateway all the same.
        let _ = print::text(&format!("listening on {address}\n"));
        if let Err(problem) = welcome(ctx, &address, &mut urls) {
            print::note(&problem.what);
        }
    })?;
    Ok(0)
}

/// Writes down where browsers find the gateway, and lets whoever looks at this terminal log in.
fn welcome(ctx: &Ctx, address: &str, urls: &mut Vec<String>) -> Result<(), Problem> {
    let is_first = urls.is_empty();
    let is_url = address.starts_with("http://") || address.starts_with("https://");
    if is_url {
        urls.push(links::reachable(address));
    }
    links::announce(&ctx.home, urls)?;
    if let (true, true, Some(base)) = (is_first, std::io::stdout().is_terminal(), urls.first()) {
        let wish = Wish { name: None, scope: Scope::Admin, sessions: None, life: Some(LINK_LIFE) };
        let maker = Maker { place: &ctx.place, pass: None };
        let link = Tokens::open(&ctx.home)?.mint(TokenKind::Link, &wish, maker)?;
        print::text(&format!("log in once, within 10 minutes: {}\n", links::url(base, &link.secret)))?;
    }
    Ok(())
}
