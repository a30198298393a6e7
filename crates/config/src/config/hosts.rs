//! `[hosts]`: the ssh command that reaches other hosts.

use berth_api::Problem;

use super::registry::{KeySpec, TableSpec, ValueKind};
use super::table_reader::TableReader;

pub(super) const TABLE: TableSpec = TableSpec {
    path: "hosts",
    about: "Connections to other hosts (`berth --host`, `berth hosts`). Settings of a single host belong in \
            ~/.ssh/config.",
    keys: &[KeySpec::new("ssh", ValueKind::Text, "The ssh program and its options, separated by spaces")
        .default("ssh")
        .example("\"ssh -o ControlMaster=auto -o ControlPersist=60s\"")],
};

/// Settings of `[hosts]`.
#[derive(Debug)]
pub struct HostsConfig {
    /// The ssh program, then its options.
    pub ssh: Vec<String>,
}

impl HostsConfig {
    pub(crate) fn read(mut keys: TableReader<'_>) -> Result<Self, Problem> {
        let text = keys.text("ssh")?;
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let ssh = match &text {
            Some(found) if words(&found.value).is_empty() => {
                return Err(keys.refuse("ssh", &found.origin, "does not name a program"));
            }
            Some(found) => words(&found.value),
            None => vec!["ssh".to_owned()],
        };
        keys.finish()?;
        Ok(Self { ssh })
    }
}
