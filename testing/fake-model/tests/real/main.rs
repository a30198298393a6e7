//! Properties of the real agents that berth relies on, shown with the fake model (docs/agents.md).

mod acp;
mod claude;
mod codex;
mod tool;
mod tui;
