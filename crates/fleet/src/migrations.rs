//! Numbered SQL that makes and changes the record's schema.
//!
//! Promise: each migration is one transaction under a lock that ends with it, so of two migrators at once one migrates.
//! Start with [`sql_from`], which prints them for a database administrator.

/// Newest format of the record that this version knows: the number of the last migration.
pub const FORMAT: u32 = MIGRATIONS.len() as u32;

const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_record.sql")];

/// Locks the schema against other migrators until the end of the transaction. The number means nothing else.
pub(crate) const LOCK: &str = "SELECT pg_advisory_xact_lock(7236839561)";

/// Migrations behind a format, each with the format that it makes.
pub(crate) fn after(format: u32) -> impl Iterator<Item = (u32, &'static str)> {
    (1..).zip(MIGRATIONS).filter(move |(number, _)| *number > format)
}

/// SQL that brings a record from this format (0: none) to [`FORMAT`], for `psql --set ON_ERROR_STOP=1`. One transaction
/// for each migration; the first fails, and changes nothing, where the schema exists.
pub fn sql_from(format: u32) -> String {
    after(format).map(|(_, sql)| format!("BEGIN;\n{LOCK};\n{sql}COMMIT;\n")).collect()
}
