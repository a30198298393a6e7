//! The handlers: one file for each noun of the API.

pub(crate) mod agents;
pub(crate) mod answers;
pub(crate) mod body;
pub(crate) mod events;
pub(crate) mod foreign;
pub(crate) mod helpers;
pub(crate) mod history;
pub(crate) mod hosts;
pub(crate) mod life;
pub(crate) mod login;
pub(crate) mod look;
pub(crate) mod output;
pub(crate) mod queue;
pub(crate) mod records;
pub(crate) mod sessions;
pub(crate) mod system;
pub(crate) mod terminal;
pub(crate) mod tokens;
pub(crate) mod transcript;
pub(crate) mod turns;
pub(crate) mod wait;
pub(crate) mod wishes;
