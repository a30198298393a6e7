//! Logging in and out, for browsers.
//!
//! Promise: a link lets one browser in, once; looking at it uses nothing up, since mail programs and chats look at
//! every link they are given. The secret of a login is told once, to a script of this origin, which keeps it where no
//! other origin reads it; it is never put into an address or a cookie, and never logged.
//! Not here: what a login allows (see `auth`). Why it is so: docs/design/auth.md.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::{Extension, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use berth_api::{Code, NewToken, Scope, TokenKind};
use berth_verbs::tokens::{LOGIN_LIFE, Maker, Secret, TokenWish};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::auth::{self, Asked, Peer, browser};
use crate::caller::Caller;
use crate::fault::Fault;
use crate::gate::{Gate, work};
use crate::http::body;
use crate::page::address as file;
use crate::routes::Route;
use crate::visible::Json;

/// The largest form: a secret, and the names around it.
const MAX_FORM_BYTES: usize = 4096;
/// How long it may take to come. It fits one packet, and whoever sends it is a stranger who is being served.
const FORM_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("login_page", "/login", Scope::Read, show)
            .about("The page to log in with.")
            .open()
            .query::<Form>()
            .gives_as(200, "the page; a link in it is not used up by looking", "text/html", None)
            .gives_as(303, "you are logged in already: to the page", "text/html", None),
        Route::post("login", "/login", Scope::Read, login)
            .about("Log a browser in: by a link, or by a token.")
            .open()
            .takes_form::<Form>()
            .gives::<NewToken>(200, "logged in: `secret` goes into `Authorization: Bearer SECRET`")
            .fails(&[Code::Full])
            .fails_with(401, Code::NotAllowed, "the link or token is not a good one")
            .fails_with(410, Code::Refused, "the link was used, or is too old"),
        Route::post("logout", "/logout", Scope::Read, logout).about("Log this browser out.").open().gives_as(
            204,
            "logged out",
            "text/html",
            None,
        ),
    ]
}

/// What a form sends, or stands behind `?`.
#[derive(Deserialize, JsonSchema, Default)]
#[schemars(rename = "Login")]
struct Form {
    /// A link that logs in once: its secret.
    #[serde(default)]
    link: Option<String>,
    /// A token.
    #[serde(default)]
    token: Option<String>,
}

/// Sends the forms, and keeps the key that comes back.
const SCRIPT: &str = include_str!("login.js");
/// The files of the page that it looks like.
const STYLES: [&str; 3] = ["css/base.css", "css/list.css", "css/parts.css"];
const THEME: &str = "js/theme.js";
const ICON: &str = "icon.svg";
const TOUCH_ICON: &str = "apple-touch-icon.png";

/// The policy of this page: files and requests of this origin, its one script, no markup made by scripts.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    format!(
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self' 'sha256-{hash}'; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    )
});

async fn show(
    State(gate): State<Arc<Gate>>,
    Extension(asked): Extension<Asked>,
    headers: HeaderMap,
    caller: Option<Extension<Caller>>,
    Query(form): Query<Form>,
) -> Response {
    let said = |name: &str| headers.get(name).map(|value| value.as_bytes());
    // Only who typed the address, or opened it from another program, meant to log in by that alone. One who followed
    // a link on some page may have been sent here, and a program that looks ahead is nobody.
    let by_themselves = said("sec-fetch-site") == Some(b"none") && said("sec-purpose").is_none();
    let link = form.link.and_then(|text| Secret::parse(TokenKind::Link, text.trim()));
    let is_good = |link: &Secret| gate.door.passes.tokens.check(link, TokenKind::Link).is_some();
    if caller.is_some() && !link.as_ref().is_some_and(is_good) {
        return to_the_page();
    }
    page(&asked, link.as_ref(), by_themselves)
}

fn to_the_page() -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response()
}

/// The page, as `SignIn` in the page's own `dialogs.js` looks, for a browser that comes by a link. It contains nothing that
/// a client sent, except for the name that we answer to and a secret of the right form: letters and digits.
fn page(asked: &Asked, link: Option<&Secret>, presses_itself: bool) -> Response {
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
    // Other origins hear nothing either way. With `no-referrer` the form would say `Origin: null`, and on an address
    // without TLS nothing else would tell that it is ours.
    headers.insert(header::REFERRER_POLICY, header::HeaderValue::from_static("same-origin"));
    response
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

async fn login(
    State(gate): State<Arc<Gate>>,
    Extension(asked): Extension<Asked>,
    headers: HeaderMap,
    request: Request,
) -> Result<Json<NewToken>, Fault> {
    // Callers of this route may be unknown, and there may be many of them.
    let stay = gate.quotas.form();
    let form = stay.or_closed(read(&headers, request)).await?;
    drop(stay);
    // A form that no script sent: the browser would show the answer and store nothing. The link is not used up.
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    if accepts.is_some_and(|accept| accept.contains("text/html")) {
        return Err(Fault::usage("signing in needs JavaScript"));
    }
    enter(&gate, &asked, form, &browser::called(&headers)).await.map(Json)
}

async fn read(headers: &HeaderMap, request: Request) -> Result<Form, Fault> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Fault::usage(
            "a login is a form: application/x-www-form-urlencoded, with `link` or `token`",
        )
        .status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let body = body::read(request.into_body(), MAX_FORM_BYTES, FORM_PATIENCE).await?;
    let text = std::str::from_utf8(&body).ok().and_then(|text| format!("/?{text}").parse::<Uri>().ok());
    let form = text.and_then(|uri| Query::<Form>::try_from_uri(&uri).ok());
    form.map(|Query(form)| form).ok_or_else(|| Fault::usage("the form cannot be read"))
}

async fn enter(gate: &Arc<Gate>, asked: &Asked, form: Form, browser: &str) -> Result<NewToken, Fault> {
    let from = match &asked.peer {
        Peer::Local { .. } => "the local socket".to_owned(),
        Peer::Network(address) => address.ip().to_canonical().to_string(),
    };
    let place = format!("a browser at {from}");
    match (form.link, form.token) {
        (Some(link), None) => {
            let link = Secret::parse(TokenKind::Link, link.trim());
            let link = link.ok_or_else(|| auth::failed(gate, &asked.peer))?;
            let tokens = gate.door.passes.tokens.clone();
            let browser = browser.to_owned();
            work(move || tokens.claim(&link, &place, &browser)).await.map_err(|fault| {
                match fault.problem.code {
                    Code::Refused => fault.status(StatusCode::GONE),
                    Code::NotFound => auth::failed(gate, &asked.peer),
                    _ => fault,
                }
            })
        }
        (None, Some(token)) => {
            let token = Secret::parse(TokenKind::Token, token.trim());
            let pass = token.and_then(|token| gate.door.passes.check(&token, TokenKind::Token));
            let pass = pass.ok_or_else(|| auth::failed(gate, &asked.peer))?;
            let tokens = gate.door.passes.tokens.clone();
            // The token's own name says most: its person gave it.
            let called = format!("{}.{browser}", pass.name);
            work(move || {
                let (scope, sessions) = (pass.scope, pass.sessions.clone());
                let wish = TokenWish { name: None, scope, sessions, life: Some(LOGIN_LIFE) };
                tokens.log_in(wish, Maker { place: &place, pass: Some(&pass) }, &called)
            })
            .await
        }
        _ => Err(Fault::usage("a login takes a `link` or a `token`")),
    }
}

async fn logout(
    State(gate): State<Arc<Gate>>,
    caller: Option<Extension<Caller>>,
) -> Result<StatusCode, Fault> {
    let pass = caller.and_then(|Extension(caller)| caller.pass).filter(|pass| pass.kind == TokenKind::Login);
    if let Some(pass) = pass {
        let tokens = gate.door.passes.tokens.clone();
        let gone = work(move || {
            let gone = tokens.revoke(&pass.id, None)?;
            tokens.note_revoked(&pass.name, &gone);
            Ok(())
        });
        let gone = gone.await;
        if let Err(fault) = gone
            && fault.problem.code != Code::NotFound
        {
            return Err(fault);
        }
    }
    Ok(StatusCode::NO_CONTENT)
}
