//! FNV-1a, for names of files and ids that follow from what they stand for.
//!
//! Written out because the outcome must be the same for every version of us, which the standard library does
//! not promise of its hashes.

/// What was eaten so far, with 128 bits.
pub struct Fnv(u128);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Fnv {
    /// Takes more bytes.
    pub fn eat(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 ^= u128::from(*byte);
            self.0 = self.0.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    /// Half as many bits. The last bytes eaten have not reached every bit yet, so they are mixed.
    pub fn mixed(&self) -> u64 {
        let mut z = (self.0 >> 64) as u64 ^ self.0 as u64;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// All bits, as a name for a file.
    pub(crate) fn name(&self) -> String {
        format!("{:032x}", self.0)
    }
}

/// The same with 64 bits, of a whole text: some names on disk have that.
pub(crate) fn short(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
