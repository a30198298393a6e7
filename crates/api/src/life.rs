//! What can be different in a session's policy, on the wire.

use berth_core as core;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::turn::{Notify, OnFailed, OnUnknown};

/// [`core::Term`] on paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "mirrors berth_core::Term")]
pub enum Term {
    #[default]
    Same,
    Never,
    After(u64),
}

/// [`core::PolicyChange`] on paper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::PolicyChange")]
pub struct PolicyChange {
    pub idle: Term,
    pub ttl: Term,
    pub archive_after: Term,
    pub on_unknown: Option<OnUnknown>,
    pub on_failed: Option<OnFailed>,
    /// Left out it stays; `null` is what the config file says.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Notify")]
    pub notify: Option<Notify>,
}

/// Tells what is left out from what is `null`.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Notify>, D::Error> {
    Notify::deserialize(deserializer).map(Some)
}

impl From<Term> for core::Term {
    fn from(term: Term) -> Self {
        match term {
            Term::Same => Self::Same,
            Term::Never => Self::Never,
            Term::After(ms) => Self::After(ms),
        }
    }
}

impl From<PolicyChange> for core::PolicyChange {
    fn from(change: PolicyChange) -> Self {
        Self {
            idle: change.idle.into(),
            ttl: change.ttl.into(),
            archive_after: change.archive_after.into(),
            on_unknown: change.on_unknown.map(Into::into),
            on_failed: change.on_failed.map(Into::into),
            notify: change.notify.map(Into::into),
        }
    }
}
