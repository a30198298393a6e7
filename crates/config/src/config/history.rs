//! `[history]`: copies of agents' transcripts.

use berth_api::Problem;

use super::registry::{KeySpec, TableSpec, ValueKind};
use super::table_reader::TableReader;

pub(super) const TABLE: TableSpec = TableSpec {
    path: "history",
    about: "Copies of agents' transcripts, made at the end of each turn (`berth history`).",
    keys: &[
        KeySpec::new("keep", ValueKind::Choice(&["on", "off"]), "Copy the transcripts of new sessions")
            .default("on"),
        KeySpec::new(
            "limit_mib",
            ValueKind::Count(1, 1 << 30),
            "Limit for all copies together; beyond it `berth sweep` deletes the oldest, except data that exists \
             nowhere else",
        )
        .default("2048"),
    ],
};

/// Settings of `[history]`.
#[derive(Clone, Copy, Debug)]
pub struct HistoryConfig {
    /// True if the transcripts of new sessions are copied.
    pub keep: bool,
    /// Limit for all copies together, in bytes.
    pub limit_bytes: u64,
}

impl HistoryConfig {
    pub(crate) fn read(mut keys: TableReader<'_>) -> Result<Self, Problem> {
        let keep =
            keys.choice("keep", &[true, false], |keep| if keep { "on" } else { "off" })?.unwrap_or(true);
        let limit_bytes = keys.count("limit_mib")?.unwrap_or(2048) << 20;
        keys.finish()?;
        Ok(Self { keep, limit_bytes })
    }
}
