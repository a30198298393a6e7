//! Who asks, how far they may go, and which session they mean.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use berth_api::{Code, Problem, Scope, Viewer};
use berth_core::{Deed, SessionId};
use berth_verbs::Ctx;
use berth_verbs::caller::{grant_of, scope_elsewhere};
use berth_verbs::tokens::Pass;

use crate::fault::Fault;
use crate::gate::{Gate, or_no_store, work};

/// Who asks. Made by `auth` for every request, before any handler sees it.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Where they are, for people and for records.
    pub(crate) place: String,
    /// How far they may go.
    pub(crate) scope: Scope,
    /// The only sessions there are for them; all if nothing is said.
    pub(crate) sessions: Option<BTreeSet<SessionId>>,
    /// The session whose agent it is: what it starts is that session's child.
    pub(crate) agent: Option<SessionId>,
    /// Others that it is inside of as well; see [`Ctx::also`].
    pub(crate) also: Vec<SessionId>,
    /// The token or login that let the caller in; `None` if the local socket did.
    pub(crate) pass: Option<Arc<Pass>>,
}

impl Caller {
    /// What a verb needs to act for them.
    pub(crate) fn ctx(&self, gate: &Gate) -> Ctx {
        Ctx {
            home: gate.home.clone(),
            place: self.place.clone(),
            size: None,
            parent: self.agent.clone(),
            also: self.also.clone(),
            // A caller that cannot be told may only read; `auth` enforces that.
            unseen: None,
            scope: self.scope,
        }
    }

    /// What decides how much they see of a session.
    pub(crate) fn viewer(&self) -> Viewer {
        Viewer { scope: self.scope, sessions: self.sessions.clone() }
    }

    /// Whether there is such a session, as far as they may know.
    pub(crate) fn may_see(&self, id: &SessionId) -> bool {
        self.sessions.as_ref().is_none_or(|sessions| sessions.contains(id))
    }

    /// How far they may go on another host. Whoever is inside of a session here is a stranger there.
    pub(crate) fn scope_elsewhere(&self, gate: &Gate) -> Scope {
        let agents = self.agent.iter().chain(&self.also);
        agents.map(|agent| scope_elsewhere(grant_of(&gate.home, agent))).fold(self.scope, Scope::min)
    }

    /// Refuses who has some sessions only, where it is about all.
    pub(crate) fn needs_all_sessions(&self) -> Result<(), Fault> {
        match &self.sessions {
            None => Ok(()),
            Some(_) => Err(Problem::new(
                Code::NotAllowed,
                "your token is for some sessions only, and this is not",
            )
            .hint("the owner of the gateway can make a token for all: `berth token new` without --session")
            .into()),
        }
    }

    /// Refuses an agent what is about no session in particular and beyond its grant. What is about one is looked at
    /// by whoever does it (its keeper, or the verb), because there its children are its own.
    pub(crate) fn may_as_an_agent(&self, gate: &Gate, scope: Scope, path: &str) -> Result<(), Fault> {
        let is_about_one = ["{session}", "/v1/helpers"].iter().any(|part| path.contains(part));
        match scope {
            Scope::Read | Scope::Send => Ok(()),
            Scope::Control if is_about_one => Ok(()),
            Scope::Control => Ok(self.ctx(gate).may_at_all(Deed::Sweep, path)?),
            // `needs` asks for the grant itself.
            Scope::Admin => Ok(()),
        }
    }

    /// Refuses who may not go so far.
    pub(crate) fn needs(&self, scope: Scope) -> Result<(), Fault> {
        if self.scope >= scope {
            return Ok(());
        }
        if self.agent.is_some() {
            let what = format!("this needs the grant `{scope}`, and it comes from inside of a session");
            return Err(Problem::new(Code::NotAllowed, what)
                .hint(format!("ask a person; or let them start the session with --grant {scope}"))
                .into());
        }
        let what = format!("this needs the scope `{scope}`, and yours is `{}`", self.scope);
        let hint =
            format!("the owner of the gateway can make another token: `berth token new --scope {scope}`");
        Err(Problem::new(Code::NotAllowed, what).hint(hint).into())
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let none = || Problem::new(Code::Bug, "a request came past the door unseen").into();
        parts.extensions.get::<Self>().cloned().ok_or_else(none)
    }
}

/// The session that `{session}` in the path means: a name or an id.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) id: SessionId,
    /// As they called it.
    pub(crate) handle: String,
    /// Who asks.
    pub(crate) caller: Caller,
    /// To act for them.
    pub(crate) ctx: Ctx,
}

impl FromRequestParts<Arc<Gate>> for Target {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, gate: &Arc<Gate>) -> Result<Self, Fault> {
        let caller = Caller::from_request_parts(parts, gate).await?;
        let params = RawPathParams::from_request_parts(parts, gate).await;
        let params = params.map_err(|_| Fault::usage("the path is not UTF-8"))?;
        let handle = params.iter().find(|(name, _)| *name == "session").map(|(_, value)| value.to_owned());
        let handle = handle.ok_or_else(|| Fault::usage("no session is named"))?;
        Self::find(gate, caller, handle).await
    }
}

impl Target {
    /// The session that somebody calls so, if there is one for them.
    pub(crate) async fn find(gate: &Gate, caller: Caller, handle: String) -> Result<Self, Fault> {
        let ctx = caller.ctx(gate);
        // One look at a directory holds up nobody; whoever is called by name is asked.
        let whole = SessionId::parse(&handle).filter(|id| ctx.home.session(id).exists());
        let id = match whole {
            Some(id) => id,
            None => {
                let (home, named) = (ctx.home.clone(), handle.clone());
                let found = work(move || home.find(&named).map_err(|problem| or_no_store(&home, problem)));
                found.await.map_err(|fault| match fault.problem.code {
                    Code::NotFound | Code::Usage => not_there(&handle),
                    // What is wrong with a session that is none of their business is none of it either.
                    code if caller.sessions.is_some() && code != Code::Unreachable => not_there(&handle),
                    _ => fault,
                })?
            }
        };
        if !caller.may_see(&id) {
            return Err(not_there(&handle));
        }
        Ok(Self { id, handle, caller, ctx })
    }
}

/// The same words for what is not there and for what is none of their business.
fn not_there(handle: &str) -> Fault {
    Problem::new(Code::NotFound, format!("there is no session `{}`", handle.escape_debug()))
        .hint("GET /v1/sessions lists them")
        .into()
}
