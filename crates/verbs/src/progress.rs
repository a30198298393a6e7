//! How far long work is, for whoever wants to show it.

/// Hears how far long work is. Threads may share it.
pub trait Progress: Sync {
    /// There are so many things to do.
    fn begin(&self, total: u64);
    /// So many more are done.
    fn add(&self, count: u64);
    /// Whether the rest need not be done.
    fn is_enough(&self) -> bool {
        false
    }
}

/// Nobody wants to know.
impl Progress for () {
    fn begin(&self, _: u64) {}

    fn add(&self, _: u64) {}
}
