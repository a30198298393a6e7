//! The dependencies of the workspace: their licences are allowed, and every one that a manifest names is used.
//!
//! Not here: known vulnerabilities, which need an advisory database from the network.
//! Start with [`every_dependency_has_a_licence_that_is_allowed`].

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Licences that allow to ship berth under MIT or Apache-2.0. All are permissive; a copyleft licence needs a decision.
const ALLOWED: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    // Certificates of the web's authorities, as data.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    // Tables of the Unicode consortium.
    "Unicode-3.0",
    "Zlib",
];

/// Dependencies that no source names, by package and dependency, with their purpose.
const UNNAMED: [(&str, &str, &str); 0] = [];

/// The metadata of the workspace and of everything that is built for this platform. Uses no network.
fn metadata() -> Value {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", &platform])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// The packages of this workspace.
fn members(metadata: &Value) -> Vec<&Value> {
    let is_member = |package: &&Value| package["source"].is_null();
    metadata["packages"].as_array().expect("packages").iter().filter(is_member).collect()
}

/// True if a licence expression can be met with the licences of [`ALLOWED`]: one side of each `OR`, both of each `AND`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any_of(&words, &mut at);
    met && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize) -> bool {
    let mut met = all_of(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all_of(words, at);
    }
    met
}

fn all_of(words: &[&str], at: &mut usize) -> bool {
    let mut met = licence(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= licence(words, at);
    }
    met
}

fn licence(words: &[&str], at: &mut usize) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let met = any_of(words, at);
        let is_closed = words.get(*at) == Some(&")");
        *at += 1;
        return met && is_closed;
    }
    let exception = words.get(*at..*at + 2).filter(|next| next[0] == "WITH");
    *at += exception.map_or(0, <[&str]>::len);
    let full = exception.map_or_else(|| (*word).to_owned(), |next| format!("{word} WITH {}", next[1]));
    ALLOWED.contains(&full.as_str())
}

/// The Rust files of a package that may use a dependency of this kind.
fn sources(package: &Path, kind: Option<&str>) -> Vec<PathBuf> {
    let places: &[&str] = match kind {
        Some("build") => &["build.rs"],
        Some(_) => &["src", "tests", "benches", "examples"],
        None => &["src"],
    };
    places.iter().flat_map(|place| rust_files(&package.join(place))).collect()
}

fn rust_files(path: &Path) -> Vec<PathBuf> {
    if path.extension().is_some_and(|end| end == "rs") && path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.flat_map(|entry| rust_files(&entry.path())).collect()
}

/// True if a line of code names this crate, as in `regex::Regex` or `use regex;`.
fn names(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_path = |(at, _): (usize, &str)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_part)
            && (after.starts_with("::") || (before.ends_with("use ") && !after.starts_with(is_part)))
    };
    !line.trim_start().starts_with("//") && line.match_indices(word).any(is_path)
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 50, "cargo knows only {} packages", packages.len());
    let odd: Vec<String> = packages
        .iter()
        .filter(|package| !is_allowed(text(package, "license")))
        .map(|package| {
            format!("{} {}: {}", text(package, "name"), text(package, "version"), package["license"])
        })
        .collect();
    assert!(odd.is_empty(), "not in ALLOWED:\n{}", odd.join("\n"));
}

#[test]
fn every_dependency_of_a_manifest_is_named_in_its_sources() {
    let metadata = metadata();
    let mut unused = BTreeSet::new();
    for member in members(&metadata) {
        let manifest = Path::new(text(member, "manifest_path"));
        let package = manifest.parent().expect("a manifest is in a directory");
        for dependency in member["dependencies"].as_array().expect("dependencies") {
            let name = dependency["rename"].as_str().unwrap_or(text(dependency, "name"));
            let word = library(&metadata, name).replace('-', "_");
            let files = sources(package, dependency["kind"].as_str());
            let is_named = files.iter().any(|file| {
                let source = fs::read_to_string(file).expect("a source file");
                source.lines().any(|line| names(line, &word))
            });
            if !is_named {
                unused.insert((text(member, "name").to_owned(), name.to_owned()));
            }
        }
    }
    let known: BTreeSet<(String, String)> =
        UNNAMED.iter().map(|(package, name, _)| ((*package).to_owned(), (*name).to_owned())).collect();
    assert_eq!(unused, known, "remove these from the manifests, or say in UNNAMED what they are for");
}

/// The name under which sources know a package: that of its library.
fn library(metadata: &Value, package: &str) -> String {
    let packages = metadata["packages"].as_array().expect("packages");
    let found = packages.iter().find(|known| text(known, "name") == package);
    let targets = found.and_then(|known| known["targets"].as_array()).into_iter().flatten();
    let is_library = |target: &&Value| {
        let kinds = target["kind"].as_array().into_iter().flatten();
        kinds.filter_map(Value::as_str).any(|kind| matches!(kind, "lib" | "rlib" | "proc-macro"))
    };
    targets
        .filter(is_library)
        .map(|target| text(target, "name").to_owned())
        .next()
        .unwrap_or(package.to_owned())
}

#[test]
fn every_dependency_of_the_workspace_is_used_by_a_member() {
    let metadata = metadata();
    let root = Path::new(text(&metadata, "workspace_root")).join("Cargo.toml");
    let manifest = fs::read_to_string(root).expect("the manifest of the workspace");
    let (_, section) = manifest.split_once("[workspace.dependencies]\n").expect("a list of dependencies");
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let entries = lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let declared: BTreeSet<&str> = entries.filter_map(|line| line.split([' ', '=']).next()).collect();
    let used: BTreeSet<&str> = members(&metadata)
        .into_iter()
        .flat_map(|member| member["dependencies"].as_array().into_iter().flatten())
        .map(|dependency| dependency["rename"].as_str().unwrap_or(text(dependency, "name")))
        .collect();
    let unused: Vec<&&str> = declared.difference(&used).collect();
    assert!(declared.len() > 30 && unused.is_empty(), "no member uses {unused:?}");
}

#[test]
fn a_licence_expression_is_met_by_one_side_of_or_and_by_both_of_and() {
    for met in ["MIT", "MIT/GPL-3.0", "GPL-3.0 OR (ISC AND MIT)", "Apache-2.0 WITH LLVM-exception OR GPL-2.0"]
    {
        assert!(is_allowed(met), "{met}");
    }
    for unmet in
        ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "MIT WITH other", "(MIT", "MIT ISC"]
    {
        assert!(!is_allowed(unmet), "{unmet}");
    }
}

#[test]
fn a_crate_is_named_by_a_path_in_code() {
    assert!(names("use serde_json::Value;", "serde_json"));
    assert!(names("use tungstenite as web;", "tungstenite"));
    assert!(names("    let x = regex::Regex::new(p);", "regex"));
    assert!(!names("let bytes = 3;", "bytes"));
    assert!(!names("// regex is not used", "regex"));
    assert!(!names("use my_regex::Regex;", "regex"));
}
