//! Events that agents report through `berth hook`, the guard, and `berth setup claude|codex`.
//!
//! The agent is a shell under the name `claude`, which calls the real program as Claude Code does.

mod guard;
mod manual_agent;
mod records;
mod setup;
