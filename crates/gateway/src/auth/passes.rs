//! Passes that were good a moment ago, so that not every request reads a file.
//!
//! Promise: what was revoked or has expired is never good, not even for a moment: a revoked record is gone from its
//! directory, and the kernel told of that before whoever revoked it heard that it is done. Each time it is looked
//! whether the kernel told of anything; where it tells nothing, whether the record is still there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use berth_api::{Problem, TokenKind};
use berth_keeper::Home;
use berth_verbs::tokens::{Pass, Secret, Tokens};

use crate::notices::{ANY_CHANGE, MOVED_AWAY, Notice, Notices};

/// How many are remembered. One more, and all are read again.
const MOST_KNOWN: usize = 1024;
/// How often it is written down that a token is in use.
const NOTE_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Known {
    pass: Arc<Pass>,
    noted: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Memory {
    known: HashMap<String, Known>,
    /// Grows whenever all is forgotten: what was read before that is not remembered after it.
    generation: u64,
    /// Whether the kernel tells of changes among the records.
    is_watched: bool,
}

impl Memory {
    fn forget_all(&mut self) {
        self.known.clear();
        self.generation += 1;
    }
}

/// Who is known.
#[derive(Debug)]
pub(crate) struct Passes {
    pub(crate) tokens: Tokens,
    memory: RwLock<Memory>,
    notices: Option<Notices>,
}

impl Passes {
    /// `remembers`: whether changes are to be told of, or looked for each time.
    pub(crate) fn open(home: &Home, remembers: bool) -> Result<Self, Problem> {
        let tokens = Tokens::open(home)?;
        let watches = |notices: &Notices| {
            notices.watch(home.root(), MOVED_AWAY).and_then(|_| notices.watch(tokens.dir(), ANY_CHANGE))
        };
        let opened = remembers.then(Notices::open).and_then(Result::ok);
        let notices = opened.filter(|notices| watches(notices).is_ok());
        let memory = RwLock::new(Memory { is_watched: notices.is_some(), ..Memory::default() });
        Ok(Self { tokens, memory, notices })
    }

    /// What somebody may do who shows this secret.
    pub(crate) fn check(&self, secret: &Secret, kind: TokenKind) -> Option<Arc<Pass>> {
        let id = Tokens::id_of(secret);
        // First this, then what is remembered: see `Notices::take`.
        self.hear();
        let (known, generation, is_watched) = {
            let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
            let known = memory.known.get(&id).map(|known| known.pass.clone());
            (known, memory.generation, memory.is_watched)
        };
        if let Some(pass) = known {
            let is_it = pass.kind == kind && Tokens::is_of(&pass, secret);
            let holds = || if is_watched { !pass.is_over() } else { self.tokens.holds(&pass) };
            if is_it && holds() {
                return Some(pass);
            }
            if is_it {
                self.write().known.remove(&id);
            }
            return None;
        }
        let pass = Arc::new(self.tokens.check(secret, kind)?);
        let mut memory = self.write();
        self.hear_with(&mut memory);
        if memory.generation == generation {
            if memory.known.len() >= MOST_KNOWN {
                memory.forget_all();
            }
            memory.known.insert(id, Known { pass: pass.clone(), noted: Mutex::default() });
        }
        Some(pass)
    }

    /// Whether it still is good.
    pub(crate) fn holds(&self, pass: &Pass) -> bool {
        self.tokens.holds(pass)
    }

    /// Writes down, now and then, that it is in use.
    pub(crate) fn note_use(&self, pass: &Arc<Pass>) {
        {
            let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = memory.known.get(&pass.id) {
                let mut noted = known.noted.lock().unwrap_or_else(PoisonError::into_inner);
                if noted.is_some_and(|noted| noted.elapsed() < NOTE_EVERY) {
                    return;
                }
                *noted = Some(Instant::now());
            }
        }
        let (tokens, pass) = (self.tokens.clone(), pass.clone());
        tokio::task::spawn_blocking(move || tokens.note_use(&pass));
    }

    /// Forgets what may have changed.
    fn hear(&self) {
        if self.notices.as_ref().is_some_and(Notices::are_there) {
            self.hear_with(&mut self.write());
        }
    }

    fn hear_with(&self, memory: &mut Memory) {
        let taken = self.notices.as_ref().map(Notices::take).unwrap_or_default();
        if taken.is_empty() {
            return;
        }
        memory.forget_all();
        // The directory itself is gone, or not where it was: from now on each record is looked for.
        if taken.iter().any(|notice| matches!(notice, Notice::Changed { is_over: true, .. })) {
            memory.is_watched = false;
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, Memory> {
        self.memory.write().unwrap_or_else(PoisonError::into_inner)
    }
}
