//! Helpers: processes that sessions share.
//!
//! Promise: of several clients that ask for a helper at once, one starts it and all own it; the last owner that leaves
//! stops it.
//! Not here: the process that runs a helper (see `berth_keeper`).
//! Start with [`ensure()`].

mod ensure;
mod find;
mod release;

use berth_api::helper::HelperStatus;
use berth_api::{Problem, ProblemCode, SessionStatus};
use berth_core::SessionId;
use berth_store::session_status;

pub use berth_keeper::helpers::{helper_id, readiness_pattern};
pub use ensure::{HelperRequest, READY_WITHIN, ensure};
pub use find::{find, find_owned};
pub use release::release;

use crate::context::VerbContext;

/// List of helpers.
#[derive(Debug, Default)]
pub struct HelperListing {
    /// Readable helpers, by name.
    pub helpers: Vec<SessionStatus>,
    /// Errors of helpers that could not be read, or whose lost run could not be ended.
    pub damaged: Vec<Problem>,
}

/// Lists all helpers, stopped ones included.
pub fn list_helpers(helpers: &VerbContext) -> Result<HelperListing, Problem> {
    let mut all = HelperListing::default();
    for id in find::ids(helpers)? {
        let known = session_status::status(&helpers.home, &id).and_then(|status| {
            // The keeper died and the loss is not recorded yet: the rest of the run is ended now.
            if status.is_unrecorded_loss() { helpers.healed(&id) } else { Ok((status, None)) }
        });
        match known {
            Ok((status, trouble)) => {
                all.damaged.extend(trouble.map(|problem| reword_for_helper(problem, &id)));
                all.helpers.push(describe_helper(helpers, status));
            }
            // A helper that is just being created, or that was given up before its first event.
            Err(problem) if problem.code == ProblemCode::NotFound => {}
            Err(problem) => all.damaged.push(reword_for_helper(problem, &id)),
        }
    }
    all.helpers.sort_by_key(|status| {
        let helper = status.helper.clone().unwrap_or_default();
        (helper.name, helper.dir, status.id.clone())
    });
    Ok(all)
}

/// The status of a helper, with the names of its owners.
pub fn describe_helper(helpers: &VerbContext, status: SessionStatus) -> SessionStatus {
    let sessions = helpers.home.sessions();
    // A record of an older version does not name the owners.
    let mut helper = status.helper.clone().unwrap_or_else(|| HelperStatus {
        name: status.handle().to_owned(),
        scope: "unknown".to_owned(),
        ..HelperStatus::default()
    });
    for owner in &mut helper.owners {
        let known =
            SessionId::parse(&owner.session).and_then(|id| session_status::status(&sessions, &id).ok());
        owner.name = known.and_then(|session| session.name);
    }
    SessionStatus { helper: Some(helper), ..status }
}

/// Rewords an error about a session for a helper.
pub fn reword_for_helper(problem: Problem, id: &SessionId) -> Problem {
    let of_helper = |text: String| {
        text.replace(&format!("session `{id}`"), &format!("helper {id}"))
            .replace(&format!("session {id}"), &format!("helper {id}"))
            .replace(&format!("berth why {id}"), &format!("berth helper show {id}"))
            .replace(&format!("berth resume {id}"), "berth helper ensure")
            .replace(&format!("berth output {id}"), &format!("berth helper output {id}"))
            .replace(&format!("berth log {id}"), &format!("berth helper log {id}"))
    };
    Problem { what: of_helper(problem.what), hint: problem.hint.map(of_helper), ..problem }
}
