//! `berth resume`: starts the next run of a session.

use berth_api::record::AgentInterface;
use berth_api::{KeeperConnection, Problem, SessionState, SessionStatus};
use berth_core::SessionId;
use berth_store::session_status;
use berth_verbs::{interface, resume};

use crate::args::ResumeArgs;
use crate::chat;
use crate::cmd::{run, run::StartFollowOptions};
use crate::ctx::CommandContext;
use crate::target_session::{TargetSession, TargetSource};
use crate::{print, tty};

pub(crate) fn run(ctx: &CommandContext, args: &ResumeArgs) -> Result<u8, Problem> {
    if args.attach && !tty::is_interactive() {
        return Err(Problem::usage("--attach needs a terminal on standard input and output")
            .hint("leave --attach out to stream the output, or use --detach"));
    }
    let TargetSession { id, handle, .. } = match (args.last, &ctx.session) {
        (false, _) => ctx.target(args.session.as_deref())?,
        (true, None) => last(ctx)?,
        (true, Some(_)) => {
            return Err(
                Problem::usage("--last and --session do not go together").hint("leave one of them out")
            );
        }
    };
    let named = handle.as_str();
    let (connection, status) = match args.switch.to()? {
        Some(_) if args.fresh || args.take => {
            return Err(Problem::usage("--tui and --chat go on with a conversation as it is")
                .hint("leave --fresh and --take out"));
        }
        Some(to) => switch(ctx, &id, named, to, args.switch.now)?,
        None => resume::begin(ctx, &id, named, args.fresh, args.take.into())?,
    };
    let takes_turns = status.turns.is_some() && !status.what.has_terminal();
    let (connection, status) = berth_verbs::run::await_agent(ctx, connection, status)?;
    berth_tui::current_session::set_current_session(&ctx.home, &id);
    if takes_turns && !args.detach && !args.json && tty::is_interactive() {
        return chat::run_chat(ctx, &id);
    }
    let stay = StartFollowOptions { detach: args.detach || takes_turns, json: args.json, leave: args.leave };
    run::follow_start(ctx, connection, &status, stay)
}

/// Switches to this interface of the agent, and returns when it is ready.
pub(crate) fn switch(
    ctx: &CommandContext,
    id: &SessionId,
    handle: &str,
    to: AgentInterface,
    at_once: bool,
) -> Result<(KeeperConnection, SessionStatus), Problem> {
    let (connection, status) = interface::switch(ctx, id, handle, to, at_once)?;
    let works = matches!(status.state, SessionState::Working | SessionState::NeedsYou);
    if works && status.next_interface.is_some() && !at_once {
        print::note(&format!(
            "`{handle}` works; the {} begins when its turn is over (--now interrupts it)",
            to.word()
        ));
    }
    berth_verbs::run::await_ready(ctx, connection, &status)
}

/// The session that `--last` means: the current one of this terminal if it is at rest; else a lost session before a
/// stopped one, a session of this directory before one of another, and the latest before the rest. Archived sessions
/// are never taken, nor commands that have done their work: the work would be done twice.
fn last(ctx: &CommandContext) -> Result<TargetSession, Problem> {
    let at_rest = |status: &SessionStatus| {
        let is_at_rest =
            matches!(status.state, SessionState::Lost | SessionState::Stopped | SessionState::Idle);
        is_at_rest && status.keeper_pid.is_none() && status.archived_at.is_none()
    };
    match ctx.current_session() {
        Ok(Some(meant))
            if session_status::status(&ctx.home, &meant.id)
                .is_ok_and(|status| at_rest(&status) && !is_finished(&status)) =>
        {
            return Ok(meant);
        }
        Ok(_) => {}
        // Without the current session of this terminal the choice falls to the other sessions.
        Err(problem) => print::problem(&problem),
    }
    let here = std::env::current_dir().ok().and_then(|dir| dir.canonicalize().ok());
    let here = here.map(|dir| dir.display().to_string()).unwrap_or_default();
    let ids = ctx.home.list()?;
    let known =
        ids.iter().filter_map(|id| Some((id, session_status::status(&ctx.home, id).ok().filter(at_rest)?)));
    let (finished, open): (Vec<_>, Vec<_>) = known.partition(|(_, status)| is_finished(status));
    let rank = |status: &SessionStatus| {
        (status.state == SessionState::Lost, status.what.cwd == here, status.last_activity_at)
    };
    let last = open.into_iter().max_by_key(|(_, status)| rank(status));
    let meant = |(id, status): (&SessionId, SessionStatus)| {
        print::note(&format!("resuming {}", status.handle()));
        TargetSession { id: id.clone(), handle: status.handle().to_owned(), how: TargetSource::Named }
    };
    last.map(meant).ok_or_else(|| {
        let problem = Problem::not_found("there is no session to resume: none was lost, stopped or paused");
        match finished.iter().max_by_key(|(_, status)| rank(status)) {
            Some((_, status)) => {
                let handle = status.handle();
                problem
                    .hint(format!("`{handle}` ended by itself with 0; `berth resume {handle}` runs it again"))
            }
            None => problem.hint("`berth ls` lists the sessions, `berth run` starts one"),
        }
    })
}

/// True if a command ended by itself with 0, so its work is done. An agent that takes turns is never finished.
fn is_finished(status: &SessionStatus) -> bool {
    status.what.has_terminal()
        && status.state == SessionState::Stopped
        && status.exit == Some(0)
        && status.stopped_by.is_none()
}
