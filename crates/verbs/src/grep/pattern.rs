//! What is looked for.
//!
//! Promise: a bad pattern is refused with the place that is wrong; a pattern that could never match a line is, too.
//! Start with [`Pattern::new`].

use berth_api::{Code, Problem};
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

use super::literals::Literals;

/// The most memory a pattern may need.
const MAX_PATTERN_BYTES: usize = 64 << 20;

/// How people want their words to be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Manner {
    /// Upper and lower case are the same.
    pub ignore_case: bool,
    /// Only whole words.
    pub words: bool,
    /// No expression: the characters themselves.
    pub fixed: bool,
}

/// A pattern, ready to be used. Each thread has its own clone.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Matches a line of text.
    pub(crate) regex: Regex,
    /// The short way, if there is one.
    pub(crate) literals: Option<Literals>,
}

impl Pattern {
    /// One of these has to match.
    pub fn new(patterns: &[String], manner: Manner) -> Result<Self, Problem> {
        Self::within(patterns, manner, MAX_PATTERN_BYTES)
    }

    /// The same with less memory, where many search at once.
    pub fn within(patterns: &[String], manner: Manner, most_bytes: usize) -> Result<Self, Problem> {
        let mut alternatives = Vec::new();
        for pattern in patterns {
            let expression = if manner.fixed { regex_syntax::escape(pattern) } else { pattern.clone() };
            // Alone first, so that a mistake is shown in what was typed.
            let parsed = parser(manner).parse(&expression).map_err(|error| bad(&error.to_string()))?;
            if has_line_end(&parsed) {
                return Err(Problem::new(Code::Usage, "the pattern has a line end, and lines are searched")
                    .hint("look for one of the lines; `-A 1` shows the one behind it"));
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
        Ok(Self { regex, literals: Literals::of(&parsed) })
    }
}

fn parser(manner: Manner) -> regex_syntax::Parser {
    ParserBuilder::new().utf8(false).case_insensitive(manner.ignore_case).build()
}

fn bad(error: &str) -> Problem {
    let what = error.strip_prefix("regex parse error:").unwrap_or(error);
    Problem::new(Code::Usage, format!("bad pattern:{}{what}", if what.starts_with('\n') { "" } else { " " }))
        .hint("`-F` looks for the characters as they are")
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
