//! The handlers: one file for each noun of the API.

pub(crate) mod body;
pub(crate) mod events;
pub(crate) mod hosts;
pub(crate) mod output;
pub(crate) mod sessions;
pub(crate) mod system;
pub(crate) mod terminal;
