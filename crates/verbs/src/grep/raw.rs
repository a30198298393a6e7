//! Whether a literal stands at a place in the raw bytes, with controls or escapes in it.
//!
//! Promise: what the decoded text has is found here; where only the whole decoding knows, the answer is yes.
//! Not here: which places are worth asking about (see `literals`), what controls and escapes mean (see `text`).
//! Start with [`is_at`]; [`next_break`] finds places.

use memchr::memchr;

use super::text::{Effect, Escaped, control, escaped, is_control};

/// How far one control is followed: a picture may have megabytes.
const MAX_CONTROL_BYTES: usize = 4096;
/// How much of a record is decoded to see what stands behind one.
const DECODED_BYTES: usize = 128;

/// What the bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// What a terminal got.
    Terminal,
    /// JSON, a record to a line; and whatever else an agent wrote on the same pipe.
    Records,
    /// JSON, a record to a line: the transcript that this agent keeps itself.
    Transcript(berth_transcript::Kind),
}

/// The first place at `from` or behind it that has one of `edges`, and right behind it something that may break a
/// literal. Some of what is found does not.
pub(crate) fn next_break<const N: usize>(
    bytes: &[u8],
    from: usize,
    kind: Kind,
    edges: [u8; N],
) -> Option<usize> {
    // Controls, and whatever is not ASCII: asking for both is one question, and the second hardly follows an edge.
    let is_control = |byte: u8| byte.wrapping_add(1).cast_signed() <= 0x20;
    match kind {
        Kind::Terminal => next_pair(bytes, from, edges, is_control),
        Kind::Records | Kind::Transcript(_) => {
            next_pair(bytes, from, edges, |byte| is_control(byte) | (byte == b'\\'))
        }
    }
}

/// In blocks of a known size, without an early end and without branches, which the compiler makes wide instructions of.
#[inline(always)]
fn next_pair<const N: usize>(
    bytes: &[u8],
    from: usize,
    edges: [u8; N],
    is_second: impl Fn(u8) -> bool + Copy,
) -> Option<usize> {
    const FAR: usize = 512;
    const NEAR: usize = 32;
    let mut at = from;
    while let Some(block) = bytes.get(at..at + FAR + 1) {
        if has_pair::<FAR, N>(block, edges, is_second) {
            let is_here = |near: &usize| has_pair::<NEAR, N>(&block[*near..=near + NEAR], edges, is_second);
            let near = (0..FAR).step_by(NEAR).find(is_here)?;
            let found =
                block[near..].windows(2).position(|two| edges.contains(&two[0]) && is_second(two[1]))?;
            return Some(at + near + found);
        }
        at += FAR;
    }
    let found = bytes.get(at..)?.windows(2).position(|two| edges.contains(&two[0]) && is_second(two[1]))?;
    Some(at + found)
}

#[inline(always)]
fn has_pair<const SIZE: usize, const N: usize>(
    block: &[u8],
    edges: [u8; N],
    is_second: impl Fn(u8) -> bool,
) -> bool {
    let Some((first, second)) = block.first_chunk::<SIZE>().zip(block.last_chunk::<SIZE>()) else {
        return true;
    };
    let mut found = 0;
    for at in 0..SIZE {
        let is_edge = edges.iter().fold(false, |is_edge, edge| is_edge | (first[at] == *edge));
        found |= u8::from(is_edge & is_second(second[at]));
    }
    found != 0
}

/// Whether the text that begins at `at` may begin with these bytes.
pub(crate) fn is_at(bytes: &[u8], at: usize, kind: Kind, wanted: &[u8]) -> bool {
    let rest = &bytes[at..];
    match kind {
        Kind::Terminal => is_in_terminal(rest, wanted),
        // What is no record is text.
        Kind::Records => is_in_terminal(rest, wanted) || is_in_record(rest, wanted),
        Kind::Transcript(_) => is_in_record(rest, wanted),
    }
}

fn is_in_terminal(bytes: &[u8], wanted: &[u8]) -> bool {
    let plain = bytes.iter().zip(wanted).take_while(|(here, wanted)| here == wanted).count();
    let (bytes, wanted) = (&bytes[plain..], &wanted[plain..]);
    match bytes.first() {
        _ if wanted.is_empty() => true,
        Some(byte) if is_control(*byte) => {
            let near = &bytes[..bytes.len().min(MAX_CONTROL_BYTES)];
            match memchr(b'\n', near) {
                Some(end) => goes_on(&near[..end], false, wanted),
                None => goes_on(near, near.len() < bytes.len(), wanted),
            }
        }
        Some(_) | None => false,
    }
}

/// Whether a line goes on with these bytes. Of one that is cut nobody knows how it goes on.
fn goes_on(line: &[u8], is_cut: bool, mut wanted: &[u8]) -> bool {
    let mut at = 0;
    while let [first, others @ ..] = wanted {
        let Some(byte) = line.get(at) else { return is_cut };
        if is_control(*byte) {
            let (length, effect) = control(&line[at..]);
            at += length;
            match effect {
                Effect::Joins => {}
                Effect::Space if *first == b' ' => wanted = others,
                Effect::Space | Effect::Breaks => return false,
                Effect::Unfinished => return is_cut,
            }
        } else if byte == first {
            (at, wanted) = (at + 1, others);
        } else {
            return false;
        }
    }
    true
}

fn is_in_record(bytes: &[u8], mut wanted: &[u8]) -> bool {
    let mut at = 0;
    while let [first, others @ ..] = wanted {
        match bytes.get(at) {
            Some(b'\\') => match escaped(&bytes[at..]) {
                Escaped::Character(c, _) if u8::try_from(c).is_ok_and(is_control) => {
                    return goes_on_decoded(&bytes[at..], wanted);
                }
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
            Some(byte) if is_control(*byte) => return goes_on_decoded(&bytes[at..], wanted),
            Some(byte) if byte == first => (at, wanted) = (at + 1, others),
            Some(_) | None => return false,
        }
    }
    true
}

/// Whether a text in a record goes on with these bytes where there is a control: a colour in what a tool printed.
fn goes_on_decoded(bytes: &[u8], wanted: &[u8]) -> bool {
    let mut text = [0; DECODED_BYTES];
    let (mut at, mut length) = (0, 0);
    while length + 4 <= DECODED_BYTES {
        match bytes.get(at) {
            None | Some(b'\n' | b'"') => return goes_on(&text[..length], false, wanted),
            Some(b'\\') => match escaped(&bytes[at..]) {
                Escaped::Character(c, count) => {
                    length += c.encode_utf8(&mut text[length..]).len();
                    at += count;
                }
                Escaped::LineEnd if bytes[at..].starts_with(b"\\n") => {
                    return goes_on(&text[..length], false, wanted);
                }
                // A carriage return in the middle of a control does not end it.
                Escaped::LineEnd | Escaped::Wrong => return goes_on(&text[..length], true, wanted),
            },
            Some(byte) => {
                text[length] = *byte;
                (at, length) = (at + 1, length + 1);
            }
        }
    }
    goes_on(&text[..length], true, wanted)
}

#[cfg(test)]
mod tests {
    use berth_harness::Seed;

    use super::*;

    #[test]
    fn no_break_is_passed_over_wherever_it_stands() {
        let mut seed = Seed::announce("breaks");
        for _ in 0..200 {
            let length = seed.below(3000) as usize;
            // Hardly any byte is an edge, so that what is far is seen from afar.
            let mut bytes: Vec<u8> = (0..length).map(|_| b'k' + seed.below(10) as u8).collect();
            for _ in 0..seed.below(8).min(length as u64) {
                bytes[seed.below(length as u64) as usize] = b"xy\x1b\x08\x7f\x00\\"[seed.below(7) as usize];
            }
            for pair in [&b"x\x1b"[..], b"y\x08", b"x\x7f", b"y\x00", b"x\\"] {
                let at = seed.below(length.max(3) as u64 - 1) as usize;
                if let Some(place) = bytes.get_mut(at..at + 2) {
                    place.copy_from_slice(pair);
                }
            }
            for kind in [Kind::Terminal, Kind::Records] {
                let is_break = |byte: u8| is_control(byte) || (kind == Kind::Records && byte == b'\\');
                let expected: Vec<usize> = (1..length)
                    .filter(|at| matches!(bytes[at - 1], b'x' | b'y') && is_break(bytes[*at]))
                    .map(|at| at - 1)
                    .collect();
                let mut found = Vec::new();
                let mut from = 0;
                while let Some(at) = next_break(&bytes, from, kind, *b"xy") {
                    found.push(at);
                    from = at + 1;
                }
                assert_eq!(found, expected, "{kind:?} in {bytes:?}");
            }
        }
    }

    #[test]
    fn what_stands_behind_a_colour_is_known_without_decoding_the_record() {
        let is_said = |record: &str| is_at(record.as_bytes(), 0, Kind::Records, b"error");
        assert!(is_said(r"e\u001b[31mrror") && is_said(r"\u0065\u001b[1mrr\u001B[0mor"));
        assert!(!is_said(r"e\u001b[31mvent") && !is_said(r"e\u001b[0m\nrror") && !is_said(r"e\u001b[Crror"));
        assert!(!is_said("e\\u001b[0m\"rror"), "the text ends before it");
        let far = format!("e\\u001b]0;{}\\u0007rror", "title".repeat(100));
        assert!(is_said(&far), "nobody looked so far");
    }
}
