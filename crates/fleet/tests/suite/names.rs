//! Values for tests: ids, texts, seeds.

use std::hash::{BuildHasher, Hasher, RandomState};

use berth_core::{SafeName, SessionId};
use berth_fleet::engine::{AppendRequest, CreateRequest, HostLossPolicy};
use berth_fleet::{EventNumber, HostId, RecordText, Term};

/// An id that is the same for equal numbers.
pub(crate) fn session(number: u64) -> SessionId {
    // Five bits of the number make one character.
    SessionId::from_random(std::array::from_fn(|at| (number >> (5 * at.min(12)) & 31) as u8))
}

pub(crate) fn text(content: impl Into<String>) -> RecordText {
    RecordText::parse(content).expect("a text of a test has no NUL")
}

pub(crate) fn name(content: &str) -> SafeName {
    SafeName::parse(content).expect("a name of a test is valid")
}

/// A request for an owned session with one event, without name, key and conversation.
pub(crate) fn create(host: HostId, session: SessionId, event: &str) -> CreateRequest {
    CreateRequest {
        host,
        session,
        owned: true,
        name: None,
        key: None,
        conversation: None,
        wants: Vec::new(),
        on_host_loss: HostLossPolicy::Wait,
        event_format: 1,
        events: vec![text(event)],
        live: None,
    }
}

/// An append of these events, without a live run and taken posts.
pub(crate) fn append(
    host: HostId,
    session: SessionId,
    term: u64,
    after: u64,
    events: &[&str],
) -> AppendRequest {
    let events = events.iter().map(|event| text(*event)).collect();
    let (term, after) = (Term(term), EventNumber(after));
    AppendRequest { host, session, term, after, events, live: None, took: Vec::new() }
}

/// The seed of `BERTH_SEED`, or one that differs in every run.
pub(crate) fn seed() -> u64 {
    match std::env::var("BERTH_SEED") {
        Ok(seed) => seed.parse().expect("BERTH_SEED is a number"),
        Err(_) => RandomState::new().build_hasher().finish() >> 16,
    }
}
