//! Keys of all turns ever accepted, in little memory.
//!
//! Promise: a key of any age means its turn. A key costs 16 bytes; a copy of the map shares all but the latest keys.
//! Not here: turns (see [`super::SessionTurns`]), and the keys themselves: only their hashes are kept.
//! Start with [`TurnKeys::find`]. [`key_hash`] and [`text_digest`] are equal in every version that reads a turn index.

use std::hash::Hasher;
use std::sync::Arc;

/// Limit of the number of unsorted keys. Sorting them in costs the length of the whole map, so it is done in batches.
const MOST_UNSORTED: usize = 256;

/// The keys of all turns ever accepted.
#[derive(Clone, Debug, Default)]
pub struct TurnKeys {
    /// Keys sorted by hash. Shared with copies: the decision about a batch works on a copy of the whole session.
    sorted: Arc<Vec<KnownKey>>,
    unsorted: Vec<KnownKey>,
}

/// The key of a turn that was accepted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KnownKey {
    /// [`key_hash`] of the key.
    pub hash: u64,
    /// Number of the turn.
    pub turn: u32,
    /// [`text_digest`] of the text that the turn was accepted with.
    pub digest: u32,
}

impl TurnKeys {
    /// Finds the key with this hash.
    pub fn find(&self, hash: u64) -> Option<KnownKey> {
        let sorted = self.sorted.binary_search_by_key(&hash, |known| known.hash).ok();
        let unsorted = || self.unsorted.iter().find(|known| known.hash == hash);
        sorted.map(|at| &self.sorted[at]).or_else(unsorted).copied()
    }

    /// Adds a key. A known hash stays: a key means the first turn that was accepted with it.
    pub fn remember(&mut self, key: KnownKey) {
        if self.find(key.hash).is_some() {
            return;
        }
        self.unsorted.push(key);
        if self.unsorted.len() >= MOST_UNSORTED {
            let sorted = Arc::make_mut(&mut self.sorted);
            sorted.reserve_exact(self.unsorted.len());
            sorted.append(&mut self.unsorted);
            // A stable sort merges the sorted part as a whole.
            sorted.sort_by_key(|known| known.hash);
        }
    }

    /// Adds many keys at once. Of keys with one hash the first turn counts.
    pub fn remember_all(&mut self, keys: Vec<KnownKey>) {
        let sorted = Arc::make_mut(&mut self.sorted);
        sorted.reserve_exact(keys.len() + self.unsorted.len());
        sorted.extend(keys);
        sorted.append(&mut self.unsorted);
        sorted.sort_by_key(|known| (known.hash, known.turn));
        sorted.dedup_by_key(|known| known.hash);
    }

    /// All keys, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &KnownKey> {
        self.sorted.iter().chain(&self.unsorted)
    }

    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        (self.sorted.capacity() + self.unsorted.capacity()) * size_of::<KnownKey>()
    }
}

/// Two maps are equal if they have equal keys, in whatever order these were added.
impl PartialEq for TurnKeys {
    fn eq(&self, other: &Self) -> bool {
        let all = |keys: &Self| {
            let mut all: Vec<KnownKey> = keys.iter().copied().collect();
            all.sort_unstable();
            all
        };
        all(self) == all(other)
    }
}

impl Eq for TurnKeys {}

/// Hash that identifies a key of a turn.
pub fn key_hash(key: &str) -> u64 {
    let mut hasher = StableHasher::default();
    hasher.write(key.as_bytes());
    hasher.finish()
}

/// Digest of a prompt, for recognising the text that a key was used with.
pub fn text_digest(text: &str) -> u32 {
    (key_hash(text) >> 32) as u32
}

/// FNV-1a with the last step of MurmurHash3. Unlike the hasher of the standard library it is equal in every
/// build: its hashes are stored in files.
pub(super) struct StableHasher(u64);

impl Default for StableHasher {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        let mix = |hash: u64, factor: u64| (hash ^ (hash >> 33)).wrapping_mul(factor);
        let hash = mix(mix(self.0, 0xff51_afd7_ed55_8ccd), 0xc4ce_b9fe_1a85_ec53);
        hash ^ (hash >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(number: u32) -> KnownKey {
        KnownKey { hash: key_hash(&format!("key {number}")), turn: number, digest: text_digest("text") }
    }

    #[test]
    fn every_key_is_found_in_whatever_order_it_was_added_and_no_other() {
        let (mut forth, mut back) = (TurnKeys::default(), TurnKeys::default());
        for number in 1..=1000 {
            forth.remember(known(number));
            back.remember(known(1001 - number));
            assert_eq!(forth.find(known(number).hash), Some(known(number)));
        }
        for number in 1..=1000 {
            assert_eq!(forth.find(known(number).hash), Some(known(number)));
        }
        assert_eq!(forth.find(known(1001).hash), None);
        assert_eq!(forth, back);
        back.remember(known(1001));
        assert_ne!(forth, back);
    }

    #[test]
    fn a_key_that_is_added_twice_means_its_first_turn() {
        let mut keys = TurnKeys::default();
        for turn in [1, 2] {
            keys.remember(KnownKey { turn, ..known(1) });
        }
        assert_eq!(keys.find(known(1).hash), Some(known(1)));
        assert_eq!(keys.iter().count(), 1);
    }

    /// The hashes are stored in files: a change needs a new number of the format of those.
    #[test]
    fn hashes_are_the_same_in_every_build() {
        assert_eq!(key_hash(""), 0xefd0_1f60_ba99_2926);
        assert_eq!(key_hash("order-1"), 0x491b_422e_3af0_d9a5);
        assert_eq!(text_digest("hello"), 0xe9c5_62c0);
    }
}
