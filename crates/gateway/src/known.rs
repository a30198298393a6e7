//! Sessions that were looked at a moment ago, with the answer as it was sent.
//!
//! Promise: an answer is given again only if a few system calls confirm that it would be the same; it holds nothing
//! that is not on disk, and no more than [`MOST_KNOWN`] of them.
//! Start with [`Known::again`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use berth_core::SessionId;
use berth_host::clock;
use berth_keeper::{Home, Sight};
use bytes::Bytes;

/// How many are remembered. Each that runs costs a descriptor.
const MOST_KNOWN: usize = 256;
/// How old an answer may be that counts down.
const COUNTDOWN_STEP_MS: u64 = 20;

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct Known {
    sights: RwLock<HashMap<SessionId, Arc<Entry>>>,
}

#[derive(Debug)]
struct Entry {
    sight: Sight,
    body: Mutex<Encoded>,
}

#[derive(Clone, Debug)]
struct Encoded {
    at_ms: u64,
    body: Bytes,
}

impl Known {
    /// The answer about the session that is called so, if it is known and everything is as it was.
    pub(crate) fn again(&self, home: &Home, handle: &str) -> Option<(SessionId, Bytes)> {
        // A whole id first: a name that looks like one must not redirect it.
        let by_id = SessionId::parse(handle).and_then(|id| Some((self.entry(&id)?, id)));
        let (entry, id) = by_id.or_else(|| {
            let id = home.pointed_at_by(handle)?;
            // What the session says of itself counts, and this says whether that is still so.
            let entry = self.entry(&id).filter(|entry| entry.sight.name() == Some(handle))?;
            Some((entry, id))
        })?;
        if entry.sight.is_current() {
            return Some((id, entry.body()));
        }
        self.forget(&id);
        None
    }

    /// Looks at a session, and remembers it if its files alone tell what is known.
    pub(crate) fn look(&self, home: &Home, id: &SessionId) -> Option<Bytes> {
        let sight = Sight::take(home, id)?;
        let body = encoded(&sight)?;
        let entry = Arc::new(Entry { sight, body: Mutex::new(body) });
        let body = entry.body();
        let mut sights = self.sights.write().unwrap_or_else(PoisonError::into_inner);
        if sights.len() >= MOST_KNOWN {
            sights.clear();
        }
        sights.insert(id.clone(), entry);
        Some(body)
    }

    fn entry(&self, id: &SessionId) -> Option<Arc<Entry>> {
        self.sights.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    fn forget(&self, id: &SessionId) {
        self.sights.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

impl Entry {
    fn body(&self) -> Bytes {
        let mut last = self.body.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = || clock::wall_ms().saturating_sub(last.at_ms) > COUNTDOWN_STEP_MS;
        if self.sight.counts_down()
            && is_old()
            && let Some(next) = encoded(&self.sight)
        {
            *last = next;
        }
        last.body.clone()
    }
}

fn encoded(sight: &Sight) -> Option<Encoded> {
    let body = serde_json::to_vec(&sight.status()).ok()?;
    Some(Encoded { at_ms: clock::wall_ms(), body: body.into() })
}
