//! `[send]`: what callers below `control` may do.

use berth_api::Problem;

use super::keys::Keys;
use super::registry::{Key, Kind, Table};

pub(super) const TABLE: Table = Table {
    path: "send",
    about: "What tokens of the scope `send` and agents below the grant `control` may do (docs/gateway.md, docs/grants.md).",
    keys: &[Key::new(
        "directories",
        Kind::Words,
        "Absolute paths of directories in which they may start sessions; each includes what is below it. Settings \
         in a directory can make an agent run any command, so list only what you trust as your own",
    )
    .otherwise("only directories of existing sessions")
    .example("[\"/home/ada/src\"]")],
};

/// What `[send]` says.
#[derive(Debug, Default)]
pub struct SendKeys {
    pub directories: Vec<String>,
}

impl SendKeys {
    pub(crate) fn read(mut keys: Keys<'_>) -> Result<Self, Problem> {
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
