//! Randomness that can be repeated.

/// A small deterministic generator. Its seed is printed, and `BERTH_SEED` repeats it.
#[derive(Clone, Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    /// Takes `BERTH_SEED`, else the clock; prints it so that a failure can be repeated.
    pub fn announce(test: &str) -> Self {
        let given = std::env::var("BERTH_SEED").ok().and_then(|text| text.parse().ok());
        let seed =
            given.unwrap_or_else(|| berth_host::clock::wall_ms() ^ u64::from(std::process::id()) << 32);
        println!("{test}: BERTH_SEED={seed}");
        Self(seed)
    }

    /// The next number (splitmix64).
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Another generator, for another thread.
    pub fn fork(&mut self) -> Self {
        Self(self.number())
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// Lets a random while pass, up to this many microseconds: for racing, not for waiting.
    pub fn dawdle(&mut self, up_to_us: u64) {
        let us = self.below(up_to_us);
        std::thread::sleep(std::time::Duration::from_micros(us));
    }
}
