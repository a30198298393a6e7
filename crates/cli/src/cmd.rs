//! The commands, in one file each. Other files here are `follow` (shared by three commands), `port` (part of `ps`) and
//! `conversations` (shared by `ls --foreign` and `transcript`).
//!
//! Promise: a command prints its result on standard output and remarks on standard error, and returns its exit code.
//! Not here: arguments (see `args`), operations on sessions (see `berth_verbs`).

pub(crate) mod acp;
pub(crate) mod adopt;
pub(crate) mod agents;
pub(crate) mod answer;
pub(crate) mod archive;
pub(crate) mod attach;
pub(crate) mod audit;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod conversations;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod grep;
pub(crate) mod helper;
pub(crate) mod history;
pub(crate) mod hook;
pub(crate) mod hosts;
pub(crate) mod import;
pub(crate) mod input;
pub(crate) mod link;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod note;
pub(crate) mod notify;
pub(crate) mod openapi;
pub(crate) mod output;
pub(crate) mod policy;
pub(crate) mod port;
pub(crate) mod proxy;
pub(crate) mod ps;
pub(crate) mod purge;
pub(crate) mod queue;
pub(crate) mod rename;
pub(crate) mod replace;
pub(crate) mod restore;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod screen;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod setup;
pub(crate) mod show;
pub(crate) mod stop;
pub(crate) mod sweep;
pub(crate) mod tag;
pub(crate) mod token;
pub(crate) mod transcript;
pub(crate) mod turns;
pub(crate) mod use_session;
pub(crate) mod wait;
pub(crate) mod why;
