//! The short way: characters that every match has, looked for in the bytes as they are on disk.
//!
//! A literal that a match has in the decoded text is in the raw bytes as a whole, or it is broken by a control (in
//! what a terminal got) or by an escape (in a record). In the second case its beginning stands right before the first
//! of those, so it is enough to look at each of them, and to walk on from there.
//! Promise: a line with a match is always a candidate; some candidates have none.
//! Not here: whether the line matches (see `lines`).
//! Start with [`Literals::of`], then [`Literals::candidates`].

use memchr::{memchr, memchr2};
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::literal::{Extractor, Seq};
use regex_syntax::hir::{Hir, HirKind};

use super::text::{ESC, Effect, Escaped, control, escaped, is_control};

/// How many literals are looked for at once: as many as the fast searchers take.
const MAX_LITERALS: usize = 16;
/// Longer ones find nothing faster.
const MAX_LITERAL_BYTES: usize = 32;

/// What the bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// What a terminal got.
    Terminal,
    /// JSON, a record to a line; and whatever else an agent wrote on the same pipe.
    Records,
}

/// A set of literals of which every match has one.
#[derive(Clone, Debug)]
pub(crate) struct Literals {
    finder: Regex,
    all: Vec<Vec<u8>>,
    /// For each byte: the beginnings of literals that end with it, as (literal, length).
    beginnings: Vec<Vec<(usize, usize)>>,
}

impl Literals {
    /// The best there are in this pattern. `None` if it has none that could be looked for.
    pub(crate) fn of(pattern: &Hir) -> Option<Self> {
        let all = required(pattern)?;
        let alternatives: Vec<String> = all.iter().map(|literal| bytes_pattern(literal)).collect();
        let finder = RegexBuilder::new(&alternatives.join("|")).unicode(false).build().ok()?;
        let mut beginnings = vec![Vec::new(); 256];
        for (number, literal) in all.iter().enumerate() {
            for length in 1..literal.len() {
                beginnings[usize::from(literal[length - 1])].push((number, length));
            }
        }
        Some(Self { finder, all, beginnings })
    }

    /// The places in `bytes` at which a literal is, or may be: in order, and any number of times per line.
    pub(crate) fn candidates<'a>(&'a self, bytes: &'a [u8], kind: Kind) -> Candidates<'a> {
        let is_odd = has_odd_controls(bytes);
        Candidates { literals: self, bytes, kind, is_odd, plain: Next::Unknown, broken: Next::Unknown }
    }

    /// Whether a literal that begins before the control or escape at `at`, or with it, goes on behind it.
    fn goes_on(&self, bytes: &[u8], at: usize, kind: Kind) -> bool {
        let before = &bytes[..at];
        let line = || &bytes[at..at + memchr(b'\n', &bytes[at..]).unwrap_or(bytes.len() - at)];
        if kind == Kind::Records && self.all.iter().any(|literal| begins_escaped(line(), literal)) {
            return true;
        }
        let Some(last) = before.last() else { return false };
        self.beginnings[usize::from(*last)].iter().any(|(number, length)| {
            let (begin, rest) = self.all[*number].split_at(*length);
            before.ends_with(begin)
                && match kind {
                    Kind::Terminal => goes_on_in_terminal(line(), rest),
                    Kind::Records => goes_on_in_record(line(), rest),
                }
        })
    }
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
    /// There are controls besides escape sequences and line ends.
    is_odd: bool,
    plain: Next,
    broken: Next,
}

impl Candidates<'_> {
    /// The first candidate at `from` or behind it; `from` never goes back.
    pub(crate) fn next(&mut self, from: usize) -> Option<usize> {
        let is_behind = |next: &Next| match next {
            Next::Unknown => true,
            Next::At(at) => *at < from,
            Next::Never => false,
        };
        let known = |found: Option<usize>| found.map_or(Next::Never, Next::At);
        if is_behind(&self.plain) {
            self.plain = known(self.literals.finder.find_at(self.bytes, from).map(|found| found.start()));
        }
        if is_behind(&self.broken) {
            self.broken = known(self.next_broken(from));
        }
        match (self.plain, self.broken) {
            (Next::At(plain), Next::At(broken)) => Some(plain.min(broken)),
            (Next::At(at), _) | (_, Next::At(at)) => Some(at),
            (Next::Unknown | Next::Never, Next::Unknown | Next::Never) => None,
        }
    }

    fn next_broken(&self, from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            let rest = &self.bytes[at..];
            let found = match (self.is_odd, self.kind) {
                (false, Kind::Terminal) => memchr(ESC, rest),
                (false, Kind::Records) => memchr2(b'\\', ESC, rest),
                (true, Kind::Terminal) => rest.iter().position(|byte| is_control(*byte)),
                (true, Kind::Records) => rest.iter().position(|byte| *byte == b'\\' || is_control(*byte)),
            };
            at += found?;
            if self.literals.goes_on(self.bytes, at, self.kind) {
                return Some(at);
            }
            at += 1;
        }
    }
}

fn has_odd_controls(bytes: &[u8]) -> bool {
    let is_odd = |byte: u8| (byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | ESC)) || byte == 0x7f;
    // In blocks without an early end, which the compiler makes wide instructions of.
    bytes.chunks(4096).any(|block| block.iter().fold(false, |odd, byte| odd | is_odd(*byte)))
}

fn goes_on_in_terminal(line: &[u8], rest: &[u8]) -> bool {
    let (mut at, mut wanted) = (0, rest);
    while let [first, others @ ..] = wanted {
        let Some(byte) = line.get(at) else { return false };
        if is_control(*byte) {
            let (length, effect) = control(&line[at..]);
            at += length;
            match effect {
                Effect::Joins => {}
                Effect::Space if *first == b' ' => wanted = others,
                Effect::Space | Effect::Breaks | Effect::Unfinished => return false,
            }
        } else if byte == first {
            (at, wanted) = (at + 1, others);
        } else {
            return false;
        }
    }
    true
}

fn goes_on_in_record(line: &[u8], rest: &[u8]) -> bool {
    let (mut at, mut wanted) = (0, rest);
    while let [first, others @ ..] = wanted {
        match line.get(at) {
            None => return false,
            Some(b'\\') => match escaped(&line[at..]) {
                // Colours in what a tool printed: only the whole decoding knows.
                Escaped::Character(c, _) if u8::try_from(c).is_ok_and(is_control) => return true,
                Escaped::Character(c, length) => {
                    let mut buffer = [0; 4];
                    let bytes = c.encode_utf8(&mut buffer).as_bytes();
                    let common = bytes.len().min(wanted.len());
                    if bytes[..common] != wanted[..common] {
                        return false;
                    }
                    (at, wanted) = (at + length, &wanted[common..]);
                }
                Escaped::LineEnd => return false,
                Escaped::Wrong => return true,
            },
            Some(byte) if is_control(*byte) => return true,
            Some(byte) if byte == first => (at, wanted) = (at + 1, others),
            Some(_) => return false,
        }
    }
    true
}

/// Whether the escape that `line` begins with is the first character of the literal, and the rest follows.
fn begins_escaped(line: &[u8], literal: &[u8]) -> bool {
    match (line.first(), escaped(line)) {
        (Some(b'\\'), Escaped::Character(c, _)) => {
            !u8::try_from(c).is_ok_and(is_control) && goes_on_in_record(line, literal)
        }
        (_, Escaped::Character(..) | Escaped::LineEnd | Escaped::Wrong) => false,
    }
}

fn bytes_pattern(literal: &[u8]) -> String {
    literal.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// Literals of which every match has at least one; the longest there are.
fn required(pattern: &Hir) -> Option<Vec<Vec<u8>>> {
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
    let from = (0..parts.len()).filter_map(|first| usable(&Hir::concat(parts[first..].to_vec())));
    let length = |literals: &[Vec<u8>]| literals.iter().map(Vec::len).min().unwrap_or(0);
    from.max_by_key(|literals| (length(literals).min(8), std::cmp::Reverse(literals.len()), length(literals)))
}

fn usable(pattern: &Hir) -> Option<Vec<Vec<u8>>> {
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
    // A space may be a step of the cursor, which is found only behind something else.
    let trimmed = seq.literals()?.iter().map(|literal| {
        let begin = literal.as_bytes().iter().position(|byte| *byte != b' ')?;
        Some(literal.as_bytes()[begin..].to_vec())
    });
    let mut literals = trimmed.collect::<Option<Vec<_>>>()?;
    literals.sort();
    literals.dedup();
    // The second half of a character is no place to begin: an escape stands for whole ones.
    let begins_whole = |literal: &Vec<u8>| literal.first().is_some_and(|byte| byte & 0xc0 != 0x80);
    (!literals.is_empty() && literals.iter().all(begins_whole)).then_some(literals)
}
