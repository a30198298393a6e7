//! Trace ids: the request of the gateway that a call to a keeper belongs to, so that the two logs can be read together.
//!
//! Promise: a thread has a trace id only while it acts for a request.
//! Start with [`with_trace`].

use std::cell::RefCell;

/// Longest trace id that a keeper logs, in bytes.
const MAX_TRACE_BYTES: usize = 64;

thread_local! {
    static CURRENT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `act` for the request with this id: every call to a keeper that this thread makes meanwhile carries the id.
pub fn with_trace<T>(trace: Option<String>, act: impl FnOnce() -> T) -> T {
    /// Restores the previous id, also after a panic: threads are used again.
    struct TraceRestore(Option<String>);
    impl Drop for TraceRestore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = TraceRestore(CURRENT.replace(trace));
    act()
}

/// Trace id of the request that this thread acts for: it goes into messages to a keeper, and into logs.
pub fn current_trace() -> Option<String> {
    CURRENT.with_borrow(Clone::clone)
}

/// True if a text is a valid trace id: letters, digits, `-`, `_` and `.`. The id goes into headers and logs.
pub fn is_trace_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_TRACE_BYTES).contains(&text.len()) && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_ends_with_what_was_done_for_it_also_by_a_panic() {
        assert_eq!(
            with_trace(Some("a".to_owned()), || with_trace(Some("b".to_owned()), current_trace)),
            Some("b".to_owned())
        );
        let panicked = std::panic::catch_unwind(|| with_trace(Some("a".to_owned()), || panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(current_trace(), None);
    }

    #[test]
    fn nothing_that_could_break_out_of_a_header_or_a_line_is_a_trace() {
        assert!(is_trace_id("0af7651916cd43dd8448eb211c80319c") && is_trace_id("req_1.a-b"));
        for odd in ["", "a b", "a\r\nSet-Cookie: x", "é", &"a".repeat(MAX_TRACE_BYTES + 1)] {
            assert!(!is_trace_id(odd), "{odd:?}");
        }
    }
}
