//! Records of tokens, and the rights of a token's holder.

use std::collections::BTreeSet;

use berth_api::{AccessScope, Timestamp, Token, TokenKind};
use berth_core::SessionId;
use berth_host::clock;
use serde::{Deserialize, Serialize};

use super::secret::SecretHash;

/// A record on disk. It never changes: a token is made and revoked.
///
/// Unknown fields are refused: a newer version may have written one that narrows the token, and this version must not
/// take the token for a wider one.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenRecord {
    pub(crate) kind: TokenKind,
    pub(crate) name: String,
    /// The SHA-256 of the secret, in hexadecimal digits.
    pub(crate) sha256: String,
    pub(crate) scope: AccessScope,
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

impl TokenRecord {
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

    /// The rights of a client that showed the secret of this hash, if the hash is that of this record.
    pub(crate) fn pass(&self, id: &str, shown: &SecretHash) -> Option<VerifiedToken> {
        let hash = SecretHash::from_hex(&self.sha256)?;
        if !hash.is(shown) {
            return None;
        }
        // An invalid id in a list that only narrows would be left out, and matches no session anyway.
        let ids =
            |sessions: &BTreeSet<String>| sessions.iter().filter_map(|id| SessionId::parse(id)).collect();
        Some(VerifiedToken {
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

/// The rights of a client that showed a valid secret.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    /// Id of the token.
    pub id: String,
    pub(crate) hash: SecretHash,
    /// Kind of the secret: token, login or link.
    pub kind: TokenKind,
    /// Name of the token.
    pub name: String,
    /// Scope of the token.
    pub scope: AccessScope,
    /// Only sessions that exist for the client; `None` for all.
    pub sessions: Option<BTreeSet<SessionId>>,
    /// Id of the token with which this one was made.
    pub parent: Option<String>,
    /// Time at which the token expires, in milliseconds since 1970, by our clock.
    pub expires_at_ms: Option<u64>,
}

impl VerifiedToken {
    /// True if the token has expired.
    pub fn is_over(&self) -> bool {
        self.expires_at_ms.is_some_and(|end| clock::wall_ms() >= end)
    }

    /// True if a token for these sessions has no more of them than this one.
    pub(crate) fn covers_sessions(&self, sessions: Option<&BTreeSet<SessionId>>) -> bool {
        match (&self.sessions, sessions) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mine), Some(wanted)) => wanted.is_subset(mine),
        }
    }
}
