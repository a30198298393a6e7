//! Admission of requests to a keeper: the action that a request is, and whether its caller may make or resume a session.
//!
//! Not here: the evidence about callers (see `berth_procs::callers`), the table of rights (see `berth_core::check_permission`).
//! Start with [`check_first_request`].

use berth_api::Problem;
use berth_api::message::KeeperRequest;
use berth_core::{ActionTarget, CallerAction, SessionId, SessionSpec};
use berth_procs::callers::{CallerAttribution, action_of_request, action_target, action_target_with_parent};
use berth_store::session_status;
use berth_store::state_dir::StateDir;

/// The action of a request to this session or helper.
pub(crate) fn action_on(
    request: &KeeperRequest,
    spec: Option<&SessionSpec>,
    is_helper: bool,
) -> CallerAction {
    match action_of_request(request) {
        // An agent's own interface asks its questions on the screen, and keys answer them.
        CallerAction::Type { .. } => {
            CallerAction::Type { answers: spec.is_some_and(|spec| spec.agent.is_some()) }
        }
        CallerAction::Stop if is_helper => CallerAction::StopHelper,
        action => action,
    }
}

/// The session that a request makes an owner of a helper, or removes as one.
pub(crate) fn owner_named(request: &KeeperRequest) -> Option<&str> {
    if let KeeperRequest::StartHelper { owner, .. } | KeeperRequest::Join { owner, .. } = request {
        return Some(&owner.session);
    }
    if let KeeperRequest::Leave { owner } = request { Some(owner) } else { None }
}

/// Checks the first request of a keeper, which makes a session or begins its next run: if the caller may do it, and
/// which session becomes the parent.
pub(crate) fn check_first_request(
    home: &StateDir,
    id: &SessionId,
    seen: &CallerAttribution,
    mut request: KeeperRequest,
) -> Result<KeeperRequest, Problem> {
    let action = action_of_request(&request);
    if let KeeperRequest::Create { spec, .. } = &mut request {
        seen.allow(action, id.as_str(), |_| ActionTarget::NoSession)?;
        // The parent comes from evidence, not from the request: a parent may manage its children.
        if let Some(parent) = seen.parent() {
            spec.parent = Some(parent.to_string());
        }
    } else if let Some(owner) = owner_named(&request) {
        seen.allow(action, owner, |inside| match SessionId::parse(owner) {
            Some(owner) => action_target(home, inside, &owner),
            None => ActionTarget::Stranger,
        })?;
    } else {
        let known = session_status::status(home, id).ok();
        let handle = known.as_ref().map_or_else(|| id.to_string(), |known| known.handle().to_owned());
        let parent = known.and_then(|known| known.what.parent);
        seen.allow(action, &handle, |inside| action_target_with_parent(home, inside, id, parent.as_deref()))?;
    }
    if let KeeperRequest::StartHelper { spec, .. } = &mut request {
        // A helper is shared, so it gets only the rights that every sharing session has.
        spec.grant = berth_api::record::Grant::None;
    }
    Ok(request)
}
