//! `[history]`: copies of agents' transcripts.

use berth_api::Problem;

use super::keys::Keys;
use super::registry::{Key, Kind, Table};

pub(super) const TABLE: Table = Table {
    path: "history",
    about: "Copies of agents' transcripts, made at the end of each turn (`berth history`).",
    keys: &[
        Key::new("keep", Kind::Choice(&["on", "off"]), "Whether sessions that start from now on are copied")
            .default("on"),
        Key::new(
            "limit_mib",
            Kind::Count(1, 1 << 30),
            "How much all copies may take; beyond that the oldest go, except what is nowhere else (`berth sweep`)",
        )
        .default("2048"),
    ],
};

/// What `[history]` says.
#[derive(Clone, Copy, Debug)]
pub struct HistoryKeys {
    /// Whether copies are made.
    pub keep: bool,
    /// How many bytes all may take.
    pub limit_bytes: u64,
}

impl HistoryKeys {
    pub(crate) fn read(mut keys: Keys<'_>) -> Result<Self, Problem> {
        let keep =
            keys.choice("keep", &[true, false], |keep| if keep { "on" } else { "off" })?.unwrap_or(true);
        let limit_bytes = keys.count("limit_mib")?.unwrap_or(2048) << 20;
        keys.finish()?;
        Ok(Self { keep, limit_bytes })
    }
}
