//! Limits on open terminals, per token, per session and per host.
//!
//! Promise: no token can keep others away from a session's terminal, and the gateway never takes all the places that a
//! keeper has for attached clients: users at the machine itself always find one. A client that finds no place is
//! refused before the connection becomes a terminal, and nothing was attached.
//! Not here: limits on connections (see `server::limits`).
//! Start with [`TerminalLimits::enter`].

use berth_api::{Problem, TokenKind};
use berth_core::SessionId;

use crate::caller::RequestCaller;
use crate::http_problem::HttpProblem;
use crate::key_counts::{CountGuard, KeyCounts};

/// Number of terminals that one token may have open, together with the browsers that were logged in with it.
pub(crate) const MOST_PER_TOKEN: usize = 32;
/// Number of terminals of one session: fewer than its keeper has places for attached clients (64).
pub(crate) const MOST_PER_SESSION: usize = 48;
/// Number of terminals and streams that one token may have at another host.
const MOST_PER_TOKEN_ELSEWHERE: usize = 8;
/// Number of terminals, streams and waiting requests at another host together: fewer than there are connections to it.
const MOST_ELSEWHERE: usize = 24;
/// Number of requests of any kind that one token may have under way there, because a slow reader also keeps a
/// connection.
const MOST_LINES_PER_TOKEN: usize = 16;
/// Time after which a place may be free, in seconds.
const RETRY_SECONDS: u64 = 5;

/// Counts of all terminals of a gateway.
#[derive(Debug, Default)]
pub(crate) struct TerminalLimits {
    per_holder: KeyCounts<QuotaOwner>,
    per_session: KeyCounts<SessionId>,
    /// Terminals, streams and waits at other hosts, by host.
    long_per_host: KeyCounts<String>,
    /// Terminals and streams at other hosts, by holder and host.
    staying_per_holder: KeyCounts<(QuotaOwner, String)>,
    /// Requests of any kind at other hosts, by holder and host.
    lines_per_holder: KeyCounts<(QuotaOwner, String)>,
}

/// Kind of a request that is passed on to another host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RemoteRequestKind {
    /// A request that is answered at once.
    Asks,
    /// A request that may wait. It takes none of the places of terminals and streams: a client that watches eight
    /// sessions can still stop and answer them.
    MayWait,
    /// A terminal, or a stream of events.
    Stays,
}

/// Owner of a terminal. The owner of the gateway at its socket has no limit but that of the session.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum QuotaOwner {
    /// A token, by its id. A browser's login counts as the token that it was made with.
    Token(String),
    /// The agent of a session.
    Agent(SessionId),
}

pub(crate) fn holder(caller: &RequestCaller) -> Option<QuotaOwner> {
    let token = caller.pass.as_ref().map(|pass| match (pass.kind, &pass.parent) {
        // A token that was made with another one belongs to another user.
        (TokenKind::Login, Some(parent)) => parent.clone(),
        (TokenKind::Login | TokenKind::Token | TokenKind::Link, _) => pass.id.clone(),
    });
    token.map(QuotaOwner::Token).or_else(|| caller.agent.clone().map(QuotaOwner::Agent))
}

/// A place at a terminal, taken until it is dropped.
pub(crate) type TerminalPermit = (Option<CountGuard<QuotaOwner>>, CountGuard<SessionId>);

/// A right to a connection to another host, kept until it is dropped.
#[derive(Debug)]
pub(crate) struct RemotePermit {
    _of_holder: [Option<CountGuard<(QuotaOwner, String)>>; 2],
    _of_host: Option<CountGuard<String>>,
}

impl TerminalLimits {
    /// Takes a place for one more terminal of this session.
    pub(crate) fn enter(
        &self,
        caller: &RequestCaller,
        session: &SessionId,
    ) -> Result<TerminalPermit, HttpProblem> {
        let of_holder = holder(caller).map(|holder| {
            self.per_holder.enter(holder, MOST_PER_TOKEN).ok_or_else(|| {
                let whose = if caller.pass.is_some() { "your token" } else { "your session" };
                full(format!("{whose} has {MOST_PER_TOKEN} terminals open already"))
            })
        });
        let of_holder = of_holder.transpose()?;
        let of_session = self.per_session.enter(session.clone(), MOST_PER_SESSION);
        let of_session = of_session
            .ok_or_else(|| full(format!("{MOST_PER_SESSION} terminals of this session are open already")))?;
        Ok((of_holder, of_session))
    }

    /// Takes a right to a connection to another host.
    pub(crate) fn enter_remote(
        &self,
        caller: &RequestCaller,
        host: &str,
        errand: RemoteRequestKind,
    ) -> Result<RemotePermit, HttpProblem> {
        let (stays, is_long) = (errand == RemoteRequestKind::Stays, errand != RemoteRequestKind::Asks);
        let key = holder(caller).map(|holder| (holder, host.to_owned()));
        let staying = key.clone().filter(|_| stays).map(|key| {
            self.staying_per_holder.enter(key, MOST_PER_TOKEN_ELSEWHERE).ok_or_else(|| {
                full(format!(
                    "{MOST_PER_TOKEN_ELSEWHERE} of your terminals and streams at host `{host}` are open already"
                ))
            })
        });
        let line = key.map(|key| {
            self.lines_per_holder.enter(key, MOST_LINES_PER_TOKEN).ok_or_else(|| {
                full(format!(
                    "{MOST_LINES_PER_TOKEN} of your requests to host `{host}` are under way already"
                ))
            })
        });
        let long = is_long.then(|| {
            self.long_per_host.enter(host.to_owned(), MOST_ELSEWHERE).ok_or_else(|| {
                full(format!(
                    "{MOST_ELSEWHERE} terminals, streams and waits at host `{host}` are open already"
                ))
            })
        });
        let of_holder = [staying.transpose()?, line.transpose()?];
        Ok(RemotePermit { _of_holder: of_holder, _of_host: long.transpose()? })
    }
}

fn full(what: String) -> HttpProblem {
    HttpProblem::from(Problem::full(what).hint("close one, then try again")).retry_after(RETRY_SECONDS)
}

#[cfg(test)]
mod tests {
    use berth_api::{AccessScope, ProblemCode};

    use super::*;

    fn agent(id: &str) -> RequestCaller {
        let agent = SessionId::parse(id);
        assert!(agent.is_some(), "{id}");
        RequestCaller {
            place: String::new(),
            scope: AccessScope::Read,
            sessions: None,
            agent,
            also: vec![],
            pass: None,
        }
    }

    #[test]
    fn a_token_at_its_limit_of_streams_at_a_host_blocks_no_other_token_and_can_still_ask_there() {
        let terminals = TerminalLimits::default();
        let enter = |who: &RequestCaller, errand| terminals.enter_remote(who, "box", errand);
        let (one, two) = (agent("aaaaaaaaaaaa"), agent("bbbbbbbbbbbb"));
        let long: Vec<_> = (0..99).map_while(|_| enter(&one, RemoteRequestKind::Stays).ok()).collect();
        let request = enter(&one, RemoteRequestKind::MayWait);
        assert!(request.is_ok(), "a watching client can still stop what it watches");
        let short: Vec<_> = (0..99).map_while(|_| enter(&one, RemoteRequestKind::Asks).ok()).collect();
        assert_eq!(
            (long.len(), short.len()),
            (MOST_PER_TOKEN_ELSEWHERE, MOST_LINES_PER_TOKEN - long.len() - 1)
        );
        let refused = enter(&one, RemoteRequestKind::Asks).expect_err("it has all it may");
        assert_eq!((refused.problem.code, refused.retry_after), (ProblemCode::Full, Some(RETRY_SECONDS)));
        assert!(enter(&two, RemoteRequestKind::Stays).is_ok());
        assert!(terminals.enter_remote(&one, "other", RemoteRequestKind::Stays).is_ok());
        drop((long, request, short));
        assert!(enter(&one, RemoteRequestKind::Stays).is_ok(), "what is over counts no more");
        assert!(
            terminals.long_per_host.is_empty()
                && terminals.staying_per_holder.is_empty()
                && terminals.lines_per_holder.is_empty()
        );
    }

    #[test]
    fn all_waits_at_a_host_together_leave_connections_for_short_requests() {
        let terminals = TerminalLimits::default();
        let owner = RequestCaller { agent: None, ..agent("aaaaaaaaaaaa") };
        let enter = |host, errand| terminals.enter_remote(&owner, host, errand).ok();
        let both = [RemoteRequestKind::Stays, RemoteRequestKind::MayWait].into_iter().cycle();
        let long: Vec<_> = both.take(99).map_while(|errand| enter("box", errand)).collect();
        assert_eq!(long.len(), MOST_ELSEWHERE);
        assert!(enter("box", RemoteRequestKind::MayWait).is_none());
        assert!(
            enter("box", RemoteRequestKind::Asks).is_some()
                && enter("other", RemoteRequestKind::Stays).is_some()
        );
    }
}
