//! Cache of valid passes, so that not every request reads a record and computes its seal.
//!
//! Promise: a revoked or expired pass is never accepted, not even for a moment: a revoked record is gone from its
//! directory, and every request checks that the record exists. Each record is read again after [`COUNTS_FOR`], so that
//! a lost key takes effect.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use berth_api::{Problem, TokenKind};
use berth_config::tokens::{TokenSecret, TokenStore, VerifiedToken};
use berth_store::StateDir;

/// Number of cached passes. Beyond it the cache is emptied.
const MOST_KNOWN: usize = 1024;
/// How long a record is cached, and the interval at which its use is recorded.
const COUNTS_FOR: Duration = Duration::from_secs(60);

/// The tokens of the state directory, and a cache of those in use.
#[derive(Debug)]
pub(crate) struct TokenCache {
    pub(crate) tokens: TokenStore,
    known: Mutex<HashMap<String, (Arc<VerifiedToken>, Instant)>>,
}

impl TokenCache {
    pub(crate) fn open(home: &StateDir) -> Result<Self, Problem> {
        Ok(Self { tokens: TokenStore::open(home)?, known: Mutex::default() })
    }

    /// The pass for this secret, if it is valid. The use of the token is recorded now and then.
    pub(crate) fn check(&self, secret: &TokenSecret, kind: TokenKind) -> Option<Arc<VerifiedToken>> {
        let id = TokenStore::id_of(secret);
        let known = self.known().get(&id).filter(|(_, read)| read.elapsed() < COUNTS_FOR).cloned();
        if let Some((pass, _)) = known {
            let is_it = pass.kind == kind && TokenStore::is_of(&pass, secret);
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

    /// True while the pass is neither revoked nor expired.
    pub(crate) fn holds(&self, pass: &VerifiedToken) -> bool {
        self.tokens.holds(pass)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, (Arc<VerifiedToken>, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
