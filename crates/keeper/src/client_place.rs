//! The place of a client ("pts/3 on host"), made safe to record and to print.
//!
//! Promise: a recorded place is short, is on one line, and is marked as the client's own claim unless it comes from the
//! gateway of this state directory. Pid and account of a client come from the kernel and are recorded beside its place.
//! Not here: attributing a client to a session (see `callers`).
//! Start with [`recorded_place`].

use std::path::Path;

use berth_api::client::CLAIMED_SUFFIX;
use berth_host::lock::lock_holders;
use berth_store::state_dir::GATEWAY_LOCK;

/// The recorded length of a claim, in characters.
const MOST_CHARS: usize = 200;

/// The place to record for a claim.
pub(crate) fn recorded_place(claim: &str, is_gateway: bool) -> String {
    let mut place: String =
        claim.chars().take(MOST_CHARS).map(|c| if is_plain(c) { c } else { '?' }).collect();
    if !is_gateway && !place.is_empty() {
        place.push_str(CLAIMED_SUFFIX);
    }
    place
}

/// True if a process is the gateway of the state directory at `root`: it has locked the gateway's file, by the
/// kernel's list. The text in that file proves nothing, because every process of this account can write it.
pub(crate) fn is_gateway(root: &Path, pid: u32) -> bool {
    lock_holders(&root.join(GATEWAY_LOCK)).is_ok_and(|takers| takers.contains(&pid))
}

/// True if a character is neither a control character nor one that changes the order or the lines of a text.
fn is_plain(c: char) -> bool {
    let reorders =
        matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !reorders && !matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_place_is_cut_cleaned_and_marked() {
        assert_eq!(recorded_place("pts/3 on host", false), "pts/3 on host (claimed)");
        assert_eq!(recorded_place("\x1b[2Ja\nb\u{202e}c\u{9b}", false), "?[2Ja?b?c? (claimed)");
        assert_eq!(
            recorded_place(&"x".repeat(10_000), false).chars().count(),
            MOST_CHARS + CLAIMED_SUFFIX.len()
        );
        assert_eq!(recorded_place("", false), "");
    }

    #[test]
    fn a_place_that_the_gateway_tells_is_not_marked_and_still_cleaned() {
        assert_eq!(recorded_place("token a at 1.2.3.4\n", true), "token a at 1.2.3.4?");
    }
}
