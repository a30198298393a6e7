//! Passes that were good a moment ago, so that not every request reads a record and computes its seal.
//!
//! Promise: what was revoked or has expired is never good, not even for a moment: a revoked record is gone from its
//! directory, and every request looks whether the record is there. Each record is read again after [`COUNTS_FOR`], so
//! that a lost key takes effect.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use berth_api::{Problem, TokenKind};
use berth_store::Home;
use berth_verbs::tokens::{Pass, Secret, Tokens};

/// How many are remembered. One more, and all are read again.
const MOST_KNOWN: usize = 1024;
/// How long a record is not read again, and how often it is written down that a token is in use.
const COUNTS_FOR: Duration = Duration::from_secs(60);

/// The tokens of the state directory, and those in use.
#[derive(Debug)]
pub(crate) struct Passes {
    pub(crate) tokens: Tokens,
    known: Mutex<HashMap<String, (Arc<Pass>, Instant)>>,
}

impl Passes {
    pub(crate) fn open(home: &Home) -> Result<Self, Problem> {
        Ok(Self { tokens: Tokens::open(home)?, known: Mutex::default() })
    }

    /// What somebody may do who shows this secret. It is written down, now and then, that it is in use.
    pub(crate) fn check(&self, secret: &Secret, kind: TokenKind) -> Option<Arc<Pass>> {
        let id = Tokens::id_of(secret);
        let known = self.known().get(&id).filter(|(_, read)| read.elapsed() < COUNTS_FOR).cloned();
        if let Some((pass, _)) = known {
            let is_it = pass.kind == kind && Tokens::is_of(&pass, secret);
            return (is_it && self.holds(&pass)).then_some(pass);
        }
        let pass = Arc::new(self.tokens.check(secret, kind)?);
        let mut known = self.known();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(id, (pass.clone(), Instant::now()));
        drop(known);
        let (tokens, used) = (self.tokens.clone(), pass.clone());
        tokio::task::spawn_blocking(move || tokens.note_use(&used));
        Some(pass)
    }

    /// Whether it still is good.
    pub(crate) fn holds(&self, pass: &Pass) -> bool {
        self.tokens.holds(pass)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, (Arc<Pass>, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
