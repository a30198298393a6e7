//! Bugs on purpose, for a simulation to prove that it would notice them.

/// Which bugs a journal has. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    /// Believes every frame that fits into the file, whatever its checksum says.
    pub skip_checksum: bool,
    /// Carries a torn tail along on recovery, and appends behind it.
    pub keep_torn_tail: bool,
    /// Takes a failed sync for a good one.
    pub ignore_sync_error: bool,
}
