//! Adopting a conversation: a session resumes a conversation that began without berth.
//!
//! Promise: another process that has the conversation open is named, waited for, or ended; the agent is started only by
//! a keeper that holds the conversation's lock and has found no other writer. At every instant there is one writer or
//! none. A failure on the way leaves the conversation where it was, to be adopted again.
//! Not here: ending a writer (`berth_conversations::foreign_writers::end_writer`, called by the keeper), tools that a killed agent left (the
//! keeper ends those before the agent starts).
//! Start with [`adopt`].

use std::time::{Duration, Instant};

use berth_api::message::WriterTakeover;
use berth_api::{KeeperConnection, Problem, ProblemCode, SessionStatus};
use berth_conversations::foreign_writers;
use berth_core::{CallerAction, SafeName};
use berth_host::identity::ProcessLiveness;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{AgentConversation, import};
use crate::context::VerbContext;
use crate::{resume, run};

/// Limit for one wait for a process, before the writers are determined again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Pause before the next check if no process can be waited for.
const UNSEEN_PAUSE: Duration = Duration::from_millis(200);

/// Treatment of other processes that have the conversation open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum HolderPolicy {
    /// Refuse, and name the processes.
    #[default]
    Refuse,
    /// Wait until they exit, for this long at most; without a time, for ever.
    Wait(Option<Duration>),
    /// End them, politely and then firmly, if they are the named ones; else refuse and name the processes.
    Take(WriterTakeover),
}

/// Choices of a caller that adopts a conversation; the defaults adopt it under a name of its own.
#[derive(Clone, Debug, Default)]
pub struct AdoptOptions {
    /// Name for the session.
    pub name: Option<String>,
    /// Treatment of other processes that have the conversation open.
    pub others: HolderPolicy,
    /// True for the agent's own terminal interface.
    pub tui: bool,
}

/// A session that resumes the conversation.
pub struct AdoptedSession {
    /// Status of the session.
    pub status: SessionStatus,
    /// Connection to the session's keeper.
    pub connection: KeeperConnection,
    /// True if a session had the conversation before.
    pub was_ours: bool,
}

/// Resumes a conversation in a session: in the one that has it, else in a new one. `told` gets a text for each process
/// that is waited for.
pub fn adopt(
    ctx: &VerbContext,
    conversation: &AgentConversation,
    order: &AdoptOptions,
    told: &mut dyn FnMut(&str),
) -> Result<AdoptedSession, Problem> {
    let take = match &order.others {
        HolderPolicy::Take(take) => take.clone(),
        HolderPolicy::Refuse | HolderPolicy::Wait(_) => WriterTakeover::None,
    };
    let grant = berth_core::Grant::Nothing;
    ctx.may_at_all(CallerAction::Start { grant, takes: take.takes() }, "a session")?;
    if conversation.file.is_none() {
        let what = format!("conversation {} is still empty: there is nothing to resume", conversation.id);
        return Err(Problem::refused(what).hint("say something there first, or `berth run --agent NAME`"));
    }
    if let Some(session) = conversation.session.as_ref().filter(|_| order.name.is_some()) {
        let what =
            format!("conversation {} already belongs to session `{}`", conversation.id, session.handle());
        return Err(Problem::refused(what).hint(format!(
            "leave --name out, or give it another one with `berth rename {} NAME`",
            session.handle()
        )));
    }
    let until = match order.others {
        HolderPolicy::Wait(Some(patience)) => Some(Instant::now() + patience),
        HolderPolicy::Refuse | HolderPolicy::Wait(None) | HolderPolicy::Take(_) => None,
    };
    loop {
        if matches!(order.others, HolderPolicy::Wait(_)) {
            wait(conversation, until, told)?;
        }
        match begin(ctx, conversation, order, &take) {
            // Another process opened it between the wait and the start, or a session has it, which no wait is for.
            Err(problem)
                if problem.code == ProblemCode::InUse
                    && matches!(order.others, HolderPolicy::Wait(_))
                    && until.is_none_or(|until| Instant::now() < until) =>
            {
                std::thread::sleep(UNSEEN_PAUSE);
            }
            Err(problem) if problem.code == ProblemCode::InUse && take != WriterTakeover::All => {
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

fn begin(
    ctx: &VerbContext,
    conversation: &AgentConversation,
    order: &AdoptOptions,
    take: &WriterTakeover,
) -> Result<AdoptedSession, Problem> {
    let session = match &conversation.session {
        Some(session) => session.clone(),
        None => {
            is_free(conversation, take)?;
            let name = order.name.as_deref().map(SafeName::parse).transpose();
            let name = name.map_err(|bad| Problem::usage(bad.to_string()))?;
            import::make(ctx, conversation, name.as_ref(), order.tui)?.1
        }
    };
    let id = ctx.home.find(&session.id)?;
    let (connection, status) = resume::begin(ctx, &id, session.handle(), false, take.clone())?;
    let (connection, status) = run::await_agent(ctx, connection, status)?;
    Ok(AdoptedSession { status, connection, was_ours: conversation.session.is_some() })
}

/// Refuses a conversation that a process has open which must not be ended, before a session is created. The keeper
/// checks again.
fn is_free(conversation: &AgentConversation, take: &WriterTakeover) -> Result<(), Problem> {
    if *take == WriterTakeover::All {
        return Ok(());
    }
    let found = others(conversation)?;
    if found.iter().all(|writer| take.includes(writer.identity.pid)) {
        return Ok(());
    }
    let who: Vec<String> = found.iter().map(foreign_writers::ForeignWriter::line).collect();
    let what = format!("conversation {} is being written by {}", conversation.id, who.join("; and by "));
    Err(Problem::in_use(what))
}

fn others(conversation: &AgentConversation) -> Result<Vec<foreign_writers::ForeignWriter>, Problem> {
    let found = foreign_writers::find_foreign_writers(
        &conversation.agent,
        &conversation.id,
        |name| std::env::var_os(name),
        |_| false,
    );
    found.map_err(|why| {
        let what = format!("cannot tell which process has conversation {} open: {why}", conversation.id);
        Problem::in_use(what).hint("fix that, then try again")
    })
}

/// Waits until no process outside of berth has the conversation open. The kernel reports the end of a process.
fn wait(
    conversation: &AgentConversation,
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
            return Err(Problem::in_use(what).hint(format!("end that with `berth stop {session}`")));
        }
        if !waited_for.contains(&writer.identity.pid) {
            waited_for.push(writer.identity.pid);
            told(&format!("waiting for {}", writer.line()));
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            let what = format!("{} still has conversation {} open", writer.line(), conversation.id);
            return Err(Problem::timed_out(what)
                .hint(format!("wait longer, or end it with `berth adopt {} --take`", conversation.id)));
        }
        let patience = left.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
        match writer.identity.check() {
            ProcessLiveness::Alive(pidfd) => {
                let timeout = Timespec {
                    tv_sec: patience.as_secs().cast_signed(),
                    tv_nsec: i64::from(patience.subsec_nanos()),
                };
                // After an error the writers are determined again.
                let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout));
            }
            ProcessLiveness::Gone => {}
            ProcessLiveness::CannotTell(_) => std::thread::sleep(patience.min(UNSEEN_PAUSE)),
        }
    }
}
