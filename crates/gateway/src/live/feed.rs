//! Events of one session for all of its readers: a ring of the latest ones, and the number of the last one in the
//! journal.
//!
//! Promise: an event is serialized once and shared; the ring has a limit. A reader is a position in the ring and the
//! number of the next event that it needs. A reader that falls behind the ring, or starts late, is sent to the journal
//! for the events in between: in order, and each once. Output and status are not queued: only the newest is sent.
//! Not here: the source of events (see `upstream`), sending them (see `reader`).
//! Start with [`SessionFeed::take`].

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_api::message::KeeperNotice;
use berth_api::record::Event;
use berth_api::turn::split_turn_id;
use berth_api::{SessionStatus, ViewerRights};
use berth_verbs::events::EventLine;
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{Notify, watch};

use super::event_pages::EventPages;
use super::sse;
use crate::viewer_filter::SharedJson;

/// Size limit of the ring, for readers that are a little behind. The newest block is kept whatever its size.
const RING_BYTES: usize = 4 * 1024 * 1024;
/// Number of blocks in the ring.
const RING_BLOCKS: usize = 4096;
/// Number of bytes that a reader gets at a time.
const TAKE_BYTES: usize = 256 * 1024;
/// Size limit of the buffered answer to the running turn, for readers that start late. At the end of the turn the
/// journal has all of it.
const SAID_BYTES: usize = 1024 * 1024;
/// Number of buffered steps of the running turn, for readers that start late.
const KEPT_STEPS: usize = 64;

/// Events and state of one session, for its readers.
#[derive(Debug)]
pub(crate) struct SessionFeed {
    state: Mutex<FeedState>,
    /// Notifies the readers of every change.
    bell: watch::Sender<()>,
    /// Wakes the task that reads the files, when a client knows of a newer event.
    look: Notify,
    /// The journal, for readers that are behind the ring.
    pub(crate) pages: EventPages,
}

/// Position of a reader.
#[derive(Clone, Debug)]
pub(crate) struct FeedCursor {
    /// Number of the next event that the reader needs.
    next: u64,
    /// Number of the next block; absent while the reader is behind the ring.
    block: Option<u64>,
    /// True once the reader has the current state of the running turn.
    knows_turn: bool,
    /// End of the output, as far as the reader knows it.
    output_end: u64,
    /// Version of the status that the reader has.
    status: u64,
}

/// Result of [`SessionFeed::take`].
#[derive(Debug)]
pub(crate) enum FeedUpdate {
    /// Events that the reader can send now.
    News(Vec<Bytes>),
    /// The reader needs events that only the journal has.
    Behind { from: u64, to: u64 },
    /// There is nothing new at the moment.
    Nothing,
    /// The session is deleted: nothing will follow.
    Over,
}

#[derive(Debug, Default)]
struct FeedState {
    /// True once the state of the session is known.
    ready: bool,
    /// True once the session was purged.
    over: bool,
    /// Number of the last event that is known to be on disk.
    known: u64,
    blocks: VecDeque<FeedBlock>,
    /// Number of the first block in the ring.
    first: u64,
    bytes: usize,
    turn: LiveTurn,
    output_end: u64,
    status: Option<SharedJson<SessionStatus>>,
    /// Version of the status, which grows with each one.
    statuses: u64,
}

/// Serialized events that arrived together.
#[derive(Debug)]
struct FeedBlock {
    bytes: Bytes,
    /// Numbers of the consecutive events in the block, each with its place.
    events: Vec<(u64, Range<usize>)>,
    /// The only event in the block, if parts of it are hidden from some readers.
    hides: Option<SharedJson<EventLine>>,
}

impl FeedBlock {
    /// A block of one event of which parts are hidden from some readers.
    fn of(seq: u64, line: SharedJson<EventLine>) -> Self {
        let bytes = line.bytes(&ViewerRights::LEAST);
        Self { events: vec![(seq, 0..bytes.len())], bytes, hides: Some(line) }
    }

    /// The whole block, as the caller may see it.
    fn whole(&self, viewer: &ViewerRights) -> Bytes {
        self.hides.as_ref().map_or_else(|| self.bytes.clone(), |line| line.bytes(viewer))
    }

    /// The events from number `from` on, without the pieces of the answer between them.
    fn events_from(&self, from: u64, viewer: &ViewerRights) -> Vec<Bytes> {
        let wanted = self.events.iter().filter(|(seq, _)| *seq >= from);
        if self.hides.is_some() {
            return wanted.map(|_| self.whole(viewer)).collect();
        }
        let mut pieces: Vec<Range<usize>> = Vec::new();
        for (_, at) in wanted {
            match pieces.last_mut().filter(|last| last.end == at.start) {
                Some(last) => last.end = at.end,
                None => pieces.push(at.clone()),
            }
        }
        pieces.into_iter().map(|at| self.bytes.slice(at)).collect()
    }
}

/// Answer and steps of the running turn so far.
#[derive(Debug, Default)]
struct LiveTurn {
    number: u64,
    text: String,
    /// Size of the answer in bytes, also of the part that is not buffered.
    said: usize,
    steps: VecDeque<ActivityEvent>,
    /// Everything so far, serialized; absent until a reader needs it.
    whole: Option<Bytes>,
}

/// Piece of the answer to the running turn.
#[derive(Serialize, Debug)]
struct SaidEvent<'a> {
    turn: u64,
    /// Offset of the piece in the answer, in bytes. At 0 the answer begins, or begins again.
    at: usize,
    text: &'a str,
}

/// Step of the agent in the running turn.
#[derive(Clone, Serialize, Debug)]
struct ActivityEvent {
    turn: u64,
    /// Size of the answer before this step, in bytes.
    at: usize,
    activity: String,
    detail: String,
    tokens: Option<u64>,
}

#[derive(Serialize)]
struct OutputEvent {
    end: u64,
}

/// Number of the turn that the agent works on.
pub(super) fn current_turn(status: &SessionStatus) -> Option<u64> {
    let current = status.turns.as_ref().and_then(|turns| turns.current.as_deref());
    current.and_then(split_turn_id).map(|(_, turn)| turn)
}

impl LiveTurn {
    fn begin(&mut self, number: u64) {
        *self = Self { number, ..Self::default() };
    }

    fn say(&mut self, number: u64, text: &str, out: &mut Vec<u8>) {
        self.ensure_turn(number);
        sse::write(out, None, "said", &SaidEvent { turn: number, at: self.said, text });
        // The buffer has the beginning of the answer without a gap: after the first piece that does not fit, none is
        // added.
        let is_whole = self.text.len() == self.said;
        if is_whole && self.text.len() + text.len() <= SAID_BYTES {
            self.text.push_str(text);
        }
        self.said += text.len();
        self.whole = None;
    }

    fn act(&mut self, doing: ActivityEvent, out: &mut Vec<u8>) {
        self.ensure_turn(doing.turn);
        let doing = ActivityEvent { at: self.said, ..doing };
        sse::write(out, None, "doing", &doing);
        // The agent reports "writing" with every word.
        let is_same =
            |last: &ActivityEvent| (&last.activity, &last.detail) == (&doing.activity, &doing.detail);
        if self.steps.back().is_some_and(is_same) {
            self.steps.pop_back();
        } else if self.steps.len() == KEPT_STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back(doing);
        self.whole = None;
    }

    fn ensure_turn(&mut self, number: u64) {
        if self.number != number {
            self.begin(number);
        }
    }

    /// Serializes everything so far for a reader that starts late; `None` if there is nothing.
    fn whole(&mut self) -> Option<Bytes> {
        if self.said == 0 && self.steps.is_empty() {
            return None;
        }
        let lay_out = || {
            let mut out = Vec::new();
            sse::write(&mut out, None, "said", &SaidEvent { turn: self.number, at: 0, text: &self.text });
            for step in &self.steps {
                sse::write(&mut out, None, "doing", step);
            }
            Bytes::from(out)
        };
        Some(self.whole.get_or_insert_with(lay_out).clone())
    }
}

impl FeedState {
    fn end(&self) -> u64 {
        self.first + self.blocks.len() as u64
    }

    /// Empties the ring, so that it begins behind the event `known`. Readers use the journal up to there.
    fn restart(&mut self, known: u64) {
        // The numbers skip one block, so that no reader takes an old position for a valid one.
        self.first = self.end() + 1;
        self.blocks.clear();
        self.bytes = 0;
        self.known = known;
    }

    /// The number of the block that has this event.
    fn find(&self, seq: u64) -> Option<u64> {
        let has = |block: &FeedBlock| block.events.iter().any(|(has, _)| *has == seq);
        self.blocks.iter().position(has).map(|index| self.first + index as u64)
    }

    /// The number of the first event in the ring; of the next event to come if there is none.
    fn first_event(&self) -> u64 {
        let first = self.blocks.iter().find_map(|block| block.events.first());
        first.map_or(self.known + 1, |(seq, _)| *seq)
    }

    /// Adds bytes that arrived together as one block, unless there are none.
    fn push_told(&mut self, bytes: &mut Vec<u8>, events: &mut Vec<(u64, Range<usize>)>) {
        if !bytes.is_empty() {
            let (bytes, events) = (std::mem::take(bytes).into(), std::mem::take(events));
            self.push(FeedBlock { bytes, events, hides: None });
        }
    }

    fn push(&mut self, block: FeedBlock) {
        self.bytes += block.bytes.len();
        self.blocks.push_back(block);
        while self.blocks.len() > 1 && (self.bytes > RING_BYTES || self.blocks.len() > RING_BLOCKS) {
            let dropped = self.blocks.pop_front().expect("there is more than one");
            self.bytes -= dropped.bytes.len();
            self.first += 1;
        }
    }
}

impl SessionFeed {
    pub(crate) fn new(pages: EventPages) -> Self {
        Self { state: Mutex::default(), bell: watch::Sender::new(()), look: Notify::new(), pages }
    }

    /// A channel that is notified of every change.
    pub(crate) fn bell(&self) -> watch::Receiver<()> {
        self.bell.subscribe()
    }

    /// Requests that the files are read now, for the time without a keeper.
    pub(crate) fn request_read(&self) {
        self.look.notify_one();
    }

    /// Waits until a client requests that the files are read.
    pub(crate) async fn look_wanted(&self) {
        self.look.notified().await;
    }

    /// Makes a cursor for a reader that has all events up to and including `after`. Fails with the number of the last
    /// event if that is less.
    pub(crate) fn cursor(&self, after: u64) -> Result<FeedCursor, u64> {
        let known = self.lock().known;
        if after > known {
            return Err(known);
        }
        Ok(FeedCursor { next: after + 1, block: None, knows_turn: false, output_end: 0, status: 0 })
    }

    /// True once the state of the session is known.
    pub(crate) fn is_ready(&self) -> bool {
        self.lock().ready
    }

    /// Sets the state of the session as its keeper or its files give it: all events before it are in the journal.
    pub(crate) fn begin(&self, status: &SessionStatus) {
        let mut state = self.lock();
        state.ready = true;
        let known = state.known.max(status.seq);
        state.restart(known);
        state.turn.begin(current_turn(status).unwrap_or(0));
        state.output_end = state.output_end.max(status.output_bytes);
        drop(state);
        self.status(status);
    }

    /// Sets the newest status.
    pub(crate) fn status(&self, status: &SessionStatus) {
        let status = Some(SharedJson::new(status, |status| sse::event("status", status)));
        let mut state = self.lock();
        if state.status != status {
            state.status = status;
            state.statuses += 1;
        }
        drop(state);
        self.bell.send_replace(());
    }

    /// Marks the session as deleted.
    pub(crate) fn end(&self, id: &str) {
        let mut state = self.lock();
        let bytes = sse::event("gone", &serde_json::json!({ "id": id }));
        state.push(FeedBlock { bytes, events: Vec::new(), hides: None });
        (state.ready, state.over) = (true, true);
        drop(state);
        self.bell.send_replace(());
    }

    /// Adds notices of the keeper, in order.
    pub(crate) fn tell(&self, news: Vec<KeeperNotice>) {
        let mut bytes = Vec::new();
        let mut events = Vec::new();
        let mut state = self.lock();
        for notice in news {
            match notice {
                // A notice that was received before.
                KeeperNotice::Event { seq, .. } if seq <= state.known => {}
                KeeperNotice::Event { seq, entry } => {
                    if seq != state.known + 1 {
                        // Notices were missed: readers find their events in the journal.
                        state.restart(seq - 1);
                        bytes.clear();
                        events.clear();
                    }
                    match entry.event {
                        // A prompt that steers the running turn is delivered into that turn.
                        Event::TurnDelivered { turn, .. } if state.turn.number == 0 => state.turn.begin(turn),
                        Event::TurnEnded { turn, .. } if turn == state.turn.number => state.turn.begin(0),
                        _ => {}
                    }
                    state.known = seq;
                    let line = SharedJson::new(&EventLine::new(seq, *entry), sse::line);
                    if line.hides() {
                        state.push_told(&mut bytes, &mut events);
                        state.push(FeedBlock::of(seq, line));
                        continue;
                    }
                    let start = bytes.len();
                    bytes.extend_from_slice(&line.bytes(&ViewerRights::LEAST));
                    events.push((seq, start..bytes.len()));
                }
                KeeperNotice::Output { end } => state.output_end = state.output_end.max(end),
                KeeperNotice::Said { turn, text } => state.turn.say(turn, &text, &mut bytes),
                KeeperNotice::Doing { turn, activity, detail, tokens } => {
                    state.turn.act(ActivityEvent { turn, at: 0, activity, detail, tokens }, &mut bytes);
                }
                KeeperNotice::Replaced { .. } | KeeperNotice::Resized { .. } => {}
            }
        }
        state.push_told(&mut bytes, &mut events);
        drop(state);
        self.bell.send_replace(());
    }

    /// Takes new events for a reader: as many as it gets at a time, as the caller may see them.
    pub(crate) fn take(&self, cursor: &mut FeedCursor, viewer: &ViewerRights) -> FeedUpdate {
        let mut state = self.lock();
        if !state.ready {
            return FeedUpdate::Nothing;
        }
        let mut news = Vec::new();
        let mut block = match cursor.block {
            Some(block) if block >= state.first => block,
            Some(_) | None => {
                cursor.block = None;
                cursor.knows_turn = false;
                // The status comes before the events that led to it.
                if cursor.status == 0
                    && let Some(status) = &state.status
                {
                    cursor.status = state.statuses;
                    return FeedUpdate::News(vec![status.bytes(viewer)]);
                }
                match state.find(cursor.next) {
                    _ if cursor.next > state.known => state.end() - u64::from(state.over),
                    Some(block) => block,
                    None => {
                        let to = (state.first_event() - 1).min(state.known);
                        return FeedUpdate::Behind { from: cursor.next, to };
                    }
                }
            }
        };
        let mut size = 0;
        while block < state.end() && size < TAKE_BYTES {
            let next = &state.blocks[(block - state.first) as usize];
            size += next.bytes.len();
            if cursor.knows_turn || (next.events.is_empty() && state.over) {
                news.push(next.whole(viewer));
            } else {
                // A reader that is behind gets the answer as a whole once it has caught up.
                news.extend(next.events_from(cursor.next, viewer));
            }
            cursor.next = next.events.last().map_or(cursor.next, |(seq, _)| seq + 1);
            block += 1;
        }
        cursor.block = Some(block);
        if block == state.end() {
            if !std::mem::replace(&mut cursor.knows_turn, true) {
                news.extend(state.turn.whole());
            }
            if cursor.output_end < state.output_end {
                cursor.output_end = state.output_end;
                news.push(sse::event("output", &OutputEvent { end: state.output_end }));
            }
            if cursor.status != state.statuses && !state.over {
                cursor.status = state.statuses;
                news.extend(state.status.as_ref().map(|status| status.bytes(viewer)));
            }
        }
        match news.is_empty() {
            false => FeedUpdate::News(news),
            true if state.over => FeedUpdate::Over,
            true => FeedUpdate::Nothing,
        }
    }

    /// Moves the cursor behind `last`, up to which the reader got the events from the journal.
    pub(crate) fn caught_up(cursor: &mut FeedCursor, last: u64) {
        cursor.next = last + 1;
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use berth_api::record::SessionSpec;
    use berth_api::{AccessScope, Timestamp};

    use super::*;

    #[test]
    fn of_a_long_answer_the_beginning_is_kept_without_a_gap() {
        let (mut turn, mut out) = (LiveTurn::default(), Vec::new());
        turn.say(1, "first ", &mut out);
        turn.say(1, &"x".repeat(SAID_BYTES), &mut out);
        turn.say(1, "last", &mut out);
        assert_eq!((turn.text.as_str(), turn.said), ("first ", SAID_BYTES + 10));
        turn.say(2, "anew", &mut out);
        assert_eq!((turn.text.as_str(), turn.said), ("anew", 4));
    }

    #[test]
    fn an_event_in_the_ring_shows_its_command_line_as_the_reader_may_see_it() {
        let command = ["x", "--token", "hunter2"].map(str::to_owned).to_vec();
        let event = Event::CommandChanged { spec: SessionSpec { command, ..SessionSpec::default() } };
        let line = EventLine { seq: 7, at: Timestamp(0), event };
        let block = FeedBlock::of(7, SharedJson::new(&line, sse::line));
        let all = ViewerRights { scope: AccessScope::Control, sessions: None };
        for (viewer, shown) in [(&all, "hunter2"), (&ViewerRights::LEAST, "***")] {
            let told = block.events_from(7, viewer);
            assert_eq!(told, [block.whole(viewer)]);
            assert!(String::from_utf8_lossy(&told[0]).contains(shown), "{told:?}");
            assert!(block.events_from(8, viewer).is_empty());
        }
    }
}
