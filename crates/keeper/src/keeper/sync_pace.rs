//! Pace of the disk: decides whether the loop may wait for a sync itself.
//!
//! Handing a batch to the journal's thread and back takes as long as a sync of a quick disk. So once many syncs in a row
//! were quick, the loop of a session without a terminal writes the batch itself.
//! Promise: the first sync that is slow or fails gives the next batches to the thread again, and doubles the quick syncs
//! that must follow before the loop writes again. So a disk that stalls now and then holds the loop up a few
//! times in the life of a keeper, not at every stall.
//! Not here: the thread and the batches (`commit_pipeline`).

use std::time::Duration;

/// A sync of a quick disk takes no longer.
const QUICK: Duration = Duration::from_millis(2);
/// The quick syncs in a row before the loop writes a batch for the first time.
const FIRST_ROW: u32 = 16;
/// The most quick syncs in a row that are asked for.
const LONGEST_ROW: u32 = 1 << 16;

/// Speed of the disk since the keeper started.
#[derive(Debug)]
pub(super) struct SyncPace {
    /// The quick syncs since the last one that was slow or failed.
    in_a_row: u32,
    /// The quick syncs in a row that make a quick disk.
    needed: u32,
}

impl SyncPace {
    pub(super) fn new() -> Self {
        Self { in_a_row: 0, needed: FIRST_ROW }
    }

    /// True if the loop may wait for the next sync.
    pub(super) fn is_quick(&self) -> bool {
        self.in_a_row >= self.needed
    }

    /// Notes the end of a sync.
    pub(super) fn note(&mut self, took: Duration, has_failed: bool) {
        if took <= QUICK && !has_failed {
            self.in_a_row = self.in_a_row.saturating_add(1);
            return;
        }
        if self.is_quick() {
            self.needed = (self.needed * 2).min(LONGEST_ROW);
        }
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(200);

    fn after_quick_syncs(count: u32) -> SyncPace {
        let mut pace = SyncPace::new();
        (0..count).for_each(|_| pace.note(QUICK, false));
        pace
    }

    #[test]
    fn a_disk_is_quick_after_a_row_of_quick_syncs_and_not_before() {
        assert!(!after_quick_syncs(FIRST_ROW - 1).is_quick());
        assert!(after_quick_syncs(FIRST_ROW).is_quick());
    }

    #[test]
    fn one_slow_or_failed_sync_ends_the_row() {
        for (took, has_failed) in [(SLOW, false), (QUICK, true), (SLOW, true)] {
            let mut pace = after_quick_syncs(FIRST_ROW);
            pace.note(took, has_failed);
            assert!(!pace.is_quick());
        }
    }

    #[test]
    fn a_disk_that_stalls_regularly_holds_the_loop_up_ever_more_rarely() {
        let (mut pace, mut held_up) = (SyncPace::new(), 0);
        for number in 1..=100_000 {
            let stalls = number % 100 == 0;
            held_up += u32::from(stalls && pace.is_quick());
            pace.note(if stalls { SLOW } else { QUICK }, false);
        }
        assert!((1..=3).contains(&held_up), "held up {held_up} times by 1,000 stalls");
    }
}
