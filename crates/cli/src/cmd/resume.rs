//! `berth resume`: the next run of a session.

use berth_api::record::Interface;
use berth_api::{Code, Connection, Problem, SessionState, Status};
use berth_core::SessionId;
use berth_store::view;
use berth_verbs::{interface, resume};

use crate::args::Resume;
use crate::cmd::{run, run::Stay, talk};
use crate::ctx::Ctx;
use crate::meant::{How, Meant};
use crate::{print, tty};

pub(crate) fn run(ctx: &Ctx, args: &Resume) -> Result<u8, Problem> {
    if args.attach && !tty::is_interactive() {
        return Err(Problem::new(Code::Usage, "--attach needs a terminal on standard input and output")
            .hint("leave it out: the output is streamed; or use --detach"));
    }
    let Meant { id, handle, .. } = match (args.last, &ctx.session) {
        (false, _) => ctx.target(args.session.as_deref())?,
        (true, None) => last(ctx)?,
        (true, Some(_)) => {
            return Err(Problem::new(Code::Usage, "--last and --session do not go together")
                .hint("leave one of them out"));
        }
    };
    let named = handle.as_str();
    let (connection, status) = match args.switch.to()? {
        Some(_) if args.fresh || args.take => {
            return Err(Problem::new(Code::Usage, "--tui and --chat go on with a conversation as it is")
                .hint("leave --fresh and --take out"));
        }
        Some(to) => switch(ctx, &id, named, to, args.switch.now)?,
        None => resume::begin(ctx, &id, named, args.fresh, args.take.into())?,
    };
    let takes_turns = status.turns.is_some() && !status.what.has_terminal();
    let (connection, status) = berth_verbs::run::await_agent(ctx, connection, status)?;
    ctx.make_current(&id);
    if takes_turns && !args.detach && !args.json && tty::is_interactive() {
        return talk::talk(ctx, &id);
    }
    let stay = Stay { detach: args.detach || takes_turns, json: args.json, leave: args.leave };
    run::stay(ctx, connection, &status, stay)
}

/// Goes on with this interface of the agent, and returns when it is there.
pub(crate) fn switch(
    ctx: &Ctx,
    id: &SessionId,
    handle: &str,
    to: Interface,
    at_once: bool,
) -> Result<(Connection, Status), Problem> {
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

/// The session a person means who says "go on": the current one of their terminal if it is at rest; else one
/// that was cut off before one that ended, one of this directory before one of another, the latest before the
/// rest. Never one that was put away, and never one that has done its work: it would be done twice.
fn last(ctx: &Ctx) -> Result<Meant, Problem> {
    let at_rest = |status: &Status| {
        let is_at_rest =
            matches!(status.state, SessionState::Lost | SessionState::Stopped | SessionState::Idle);
        is_at_rest && status.keeper_pid.is_none() && status.archived_at.is_none()
    };
    match ctx.implied() {
        Ok(Some(meant))
            if view::status(&ctx.home, &meant.id)
                .is_ok_and(|status| at_rest(&status) && !is_finished(&status)) =>
        {
            return Ok(meant);
        }
        Ok(_) => {}
        // What is said of this terminal is of no use; what is known of the sessions is.
        Err(problem) => print::problem(&problem),
    }
    let here = std::env::current_dir().ok().and_then(|dir| dir.canonicalize().ok());
    let here = here.map(|dir| dir.display().to_string()).unwrap_or_default();
    let ids = ctx.home.list()?;
    let known = ids.iter().filter_map(|id| Some((id, view::status(&ctx.home, id).ok().filter(at_rest)?)));
    let (finished, open): (Vec<_>, Vec<_>) = known.partition(|(_, status)| is_finished(status));
    let rank = |status: &Status| {
        (status.state == SessionState::Lost, status.what.cwd == here, status.last_activity_at)
    };
    let last = open.into_iter().max_by_key(|(_, status)| rank(status));
    let meant = |(id, status): (&SessionId, Status)| {
        print::note(&format!("resuming {}", status.handle()));
        Meant { id: id.clone(), handle: status.handle().to_owned(), how: How::Named }
    };
    last.map(meant).ok_or_else(|| {
        let problem =
            Problem::new(Code::NotFound, "there is no session to resume: none was lost, stopped or released");
        match finished.iter().max_by_key(|(_, status)| rank(status)) {
            Some((_, status)) => {
                let handle = status.handle();
                problem
                    .hint(format!("`{handle}` ended by itself with 0; `berth resume {handle}` runs it again"))
            }
            None => problem.hint("`berth ls` lists what there is, `berth run` starts one"),
        }
    })
}

/// Whether a command ended by itself, and well: nothing of it is open. An agent that takes turns is never finished.
fn is_finished(status: &Status) -> bool {
    status.what.has_terminal()
        && status.state == SessionState::Stopped
        && status.exit == Some(0)
        && status.stopped_by.is_none()
}
