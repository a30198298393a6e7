//! The column "Must not" of ARCHITECTURE.md, as far as manifests and sources show it.
//!
//! Tests may do what the code beside them may not: modules of tests and `[dev-dependencies]` are not checked, unless a
//! rule is about them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use berth_driver::AgentTraits;
use berth_tidy::root;

/// The crates of this project that each crate may use.
const MAY_USE: [(&str, &[&str]); 18] = [
    ("core", &[]),
    ("journal", &[]),
    ("host", &[]),
    ("transcript", &[]),
    ("screen", &[]),
    ("driver", &["core"]),
    ("api", &["core", "host"]),
    ("store", &["api", "core", "host", "journal"]),
    ("config", &["api", "core", "host", "store"]),
    ("fleet", &["core"]),
    ("procs", &["api", "core", "host", "store"]),
    ("conversations", &["api", "core", "driver", "host", "procs", "store", "transcript"]),
    (
        "keeper",
        &[
            "api",
            "conversations",
            "core",
            "driver",
            "host",
            "journal",
            "procs",
            "screen",
            "store",
            "transcript",
        ],
    ),
    (
        "verbs",
        &[
            "api",
            "config",
            "conversations",
            "core",
            "driver",
            "host",
            "journal",
            "keeper",
            "procs",
            "screen",
            "store",
            "transcript",
        ],
    ),
    ("tui", &["api", "config", "core", "host", "procs", "screen", "store", "verbs"]),
    ("adapters", &["api", "config", "core", "driver", "host", "store", "verbs"]),
    ("gateway", &["api", "config", "core", "host", "procs", "store", "verbs"]),
    (
        "cli",
        &[
            "adapters",
            "api",
            "config",
            "conversations",
            "core",
            "gateway",
            "host",
            "procs",
            "screen",
            "store",
            "transcript",
            "tui",
            "verbs",
        ],
    ),
];

/// All crates of others that these crates may use: none of them does I/O, reads a clock or is random.
const PURE: [(&str, &[&str]); 3] = [
    ("core", &[]),
    ("screen", &["alacritty_terminal", "memchr"]),
    ("driver", &["agent-client-protocol-schema", "memchr", "serde", "serde_json"]),
];

/// Parts of the standard library that do I/O or read a clock.
const IMPURE: [&str; 7] =
    ["std::fs", "std::net", "std::process", "std::env", "std::os::", "Instant", "SystemTime"];

/// Crates that these crates must not use: for example, an agent does not run in the store, and a page is not served
/// there.
const NOT_FOR: [(&str, &[&str]); 11] = [
    // Bodies of events are opaque to the record, and its statements are written by hand.
    ("fleet", &["serde", "serde_json", "sqlx", "diesel", "axum", "hyper", "clap"]),
    ("config", &["tokio", "axum", "hyper", "clap", "ratatui"]),
    ("tui", &["tokio", "axum", "hyper", "clap", "indicatif"]),
    ("adapters", &["axum", "hyper", "clap", "ratatui", "indicatif"]),
    ("conversations", &["tokio", "axum", "hyper", "clap", "ratatui"]),
    ("procs", &["tokio", "axum", "hyper", "clap", "ratatui"]),
    ("store", &["tokio", "axum", "hyper", "clap", "ratatui"]),
    ("keeper", &["tokio", "axum", "hyper", "clap", "ratatui"]),
    ("verbs", &["tokio", "axum", "hyper", "clap", "ratatui", "indicatif"]),
    // `api` has clap only where the command line asks for it: arguments of a turn are the turn itself.
    ("api", &["tokio", "axum", "hyper", "ratatui"]),
    ("gateway", &["clap", "ratatui", "indicatif"]),
];

/// Names of the files of a session.
const FILES_OF_A_SESSION: [&str; 11] = [
    "journal",
    "lease",
    "output",
    "run",
    "status.json",
    "snapshot",
    "sock",
    "stderr",
    "screen.ansi",
    "turns.idx",
    "turns.more",
];

/// The public functions of the store that may have a path: the root itself, records of terminals, which the sweep
/// lists, the directory that an agent keeps a conversation in, and the audit log, which is of the root.
const MAY_TAKE_A_PATH: [&str; 3] = ["fn root(&self)", "fn session_of", "audit.rs"];

/// Names of agents without traits.
const OTHER_NAMES: [&str; 2] = ["opencode", "gemini"];
/// The beginning of a module of tests at the end of a file.
const TESTS_BEGIN: &str = "#[cfg(test)]\nmod tests {";

#[test]
fn a_crate_uses_only_the_crates_of_this_project_that_it_may() {
    let known: BTreeSet<String> = MAY_USE.iter().map(|(name, _)| (*name).to_owned()).collect();
    let there: BTreeSet<String> = fs::read_dir(crate_dir("."))
        .expect("the directory of all crates")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .collect();
    assert_eq!(known, there, "say in MAY_USE what a new crate may use");
    for (name, may) in MAY_USE {
        let may: BTreeSet<String> = may.iter().map(|name| format!("berth-{name}")).collect();
        let uses: BTreeSet<String> =
            dependencies(name).into_iter().filter(|used| used.starts_with("berth-")).collect();
        assert_eq!(uses, may, "crates/{name}/Cargo.toml");
    }
}

#[test]
fn a_crate_that_does_no_io_uses_nothing_that_does() {
    for (name, may) in PURE {
        let used = dependencies(name).into_iter().filter(|used| !used.starts_with("berth-"));
        let odd: Vec<String> = used.filter(|used| !may.contains(&used.as_str())).collect();
        assert!(odd.is_empty(), "crates/{name}/Cargo.toml: {odd:?}");
        let found = lines_with(name, |line| has_code(line, &IMPURE));
        assert!(found.is_empty(), "crates/{name} does no I/O and reads no clock:\n{}", found.join("\n"));
    }
    for (name, not) in NOT_FOR {
        let odd: Vec<String> =
            dependencies(name).into_iter().filter(|used| not.contains(&used.as_str())).collect();
        assert!(odd.is_empty(), "crates/{name}/Cargo.toml: {odd:?}");
    }
}

#[test]
fn only_the_host_crate_has_unsafe_code() {
    for (name, _) in MAY_USE.into_iter().filter(|(name, _)| *name != "host") {
        let root = ["lib.rs", "main.rs"].map(|file| crate_dir(name).join("src").join(file));
        let text = root.iter().find_map(|path| fs::read_to_string(path).ok()).expect("a root of the crate");
        assert!(text.contains("#![forbid(unsafe_code)]"), "crates/{name} does not forbid unsafe code");
    }
}

#[test]
fn a_transcript_is_written_only_where_a_copy_is_repaired() {
    let writes = ["OpenOptions", "File::create", "fs::write", "fs::rename", "fs::remove"];
    let found = lines_with("transcript", |line| has_code(line, &writes));
    let odd: Vec<&String> = found.iter().filter(|line| !line.contains("src/repair")).collect();
    assert!(odd.is_empty(), "{odd:#?}");
}

#[test]
fn the_command_line_the_tui_the_adapters_and_the_gateway_only_read_sessions() {
    let writes = ["Lease::", "store::create(", "store::open", "OpenJournal"];
    for name in ["cli", "tui", "adapters", "gateway"] {
        let found = lines_with(name, |line| has_code(line, &writes));
        assert!(found.is_empty(), "{name} claims or writes a session itself:\n{}", found.join("\n"));
    }
}

#[test]
fn only_the_store_joins_the_names_of_a_sessions_files() {
    let joined: Vec<String> = FILES_OF_A_SESSION.iter().map(|name| format!("join(\"{name}\")")).collect();
    let joined: Vec<&str> = joined.iter().map(String::as_str).collect();
    let found: Vec<String> = MAY_USE
        .into_iter()
        .filter(|(name, _)| *name != "store")
        .flat_map(|(name, _)| lines_with(name, |line| has_code(line, &joined)))
        .collect();
    assert!(found.is_empty(), "ask `berth_store::SessionFiles`:\n{}", found.join("\n"));
    let hidden: [&str; 3] = ["session_dir(", "sessions_dir(", "JOURNAL_DIR"];
    let found: Vec<String> =
        ["procs", "conversations", "keeper", "verbs", "tui", "adapters", "gateway", "cli"]
            .iter()
            .flat_map(|name| lines_with(name, |line| has_code(line, &hidden)))
            .collect();
    assert!(found.is_empty(), "the store keeps its paths to itself:\n{}", found.join("\n"));
}

#[test]
fn the_store_takes_no_path_but_the_one_of_its_root() {
    let found = public_signatures("store");
    assert!(
        found.iter().any(|signature| signature.lines().count() > 1),
        "signatures of several lines are found"
    );
    let takes_path = |signature: &&String| signature.contains("&Path");
    let odd: Vec<&String> = found
        .iter()
        .filter(takes_path)
        .filter(|signature| !MAY_TAKE_A_PATH.iter().any(|may| signature.contains(may)))
        .collect();
    assert!(odd.is_empty(), "sessions are named by their id: {odd:#?}");
}

#[test]
fn attribution_of_processes_decides_nothing_about_sessions() {
    let decides =
        ["Command::", "Observation::", "core::decide", "Lease::", ".claim(", "store::create(", "store::open"];
    let found = lines_with("procs", |line| has_code(line, &decides));
    assert!(found.is_empty(), "leave it to `berth-keeper` or `berth-verbs`:\n{}", found.join("\n"));
}

#[test]
fn conversations_start_nothing() {
    let starts =
        ["spawn::", "spawn(", "process::Command", "Command::new", ".claim(", "store::create(", "store::open"];
    let found = lines_with("conversations", |line| has_code(line, &starts));
    assert!(found.is_empty(), "leave it to `berth-keeper` or `berth-verbs`:\n{}", found.join("\n"));
}

#[test]
fn verbs_print_and_ask_nothing() {
    let talks = ["print!(", "println!(", "eprint!(", "eprintln!(", "io::stdout", "io::stderr", "io::stdin"];
    let found = lines_with("verbs", |line| has_code(line, &talks));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn test_features_are_not_shipped() {
    for (name, _) in MAY_USE {
        let for_tests = ["berth-harness", "berth-fake-model", "berth-test-postgres", "proptest"];
        let odd: Vec<String> =
            dependencies(name).into_iter().filter(|used| for_tests.contains(&used.as_str())).collect();
        assert!(odd.is_empty(), "crates/{name}/Cargo.toml: {odd:?}");
        let manifest = manifest(name);
        let (shipped, _) = manifest.split_once("[dev-dependencies]").unwrap_or((&manifest, ""));
        let asks = shipped.lines().any(|line| line.starts_with("berth-") && line.contains("\"testing\""));
        assert!(!asks, "crates/{name}/Cargo.toml ships the feature `testing` of another crate");
    }
}

#[test]
fn no_agent_is_named_in_the_sources_of_crates_that_know_agents_by_their_traits() {
    let names: Vec<String> =
        AgentTraits::ALL.iter().map(|(kind, _)| *kind).chain(OTHER_NAMES).map(str::to_lowercase).collect();
    let is_named = |line: &str| names.iter().any(|name| line.to_lowercase().contains(name));
    let found: Vec<String> = ["core", "store", "procs", "conversations", "keeper", "gateway", "fleet"]
        .into_iter()
        .flat_map(|name| lines_with(name, is_named))
        .collect();
    assert!(found.is_empty(), "make it a trait in `berth_driver::AgentTraits`:\n{}", found.join("\n"));
}

fn crate_dir(name: &str) -> PathBuf {
    root().join("crates").join(name)
}

fn manifest(name: &str) -> String {
    fs::read_to_string(crate_dir(name).join("Cargo.toml")).expect("a manifest")
}

/// The dependencies of a crate when it is shipped.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = manifest(name);
    let (_, rest) = manifest.split_once("\n[dependencies]\n").expect("a list of dependencies");
    let section = rest.lines().take_while(|line| !line.starts_with('['));
    let names = section.filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    names.map(|line| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned()).collect()
}

/// The lines of a crate's sources, without its tests, that match: each with its place.
fn lines_with(name: &str, is_so: impl Fn(&str) -> bool) -> Vec<String> {
    let sources = sources(&crate_dir(name).join("src"));
    assert!(!sources.is_empty(), "no sources of {name}");
    let mut found = Vec::new();
    for path in sources {
        let text = fs::read_to_string(&path).expect("a source file");
        let code = text.split(TESTS_BEGIN).next().unwrap_or_default();
        let lines = code.lines().enumerate().filter(|(_, line)| is_so(line));
        found.extend(lines.map(|(at, line)| format!("{}:{}: {}", path.display(), at + 1, line.trim())));
    }
    found
}

/// The signatures of the public functions of a crate, each behind its file.
fn public_signatures(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for path in sources(&crate_dir(name).join("src")) {
        let text = fs::read_to_string(&path).expect("a source file");
        let code = text.split(TESTS_BEGIN).next().unwrap_or_default();
        for begin in ["    pub fn ", "    pub const fn ", "\npub fn ", "\npub const fn "] {
            let parts = code.split(begin).skip(1).filter_map(|behind| behind.split_once('{'));
            found.extend(parts.map(|(signature, _)| format!("{}: fn {signature}", path.display())));
        }
    }
    found
}

/// True if a line of code has one of these parts.
fn has_code(line: &str, parts: &[&str]) -> bool {
    !line.trim_start().starts_with("//") && parts.iter().any(|part| line.contains(part))
}

/// The Rust files below a directory that are not tests.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("a source directory") {
        let path = entry.expect("an entry").path();
        let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_tests {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") && !is_tests {
            all.push(path);
        }
    }
    all
}
