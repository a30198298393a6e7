//! One JSON value, checked and walked through without keeping it.
//!
//! Promise: a value is accepted if and only if it is well-formed JSON (RFC 8259, not nested deeper than
//! [`MAX_DEPTH`]); a visitor hears of keys and scalars only from where they really are, however a string inside
//! looks. Memory does not depend on the size of the value: whoever gives the bytes gives them in windows.
//! Not here: whether the bytes are UTF-8 (see `lines`), what a key means (see `head`).
//! Start with [`value`].

use memchr::memchr2;

/// How deep values may be nested.
pub(crate) const MAX_DEPTH: usize = 512;
/// The longest text that is shown to a visitor. Ids, times and names of kinds are shorter.
pub(crate) const MAX_SHOWN_BYTES: usize = 512;

/// Where bytes come from.
pub(crate) trait Bytes {
    /// What can be looked at now. Empty at the end, and only there.
    fn window(&mut self) -> &[u8];
    /// Passes over some of the window.
    fn pass(&mut self, count: usize);
    /// How far this is from the beginning of the file.
    fn offset(&self) -> u64;
}

/// Bytes that are all there.
#[derive(Debug)]
pub(crate) struct Slice<'a> {
    all: &'a [u8],
    at: usize,
    /// Where in the file it begins.
    begins_at: u64,
}

impl<'a> Slice<'a> {
    pub(crate) fn new(all: &'a [u8], begins_at: u64) -> Self {
        Self { all, at: 0, begins_at }
    }
}

impl Bytes for Slice<'_> {
    fn window(&mut self) -> &[u8] {
        &self.all[self.at..]
    }

    fn pass(&mut self, count: usize) {
        self.at += count;
    }

    fn offset(&self) -> u64 {
        self.begins_at + self.at as u64
    }
}

/// What is not an object, an array or a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plain {
    True,
    False,
    Null,
    Number,
}

/// A string value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    /// As it is written, without the quotes; nothing if it is longer than is shown.
    pub(crate) raw: Option<&'a [u8]>,
    /// Where its first quote is, and where it ends behind the last one.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Who is told what is in a value. `depth` is how many objects and arrays are around it.
pub(crate) trait Visit {
    /// A key in an object; the next value of this depth is its.
    fn key(&mut self, depth: usize, raw: &[u8]);
    /// An object or an array begins in which things have this depth.
    fn open(&mut self, depth: usize, is_object: bool);
    fn text(&mut self, depth: usize, text: Text<'_>);
    fn plain(&mut self, depth: usize, plain: Plain, from: u64, to: u64);
}

/// Why something is not a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    /// It ended too early.
    Ended,
    /// A byte that cannot be there.
    Odd,
    /// It is nested too deep to be looked at.
    Deep,
}

/// Passes over one value, which begins with the next byte that is no space.
pub(crate) fn value(bytes: &mut impl Bytes, visit: &mut impl Visit) -> Result<(), Wrong> {
    let mut stack = Stack::default();
    loop {
        match next(bytes)? {
            b'{' => {
                bytes.pass(1);
                stack.push(true)?;
                visit.open(stack.depth, true);
                if next(bytes)? == b'}' {
                    bytes.pass(1);
                    stack.pop();
                } else {
                    key(bytes, visit, stack.depth)?;
                    continue;
                }
            }
            b'[' => {
                bytes.pass(1);
                stack.push(false)?;
                visit.open(stack.depth, false);
                if next(bytes)? == b']' {
                    bytes.pass(1);
                    stack.pop();
                } else {
                    continue;
                }
            }
            b'"' => {
                let from = bytes.offset();
                let depth = stack.depth;
                string(bytes, |raw, to| visit.text(depth, Text { raw, from, to }))?;
            }
            first => {
                let from = bytes.offset();
                let plain = match first {
                    b't' => word(bytes, b"true", Plain::True)?,
                    b'f' => word(bytes, b"false", Plain::False)?,
                    b'n' => word(bytes, b"null", Plain::Null)?,
                    b'-' | b'0'..=b'9' => number(bytes)?,
                    _ => return Err(Wrong::Odd),
                };
                visit.plain(stack.depth, plain, from, bytes.offset());
            }
        }
        // A value is over: what follows belongs to what is around it.
        loop {
            let Some(is_object) = stack.top() else { return Ok(()) };
            match (next(bytes)?, is_object) {
                (b',', true) => {
                    bytes.pass(1);
                    next(bytes)?;
                    key(bytes, visit, stack.depth)?;
                    break;
                }
                (b',', false) => {
                    bytes.pass(1);
                    break;
                }
                (b'}', true) | (b']', false) => {
                    bytes.pass(1);
                    stack.pop();
                }
                (_, _) => return Err(Wrong::Odd),
            }
        }
    }
}

/// Which of the containers around are objects.
#[derive(Default)]
struct Stack {
    depth: usize,
    objects: [u64; MAX_DEPTH / 64],
}

impl Stack {
    fn push(&mut self, is_object: bool) -> Result<(), Wrong> {
        if self.depth == MAX_DEPTH {
            return Err(Wrong::Deep);
        }
        let (word, bit) = (self.depth / 64, 1 << (self.depth % 64));
        if is_object {
            self.objects[word] |= bit
        } else {
            self.objects[word] &= !bit
        }
        self.depth += 1;
        Ok(())
    }

    fn pop(&mut self) {
        self.depth -= 1;
    }

    fn top(&self) -> Option<bool> {
        let at = self.depth.checked_sub(1)?;
        Some(self.objects[at / 64] & (1 << (at % 64)) != 0)
    }
}

fn peek(bytes: &mut impl Bytes) -> Option<u8> {
    bytes.window().first().copied()
}

/// The next byte that is no space; it is not passed over.
#[inline]
fn next(bytes: &mut impl Bytes) -> Result<u8, Wrong> {
    loop {
        match peek(bytes) {
            Some(b' ' | b'\t' | b'\r' | b'\n') => bytes.pass(1),
            Some(byte) => return Ok(byte),
            None => return Err(Wrong::Ended),
        }
    }
}

/// A key with its colon.
fn key(bytes: &mut impl Bytes, visit: &mut impl Visit, depth: usize) -> Result<(), Wrong> {
    if peek(bytes) != Some(b'"') {
        return Err(if peek(bytes).is_none() { Wrong::Ended } else { Wrong::Odd });
    }
    string(bytes, |raw, _| visit.key(depth, raw.unwrap_or_default()))?;
    if next(bytes)? != b':' {
        return Err(Wrong::Odd);
    }
    bytes.pass(1);
    Ok(())
}

/// A string; the next byte is its first quote. `seen` gets what is between the quotes, and where it ended.
fn string<B: Bytes>(bytes: &mut B, seen: impl FnOnce(Option<&[u8]>, u64)) -> Result<(), Wrong> {
    bytes.pass(1);
    let mut shown: Vec<u8> = Vec::new();
    let mut is_shown = true;
    let mut show = |piece: &[u8]| {
        is_shown &= shown.len() + piece.len() <= MAX_SHOWN_BYTES;
        if is_shown {
            shown.extend_from_slice(piece);
        }
    };
    loop {
        let window = bytes.window();
        if window.is_empty() {
            return Err(Wrong::Ended);
        }
        let end = memchr2(b'"', b'\\', window);
        let text = &window[..end.unwrap_or(window.len())];
        // Without a way out in the middle this vectorizes.
        if text.iter().fold(false, |has_control, byte| has_control | (*byte < 0x20)) {
            return Err(Wrong::Odd);
        }
        show(text);
        let passed = text.len();
        let stop = end.map(|end| window[end]);
        bytes.pass(passed);
        match stop {
            None => {}
            Some(b'"') => {
                bytes.pass(1);
                break;
            }
            Some(_) => {
                bytes.pass(1);
                let escaped = peek(bytes).ok_or(Wrong::Ended)?;
                bytes.pass(1);
                show(&[b'\\', escaped]);
                match escaped {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = peek(bytes).ok_or(Wrong::Ended)?;
                            if !digit.is_ascii_hexdigit() {
                                return Err(Wrong::Odd);
                            }
                            show(&[digit]);
                            bytes.pass(1);
                        }
                    }
                    _ => return Err(Wrong::Odd),
                }
            }
        }
    }
    seen(is_shown.then_some(&shown), bytes.offset());
    Ok(())
}

fn word(bytes: &mut impl Bytes, word: &[u8], means: Plain) -> Result<Plain, Wrong> {
    for expected in word {
        match peek(bytes) {
            Some(byte) if byte == *expected => bytes.pass(1),
            Some(_) => return Err(Wrong::Odd),
            None => return Err(Wrong::Ended),
        }
    }
    Ok(means)
}

fn number(bytes: &mut impl Bytes) -> Result<Plain, Wrong> {
    if peek(bytes) == Some(b'-') {
        bytes.pass(1);
    }
    if peek(bytes) == Some(b'0') {
        bytes.pass(1);
    } else {
        digits(bytes)?;
    }
    if peek(bytes) == Some(b'.') {
        bytes.pass(1);
        digits(bytes)?;
    }
    if let Some(b'e' | b'E') = peek(bytes) {
        bytes.pass(1);
        if let Some(b'+' | b'-') = peek(bytes) {
            bytes.pass(1);
        }
        digits(bytes)?;
    }
    Ok(Plain::Number)
}

/// One digit or more.
fn digits(bytes: &mut impl Bytes) -> Result<(), Wrong> {
    match peek(bytes) {
        Some(b'0'..=b'9') => {}
        Some(_) => return Err(Wrong::Odd),
        None => return Err(Wrong::Ended),
    }
    while let Some(b'0'..=b'9') = peek(bytes) {
        bytes.pass(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    /// Writes down what it hears.
    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Visit for Heard {
        fn key(&mut self, depth: usize, raw: &[u8]) {
            self.0.push(format!("{depth} key {}", String::from_utf8_lossy(raw)));
        }

        fn open(&mut self, depth: usize, is_object: bool) {
            self.0.push(format!("{depth} {}", if is_object { "{" } else { "[" }));
        }

        fn text(&mut self, depth: usize, text: Text<'_>) {
            let raw = text.raw.map(|raw| String::from_utf8_lossy(raw).into_owned());
            self.0.push(format!("{depth} text {raw:?} {}..{}", text.from, text.to));
        }

        fn plain(&mut self, depth: usize, plain: Plain, from: u64, to: u64) {
            self.0.push(format!("{depth} {plain:?} {from}..{to}"));
        }
    }

    /// Bytes in windows of this size.
    struct Windows<'a>(&'a [u8], usize, usize);

    impl Bytes for Windows<'_> {
        fn window(&mut self) -> &[u8] {
            let end = (self.2 / self.1 + 1) * self.1;
            &self.0[self.2..end.min(self.0.len())]
        }

        fn pass(&mut self, count: usize) {
            self.2 += count;
        }

        fn offset(&self) -> u64 {
            self.2 as u64
        }
    }

    /// Whether it is one value and nothing else, and what was heard.
    fn read(text: &[u8]) -> (bool, Vec<String>) {
        let mut heard = Heard::default();
        let mut slice = Slice::new(text, 0);
        let is_value = value(&mut slice, &mut heard).is_ok() && next(&mut slice).is_err();
        for size in [1, 2, 3, 7] {
            let mut again = Heard::default();
            let mut windows = Windows(text, size, 0);
            let is_same = value(&mut windows, &mut again).is_ok() && next(&mut windows).is_err();
            assert_eq!((is_same, &again.0), (is_value, &heard.0), "in windows of {size}");
        }
        (is_value, heard.0)
    }

    #[test]
    fn keys_and_values_are_heard_from_where_they_are() {
        let (is_value, heard) = read(br#"{"a":"}\"{","b":[{"a":null}, -1.5e3]}"#);
        assert!(is_value);
        let expected = [
            "1 {",
            "1 key a",
            r#"1 text Some("}\\\"{") 5..11"#,
            "1 key b",
            "2 [",
            "3 {",
            "3 key a",
            "3 Null 22..26",
            "2 Number 29..35",
        ];
        assert_eq!(heard, expected);
    }

    #[test]
    fn what_is_long_is_passed_over_and_not_shown() {
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_SHOWN_BYTES + 1));
        let (is_value, heard) = read(long.as_bytes());
        assert!(is_value);
        assert_eq!(heard[2], format!("1 text None 5..{}", MAX_SHOWN_BYTES + 8));
    }

    #[test]
    fn what_is_nested_too_deep_is_said_to_be() {
        let deep = "[".repeat(MAX_DEPTH + 1);
        assert_eq!(value(&mut Slice::new(deep.as_bytes(), 0), &mut Heard::default()), Err(Wrong::Deep));
        let fits = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert_eq!(value(&mut Slice::new(fits.as_bytes(), 0), &mut Heard::default()), Ok(()));
    }

    /// Values, and things that almost are.
    fn almost_json() -> impl Strategy<Value = String> {
        let token = prop_oneof![
            Just("{"),
            Just("}"),
            Just("["),
            Just("]"),
            Just(":"),
            Just(","),
            Just("\"a\""),
            Just("\"\\u00e9\\n\""),
            Just("\"\\x\""),
            Just("\"\u{1}\""),
            Just("\""),
            Just("\\"),
            Just("0"),
            Just("-"),
            Just("1"),
            Just("."),
            Just("e"),
            Just("true"),
            Just("null"),
            Just(" "),
            Just("\t"),
            Just("é"),
        ];
        proptest::collection::vec(token, 0..14).prop_map(|tokens| tokens.concat())
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 24, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                proptest::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_serde_takes_for_json_is_json_here_and_nothing_else(text in almost_json()) {
            let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
            prop_assert_eq!(read(text.as_bytes()).0, is_json, "{:?}", text);
        }

        #[test]
        fn every_value_is_read_and_none_that_was_cut(value in json(), pretty: bool, cut: prop::sample::Index) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.unwrap();
            prop_assert!(read(text.as_bytes()).0, "{:?}", text);
            if value.is_object() || value.is_array() || value.is_string() {
                let cut = &text.as_bytes()[..cut.index(text.len())];
                prop_assert!(!read(cut).0);
            }
        }
    }
}
