//! Which request is being worked for: its id goes into the answer, the log, and every call to a keeper.
//!
//! Promise: an id that a client sends is used if it can do no harm in a header or a log; else, and without one, there
//! is a new one.
//! Start with [`Trace::of`].

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use axum::http::{HeaderMap, HeaderName};
use berth_api::trace::is_trace;
use tokio::task::JoinHandle;

/// The header with the id.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The header of W3C traces: version, trace id, parent id and flags.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

tokio::task_local! {
    static CURRENT: Arc<Trace>;
}

/// A request, for records.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Its id.
    pub(crate) id: String,
    /// Where whoever asks is, once that is known and if anybody wants to know.
    pub(crate) place: OnceLock<String>,
    wants_place: bool,
}

impl Trace {
    pub(crate) fn of(headers: &HeaderMap, wants_place: bool) -> Self {
        let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(|id| is_trace(id));
        let id = given.or_else(|| trace_id(headers)).map_or_else(next, str::to_owned);
        Self { id, place: OnceLock::new(), wants_place }
    }

    /// Who asks is known.
    pub(crate) fn came_from(&self, place: &str) {
        if self.wants_place {
            let _ = self.place.set(place.to_owned());
        }
    }
}

/// The trace id of a `traceparent`, if it is one.
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get(TRACE_PARENT)?.to_str().ok()?.split('-');
    let (version, id) = (parts.next()?, parts.next()?);
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let is_one = version.len() == 2 && id.len() == 32 && is_hex(version) && is_hex(id) && parts.count() >= 2;
    (is_one && id.bytes().any(|byte| byte != b'0')).then_some(id)
}

/// An id that nobody has: random for the process, then counted.
fn next() -> String {
    static PREFIX: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let prefix = PREFIX.get_or_init(|| {
        let mut bytes = [0; 8];
        // Without randomness ids repeat from one process to the next, and nothing else.
        let _ = berth_host::random_bytes(&mut bytes);
        u64::from_ne_bytes(bytes)
    });
    format!("{prefix:016x}{:016x}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Does something for a request.
pub(crate) fn within<F: Future>(trace: Arc<Trace>, act: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(trace, act)
}

/// Begins a task that works for the same request.
pub(crate) fn spawn<F>(act: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    match CURRENT.try_with(Arc::clone) {
        Ok(trace) => tokio::spawn(within(trace, act)),
        Err(_) => tokio::spawn(act),
    }
}

/// The id of the request that this task works for.
pub(crate) fn current() -> Option<String> {
    CURRENT.try_with(|trace| trace.id.clone()).ok()
}

/// Who asks is known.
pub(crate) fn came_from(place: &str) {
    let _ = CURRENT.try_with(|trace| trace.came_from(place));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(name: &'static str, value: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a value"));
        Trace::of(&headers, false).id
    }

    #[test]
    fn an_id_is_taken_from_the_client_or_made() {
        assert_eq!(id_of("x-request-id", "mine-1"), "mine-1");
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(id_of("traceparent", parent), "0af7651916cd43dd8448eb211c80319c");
        let made = id_of("x-request-id", "no spaces please");
        assert!(made.len() == 32 && made != id_of("accept", "x"), "{made}");
        for odd in ["00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-short-b7ad-01", "x"] {
            assert_eq!(id_of("traceparent", odd).len(), 32);
            assert!(!odd.contains(&id_of("traceparent", odd)), "{odd}");
        }
    }
}
