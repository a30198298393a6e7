//! `[ui]`: look of berth at a terminal.

use berth_api::Problem;

use super::registry::{KeySpec, TableSpec, ValueKind};
use super::table_reader::TableReader;

pub(super) const TABLE: TableSpec = TableSpec {
    path: "ui",
    about: "How berth looks at a terminal.",
    keys: &[
        KeySpec::new(
            "color",
            ValueKind::Choice(&["auto", "always", "never"]),
            "Colours: `auto` on a terminal, unless NO_COLOR is set; --color overrides it",
        )
        .default("auto"),
        KeySpec::new(
            "leave_key",
            ValueKind::Text,
            "The key that leaves an attached session: `ctrl-` and a letter (not c, h, i, j, m), `\\` or `]`; \
             --leave-key overrides it",
        )
        .default("ctrl-\\"),
    ],
};

/// Settings of `[ui]`.
#[derive(Debug)]
pub struct UiConfig {
    pub color: ColorMode,
    pub leave_key: CtrlKey,
}

/// When berth prints colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ColorMode {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also in a pipe or a file
    Always,
    /// Nowhere
    Never,
}

impl ColorMode {
    /// Every choice, in the order of the docs.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Never];

    /// The choice's name in the config file and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// A key that is pressed together with Ctrl.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CtrlKey(u8);

impl Default for CtrlKey {
    fn default() -> Self {
        Self(b'\\')
    }
}

impl CtrlKey {
    /// Letters that a terminal takes for another key (Backspace, Tab, Enter), or that interrupt.
    const TAKEN: &[u8] = b"chijm";

    /// Parses `ctrl-x`, `C-x` or `^x`, in either case; the error says why the key is not valid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let key = ["ctrl-", "ctrl+", "c-", "^"].iter().find_map(|before| lower.strip_prefix(before));
        match key.map(str::as_bytes) {
            Some([key]) if Self::TAKEN.contains(key) => {
                let why =
                    if *key == b'c' { "interrupts" } else { "is Backspace, Tab or Enter to a terminal" };
                Err(format!("`{}`, which {why}; take another letter", text.escape_debug()))
            }
            Some([key @ (b'a'..=b'z' | b'\\' | b']')]) => Ok(Self(*key)),
            Some(_) | None => Err(format!(
                "`{}`, which is not `ctrl-` and a letter, `\\` or `]`, as in ctrl-b",
                text.escape_debug()
            )),
        }
    }

    /// The key without Ctrl, as a code point: a lower-case letter, a backslash or a bracket.
    pub fn key(self) -> u8 {
        self.0
    }

    /// The byte that a terminal sends for it.
    pub fn byte(self) -> u8 {
        self.0 & 0x1f
    }
}

/// Writes the key as people do: `Ctrl-B`.
impl std::fmt::Display for CtrlKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ctrl-{}", char::from(self.0.to_ascii_uppercase()))
    }
}

impl UiConfig {
    pub(crate) fn read(mut keys: TableReader<'_>) -> Result<Self, Problem> {
        let color = keys.choice("color", &ColorMode::ALL, ColorMode::name)?.unwrap_or_default();
        let leave_key = match keys.text("leave_key")? {
            Some(found) => CtrlKey::parse(&found.value)
                .map_err(|bad| keys.refuse("leave_key", &found.origin, &format!("is {bad}")))?,
            None => CtrlKey::default(),
        };
        let read = Self { color, leave_key };
        keys.finish()?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::CtrlKey;

    #[test]
    fn a_key_with_ctrl_is_read_as_people_write_it_and_other_keys_are_refused_with_the_reason() {
        for text in ["ctrl-b", "Ctrl-B", "CTRL+b", "C-b", "^B"] {
            let key = CtrlKey::parse(text).expect(text);
            assert_eq!((key.byte(), key.to_string().as_str()), (2, "Ctrl-B"));
        }
        assert_eq!(CtrlKey::parse("ctrl-\\"), Ok(CtrlKey::default()));
        assert_eq!((CtrlKey::default().byte(), CtrlKey::parse("^]").map(CtrlKey::byte)), (0x1c, Ok(0x1d)));
        for (text, why) in [
            ("ctrl-c", "interrupts"),
            ("ctrl-m", "Enter"),
            ("x", "as in ctrl-b"),
            ("ctrl-", "not"),
            ("ctrl-[", "not"),
            ("ctrl-é", "not"),
        ] {
            let error = CtrlKey::parse(text).expect_err(text);
            assert!(error.contains(why) && error.contains(text), "{error}");
        }
    }
}
