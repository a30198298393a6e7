//! Changes to a session's policy, on the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::mirror::both_ways;
use crate::turn::{NotificationPolicy, OnFailed, OnUnknown};

/// Change of a time limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "mirrors berth_core::Term")]
pub enum TimeoutChange {
    #[default]
    Same,
    Never,
    After(u64),
}

/// Changes to a session's policy. A setting that is left out stays.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "mirrors berth_core::PolicyChange")]
pub struct PolicyChange {
    pub idle: TimeoutChange,
    pub ttl: TimeoutChange,
    pub archive_after: TimeoutChange,
    pub on_unknown: Option<OnUnknown>,
    pub on_failed: Option<OnFailed>,
    /// Occasions for notifications. Absent: unchanged; `null`: those of the config file.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "NotificationPolicy")]
    pub notify: Option<NotificationPolicy>,
}

/// Distinguishes an absent field from `null`.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NotificationPolicy>, D::Error> {
    NotificationPolicy::deserialize(deserializer).map(Some)
}

both_ways! {
    enum TimeoutChange { Same, Never, After(ms) }
    struct PolicyChange { idle, ttl, archive_after, on_unknown, on_failed, notify }
}
