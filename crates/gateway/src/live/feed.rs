//! One session's news, for however many read it: a ring of what was said last, and how far the journal reaches.
//!
//! Promise: news is laid out once and shared; the ring has a limit. A reader is a place in the ring and the number
//! of the next event it wants. Who falls out of the ring, or comes late, is sent to the journal for every event
//! between, in order and each once. Output and status are not queued: the newest counts.
//! Not here: where news comes from (see `upstream`), sending it (see `reader`).
//! Start with [`Feed::take`].

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_api::message::Notice;
use berth_api::record::Event;
use berth_api::turn::split_turn_id;
use berth_api::{Status, Viewer};
use berth_verbs::events::Line;
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{Notify, watch};

use super::pages::Pages;
use super::sse;
use crate::visible::Shared;

/// How much of the last news is kept for those who are a little behind. The newest is kept, whatever its size.
const RING_BYTES: usize = 4 * 1024 * 1024;
/// How many pieces of news are kept.
const RING_BLOCKS: usize = 4096;
/// How much is handed to a reader at a time.
const TAKE_BYTES: usize = 256 * 1024;
/// How much of the answer to the running turn is kept for those who come late. The journal has it all at its end.
const SAID_BYTES: usize = 1024 * 1024;
/// How many steps of the running turn are kept for them.
const KEPT_STEPS: usize = 64;

/// One session's news.
#[derive(Debug)]
pub(crate) struct Feed {
    state: Mutex<State>,
    /// Rings at every change.
    bell: watch::Sender<()>,
    /// Somebody knows of more than we do.
    look: Notify,
    /// The journal, for who is behind.
    pub(crate) pages: Pages,
}

/// Where a reader is.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    /// The number of the next event it wants.
    next: u64,
    /// The next block it wants; nothing while it is behind.
    block: Option<u64>,
    /// It has heard what was said so far in the running turn.
    knows_turn: bool,
    /// The output it knows of.
    output_end: u64,
    /// The status it knows.
    status: u64,
}

/// What there is for a reader.
#[derive(Debug)]
pub(crate) enum Taken {
    /// News.
    News(Vec<Bytes>),
    /// It wants events that only the journal has.
    Behind { from: u64, to: u64 },
    /// Nothing yet.
    Nothing,
    /// Nothing ever again.
    Over,
}

#[derive(Debug, Default)]
struct State {
    /// Something is known of the session.
    ready: bool,
    /// The session was purged.
    over: bool,
    /// The number of the last event known to be on disk.
    known: u64,
    blocks: VecDeque<Block>,
    /// The place of the first block.
    first: u64,
    bytes: usize,
    turn: Turn,
    output_end: u64,
    status: Option<Shared<Status>>,
    /// Grows with every status.
    statuses: u64,
}

/// News that came together, as it is sent.
#[derive(Debug)]
struct Block {
    bytes: Bytes,
    /// The events in it and where each is; they follow each other.
    events: Vec<(u64, Range<usize>)>,
    /// The only event in it, if not all readers may see all of that event.
    hides: Option<Shared<Line>>,
}

impl Block {
    /// One event that not all readers may see all of.
    fn of(seq: u64, line: Shared<Line>) -> Self {
        let bytes = line.bytes(&Viewer::LEAST);
        Self { events: vec![(seq, 0..bytes.len())], bytes, hides: Some(line) }
    }

    /// All of it, as the caller may see it.
    fn whole(&self, viewer: &Viewer) -> Bytes {
        self.hides.as_ref().map_or_else(|| self.bytes.clone(), |line| line.bytes(viewer))
    }

    /// Its events from number `from` on, without what was said between them.
    fn events_from(&self, from: u64, viewer: &Viewer) -> Vec<Bytes> {
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

/// What was said and done so far in the turn the agent has.
#[derive(Debug, Default)]
struct Turn {
    number: u64,
    text: String,
    /// How many bytes were said, also those that are not kept.
    said: usize,
    steps: VecDeque<Doing>,
    /// All of it, laid out.
    whole: Option<Bytes>,
}

/// A piece of the answer to the running turn.
#[derive(Serialize, Debug)]
struct Said<'a> {
    turn: u64,
    /// How many bytes of the answer came before. At 0 the answer begins (again).
    at: usize,
    text: &'a str,
}

/// What the agent does about the running turn.
#[derive(Clone, Serialize, Debug)]
struct Doing {
    turn: u64,
    /// How many bytes of the answer came before.
    at: usize,
    what: String,
    detail: String,
    tokens: Option<u64>,
}

#[derive(Serialize)]
struct Output {
    end: u64,
}

/// The turn the agent has.
pub(super) fn current_turn(status: &Status) -> Option<u64> {
    let current = status.turns.as_ref().and_then(|turns| turns.current.as_deref());
    current.and_then(split_turn_id).map(|(_, turn)| turn)
}

impl Turn {
    fn begin(&mut self, number: u64) {
        *self = Self { number, ..Self::default() };
    }

    fn say(&mut self, number: u64, text: &str, out: &mut Vec<u8>) {
        self.be_at(number);
        sse::write(out, None, "said", &Said { turn: number, at: self.said, text });
        // Kept is the beginning, without a gap: once a piece did not fit, none behind it is kept.
        let is_whole = self.text.len() == self.said;
        if is_whole && self.text.len() + text.len() <= SAID_BYTES {
            self.text.push_str(text);
        }
        self.said += text.len();
        self.whole = None;
    }

    fn act(&mut self, doing: Doing, out: &mut Vec<u8>) {
        self.be_at(doing.turn);
        let doing = Doing { at: self.said, ..doing };
        sse::write(out, None, "doing", &doing);
        // The agent says with every word that it is writing.
        let is_same = |last: &Doing| (&last.what, &last.detail) == (&doing.what, &doing.detail);
        if self.steps.back().is_some_and(is_same) {
            self.steps.pop_back();
        } else if self.steps.len() == KEPT_STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back(doing);
        self.whole = None;
    }

    fn be_at(&mut self, number: u64) {
        if self.number != number {
            self.begin(number);
        }
    }

    /// Everything so far, for somebody who comes late; nothing if there is nothing.
    fn whole(&mut self) -> Option<Bytes> {
        if self.said == 0 && self.steps.is_empty() {
            return None;
        }
        let lay_out = || {
            let mut out = Vec::new();
            sse::write(&mut out, None, "said", &Said { turn: self.number, at: 0, text: &self.text });
            for step in &self.steps {
                sse::write(&mut out, None, "doing", step);
            }
            Bytes::from(out)
        };
        Some(self.whole.get_or_insert_with(lay_out).clone())
    }
}

impl State {
    fn end(&self) -> u64 {
        self.first + self.blocks.len() as u64
    }

    /// Forgets the ring: the next one begins behind the event `known`. Who reads goes by the journal until there.
    fn restart(&mut self, known: u64) {
        // One place further, so that nobody believes to have been here.
        self.first = self.end() + 1;
        self.blocks.clear();
        self.bytes = 0;
        self.known = known;
    }

    /// Where in the ring an event is: the place of its block.
    fn find(&self, seq: u64) -> Option<u64> {
        let has = |block: &Block| block.events.iter().any(|(has, _)| *has == seq);
        self.blocks.iter().position(has).map(|index| self.first + index as u64)
    }

    /// The number of the first event in the ring; the next one to come if there is none.
    fn first_event(&self) -> u64 {
        let first = self.blocks.iter().find_map(|block| block.events.first());
        first.map_or(self.known + 1, |(seq, _)| *seq)
    }

    /// Adds what was told together, if it is anything.
    fn push_told(&mut self, bytes: &mut Vec<u8>, events: &mut Vec<(u64, Range<usize>)>) {
        if !bytes.is_empty() {
            let (bytes, events) = (std::mem::take(bytes).into(), std::mem::take(events));
            self.push(Block { bytes, events, hides: None });
        }
    }

    fn push(&mut self, block: Block) {
        self.bytes += block.bytes.len();
        self.blocks.push_back(block);
        while self.blocks.len() > 1 && (self.bytes > RING_BYTES || self.blocks.len() > RING_BLOCKS) {
            let dropped = self.blocks.pop_front().expect("there is more than one");
            self.bytes -= dropped.bytes.len();
            self.first += 1;
        }
    }
}

impl Feed {
    pub(crate) fn new(pages: Pages) -> Self {
        Self { state: Mutex::default(), bell: watch::Sender::new(()), look: Notify::new(), pages }
    }

    /// Rings when there may be more.
    pub(crate) fn bell(&self) -> watch::Receiver<()> {
        self.bell.subscribe()
    }

    /// Has the files looked at now, if there is no keeper that tells.
    pub(crate) fn look(&self) {
        self.look.notify_one();
    }

    /// Waits until somebody wants the files looked at.
    pub(crate) async fn look_wanted(&self) {
        self.look.notified().await;
    }

    /// A reader who has heard everything up to and with event `after`; the number of the last event there is, if
    /// that is less.
    pub(crate) fn cursor(&self, after: u64) -> Result<Cursor, u64> {
        let known = self.lock().known;
        if after > known {
            return Err(known);
        }
        Ok(Cursor { next: after + 1, block: None, knows_turn: false, output_end: 0, status: 0 })
    }

    /// Whether anything is known yet.
    pub(crate) fn is_ready(&self) -> bool {
        self.lock().ready
    }

    /// A keeper, or the files, say where things stand: everything before is in the journal.
    pub(crate) fn begin(&self, status: &Status) {
        let mut state = self.lock();
        state.ready = true;
        let known = state.known.max(status.seq);
        state.restart(known);
        state.turn.begin(current_turn(status).unwrap_or(0));
        state.output_end = state.output_end.max(status.output_bytes);
        drop(state);
        self.status(status);
    }

    /// The newest status.
    pub(crate) fn status(&self, status: &Status) {
        let status = Some(Shared::new(status, |status| sse::event("status", status)));
        let mut state = self.lock();
        if state.status != status {
            state.status = status;
            state.statuses += 1;
        }
        drop(state);
        self.bell.send_replace(());
    }

    /// The session is no more.
    pub(crate) fn end(&self, id: &str) {
        let mut state = self.lock();
        let bytes = sse::event("gone", &serde_json::json!({ "id": id }));
        state.push(Block { bytes, events: Vec::new(), hides: None });
        (state.ready, state.over) = (true, true);
        drop(state);
        self.bell.send_replace(());
    }

    /// What a keeper told, in order.
    pub(crate) fn tell(&self, news: Vec<Notice>) {
        let mut bytes = Vec::new();
        let mut events = Vec::new();
        let mut state = self.lock();
        for notice in news {
            match notice {
                // Told twice.
                Notice::Event { seq, .. } if seq <= state.known => {}
                Notice::Event { seq, entry } => {
                    if seq != state.known + 1 {
                        // Something was not told: the journal has it.
                        state.restart(seq - 1);
                        bytes.clear();
                        events.clear();
                    }
                    match entry.event {
                        // What is steered goes into the turn that runs, which goes on.
                        Event::TurnDelivered { turn, .. } if state.turn.number == 0 => state.turn.begin(turn),
                        Event::TurnEnded { turn, .. } if turn == state.turn.number => state.turn.begin(0),
                        _ => {}
                    }
                    state.known = seq;
                    let line = Shared::new(&Line::new(seq, *entry), sse::line);
                    if line.hides() {
                        state.push_told(&mut bytes, &mut events);
                        state.push(Block::of(seq, line));
                        continue;
                    }
                    let start = bytes.len();
                    bytes.extend_from_slice(&line.bytes(&Viewer::LEAST));
                    events.push((seq, start..bytes.len()));
                }
                Notice::Output { end } => state.output_end = state.output_end.max(end),
                Notice::Said { turn, text } => state.turn.say(turn, &text, &mut bytes),
                Notice::Doing { turn, what, detail, tokens } => {
                    state.turn.act(Doing { turn, at: 0, what, detail, tokens }, &mut bytes);
                }
                Notice::Replaced { .. } | Notice::Resized { .. } => {}
            }
        }
        state.push_told(&mut bytes, &mut events);
        drop(state);
        self.bell.send_replace(());
    }

    /// What is new for a reader, as much as it can take at a time, and as the caller may see it.
    pub(crate) fn take(&self, cursor: &mut Cursor, viewer: &Viewer) -> Taken {
        let mut state = self.lock();
        if !state.ready {
            return Taken::Nothing;
        }
        let mut news = Vec::new();
        let mut block = match cursor.block {
            Some(block) if block >= state.first => block,
            Some(_) | None => {
                cursor.block = None;
                cursor.knows_turn = false;
                // Where things stand, before what led there.
                if cursor.status == 0
                    && let Some(status) = &state.status
                {
                    cursor.status = state.statuses;
                    return Taken::News(vec![status.bytes(viewer)]);
                }
                match state.find(cursor.next) {
                    _ if cursor.next > state.known => state.end() - u64::from(state.over),
                    Some(block) => block,
                    None => {
                        let to = (state.first_event() - 1).min(state.known);
                        return Taken::Behind { from: cursor.next, to };
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
                // What was said meanwhile is told as a whole when it has caught up.
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
                news.push(sse::event("output", &Output { end: state.output_end }));
            }
            if cursor.status != state.statuses && !state.over {
                cursor.status = state.statuses;
                news.extend(state.status.as_ref().map(|status| status.bytes(viewer)));
            }
        }
        match news.is_empty() {
            false => Taken::News(news),
            true if state.over => Taken::Over,
            true => Taken::Nothing,
        }
    }

    /// A reader got the events up to and with `last` from the journal.
    pub(crate) fn caught_up(cursor: &mut Cursor, last: u64) {
        cursor.next = last + 1;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use berth_api::record::Spec;
    use berth_api::{Scope, Timestamp};

    use super::*;

    #[test]
    fn of_a_long_answer_the_beginning_is_kept_without_a_gap() {
        let (mut turn, mut out) = (Turn::default(), Vec::new());
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
        let event = Event::Respecified { spec: Spec { command, ..Spec::default() } };
        let line = Line { seq: 7, at: Timestamp(0), event };
        let block = Block::of(7, Shared::new(&line, sse::line));
        let all = Viewer { scope: Scope::Control, sessions: None };
        for (viewer, shown) in [(&all, "hunter2"), (&Viewer::LEAST, "***")] {
            let told = block.events_from(7, viewer);
            assert_eq!(told, [block.whole(viewer)]);
            assert!(String::from_utf8_lossy(&told[0]).contains(shown), "{told:?}");
            assert!(block.events_from(8, viewer).is_empty());
        }
    }
}
