//! A journal without a disk: its records live as long as the value.
//!
//! Promise: committed records come back, in order. Nothing fails, and nothing survives the process.
//! Start with [`MemoryJournal::append`].

use crate::event::{Committed, Seq};

/// An append-only sequence of records in memory.
#[derive(Clone, Debug)]
pub struct MemoryJournal<T> {
    events: Vec<Committed<T>>,
}

impl<T> Default for MemoryJournal<T> {
    fn default() -> Self {
        Self { events: Vec::new() }
    }
}

impl<T: Clone> MemoryJournal<T> {
    /// Commits a batch.
    pub fn append(&mut self, batch: Vec<T>) -> Vec<Committed<T>> {
        let first = self.end();
        let batch = batch.into_iter().zip(1..).map(|(event, n)| Committed::new(Seq(first.0 + n), event));
        let committed: Vec<Committed<T>> = batch.collect();
        self.events.extend_from_slice(&committed);
        committed
    }

    /// At most `limit` events from number `from` on.
    pub fn read(&self, from: Seq, limit: usize) -> Vec<Committed<T>> {
        let skipped = usize::try_from(from.0.saturating_sub(1)).unwrap_or(usize::MAX);
        self.events.iter().skip(skipped).take(limit).cloned().collect()
    }

    /// Number of the last event; 0 without events.
    pub fn end(&self) -> Seq {
        Seq(self.events.len() as u64)
    }
}
