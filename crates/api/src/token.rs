//! Access tokens, as lists show them. Only [`NewToken`] contains a secret, and it is returned once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AccessScope, Timestamp};

/// How the secret of a token is carried.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// In the header `Authorization`, by programs.
    Token,
    /// In the header `Authorization`, by the page in one logged-in browser.
    Login,
    /// In an address that logs one browser in, once.
    Link,
}

impl TokenKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Token, Self::Login, Self::Link];

    /// Word that stands for the kind in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Login => "login",
            Self::Link => "link",
        }
    }
}

/// A token without its secret.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Id of the token, for revoking it. It reveals nothing about the secret.
    pub id: String,
    /// Name of the token, as its maker chose it.
    pub name: String,
    /// How the secret is carried.
    pub kind: TokenKind,
    /// Rights of the token.
    pub scope: AccessScope,
    /// Ids of the sessions that the token is limited to; absent if it is valid for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Vec<String>>,
    /// Time at which the token was made.
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    /// Location of the client that made the token.
    pub created_by: String,
    /// Id of the token that this one was made with. This token ends with its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Time at which the token expires, by the clock of the machine that has the sessions; absent if it never does.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// True if the token has expired.
    pub expired: bool,
    /// True if the record was not made with the key of this state directory: it was copied here or edited, or the key
    /// was lost. Such a token gives no access.
    #[serde(default)]
    pub void: bool,
    /// Time of the last use, to the minute.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
}

/// A token that was just made, with its secret.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct NewToken {
    /// Secret of the token. It is stored nowhere and cannot be shown again.
    pub secret: String,
    /// The token without its secret.
    pub token: Token,
}
