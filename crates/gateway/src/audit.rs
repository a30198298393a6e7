//! Selects the requests that go into the audit log: few lines, however many requests there are.
//!
//! Promise: a use of a token is written down once per address in [`USE_PERIOD`]; refusals at most [`MOST_A_MINUTE`] times
//! a minute, and the next line says how many were left out. Any other request costs one lookup in a map.
//! Not here: the file (see `berth_store::audit`), tokens that are made and revoked (see `berth_config::tokens`).
//! Start with [`AuditSampler::used`].

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_config::tokens::VerifiedToken;
use berth_store::StateDir;
use berth_store::audit::{self, AuditEvent};

use crate::auth::failures::place;
use crate::caller::RequestCaller;

/// For how long a token's use from an address is not written down again.
pub(crate) const USE_PERIOD: Duration = Duration::from_secs(24 * 3600);
/// How many pairs of a token and an address are remembered. Beyond that all of them are forgotten.
const MOST_USES: usize = 4096;
/// How many uses, and how many refusals, are written down in a minute.
pub(crate) const MOST_A_MINUTE: u32 = 60;
const MINUTE: Duration = Duration::from_secs(60);

/// Selects lines for the audit log, with a memory of the recent ones.
#[derive(Debug)]
pub(crate) struct AuditSampler {
    root: PathBuf,
    hasher: RandomState,
    /// When the use of a token from an address was written, by the hash of the token's id and the address.
    uses: Mutex<HashMap<u64, Instant>>,
    use_lines: Mutex<MinuteCounter>,
    refusal_lines: Mutex<MinuteCounter>,
}

/// The lines of the current minute.
#[derive(Debug, Default)]
struct MinuteCounter {
    began: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl MinuteCounter {
    /// Makes room for a line. Returns how many lines were left out before it; `None` if there is no room.
    fn room(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.duration_since(began) >= MINUTE) {
            (self.began, self.written) = (Some(now), 0);
        }
        if self.written == MOST_A_MINUTE {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl AuditSampler {
    pub(crate) fn new(home: &StateDir) -> Self {
        Self {
            root: home.root().to_owned(),
            hasher: RandomState::new(),
            uses: Mutex::default(),
            use_lines: Mutex::default(),
            refusal_lines: Mutex::default(),
        }
    }

    /// Notes that a token or login was used from this address; `None` is the local socket.
    pub(crate) fn used(&self, pass: &VerifiedToken, address: Option<IpAddr>) {
        let now = Instant::now();
        if self.is_first_use(pass, address.map(place), now) {
            let by = address.map_or("the local socket".to_owned(), |it| it.to_canonical().to_string());
            let event = AuditEvent::TokenUsed {
                token: pass.id.clone(),
                name: pass.name.clone(),
                kind: pass.kind,
                scope: pass.scope,
            };
            self.write(by, event);
        }
    }

    /// True for a use that gets a line. A use for which there is no room is not remembered, so that the next one gets it.
    fn is_first_use(&self, pass: &VerifiedToken, address: Option<IpAddr>, now: Instant) -> bool {
        let key = self.hasher.hash_one((&pass.id, address));
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.get(&key).is_some_and(|then| now.duration_since(*then) < USE_PERIOD) {
            return false;
        }
        if room(&self.use_lines, now).is_none() {
            return false;
        }
        if uses.len() >= MOST_USES {
            uses.clear();
        }
        uses.insert(key, now);
        true
    }

    /// Notes that a caller at this address showed a secret that is not valid.
    pub(crate) fn wrong_secret(&self, address: Option<IpAddr>) {
        let Some(left_out) = room(&self.refusal_lines, Instant::now()) else { return };
        let by = address.map_or("the local socket".to_owned(), |it| it.to_canonical().to_string());
        self.write(by, AuditEvent::TokenRefused { left_out });
    }

    /// Notes that a known caller asked for more than it may.
    pub(crate) fn refused(&self, caller: &RequestCaller, method: &str, route: &str) {
        let Some(left_out) = room(&self.refusal_lines, Instant::now()) else { return };
        let (method, route) = (audit::text_for_log(method), route.to_owned());
        self.write(caller.place.clone(), AuditEvent::RequestRefused { method, route, left_out });
    }

    /// Writes in another thread, because a disk may be slow.
    fn write(&self, by: String, event: AuditEvent) {
        let root = self.root.clone();
        tokio::task::spawn_blocking(move || audit::append_audit_event(&root, &by, event));
    }
}

fn room(lines: &Mutex<MinuteCounter>, now: Instant) -> Option<u64> {
    lines.lock().unwrap_or_else(PoisonError::into_inner).room(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_room_for_some_lines_and_the_next_one_says_how_many_were_left_out() {
        let (mut minute, start) = (MinuteCounter::default(), Instant::now());
        for _ in 0..MOST_A_MINUTE {
            assert_eq!(minute.room(start), Some(0));
        }
        for _ in 0..1000 {
            assert_eq!(minute.room(start + MINUTE / 2), None);
        }
        assert_eq!(minute.room(start + MINUTE), Some(1000));
        assert_eq!(minute.room(start + MINUTE), Some(0));
    }
}
