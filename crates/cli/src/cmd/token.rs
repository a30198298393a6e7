//! `berth token`: who may do what over the gateway.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::life::Term;
use berth_api::{Code, Problem, Token, TokenKind};
use berth_core::SessionId;
use berth_verbs::tokens::{Maker, TOKEN_LIFE, TokenWish, Tokens, void_sessions};

use crate::args;
use crate::consent;
use crate::ctx::Ctx;
use crate::print;
use crate::visible::Visible;

pub(crate) fn run(ctx: &Ctx, args: &args::Token) -> Result<u8, Problem> {
    match &args.verb {
        args::TokenVerb::New(args) => new(ctx, args),
        args::TokenVerb::Ls(args) => list(ctx, args),
        args::TokenVerb::Revoke(args) => revoke(ctx, args),
    }
}

fn new(ctx: &Ctx, args: &args::TokenNew) -> Result<u8, Problem> {
    let wish = TokenWish {
        name: Some(args.name.clone()),
        scope: args.scope,
        sessions: only(ctx, &args.only)?,
        life: match args.expires {
            Term::Never => None,
            Term::After(ms) => Some(Duration::from_millis(ms)),
            Term::Same => Some(TOKEN_LIFE),
        },
    };
    confirmed(&wish, args.yes)?;
    let new =
        Tokens::open(&ctx.home)?.mint(TokenKind::Token, &wish, Maker { place: &ctx.place, pass: None })?;
    if new.token.expires_at.is_none() {
        print::note(&format!(
            "warning: token `{0}` never expires: it can be used until `berth token revoke {0}`",
            new.token.name
        ));
    }
    let unheard = || take_back(ctx, &new.token);
    if args.json {
        print::made(&(Visible::json(&new)? + "\n"), unheard)?;
        return Ok(0);
    }
    print::made(&format!("{}\n", new.secret), unheard)?;
    let end = new.token.expires_at.map_or_else(|| "never ends".to_owned(), |end| format!("ends at {end}"));
    print::note(&format!(
        "token `{}` may {} and {end}. It is not shown again; `berth token revoke {0}` takes it back",
        new.token.name,
        reach(ctx, &new.token),
    ));
    Ok(0)
}

/// Asks for consent if the list of sessions does not confine the scope.
pub(super) fn confirmed(wish: &TokenWish, yes: bool) -> Result<(), Problem> {
    match void_sessions(wish.scope, wish.sessions.is_some()) {
        Some(what) => consent::ask(&what, yes),
        None => Ok(()),
    }
}

/// Revokes a token or a link whose secret could not be printed. Returns a sentence about the outcome.
pub(super) fn take_back(ctx: &Ctx, token: &Token) -> String {
    let word = token.kind.word();
    let revoked = Tokens::open(&ctx.home).and_then(|tokens| {
        let gone = tokens.revoke(&token.id, None)?;
        tokens.note_revoked(&ctx.place, &gone);
        Ok(())
    });
    match revoked {
        Ok(()) => format!("the {word} was taken back"),
        Err(problem) => format!("the {word} `{}` is there and could not be taken back: {problem}", token.id),
    }
}

fn list(ctx: &Ctx, args: &args::TokenLs) -> Result<u8, Problem> {
    let tokens = Tokens::open(&ctx.home)?.list(None)?;
    if args.json {
        print::json(&tokens)?;
    } else if tokens.is_empty() {
        print::note("there are no tokens; `berth token new` makes one");
    } else {
        print::text(&table(ctx, &tokens))?;
        let void = tokens.iter().filter(|token| token.void).count();
        if void > 0 {
            print::note(&format!(
                "void: {void}. They open nothing: the key in {} was lost, or their records were copied here or edited. \
                 Revoke them, and make new ones with `berth token new`",
                ctx.home.root().join("token.key").display()
            ));
        }
    }
    Ok(0)
}

fn revoke(ctx: &Ctx, args: &args::TokenRevoke) -> Result<u8, Problem> {
    let tokens = Tokens::open(&ctx.home)?;
    let gone = tokens.revoke(&args.handle, None)?;
    tokens.note_revoked(&ctx.place, &gone);
    if args.json {
        print::json(&gone)?;
        return Ok(0);
    }
    for token in &gone {
        print::note(&format!("{} `{}` is revoked", token.kind.word(), token.name));
    }
    Ok(0)
}

/// The sessions that are named; all if none is.
pub(super) fn only(ctx: &Ctx, names: &[String]) -> Result<Option<BTreeSet<SessionId>>, Problem> {
    if names.is_empty() {
        return Ok(None);
    }
    // What is only implied (`@`) is not what a right is given for.
    if names.iter().any(|name| name == "@") {
        return Err(Problem::new(Code::Usage, "a token is for sessions that are named").hint("name it"));
    }
    names.iter().map(|name| ctx.home.find(name)).collect::<Result<BTreeSet<_>, _>>().map(Some)
}

fn reach(ctx: &Ctx, token: &Token) -> String {
    match &token.sessions {
        None => token.scope.to_string(),
        Some(ids) => format!("{} in {}", token.scope, called(ctx, ids).join(", ")),
    }
}

/// What people call these sessions; one that is gone has only its id.
fn called(ctx: &Ctx, ids: &[String]) -> Vec<String> {
    ids.iter().map(|id| SessionId::parse(id).map_or_else(|| id.clone(), |id| ctx.handle(&id))).collect()
}

fn table(ctx: &Ctx, tokens: &[Token]) -> String {
    let now = berth_host::clock::wall_ms();
    let mut rows =
        vec![["NAME", "ID", "KIND", "SCOPE", "SESSIONS", "MADE", "ENDS", "USED"].map(str::to_owned)];
    rows.extend(tokens.iter().map(|token| {
        let sessions = match &token.sessions {
            None => "all".to_owned(),
            Some(ids) => called(ctx, ids).join(","),
        };
        let ends = match token.expires_at {
            _ if token.void => "void".to_owned(),
            None => "never".to_owned(),
            Some(_) if token.expired => "expired".to_owned(),
            Some(end) => format!("in {}", print::age(end.0.saturating_sub(now))),
        };
        let used =
            token.last_used_at.map_or_else(|| "never".to_owned(), |at| format!("{} ago", print::ago(at)));
        [
            token.name.clone(),
            token.id.clone(),
            token.kind.word().to_owned(),
            token.scope.to_string(),
            sessions,
            format!("{} ago", print::ago(token.created_at)),
            ends,
            used,
        ]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..8).map(width).collect();
    let line = |row: &[String; 8]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}
