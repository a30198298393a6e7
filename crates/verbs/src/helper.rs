//! Processes that sessions share.
//!
//! Promise: of any number who ask for one at once, one starts it and all own it; the last one out stops it.
//! Not here: holding one (see `berth_keeper`).
//! Start with [`ensure()`].

mod ensure;
mod find;
mod release;

use berth_api::helper::HelperStatus;
use berth_api::{Code, Problem, Status};
use berth_core::SessionId;
use berth_store::view;

pub use ensure::{Asked, READY_WITHIN, ensure};
pub use find::{find, find_owned};
pub use release::release;

use crate::ctx::Ctx;

/// The helpers there are.
#[derive(Debug, Default)]
pub struct Helpers {
    /// By name.
    pub helpers: Vec<Status>,
    /// What could not be read, or brought to its end.
    pub damaged: Vec<Problem>,
}

/// Lists them, those that are stopped, too.
pub fn list(helpers: &Ctx) -> Result<Helpers, Problem> {
    let mut all = Helpers::default();
    for id in find::ids(helpers)? {
        let known = view::status(&helpers.home, &id).and_then(|status| {
            // A loss nobody has recorded yet: what the run left behind is ended now.
            if status.is_unrecorded_loss() { helpers.healed(&id) } else { Ok((status, None)) }
        });
        match known {
            Ok((status, trouble)) => {
                all.damaged.extend(trouble.map(|problem| reworded(problem, &id)));
                all.helpers.push(described(helpers, status));
            }
            // Being made this very moment, or given up before anything was recorded.
            Err(problem) if problem.code == Code::NotFound => {}
            Err(problem) => all.damaged.push(reworded(problem, &id)),
        }
    }
    all.helpers.sort_by_key(|status| {
        let helper = status.helper.clone().unwrap_or_default();
        (helper.name, helper.dir, status.id.clone())
    });
    Ok(all)
}

/// What is known about a helper, with the names of those who own it.
pub fn described(helpers: &Ctx, status: Status) -> Status {
    let sessions = helpers.home.sessions();
    // A record of an older version does not say who owns it.
    let mut helper = status.helper.clone().unwrap_or_else(|| HelperStatus {
        name: status.handle().to_owned(),
        scope: "unknown".to_owned(),
        ..HelperStatus::default()
    });
    for owner in &mut helper.owners {
        let known = SessionId::parse(&owner.session).and_then(|id| view::status(&sessions, &id).ok());
        owner.name = known.and_then(|session| session.name);
    }
    Status { helper: Some(helper), ..status }
}

/// What is known about sessions in general, said of a helper.
pub fn reworded(problem: Problem, id: &SessionId) -> Problem {
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
