//! `[ui]`: how berth looks.

use berth_api::Problem;

use super::keys::Keys;
use super::registry::{Key, Kind, Table};

pub(super) const TABLE: Table = Table {
    path: "ui",
    about: "How berth looks at a terminal.",
    keys: &[Key::new(
        "color",
        Kind::Choice(&["auto", "always", "never"]),
        "Colours: `auto` on a terminal, unless NO_COLOR is set; --color overrides it",
    )
    .default("auto")],
};

/// What `[ui]` says.
#[derive(Debug)]
pub struct Ui {
    pub color: Color,
}

/// When there are colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also in a pipe or a file
    Always,
    /// Nowhere
    Never,
}

impl Color {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Never];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

impl Ui {
    pub(crate) fn read(mut keys: Keys<'_>) -> Result<Self, Problem> {
        let read = Self { color: keys.choice("color", &Color::ALL, Color::name)?.unwrap_or_default() };
        keys.finish()?;
        Ok(read)
    }
}
