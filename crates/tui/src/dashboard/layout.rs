//! The layout of the dashboard: the list, the preview, the lines around them.
//!
//! Promise: the parts never overlap and never leave the area. Drawing and the mouse use the parts of one function, so
//! they always agree.
//! Start with [`DashboardLayout::of`].

use ratatui::layout::Rect;

/// Below this width there is one pane at a time, as on a phone.
const ONE_PANE_BELOW: u16 = 60;
/// From this width on the preview is beside the list.
const BESIDE_FROM: u16 = 110;
/// The fewest lines of a preview below more sessions than fit.
const LEAST_PREVIEW: u16 = 6;
/// Below this size nothing can be read.
const LEAST: (u16, u16) = (20, 6);

/// The pane that is shown where there is room for one, or that gets more room where both need it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum ActivePane {
    #[default]
    List,
    Preview,
}

/// The parts of the screen. Hidden parts are empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DashboardLayout {
    pub(crate) header: Rect,
    pub(crate) list: Rect,
    /// Lines that a session takes in the list.
    pub(crate) row_height: u16,
    /// The line below the list with the number of sessions above and below.
    pub(crate) more: Rect,
    /// The line over the preview with the name of its session.
    pub(crate) title: Rect,
    pub(crate) preview: Rect,
    /// The line between list and preview, if they are side by side.
    pub(crate) divider: Rect,
    pub(crate) footer: Rect,
}

impl DashboardLayout {
    /// The parts of an area, with so many lines wanted at the bottom and so many sessions;
    /// `None` if the area is too small.
    pub(crate) fn of(area: Rect, pane: ActivePane, footer_height: u16, sessions: usize) -> Option<Self> {
        Some(Self::parts(area, pane, footer_height, sessions)?.with_more(sessions))
    }

    fn parts(area: Rect, pane: ActivePane, footer_height: u16, sessions: usize) -> Option<Self> {
        if area.width < LEAST.0 || area.height < LEAST.1 {
            return None;
        }
        let footer_height = footer_height.clamp(1, area.height / 2);
        let header = Rect { height: 1, ..area };
        let footer = Rect { y: area.bottom() - footer_height, height: footer_height, ..area };
        let body = Rect { y: area.y + 1, height: area.height - 1 - footer_height, ..area };
        let none = Rect { width: 0, height: 0, ..body };
        let parts = Self {
            header,
            list: body,
            row_height: 1,
            more: none,
            title: none,
            preview: none,
            divider: none,
            footer,
        };
        let below = |title: Rect| Rect {
            y: title.y + title.height,
            height: body.bottom() - (title.y + title.height),
            ..title
        };
        if sessions == 0 {
            // Without sessions there is no preview, but a text in place of the list.
            return Some(parts);
        }
        if area.width < ONE_PANE_BELOW {
            return Some(match pane {
                ActivePane::List => Self { row_height: 2, ..parts },
                ActivePane::Preview => {
                    let title = Rect { height: 1, ..body };
                    Self { list: none, title, preview: below(title), ..parts }
                }
            });
        }
        if area.width >= BESIDE_FROM {
            let width = (area.width * 2 / 5).min(90);
            let divider = Rect { x: body.x + width, width: 1, ..body };
            let right = Rect { x: divider.x + 2, width: area.width - width - 2, ..body };
            let title = Rect { height: 1, ..right };
            let list = Rect { width, ..body };
            // Where all sessions fit on two lines each, their activity can be read.
            let row_height = if sessions * 2 <= usize::from(body.height) { 2 } else { 1 };
            return Some(Self { list, row_height, divider, title, preview: below(title), ..parts });
        }
        // A few sessions need few lines. Many take the lines that the preview can spare,
        // unless the preview was asked for.
        let most = match pane {
            ActivePane::List => (body.height * 2 / 5).max(body.height.saturating_sub(1 + LEAST_PREVIEW)),
            ActivePane::Preview => body.height * 2 / 5,
        };
        let most = most.max(1);
        let height = u16::try_from(sessions).unwrap_or(most).clamp(1, most);
        let list = Rect { height, ..body };
        let title = Rect { y: list.bottom(), height: 1, ..body };
        Some(Self { list, title, preview: below(title), ..parts })
    }

    /// Takes one line of the list for a count, if not all sessions fit.
    fn with_more(self, sessions: usize) -> Self {
        let list = self.list;
        if sessions <= self.rows() || list.height <= self.row_height {
            return self;
        }
        let list = Rect { height: list.height - 1, ..list };
        Self { list, more: Rect { y: list.bottom(), height: 1, ..list }, ..self }
    }

    /// True if there is room for one pane only.
    pub(crate) fn is_narrow(width: u16) -> bool {
        width < ONE_PANE_BELOW
    }

    /// Number of sessions that the list shows at once.
    pub(crate) fn rows(&self) -> usize {
        usize::from(self.list.height / self.row_height).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_stay_inside_and_apart_at_every_size() {
        for width in 1..150 {
            for height in 1..60 {
                for (pane, footer, sessions) in
                    [(ActivePane::List, 1, 0), (ActivePane::Preview, 9, 500), (ActivePane::List, 3, 5)]
                {
                    let area = Rect::new(0, 0, width, height);
                    let Some(layout) = DashboardLayout::of(area, pane, footer, sessions) else {
                        assert!(width < LEAST.0 || height < LEAST.1);
                        continue;
                    };
                    let parts = [
                        layout.header,
                        layout.list,
                        layout.more,
                        layout.title,
                        layout.preview,
                        layout.divider,
                        layout.footer,
                    ];
                    for (at, part) in parts.iter().enumerate() {
                        assert_eq!(area.intersection(*part).area(), part.area(), "{part:?} in {area:?}");
                        for other in &parts[at + 1..] {
                            assert_eq!(part.intersection(*other).area(), 0, "{part:?} and {other:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn many_sessions_take_the_room_that_the_preview_can_spare() {
        let area = Rect::new(0, 0, 80, 24);
        let list = DashboardLayout::of(area, ActivePane::List, 1, 29).expect("room");
        assert_eq!((list.rows(), list.more.height, list.preview.height), (14, 1, LEAST_PREVIEW));
        let preview = DashboardLayout::of(area, ActivePane::Preview, 1, 29).expect("room");
        assert!(preview.preview.height > preview.list.height, "{preview:?}");
        let few = DashboardLayout::of(area, ActivePane::List, 1, 5).expect("room");
        assert_eq!((few.rows(), few.more.height), (5, 0));
    }
}
