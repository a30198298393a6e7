//! The commands, one file each, `follow`, which three of them share, and `port`, a part of `ps`.

pub(crate) mod agents;
pub(crate) mod attach;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod follow;
pub(crate) mod helper;
pub(crate) mod input;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod output;
pub(crate) mod port;
pub(crate) mod ps;
pub(crate) mod rename;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod screen;
pub(crate) mod show;
pub(crate) mod stop;
pub(crate) mod sweep;
pub(crate) mod wait;
pub(crate) mod why;
