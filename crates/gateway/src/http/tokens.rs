//! Tokens: creating, listing and revoking them, as `berth token` and `berth link` do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::{Method, StatusCode};
use berth_api::{AccessScope, NewToken, Problem, ProblemCode, Token, TokenKind};
use berth_config::tokens::{
    LINK_LIFE, LONGEST_LINK_LIFE, TOKEN_LIFE, TokenMaker, TokenParams, void_sessions,
};
use berth_core::SessionId;
use berth_verbs::gateway_urls;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app_state::{AppState, run_blocking};
use crate::auth::RequestEndpoint;
use crate::caller::RequestCaller;
use crate::http::extractors::{JsonBody, PathParams};
use crate::http_problem::HttpProblem;
use crate::routes::Route;
use crate::viewer_filter::{JsonAnswer, nothing_hidden};

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    let (list_path, one_path) = ("/v1/tokens", "/v1/tokens/{token}");
    vec![
        Route::get("list_tokens", list_path, AccessScope::Admin, list)
            .about("The tokens, logins and links of this gateway.")
            .filtered()
            .gives::<TokenList>(200, "the list, the oldest first"),
        Route::post("create_token", list_path, AccessScope::Admin, create)
            .about("Makes a token. Its secret is in this answer only.")
            .filtered()
            .takes::<NewTokenRequest>()
            .gives::<NewToken>(201, "the token, and its secret")
            .fails(&[NotFound, Refused, NeedsYes, Full]),
        Route::new(Method::DELETE, "revoke_token", one_path, AccessScope::Admin, revoke)
            .about("Revokes a token, by its name or id, at once.")
            .filtered()
            .gives::<RevokedTokens>(200, "the revoked tokens: the one named, and those made with it")
            .fails(&[NotFound]),
        Route::post("create_link", "/v1/links", AccessScope::Admin, link)
            .about("Makes a link that logs one browser in, once.")
            .filtered()
            .takes::<NewLinkRequest>()
            .gives::<NewLink>(201, "the link")
            .fails(&[NotFound, NeedsYes, Full]),
    ]
}

nothing_hidden!(TokenList, RevokedTokens, NewLink);

/// A list of tokens.
#[derive(Serialize, JsonSchema)]
struct TokenList {
    /// Tokens of the gateway, without their secrets.
    tokens: Vec<Token>,
}

async fn list(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
) -> Result<JsonAnswer<TokenList>, HttpProblem> {
    let tokens = run_blocking(move || state.access.passes.tokens.list(caller.pass.as_deref())).await?;
    Ok(JsonAnswer(TokenList { tokens }))
}

/// The settings of a new token.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewTokenRequest {
    /// Name of the token, which no other token may have.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: String,
    /// Scope of the token; no further than that of the caller.
    scope: AccessScope,
    /// Sessions that the token is limited to, by name or id; all if absent. The list does not confine `control` and
    /// `admin`, which start commands with the owner's account: those need `yes`.
    #[serde(default)]
    sessions: Option<Vec<String>>,
    /// Time until the token expires, in milliseconds; 90 days by default.
    #[serde(default)]
    expires_in_ms: Option<u64>,
    /// Make a token that never expires; not together with `expires_in_ms`.
    #[serde(default)]
    never_expires: bool,
    /// Make the token although `sessions` does not confine its scope.
    #[serde(default)]
    yes: bool,
}

async fn create(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    JsonBody(body): JsonBody<NewTokenRequest>,
) -> Result<(StatusCode, JsonAnswer<NewToken>), HttpProblem> {
    let life = match (body.expires_in_ms, body.never_expires) {
        (Some(_), true) => {
            return Err(HttpProblem::usage("`expires_in_ms` and `never_expires` exclude each other"));
        }
        (None, true) => None,
        (ms, false) => Some(ms.map_or(TOKEN_LIFE, Duration::from_millis)),
    };
    confirmed(body.scope, body.sessions.as_ref(), body.yes)?;
    let new = run_blocking(move || {
        let params = TokenParams {
            name: Some(body.name),
            scope: body.scope,
            sessions: resolve_session_names(&state, &caller, body.sessions)?,
            life,
        };
        let maker = TokenMaker { place: &caller.place, pass: caller.pass.as_deref() };
        state.access.passes.tokens.mint(TokenKind::Token, &params, maker)
    });
    Ok((StatusCode::CREATED, JsonAnswer(new.await?)))
}

/// The tokens that were revoked.
#[derive(Serialize, JsonSchema)]
struct RevokedTokens {
    /// Tokens that the call revoked.
    revoked: Vec<Token>,
}

async fn revoke(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams(handle): PathParams<String>,
) -> Result<JsonAnswer<RevokedTokens>, HttpProblem> {
    let revoked = run_blocking(move || {
        let tokens = &state.access.passes.tokens;
        let gone = tokens.revoke(&handle, caller.pass.as_deref())?;
        tokens.note_revoked(&caller.place, &gone);
        Ok(gone)
    });
    let revoked = revoked.await?;
    Ok(JsonAnswer(RevokedTokens { revoked }))
}

/// The settings of a new link.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewLinkRequest {
    /// The scope of the link; not further than that of the caller. `control` by default.
    #[serde(default)]
    scope: Option<AccessScope>,
    /// Sessions that the link is limited to, by name or id; all if absent. The list does not confine `control` and
    /// `admin`, which start commands with the owner's account: those need `yes`.
    #[serde(default)]
    sessions: Option<Vec<String>>,
    /// Time until the link expires, in milliseconds; ten minutes by default.
    #[serde(default)]
    expires_in_ms: Option<u64>,
    /// Make the link although `sessions` does not confine its scope.
    #[serde(default)]
    yes: bool,
}

/// A new link. Its secret is in this answer only.
#[derive(Serialize, JsonSchema)]
struct NewLink {
    /// Address to open in a browser, once.
    url: String,
    /// Rows of the QR code of `url`, without a border. Each letter is a module: `#` is dark, `.` is light. Empty if
    /// `url` is too long for a QR code.
    qr: Vec<String>,
    /// The link, as the list of tokens has it.
    token: Token,
}

async fn link(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    Extension(asked): Extension<RequestEndpoint>,
    JsonBody(body): JsonBody<NewLinkRequest>,
) -> Result<(StatusCode, JsonAnswer<NewLink>), HttpProblem> {
    let scope = body.scope.unwrap_or(AccessScope::Control);
    confirmed(scope, body.sessions.as_ref(), body.yes)?;
    let new = run_blocking(move || {
        let params = TokenParams {
            name: None,
            scope,
            sessions: resolve_session_names(&state, &caller, body.sessions)?,
            life: Some(body.expires_in_ms.map_or(LINK_LIFE, Duration::from_millis).min(LONGEST_LINK_LIFE)),
        };
        let maker = TokenMaker { place: &caller.place, pass: caller.pass.as_deref() };
        state.access.passes.tokens.mint(TokenKind::Link, &params, maker)
    });
    let new = new.await?;
    let scheme = if asked.secure { "https" } else { "http" };
    let port = asked.host.port.map(|port| format!(":{port}")).unwrap_or_default();
    let url = format!("{scheme}://{}{port}/login?link={}", asked.host.name, new.secret);
    Ok((
        StatusCode::CREATED,
        JsonAnswer(NewLink { qr: gateway_urls::qr_code(&url).unwrap_or_default(), url, token: new.token }),
    ))
}

/// Refuses a list of sessions that does not confine the scope, unless the caller confirms that.
fn confirmed(scope: AccessScope, sessions: Option<&Vec<String>>, yes: bool) -> Result<(), Problem> {
    match void_sessions(scope, sessions.is_some()) {
        Some(what) if !yes => {
            Err(Problem::needs_yes(what).hint("ask for `read` or `send`, or say `\"yes\": true` in the body"))
        }
        Some(_) | None => Ok(()),
    }
}

/// The ids of the named sessions, if the caller may see them.
fn resolve_session_names(
    state: &AppState,
    caller: &RequestCaller,
    names: Option<Vec<String>>,
) -> Result<Option<BTreeSet<SessionId>>, Problem> {
    let find = |name: &String| {
        let found = state.home.find(name).ok().filter(|id| caller.may_see(id));
        found.ok_or_else(|| {
            Problem::not_found(format!("there is no session `{}`", name.escape_debug()))
                .hint("GET /v1/sessions lists them")
        })
    };
    names.map(|names| names.iter().map(find).collect()).transpose()
}
