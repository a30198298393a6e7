//! Files of the page, embedded in the binary.
//!
//! Promise: the files are never read from disk, and the page needs no other host. A browser that has a file of this
//! version does not fetch it again. It never runs a file of another version beside ours, because the page names all
//! files by a version, which is a hash of their contents.
//! Not here: the rights of the page (it is a client as any other, see `auth`), the headers that confine it.
//! Start with [`asset`]; reasons: `docs/design/page.md`.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use berth_api::{AccessScope, ProblemCode};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::routes::{Route, anything, bytes, text};

/// Prefix of the paths of the files.
const ASSETS: &str = "/assets/";
/// Prefix of the version in a path.
const VERSION_MARK: &str = "v-";
/// Smallest gain of compression; other files are sent as they are.
const LEAST_GAIN_BYTES: usize = 256;

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("page/", $path)) as &[u8])),*]
    };
}

/// All files: the path below `/assets/`, and the bytes.
const FILES: &[(&str, &[u8])] = files![
    "index.html",
    "icon.svg",
    "apple-touch-icon.png",
    "app.webmanifest",
    "css/base.css",
    "css/list.css",
    "css/parts.css",
    "css/session.css",
    "js/api.js",
    "js/ask.js",
    "js/composer.js",
    "js/details.js",
    "js/dialogs.js",
    "js/find.js",
    "js/follow.js",
    "js/foreign.js",
    "js/highlight.js",
    "js/icons.js",
    "js/lib.js",
    "js/list.js",
    "js/main.js",
    "js/markdown.js",
    "js/markdown_worker.js",
    "js/new.js",
    "js/outbox.js",
    "js/parts.js",
    "js/reading.js",
    "js/session.js",
    "js/store.js",
    "js/terminal.js",
    "js/text.js",
    "js/theme.js",
    "js/transcript.js",
    "vendor/marked.js",
    "vendor/preact.js",
    "vendor/purify.js",
    "vendor/xterm-fit.js",
    "vendor/xterm.css",
    "vendor/xterm.js",
];

/// Path of the page itself.
const INDEX: &str = "index.html";

/// A file, ready to be sent.
#[derive(Debug)]
pub(crate) struct PageAsset {
    /// Media type of the file.
    pub(crate) media_type: &'static str,
    /// Entity tag of these bytes, in quotes.
    pub(crate) etag: String,
    bytes: Bytes,
    gzip: Option<Bytes>,
}

struct PageAssets {
    version: String,
    by_path: HashMap<&'static str, PageAsset>,
}

static ALL: LazyLock<PageAssets> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (path, bytes) in FILES {
        hash.update(path);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    let version = hex(&hash.finalize());
    let by_path = FILES.iter().map(|(path, bytes)| (*path, prepared(path, bytes, &version))).collect();
    PageAssets { version, by_path }
});

fn hex(digest: &[u8]) -> String {
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Inserts the version into the paths below `/assets/` by which files name each other.
fn prepared(path: &str, bytes: &'static [u8], version: &str) -> PageAsset {
    let bytes = match std::str::from_utf8(bytes) {
        Ok(text) if !path.starts_with("vendor/") => {
            Bytes::from(text.replace(ASSETS, &format!("{ASSETS}{VERSION_MARK}{version}/")))
        }
        _ => Bytes::from_static(bytes),
    };
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let smaller = encoder.write_all(&bytes).and_then(|()| encoder.finish()).ok();
    let gzip = smaller.filter(|smaller| smaller.len() + LEAST_GAIN_BYTES < bytes.len()).map(Bytes::from);
    PageAsset {
        media_type: media_type(path),
        etag: format!("\"{}\"", hex(&Sha256::digest(&bytes))),
        bytes,
        gzip,
    }
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

/// The file for the path in a URL. The flag is true if that path stands for exactly these bytes forever.
pub(crate) fn asset(path: &str) -> Option<(&'static PageAsset, bool)> {
    let all = &*ALL;
    if path == "/" {
        return all.by_path.get(INDEX).map(|asset| (asset, false));
    }
    let rest = path.strip_prefix(ASSETS)?;
    // A page of an older gateway asks for files of its version: the current files are the best answer.
    match rest.strip_prefix(VERSION_MARK).and_then(|rest| rest.split_once('/')) {
        Some((version, rest)) => all.by_path.get(rest).map(|asset| (asset, version == all.version)),
        None => all.by_path.get(rest).map(|asset| (asset, false)),
    }
}

/// The path under which a browser may cache this file forever.
pub(crate) fn address(path: &str) -> String {
    format!("{ASSETS}{VERSION_MARK}{}/{path}", ALL.version)
}

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    let file = "a file of the page; 304 if the browser has it already";
    let route = |path, name, about| Route::get(name, path, AccessScope::Read, serve).about(about).open();
    vec![
        route("/", "page", "The page.").gives_as(200, "the page", "text/html", None).gives_as(
            304,
            file,
            "text/html",
            None,
        ),
        route("/assets/{*path}", "page_file", "A file of the page.")
            .gives_as(200, file, "text/html", Some(text))
            .gives_as(200, file, "text/javascript", Some(text))
            .gives_as(200, file, "text/css", Some(text))
            .gives_as(200, file, "image/svg+xml", Some(text))
            .gives_as(200, file, "image/png", Some(bytes))
            .gives_as(200, file, "application/manifest+json", Some(anything))
            .gives_as(200, file, "application/octet-stream", Some(bytes))
            .gives_as(304, file, "application/octet-stream", None)
            .fails(&[NotFound]),
    ]
}

async fn serve(uri: Uri, headers: HeaderMap) -> Response {
    match asset(uri.path()) {
        Some((asset, is_for_ever)) => asset.answer(&headers, is_for_ever),
        None => crate::http::system::route_not_found(uri).await.into_response(),
    }
}

impl PageAsset {
    fn answer(&self, headers: &HeaderMap, is_for_ever: bool) -> Response {
        let cache = if is_for_ever { "public, max-age=31536000, immutable" } else { "no-cache" };
        let about = [(ETAG, self.etag.as_str()), (CACHE_CONTROL, cache), (VARY, "Accept-Encoding")];
        if lists(headers, &IF_NONE_MATCH, |tag| {
            tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.etag
        }) {
            // With its media type: other headers (the policy, by `auth`) depend on it, and a browser applies the
            // headers of a 304 to its cached page.
            return (StatusCode::NOT_MODIFIED, about, [(CONTENT_TYPE, self.media_type)]).into_response();
        }
        let takes_gzip = lists(headers, &ACCEPT_ENCODING, |coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let refused = weight.trim().strip_prefix("q=").and_then(|q| q.parse().ok()) == Some(0.0_f32);
            name.trim().eq_ignore_ascii_case("gzip") && !refused
        });
        match self.gzip.as_ref().filter(|_| takes_gzip) {
            Some(gzip) => {
                let coding = [(CONTENT_TYPE, self.media_type), (CONTENT_ENCODING, "gzip")];
                (about, coding, Body::from(gzip.clone())).into_response()
            }
            None => {
                (about, [(CONTENT_TYPE, self.media_type)], Body::from(self.bytes.clone())).into_response()
            }
        }
    }
}

/// True if one of the entries of a list header matches.
fn lists(headers: &HeaderMap, name: &axum::http::HeaderName, fits: impl Fn(&str) -> bool) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| fits(entry.trim()))
}

#[cfg(test)]
mod tests;
