//! Progress of long work, for display.

/// Receiver of progress reports. Threads may share it.
pub trait ProgressSink: Sync {
    /// Sets the total amount of work.
    fn begin(&self, total: u64);
    /// Reports that this much more is done.
    fn add(&self, count: u64);
    /// True if the receiver wants the work to be cancelled.
    fn is_enough(&self) -> bool {
        false
    }
}

/// Drops all reports.
impl ProgressSink for () {
    fn begin(&self, _: u64) {}

    fn add(&self, _: u64) {}
}
