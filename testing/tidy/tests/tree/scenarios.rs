//! Scenarios: each row of docs/scenarios.md has a test, and each test that is named after a row names one that is there.

use std::collections::BTreeSet;
use std::fs;

use berth_tidy::{SourceFile, root, rust_files};

/// Ids of the rows: a capital letter and a number.
fn rows() -> BTreeSet<String> {
    let page = fs::read_to_string(root().join("docs/scenarios.md")).expect("the page of scenarios");
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    cells.filter(|cell| is_row_id(cell)).map(str::to_owned).collect()
}

fn is_row_id(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|first| first.is_ascii_uppercase())
        && word.len() > 1
        && letters.all(|letter| letter.is_ascii_digit())
}

/// The row that a test is named after: `E9` for `e9_the_limits_hold`.
fn row_of_name(line: &str) -> Option<String> {
    let name = line.trim_start().split_once("fn ")?.1;
    let (id, _) = name.split_once('_')?;
    let row = id.to_uppercase();
    (id.starts_with(|letter: char| ('a'..='l').contains(&letter)) && is_row_id(&row)).then_some(row)
}

/// Rows that comments of a file name.
fn rows_of_comments(file: &SourceFile) -> Vec<String> {
    let comments = file.comments();
    let words =
        comments.iter().flat_map(|comment| comment.text.split(|letter: char| !letter.is_alphanumeric()));
    words.filter(|word| is_row_id(word)).map(str::to_owned).collect()
}

#[test]
fn each_row_has_a_test_and_each_test_that_is_named_after_a_row_names_one_that_is_there() {
    let rows = rows();
    assert!(rows.len() > 80, "only {} rows", rows.len());
    let files: Vec<SourceFile> =
        rust_files().into_iter().filter(|file| file.text.contains("#[test]")).collect();
    let named: BTreeSet<String> =
        files.iter().flat_map(|file| file.text.lines()).filter_map(row_of_name).collect();
    let unknown: Vec<_> = named.difference(&rows).collect();
    assert!(unknown.is_empty(), "no row of docs/scenarios.md: {unknown:?}");
    let mentioned: BTreeSet<String> = files.iter().flat_map(rows_of_comments).chain(named).collect();
    let without: Vec<_> = rows.difference(&mentioned).collect();
    assert!(without.is_empty(), "rows of docs/scenarios.md without a test: {without:?}");
}
