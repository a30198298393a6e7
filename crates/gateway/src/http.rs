//! The handlers: one file for each noun of the API.

pub(crate) mod body;
pub(crate) mod helpers;
pub(crate) mod life;
pub(crate) mod look;
pub(crate) mod sessions;
pub(crate) mod system;
pub(crate) mod transcript;
pub(crate) mod wishes;
