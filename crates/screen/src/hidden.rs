//! State of the terminal that the emulator has but does not show, or does not have at all.
//!
//! Promise: equal to what the emulator holds inside, after every sequence.
//! Not here: hearing it (see `scan`), everything the emulator shows itself.
//! Start with [`Hidden::note`].

use std::ops::Range;

use crate::Size;
use crate::scan::Notice;

/// How many keyboard modes an application may stack. The protocol asks terminals for a limit; the
/// emulator's own limit panics.
pub(crate) const KITTY_STACK_LIMIT: usize = 64;

/// How many titles an application may stack.
pub(crate) const TITLE_STACK_LIMIT: usize = 16;

/// Private modes the emulator ignores but a client's terminal may know, so they are kept and given
/// to it: two mouse encodings, grapheme widths, colour scheme reports, size reports.
pub(crate) const CLIENT_MODES: [u16; 5] = [1015, 1016, 2027, 2031, 2048];

const TAB_EVERY: usize = 8;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hidden {
    size: Size,
    /// Lines that scroll, from the top, zero-based. May be empty if the application asked for nonsense.
    pub(crate) region: Range<u16>,
    /// Keyboard modes stacked on the active screen.
    pub(crate) kitty: Vec<u8>,
    /// Keyboard modes stacked on the other screen.
    pub(crate) kitty_other: Vec<u8>,
    pub(crate) modify_other_keys: u8,
    pub(crate) client_modes: [bool; CLIENT_MODES.len()],
    pub(crate) tabs: Vec<bool>,
    /// Whether SO selected the second character set.
    pub(crate) shifted: bool,
    pub(crate) title_depth: usize,
}

impl Hidden {
    pub(crate) fn new(size: Size) -> Self {
        Hidden {
            size,
            region: 0..size.rows,
            kitty: Vec::new(),
            kitty_other: Vec::new(),
            modify_other_keys: 0,
            client_modes: Default::default(),
            tabs: default_tabs(size).collect(),
            shifted: false,
            title_depth: 0,
        }
    }

    /// Takes note of what the emulator has just done, with its cursor in `column`.
    pub(crate) fn note(&mut self, notice: &Notice, column: usize) {
        match *notice {
            Notice::Reset => *self = Hidden::new(self.size),
            Notice::Region { top, bottom } => self.set_region(top, bottom),
            Notice::ColumnMode => self.set_region(1, None),
            Notice::Mode { number, on } => {
                if let Some(index) = CLIENT_MODES.iter().position(|&mode| mode == number) {
                    self.client_modes[index] = on;
                }
            }
            Notice::ModifyOtherKeys(level) => self.modify_other_keys = level,
            Notice::KittyPush(flags) => self.kitty.push(flags),
            Notice::KittyPop(count) => {
                self.kitty.truncate(self.kitty.len().saturating_sub(usize::from(count)));
            }
            Notice::TitlePush => self.title_depth += 1,
            Notice::TitlePop => self.title_depth = self.title_depth.saturating_sub(1),
            Notice::TabSet => self.tabs[column] = true,
            Notice::TabClear => self.tabs[column] = false,
            Notice::TabClearAll => self.tabs.fill(false),
            Notice::Shift(on) => self.shifted = on,
            Notice::Query(_) => {}
        }
    }

    /// The other screen is shown now; it has a keyboard stack of its own.
    pub(crate) fn swap_screens(&mut self) {
        std::mem::swap(&mut self.kitty, &mut self.kitty_other);
    }

    pub(crate) fn resize(&mut self, size: Size) {
        let kept = self.tabs.len();
        self.tabs.truncate(usize::from(size.cols));
        self.tabs.extend(default_tabs(size).skip(kept));
        self.region = 0..size.rows;
        self.size = size;
    }

    /// True if the whole screen scrolls.
    pub(crate) fn scrolls_fully(&self) -> bool {
        self.region == (0..self.size.rows)
    }

    fn set_region(&mut self, top: u16, bottom: Option<u16>) {
        let rows = self.size.rows;
        let bottom = bottom.unwrap_or(rows);
        if top < bottom {
            self.region = (top - 1).min(rows)..bottom.min(rows);
        }
    }
}

fn default_tabs(size: Size) -> impl Iterator<Item = bool> {
    (0..usize::from(size.cols)).map(|column| column % TAB_EVERY == 0)
}

#[cfg(test)]
mod tests {
    use super::Hidden;
    use crate::Size;
    use crate::scan::Notice;

    #[test]
    fn a_region_that_makes_no_sense_changes_nothing() {
        let mut hidden = Hidden::new(Size { rows: 24, cols: 80 });
        hidden.note(&Notice::Region { top: 3, bottom: Some(10) }, 0);
        assert_eq!(hidden.region, 2..10);
        hidden.note(&Notice::Region { top: 9, bottom: Some(9) }, 0);
        assert_eq!(hidden.region, 2..10);
        hidden.note(&Notice::Region { top: 1, bottom: None }, 0);
        assert!(hidden.scrolls_fully());
    }

    #[test]
    fn tab_stops_survive_a_resize_and_new_columns_get_the_usual_ones() {
        let mut hidden = Hidden::new(Size { rows: 24, cols: 10 });
        hidden.note(&Notice::TabClearAll, 0);
        hidden.note(&Notice::TabSet, 3);
        hidden.resize(Size { rows: 24, cols: 20 });
        let stops: Vec<usize> = (0..20).filter(|&column| hidden.tabs[column]).collect();
        assert_eq!(stops, [3, 16]);
    }
}
