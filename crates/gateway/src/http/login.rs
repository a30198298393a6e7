//! Logging in and out, for browsers.
//!
//! Promise: a link lets one browser in, once; looking at it uses nothing up, since mail programs and chats look at
//! every link they are given. A browser that is logged in already is sent to the page by a link that lets nobody in any
//! more. What is shown here is never put into an address, and never logged.
//! Not here: what a cookie allows (see `auth`). Why it is so: docs/design/auth.md.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::{Extension, Query, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use berth_api::{Code, Problem, Scope, TokenKind};
use berth_verbs::tokens::{COOKIE_LIFE, Maker, Secret, TokenWish};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::auth::{self, Asked, Peer, browser, shown};
use crate::caller::Caller;
use crate::fault::Fault;
use crate::gate::{Gate, work};
use crate::http::body;
use crate::page::address as file;
use crate::routes::Route;

/// The largest form: a secret, and the names around it.
const MAX_FORM_BYTES: usize = 4096;
/// How long it may take to come. It fits one packet, and whoever sends it is a stranger who is being served.
const FORM_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/login", Scope::Read, "login_page", "The page to log in with.", show)
            .open()
            .query::<Form>()
            .gives_as(200, "the page; a link in it is not used up by looking", "text/html", None)
            .gives_as(303, "you are logged in already: to the page", "text/html", None),
        Route::new(
            Method::POST,
            "/login",
            Scope::Read,
            "login",
            "Log a browser in: by a link, or by a token.",
            login,
        )
        .open()
        .takes_form::<Form>()
        .gives_as(303, "logged in, now or before: to the page", "text/html", None)
        .fails(&[Code::Full])
        .fails_with(401, Code::NotAllowed, "the link or token is not a good one")
        .fails_with(410, Code::Refused, "the link was used, or is too old"),
        Route::new(Method::POST, "/logout", Scope::Read, "logout", "Log this browser out.", logout)
            .open()
            .gives_as(204, "logged out", "text/html", None)
            .gives_as(303, "logged out, for who wants a page (`Accept: text/html`)", "text/html", None),
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

/// Presses the button for somebody who opened the link themselves.
const SCRIPT: &str = include_str!("login.js");
/// The files of the page that it looks like.
const STYLES: [&str; 3] = ["css/base.css", "css/list.css", "css/parts.css"];
const THEME: &str = "js/theme.js";
const ICON: &str = "icon.svg";

/// The policy of this page: files of ours, its one script, and a form that goes nowhere else.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    format!(
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self' 'sha256-{hash}'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'"
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
    let presses_itself = link.is_some() && by_themselves;
    page(StatusCode::OK, &asked, link.as_ref(), presses_itself, None)
}

fn to_the_page() -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response()
}

/// The page, as `SignIn` in the page's own `dialogs.js` looks, for who comes by a link or has no JavaScript. Nothing of
/// what a client sent is in it, but the name we answer to, and a secret that has the right form: letters and digits.
fn page(
    status: StatusCode,
    asked: &Asked,
    link: Option<&Secret>,
    presses_itself: bool,
    problem: Option<&Problem>,
) -> Response {
    let told = problem.map(|problem| {
        let hint = problem.hint.as_ref().map(|hint| format!("<span>{}</span>", worded(hint)));
        format!(
            "<div class=\"problem\" role=\"alert\">{}{}</div>",
            worded(&problem.what),
            hint.unwrap_or_default()
        )
    });
    let told = told.unwrap_or_default();
    let fields = match link {
        Some(link) => format!(
            "<p>This link signs this browser in, once.</p>{told}\
             <input type=\"hidden\" name=\"link\" value=\"{}\"><button class=\"b main\" autofocus>Sign in</button>",
            link.text()
        ),
        None => format!(
            "<p>This gateway on <b>{}</b> wants a token. Whoever runs it makes one, or a link that signs you in:</p>\
             <div class=\"field cmds\"><div class=\"cmd\"><code>berth token new --scope control --name phone</code></div>\
             <div class=\"cmd\"><code>berth link</code></div></div>{told}\
             <div class=\"field\"><label class=\"lab\" for=\"token\">Token</label><input class=\"f mono\" id=\"token\" name=\"token\" \
             type=\"password\" autocomplete=\"current-password\" spellcheck=\"false\" required autofocus></div>\
             <button class=\"b main\">Sign in</button>",
            escaped(&asked.host.to_string())
        ),
    };
    let styles: String =
        STYLES.iter().map(|path| format!("<link rel=\"stylesheet\" href=\"{}\">", file(path))).collect();
    let script = if presses_itself { format!("<script>{SCRIPT}</script>") } else { String::new() };
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"robots\" content=\"noindex\">\
         <title>Sign in · berth</title><link rel=\"icon\" href=\"{icon}\" type=\"image/svg+xml\">{styles}<script src=\"{theme}\"></script></head>\
         <body><main class=\"gate\"><form method=\"post\" action=\"/login\"><div class=\"brand\"><img src=\"{icon}\" alt=\"\">berth</div>\
         <h1>Sign in</h1>{fields}</form></main>{script}</body></html>",
        icon = file(ICON),
        theme = file(THEME),
    );
    let mut response = (status, Html(html)).into_response();
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

/// Words, with what stands between backticks as code.
fn worded(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 1 { format!("<code>{}</code>", escaped(part)) } else { escaped(part) })
        .collect()
}

async fn login(
    State(gate): State<Arc<Gate>>,
    Extension(asked): Extension<Asked>,
    headers: HeaderMap,
    caller: Option<Extension<Caller>>,
    request: Request,
) -> Response {
    let wants_page = wants_page(&headers);
    // A caller that is not known yet may be anybody, in any number.
    let stay = caller.is_none().then(|| gate.quotas.form());
    let reading = read(&headers, request);
    let form = match &stay {
        Some(stay) => stay.or_closed(reading).await,
        None => reading.await,
    };
    drop(stay);
    let form = match form {
        Ok(form) => form,
        Err(fault) => return fault.into_response(),
    };
    match enter(&gate, &asked, form, &browser::called(&headers)).await {
        Ok(response) => response,
        // Whoever is in needs no link, and it does not matter who used this one.
        Err(fault) if fault.status == Some(StatusCode::GONE) && caller.is_some() => to_the_page(),
        Err(fault) if wants_page => {
            let status = fault.status.or(StatusCode::from_u16(fault.problem.code.http_status()).ok());
            let mut response =
                page(status.unwrap_or(StatusCode::FORBIDDEN), &asked, None, false, Some(&fault.problem));
            if let Some(seconds) = fault.retry_after {
                response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            }
            auth::how_to_ask(&mut response);
            response
        }
        Err(fault) => fault.into_response(),
    }
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

async fn enter(gate: &Arc<Gate>, asked: &Asked, form: Form, browser: &str) -> Result<Response, Fault> {
    let from = match &asked.peer {
        Peer::Local { .. } => "the local socket".to_owned(),
        Peer::Network(address) => address.ip().to_canonical().to_string(),
    };
    let place = format!("a browser at {from}");
    let cookie = match (form.link, form.token) {
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
            })?
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
                let wish = TokenWish { name: None, scope, sessions, life: Some(COOKIE_LIFE) };
                tokens.log_in(wish, Maker { place: &place, pass: Some(&pass) }, &called)
            })
            .await?
        }
        _ => return Err(Fault::usage("a login takes a `link` or a `token`")),
    };
    let now = berth_host::clock::wall_ms();
    // A length and no date: the browser's clock may be another (H3).
    let life = cookie.token.expires_at.map_or(COOKIE_LIFE.as_secs(), |end| end.0.saturating_sub(now) / 1000);
    let cookie = shown::set_cookie(&asked.host, asked.secure, Some((&cookie.secret, life)));
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, "/".to_owned()), (header::SET_COOKIE, cookie)])
        .into_response())
}

async fn logout(
    State(gate): State<Arc<Gate>>,
    Extension(asked): Extension<Asked>,
    headers: HeaderMap,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Fault> {
    let pass = caller.and_then(|Extension(caller)| caller.pass).filter(|pass| pass.kind == TokenKind::Cookie);
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
    let cookie = shown::set_cookie(&asked.host, asked.secure, None);
    let forget = [(header::SET_COOKIE, cookie)];
    if wants_page(&headers) {
        return Ok((StatusCode::SEE_OTHER, forget, [(header::LOCATION, "/login")]).into_response());
    }
    Ok((StatusCode::NO_CONTENT, forget).into_response())
}

/// Whether a person looks at the answer.
fn wants_page(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).is_some_and(|accept| accept.to_str().is_ok_and(|it| it.contains("text/html")))
}
