//! State of the terminal that the emulator has but does not show, or does not have at all.
//!
//! Promise: this state equals that inside of the emulator after every sequence.
//! Not here: parsing it (see `scan`), everything the emulator shows itself.
//! Start with [`HiddenState::note`].

use std::ops::Range;

use crate::ScreenSize;
use crate::scan::SequenceEffect;

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
pub(crate) struct HiddenState {
    size: ScreenSize,
    /// Lines that scroll, zero-based. May be empty if the application sent invalid numbers.
    pub(crate) region: Range<u16>,
    /// Keyboard modes stacked on the active screen.
    pub(crate) kitty: Vec<u8>,
    /// Keyboard modes stacked on the other screen.
    pub(crate) kitty_other: Vec<u8>,
    pub(crate) modify_other_keys: u8,
    pub(crate) client_modes: [bool; CLIENT_MODES.len()],
    pub(crate) tabs: Vec<bool>,
    /// True if SO selected the second character set.
    pub(crate) shifted: bool,
    pub(crate) title_depth: usize,
}

impl HiddenState {
    pub(crate) fn new(size: ScreenSize) -> Self {
        HiddenState {
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

    /// Updates the state after the emulator processed this notice, with its cursor in `column`.
    pub(crate) fn note(&mut self, notice: &SequenceEffect, column: usize) {
        match *notice {
            SequenceEffect::Reset => *self = HiddenState::new(self.size),
            SequenceEffect::Region { top, bottom } => self.set_region(top, bottom),
            SequenceEffect::ColumnMode => self.set_region(1, None),
            SequenceEffect::Mode { number, on } => {
                if let Some(index) = CLIENT_MODES.iter().position(|&mode| mode == number) {
                    self.client_modes[index] = on;
                }
            }
            SequenceEffect::ModifyOtherKeys(level) => self.modify_other_keys = level,
            SequenceEffect::KittyPush(flags) => self.kitty.push(flags),
            SequenceEffect::KittyPop(count) => {
                self.kitty.truncate(self.kitty.len().saturating_sub(usize::from(count)));
            }
            SequenceEffect::TitlePush => self.title_depth += 1,
            SequenceEffect::TitlePop => self.title_depth = self.title_depth.saturating_sub(1),
            SequenceEffect::TabSet => self.tabs[column] = true,
            SequenceEffect::TabClear => self.tabs[column] = false,
            SequenceEffect::TabClearAll => self.tabs.fill(false),
            SequenceEffect::Shift(on) => self.shifted = on,
            SequenceEffect::Query(_) => {}
        }
    }

    /// The other screen is shown now; it has a keyboard stack of its own.
    pub(crate) fn swap_screens(&mut self) {
        std::mem::swap(&mut self.kitty, &mut self.kitty_other);
    }

    pub(crate) fn resize(&mut self, size: ScreenSize) {
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

fn default_tabs(size: ScreenSize) -> impl Iterator<Item = bool> {
    (0..usize::from(size.cols)).map(|column| column % TAB_EVERY == 0)
}

#[cfg(test)]
mod tests {
    use super::HiddenState;
    use crate::ScreenSize;
    use crate::scan::SequenceEffect;

    #[test]
    fn an_invalid_region_changes_nothing() {
        let mut hidden = HiddenState::new(ScreenSize { rows: 24, cols: 80 });
        hidden.note(&SequenceEffect::Region { top: 3, bottom: Some(10) }, 0);
        assert_eq!(hidden.region, 2..10);
        hidden.note(&SequenceEffect::Region { top: 9, bottom: Some(9) }, 0);
        assert_eq!(hidden.region, 2..10);
        hidden.note(&SequenceEffect::Region { top: 1, bottom: None }, 0);
        assert!(hidden.scrolls_fully());
    }

    #[test]
    fn tab_stops_survive_a_resize_and_new_columns_get_the_usual_ones() {
        let mut hidden = HiddenState::new(ScreenSize { rows: 24, cols: 10 });
        hidden.note(&SequenceEffect::TabClearAll, 0);
        hidden.note(&SequenceEffect::TabSet, 3);
        hidden.resize(ScreenSize { rows: 24, cols: 20 });
        let stops: Vec<usize> = (0..20).filter(|&column| hidden.tabs[column]).collect();
        assert_eq!(stops, [3, 16]);
    }
}
