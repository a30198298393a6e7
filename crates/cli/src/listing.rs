//! The sessions there are, in the order people want them: for `ls`, for `ls --watch`, for the dashboard.
//!
//! Not here: which there are, and their order (see [`berth_verbs::listing`]).
//! Start with [`row`] for the words about one session, [`table`] for lines that fit, [`tree`] for who belongs under
//! whom, [`live`] for news.

pub(crate) mod live;
pub(crate) mod row;
pub(crate) mod table;
pub(crate) mod template;
pub(crate) mod tree;

pub(crate) use berth_verbs::listing::*;
