//! What a client shows: a token in `Authorization`, or a cookie.

use axum::http::{HeaderMap, header};
use berth_api::TokenKind;
use berth_verbs::tokens::Secret;

use super::hosts::Host;
use crate::fault::Fault;

/// How many cookies of our name are looked at. Pages on other ports of the same machine can add theirs.
const MOST_COOKIES: usize = 4;

/// What somebody shows.
#[derive(Debug)]
pub(crate) enum Shown {
    /// Nothing.
    Nothing,
    /// Something that was never one of ours.
    Nonsense,
    /// A token.
    Token(Secret),
    /// Cookies of our name; more than one if somebody else added theirs.
    Cookies(Vec<Secret>),
}

impl Shown {
    /// Reads it. Two tokens are none: those in between us and the client may differ in which of them counts.
    pub(crate) fn read(headers: &HeaderMap, host: &Host) -> Result<Self, Fault> {
        let mut tokens = headers.get_all(header::AUTHORIZATION).iter();
        match (tokens.next(), tokens.next()) {
            (Some(_), Some(_)) => {
                return Err(Fault::usage("there is more than one `Authorization` in the request"));
            }
            (Some(value), None) => {
                let token = value.to_str().ok().and_then(|text| text.split_once(' '));
                let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
                let secret = token.and_then(|(_, text)| Secret::parse(TokenKind::Token, text.trim()));
                return Ok(secret.map_or(Self::Nonsense, Self::Token));
            }
            (None, _) => {}
        }
        let names = [cookie_name(host, true), cookie_name(host, false)];
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let ours = pairs.filter(|(name, _)| names.iter().any(|ours| ours == name));
        let secrets: Vec<Option<Secret>> =
            ours.take(MOST_COOKIES).map(|(_, value)| Secret::parse(TokenKind::Cookie, value)).collect();
        if secrets.is_empty() {
            return Ok(Self::Nothing);
        }
        let secrets: Vec<Secret> = secrets.into_iter().flatten().collect();
        Ok(if secrets.is_empty() { Self::Nonsense } else { Self::Cookies(secrets) })
    }
}

/// What our cookie is called. Browsers send the cookies of one port to all ports of a machine, so two gateways there
/// would overwrite each other's: the port is in the name. With TLS the name begins so that no other site, and no page
/// without TLS, can set it.
pub(crate) fn cookie_name(host: &Host, secure: bool) -> String {
    format!("{}berth-{}", if secure { "__Host-" } else { "" }, host.port_or(secure))
}

/// The header that makes a browser remember `value`; without one, that makes it forget.
pub(crate) fn set_cookie(host: &Host, secure: bool, value: Option<(&str, u64)>) -> String {
    let (value, seconds) = value.unwrap_or(("", 0));
    let secure_word = if secure { "; Secure" } else { "" };
    let name = cookie_name(host, secure);
    format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure_word}")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn host() -> Host {
        Host::parse("localhost:7070").expect("a host")
    }

    fn shown(pairs: &[(header::HeaderName, &str)]) -> Result<Shown, Fault> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_str(value).expect("a header"));
        }
        Shown::read(&headers, &host())
    }

    #[test]
    fn a_token_is_read_from_one_header_of_the_right_form_only() {
        let token = Secret::mint(TokenKind::Token).expect("random bytes");
        let cookie = Secret::mint(TokenKind::Cookie).expect("random bytes");
        let one = |text: String| shown(&[(header::AUTHORIZATION, &text)]).expect("one header");
        assert!(matches!(one(format!("Bearer {}", token.text())), Shown::Token(_)));
        assert!(matches!(one(format!("bearer  {}", token.text())), Shown::Token(_)));
        for odd in [
            token.text().to_owned(),
            format!("Basic {}", token.text()),
            format!("Bearer {0}, Bearer {0}", token.text()),
            format!("Bearer {}", cookie.text()),
            "Bearer".to_owned(),
            format!("Bearer {}", "x".repeat(10_000)),
        ] {
            assert!(matches!(one(odd), Shown::Nonsense));
        }
        let text = format!("Bearer {}", token.text());
        assert!(shown(&[(header::AUTHORIZATION, &text), (header::AUTHORIZATION, &text)]).is_err());
    }

    #[test]
    fn a_cookie_is_ours_by_its_name_and_its_form() {
        let cookie = Secret::mint(TokenKind::Cookie).expect("random bytes");
        let token = Secret::mint(TokenKind::Token).expect("random bytes");
        let one = |text: String| shown(&[(header::COOKIE, &text)]).expect("a header");
        assert!(
            matches!(one(format!("a=b; berth-7070={}", cookie.text())), Shown::Cookies(it) if it.len() == 1)
        );
        assert!(matches!(one(format!("berth-7071={}", cookie.text())), Shown::Nothing), "of another gateway");
        assert!(
            matches!(one(format!("berth-7070={}", token.text())), Shown::Nonsense),
            "a token is no cookie"
        );
        assert!(matches!(one("berth-7070=".to_owned()), Shown::Nonsense));
        let many = format!("berth-7070={0}; ", cookie.text()).repeat(100);
        assert!(matches!(one(many), Shown::Cookies(it) if it.len() == MOST_COOKIES));
    }

    #[test]
    fn a_cookie_is_set_as_strictly_as_the_line_allows() {
        let plain = set_cookie(&host(), false, Some(("x", 60)));
        assert_eq!(plain, "berth-7070=x; Path=/; Max-Age=60; HttpOnly; SameSite=Strict");
        let host = Host::parse("berth.example.com").expect("a host");
        let secure = set_cookie(&host, true, None);
        assert_eq!(secure, "__Host-berth-443=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure");
    }
}
