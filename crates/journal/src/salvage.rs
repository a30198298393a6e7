//! What can still be read of a journal that is damaged.
//!
//! Promise: every event that comes out was written like that, and none before it is missing; the damage comes along.
//! Nothing is written. Nobody may decide anything on what came out: it is for people who want their words back.
//! Start with [`salvage`].

use crate::disk::Disk;
use crate::error::JournalError;
use crate::event::{Committed, Record, Seq};
use crate::files;
use crate::frame::Codec;
use crate::recover::read;
use crate::segment::{End, Segment};

/// All events, or those before the first damage, and the damage.
pub fn salvage<T: Record, D: Disk>(disk: &D, owner: &str) -> (Vec<Committed<T>>, Option<JournalError>) {
    let damage = match read(disk, owner, Seq(1)) {
        Ok(events) => return (events, None),
        Err(damage) => damage,
    };
    let codec = Codec::new(owner);
    let mut events = Vec::new();
    let segments = files::segments(disk).unwrap_or_default();
    for (at, first) in segments.iter().enumerate() {
        let next = Seq(events.len() as u64 + 1);
        let Ok(segment) = Segment::load(disk, &codec, *first) else { break };
        if segment.header.is_none() || segment.first != next {
            break;
        }
        // What the next one supersedes was never committed.
        let walk = segment.walk(&codec, segments.get(at + 1).copied());
        for frame in &walk.events {
            let Ok(event) = T::decode(frame.payload) else { return (events, Some(damage)) };
            events.push(Committed::new(frame.seq, event));
        }
        match walk.end {
            End::Seal(_) | End::Reached => {}
            End::File | End::Flawed(_) | End::Wrong(_) => break,
        }
    }
    (events, Some(damage))
}
