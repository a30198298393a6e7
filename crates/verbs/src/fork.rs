//! A new session with a copy of another one's conversation.

use std::path::Path;

use berth_api::record::{Grant, Spec};
use berth_api::turn::Origin;
use berth_api::{Code, Connection, Problem, Status};
use berth_core::{Deed, Name, SessionId};
use berth_store::names::Naming;
use berth_store::view;

use crate::ctx::Ctx;
use crate::{auto_name, run};

/// Makes it, and begins its first run. `handle` is what people call the other one.
pub fn fork(
    ctx: &Ctx,
    id: &SessionId,
    handle: &str,
    name: Option<&str>,
) -> Result<(Connection, Status), Problem> {
    ctx.may(Deed::Fork, id)?;
    let name = name.map(Name::parse).transpose();
    let name = name.map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
    let session = view::history(&ctx.home, id)?.session;
    let refused = |refusal| berth_api::problem::refusal(&refusal, handle);
    let spec: Spec = session.spec.clone().ok_or_else(|| refused(berth_core::Refusal::NotCreated))?.into();
    if session.has_terminal() {
        return Err(Problem::new(
            Code::Refused,
            format!("session `{handle}` has no conversation that can be copied: it is a terminal"),
        )
        .hint("only agents that take turns can be forked (`berth run --agent NAME`)"));
    }
    let of = session.conversation.map(|conversation| conversation.id).ok_or_else(|| {
        Problem::new(Code::Refused, format!("session `{handle}` has no conversation yet"))
            .hint("send it something first")
    })?;
    // A key means one session, and that is the other one.
    // Nor is a grant inherited.
    let spec = Spec { origin: Origin::Forked(of), key: None, grant: Grant::None, ..spec };
    let naming = name.map(Naming::Chosen).unwrap_or_else(|| {
        let of_fork = session.name.as_ref().map(auto_name::of_fork);
        Naming::Stem(of_fork.unwrap_or_else(|| auto_name::stem(&[], Path::new(&spec.cwd))))
    });
    let asked = run::Besides { naming: &naming, take: false, secrets: &[], tags: &[], note: None };
    let begun = run::begin(ctx, spec, &asked)?;
    let (connection, status) = begun.expect("a session without a key is always a new one");
    run::await_agent(ctx, connection, status)
}
