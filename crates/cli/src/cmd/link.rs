//! `berth link`: an address that logs one browser in, once.

use berth_api::{Code, Problem, Token, TokenKind};
use berth_verbs::links;
use berth_verbs::tokens::{LONGEST_LINK_LIFE, Maker, TokenWish, Tokens};
use serde::Serialize;

use crate::args::Link;
use crate::ctx::Ctx;
use crate::print;

/// A link, for programs.
#[derive(Serialize)]
struct Made<'a> {
    url: &'a str,
    token: &'a Token,
}

pub(crate) fn run(ctx: &Ctx, args: &Link) -> Result<u8, Problem> {
    if args.expires > LONGEST_LINK_LIFE {
        return Err(Problem::new(Code::Usage, "a link works for 24h at most")
            .hint("for something that lasts, make a token: `berth token new`"));
    }
    let base = args.base.clone().map_or_else(|| links::base(&ctx.home), Ok)?;
    let wish = TokenWish {
        name: None,
        scope: args.scope,
        sessions: super::token::only(ctx, &args.only)?,
        life: Some(args.expires),
    };
    super::token::confirmed(&wish, args.yes)?;
    let new =
        Tokens::open(&ctx.home)?.mint(TokenKind::Link, &wish, Maker { place: &ctx.place, pass: None })?;
    let url = links::url(&base, &new.secret);
    if args.json {
        print::json(&Made { url: &url, token: &new.token })?;
        return Ok(0);
    }
    print::text(&format!("{url}\n"))?;
    let millis = u64::try_from(args.expires.as_millis()).unwrap_or(u64::MAX);
    print::note(&format!("it logs one browser in, once, within {}", print::span(millis)));
    Ok(0)
}
