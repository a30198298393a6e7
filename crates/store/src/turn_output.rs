//! The part of the output that belongs to each turn.
//!
//! Promise: a turn's output begins with its delivery, and ends with the next delivery or with the start of a run,
//! in the order of the events: turns may be delivered in another order than the one of their numbers. Output behind
//! the start of a run belongs to no turn, because an agent that starts again may replay its conversation there.
//! Not here: reading the events (see `stored_session`), or the output.
//! Start with [`TurnOutputs::of`].

use std::collections::HashMap;

use berth_core::Event;
use berth_journal::Committed;

use crate::session_view::StoredEvent;

/// Parts of the output, of all turns that were delivered.
#[derive(Clone, Debug, Default)]
pub struct TurnOutputs {
    /// In the order of the deliveries, whose offsets only grow.
    parts: Vec<OutputPart>,
    /// Places in `parts`, by turn.
    places: HashMap<u64, usize>,
    /// Places of the parts that have no end yet.
    open: Vec<usize>,
}

/// Part of the output that belongs to one turn.
#[derive(Clone, Copy, Debug)]
struct OutputPart {
    turn: u64,
    begin: u64,
    end: Option<u64>,
}

impl TurnOutputs {
    /// The parts that follow from these events: all events of a session, or the first ones.
    pub fn of(events: &[Committed<StoredEvent>]) -> Self {
        let mut outputs = Self::default();
        events.iter().for_each(|event| outputs.note(&event.get().event));
        outputs
    }

    /// Offset at which the output of a turn ends; `None` if it goes on, or if the turn was not delivered.
    pub fn end(&self, turn: u64) -> Option<u64> {
        self.parts[*self.places.get(&turn)?].end
    }

    /// The turn that the byte at this offset belongs to. If several turns were delivered at once, that is the last one.
    pub fn turn_at(&self, offset: u64) -> Option<u64> {
        let begun = self.parts.partition_point(|part| part.begin <= offset);
        let part = self.parts[..begun].last()?;
        part.end.is_none_or(|end| offset < end).then_some(part.turn)
    }

    /// True if the delivery of this turn is among the events.
    pub(crate) fn is_delivered(&self, turn: u64) -> bool {
        self.places.contains_key(&turn)
    }

    /// The turns whose output has not ended.
    pub(crate) fn open_turns(&self) -> impl Iterator<Item = u64> {
        self.open.iter().map(|place| self.parts[*place].turn)
    }

    /// Adds the next event.
    pub(crate) fn note(&mut self, event: &Event) {
        let Self { parts, places, open } = self;
        match event {
            Event::TurnDelivered { turn, output_from, .. } => {
                // Turns that are delivered at one offset share their output: the agent was told more while it worked.
                open.retain(|place| {
                    let part = &mut parts[*place];
                    part.end = (*output_from > part.begin).then_some(*output_from);
                    part.end.is_none()
                });
                places.insert(*turn, parts.len());
                open.push(parts.len());
                parts.push(OutputPart { turn: *turn, begin: *output_from, end: None });
            }
            Event::RunStarting { output_from, .. } => {
                open.drain(..).for_each(|place| parts[place].end = Some(*output_from));
            }
            _ => {}
        }
    }
}
