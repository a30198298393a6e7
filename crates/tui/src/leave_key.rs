//! Detects the key that detaches, in a stream of keys.
//!
//! Promise: pasted text never detaches. Otherwise the rest of a paste would go to the user's shell, line by line.

use berth_config::config::CtrlKey;

/// Ctrl-C, for observers, whose keys go nowhere else.
const INTERRUPT: [&[u8]; 2] = [b"\x03", b"\x1b[99;5"];
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// The detector. The bytes may be split anywhere.
#[derive(Debug)]
pub(crate) struct LeaveKeyDetector {
    /// The key in the encodings of terminals: plain, kitty's, xterm's.
    encodings: [Vec<u8>; 3],
    pasting: bool,
    /// The last bytes seen, because a marker may come in two pieces.
    tail: Vec<u8>,
}

impl LeaveKeyDetector {
    pub(crate) fn new(key: CtrlKey) -> Self {
        let code = key.key();
        let (kitty, xterm) = (format!("\x1b[{code};5"), format!("\x1b[27;5;{code}~"));
        Self { encodings: [vec![key.byte()], kitty.into(), xterm.into()], pasting: false, tail: Vec::new() }
    }

    /// The position of the leave key in `keys`. Observers may also leave with Ctrl-C.
    pub(crate) fn find(&mut self, keys: &[u8], observes: bool) -> Option<usize> {
        let before = self.tail.len();
        let seen = [self.tail.as_slice(), keys].concat();
        let mut at = 0;
        while at < seen.len() {
            let rest = &seen[at..];
            if rest.starts_with(PASTE_BEGINS) || rest.starts_with(PASTE_ENDS) {
                self.pasting = rest.starts_with(PASTE_BEGINS);
                at += PASTE_BEGINS.len();
                continue;
            }
            let leave = self.encodings.iter().any(|key| rest.starts_with(key))
                || (observes && INTERRUPT.iter().any(|key| rest.starts_with(key)));
            if leave && at >= before && !self.pasting {
                return Some(at - before);
            }
            at += 1;
        }
        self.tail = seen[seen.len().saturating_sub(PASTE_BEGINS.len() - 1)..].to_vec();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_found_in_each_encoding() {
        for key in ["\x1c", "\x1b[92;5u", "\x1b[92;5:1u", "\x1b[27;5;92~"] {
            assert_eq!(
                LeaveKeyDetector::new(CtrlKey::default()).find(format!("ab{key}cd").as_bytes(), false),
                Some(2),
                "{key:?}"
            );
        }
        assert_eq!(LeaveKeyDetector::new(CtrlKey::default()).find(b"a\x03", false), None);
        assert_eq!(LeaveKeyDetector::new(CtrlKey::default()).find(b"a\x03", true), Some(1));
    }

    #[test]
    fn a_typed_leave_key_detaches_and_a_pasted_one_does_not_however_the_bytes_are_split() {
        let typed = b"x\x1b[200~rm \x1c -rf\n\x1c\x1b[201~y\x1cz";
        let wanted = typed.len() - 2;
        for cut in 0..=wanted {
            let mut key = LeaveKeyDetector::new(CtrlKey::default());
            assert_eq!(key.find(&typed[..cut], false), None, "cut at {cut}");
            assert_eq!(key.find(&typed[cut..], false), Some(wanted - cut), "cut at {cut}");
        }
    }

    #[test]
    fn a_configured_leave_key_replaces_the_usual_one() {
        let key = CtrlKey::parse("ctrl-b").expect("a key");
        for typed in ["\x02", "\x1b[98;5u", "\x1b[27;5;98~"] {
            assert_eq!(
                LeaveKeyDetector::new(key).find(format!("ab{typed}").as_bytes(), false),
                Some(2),
                "{typed:?}"
            );
        }
        assert_eq!(LeaveKeyDetector::new(key).find(b"a\x1c\x1b[92;5u", false), None);
    }
}
