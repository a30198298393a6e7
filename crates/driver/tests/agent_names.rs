//! The rules, the store, the keeper and the gateway know no agent by its name: what an agent does in its own way is a trait
//! ([`berth_driver::AgentTraits`]). Tests there may name agents.

use std::fs;
use std::path::{Path, PathBuf};

use berth_driver::AgentTraits;

const CRATES: [&str; 4] = ["core", "store", "keeper", "gateway"];
/// Agents without traits.
const OTHER_NAMES: [&str; 2] = ["opencode", "gemini"];
/// How a module of tests begins that is at the end of a file.
const TESTS_BEGIN: &str = "#[cfg(test)]\nmod tests {";

#[test]
fn no_agent_is_named_in_the_sources_of_core_store_keeper_and_gateway() {
    let names: Vec<&str> = AgentTraits::ALL.iter().map(|(kind, _)| *kind).chain(OTHER_NAMES).collect();
    let mut found = Vec::new();
    for name in CRATES {
        let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"));
        assert!(!sources.is_empty(), "no sources of {name}");
        for path in sources {
            let text = fs::read_to_string(&path).expect("a source file");
            let code = text.split(TESTS_BEGIN).next().unwrap_or_default();
            let is_named =
                |line: &str| names.iter().any(|name| line.to_lowercase().contains(&name.to_lowercase()));
            let lines = code.lines().enumerate().filter(|(_, line)| is_named(line));
            found.extend(lines.map(|(at, line)| format!("{}:{}: {}", path.display(), at + 1, line.trim())));
        }
    }
    assert!(found.is_empty(), "make it a trait in `berth_driver::AgentTraits`:\n{}", found.join("\n"));
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
