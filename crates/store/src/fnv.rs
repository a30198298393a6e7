//! FNV-1a, for names of files and ids that are derived from a text.
//!
//! Promise: the hash is equal in every version of berth, which the standard library does not promise of its hashes.
//! Start with [`FnvHasher`].

/// A hash in progress, with 128 bits.
pub struct FnvHasher(u128);

impl Default for FnvHasher {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl FnvHasher {
    /// Takes more bytes.
    pub fn eat(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 ^= u128::from(*byte);
            self.0 = self.0.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    /// The hash with 64 bits. The last bytes eaten have not reached every bit yet, so they are mixed.
    pub fn mixed(&self) -> u64 {
        let mut z = (self.0 >> 64) as u64 ^ self.0 as u64;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The hash with all bits, as a name for a file.
    pub(crate) fn name(&self) -> String {
        format!("{:032x}", self.0)
    }
}

/// The hash of a whole text with 64 bits, which some names on disk have.
pub(crate) fn short(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
