//! Planted bugs, which a simulation must notice.
//!
//! Start with [`PlantedBugs`].

/// Bugs of a journal. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlantedBugs {
    /// Accept every frame that fits into the file, even if its checksum is wrong.
    pub skip_checksum: bool,
    /// Keep a torn tail on recovery, and append behind it.
    pub keep_torn_tail: bool,
    /// Ignore the error of a failed sync.
    pub ignore_sync_error: bool,
}
