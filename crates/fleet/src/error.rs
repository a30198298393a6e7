//! Failures of a call to the record.

use crate::HostId;

/// Reason why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The call may have changed the record, or not. Repeat it, or ask [`crate::FleetEngine::settle`].
    #[error("cannot tell if `{call}` changed the record of the fleet: {cause}")]
    OutcomeUnknown {
        /// Name of the call.
        call: &'static str,
        /// Reason, for people.
        cause: String,
    },
    /// The database refused the call. Nothing was changed.
    #[error("the database of the fleet refused `{call}`: {cause}")]
    Failed {
        /// Name of the call.
        call: &'static str,
        /// Message of the database, with its code.
        cause: String,
        /// True if the same call may succeed later: a conflict of transactions, or a server without room or connections.
        is_temporary: bool,
    },
    /// The record cannot be reached. Nothing was changed.
    #[error("cannot reach the database of the fleet: {cause}")]
    Unreachable {
        /// Reason for each address.
        cause: String,
    },
    /// The login role may not speak for this host. The record's audit log has a row about it.
    #[error("this login role may not call `{call}` for host {host}; the attempt is in the audit log")]
    Rejected {
        /// Name of the call.
        call: &'static str,
        /// The host that the call spoke for.
        host: HostId,
    },
    /// No fleet is in this database, or the login role does not belong to it.
    #[error("there is no fleet in this database, or this login role does not belong to it: {cause}")]
    NoFleet {
        /// Message of the database.
        cause: String,
    },
    /// A newer berth migrated the record, and this version can no longer read it.
    #[error(
        "the record of the fleet has format {format} and needs a berth that knows format {oldest_reader}; this one knows {known}: upgrade berth on this host"
    )]
    TooNew {
        /// Format of the record.
        format: u32,
        /// Oldest format that a reader must know.
        oldest_reader: u32,
        /// Newest format that this version knows.
        known: u32,
    },
    /// The record was made by an older berth and was not migrated.
    #[error(
        "the record of the fleet has format {format} and this berth needs {known}: migrate the record first"
    )]
    TooOld {
        /// Format of the record.
        format: u32,
        /// Format that this version needs.
        known: u32,
    },
    /// The server is not one that berth can use.
    #[error("cannot use this PostgreSQL: {cause}")]
    Unsupported {
        /// Reason, for people.
        cause: String,
    },
}

impl EngineError {
    /// True if the same call may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::OutcomeUnknown { .. } | Self::Unreachable { .. } => true,
            Self::Failed { is_temporary, .. } => *is_temporary,
            Self::Rejected { .. }
            | Self::NoFleet { .. }
            | Self::TooNew { .. }
            | Self::TooOld { .. }
            | Self::Unsupported { .. } => false,
        }
    }
}
