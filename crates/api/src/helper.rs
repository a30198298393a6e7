//! Helpers on paper and over the wire: how they are shared, who owns them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::paper::mirror;
use crate::status::Timestamp;

mirror! {
    /// [`berth_core::Terms`] on paper.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
    pub struct Terms [checked] {
        pub name: String,
        pub scope: Scope,
        #[serde(default)]
        pub linger_ms: u64,
        #[serde(default)]
        pub ready: Option<ReadyWhen>,
        #[serde(default)]
        pub ready_within_ms: u64,
    }

    /// [`berth_core::Scope`] on paper.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(rename = "HelperScope")]
    pub enum Scope {
        Dir(dir: String),
        User,
    }

    /// [`berth_core::ReadyWhen`] on paper.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ReadyWhen {
        Tcp(port: u16),
        Unix(path: String),
        Line(pattern: String),
    }

    /// [`berth_core::Owner`] on paper.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
    pub struct Owner [checked] {
        #[serde(rename = "owner")]
        pub session: String,
        #[serde(default)]
        pub keep: bool,
    }

    /// [`berth_core::Leaving`] on paper.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Leaving {
        Released,
        #[default]
        Gone,
    }
}

/// What somebody who joins takes a helper for. What is left out may be anything.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Wanted {
    /// Which helper: an address says where it was looked for, this who was meant.
    pub name: String,
    /// Among whom that name means it.
    pub scope: Option<Scope>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub cwd: Option<String>,
    /// How long it lingers.
    pub linger_ms: Option<u64>,
    /// What makes it ready.
    pub ready: Option<ReadyWhen>,
}

/// What [`crate::Status`] says about a helper in addition.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HelperStatus {
    /// What people call it.
    pub name: String,
    /// `dir` or `user`.
    pub scope: String,
    /// The directory its name counts in.
    pub dir: Option<String>,
    /// Who owns the current run.
    pub owners: Vec<OwnerStatus>,
    /// Whether its record says who owns it: one of an older version does not.
    pub owners_known: bool,
    /// Whether it can be used now.
    pub ready: bool,
    /// What makes it ready.
    pub ready_when: Option<String>,
    /// Where it is reached.
    pub address: Option<String>,
    /// How long it stays when its last owner has left.
    pub idle_ms: u64,
    /// It has no owner, and will be stopped for that.
    pub lingers: bool,
    /// Whether an owner wants it also between its turns.
    pub keep: bool,
}

/// One who owns a helper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OwnerStatus {
    /// The session's id.
    pub session: String,
    /// What people call that session, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it wants the helper between its turns, too.
    pub keep: bool,
    /// Since when.
    pub since: Timestamp,
}

impl ReadyWhen {
    /// Reads what people write: `tcp:PORT`, `unix:PATH` or `line:REGEX`. Whether the pattern is one is
    /// for others to say.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("tcp", port) => port.parse().ok().filter(|port| *port != 0).map(Self::Tcp),
            ("unix", path) if !path.is_empty() => Some(Self::Unix(path.to_owned())),
            ("line", pattern) if !pattern.is_empty() => Some(Self::Line(pattern.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for ReadyWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(port) => write!(f, "tcp:{port}"),
            Self::Unix(path) => write!(f, "unix:{path}"),
            Self::Line(pattern) => write!(f, "line:{pattern}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_core as core;

    use super::*;
    use crate::record::{BadRecord, Entry};

    #[test]
    fn signs_of_readiness_are_read_as_people_write_them() {
        for good in ["tcp:3000", "unix:a/b.sock", "line:listening on :[0-9]+"] {
            assert_eq!(ReadyWhen::parse(good).map(|ready| ready.to_string()).as_deref(), Some(good));
        }
        for bad in ["", "tcp", "tcp:", "tcp:0", "tcp:70000", "tcp:-1", "unix:", "line:", "udp:53"] {
            assert_eq!(ReadyWhen::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_helpers_events_come_back_from_paper_as_they_were() {
        let owner = core::SessionId::parse("0123456789ab").expect("an id");
        let terms = core::Terms {
            name: core::Name::parse("web").expect("a name"),
            scope: core::Scope::Dir("/w".into()),
            linger_ms: 5,
            ready: Some(core::ReadyWhen::Tcp(80)),
            ready_within_ms: 6,
        };
        let spec = core::Spec { command: vec!["x".into()], ..core::Spec::default() };
        let epoch = core::Epoch(3);
        for event in [
            core::Event::Declared { terms },
            core::Event::Respecified { spec },
            core::Event::OwnerJoined { owner: core::Owner { session: owner.clone(), keep: true } },
            core::Event::OwnerLeft {
                owner: owner.clone(),
                why: core::Leaving::Released,
                stop_at_boot_ms: Some(7),
            },
            core::Event::OwnerLeft { owner, why: core::Leaving::Gone, stop_at_boot_ms: None },
            core::Event::BecameReady { epoch, address: Some("tcp:127.0.0.1:80".into()) },
            core::Event::NeverReady { epoch, reason: "silence".into() },
        ] {
            let json = serde_json::to_string(&Entry::new(1, &event)).expect("plain data");
            let entry: Entry = serde_json::from_str(&json).expect("what we wrote");
            assert_eq!(entry.to_core(), Ok(event), "{json}");
        }
    }

    #[test]
    fn an_owner_no_version_of_ours_would_write_is_refused() {
        let entry: Entry = serde_json::from_str(r#"{"event":"owner_left","owner":"../x"}"#).expect("JSON");
        assert_eq!(entry.to_core(), Err(BadRecord::Id("../x".into())));
    }
}
