//! The terminal of a person: dashboard, chat, attached sessions, printing, and whether there is a terminal at all.
//!
//! Promise: a terminal is given back as it was; text of agents and other hosts is shown and not obeyed.
//! Not here: state of sessions (`berth-verbs` has it), arguments and consent (see the CLI).
//! Start with [`dashboard::run_dashboard`], [`chat::run_chat`] or [`attachment::attach`]; everything else prints through [`mod@print`].

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod attachment;
mod cells;
pub mod chat;
mod composer;
pub mod current_session;
pub mod dashboard;
mod keys;
mod leave_key;
pub mod output_stream;
pub mod print;
pub mod question_replies;
pub mod reading_time;
pub mod safe_text;
pub mod session_row;
pub mod text_width;
pub mod tty;
pub mod turn_watch;
pub mod ui;

use berth_config::config;
use berth_verbs::{lifecycle, turns};
