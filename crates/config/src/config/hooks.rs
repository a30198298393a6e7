//! `[hooks]`: the behaviour of berth when an agent's hooks call it.

use berth_api::Problem;

use super::registry::{KeySpec, TableSpec, ValueKind};
use super::table_reader::TableReader;

pub(super) const TABLE: TableSpec = TableSpec {
    path: "hooks",
    about: "Reactions to calls of agents' hooks (docs/hooks.md).",
    keys: &[KeySpec::new(
        "guard",
        ValueKind::Choice(&["block", "warn", "off"]),
        "Reaction to a second writer's prompt in a conversation: hold it up, only warn, or nothing; BERTH_GUARD \
         overrides it",
    )
    .default("block")],
};

/// Reaction of the guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GuardMode {
    /// Holds up the prompt of a second writer.
    #[default]
    Block,
    /// Lets the prompt out, and warns its user.
    Warn,
    /// Does nothing.
    Off,
}

impl GuardMode {
    /// Every mode, in the order of the docs.
    pub const ALL: [Self; 3] = [Self::Block, Self::Warn, Self::Off];

    /// The mode's name in the config file and in the variable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Warn => "warn",
            Self::Off => "off",
        }
    }
}

/// Settings of `[hooks]`.
#[derive(Debug)]
pub struct HooksConfig {
    pub guard: GuardMode,
}

impl HooksConfig {
    pub(crate) fn read(mut keys: TableReader<'_>) -> Result<Self, Problem> {
        let read =
            Self { guard: keys.choice("guard", &GuardMode::ALL, GuardMode::name)?.unwrap_or_default() };
        keys.finish()?;
        Ok(read)
    }
}
