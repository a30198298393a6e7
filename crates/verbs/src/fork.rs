//! Forking: a new session with a copy of another session's conversation.

use std::path::Path;

use berth_api::record::{Grant, SessionSpec};
use berth_api::turn::ConversationOrigin;
use berth_api::{KeeperConnection, Problem, SessionStatus};
use berth_core::{CallerAction, SafeName, SessionId};
use berth_store::names::RequestedName;
use berth_store::session_status;

use crate::context::VerbContext;
use crate::{auto_name, run};

/// Creates the new session, and begins its first run. `handle` is the other session's name, for messages.
pub fn fork(
    ctx: &VerbContext,
    id: &SessionId,
    handle: &str,
    name: Option<&str>,
) -> Result<(KeeperConnection, SessionStatus), Problem> {
    ctx.may(CallerAction::Fork, id)?;
    let name = name.map(SafeName::parse).transpose();
    let name = name.map_err(|bad| Problem::usage(bad.to_string()))?;
    let session = session_status::history(&ctx.home, id)?.session;
    let refused = |refusal| berth_api::problem::refusal(&refusal, handle);
    let spec: SessionSpec =
        session.spec.clone().ok_or_else(|| refused(berth_core::Refusal::NotCreated))?.into();
    if session.has_terminal() {
        return Err(Problem::refused(format!(
            "session `{handle}` has no conversation that can be copied: it is a terminal"
        ))
        .hint("only agents that take turns can be forked (`berth run --agent NAME`)"));
    }
    let of = session.conversation.map(|conversation| conversation.id).ok_or_else(|| {
        Problem::refused(format!("session `{handle}` has no conversation yet"))
            .hint("send it something first")
    })?;
    // A key identifies one session, and that is the original.
    // A grant is not inherited either.
    let spec = SessionSpec { origin: ConversationOrigin::Forked(of), key: None, grant: Grant::None, ..spec };
    let naming = name.map(RequestedName::Chosen).unwrap_or_else(|| {
        let of_fork = session.name.as_ref().map(auto_name::fork_name);
        RequestedName::Stem(of_fork.unwrap_or_else(|| auto_name::suggest_name(&[], Path::new(&spec.cwd))))
    });
    let asked = run::StartOptions { naming: &naming, take: false, secrets: &[], tags: &[], note: None };
    let begun = run::create_session(ctx, spec, &asked)?;
    let (connection, status) = begun.expect("a session without a key is always a new one");
    run::await_agent(ctx, connection, status)
}
