//! Search pattern: parsing, options and limits.
//!
//! Promise: a bad pattern is refused with the place of the mistake; a pattern that can never match a line is refused as
//! well.
//! Start with [`SearchPattern::new`].

use berth_api::Problem;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

use super::literals::RequiredLiterals;

/// Limit for the memory of a pattern.
const MAX_PATTERN_BYTES: usize = 64 << 20;

/// Options of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PatternOptions {
    /// Ignores upper and lower case.
    pub ignore_case: bool,
    /// Matches only whole words.
    pub words: bool,
    /// Takes the pattern as plain characters, not as a regular expression.
    pub fixed: bool,
}

/// A compiled pattern. Each thread has its own clone.
#[derive(Clone, Debug)]
pub struct SearchPattern {
    /// Matches a line of text.
    pub(crate) regex: Regex,
    /// The fast path, if the pattern has one.
    pub(crate) literals: Option<RequiredLiterals>,
}

impl SearchPattern {
    /// Compiles a pattern that matches if one of these does.
    pub fn new(patterns: &[String], manner: PatternOptions) -> Result<Self, Problem> {
        Self::within(patterns, manner, MAX_PATTERN_BYTES)
    }

    /// Compiles a pattern with a smaller memory limit, for many searches at once.
    pub fn within(patterns: &[String], manner: PatternOptions, most_bytes: usize) -> Result<Self, Problem> {
        let mut alternatives = Vec::new();
        for pattern in patterns {
            let expression = if manner.fixed { regex_syntax::escape(pattern) } else { pattern.clone() };
            // Each pattern is parsed alone first, so that a mistake is shown in the text as typed.
            let parsed = parser(manner).parse(&expression).map_err(|error| bad(&error.to_string()))?;
            if has_line_end(&parsed) {
                return Err(Problem::usage(
                    "the pattern contains a line end, but the search goes line by line",
                )
                .hint("search for one of the lines; `-A 1` shows the line after it"));
            }
            alternatives.push(match manner.words {
                true => format!(r"\b{{start-half}}(?:{expression})\b{{end-half}}"),
                false => format!("(?:{expression})"),
            });
        }
        let expression = match &alternatives[..] {
            [only] => only.clone(),
            several => several.join("|"),
        };
        let regex = RegexBuilder::new(&expression)
            .case_insensitive(manner.ignore_case)
            .size_limit(most_bytes)
            .dfa_size_limit(most_bytes)
            .build()
            .map_err(|error| bad(&error.to_string()))?;
        let parsed = parser(manner).parse(&expression).map_err(|error| bad(&error.to_string()))?;
        Ok(Self { regex, literals: RequiredLiterals::of(&parsed) })
    }
}

fn parser(manner: PatternOptions) -> regex_syntax::Parser {
    ParserBuilder::new().utf8(false).case_insensitive(manner.ignore_case).build()
}

fn bad(error: &str) -> Problem {
    let what = error.strip_prefix("regex parse error:").unwrap_or(error);
    Problem::usage(format!("bad pattern:{}{what}", if what.starts_with('\n') { "" } else { " " }))
        .hint("`-F` searches for plain text")
}

fn has_line_end(pattern: &Hir) -> bool {
    match pattern.kind() {
        HirKind::Literal(literal) => literal.0.contains(&b'\n'),
        HirKind::Repetition(repetition) => has_line_end(&repetition.sub),
        HirKind::Capture(capture) => has_line_end(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(has_line_end),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}
