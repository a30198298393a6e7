//! The source tree, as the checks in `tests/tree/` read it: Rust files, type definitions, comments.
//!
//! Promise: reads only files of this checkout, and changes none.
//! Not here: the rules (see `tests/tree/`), formatting and lints (rustfmt and clippy).
//! Start with [`rust_files`].

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// Directories without sources of this project.
const FOREIGN_DIRS: [&str; 3] = ["target", "node_modules", "vendor"];
/// Keywords that define a type.
const TYPE_KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "union", "type"];

/// One Rust source file.
#[derive(Debug)]
pub struct SourceFile {
    /// Path below the root of the workspace.
    pub path: PathBuf,
    /// Text of the file.
    pub text: String,
}

/// A run of comment lines without anything between them.
#[derive(Debug)]
pub struct CommentBlock {
    /// Number of the first line, from 1.
    pub line: usize,
    /// True for `///`, false for `//` and `//!`.
    pub is_item_doc: bool,
    /// Text without the markers, lines joined by spaces.
    pub text: String,
    /// The first line behind the comment that is not an attribute: the item, for a comment of an item.
    pub item: String,
}

/// Root directory of the workspace.
pub fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).expect("the workspace")
}

/// All Rust files of the workspace, in the order of their paths.
pub fn rust_files() -> Vec<SourceFile> {
    let root = root();
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    paths.sort();
    let read = |path: PathBuf| SourceFile {
        text: fs::read_to_string(&path).expect("a source file is text"),
        path: path.strip_prefix(&root).expect("a path below the root").to_path_buf(),
    };
    paths.into_iter().map(read).collect()
}

fn collect(dir: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() && !name.starts_with('.') && !FOREIGN_DIRS.contains(&name.as_str()) {
            collect(&path, paths);
        } else if name.ends_with(".rs") {
            paths.push(path);
        }
    }
}

impl SourceFile {
    /// Names of the types that the file defines. Associated types and types made by macros are left out.
    pub fn type_names(&self) -> Vec<&str> {
        self.text.lines().filter_map(defined_type).collect()
    }

    /// The comments of the file, from the first to the last.
    pub fn comments(&self) -> Vec<CommentBlock> {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut blocks: Vec<CommentBlock> = Vec::new();
        let mut at = 0;
        while at < lines.len() {
            let Some((marker, _)) = comment(lines[at]) else {
                at += 1;
                continue;
            };
            let begin = at;
            let mut words = Vec::new();
            while let Some((_, text)) =
                lines.get(at).and_then(|line| comment(line)).filter(|(found, _)| *found == marker)
            {
                words.push(text);
                at += 1;
            }
            let item = lines[at..].iter().map(|line| line.trim()).find(|line| !line.starts_with("#["));
            blocks.push(CommentBlock {
                line: begin + 1,
                is_item_doc: marker == "///",
                text: words.join(" ").trim().to_owned(),
                item: item.unwrap_or_default().to_owned(),
            });
        }
        blocks
    }
}

/// The type that a line defines.
fn defined_type(line: &str) -> Option<&str> {
    let mut code = line.trim_start();
    let is_nested = code.len() < line.len();
    if let Some(rest) = code.strip_prefix("pub") {
        code = rest
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .map_or(rest, |(_, rest)| rest)
            .trim_start();
    }
    let (keyword, rest) = code.split_once(' ')?;
    // Below an `impl` or a `trait`, `type` is an associated type.
    if !TYPE_KEYWORDS.contains(&keyword) || (keyword == "type" && is_nested) {
        return None;
    }
    let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    name.starts_with(|letter: char| letter.is_ascii_uppercase()).then_some(name)
}

/// The marker and the text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim();
    let marker = ["///", "//!", "//"].into_iter().find(|marker| line.starts_with(marker))?;
    Some((marker, line[marker.len()..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_found_with_any_visibility_and_an_associated_type_is_not() {
        let defined = ["struct A;", "pub(super) enum A {", "    pub struct A<T>(T);", "pub type A = u8;"];
        assert!(defined.iter().all(|line| defined_type(line) == Some("A")));
        assert_eq!(defined_type("    type A = u8;"), None);
        assert_eq!(defined_type("let kind = structure;"), None);
    }

    #[test]
    fn a_comment_is_one_block_and_knows_its_item() {
        let text = "/// One.\n/// Two.\n#[derive(Debug)]\nstruct A; // not alone\n// Three.\n".to_owned();
        let comments = SourceFile { path: PathBuf::new(), text }.comments();
        let found: Vec<_> = comments.iter().map(|block| (block.text.as_str(), block.item.as_str())).collect();
        assert_eq!(found, [("One. Two.", "struct A; // not alone"), ("Three.", "")]);
    }
}
