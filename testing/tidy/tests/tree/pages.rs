//! Pages for people: every link leads to an existing file and heading, and docs/README.md has every page.
//!
//! Not here: links to other sites, and the truth of a page (the tests beside the code that it is about).
//! Start with [`every_link_leads_to_a_file_and_a_heading_that_are_there`].

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use berth_tidy::root;

/// Directories without pages of ours.
const NO_PAGES: [&str; 4] = ["target", "vendor", "node_modules", "tests"];
/// The most lines of the README: an entrance, not a manual.
const README_LINES: usize = 130;

fn pages(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() && !name.starts_with('.') && !NO_PAGES.contains(&name.as_str()) {
            all.extend(pages(&path));
        } else if name.ends_with(".md") {
            all.push(path);
        }
    }
    all
}

/// The lines of a page that are not in a block of code.
fn prose(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).expect("a page");
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// The targets of the links and pictures of a line, without those of other sites. Text in backquotes is not a link.
fn targets(line: &str) -> Vec<String> {
    let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let pictures = text.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
    links.chain(pictures).filter(|target| !target.contains(':')).map(str::to_owned).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let headings = prose(page).into_iter().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let all = pages(&root());
    assert!(all.len() > 50, "only {} pages", all.len());
    let mut broken = Vec::new();
    for page in &all {
        let dir = page.parent().expect("a page is in a directory");
        for target in prose(page).iter().flat_map(|line| targets(line)) {
            let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
            let file = if path.is_empty() { page.clone() } else { dir.join(path) };
            let is_there = file.exists() && (heading.is_empty() || anchors(&file).contains(heading));
            if !is_there {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_index_has_every_page_of_docs_and_every_decision() {
    for dir in ["docs", "docs/design"] {
        let dir = root().join(dir);
        let index = dir.join("README.md");
        let linked: BTreeSet<String> = prose(&index).iter().flat_map(|line| targets(line)).collect();
        for entry in fs::read_dir(&dir).expect("a directory").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") && name != "README.md" {
                assert!(linked.contains(&name), "{} does not link to {name}", index.display());
            }
        }
    }
}

#[test]
fn every_decision_has_a_status_and_a_date() {
    for page in pages(&root().join("docs/design")) {
        let text = fs::read_to_string(&page).expect("a page");
        let status = text.lines().nth(2).unwrap_or_default();
        let is_index = page.ends_with("README.md");
        let word =
            ["Status: accepted, ", "Status: superseded by "].iter().find(|word| status.starts_with(**word));
        let has_date = status.split([' ', '.', ',']).any(is_date);
        assert!(is_index || (word.is_some() && has_date), "{}: {status:?} below the title", page.display());
    }
}

/// True for a date as in 2026-11-19.
fn is_date(word: &str) -> bool {
    let form = |letter: char| if letter.is_ascii_digit() { '0' } else { letter };
    word.chars().map(form).eq("0000-00-00".chars())
}

#[test]
fn the_readme_is_short_and_names_the_command_that_checks_everything() {
    let text = fs::read_to_string(root().join("README.md")).expect("the README");
    assert!(text.lines().count() <= README_LINES, "{} lines", text.lines().count());
    assert!(text.contains("\n./test "));
}

#[test]
fn links_and_headings_are_read_as_github_reads_them() {
    assert_eq!(targets("a [b](c.md#d) and `[x](uri)` ![p](q.png) [s](https://e.org)"), ["c.md#d", "q.png"]);
    assert_eq!(anchor(" A session that takes turns"), "a-session-that-takes-turns");
    assert_eq!(anchor(" An editor: `berth acp [S]`"), "an-editor-berth-acp-s");
}
