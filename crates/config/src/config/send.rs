//! `[send]`: rights of callers below `control`.

use berth_api::Problem;

use super::registry::{KeySpec, TableSpec, ValueKind};
use super::table_reader::TableReader;

pub(super) const TABLE: TableSpec = TableSpec {
    path: "send",
    about: "Rights of tokens of the scope `send` and of agents below the grant `control` (docs/gateway.md, \
            docs/grants.md).",
    keys: &[KeySpec::new(
        "directories",
        ValueKind::Words,
        "Absolute paths of directories in which they may start sessions, each with everything below it. Settings \
         in a directory can make an agent run any command, so list only directories that you trust like your own",
    )
    .otherwise("only directories of existing sessions")
    .example("[\"/home/ada/src\"]")],
};

/// Settings of `[send]`.
#[derive(Debug, Default)]
pub struct SendConfig {
    pub directories: Vec<String>,
}

impl SendConfig {
    pub(crate) fn read(mut keys: TableReader<'_>) -> Result<Self, Problem> {
        let directories = match keys.words("directories")? {
            Some(found) => {
                if let Some(odd) = found.value.iter().find(|dir| !dir.starts_with('/')) {
                    let what = format!("has `{}`, which is not an absolute path", odd.escape_debug());
                    return Err(keys.refuse("directories", &found.origin, &what));
                }
                found.value
            }
            None => vec![],
        };
        keys.finish()?;
        Ok(Self { directories })
    }
}
