//! `berth attach`: see a session's terminal and type into it.

use berth_api::message::Role;
use berth_api::{Code, Problem};
use berth_store::view;

use crate::args::{Attach, Resume};
use crate::attached::{self, Wish};
use crate::cmd::{resume, talk};
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::{consent, print, tty};

pub(crate) fn run(ctx: &Ctx, args: &Attach) -> Result<u8, Problem> {
    if !tty::is_interactive() {
        let session = args.session.as_deref().or(ctx.session.as_deref()).unwrap_or("S");
        return Err(Problem::new(Code::Usage, "attaching needs a terminal on standard input and output")
            .hint(format!(
                "scripts use `berth output {session} --follow`, `berth input {session} TEXT`, `berth screen {session}`"
            )));
    }
    let to = args.switch.to()?;
    let Meant { id, handle, .. } = ctx.target(args.session.as_deref())?;
    if let Some(to) = to {
        super::resume::switch(ctx, &id, &handle, to, args.switch.now)?;
    }
    if !view::history(&ctx.home, &id)?.session.has_terminal() {
        if args.observe || args.take {
            let what = "an agent that takes turns has no terminal to watch or to take over";
            return Err(Problem::new(Code::Usage, what).hint(format!(
                "`berth log {handle} --follow` shows what happens, `berth send {handle} --interrupt TEXT` interrupts"
            )));
        }
        ctx.make_current(&id);
        return talk::talk(ctx, &id);
    }
    let role = match (args.observe, args.take) {
        (true, _) => Role::Observer,
        (false, true) => Role::Take,
        (false, false) => Role::Writer,
    };
    if role != Role::Observer && ctx.keeper_of(&id)?.is_none() {
        let status = ctx.status(&id)?;
        if tty::can_ask() && status.archived_at.is_none() {
            let state = print::ending(&status).unwrap_or_else(|| status.state.to_string());
            consent::ask(
                &format!("session `{handle}` is not running ({state}); it would be resumed"),
                false,
            )?;
            let session = args.session.clone();
            return resume::run(ctx, &Resume { session, leave: args.leave, ..Resume::default() });
        }
    }
    let lines = args.lines.map_or(attached::LINES, usize::from);
    attached::attach(ctx, &id, None, Wish { lines, ..Wish::new(role, args.leave.leave_key) })
}
