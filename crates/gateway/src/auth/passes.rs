//! Passes that were good a moment ago, so that not every request reads a file.
//!
//! Promise: what was revoked or has expired is never good, not even for a moment: each time it is looked whether the
//! record is still there, which costs a microsecond on the local disk that a state directory is on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::{Problem, TokenKind};
use berth_keeper::Home;
use berth_verbs::tokens::{Pass, Secret, Tokens};

/// How many are remembered. One more, and all are read again.
const MOST_KNOWN: usize = 1024;
/// How often it is written down that a token is in use.
const NOTE_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Known {
    pass: Arc<Pass>,
    noted: Option<Instant>,
}

/// Who is known.
#[derive(Debug)]
pub(crate) struct Passes {
    pub(crate) tokens: Tokens,
    known: Mutex<HashMap<String, Known>>,
}

impl Passes {
    pub(crate) fn open(home: &Home) -> Result<Self, Problem> {
        Ok(Self { tokens: Tokens::open(home)?, known: Mutex::default() })
    }

    /// What somebody may do who shows this secret.
    pub(crate) fn check(&self, secret: &Secret, kind: TokenKind) -> Option<Arc<Pass>> {
        let id = Tokens::id_of(secret);
        let known = self.known().get(&id).map(|known| known.pass.clone());
        if let Some(pass) = known {
            let is_it = pass.kind == kind && Tokens::is_of(&pass, secret);
            if is_it && self.tokens.holds(&pass) {
                return Some(pass);
            }
            if is_it {
                self.known().remove(&id);
            }
            return None;
        }
        let pass = Arc::new(self.tokens.check(secret, kind)?);
        let mut known = self.known();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(id, Known { pass: pass.clone(), noted: None });
        Some(pass)
    }

    /// Whether it still is good.
    pub(crate) fn holds(&self, pass: &Pass) -> bool {
        self.tokens.holds(pass)
    }

    /// Writes down, now and then, that it is in use.
    pub(crate) fn note_use(&self, pass: &Arc<Pass>) {
        if let Some(known) = self.known().get_mut(&pass.id) {
            if known.noted.is_some_and(|noted| noted.elapsed() < NOTE_EVERY) {
                return;
            }
            known.noted = Some(Instant::now());
        }
        let (tokens, pass) = (self.tokens.clone(), pass.clone());
        tokio::task::spawn_blocking(move || tokens.note_use(&pass));
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
