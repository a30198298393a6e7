//! Which request of the gateway a call to a keeper belongs to, so that the two logs can be read together.
//!
//! Promise: a trace goes with the thread that acts for a request, and with nothing it does afterwards.
//! Start with [`within`].

use std::cell::RefCell;

/// The longest one a keeper writes down.
const MAX_TRACE_BYTES: usize = 64;

thread_local! {
    static CURRENT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Does something for the request with this id: every call to a keeper that is made by this thread meanwhile
/// carries it.
pub fn within<T>(trace: Option<String>, act: impl FnOnce() -> T) -> T {
    /// Puts back what was there, whatever happens in between: threads are used again.
    struct Restore(Option<String>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = Restore(CURRENT.replace(trace));
    act()
}

/// The request this thread acts for.
pub fn current() -> Option<String> {
    CURRENT.with_borrow(Clone::clone)
}

/// Whether a text may be one: letters, digits, and what ids are written with. It goes into headers and logs.
pub fn is_trace(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_TRACE_BYTES).contains(&text.len()) && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_ends_with_what_was_done_for_it_also_by_a_panic() {
        assert_eq!(
            within(Some("a".to_owned()), || within(Some("b".to_owned()), current)),
            Some("b".to_owned())
        );
        let panicked = std::panic::catch_unwind(|| within(Some("a".to_owned()), || panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(current(), None);
    }

    #[test]
    fn nothing_that_could_break_out_of_a_header_or_a_line_is_a_trace() {
        assert!(is_trace("0af7651916cd43dd8448eb211c80319c") && is_trace("req_1.a-b"));
        for odd in ["", "a b", "a\r\nSet-Cookie: x", "é", &"a".repeat(MAX_TRACE_BYTES + 1)] {
            assert!(!is_trace(odd), "{odd:?}");
        }
    }
}
