//! The destination of an export: see [`berth_verbs::export`] for its contents.

mod file;

pub(crate) use file::ExportTarget;
