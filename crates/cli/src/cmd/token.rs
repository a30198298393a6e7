//! `berth token`: makes, lists and revokes the tokens of the gateway.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::policy_change::TimeoutChange;
use berth_api::{Problem, Token, TokenKind};
use berth_config::tokens::{TOKEN_LIFE, TokenMaker, TokenParams, TokenStore, void_sessions};
use berth_core::SessionId;

use crate::args;
use crate::consent;
use crate::ctx::CommandContext;
use crate::print;
use crate::safe_text::SafeText;

pub(crate) fn run(ctx: &CommandContext, args: &args::TokenArgs) -> Result<u8, Problem> {
    match &args.verb {
        args::TokenVerb::New(args) => new(ctx, args),
        args::TokenVerb::Ls(args) => list(ctx, args),
        args::TokenVerb::Revoke(args) => revoke(ctx, args),
    }
}

fn new(ctx: &CommandContext, args: &args::TokenNewArgs) -> Result<u8, Problem> {
    let params = TokenParams {
        name: Some(args.name.clone()),
        scope: args.scope,
        sessions: only(ctx, &args.only)?,
        life: match args.expires {
            TimeoutChange::Never => None,
            TimeoutChange::After(ms) => Some(Duration::from_millis(ms)),
            TimeoutChange::Same => Some(TOKEN_LIFE),
        },
    };
    confirmed(&params, args.yes)?;
    let new = TokenStore::open(&ctx.home)?.mint(
        TokenKind::Token,
        &params,
        TokenMaker { place: &ctx.place, pass: None },
    )?;
    if new.token.expires_at.is_none() {
        print::note(&format!(
            "warning: token `{0}` never expires: it can be used until `berth token revoke {0}`",
            new.token.name
        ));
    }
    let unheard = || take_back(ctx, &new.token);
    if args.json {
        print::one_time_result(&(SafeText::json(&new)? + "\n"), unheard)?;
        return Ok(0);
    }
    print::one_time_result(&format!("{}\n", new.secret), unheard)?;
    let end = new.token.expires_at.map_or_else(|| "never ends".to_owned(), |end| format!("ends at {end}"));
    print::note(&format!(
        "token `{}` may {} and {end}. It is not shown again; `berth token revoke {0}` revokes it",
        new.token.name,
        reach(ctx, &new.token),
    ));
    Ok(0)
}

/// Asks for consent if the list of sessions does not confine the scope.
pub(super) fn confirmed(params: &TokenParams, yes: bool) -> Result<(), Problem> {
    match void_sessions(params.scope, params.sessions.is_some()) {
        Some(what) => consent::require_yes(&what, yes),
        None => Ok(()),
    }
}

/// Revokes a token or a link whose secret could not be printed. Returns a sentence about the outcome.
pub(super) fn take_back(ctx: &CommandContext, token: &Token) -> String {
    let word = token.kind.word();
    let revoked = TokenStore::open(&ctx.home).and_then(|tokens| {
        let gone = tokens.revoke(&token.id, None)?;
        tokens.note_revoked(&ctx.place, &gone);
        Ok(())
    });
    match revoked {
        Ok(()) => format!("the {word} was revoked"),
        Err(problem) => format!("the {word} `{}` exists and could not be revoked: {problem}", token.id),
    }
}

fn list(ctx: &CommandContext, args: &args::TokenLsArgs) -> Result<u8, Problem> {
    let tokens = TokenStore::open(&ctx.home)?.list(None)?;
    if args.json {
        print::json(&tokens)?;
    } else if tokens.is_empty() {
        print::note("there are no tokens; `berth token new` makes one");
    } else {
        print::text(&table(ctx, &tokens))?;
        let void = tokens.iter().filter(|token| token.void).count();
        if void > 0 {
            print::note(&format!(
                "{void} tokens are void and give no access: the key in {} was lost, or their records were copied here or edited. \
                 Revoke them, and make new ones with `berth token new`",
                ctx.home.root().join("token.key").display()
            ));
        }
    }
    Ok(0)
}

fn revoke(ctx: &CommandContext, args: &args::TokenRevokeArgs) -> Result<u8, Problem> {
    let tokens = TokenStore::open(&ctx.home)?;
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

/// The sessions with these names; `None`, which means all, if no name is given.
pub(super) fn only(ctx: &CommandContext, names: &[String]) -> Result<Option<BTreeSet<SessionId>>, Problem> {
    if names.is_empty() {
        return Ok(None);
    }
    // A token must name its sessions: `@` means another session at another time.
    if names.iter().any(|name| name == "@") {
        return Err(
            Problem::usage("a token needs the name or id of its session, not `@`").hint("name the session")
        );
    }
    names.iter().map(|name| ctx.home.find(name)).collect::<Result<BTreeSet<_>, _>>().map(Some)
}

fn reach(ctx: &CommandContext, token: &Token) -> String {
    match &token.sessions {
        None => token.scope.to_string(),
        Some(ids) => format!("{} in {}", token.scope, called(ctx, ids).join(", ")),
    }
}

/// The handles of these sessions; a session that no longer exists has only its id.
fn called(ctx: &CommandContext, ids: &[String]) -> Vec<String> {
    ids.iter().map(|id| SessionId::parse(id).map_or_else(|| id.clone(), |id| ctx.handle(&id))).collect()
}

fn table(ctx: &CommandContext, tokens: &[Token]) -> String {
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
            Some(end) => format!("in {}", print::describe_age(end.0.saturating_sub(now))),
        };
        let used = token
            .last_used_at
            .map_or_else(|| "never".to_owned(), |at| format!("{} ago", print::age_since(at)));
        [
            token.name.clone(),
            token.id.clone(),
            token.kind.word().to_owned(),
            token.scope.to_string(),
            sessions,
            format!("{} ago", print::age_since(token.created_at)),
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
