//! Name of a browser that its user recognises.
//!
//! Promise: the name consists of known words only, whatever the client sends. The name proves nothing, and no right depends on it.

use axum::http::{HeaderMap, header};

/// Names that browsers send, and their usual names. Most browsers also claim to be others, so the first match counts.
const BROWSERS: [(&str, &str); 9] = [
    ("Edg", "edge"),
    ("OPR/", "opera"),
    ("SamsungBrowser/", "samsung-internet"),
    ("Firefox/", "firefox"),
    ("FxiOS/", "firefox"),
    ("CriOS/", "chrome"),
    ("Chrome/", "chrome"),
    ("Safari/", "safari"),
    ("curl/", "curl"),
];
/// Names of platforms that browsers send, in the same form.
const PLATFORMS: [(&str, &str); 7] = [
    ("iPhone", "iphone"),
    ("iPad", "ipad"),
    ("Android", "android"),
    ("Windows", "windows"),
    ("Macintosh", "mac"),
    ("CrOS", "chromeos"),
    ("Linux", "linux"),
];

/// The name for the browser that sent these headers: `firefox-on-android`.
pub(crate) fn called(headers: &HeaderMap) -> String {
    let said = headers.get(header::USER_AGENT).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let first = |table: &[(&str, &'static str)]| {
        table.iter().find(|(sign, _)| said.contains(sign)).map(|(_, word)| *word)
    };
    let browser = first(&BROWSERS).unwrap_or("browser");
    match first(&PLATFORMS) {
        Some(platform) => format!("{browser}-on-{platform}"),
        None => browser.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_gets_its_usual_name_and_none_that_it_made_up() {
        let is_called = |said: &'static str, name: &str| {
            let headers = HeaderMap::from_iter([(header::USER_AGENT, said.parse().expect("a header"))]);
            assert_eq!(called(&headers), name, "{said}");
        };
        let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";
        is_called(chrome, "chrome-on-linux");
        is_called(
            "Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0",
            "firefox-on-android",
        );
        is_called(
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 \
             Mobile/15E148 Safari/604.1",
            "safari-on-iphone",
        );
        is_called(
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36 Edg/126.0",
            "edge-on-windows",
        );
        is_called("<script>alert(1)</script>", "browser");
        assert_eq!(called(&HeaderMap::new()), "browser");
    }
}
