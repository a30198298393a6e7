//! `berth attach`: connects this terminal to a session's terminal or chat.

use berth_api::Problem;
use berth_api::message::AttachMode;
use berth_store::session_status;

use crate::args::{AttachArgs, ResumeArgs};
use crate::attachment::{self, AttachOptions};
use crate::chat;
use crate::cmd::resume;
use crate::ctx::CommandContext;
use crate::target_session::TargetSession;
use crate::{consent, print, tty};

pub(crate) fn run(ctx: &CommandContext, args: &AttachArgs) -> Result<u8, Problem> {
    if !tty::is_interactive() {
        let session = args.session.as_deref().or(ctx.session.as_deref()).unwrap_or("S");
        return Err(Problem::usage("attaching needs a terminal on standard input and output")
            .hint(format!(
                "scripts use `berth output {session} --follow`, `berth input {session} TEXT`, `berth screen {session}`"
            )));
    }
    let to = args.switch.to()?;
    let TargetSession { id, handle, .. } = ctx.target(args.session.as_deref())?;
    if let Some(to) = to {
        super::resume::switch(ctx, &id, &handle, to, args.switch.now)?;
    }
    if !session_status::history(&ctx.home, &id)?.session.has_terminal() {
        if args.observe || args.take {
            let what = "an agent that takes turns has no terminal to watch or to take over";
            return Err(Problem::usage(what).hint(format!(
                "`berth log {handle} --follow` shows what happens, `berth send {handle} --interrupt TEXT` interrupts"
            )));
        }
        berth_tui::current_session::set_current_session(&ctx.home, &id);
        return chat::run_chat(ctx, &id);
    }
    let role = match (args.observe, args.take) {
        (true, _) => AttachMode::Observer,
        (false, true) => AttachMode::Take,
        (false, false) => AttachMode::Writer,
    };
    if role != AttachMode::Observer && ctx.keeper_of(&id)?.is_none() {
        let status = ctx.status(&id)?;
        if tty::can_ask() && status.archived_at.is_none() {
            let state = print::exit_summary(&status).unwrap_or_else(|| status.state.to_string());
            consent::require_yes(
                &format!("session `{handle}` is not running ({state}); it would be resumed"),
                false,
            )?;
            let session = args.session.clone();
            return resume::run(ctx, &ResumeArgs { session, leave: args.leave, ..ResumeArgs::default() });
        }
    }
    let lines = args.lines.map_or(attachment::LINES, usize::from);
    attachment::attach(
        ctx,
        &id,
        None,
        AttachOptions { lines, ..AttachOptions::new(role, args.leave.leave_key) },
    )
}
