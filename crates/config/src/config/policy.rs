//! `[policy]`: when sessions end and are archived automatically; `run` and `policy` override it.

use std::time::Duration;

use berth_api::Problem;
use berth_api::turn::{OnFailed, OnUnknown, SessionPolicy as Record};

use super::registry::{KeySpec, TableSpec, ValueKind};
use super::table_reader::TableReader;

pub(super) const TABLE: TableSpec = TableSpec {
    path: "policy",
    about: "Automatic end and archiving of new sessions. `berth run` has options that override it, and \
            `berth policy` changes it later. `idle`, `ttl`, `on_unknown` and `on_failed` are for agents (`run \
            --agent`); `idle` only for agents that take turns, not for an interface in a terminal.",
    keys: &[
        KeySpec::new(
            "idle",
            ValueKind::TimeOrNever,
            "Pause an agent that was idle for this long, to save memory; the next message wakes it",
        )
        .default("30m")
        .example("\"2h\""),
        KeySpec::new("ttl", ValueKind::TimeOrNever, "End a session for good after this long")
            .default("never")
            .example("\"1d\""),
        KeySpec::new(
            "archive_after",
            ValueKind::TimeOrNever,
            "Archive a session that was at rest for this long (`berth sweep`)",
        )
        .default("never")
        .example("\"30d\""),
        KeySpec::new(
            "on_unknown",
            ValueKind::Choice(&["hold", "continue"]),
            "Behaviour of a queue after a turn whose end is unknown: wait for a person, or go on",
        )
        .default("hold"),
        KeySpec::new(
            "on_failed",
            ValueKind::Choice(&["hold", "continue", "retry"]),
            "Behaviour of a queue after a turn that failed because of the model (usage limit, overload, login): \
             wait for a person, go on, or send the turn's text again after a back-off",
        )
        .default("hold"),
    ],
};

/// Default idle time of an agent that takes turns: an agent that was started for one prompt must not stay for ever.
const USUAL_IDLE: Duration = Duration::from_secs(30 * 60);

/// Settings of `[policy]`.
#[derive(Debug)]
pub struct PolicyConfig {
    pub idle: Option<Duration>,
    pub ttl: Option<Duration>,
    pub archive_after: Option<Duration>,
    pub on_unknown: OnUnknown,
    pub on_failed: OnFailed,
}

impl PolicyConfig {
    pub(crate) fn read(mut keys: TableReader<'_>) -> Result<Self, Problem> {
        let all = [OnUnknown::Hold, OnUnknown::Continue];
        let name = |on_unknown: OnUnknown| match on_unknown {
            OnUnknown::Hold => "hold",
            OnUnknown::Continue => "continue",
        };
        let read = Self {
            idle: keys.time_or_never("idle")?.unwrap_or(Some(USUAL_IDLE)),
            ttl: keys.time_or_never("ttl")?.flatten(),
            archive_after: keys.time_or_never("archive_after")?.flatten(),
            on_unknown: keys.choice("on_unknown", &all, name)?.unwrap_or_default(),
            on_failed: keys.choice("on_failed", &OnFailed::ALL, OnFailed::word)?.unwrap_or_default(),
        };
        keys.finish()?;
        Ok(read)
    }

    /// The policy of a new session of an agent from the table.
    pub fn of_agent(&self) -> Record {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (idle_ms, ttl_ms) = (self.idle.map(ms), self.ttl.map(ms));
        Record {
            idle_ms,
            ttl_ms,
            on_unknown: self.on_unknown,
            on_failed: self.on_failed,
            ..self.of_command()
        }
    }

    /// The policy of a new session of any other command: it has no turns, and ends only by itself.
    pub fn of_command(&self) -> Record {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Record { archive_after_ms: self.archive_after.map(ms), ..Record::default() }
    }
}
