//! Talking to an agent that takes turns, line by line: what `berth attach` is for one without a terminal.

use std::io::{BufRead, Write};

use berth_api::Problem;
use berth_api::message::Submit;
use berth_core::SessionId;

use crate::cmd::send;
use crate::ctx::Ctx;
use crate::{print, turns};

/// Reads lines and sends each as a turn, until the input ends. Only for a person at a terminal.
pub(crate) fn talk(ctx: &Ctx, id: &SessionId) -> Result<u8, Problem> {
    let status = ctx.status(id)?;
    let handle = status.handle().to_owned();
    let agent = status.what.agent.as_deref().unwrap_or(&status.what.driver);
    print::note(&format!(
        "[{handle}: {agent}, {}; a line is a turn, Ctrl-D leaves it running]",
        status.state
    ));
    if let Some(last) = turns::views(ctx, id)?.into_iter().rfind(|view| view.position.is_none()) {
        print::note(&format!("> {}", print::excerpt(&last.prompt, 200)));
        if turns::is_over(&last.state) {
            print::text(&format!("{}\n", last.answer.as_deref().unwrap_or_default().trim_end()))?;
        } else {
            let keeper = ctx.keeper_of(id)?;
            told(send::watch(ctx, id, last.number, keeper, false));
        }
    }
    loop {
        let _ = write!(std::io::stderr().lock(), "\x1b[1m>\x1b[0m ");
        let mut line = Vec::new();
        match std::io::stdin().lock().read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let Ok(line) = String::from_utf8(line) else {
            print::note("that line is not UTF-8; nothing was sent");
            continue;
        };
        if line.trim().is_empty() {
            continue;
        }
        let submit = Submit { text: line.trim_end().to_owned(), waits: true, ..Submit::default() };
        match turns::send(ctx, id, submit) {
            Ok((keeper, receipt)) => told(send::watch(ctx, id, receipt.number, keeper, false)),
            Err(problem) => print::problem(&problem),
        }
    }
    print::note(&format!("\n[left {handle}; come back with `berth attach {handle}`]"));
    Ok(0)
}

/// A turn that went wrong is no reason to leave.
fn told(outcome: Result<u8, Problem>) {
    if let Err(problem) = outcome {
        print::problem(&problem);
    }
}
