//! Size of a terminal.
//!
//! Promise: a clamped size can neither hang the emulator nor eat memory.
//! Start with [`ScreenSize::clamped`].

use alacritty_terminal::grid::Dimensions;

/// Rows and columns of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScreenSize {
    /// Lines from top to bottom.
    pub rows: u16,
    /// Cells from left to right.
    pub cols: u16,
}

impl ScreenSize {
    /// The largest number of rows and of columns. At 24 bytes a cell the two screens of the largest
    /// terminal take 48 MB; no real terminal comes near.
    pub const LIMIT: u16 = 1000;

    /// The nearest size the emulator can work with: it hangs at one column, because a wide character
    /// would never fit.
    #[must_use]
    pub fn clamped(self) -> Self {
        ScreenSize { rows: self.rows.clamp(1, Self::LIMIT), cols: self.cols.clamp(2, Self::LIMIT) }
    }
}

impl Dimensions for ScreenSize {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }

    fn screen_lines(&self) -> usize {
        usize::from(self.rows)
    }

    fn columns(&self) -> usize {
        usize::from(self.cols)
    }
}

#[cfg(test)]
mod tests {
    use super::ScreenSize;

    #[test]
    fn an_unusable_size_becomes_the_nearest_usable_one() {
        assert_eq!(ScreenSize { rows: 0, cols: 0 }.clamped(), ScreenSize { rows: 1, cols: 2 });
        assert_eq!(ScreenSize { rows: 65535, cols: 65535 }.clamped(), ScreenSize { rows: 1000, cols: 1000 });
        assert_eq!(ScreenSize { rows: 24, cols: 80 }.clamped(), ScreenSize { rows: 24, cols: 80 });
    }
}
