//! What can be different in a session's policy, on the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::paper::both_ways;
use crate::turn::{Notify, OnFailed, OnUnknown};

/// [`berth_core::Term`] on paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "mirrors berth_core::Term")]
pub enum Term {
    #[default]
    Same,
    Never,
    After(u64),
}

/// [`berth_core::PolicyChange`] on paper.
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

both_ways! {
    enum Term { Same, Never, After(ms) }
    struct PolicyChange { idle, ttl, archive_after, on_unknown, on_failed, notify }
}
