//! Hash index from ids to records or pairs of tools: four bytes for each.
//!
//! Promise: of two entries with one key the later one is found. The index grows up to its limit and no further.
//! Start with [`IdIndex`].

use super::NONE;

/// Finds numbers by their keys; the keys themselves are stored elsewhere.
#[derive(Debug)]
pub(super) struct IdIndex {
    slots: Vec<u32>,
    used: usize,
    /// Limit for entries.
    most: usize,
}

impl IdIndex {
    pub(super) fn for_about(count: usize, most: usize) -> Self {
        Self { slots: vec![NONE; (count + count / 3).clamp(64, Self::room_for(most))], used: 0, most }
    }

    /// Number of slots for so many entries: a sixth of them stays free.
    fn room_for(count: usize) -> usize {
        count + count / 5 + 2
    }

    fn slot(&self, key: u64) -> usize {
        ((u128::from(key) * self.slots.len() as u128) >> 64) as usize
    }

    pub(super) fn find(&self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        let mut slot = self.slot(key);
        loop {
            match self.slots[slot] {
                NONE => return None,
                at if key_of(at) == key => return Some(at),
                _ => slot = if slot + 1 == self.slots.len() { 0 } else { slot + 1 },
            }
        }
    }

    /// Adds a number; returns the replaced one, if the key was present.
    pub(super) fn put(&mut self, key: u64, number: u32, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        if (self.used + 1) * 6 > self.slots.len() * 5 && self.slots.len() < Self::room_for(self.most) {
            let larger = (self.slots.len() + self.slots.len() * 2 / 3 + 1).min(Self::room_for(self.most));
            let old = std::mem::replace(&mut self.slots, vec![NONE; larger]);
            for at in old.into_iter().filter(|at| *at != NONE) {
                let mut slot = self.slot(key_of(at));
                while self.slots[slot] != NONE {
                    slot = if slot + 1 == self.slots.len() { 0 } else { slot + 1 };
                }
                self.slots[slot] = at;
            }
        }
        let mut slot = self.slot(key);
        loop {
            match self.slots[slot] {
                NONE => {
                    self.slots[slot] = number;
                    self.used += 1;
                    return None;
                }
                at if at != number && key_of(at) == key => {
                    self.slots[slot] = number;
                    return Some(at);
                }
                _ => slot = if slot + 1 == self.slots.len() { 0 } else { slot + 1 },
            }
        }
    }
}
