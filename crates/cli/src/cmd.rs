//! The commands, one file each, and `follow`, which three of them share.

pub(crate) mod attach;
pub(crate) mod demo;
pub(crate) mod follow;
pub(crate) mod input;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod output;
pub(crate) mod rename;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod screen;
pub(crate) mod show;
pub(crate) mod stop;
pub(crate) mod wait;
pub(crate) mod why;
