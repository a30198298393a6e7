//! Lists of sessions, in the order that people want: for `ls`, `ls --watch` and the dashboard.
//!
//! Not here: which sessions are listed, and their order (see [`berth_verbs::listing`]).
//! Start with [`row`] for the words about one session, [`table`] for lines that fit, [`tree`] for parents and children,
//! [`live_listing`] for changes.

pub(crate) mod live_listing;
pub(crate) mod table;
pub(crate) mod template;
pub(crate) mod tree;

pub(crate) use berth_tui::session_row as row;
pub(crate) use berth_verbs::listing::*;
