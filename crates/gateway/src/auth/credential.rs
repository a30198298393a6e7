//! The secret in a request: a token or a login in `Authorization`, or a login in a WebSocket's sub-protocol.
//!
//! There are no cookies: a browser sends the cookies of one port to every port of the host, and so to any server that
//! an agent starts there. The storage of a page belongs to its origin, port included, and so does the secret in it.
//! Start with [`RequestCredential::read`].

use axum::http::{HeaderMap, HeaderValue, header};
use berth_api::TokenKind;
use berth_config::tokens::TokenSecret;

use crate::http_problem::HttpProblem;

/// Prefix of a login's sub-protocol: browsers let a page set no other header of a WebSocket.
const LOGIN_PROTOCOL: &str = "berth.login.";

/// The secret in a request.
#[derive(Debug)]
pub(crate) enum RequestCredential {
    Nothing,
    /// A text that is not a secret of this program.
    Nonsense,
    Token(TokenSecret),
    Login(TokenSecret),
}

impl RequestCredential {
    /// Reads the secret. A request with two secrets is refused: proxies on the way may differ in which of them counts.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, HttpProblem> {
        let mut tokens = headers.get_all(header::AUTHORIZATION).iter();
        let (first, second) = (tokens.next(), tokens.next());
        if second.is_some() {
            return Err(HttpProblem::usage("the request has more than one `Authorization` header"));
        }
        let protocols = protocols(headers);
        let mut logins = protocols.iter().filter_map(|protocol| protocol.strip_prefix(LOGIN_PROTOCOL));
        match (first, logins.next(), logins.next()) {
            (None, None, _) => Ok(Self::Nothing),
            (Some(value), None, _) => {
                let token = value.to_str().ok().and_then(|text| text.split_once(' '));
                let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
                Ok(token.map_or(Self::Nonsense, |(_, text)| Self::parse(text.trim())))
            }
            (None, Some(login), None) => {
                Ok(TokenSecret::parse(TokenKind::Login, login).map_or(Self::Nonsense, Self::Login))
            }
            (..) => Err(HttpProblem::usage("the request has more than one token")),
        }
    }

    fn parse(text: &str) -> Self {
        let token = || TokenSecret::parse(TokenKind::Token, text).map(Self::Token);
        let login = || TokenSecret::parse(TokenKind::Login, text).map(Self::Login);
        token().or_else(login).unwrap_or(Self::Nonsense)
    }
}

/// Removes the login from the sub-protocols, so that no handler and no other host sees it.
pub(crate) fn hide_login(headers: &mut HeaderMap) {
    if !headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL) {
        return;
    }
    let all = protocols(headers);
    let rest: Vec<&str> = all.iter().copied().filter(|it| !it.starts_with(LOGIN_PROTOCOL)).collect();
    if rest.len() < all.len() {
        let rest = HeaderValue::from_str(&rest.join(", ")).ok();
        headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
        headers.extend(rest.map(|rest| (header::SEC_WEBSOCKET_PROTOCOL, rest)));
    }
}

fn protocols(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        let pairs = pairs.iter().cloned();
        pairs.map(|(name, value)| (name, HeaderValue::from_str(value).expect("a header"))).collect()
    }

    fn shown(pairs: &[(header::HeaderName, &str)]) -> Result<RequestCredential, HttpProblem> {
        RequestCredential::read(&headers(pairs))
    }

    #[test]
    fn a_token_and_a_login_are_read_from_one_header_of_the_right_form_only() {
        let token = TokenSecret::mint(TokenKind::Token).expect("random bytes");
        let login = TokenSecret::mint(TokenKind::Login).expect("random bytes");
        let link = TokenSecret::mint(TokenKind::Link).expect("random bytes");
        let one = |text: String| shown(&[(header::AUTHORIZATION, &text)]).expect("one header");
        assert!(matches!(one(format!("Bearer {}", token.text())), RequestCredential::Token(_)));
        assert!(matches!(one(format!("bearer  {}", token.text())), RequestCredential::Token(_)));
        assert!(matches!(one(format!("Bearer {}", login.text())), RequestCredential::Login(_)));
        for odd in [
            token.text().to_owned(),
            format!("Basic {}", token.text()),
            format!("Bearer {0}, Bearer {0}", token.text()),
            format!("Bearer {}", link.text()),
            "Bearer".to_owned(),
            format!("Bearer {}", "x".repeat(10_000)),
        ] {
            assert!(matches!(one(odd), RequestCredential::Nonsense));
        }
        let text = format!("Bearer {}", token.text());
        assert!(shown(&[(header::AUTHORIZATION, &text), (header::AUTHORIZATION, &text)]).is_err());
    }

    #[test]
    fn a_cookie_shows_nothing() {
        let login = TokenSecret::mint(TokenKind::Login).expect("random bytes");
        let cookie = format!("berth-7070={0}; __Host-berth-443={0}", login.text());
        assert!(matches!(shown(&[(header::COOKIE, &cookie)]), Ok(RequestCredential::Nothing)));
    }

    #[test]
    fn a_login_among_the_sub_protocols_is_read_and_not_passed_on() {
        const PROTOCOLS: header::HeaderName = header::SEC_WEBSOCKET_PROTOCOL;
        let login = TokenSecret::mint(TokenKind::Login).expect("random bytes");
        let token = TokenSecret::mint(TokenKind::Token).expect("random bytes");
        let both = format!("berth.terminal.v1, berth.login.{}", login.text());
        assert!(matches!(shown(&[(PROTOCOLS, &both)]), Ok(RequestCredential::Login(_))));
        assert!(matches!(shown(&[(PROTOCOLS, "berth.terminal.v1")]), Ok(RequestCredential::Nothing)));
        let wrong = format!("berth.login.{}", token.text());
        assert!(matches!(shown(&[(PROTOCOLS, &wrong)]), Ok(RequestCredential::Nonsense)));
        assert!(shown(&[(PROTOCOLS, &format!("{both}, {wrong}"))]).is_err());
        let bearer = format!("Bearer {}", token.text());
        assert!(shown(&[(header::AUTHORIZATION, &bearer), (PROTOCOLS, &both)]).is_err());
        for (given, left) in
            [(both.as_str(), Some("berth.terminal.v1")), (&wrong, Some("")), ("a, b", Some("a, b"))]
        {
            let mut headers = headers(&[(PROTOCOLS, given)]);
            hide_login(&mut headers);
            assert_eq!(headers.get(PROTOCOLS).and_then(|it| it.to_str().ok()), left);
        }
    }
}
