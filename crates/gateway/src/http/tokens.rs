//! Tokens: made, listed, taken back. The same as `berth token` and `berth link` do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::{Method, StatusCode};
use berth_api::{Code, NewToken, Problem, Scope, Token, TokenKind};
use berth_core::SessionId;
use berth_verbs::links;
use berth_verbs::tokens::{LINK_LIFE, LONGEST_LINK_LIFE, Maker, TOKEN_LIFE, TokenWish, void_sessions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::auth::Asked;
use crate::caller::Caller;
use crate::fault::Fault;
use crate::gate::{Gate, work};
use crate::http::body::{Body, Path};
use crate::routes::Route;
use crate::visible::{Json, nothing_hidden};

pub(crate) fn routes() -> Vec<Route> {
    let (list_path, one_path) = ("/v1/tokens", "/v1/tokens/{token}");
    vec![
        Route::get("list_tokens", list_path, Scope::Admin, list)
            .about("Who may do what: tokens, logins and links.")
            .filtered()
            .gives::<Tokens>(200, "the list, the oldest first"),
        Route::post("create_token", list_path, Scope::Admin, create)
            .about("Make a token. Its secret is told only here.")
            .filtered()
            .takes::<NewTokenRequest>()
            .gives::<NewToken>(201, "the token, and its secret")
            .fails(&[Code::NotFound, Code::Refused, Code::NeedsYes, Code::Full]),
        Route::new(Method::DELETE, "revoke_token", one_path, Scope::Admin, revoke)
            .about("Take a token back, by its name or id, at once.")
            .filtered()
            .gives::<Revoked>(200, "what is gone: the token, and what was made with it")
            .fails(&[Code::NotFound]),
        Route::post("create_link", "/v1/links", Scope::Admin, link)
            .about("Make a link that logs one browser in, once.")
            .filtered()
            .takes::<NewLinkRequest>()
            .gives::<NewLink>(201, "the link")
            .fails(&[Code::NotFound, Code::NeedsYes, Code::Full]),
    ]
}

nothing_hidden!(Tokens, Revoked, NewLink);

/// A list of tokens.
#[derive(Serialize, JsonSchema)]
struct Tokens {
    tokens: Vec<Token>,
}

async fn list(State(gate): State<Arc<Gate>>, caller: Caller) -> Result<Json<Tokens>, Fault> {
    let tokens = work(move || gate.door.passes.tokens.list(caller.pass.as_deref())).await?;
    Ok(Json(Tokens { tokens }))
}

/// A token that is wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewTokenRequest {
    /// What to call it. No two have the same name.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: String,
    /// How far it goes; not further than your own.
    scope: Scope,
    /// The only sessions it is for, by name or id; all if nothing is said. The list does not confine `control` and
    /// `admin`, which start commands with the owner's account: those need `yes`.
    #[serde(default)]
    sessions: Option<Vec<String>>,
    /// How long it is good for, from now on by the gateway's clock; 90 days if nothing is said.
    #[serde(default)]
    expires_in_ms: Option<u64>,
    /// The token never ends; not together with `expires_in_ms`.
    #[serde(default)]
    never_expires: bool,
    /// Make it although `sessions` does not confine its scope.
    #[serde(default)]
    yes: bool,
}

async fn create(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Body(body): Body<NewTokenRequest>,
) -> Result<(StatusCode, Json<NewToken>), Fault> {
    let life = match (body.expires_in_ms, body.never_expires) {
        (Some(_), true) => {
            return Err(Fault::usage("`expires_in_ms` and `never_expires` exclude each other"));
        }
        (None, true) => None,
        (ms, false) => Some(ms.map_or(TOKEN_LIFE, Duration::from_millis)),
    };
    confirmed(body.scope, body.sessions.as_ref(), body.yes)?;
    let new = work(move || {
        let wish = TokenWish {
            name: Some(body.name),
            scope: body.scope,
            sessions: meant(&gate, &caller, body.sessions)?,
            life,
        };
        let maker = Maker { place: &caller.place, pass: caller.pass.as_deref() };
        gate.door.passes.tokens.mint(TokenKind::Token, &wish, maker)
    });
    Ok((StatusCode::CREATED, Json(new.await?)))
}

/// What was taken back.
#[derive(Serialize, JsonSchema)]
struct Revoked {
    revoked: Vec<Token>,
}

async fn revoke(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path(handle): Path<String>,
) -> Result<Json<Revoked>, Fault> {
    let revoked = work(move || {
        let tokens = &gate.door.passes.tokens;
        let gone = tokens.revoke(&handle, caller.pass.as_deref())?;
        tokens.note_revoked(&caller.place, &gone);
        Ok(gone)
    });
    let revoked = revoked.await?;
    Ok(Json(Revoked { revoked }))
}

/// A link that is wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewLinkRequest {
    /// The scope of the link; not further than that of the caller. `control` by default.
    #[serde(default)]
    scope: Option<Scope>,
    /// The only sessions it is for, by name or id; all if nothing is said. The list does not confine `control` and
    /// `admin`, which start commands with the owner's account: those need `yes`.
    #[serde(default)]
    sessions: Option<Vec<String>>,
    /// How long it is good for, from now on by the gateway's clock; ten minutes if nothing is said.
    #[serde(default)]
    expires_in_ms: Option<u64>,
    /// Make it although `sessions` does not confine its scope.
    #[serde(default)]
    yes: bool,
}

/// A link that was just made. Only here the secret is told.
#[derive(Serialize, JsonSchema)]
struct NewLink {
    /// Where to point a browser, once.
    url: String,
    /// Rows of the QR code of `url`, without a border, a letter for each module: `#` is dark, `.` is light. Empty if
    /// `url` is too long for one.
    qr: Vec<String>,
    /// What is known about it.
    token: Token,
}

async fn link(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Extension(asked): Extension<Asked>,
    Body(body): Body<NewLinkRequest>,
) -> Result<(StatusCode, Json<NewLink>), Fault> {
    let scope = body.scope.unwrap_or(Scope::Control);
    confirmed(scope, body.sessions.as_ref(), body.yes)?;
    let new = work(move || {
        let wish = TokenWish {
            name: None,
            scope,
            sessions: meant(&gate, &caller, body.sessions)?,
            life: Some(body.expires_in_ms.map_or(LINK_LIFE, Duration::from_millis).min(LONGEST_LINK_LIFE)),
        };
        let maker = Maker { place: &caller.place, pass: caller.pass.as_deref() };
        gate.door.passes.tokens.mint(TokenKind::Link, &wish, maker)
    });
    let new = new.await?;
    let scheme = if asked.secure { "https" } else { "http" };
    let port = asked.host.port.map(|port| format!(":{port}")).unwrap_or_default();
    let url = format!("{scheme}://{}{port}/login?link={}", asked.host.name, new.secret);
    Ok((
        StatusCode::CREATED,
        Json(NewLink { qr: links::qr_code(&url).unwrap_or_default(), url, token: new.token }),
    ))
}

/// Refuses a list of sessions that does not confine the scope, unless the caller says yes to that.
fn confirmed(scope: Scope, sessions: Option<&Vec<String>>, yes: bool) -> Result<(), Problem> {
    match void_sessions(scope, sessions.is_some()) {
        Some(what) if !yes => Err(Problem::new(Code::NeedsYes, what)
            .hint("ask for `read` or `send`, or say `\"yes\": true` in the body")),
        Some(_) | None => Ok(()),
    }
}

/// The sessions that are named, if the caller may know of them.
fn meant(
    gate: &Gate,
    caller: &Caller,
    names: Option<Vec<String>>,
) -> Result<Option<BTreeSet<SessionId>>, Problem> {
    let find = |name: &String| {
        let found = gate.home.find(name).ok().filter(|id| caller.may_see(id));
        found.ok_or_else(|| {
            Problem::new(Code::NotFound, format!("there is no session `{}`", name.escape_debug()))
                .hint("GET /v1/sessions lists them")
        })
    };
    names.map(|names| names.iter().map(find).collect()).transpose()
}
