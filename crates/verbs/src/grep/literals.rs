//! The short way: characters that every match has, chosen so that they are quick to find in the bytes on disk.
//!
//! A literal that a match has in the decoded text stands in the raw bytes as it is, or it is broken: by a control (in
//! what a terminal got) or by an escape (in a record). Looking at every control and every escape would cost more than
//! all the rest, so only the first few bytes of the literal are looked for, its *head*. Where the literal begins, there is
//!
//! - the whole head, as it is: `fus`, or
//! - a beginning of the head with a break behind it: `f` or `fu` before a control or a backslash, or
//! - in a record, an escape for its first character: `\u0066`.
//!
//! All three are looked for with wide instructions, and from each such place a walk over the raw bytes (see `raw`) says
//! whether the rest of the literal follows. The literal need not begin where the pattern does: its rarest part is best.
//! Promise: a line with a match is always a candidate; some candidates have none.
//! Not here: whether the line matches (see `lines`).
//! Start with [`Literals::of`], then [`Literals::candidates`].

use std::collections::BTreeSet;

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::literal::{Extractor, Seq};
use regex_syntax::hir::{Hir, HirKind};

use super::raw::{self, Kind};

/// How many heads are looked for at once: as many as the fast searchers take.
const MAX_HEADS: usize = 16;
/// How many literals there may be: each walk tries all of them. Upper and lower case of six letters are 64.
const MAX_LITERALS: usize = 96;
/// Longer ones find nothing faster.
const MAX_LITERAL_BYTES: usize = 32;
/// The longest head: each byte more is one more that may stand before a break.
const MAX_HEAD_BYTES: usize = 4;
/// How many bytes may stand before a break.
const MAX_EDGES: usize = 8;
/// How many escapes are looked for one by one.
const MAX_ESCAPES: usize = 2;

/// A set of literals of which every match has one.
#[derive(Clone, Debug)]
pub(crate) struct Literals {
    all: Vec<Vec<u8>>,
    head_bytes: usize,
    heads: Finder,
    /// The bytes before which a head may be broken, the last one repeated.
    edges: Edges,
    /// What the first character of a literal may be written as in a record.
    escapes: Vec<memmem::Finder<'static>>,
}

/// Finds any of a set.
#[derive(Clone, Debug)]
enum Finder {
    One(Box<memmem::Finder<'static>>),
    Several(Regex),
}

impl Finder {
    fn of(set: &BTreeSet<&[u8]>) -> Option<Self> {
        if let Some(only) = set.first().filter(|_| set.len() == 1) {
            return Some(Self::One(Box::new(memmem::Finder::new(only).into_owned())));
        }
        let pattern = |bytes: &&[u8]| bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
        let alternatives: Vec<String> = set.iter().map(pattern).collect();
        RegexBuilder::new(&alternatives.join("|")).unicode(false).build().ok().map(Self::Several)
    }

    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        match self {
            Self::One(finder) => Some(from + finder.find(bytes.get(from..)?)?),
            Self::Several(regex) => regex.find_at(bytes, from).map(|found| found.start()),
        }
    }
}

/// A set of bytes, of a size that is known when compiling: that is what makes wide instructions of it.
#[derive(Clone, Copy, Debug)]
enum Edges {
    None,
    One([u8; 1]),
    Two([u8; 2]),
    Four([u8; 4]),
    Eight([u8; MAX_EDGES]),
}

impl Edges {
    fn of(set: &BTreeSet<u8>) -> Option<Self> {
        fn filled<const N: usize>(set: &BTreeSet<u8>) -> [u8; N] {
            let mut bytes = set.iter().copied().cycle();
            std::array::from_fn(|_| bytes.next().unwrap_or(0))
        }
        match set.len() {
            0 => Some(Self::None),
            1 => Some(Self::One(filled(set))),
            2 => Some(Self::Two(filled(set))),
            3..=4 => Some(Self::Four(filled(set))),
            5..=MAX_EDGES => Some(Self::Eight(filled(set))),
            _ => None,
        }
    }

    fn next(self, bytes: &[u8], from: usize, kind: Kind) -> Option<usize> {
        match self {
            Self::None => None,
            Self::One(edges) => raw::next_break(bytes, from, kind, edges),
            Self::Two(edges) => raw::next_break(bytes, from, kind, edges),
            Self::Four(edges) => raw::next_break(bytes, from, kind, edges),
            Self::Eight(edges) => raw::next_break(bytes, from, kind, edges),
        }
    }
}

impl Literals {
    /// The best there are in this pattern. `None` if it has none that could be looked for.
    pub(crate) fn of(pattern: &Hir) -> Option<Self> {
        let choices = required(pattern).into_iter().flat_map(choices);
        let priced = choices.map(|choice| (choice.cost(), choice));
        let (_, best) = priced.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        let escapes = escapes(&best.literals);
        let (heads, edges) = (Finder::of(&best.heads())?, Edges::of(&best.edges())?);
        Some(Self { head_bytes: best.head_bytes, heads, edges, escapes, all: best.literals })
    }

    /// The places in `bytes` at which a literal is, or may be: in order, and any number of times per line.
    pub(crate) fn candidates<'a>(&'a self, bytes: &'a [u8], kind: Kind) -> Candidates<'a> {
        let escapes = match kind {
            Kind::Terminal => &[][..],
            Kind::Records | Kind::Transcript(_) => &self.escapes,
        };
        let mut ways = [const { None }; MAX_ESCAPES + 2];
        let all = [Way::Whole, Way::Broken].into_iter().chain(escapes.iter().map(Way::Escaped));
        ways.iter_mut().zip(all).for_each(|(place, way)| *place = Some((way, Next::Unknown)));
        Candidates { literals: self, bytes, kind, ways }
    }

    fn is_at(&self, bytes: &[u8], at: usize, kind: Kind) -> bool {
        self.all.iter().any(|literal| raw::is_at(bytes, at, kind, literal))
    }

    /// Whether a literal begins right before the break behind `edge`, and goes on behind it.
    fn is_broken_at(&self, bytes: &[u8], edge: usize, kind: Kind) -> bool {
        self.all.iter().any(|literal| {
            (1..self.head_bytes).any(|length| {
                let (begin, rest) = literal.split_at(length);
                bytes[..=edge].ends_with(begin) && raw::is_at(bytes, edge + 1, kind, rest)
            })
        })
    }
}

/// How a literal may begin.
#[derive(Clone, Copy, Debug)]
enum Way<'a> {
    Whole,
    Broken,
    Escaped(&'a memmem::Finder<'static>),
}

/// Where to look next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Unknown,
    At(usize),
    Never,
}

/// See [`Literals::candidates`].
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    literals: &'a Literals,
    bytes: &'a [u8],
    kind: Kind,
    ways: [Option<(Way<'a>, Next)>; MAX_ESCAPES + 2],
}

impl Candidates<'_> {
    /// The first candidate at `from` or behind it; `from` never goes back.
    pub(crate) fn next(&mut self, from: usize) -> Option<usize> {
        let (literals, bytes, kind) = (self.literals, self.bytes, self.kind);
        let first_of = |way: Way<'_>| {
            let mut from = from;
            loop {
                let (at, is_candidate) = match way {
                    Way::Whole => {
                        let at = literals.heads.next(bytes, from)?;
                        (at, literals.is_at(bytes, at, kind))
                    }
                    Way::Broken => {
                        let at = literals.edges.next(bytes, from, kind)?;
                        (at, literals.is_broken_at(bytes, at, kind))
                    }
                    Way::Escaped(finder) => {
                        let at = from + finder.find(bytes.get(from..)?)?;
                        (at, literals.is_at(bytes, at, kind))
                    }
                };
                if is_candidate {
                    return Some(at);
                }
                from = at + 1;
            }
        };
        let mut first = None;
        for (way, next) in self.ways.iter_mut().flatten() {
            let is_behind = match next {
                Next::Unknown => true,
                Next::At(at) => *at < from,
                Next::Never => false,
            };
            if is_behind {
                *next = first_of(*way).map_or(Next::Never, Next::At);
            }
            if let Next::At(at) = *next {
                first = Some(first.map_or(at, |first: usize| first.min(at)));
            }
        }
        first
    }
}

/// What could be looked for.
#[derive(Debug)]
struct Choice {
    literals: Vec<Vec<u8>>,
    head_bytes: usize,
}

impl Choice {
    fn heads(&self) -> BTreeSet<&[u8]> {
        self.literals.iter().map(|literal| &literal[..self.head_bytes]).collect()
    }

    fn edges(&self) -> BTreeSet<u8> {
        self.literals.iter().flat_map(|literal| &literal[..self.head_bytes - 1]).copied().collect()
    }

    /// About how many nanoseconds a byte of output takes. Only which one is less matters.
    fn cost(&self) -> f64 {
        const PER_WALK_NS: f64 = 25.0;
        const PER_LINE_NS: f64 = 3000.0;
        /// In coloured output and in records, that many bytes have a break behind them.
        const BROKEN: f64 = 0.05;
        let all = |bytes: &[u8]| bytes.iter().map(|byte| share(*byte)).product::<f64>();
        // Letters come in words: `by ` is far more common than its letters make it look.
        let (in_head, in_words) = (|bytes: &[u8]| all(bytes).powf(0.8), |bytes: &[u8]| all(bytes).powf(0.6));
        let (heads, edges) = (self.heads(), self.edges());
        let walk = PER_WALK_NS * (1.0 + self.literals.len() as f64 / 8.0);
        let whole: f64 = heads.iter().map(|head| in_head(head)).sum();
        let broken: f64 = edges.iter().map(|edge| share(*edge) * BROKEN).sum();
        let lines: f64 = self.literals.iter().map(|literal| in_words(literal)).sum();
        let scan = 0.05 * (1.0 + f64::from(u8::from(heads.len() > 1))) + 0.01 * edges.len() as f64;
        scan + (whole + 2.0 * broken) * walk + lines * PER_LINE_NS
    }
}

/// How many of all bytes are this one, in what agents write: text, code, paths, JSON, colours.
fn share(byte: u8) -> f64 {
    let in_a_thousand = match byte {
        b' ' => 120.0,
        b'e' | b't' => 60.0,
        b'a' | b'i' | b'n' | b'o' | b'r' | b's' => 45.0,
        b'c' | b'd' | b'l' | b'm' | b'u' => 25.0,
        b'"' | b'\\' | b'[' | b'0'..=b'9' => 20.0,
        b'f' | b'g' | b'h' | b'p' => 15.0,
        b',' | b'-' | b'.' | b'/' | b':' | b';' | b'_' | b'(' | b')' => 10.0,
        b'b' | b'k' | b'v' | b'w' | b'y' => 8.0,
        // Frames and lines that programs paint.
        0xe2 | 0x80..=0x9f => 20.0,
        b'j' | b'q' | b'x' | b'z' => 2.0,
        _ => 3.0,
    };
    in_a_thousand / 1000.0
}

/// Every place in the literals at which one could begin to look, and every length of a head.
fn choices(literals: Vec<Vec<u8>>) -> impl Iterator<Item = Choice> {
    let shortest = literals.iter().map(Vec::len).min().unwrap_or(0);
    // A space may be a step of the cursor, which is found only behind something else; and the second half of a
    // character is no place to begin: an escape stands for whole ones.
    let is_beginning = |byte: u8| byte != b' ' && byte & 0xc0 != 0x80;
    let begins: Vec<usize> =
        (0..shortest).filter(|at| literals.iter().all(|literal| is_beginning(literal[*at]))).collect();
    begins.into_iter().flat_map(move |begin| {
        let ends: BTreeSet<Vec<u8>> = literals.iter().map(|literal| literal[begin..].to_vec()).collect();
        let literals: Vec<Vec<u8>> = ends.into_iter().collect();
        let choice = move |head_bytes| Choice { literals: literals.clone(), head_bytes };
        let is_possible =
            |choice: &Choice| choice.heads().len() <= MAX_HEADS && choice.edges().len() <= MAX_EDGES;
        (1..=MAX_HEAD_BYTES.min(shortest - begin)).map(choice).filter(is_possible)
    })
}

/// How the first character of a literal may be written in a record, except as it is.
fn escapes(literals: &[Vec<u8>]) -> Vec<memmem::Finder<'static>> {
    let escapes = literals.iter().filter_map(|literal| literal.first()).flat_map(|first| {
        let short = match first {
            b'"' | b'\\' | b'/' => Some(format!("\\{}", char::from(*first))),
            b'\t' => Some("\\t".to_owned()),
            _ => None,
        };
        // The second half of the number may have letters, large or small.
        let long = if first.is_ascii() { format!("\\u00{:x}", first >> 4) } else { "\\u".to_owned() };
        short.into_iter().chain([long])
    });
    let mut all: BTreeSet<String> = escapes.collect();
    if all.len() > MAX_ESCAPES {
        all = BTreeSet::from(["\\".to_owned()]);
    }
    all.iter().map(|escape| memmem::Finder::new(escape).into_owned()).collect()
}

/// Sets of literals of which every match has at least one.
fn required(pattern: &Hir) -> Vec<Vec<Vec<u8>>> {
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
    // What a match has from each part on; every part is in it somewhere.
    let from = (0..parts.len()).map(|first| Hir::concat(parts[first..].to_vec()));
    from.flat_map(|part| [MAX_HEADS, MAX_LITERALS].map(|most| usable(&part, most))).flatten().collect()
}

/// So many literals at most, which makes them shorter.
fn usable(pattern: &Hir, count: usize) -> Option<Vec<Vec<u8>>> {
    let mut seq: Seq = Extractor::new().extract(pattern);
    let mut most = MAX_LITERAL_BYTES;
    loop {
        seq.keep_first_bytes(most);
        seq.sort();
        seq.dedup();
        if seq.len()? <= count {
            break;
        }
        most = most.checked_sub(1).filter(|most| *most > 0)?;
    }
    Some(seq.literals()?.iter().map(|literal| literal.as_bytes().to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::super::pattern::{Manner, Pattern};

    #[test]
    fn what_is_looked_for_is_rare_and_is_enough_to_know_a_line() {
        let chosen = |pattern: &str, ignore_case| {
            let manner = Manner { ignore_case, ..Manner::default() };
            let literals = Pattern::new(&[pattern.to_owned()], manner).unwrap().literals;
            literals.map(|literals| literals.all).unwrap_or_default()
        };
        assert_eq!(chosen(r"refused by \w+ after \d+ms", false), [b"fused by "]);
        let long = chosen("connection refused by upstream", false);
        assert!(long.len() == 1 && long[0].len() >= 10, "{long:?}");
        let either = chosen("connection refused", true);
        assert!(either.contains(&b"fused".to_vec()) && either.contains(&b"FuSeD".to_vec()), "{either:?}");
        assert!(chosen(r"\d+", false).is_empty() && chosen(" +", false).is_empty());
    }
}
