//! `[hosts]`: how other hosts are reached.

use berth_api::Problem;

use super::keys::Keys;
use super::registry::{Key, Kind, Table};

pub(super) const TABLE: Table = Table {
    path: "hosts",
    about: "How other hosts are reached (`berth --host`, `berth hosts`). What is about one host belongs into ~/.ssh/config.",
    keys: &[Key::new("ssh", Kind::Text, "The ssh program, and options for it, with spaces between")
        .default("ssh")
        .example("\"ssh -o ControlMaster=auto -o ControlPersist=60s\"")],
};

/// What `[hosts]` says.
#[derive(Debug)]
pub struct Hosts {
    /// The program and its options.
    pub ssh: Vec<String>,
}

impl Hosts {
    pub(crate) fn read(mut keys: Keys<'_>) -> Result<Self, Problem> {
        let text = keys.text("ssh")?;
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let ssh = match &text {
            Some(found) if words(&found.value).is_empty() => {
                return Err(keys.refuse("ssh", &found.origin, "names no program"));
            }
            Some(found) => words(&found.value),
            None => vec!["ssh".to_owned()],
        };
        keys.finish()?;
        Ok(Self { ssh })
    }
}
