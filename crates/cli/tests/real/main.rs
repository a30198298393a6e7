//! berth with the real agents, against the fake model. A module for each subject.

mod agents;
mod editors;
mod examples;
mod gateway;
mod hooks;
mod transcripts;
mod tui_turns;
