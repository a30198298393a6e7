//! `[hooks]`: what is done when an agent's hooks call.

use berth_api::Problem;

use super::keys::Keys;
use super::registry::{Key, Kind, Table};
use crate::hook::guard::Mode;

pub(super) const TABLE: Table = Table {
    path: "hooks",
    about: "What berth does when an agent's hooks call it (docs/hooks.md).",
    keys: &[Key::new(
        "guard",
        Kind::Choice(&["block", "warn", "off"]),
        "Whether a second writer's prompt in a conversation is held up, or only warned of; BERTH_GUARD overrides it",
    )
    .default("block")],
};

/// What `[hooks]` says.
#[derive(Debug)]
pub struct Hooks {
    pub guard: Mode,
}

impl Hooks {
    pub(crate) fn read(mut keys: Keys<'_>) -> Result<Self, Problem> {
        let read = Self { guard: keys.choice("guard", &Mode::ALL, Mode::name)?.unwrap_or_default() };
        keys.finish()?;
        Ok(read)
    }
}
