//! `berth link`: an address that logs one browser in, once.

use berth_api::{Code, Problem, Token, TokenKind};
use berth_verbs::links;
use berth_verbs::tokens::{LONGEST_LINK_LIFE, Maker, TokenWish, Tokens};
use serde::Serialize;

use crate::args::Link;
use crate::ctx::Ctx;
use crate::print;
use crate::qr::QrCode;
use crate::tty;
use crate::visible::Visible;

/// A link, for programs.
#[derive(Serialize)]
struct Made<'a> {
    url: &'a str,
    /// Addresses of this link with other names of the gateway.
    others: &'a [String],
    token: &'a Token,
}

pub(crate) fn run(ctx: &Ctx, args: &Link) -> Result<u8, Problem> {
    if args.expires > LONGEST_LINK_LIFE {
        return Err(Problem::new(Code::Usage, "a link works for 24h at most")
            .hint("for something that lasts, make a token: `berth token new`"));
    }
    let bases = args.base.clone().map_or_else(|| links::bases(&ctx.home), |base| Ok(vec![base]))?;
    let wish = TokenWish {
        name: None,
        scope: args.scope,
        sessions: super::token::only(ctx, &args.only)?,
        life: Some(args.expires),
    };
    super::token::confirmed(&wish, args.yes)?;
    let new =
        Tokens::open(&ctx.home)?.mint(TokenKind::Link, &wish, Maker { place: &ctx.place, pass: None })?;
    let mut urls = bases.iter().map(|base| links::url(base, &new.secret));
    let url = urls.next().unwrap_or_default();
    let others: Vec<String> = urls.collect();
    let unheard = || super::token::take_back(ctx, &new.token);
    if args.json {
        let made = Visible::json(&Made { url: &url, others: &others, token: &new.token })? + "\n";
        print::made(&made, unheard)?;
        return Ok(0);
    }
    print::made(&format!("{url}\n"), unheard)?;
    if let Some(code) = QrCode::of(&url).filter(|code| args.qr || (!args.no_qr && code.is_of_use(&url))) {
        for line in code.lines(tty::wants_colour()) {
            print::text(&(line + "\n"))?;
        }
    }
    if let Some(other) = others.first() {
        print::note(&format!("or, if the browser does not find that name: {other}"));
    }
    let millis = u64::try_from(args.expires.as_millis()).unwrap_or(u64::MAX);
    print::note(&format!("it logs one browser in, once, within {}", print::span(millis)));
    Ok(0)
}
