//! `berth link`: prints an address that logs one browser in, once.

use berth_api::{Problem, Token, TokenKind};
use berth_config::tokens::{LONGEST_LINK_LIFE, TokenMaker, TokenParams, TokenStore};
use berth_verbs::gateway_urls;
use serde::Serialize;

use crate::args::LinkArgs;
use crate::ctx::CommandContext;
use crate::print;
use crate::qr::QrCode;
use crate::safe_text::SafeText;
use crate::tty;

/// The output of `--json`.
#[derive(Serialize)]
struct LinkOutput<'a> {
    url: &'a str,
    /// Addresses of this link with other names of the gateway.
    others: &'a [String],
    token: &'a Token,
}

pub(crate) fn run(ctx: &CommandContext, args: &LinkArgs) -> Result<u8, Problem> {
    if args.expires > LONGEST_LINK_LIFE {
        return Err(Problem::usage("a link works for 24h at most")
            .hint("for something that lasts, make a token: `berth token new`"));
    }
    let bases =
        args.base.clone().map_or_else(|| gateway_urls::gateway_urls(&ctx.home), |base| Ok(vec![base]))?;
    let params = TokenParams {
        name: None,
        scope: args.scope,
        sessions: super::token::only(ctx, &args.only)?,
        life: Some(args.expires),
    };
    super::token::confirmed(&params, args.yes)?;
    let new = TokenStore::open(&ctx.home)?.mint(
        TokenKind::Link,
        &params,
        TokenMaker { place: &ctx.place, pass: None },
    )?;
    let mut urls = bases.iter().map(|base| gateway_urls::login_url(base, &new.secret));
    let url = urls.next().unwrap_or_default();
    let others: Vec<String> = urls.collect();
    let unheard = || super::token::take_back(ctx, &new.token);
    if args.json {
        let made = SafeText::json(&LinkOutput { url: &url, others: &others, token: &new.token })? + "\n";
        print::one_time_result(&made, unheard)?;
        return Ok(0);
    }
    print::one_time_result(&format!("{url}\n"), unheard)?;
    if let Some(code) = QrCode::of(&url).filter(|code| args.qr || (!args.no_qr && code.is_of_use(&url))) {
        for line in code.lines(tty::wants_colour()) {
            print::text(&(line + "\n"))?;
        }
    }
    if let Some(other) = others.first() {
        print::note(&format!("or, if the browser does not find that name: {other}"));
    }
    let millis = u64::try_from(args.expires.as_millis()).unwrap_or(u64::MAX);
    print::note(&format!("the link logs one browser in, once, within {}", print::exact_duration(millis)));
    Ok(0)
}
