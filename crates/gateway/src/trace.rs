//! Request ids: the id of a request goes into its answer, the log, and every call to a keeper.
//!
//! Promise: an id that the client sends is used if it is safe in a header and in a log. Otherwise the gateway makes a
//! new one.
//! Start with [`RequestTrace::of`].

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use axum::http::{HeaderMap, HeaderName};
use berth_api::trace::is_trace_id;
use tokio::task::JoinHandle;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Header of W3C traces: version, trace id, parent id and flags.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

tokio::task_local! {
    static CURRENT: Arc<RequestTrace>;
}

/// Data about a request, for logs.
#[derive(Debug, Default)]
pub(crate) struct RequestTrace {
    pub(crate) id: String,
    /// Place of the caller. Set once the caller is authenticated, and only if the log needs it.
    pub(crate) place: OnceLock<String>,
    wants_place: bool,
}

impl RequestTrace {
    pub(crate) fn of(headers: &HeaderMap, wants_place: bool) -> Self {
        let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(|id| is_trace_id(id));
        let id = given.or_else(|| trace_id(headers)).map_or_else(next, str::to_owned);
        Self { id, place: OnceLock::new(), wants_place }
    }

    /// Stores the place of the caller.
    pub(crate) fn came_from(&self, place: &str) {
        if self.wants_place {
            let _ = self.place.set(place.to_owned());
        }
    }
}

/// The trace id of a valid `traceparent` header.
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get(TRACE_PARENT)?.to_str().ok()?.split('-');
    let (version, id) = (parts.next()?, parts.next()?);
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let is_one = version.len() == 2 && id.len() == 32 && is_hex(version) && is_hex(id) && parts.count() >= 2;
    (is_one && id.bytes().any(|byte| byte != b'0')).then_some(id)
}

/// A new unique id: random for the process, then counted.
fn next() -> String {
    static PREFIX: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let prefix = PREFIX.get_or_init(|| {
        let mut bytes = [0; 8];
        // Without randomness the ids of two processes may be equal; nothing else depends on it.
        let _ = berth_host::random_bytes(&mut bytes);
        u64::from_ne_bytes(bytes)
    });
    format!("{prefix:016x}{:016x}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Runs a future with this request as the current one.
pub(crate) fn within<F: Future>(trace: Arc<RequestTrace>, act: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(trace, act)
}

/// Spawns a task that works for the current request.
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

/// Stores the place of the caller of the current request.
pub(crate) fn came_from(place: &str) {
    let _ = CURRENT.try_with(|trace| trace.came_from(place));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(name: &'static str, value: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a value"));
        RequestTrace::of(&headers, false).id
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
