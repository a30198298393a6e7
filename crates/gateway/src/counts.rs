//! How many there are of each key, each counted until its guard is dropped.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts by key.
#[derive(Debug)]
pub(crate) struct Counts<K>(Arc<Mutex<HashMap<K, usize>>>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Eq + Hash> Counts<K> {
    /// One more, unless there are `most` already.
    pub(crate) fn enter(&self, key: K, most: usize) -> Option<Counted<K>> {
        let mut counts = locked(&self.0);
        if counts.get(&key).is_some_and(|count| *count >= most) {
            return None;
        }
        *counts.entry(key.clone()).or_default() += 1;
        Some(Counted { counts: Arc::clone(&self.0), key })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.0).is_empty()
    }
}

/// Counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted<K: Eq + Hash> {
    counts: Arc<Mutex<HashMap<K, usize>>>,
    key: K,
}

impl<K: Eq + Hash> Drop for Counted<K> {
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
