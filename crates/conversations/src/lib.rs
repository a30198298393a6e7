//! Conversations on this host: their writers, the agents that have them open, hooks of a run, copies of transcripts.
//!
//! Promise: a writer is named only with evidence that was read just now; agents' own files are only read.
//! Not here: starting anything, decisions about sessions (see `berth-keeper`), the contents of transcripts (see
//! `berth-transcript`).
//! Start with [`foreign_writers::find_foreign_writers`], [`open_conversations::OpenConversations`] and [`transcript_copies::TranscriptCopies`].

#![forbid(unsafe_code)]

pub mod foreign_writers;
pub mod injected_hooks;
pub mod location;
pub mod open_conversations;
pub mod transcript_copies;
