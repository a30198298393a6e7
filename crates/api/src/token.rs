//! Tokens, as lists show them. The secret itself is in none of these but [`NewToken`], which is said once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Scope, Timestamp};

/// How a token is carried.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// In the header `Authorization`, by programs.
    Token,
    /// In the header `Authorization`, by the page in one browser that logged in.
    Login,
    /// In an address that logs one browser in, once.
    Link,
}

impl TokenKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Token, Self::Login, Self::Link];

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Login => "login",
            Self::Link => "link",
        }
    }
}

/// What is known about a token.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// What it is revoked by, if not by its name. Tells nothing about the secret.
    pub id: String,
    /// What it was called.
    pub name: String,
    /// How it is carried.
    pub kind: TokenKind,
    /// How far it goes.
    pub scope: Scope,
    /// The ids of the only sessions it is for; all if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Vec<String>>,
    /// When it was made.
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    /// Where the maker of the token was.
    pub created_by: String,
    /// The id of the token it was made with: it ends with that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// When it ends, by the clock of the machine that has the sessions; never if nothing is said.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Whether it ended already.
    pub expired: bool,
    /// True if the record was not made with the key of this state directory: it was copied here or edited, or the key
    /// was lost. Such a token opens nothing.
    #[serde(default)]
    pub void: bool,
    /// When it was last used, to the minute.
    #[schemars(with = "Option<String>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
}

/// A token that was just made. Only here the secret is told.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct NewToken {
    /// The secret. It is stored nowhere and never told again.
    pub secret: String,
    /// What is known about it.
    pub token: Token,
}
