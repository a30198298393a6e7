//! Salvage: reads the good part of a damaged journal.
//!
//! Promise: every returned event was written exactly so, and none before it is missing; the damage is returned as
//! well. Nothing is written. The result is for people who want their texts back: no program may base a decision on it.
//! Start with [`salvage_journal`].

use crate::disk::JournalDisk;
use crate::error::JournalError;
use crate::event::{Committed, JournalRecord, Seq};
use crate::files;
use crate::frame::FrameCodec;
use crate::recover::read_journal;
use crate::segment::{JournalSegment, WalkEnd};

/// All events, or those before the first damage, and the damage.
pub fn salvage_journal<T: JournalRecord, D: JournalDisk>(
    disk: &D,
    owner: &str,
) -> (Vec<Committed<T>>, Option<JournalError>) {
    let damage = match read_journal(disk, owner, Seq(1)) {
        Ok(events) => return (events, None),
        Err(damage) => damage,
    };
    let codec = FrameCodec::new(owner);
    let mut events = Vec::new();
    let segments = files::segments(disk).unwrap_or_default();
    for (at, first) in segments.iter().enumerate() {
        let next = Seq(events.len() as u64 + 1);
        let Ok(segment) = JournalSegment::load(disk, &codec, *first) else { break };
        if segment.header.is_none() || segment.first != next {
            break;
        }
        // A frame that the next segment supersedes was never committed.
        let walk = segment.walk(&codec, segments.get(at + 1).copied());
        for frame in &walk.events {
            let Ok(event) = T::decode(frame.payload) else { return (events, Some(damage)) };
            events.push(Committed::new(frame.seq, event));
        }
        match walk.end {
            WalkEnd::Seal(_) | WalkEnd::Reached => {}
            WalkEnd::File | WalkEnd::Flawed(_) | WalkEnd::Wrong(_) => break,
        }
    }
    (events, Some(damage))
}
