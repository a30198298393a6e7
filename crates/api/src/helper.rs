//! Helpers on paper and over the wire: their terms and their owners.
//!
//! Not here: the rules of owning and lingering (see `berth_core`), and finding a helper by its name (see `verbs`).
//! Start with [`HelperStatus`].

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mirror::mirror;
use crate::status::Timestamp;

mirror! {
    /// Terms on which sessions share a helper.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
    pub struct HelperTerms [checked] {
        /// Name of the helper.
        pub name: String,
        /// Callers among which the name means this helper.
        pub scope: HelperScope,
        /// Time that the helper stays after its last owner has left, in milliseconds.
        #[serde(default)]
        pub linger_ms: u64,
        /// Condition that makes it ready. Null: it is ready as soon as it runs.
        #[serde(default)]
        pub ready: Option<ReadinessProbe>,
        /// Time that it may take to get ready, in milliseconds.
        #[serde(default)]
        pub ready_within_ms: u64,
    }

    /// Callers among which a helper's name means the same helper: those in one directory, or all of the user.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(rename = "HelperScope")]
    pub enum HelperScope {
        /// Callers in this directory.
        Dir(dir: String),
        /// All callers of the account.
        User,
    }

    /// Condition that makes a helper ready: a listening TCP port or Unix socket, or a line of output.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ReadinessProbe {
        /// A process of the run listens on this port.
        Tcp(port: u16),
        /// A process of the run listens on this socket.
        Unix(path: String),
        /// The run's output has a match of this pattern.
        Line(pattern: String),
    }

    /// Owner of a helper, as it asks for it.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
    pub struct HelperOwner [checked] {
        /// Id of the owning session.
        #[serde(rename = "owner")]
        pub session: String,
        /// True if the owner wants to keep the helper between its own turns as well.
        #[serde(default)]
        pub keep: bool,
    }

    /// Reason why a session stopped being an owner of a helper.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum LeaveReason {
        /// A client released the helper.
        Released,
        /// The owner's run ended, or its keeper died.
        #[default]
        Gone,
    }
}

/// The helper that a joining caller expects. A field that is left out matches any value.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HelperRequirements {
    /// Name of the helper. An address could belong to another helper; this name says which one the caller means.
    pub name: String,
    /// Callers among which the name means this helper.
    pub scope: Option<HelperScope>,
    /// Program and its arguments.
    pub command: Vec<String>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Time that the helper stays without owners, in milliseconds.
    pub linger_ms: Option<u64>,
    /// Condition that makes the helper ready.
    pub ready: Option<ReadinessProbe>,
}

/// Owners and readiness of a helper: a part of [`crate::SessionStatus`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HelperStatus {
    /// Name of the helper.
    pub name: String,
    /// Callers among which the name means this helper: `dir` or `user`.
    pub scope: String,
    /// Directory in which the name counts; null with the scope `user`.
    pub dir: Option<String>,
    /// Owners of the current run.
    pub owners: Vec<OwnerStatus>,
    /// True if the record of the helper lists its owners. Records of older versions do not.
    pub owners_known: bool,
    /// True if the helper can be used now.
    pub ready: bool,
    /// Condition that makes the helper ready; null if it is ready as soon as it runs.
    pub ready_when: Option<String>,
    /// Address of the helper, for its clients.
    pub address: Option<String>,
    /// Time that the helper stays after its last owner has left, in milliseconds.
    pub idle_ms: u64,
    /// True if the helper has no owner and will be stopped for that.
    pub lingers: bool,
    /// True if an owner wants to keep the helper between its own turns as well.
    pub keep: bool,
}

/// An owner of a helper.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OwnerStatus {
    /// Id of the owning session.
    pub session: String,
    /// Name of the owning session, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True if the owner wants to keep the helper between its own turns as well.
    pub keep: bool,
    /// Time at which the session became an owner.
    pub since: Timestamp,
}

impl ReadinessProbe {
    /// Parses `tcp:PORT`, `unix:PATH` or `line:REGEX`. The caller checks whether the pattern is a valid one.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("tcp", port) => port.parse().ok().filter(|port| *port != 0).map(Self::Tcp),
            ("unix", path) if !path.is_empty() => Some(Self::Unix(path.to_owned())),
            ("line", pattern) if !pattern.is_empty() => Some(Self::Line(pattern.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for ReadinessProbe {
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
    use crate::record::{BadRecord, EventEntry};

    #[test]
    fn signs_of_readiness_are_read_as_people_write_them() {
        for good in ["tcp:3000", "unix:a/b.sock", "line:listening on :[0-9]+"] {
            assert_eq!(ReadinessProbe::parse(good).map(|ready| ready.to_string()).as_deref(), Some(good));
        }
        for bad in ["", "tcp", "tcp:", "tcp:0", "tcp:70000", "tcp:-1", "unix:", "line:", "udp:53"] {
            assert_eq!(ReadinessProbe::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_helpers_events_come_back_from_paper_as_they_were() {
        let owner = core::SessionId::parse("0123456789ab").expect("an id");
        let terms = core::HelperTerms {
            name: core::SafeName::parse("web").expect("a name"),
            scope: core::HelperScope::Dir("/w".into()),
            linger_ms: 5,
            ready: Some(core::ReadinessProbe::Tcp(80)),
            ready_within_ms: 6,
        };
        let spec = core::SessionSpec { command: vec!["x".into()], ..core::SessionSpec::default() };
        let epoch = core::Epoch(3);
        for event in [
            core::Event::HelperDeclared { terms },
            core::Event::CommandChanged { spec },
            core::Event::OwnerJoined { owner: core::HelperOwner { session: owner.clone(), keep: true } },
            core::Event::OwnerLeft {
                owner: owner.clone(),
                why: core::LeaveReason::Released,
                stop_at_boot_ms: Some(7),
            },
            core::Event::OwnerLeft { owner, why: core::LeaveReason::Gone, stop_at_boot_ms: None },
            core::Event::BecameReady { epoch, address: Some("tcp:127.0.0.1:80".into()) },
            core::Event::NeverReady { epoch, reason: "silence".into() },
        ] {
            let json = serde_json::to_string(&EventEntry::new(1, &event)).expect("plain data");
            let entry: EventEntry = serde_json::from_str(&json).expect("what we wrote");
            assert_eq!(entry.to_core(), Ok(event), "{json}");
        }
    }

    #[test]
    fn an_owner_no_version_of_ours_would_write_is_refused() {
        let entry: EventEntry =
            serde_json::from_str(r#"{"event":"owner_left","owner":"../x"}"#).expect("JSON");
        assert_eq!(entry.to_core(), Err(BadRecord::Id("../x".into())));
    }
}
