//! How many terminals are open, and who has them.
//!
//! Promise: nobody with a token keeps others away from a session's terminal, and the gateway never takes all the
//! places that a keeper has for those who stay: people at the machine itself always find one. Who finds none is told
//! before the connection becomes a terminal, and nothing was attached.
//! Not here: how many may be connected at all (see `server::limits`).
//! Start with [`Terminals::enter`].

use berth_api::{Code, Problem, TokenKind};
use berth_core::SessionId;

use crate::caller::Caller;
use crate::counts::{Counted, Counts};
use crate::fault::Fault;

/// How many terminals one token may have open, with all the browsers that were logged in with it.
pub(crate) const MOST_PER_TOKEN: usize = 32;
/// How many terminals of one session there may be: fewer than its keeper has places for those who stay (64).
pub(crate) const MOST_PER_SESSION: usize = 48;
/// How many terminals and streams one token may have at another host.
const MOST_PER_TOKEN_ELSEWHERE: usize = 8;
/// How many terminals, streams and requests that may wait there are together: fewer than there are lines to it.
const MOST_ELSEWHERE: usize = 24;
/// How many requests of any kind one token may have under way there: whoever reads slowly keeps a line, too.
const MOST_LINES_PER_TOKEN: usize = 16;
/// When one may have been closed, in seconds.
const RETRY_SECONDS: u64 = 5;

/// All terminals of a gateway.
#[derive(Debug, Default)]
pub(crate) struct Terminals {
    per_holder: Counts<Holder>,
    per_session: Counts<SessionId>,
    /// What may go on for long at other hosts, whoever wants it.
    long_per_host: Counts<String>,
    /// What stays there, and whose it is.
    staying_per_holder: Counts<(Holder, String)>,
    /// And all that is under way there.
    lines_per_holder: Counts<(Holder, String)>,
}

/// What a line to another host is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Errand {
    /// An answer that waits for nothing.
    Asks,
    /// One that may. It takes none of the places of what stays: who watches eight can still stop and answer them.
    MayWait,
    /// A terminal, or a stream of events.
    Stays,
}

/// Whose a terminal is. The owner of the gateway at its socket is nobody's guest, and has all that a session has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Holder {
    /// A token, by its id, however it was carried: a browser's login counts as the token it was made with.
    Token(String),
    /// The agent of a session.
    Agent(SessionId),
}

pub(crate) fn holder(caller: &Caller) -> Option<Holder> {
    let token = caller.pass.as_ref().map(|pass| match (pass.kind, &pass.parent) {
        // A token that was made with another one is somebody else's.
        (TokenKind::Login, Some(parent)) => parent.clone(),
        (TokenKind::Login | TokenKind::Token | TokenKind::Link, _) => pass.id.clone(),
    });
    token.map(Holder::Token).or_else(|| caller.agent.clone().map(Holder::Agent))
}

/// A place at a terminal, until it is dropped.
pub(crate) type Place = (Option<Counted<Holder>>, Counted<SessionId>);

/// The right to a line to another host, until it is dropped.
#[derive(Debug)]
pub(crate) struct PlaceElsewhere {
    _of_holder: [Option<Counted<(Holder, String)>>; 2],
    _of_host: Option<Counted<String>>,
}

impl Terminals {
    /// A place for one more terminal of this session.
    pub(crate) fn enter(&self, caller: &Caller, session: &SessionId) -> Result<Place, Fault> {
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

    /// A line to another host.
    pub(crate) fn enter_elsewhere(
        &self,
        caller: &Caller,
        host: &str,
        errand: Errand,
    ) -> Result<PlaceElsewhere, Fault> {
        let (stays, is_long) = (errand == Errand::Stays, errand != Errand::Asks);
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
        Ok(PlaceElsewhere { _of_holder: of_holder, _of_host: long.transpose()? })
    }
}

fn full(what: String) -> Fault {
    Fault::from(Problem::new(Code::Full, what).hint("close one, then try again")).retry_after(RETRY_SECONDS)
}

#[cfg(test)]
mod tests {
    use berth_api::Scope;

    use super::*;

    fn agent(id: &str) -> Caller {
        let agent = SessionId::parse(id);
        assert!(agent.is_some(), "{id}");
        Caller { place: String::new(), scope: Scope::Read, sessions: None, agent, also: vec![], pass: None }
    }

    #[test]
    fn one_who_stays_at_another_host_keeps_nobody_else_from_it_and_can_still_do_something_there() {
        let terminals = Terminals::default();
        let enter = |who: &Caller, errand| terminals.enter_elsewhere(who, "box", errand);
        let (one, two) = (agent("aaaaaaaaaaaa"), agent("bbbbbbbbbbbb"));
        let long: Vec<_> = (0..99).map_while(|_| enter(&one, Errand::Stays).ok()).collect();
        let deed = enter(&one, Errand::MayWait);
        assert!(deed.is_ok(), "who watches can stop what it watches");
        let short: Vec<_> = (0..99).map_while(|_| enter(&one, Errand::Asks).ok()).collect();
        assert_eq!(
            (long.len(), short.len()),
            (MOST_PER_TOKEN_ELSEWHERE, MOST_LINES_PER_TOKEN - long.len() - 1)
        );
        let refused = enter(&one, Errand::Asks).expect_err("it has all it may");
        assert_eq!((refused.problem.code, refused.retry_after), (Code::Full, Some(RETRY_SECONDS)));
        assert!(enter(&two, Errand::Stays).is_ok());
        assert!(terminals.enter_elsewhere(&one, "other", Errand::Stays).is_ok());
        drop((long, deed, short));
        assert!(enter(&one, Errand::Stays).is_ok(), "what is over counts no more");
        assert!(
            terminals.long_per_host.is_empty()
                && terminals.staying_per_holder.is_empty()
                && terminals.lines_per_holder.is_empty()
        );
    }

    #[test]
    fn all_who_wait_at_another_host_together_leave_lines_to_who_only_asks() {
        let terminals = Terminals::default();
        let owner = Caller { agent: None, ..agent("aaaaaaaaaaaa") };
        let enter = |host, errand| terminals.enter_elsewhere(&owner, host, errand).ok();
        let both = [Errand::Stays, Errand::MayWait].into_iter().cycle();
        let long: Vec<_> = both.take(99).map_while(|errand| enter("box", errand)).collect();
        assert_eq!(long.len(), MOST_ELSEWHERE);
        assert!(enter("box", Errand::MayWait).is_none());
        assert!(enter("box", Errand::Asks).is_some() && enter("other", Errand::Stays).is_some());
    }
}
