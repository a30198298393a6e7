//! Counters by key. Each entry counts until its guard is dropped.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts by key.
#[derive(Debug)]
pub(crate) struct KeyCounts<K>(Arc<Mutex<HashMap<K, usize>>>);

impl<K> Default for KeyCounts<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Eq + Hash> KeyCounts<K> {
    /// Counts one more, unless the count of this key is `most` already.
    pub(crate) fn enter(&self, key: K, most: usize) -> Option<CountGuard<K>> {
        let mut counts = locked(&self.0);
        if counts.get(&key).is_some_and(|count| *count >= most) {
            return None;
        }
        *counts.entry(key.clone()).or_default() += 1;
        Some(CountGuard { counts: Arc::clone(&self.0), key })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.0).is_empty()
    }
}

/// A guard that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct CountGuard<K: Eq + Hash> {
    counts: Arc<Mutex<HashMap<K, usize>>>,
    key: K,
}

impl<K: Eq + Hash> Drop for CountGuard<K> {
    fn drop(&mut self) {
        let mut counts = locked(&self.counts);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

fn locked<K>(counts: &Mutex<HashMap<K, usize>>) -> MutexGuard<'_, HashMap<K, usize>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}
