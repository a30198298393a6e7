//! JSON reader: checks one value and visits its parts without keeping it.
//!
//! Promise: a value is accepted if and only if it is well-formed JSON (RFC 8259, not nested deeper than [`MAX_DEPTH`]);
//! a visitor gets keys and scalars only from their real places, never from inside of a string. Memory does not depend
//! on the size of the value: the source gives its bytes in windows.
//! Not here: the UTF-8 check (see `lines`), the meaning of a key (see `head`).
//! Start with [`value`].

use memchr::memchr2;

/// Limit for the nesting of values.
pub(crate) const MAX_DEPTH: usize = 512;
/// Limit for a text that a visitor gets. Ids, times and names of kinds are shorter.
pub(crate) const MAX_SHOWN_BYTES: usize = 512;

/// Source of bytes.
pub(crate) trait ByteSource {
    /// The bytes that are in memory now. Empty at the end, and only there.
    fn window(&mut self) -> &[u8];
    /// Skips this many bytes of the window.
    fn pass(&mut self, count: usize);
    /// Offset of the window in the file.
    fn offset(&self) -> u64;
}

/// Bytes that are in memory as a whole.
#[derive(Debug)]
pub(crate) struct SliceSource<'a> {
    all: &'a [u8],
    at: usize,
    /// Offset of the first byte in the file.
    begins_at: u64,
}

impl<'a> SliceSource<'a> {
    pub(crate) fn new(all: &'a [u8], begins_at: u64) -> Self {
        Self { all, at: 0, begins_at }
    }
}

impl ByteSource for SliceSource<'_> {
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

/// A value that is not an object, an array or a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScalarKind {
    True,
    False,
    Null,
    Number,
}

/// A string value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonString<'a> {
    /// The text as it is written, without the quotes; `None` if it is longer than the limit.
    pub(crate) raw: Option<&'a [u8]>,
    /// Offset of the first quote, and offset after the last one.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Receiver of the parts of a value. `depth` is the number of objects and arrays around a part.
pub(crate) trait JsonVisitor {
    /// A key of an object; the next value of this depth belongs to it.
    fn key(&mut self, depth: usize, raw: &[u8]);
    /// An object or an array begins; its parts have this depth.
    fn open(&mut self, depth: usize, is_object: bool);
    fn text(&mut self, depth: usize, text: JsonString<'_>);
    fn plain(&mut self, depth: usize, plain: ScalarKind, from: u64, to: u64);
}

/// Reason why bytes are not a JSON value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JsonError {
    /// The value ended too early.
    Ended,
    /// A byte that is not allowed at this place.
    Odd,
    /// The value is nested too deep to be examined.
    Deep,
}

/// Reads one value, which begins with the next byte that is not a space.
pub(crate) fn value(bytes: &mut impl ByteSource, visit: &mut impl JsonVisitor) -> Result<(), JsonError> {
    let mut stack = ContainerStack::default();
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
                string(bytes, |raw, to| visit.text(depth, JsonString { raw, from, to }))?;
            }
            first => {
                let from = bytes.offset();
                let plain = match first {
                    b't' => word(bytes, b"true", ScalarKind::True)?,
                    b'f' => word(bytes, b"false", ScalarKind::False)?,
                    b'n' => word(bytes, b"null", ScalarKind::Null)?,
                    b'-' | b'0'..=b'9' => number(bytes)?,
                    _ => return Err(JsonError::Odd),
                };
                visit.plain(stack.depth, plain, from, bytes.offset());
            }
        }
        // A value has ended: the next byte belongs to the container around it.
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
                (_, _) => return Err(JsonError::Odd),
            }
        }
    }
}

/// Stack of the containers around the current place: true for an object.
#[derive(Default)]
struct ContainerStack {
    depth: usize,
    objects: [u64; MAX_DEPTH / 64],
}

impl ContainerStack {
    fn push(&mut self, is_object: bool) -> Result<(), JsonError> {
        if self.depth == MAX_DEPTH {
            return Err(JsonError::Deep);
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

fn peek(bytes: &mut impl ByteSource) -> Option<u8> {
    bytes.window().first().copied()
}

/// The next byte that is not a space; it is not consumed.
#[inline]
fn next(bytes: &mut impl ByteSource) -> Result<u8, JsonError> {
    loop {
        match peek(bytes) {
            Some(b' ' | b'\t' | b'\r' | b'\n') => bytes.pass(1),
            Some(byte) => return Ok(byte),
            None => return Err(JsonError::Ended),
        }
    }
}

/// A key with its colon.
fn key(bytes: &mut impl ByteSource, visit: &mut impl JsonVisitor, depth: usize) -> Result<(), JsonError> {
    if peek(bytes) != Some(b'"') {
        return Err(if peek(bytes).is_none() { JsonError::Ended } else { JsonError::Odd });
    }
    string(bytes, |raw, _| visit.key(depth, raw.unwrap_or_default()))?;
    if next(bytes)? != b':' {
        return Err(JsonError::Odd);
    }
    bytes.pass(1);
    Ok(())
}

/// A string; the next byte is its first quote. `seen` gets the text between the quotes, and the offset of its end.
fn string<B: ByteSource>(bytes: &mut B, seen: impl FnOnce(Option<&[u8]>, u64)) -> Result<(), JsonError> {
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
            return Err(JsonError::Ended);
        }
        let end = memchr2(b'"', b'\\', window);
        let text = &window[..end.unwrap_or(window.len())];
        // Without an early exit this loop vectorizes.
        if text.iter().fold(false, |has_control, byte| has_control | (*byte < 0x20)) {
            return Err(JsonError::Odd);
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
                let escaped = peek(bytes).ok_or(JsonError::Ended)?;
                bytes.pass(1);
                show(&[b'\\', escaped]);
                match escaped {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = peek(bytes).ok_or(JsonError::Ended)?;
                            if !digit.is_ascii_hexdigit() {
                                return Err(JsonError::Odd);
                            }
                            show(&[digit]);
                            bytes.pass(1);
                        }
                    }
                    _ => return Err(JsonError::Odd),
                }
            }
        }
    }
    seen(is_shown.then_some(&shown), bytes.offset());
    Ok(())
}

fn word(bytes: &mut impl ByteSource, word: &[u8], means: ScalarKind) -> Result<ScalarKind, JsonError> {
    for expected in word {
        match peek(bytes) {
            Some(byte) if byte == *expected => bytes.pass(1),
            Some(_) => return Err(JsonError::Odd),
            None => return Err(JsonError::Ended),
        }
    }
    Ok(means)
}

fn number(bytes: &mut impl ByteSource) -> Result<ScalarKind, JsonError> {
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
    Ok(ScalarKind::Number)
}

/// One digit or more.
fn digits(bytes: &mut impl ByteSource) -> Result<(), JsonError> {
    match peek(bytes) {
        Some(b'0'..=b'9') => {}
        Some(_) => return Err(JsonError::Odd),
        None => return Err(JsonError::Ended),
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

    /// Records every call.
    #[derive(Default)]
    struct JsonEventLog(Vec<String>);

    impl JsonVisitor for JsonEventLog {
        fn key(&mut self, depth: usize, raw: &[u8]) {
            self.0.push(format!("{depth} key {}", String::from_utf8_lossy(raw)));
        }

        fn open(&mut self, depth: usize, is_object: bool) {
            self.0.push(format!("{depth} {}", if is_object { "{" } else { "[" }));
        }

        fn text(&mut self, depth: usize, text: JsonString<'_>) {
            let raw = text.raw.map(|raw| String::from_utf8_lossy(raw).into_owned());
            self.0.push(format!("{depth} text {raw:?} {}..{}", text.from, text.to));
        }

        fn plain(&mut self, depth: usize, plain: ScalarKind, from: u64, to: u64) {
            self.0.push(format!("{depth} {plain:?} {from}..{to}"));
        }
    }

    /// Bytes in windows of this size.
    struct ChunkedSource<'a>(&'a [u8], usize, usize);

    impl ByteSource for ChunkedSource<'_> {
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

    /// True if the text is exactly one value, and the recorded calls.
    fn read(text: &[u8]) -> (bool, Vec<String>) {
        let mut heard = JsonEventLog::default();
        let mut slice = SliceSource::new(text, 0);
        let is_value = value(&mut slice, &mut heard).is_ok() && next(&mut slice).is_err();
        for size in [1, 2, 3, 7] {
            let mut again = JsonEventLog::default();
            let mut windows = ChunkedSource(text, size, 0);
            let is_same = value(&mut windows, &mut again).is_ok() && next(&mut windows).is_err();
            assert_eq!((is_same, &again.0), (is_value, &heard.0), "in windows of {size}");
        }
        (is_value, heard.0)
    }

    #[test]
    fn keys_and_values_are_visited_at_their_places() {
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
    fn a_long_text_is_skipped_and_not_shown() {
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_SHOWN_BYTES + 1));
        let (is_value, heard) = read(long.as_bytes());
        assert!(is_value);
        assert_eq!(heard[2], format!("1 text None 5..{}", MAX_SHOWN_BYTES + 8));
    }

    #[test]
    fn a_value_that_is_nested_too_deep_is_reported_as_such() {
        let deep = "[".repeat(MAX_DEPTH + 1);
        assert_eq!(
            value(&mut SliceSource::new(deep.as_bytes(), 0), &mut JsonEventLog::default()),
            Err(JsonError::Deep)
        );
        let fits = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert_eq!(value(&mut SliceSource::new(fits.as_bytes(), 0), &mut JsonEventLog::default()), Ok(()));
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
        fn a_text_is_json_here_exactly_if_serde_accepts_it(text in almost_json()) {
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
