//! `berth fork`: a new session with a copy of another one's conversation.

use berth_api::record::Spec;
use berth_api::turn::Origin;
use berth_api::{Code, Problem};
use berth_core::Name;
use berth_keeper::view;

use crate::args::Fork;
use crate::cmd::run;
use crate::ctx::Ctx;
use crate::meant::Meant;

pub(crate) fn run(ctx: &Ctx, args: &Fork) -> Result<u8, Problem> {
    let name = args.name.as_deref().map(Name::parse).transpose();
    let name = name.map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
    let Meant { id, handle, .. } = ctx.target(args.session.as_deref())?;
    let session = view::history(&ctx.home, &id)?.session;
    let refused = |refusal| berth_api::problem::refusal(&refusal, &handle);
    let spec: Spec = session.spec.clone().ok_or_else(|| refused(berth_core::Refusal::NotCreated))?.into();
    if !session.takes_turns() {
        return Err(Problem::new(
            Code::Refused,
            format!("session `{}` has no conversation that can be copied: it is a terminal", handle),
        )
        .hint("only agents that take turns can be forked (`berth run --agent NAME`)"));
    }
    let of = session.conversation.map(|conversation| conversation.id).ok_or_else(|| {
        Problem::new(Code::Refused, format!("session `{}` has no conversation yet", handle))
            .hint("send it something first")
    })?;
    // A key means one session, and that is the other one.
    let spec = Spec { origin: Origin::Forked(of), key: None, ..spec };
    let lock = name.is_some().then(|| ctx.home.lock_names()).transpose()?;
    let (connection, status) = {
        let asked = run::Asked { name: name.as_ref(), lock: lock.as_ref(), ..run::Asked::default() };
        run::begin(ctx, spec, &asked)?
    };
    drop(lock);
    let (connection, status) = run::await_agent(ctx, connection, status)?;
    run::stay(ctx, connection, &status, true, args.json)
}
