//! The handlers: one file for each noun of the API.

pub(crate) mod answers;
pub(crate) mod body;
pub(crate) mod events;
pub(crate) mod hosts;
pub(crate) mod output;
pub(crate) mod queue;
pub(crate) mod sessions;
pub(crate) mod system;
pub(crate) mod terminal;
pub(crate) mod turns;
pub(crate) mod wait;
