//! Handlers of the API: one file for each noun.

pub(crate) mod agents;
pub(crate) mod answers;
pub(crate) mod diagnostics;
pub(crate) mod events;
pub(crate) mod extractors;
pub(crate) mod foreign;
pub(crate) mod helpers;
pub(crate) mod history;
pub(crate) mod hosts;
pub(crate) mod lifecycle;
pub(crate) mod login;
pub(crate) mod output;
pub(crate) mod queue;
pub(crate) mod session_params;
pub(crate) mod sessions;
pub(crate) mod system;
pub(crate) mod terminal;
pub(crate) mod tokens;
pub(crate) mod transcript;
pub(crate) mod transcript_files;
pub(crate) mod turns;
pub(crate) mod wait;
