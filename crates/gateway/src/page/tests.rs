use std::collections::BTreeSet;
use std::path::Path;

use axum::http::HeaderMap;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
};

use sha2::{Digest as _, Sha256};

use super::{ALL, ASSETS, FILES, VERSION_MARK, asset};

/// The files of the page that are text and not vendored.
fn own_texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = FILES.iter().filter(|(path, _)| !path.starts_with("vendor/") && !path.ends_with(".png"));
    own.map(|(path, bytes)| (*path, std::str::from_utf8(bytes).expect("text")))
}

/// All quoted words that could be a path.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split(['"', '\'', '`']).skip(1).step_by(2)
}

#[test]
fn every_named_file_exists_and_every_existing_file_is_named() {
    let mut named: BTreeSet<String> = ["index.html".to_owned()].into();
    for (path, text) in own_texts() {
        let parent = Path::new(path).parent().expect("a directory").display().to_string();
        for word in text.split(['"', '\'']) {
            let of_page = word.strip_prefix(ASSETS).map(str::to_owned);
            let beside = word.strip_prefix("./").map(|rest| format!("{parent}/{rest}"));
            if let Some(found) = of_page.or(beside) {
                assert!(FILES.iter().any(|(known, _)| *known == found), "{path} names {found}");
                named.insert(found);
            }
        }
    }
    let there: BTreeSet<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(named, there);
}

/// All files below a directory, by their relative paths.
fn files_below(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    let found = entries.flat_map(|entry| {
        let name = entry.file_name().into_string().expect("text");
        if entry.path().is_dir() {
            files_below(&entry.path()).into_iter().map(|below| format!("{name}/{below}")).collect()
        } else {
            vec![name]
        }
    });
    found.collect()
}

#[test]
fn every_vendored_file_is_listed_with_its_origin_and_has_the_checksum_of_the_list() {
    let vendor = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page/vendor");
    let list = std::fs::read_to_string(vendor.join("SHA256SUMS")).expect("the list");
    let mut listed = BTreeSet::from(["README.md".to_owned(), "SHA256SUMS".to_owned()]);
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let [sum, file, package, path] =
            line.split_whitespace().collect::<Vec<_>>().try_into().expect("four words");
        let (name, version) = package.rsplit_once('@').expect("a package and its version");
        assert!(!name.is_empty() && version.split('.').count() == 3 && !path.is_empty(), "{line}");
        let bytes = std::fs::read(vendor.join(file)).expect("a file that is listed");
        let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, sum, "{file} is not what was vendored");
        assert!(listed.insert(file.to_owned()), "{file} is listed twice");
    }
    assert_eq!(files_below(&vendor), listed);
}

#[test]
fn no_file_asks_for_anything_elsewhere_or_runs_what_a_strict_policy_forbids() {
    for (path, text) in own_texts() {
        for word in quoted(text).filter(|word| word.contains("://")) {
            assert!(word.starts_with("http://www.w3.org/"), "{path}: {word}");
        }
        for forbidden in ["eval(", "new Function", "onclick=", "@import", "url(http", "sourceMappingURL"] {
            assert!(!text.contains(forbidden), "{path} has {forbidden}");
        }
        if path.ends_with(".html") {
            assert!(!text.contains("<script>"), "{path} has a script in it");
        }
    }
}

#[test]
fn style_sheets_have_three_sizes_of_type_and_files_have_no_size_of_their_own() {
    for (path, text) in own_texts() {
        for (_, rest) in text.match_indices("font-size:").map(|(at, found)| text.split_at(at + found.len())) {
            let size = rest.trim_start().split([';', '}', '"']).next().unwrap_or_default().trim();
            assert!(["var(--s)", "var(--m)", "var(--l)", "inherit"].contains(&size), "{path}: {size}");
        }
        for (_, rest) in text.match_indices(" font: ").map(|(at, found)| text.split_at(at + found.len())) {
            let value = rest.split([';', '}']).next().unwrap_or_default();
            assert!(
                value == "inherit" || ["var(--s)", "var(--m)"].iter().any(|size| value.contains(size)),
                "{path}: {value}"
            );
        }
    }
}

#[test]
fn the_icon_for_home_screens_is_a_small_png_and_is_served_as_one() {
    let (icon, _) = asset("/assets/apple-touch-icon.png").expect("the icon");
    let sent = icon.answer(&HeaderMap::new(), false);
    assert_eq!(sent.headers()[CONTENT_TYPE], "image/png");
    assert!(icon.bytes.starts_with(b"\x89PNG\r\n") && icon.bytes.len() < 4096);
}

#[test]
fn a_file_is_kept_for_ever_only_under_the_name_of_its_version() {
    let version = &ALL.version;
    let (page, for_ever) = asset("/").expect("the page");
    assert!(!for_ever);
    let text = std::str::from_utf8(&page.bytes).expect("text");
    assert!(text.contains(&format!("\"{ASSETS}{VERSION_MARK}{version}/js/main.js\"")), "{text}");
    assert!(asset(&format!("{ASSETS}{VERSION_MARK}{version}/js/main.js")).expect("it").1);
    assert!(!asset("/assets/js/main.js").expect("it").1);
    assert!(!asset("/assets/v-0000000000000000/js/main.js").expect("what is best for an old page").1);
    for nothing in ["/assets/", "/assets", "/assets/../page.rs", "/assets/js/", "/assets/v-/", "/x", ""] {
        assert!(asset(nothing).is_none(), "{nothing}");
    }
}

#[test]
fn a_browser_with_the_file_gets_304_and_gzip_is_only_for_clients_that_accept_it() {
    let (xterm, _) = asset("/assets/vendor/xterm.js").expect("it");
    let ask = |name: axum::http::HeaderName, value: &str| {
        let headers = HeaderMap::from_iter([(name, value.parse().expect("a header"))]);
        xterm.answer(&headers, false)
    };
    let plain = xterm.answer(&HeaderMap::new(), true);
    assert_eq!(plain.status(), 200);
    assert_eq!(plain.headers()[CACHE_CONTROL], "public, max-age=31536000, immutable");
    assert!(plain.headers().get(CONTENT_ENCODING).is_none());
    let etag = plain.headers()[ETAG].to_str().expect("text").to_owned();
    for same in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".to_owned()] {
        let kept = ask(IF_NONE_MATCH, &same);
        assert_eq!(
            (kept.status().as_u16(), &kept.headers()[CONTENT_TYPE]),
            (304, &plain.headers()[CONTENT_TYPE]),
            "{same}"
        );
    }
    assert_eq!(ask(IF_NONE_MATCH, "\"other\"").status(), 200);
    for takes in ["gzip", "deflate, GZIP;q=0.5, br"] {
        assert_eq!(ask(ACCEPT_ENCODING, takes).headers()[CONTENT_ENCODING], "gzip", "{takes}");
    }
    for not in ["br", "gzip;q=0", "xgzip"] {
        assert!(ask(ACCEPT_ENCODING, not).headers().get(CONTENT_ENCODING).is_none(), "{not}");
    }
    let packed = xterm.gzip.as_ref().expect("it is large");
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut unpacked).expect("gzip");
    assert_eq!(unpacked, xterm.bytes);
    assert!(packed.len() * 3 < xterm.bytes.len());
}
