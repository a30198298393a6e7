//! A conversation had without us, gone on with here.
//!
//! Promise: whoever has it open is named, waited for, or ended; our agent is started only by a keeper that holds the
//! conversation's lock and has found nobody. At every instant there is one writer or none. What is broken off on the way
//! leaves the conversation where it was, to be adopted again.
//! Not here: ending a writer (`berth_keeper::writers::end`, called by the keeper), tools that a killed agent left (the
//! keeper ends those before the agent starts).
//! Start with [`adopt`].

use std::time::{Duration, Instant};

use berth_api::message::Take;
use berth_api::{Code, Connection, Problem, Status};
use berth_core::{Deed, Name};
use berth_host::identity::Verdict;
use berth_keeper::writers;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Conversation, import};
use crate::ctx::Ctx;
use crate::{resume, run};

/// How long one wait for a process is, before it is looked again who has the conversation.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How long to wait before looking again where nobody's end can be waited for.
const UNSEEN_PAUSE: Duration = Duration::from_millis(200);

/// What to do about whoever has it open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Others {
    /// Say who it is, and leave it.
    #[default]
    Refuse,
    /// Wait until they are gone, for so long; for ever, if nothing is said.
    Wait(Option<Duration>),
    /// End them, politely and then firmly, if they are meant; else say who it is, and leave all of them.
    Take(Take),
}

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// What people will call it.
    pub name: Option<String>,
    /// What to do about others.
    pub others: Others,
    /// The agent's own terminal interface.
    pub tui: bool,
}

/// A session that goes on with it.
pub struct Adopted {
    /// What is known.
    pub status: Status,
    /// The way to its keeper.
    pub connection: Connection,
    /// Whether a session had it before.
    pub was_ours: bool,
}

/// Goes on with a conversation in a session; in the one that has it, if there is one. `told` hears who is waited for.
pub fn adopt(
    ctx: &Ctx,
    conversation: &Conversation,
    order: &Order,
    told: &mut dyn FnMut(&str),
) -> Result<Adopted, Problem> {
    let take = match &order.others {
        Others::Take(take) => take.clone(),
        Others::Refuse | Others::Wait(_) => Take::Nobody,
    };
    let grant = berth_core::Grant::Nothing;
    ctx.may_at_all(Deed::Start { grant, takes: take.takes() }, "a session")?;
    if conversation.file.is_none() {
        let what = format!(
            "nothing was said in conversation {} yet: there is nothing to go on with",
            conversation.id
        );
        return Err(
            Problem::new(Code::Refused, what).hint("say something there first, or `berth run --agent NAME`")
        );
    }
    if let Some(session) = conversation.session.as_ref().filter(|_| order.name.is_some()) {
        let what = format!("conversation {} is session `{}` already", conversation.id, session.handle());
        return Err(Problem::new(Code::Refused, what).hint(format!(
            "leave --name out, or give it another one with `berth rename {} NAME`",
            session.handle()
        )));
    }
    let until = match order.others {
        Others::Wait(Some(patience)) => Some(Instant::now() + patience),
        Others::Refuse | Others::Wait(None) | Others::Take(_) => None,
    };
    loop {
        if matches!(order.others, Others::Wait(_)) {
            wait(conversation, until, told)?;
        }
        match begin(ctx, conversation, order, &take) {
            // Somebody else came between the wait and the start, or one of ours has it, whom no wait is for.
            Err(problem)
                if problem.code == Code::InUse
                    && matches!(order.others, Others::Wait(_))
                    && until.is_none_or(|until| Instant::now() < until) =>
            {
                std::thread::sleep(UNSEEN_PAUSE);
            }
            Err(problem) if problem.code == Code::InUse && take != Take::Anybody => {
                let id = &conversation.id;
                return Err(problem.hint(format!(
                    "close it there and try again, wait for it with `berth adopt {id} --wait`, or end it with \
                     `berth adopt {id} --take`"
                )));
            }
            done => return done,
        }
    }
}

fn begin(ctx: &Ctx, conversation: &Conversation, order: &Order, take: &Take) -> Result<Adopted, Problem> {
    let session = match &conversation.session {
        Some(session) => session.clone(),
        None => {
            is_free(conversation, take)?;
            let name = order.name.as_deref().map(Name::parse).transpose();
            let name = name.map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
            import::make(ctx, conversation, name.as_ref(), order.tui)?.1
        }
    };
    let id = ctx.home.find(&session.id)?;
    let (connection, status) = resume::begin(ctx, &id, session.handle(), false, take.clone())?;
    let (connection, status) = run::await_agent(ctx, connection, status)?;
    Ok(Adopted { status, connection, was_ours: conversation.session.is_some() })
}

/// Refuses one that somebody has open who is not to be ended, before anything is made of it. The keeper looks again.
fn is_free(conversation: &Conversation, take: &Take) -> Result<(), Problem> {
    if *take == Take::Anybody {
        return Ok(());
    }
    let found = others(conversation)?;
    if found.iter().all(|writer| take.means(writer.identity.pid)) {
        return Ok(());
    }
    let who: Vec<String> = found.iter().map(writers::Writer::line).collect();
    let what = format!("conversation {} is being written by {}", conversation.id, who.join("; and by "));
    Err(Problem::new(Code::InUse, what))
}

fn others(conversation: &Conversation) -> Result<Vec<writers::Writer>, Problem> {
    let found =
        writers::find(&conversation.agent, &conversation.id, |name| std::env::var_os(name), |_| false);
    found.map_err(|why| {
        let what = format!("cannot tell who has conversation {} open: {why}", conversation.id);
        Problem::new(Code::InUse, what).hint("mend that, then try again")
    })
}

/// Waits until nobody who is not ours has the conversation open. The kernel tells when a process ends.
fn wait(
    conversation: &Conversation,
    until: Option<Instant>,
    told: &mut dyn FnMut(&str),
) -> Result<(), Problem> {
    let mut waited_for: Vec<u32> = Vec::new();
    loop {
        let found = others(conversation)?;
        let Some(writer) = found.first() else { return Ok(()) };
        if let Some(kept) = writer.kept_in() {
            let session = kept.id();
            let what = format!("conversation {} is being written in session {session}", conversation.id);
            return Err(Problem::new(Code::InUse, what).hint(format!("end that with `berth stop {session}`")));
        }
        if !waited_for.contains(&writer.identity.pid) {
            waited_for.push(writer.identity.pid);
            told(&format!("waiting for {}", writer.line()));
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            let what = format!("{} still has conversation {} open", writer.line(), conversation.id);
            return Err(Problem::new(Code::TimedOut, what)
                .hint(format!("wait longer, or end it with `berth adopt {} --take`", conversation.id)));
        }
        let patience = left.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
        match writer.identity.check() {
            Verdict::Alive(pidfd) => {
                let timeout = Timespec {
                    tv_sec: patience.as_secs().cast_signed(),
                    tv_nsec: i64::from(patience.subsec_nanos()),
                };
                // An error only means that it is looked again.
                let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout));
            }
            Verdict::Gone => {}
            Verdict::CannotTell(_) => std::thread::sleep(patience.min(UNSEEN_PAUSE)),
        }
    }
}
