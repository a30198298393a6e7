//! Caller of a request, its rights, and the session that the request names.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use berth_api::{AccessScope, Problem, ProblemCode, ViewerRights};
use berth_config::tokens::VerifiedToken;
use berth_core::{CallerAction, SessionId};
use berth_verbs::VerbContext;
use berth_verbs::caller::{grant_of, scope_elsewhere};

use crate::app_state::{AppState, or_store_unreadable, run_blocking};
use crate::http_problem::HttpProblem;

/// The authenticated caller. Made by `auth` for every request, before any handler sees it.
#[derive(Clone, Debug)]
pub(crate) struct RequestCaller {
    /// Place of the caller, for users and for records.
    pub(crate) place: String,
    pub(crate) scope: AccessScope,
    /// The only sessions that the caller may see; all if `None`.
    pub(crate) sessions: Option<BTreeSet<SessionId>>,
    /// Session whose agent the caller is: sessions that it starts are children of that session.
    pub(crate) agent: Option<SessionId>,
    /// Other sessions that the caller runs inside of; see [`VerbContext::also`].
    pub(crate) also: Vec<SessionId>,
    /// The token or login that let the caller in; `None` if the local socket did.
    pub(crate) pass: Option<Arc<VerifiedToken>>,
}

impl RequestCaller {
    /// The context for verbs on behalf of this caller.
    pub(crate) fn ctx(&self, state: &AppState) -> VerbContext {
        VerbContext {
            home: state.home.clone(),
            place: self.place.clone(),
            size: None,
            parent: self.agent.clone(),
            also: self.also.clone(),
            // A caller whose session is unknown may only read; `auth` enforces that.
            unseen: None,
            scope: self.scope,
        }
    }

    /// The rights by which a session is redacted for this caller.
    pub(crate) fn viewer(&self) -> ViewerRights {
        ViewerRights { scope: self.scope, sessions: self.sessions.clone() }
    }

    /// True if the caller may know of this session.
    pub(crate) fn may_see(&self, id: &SessionId) -> bool {
        self.sessions.as_ref().is_none_or(|sessions| sessions.contains(id))
    }

    /// The scope of the caller on another host. That host does not know the session that a caller is inside of, so
    /// the grant is applied here.
    pub(crate) fn scope_elsewhere(&self, state: &AppState) -> AccessScope {
        let agents = self.agent.iter().chain(&self.also);
        agents.map(|agent| scope_elsewhere(grant_of(&state.home, agent))).fold(self.scope, AccessScope::min)
    }

    /// Refuses a caller that is limited to some sessions.
    pub(crate) fn needs_all_sessions(&self) -> Result<(), HttpProblem> {
        match &self.sessions {
            None => Ok(()),
            Some(_) => Err(Problem::not_allowed("your token is limited to some sessions, and this request is about all sessions",
            )
            .hint("the owner of the gateway can make a token without that limit: `berth token new` without --session")
            .into()),
        }
    }

    /// Refuses an agent a request beyond its grant that is about no session in particular. A request about one session
    /// is checked by its keeper, or by the verb, because there an agent's own children count.
    pub(crate) fn check_agent_route(
        &self,
        state: &AppState,
        scope: AccessScope,
        path: &str,
    ) -> Result<(), HttpProblem> {
        let is_about_one = ["{session}", "/v1/helpers"].iter().any(|part| path.contains(part));
        match scope {
            AccessScope::Read | AccessScope::Send => Ok(()),
            AccessScope::Control if is_about_one => Ok(()),
            AccessScope::Control => Ok(self.ctx(state).may_at_all(CallerAction::Sweep, path)?),
            // `needs` checks the grant itself.
            AccessScope::Admin => Ok(()),
        }
    }

    /// Refuses a caller without this scope.
    pub(crate) fn needs(&self, scope: AccessScope) -> Result<(), HttpProblem> {
        if self.scope >= scope {
            return Ok(());
        }
        if self.agent.is_some() {
            let what = format!("this request needs the grant `{scope}`, and comes from inside of a session");
            return Err(Problem::not_allowed(what)
                .hint(format!("ask a person to start the session with --grant {scope}"))
                .into());
        }
        let what = format!("this request needs the scope `{scope}`, and yours is `{}`", self.scope);
        let hint =
            format!("the owner of the gateway can make another token: `berth token new --scope {scope}`");
        Err(Problem::not_allowed(what).hint(hint).into())
    }
}

impl<S: Sync> FromRequestParts<S> for RequestCaller {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpProblem> {
        let none = || Problem::bug("a request reached its handler without authentication").into();
        parts.extensions.get::<Self>().cloned().ok_or_else(none)
    }
}

/// The session that `{session}` in the path means: a name or an id.
#[derive(Clone, Debug)]
pub(crate) struct RequestedSession {
    pub(crate) id: SessionId,
    /// The name or id, as the request has it.
    pub(crate) handle: String,
    pub(crate) caller: RequestCaller,
    pub(crate) ctx: VerbContext,
}

impl FromRequestParts<Arc<AppState>> for RequestedSession {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<AppState>) -> Result<Self, HttpProblem> {
        let caller = RequestCaller::from_request_parts(parts, state).await?;
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| HttpProblem::usage("the path is not UTF-8"))?;
        let handle = params.iter().find(|(name, _)| *name == "session").map(|(_, value)| value.to_owned());
        let handle = handle.ok_or_else(|| HttpProblem::usage("no session is named"))?;
        Self::find(state, caller, handle).await
    }
}

impl RequestedSession {
    /// Finds the session with this name or id, if the caller may see it.
    pub(crate) async fn find(
        state: &AppState,
        caller: RequestCaller,
        handle: String,
    ) -> Result<Self, HttpProblem> {
        let ctx = caller.ctx(state);
        // An id needs one look at a directory, which is fast. A name may need a request to a keeper.
        let whole = SessionId::parse(&handle).filter(|id| ctx.home.session(id).exists());
        let id = match whole {
            Some(id) => id,
            None => {
                let (home, named) = (ctx.home.clone(), handle.clone());
                let found = run_blocking(move || {
                    home.find(&named).map_err(|problem| or_store_unreadable(&home, problem))
                });
                found.await.map_err(|fault| match fault.problem.code {
                    ProblemCode::NotFound | ProblemCode::Usage => not_there(&handle),
                    // A problem with a session that the caller may not see is hidden as well.
                    code if caller.sessions.is_some() && code != ProblemCode::Unreachable => {
                        not_there(&handle)
                    }
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

/// Error for a missing session, and for one that the caller may not see: both get the same text.
fn not_there(handle: &str) -> HttpProblem {
    Problem::not_found(format!("there is no session `{}`", handle.escape_debug()))
        .hint("GET /v1/sessions lists them")
        .into()
}
