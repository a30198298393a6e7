//! Logging in and out, for browsers.
//!
//! Promise: a link lets one browser in, once. Looking at a link does not use it up, because mail programs and chats
//! look at every link they are given. The secret of a login is sent once, to a script of this origin, which stores it
//! where no other origin can read it; the secret is never in an address or a cookie, and never logged.
//! Not here: the rights of a login (see `auth`). Reasons: docs/design/auth.md.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::{Extension, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use berth_api::{AccessScope, NewToken, ProblemCode, TokenKind};
use berth_config::tokens::{LOGIN_LIFE, TokenMaker, TokenParams, TokenSecret};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::app_state::{AppState, run_blocking};
use crate::auth::{self, ConnectionPeer, RequestEndpoint, browser};
use crate::caller::RequestCaller;
use crate::http::extractors;
use crate::http_problem::HttpProblem;
use crate::page::address as file;
use crate::routes::Route;
use crate::viewer_filter::JsonAnswer;

/// Size limit of a form: a secret, and the names around it.
const MAX_FORM_BYTES: usize = 4096;
/// Timeout for the form. The form fits one packet, and its sender is not authenticated yet.
const FORM_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("login_page", "/login", AccessScope::Read, show)
            .about("The page for signing in.")
            .open()
            .query::<LoginForm>()
            .gives_as(200, "the page; looking at it does not use up a link", "text/html", None)
            .gives_as(303, "the caller is logged in already: redirects to the page", "text/html", None),
        Route::post("login", "/login", AccessScope::Read, login)
            .about("Logs a browser in with a link or a token.")
            .open()
            .takes_form::<LoginForm>()
            .gives::<NewToken>(
                200,
                "the browser is logged in: `secret` goes into `Authorization: Bearer SECRET`",
            )
            .fails(&[Full])
            .fails_with(401, ProblemCode::NotAllowed, "the link or token is not valid")
            .fails_with(410, ProblemCode::Refused, "the link was used already, or has expired"),
        Route::post("logout", "/logout", AccessScope::Read, logout)
            .about("Logs this browser out.")
            .open()
            .gives_as(204, "the browser is logged out", "text/html", None),
    ]
}

/// The fields of a login form, or of the query.
#[derive(Deserialize, JsonSchema, Default)]
#[schemars(rename = "Login")]
struct LoginForm {
    /// Secret of a link, which logs in once.
    #[serde(default)]
    link: Option<String>,
    /// Secret of a token.
    #[serde(default)]
    token: Option<String>,
}

/// Script of the page: sends the forms, and stores the secret of the login.
const SCRIPT: &str = include_str!("login.js");
/// Files of the page that give this one the same look.
const STYLES: [&str; 3] = ["css/base.css", "css/list.css", "css/parts.css"];
const THEME: &str = "js/theme.js";
const ICON: &str = "icon.svg";
const TOUCH_ICON: &str = "apple-touch-icon.png";

/// Content security policy of this page: files and requests of this origin, its one script, no markup made by scripts.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    format!(
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self' 'sha256-{hash}'; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    )
});

async fn show(
    State(state): State<Arc<AppState>>,
    Extension(asked): Extension<RequestEndpoint>,
    headers: HeaderMap,
    caller: Option<Extension<RequestCaller>>,
    Query(form): Query<LoginForm>,
) -> Response {
    let said = |name: &str| headers.get(name).map(|value| value.as_bytes());
    // A link logs in without a further click only if the user typed the address or opened it from another program. A
    // link on some other page may have been followed by mistake, and a prefetch is not a user's decision.
    let by_themselves = said("sec-fetch-site") == Some(b"none") && said("sec-purpose").is_none();
    let link = form.link.and_then(|text| TokenSecret::parse(TokenKind::Link, text.trim()));
    let is_good = |link: &TokenSecret| state.access.passes.tokens.check(link, TokenKind::Link).is_some();
    if caller.is_some() && !link.as_ref().is_some_and(is_good) {
        return to_the_page();
    }
    page(&asked, link.as_ref(), by_themselves)
}

fn to_the_page() -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response()
}

/// The login page, which looks like `SignIn` in the page's own `dialogs.js`. The only parts of it that a client sent
/// are the host name that this gateway answers to and a secret of the right form: letters and digits.
fn page(asked: &RequestEndpoint, link: Option<&TokenSecret>, presses_itself: bool) -> Response {
    let by_link = link.map(|link| {
        format!(
            "<form id=\"by-link\" method=\"post\" action=\"/login\"{}><p>This link signs this browser in, once.</p>\
             <input type=\"hidden\" name=\"link\" value=\"{}\"><button class=\"b main\" autofocus>Sign in</button></form>",
            if presses_itself { " data-opened" } else { "" },
            link.text()
        )
    });
    let by_token = format!(
        "<form id=\"by-token\" method=\"post\" action=\"/login\"{}>\
         <p>This gateway on <b>{}</b> needs a token. Its owner makes one, or a link that signs you in:</p>\
         <div class=\"field cmds\"><div class=\"cmd\"><code tabindex=\"0\">berth token new --scope control --name phone</code></div>\
         <div class=\"cmd\"><code tabindex=\"0\">berth link</code></div></div>\
         <div class=\"field\"><label class=\"lab\" for=\"token\">Token</label><input class=\"f mono\" id=\"token\" name=\"token\" \
         type=\"password\" autocomplete=\"current-password\" spellcheck=\"false\" required{}></div>\
         <button class=\"b main\">Sign in</button></form>",
        if link.is_some() { " hidden" } else { "" },
        escaped(&asked.host.to_string()),
        if link.is_some() { "" } else { " autofocus" },
    );
    let styles: String =
        STYLES.iter().map(|path| format!("<link rel=\"stylesheet\" href=\"{}\">", file(path))).collect();
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"robots\" content=\"noindex\">\
         <title>Sign in · berth</title><link rel=\"icon\" href=\"{icon}\" type=\"image/svg+xml\"><link rel=\"apple-touch-icon\" href=\"{touch_icon}\">{styles}<script src=\"{theme}\"></script></head>\
         <body><main class=\"gate\"><div class=\"card\"><div class=\"brand\"><img src=\"{icon}\" alt=\"\">berth</div><h1>Sign in</h1>\
         <noscript><p class=\"problem\">Signing in needs JavaScript.</p></noscript>\
         <div class=\"problem\" id=\"problem\" role=\"alert\" hidden></div>{by_link}{by_token}</div></main><script>{SCRIPT}</script></body></html>",
        by_link = by_link.unwrap_or_default(),
        icon = file(ICON),
        touch_icon = file(TOUCH_ICON),
        theme = file(THEME),
    );
    let mut response = Html(html).into_response();
    let headers = response.headers_mut();
    if let Ok(policy) = POLICY.parse() {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    // Pages of other origins can read none of this. With `no-referrer` the form would send `Origin: null`, and on an
    // address without TLS nothing else shows that the form is from this origin.
    headers.insert(header::REFERRER_POLICY, header::HeaderValue::from_static("same-origin"));
    response
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

async fn login(
    State(state): State<Arc<AppState>>,
    Extension(asked): Extension<RequestEndpoint>,
    headers: HeaderMap,
    request: Request,
) -> Result<JsonAnswer<NewToken>, HttpProblem> {
    // This route needs no token, so the number of callers is limited.
    let stay = state.quotas.form();
    let form = stay.or_closed(read(&headers, request)).await?;
    drop(stay);
    // The form was sent without the script, so the browser would show the answer and store nothing. The link is not
    // used up.
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    if accepts.is_some_and(|accept| accept.contains("text/html")) {
        return Err(HttpProblem::usage("signing in needs JavaScript"));
    }
    enter(&state, &asked, form, &browser::called(&headers)).await.map(JsonAnswer)
}

async fn read(headers: &HeaderMap, request: Request) -> Result<LoginForm, HttpProblem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(HttpProblem::usage(
            "a login is sent as a form: application/x-www-form-urlencoded, with `link` or `token`",
        )
        .status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let body = extractors::read(request.into_body(), MAX_FORM_BYTES, FORM_PATIENCE).await?;
    let text = std::str::from_utf8(&body).ok().and_then(|text| format!("/?{text}").parse::<Uri>().ok());
    let form = text.and_then(|uri| Query::<LoginForm>::try_from_uri(&uri).ok());
    form.map(|Query(form)| form).ok_or_else(|| HttpProblem::usage("the form cannot be read"))
}

async fn enter(
    state: &Arc<AppState>,
    asked: &RequestEndpoint,
    form: LoginForm,
    browser: &str,
) -> Result<NewToken, HttpProblem> {
    let from = match &asked.peer {
        ConnectionPeer::Local { .. } => "the local socket".to_owned(),
        ConnectionPeer::Network(address) => address.ip().to_canonical().to_string(),
    };
    let place = format!("a browser at {from}");
    match (form.link, form.token) {
        (Some(link), None) => {
            let link = TokenSecret::parse(TokenKind::Link, link.trim());
            let link = link.ok_or_else(|| auth::failed(state, &asked.peer))?;
            let tokens = state.access.passes.tokens.clone();
            let browser = browser.to_owned();
            run_blocking(move || tokens.claim(&link, &place, &browser)).await.map_err(|fault| {
                match fault.problem.code {
                    ProblemCode::Refused => fault.status(StatusCode::GONE),
                    ProblemCode::NotFound => auth::failed(state, &asked.peer),
                    _ => fault,
                }
            })
        }
        (None, Some(token)) => {
            let token = TokenSecret::parse(TokenKind::Token, token.trim());
            let pass = token.and_then(|token| state.access.passes.check(&token, TokenKind::Token));
            let pass = pass.ok_or_else(|| auth::failed(state, &asked.peer))?;
            let tokens = state.access.passes.tokens.clone();
            // The token's own name says most, because the user chose it.
            let called = format!("{}.{browser}", pass.name);
            run_blocking(move || {
                let (scope, sessions) = (pass.scope, pass.sessions.clone());
                let params = TokenParams { name: None, scope, sessions, life: Some(LOGIN_LIFE) };
                tokens.log_in(params, TokenMaker { place: &place, pass: Some(&pass) }, &called)
            })
            .await
        }
        _ => Err(HttpProblem::usage("a login needs either `link` or `token`")),
    }
}

async fn logout(
    State(state): State<Arc<AppState>>,
    caller: Option<Extension<RequestCaller>>,
) -> Result<StatusCode, HttpProblem> {
    let pass = caller.and_then(|Extension(caller)| caller.pass).filter(|pass| pass.kind == TokenKind::Login);
    if let Some(pass) = pass {
        let tokens = state.access.passes.tokens.clone();
        let gone = run_blocking(move || {
            let gone = tokens.revoke(&pass.id, None)?;
            tokens.note_revoked(&pass.name, &gone);
            Ok(())
        });
        let gone = gone.await;
        if let Err(fault) = gone
            && fault.problem.code != ProblemCode::NotFound
        {
            return Err(fault);
        }
    }
    Ok(StatusCode::NO_CONTENT)
}
