//! `[ui]`: how berth looks.

use berth_api::Problem;
use clap::ValueEnum;

use super::keys::Keys;
use super::registry::{Key, Kind, Table};

pub(crate) const TABLE: Table = Table {
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
pub(crate) struct Ui {
    pub(crate) color: Color,
}

/// When there are colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also in a pipe or a file
    Always,
    /// Nowhere
    Never,
}

impl Color {
    const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Never];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

impl Ui {
    pub(super) fn read(mut keys: Keys<'_>) -> Result<Self, Problem> {
        let read = Self { color: keys.choice("color", &Color::ALL, Color::name)?.unwrap_or_default() };
        keys.finish()?;
        Ok(read)
    }
}
