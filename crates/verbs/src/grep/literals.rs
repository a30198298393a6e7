//! Fast path of the search: finds characters that every match has, in the raw bytes on disk.
//!
//! A literal that a match has in the decoded text stands in the raw bytes as it is, or something is in it: a control (a
//! colour in what a terminal got), or an escape (in a record). One regex says all of that, for terminals and for records.
//! Promise: a line with a match is always a candidate; some candidates have none.
//! Not here: the decision whether a line matches (see `lines`).
//! Start with [`RequiredLiterals::of`], then [`RequiredLiterals::next`].

use std::cmp::Reverse;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::literal::{Extractor, Seq};
use regex_syntax::hir::{Hir, HirKind};

/// Limit for literals. Upper and lower case of five letters are 32.
const MAX_LITERALS: usize = 32;
/// Limit for the length of a literal. Longer ones find nothing faster.
const MAX_LITERAL_BYTES: usize = 12;

/// The byte that most controls begin with, as a terminal gets it and in a record.
const ESC: &str = r"(?:\x1b|\\u001[bB])";
/// A colour, or another control of the same form: its end is known.
const COLOUR: &str = r"(?:\x1b|\\u001[bB])\[[^@-~\n\x18\x1a\x1b]*[@-~\x18\x1a]?";
/// Any other control. Its end is not looked for: the literal may go on anywhere behind it on the line.
const OTHER: &str = r"(?:[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]|\\u00(?:0[0-9a-fA-F]|1[0-9ac-fAC-F]|7[fF])|\\[bf]|(?:\x1b|\\u001[bB])(?:[^\[\n]|\[[^@-~\n]*\\))[^\n]*";

/// A set of literals of which every match has one.
#[derive(Clone, Debug)]
pub(crate) struct RequiredLiterals(Regex);

impl RequiredLiterals {
    /// The longest literals of this pattern. `None` if it has none that can be searched for.
    pub(crate) fn of(pattern: &Hir) -> Option<Self> {
        let shortest = |literals: &[String]| literals.iter().map(String::len).min().unwrap_or(0);
        let sets = required(pattern).into_iter().filter(|literals| shortest(literals) > 1);
        let best = sets.max_by_key(|literals| (shortest(literals), Reverse(literals.len())))?;
        let between = format!("(?:{ESC}|{COLOUR})*(?:{OTHER})?");
        let raw = |literal: &String| literal.chars().map(as_written).collect::<Vec<_>>().join(&between);
        let alternatives: Vec<String> = best.iter().map(raw).collect();
        RegexBuilder::new(&alternatives.join("|")).unicode(false).build().ok().map(Self)
    }

    /// The first place at or after `from` at which a literal is, or may be.
    pub(crate) fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        self.0.find_at(bytes, from).map(|found| found.start())
    }
}

/// Every form of a character on disk. A cursor movement may stand for a space.
fn as_written(c: char) -> String {
    let bytes = |text: &str| text.bytes().map(|byte| format!(r"\x{byte:02x}")).collect::<String>();
    let units = c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!(r"\\u{unit:04x}")).collect::<String>();
    let other = match c {
        '"' | '\\' | '/' => format!(r"|\\{}", bytes(c.encode_utf8(&mut [0; 4]))),
        '\t' => r"|\\t".to_owned(),
        ' ' => format!("|{COLOUR}|{OTHER}"),
        _ => String::new(),
    };
    format!("(?:{}|(?i:{units}){other})", bytes(c.encode_utf8(&mut [0; 4])))
}

/// Sets of literals of which every match has at least one.
fn required(pattern: &Hir) -> Vec<Vec<String>> {
    let parts: Vec<Hir> = match pattern.kind() {
        HirKind::Concat(parts) => parts.clone(),
        HirKind::Capture(capture) => return required(&capture.sub),
        HirKind::Empty
        | HirKind::Literal(_)
        | HirKind::Class(_)
        | HirKind::Look(_)
        | HirKind::Repetition(_)
        | HirKind::Alternation(_) => vec![pattern.clone()],
    };
    // For each part the literals of the rest of the pattern from there on: a match contains every part.
    (0..parts.len()).filter_map(|first| usable(&Hir::concat(parts[first..].to_vec()))).collect()
}

/// As many literals as the limit allows, which makes them shorter; each is cut to whole characters.
fn usable(pattern: &Hir) -> Option<Vec<String>> {
    let mut seq: Seq = Extractor::new().extract(pattern);
    let mut most = MAX_LITERAL_BYTES;
    loop {
        seq.keep_first_bytes(most);
        seq.sort();
        seq.dedup();
        if seq.len()? <= MAX_LITERALS {
            break;
        }
        most = most.checked_sub(1).filter(|most| *most > 0)?;
    }
    let whole = |literal: &[u8]| literal.utf8_chunks().next().map(|chunk| chunk.valid().to_owned());
    seq.literals()?.iter().map(|literal| whole(literal.as_bytes())).collect()
}
