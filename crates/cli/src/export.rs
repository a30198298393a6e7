//! Where what is taken away goes: see [`berth_verbs::export`] for what is written.

mod file;

pub(crate) use file::Target;
