//! What berth relies on in the real agents, shown with the fake model (docs/agents.md).

mod acp;
mod claude;
mod codex;
mod tool;
mod tui;
