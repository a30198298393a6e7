//! What is written about a token, and what one who carries it may do.

use std::collections::BTreeSet;

use berth_api::{Scope, Timestamp, Token, TokenKind};
use berth_core::SessionId;
use berth_host::clock;
use serde::{Deserialize, Serialize};

use super::secret::Hash;

/// A record on disk. It never changes: a token is made and revoked.
///
/// Unknown fields are refused: a newer version may have written one that narrows the token, and whoever does not
/// understand it must not take the token for a wider one.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) kind: TokenKind,
    pub(crate) name: String,
    /// The SHA-256 of the secret, in hexadecimal digits.
    pub(crate) sha256: String,
    pub(crate) scope: Scope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sessions: Option<BTreeSet<String>>,
    pub(crate) created_at_ms: u64,
    pub(crate) created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at_ms: Option<u64>,
    /// Proves that the record was made in this state directory; see `seal`.
    #[serde(default)]
    pub(crate) mac: String,
}

impl Record {
    pub(crate) fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|end| now_ms >= end)
    }

    pub(crate) fn view(&self, id: &str, now_ms: u64, last_used_ms: Option<u64>, is_void: bool) -> Token {
        Token {
            id: id.to_owned(),
            name: self.name.clone(),
            kind: self.kind,
            scope: self.scope,
            sessions: self.sessions.as_ref().map(|sessions| sessions.iter().cloned().collect()),
            created_at: Timestamp(self.created_at_ms),
            created_by: self.created_by.clone(),
            parent: self.parent.clone(),
            expires_at: self.expires_at_ms.map(Timestamp),
            expired: self.is_expired(now_ms),
            void: is_void,
            last_used_at: last_used_ms.map(Timestamp),
        }
    }

    /// What somebody may do who showed the secret of this hash, if it is the one.
    pub(crate) fn pass(&self, id: &str, shown: &Hash) -> Option<Pass> {
        let hash = Hash::from_hex(&self.sha256)?;
        if !hash.is(shown) {
            return None;
        }
        // An id that is none would be left out of a list that only narrows: nobody has that session.
        let ids =
            |sessions: &BTreeSet<String>| sessions.iter().filter_map(|id| SessionId::parse(id)).collect();
        Some(Pass {
            id: id.to_owned(),
            hash,
            kind: self.kind,
            name: self.name.clone(),
            scope: self.scope,
            sessions: self.sessions.as_ref().map(ids),
            parent: self.parent.clone(),
            expires_at_ms: self.expires_at_ms,
        })
    }
}

/// What somebody may do who showed a secret.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Of the token.
    pub id: String,
    pub(crate) hash: Hash,
    /// How it was carried.
    pub kind: TokenKind,
    /// What the token is called.
    pub name: String,
    /// How far they may go.
    pub scope: Scope,
    /// The only sessions there are for them.
    pub sessions: Option<BTreeSet<SessionId>>,
    /// The token it was made with.
    pub parent: Option<String>,
    /// When it ends, by our clock.
    pub expires_at_ms: Option<u64>,
}

impl Pass {
    /// Whether its time is up.
    pub fn is_over(&self) -> bool {
        self.expires_at_ms.is_some_and(|end| clock::wall_ms() >= end)
    }

    /// Whether a token for these sessions is none of more than they have.
    pub(crate) fn covers(&self, sessions: Option<&BTreeSet<SessionId>>) -> bool {
        match (&self.sessions, sessions) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mine), Some(wanted)) => wanted.is_subset(mine),
        }
    }
}
