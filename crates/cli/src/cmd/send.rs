//! `berth send`: sends a prompt to a session's agent, and shows the turn.
//!
//! Promise: an error after the turn was accepted names the turn, so that its sender need not send it again.
//! Not here: sending and following (see `crate::turns`).
//! Start with [`run`] and [`watch_turn`].

use std::io::Read;

use berth_api::turn::{NewTurn, SendMode, TurnReceipt};
use berth_api::{KeeperConnection, Problem, ProblemCode, TurnState};
use berth_core::{MAX_PROMPT_BYTES, SessionId};
use berth_tui::turn_watch::watch_turn;

use crate::args::SendArgs;
use crate::ctx::CommandContext;
use crate::print;
use crate::target_session::TargetSession;
use crate::turns;

pub(crate) fn run(ctx: &CommandContext, args: &SendArgs) -> Result<u8, Problem> {
    let (TargetSession { id, .. }, words) = ctx.target_and(&args.session, &args.text, "the prompt")?;
    let manner = match (args.steer, args.interrupt) {
        (true, _) => SendMode::Steer,
        (_, true) => SendMode::Interrupt,
        (false, false) => SendMode::Queue,
    };
    let NewTurn { wait, max_wait_ms, key, .. } = &args.turn;
    let new = NewTurn { text: text(&words)?, manner, ..args.turn.clone() };
    let (connection, receipt) = ctx.session(&id).send(new)?;
    let outcome = if *wait {
        watch_turn(ctx, &id, receipt.number, connection, args.json)
    } else if max_wait_ms.is_some() && receipt.state == TurnState::Queued {
        until_begun(ctx, &id, &receipt, connection, args.json)
    } else {
        print_receipt(&receipt, args.json)
    };
    outcome.map_err(|problem| accepted(problem, &receipt, key.as_deref(), args.json))
}

/// Adds to a problem that the turn was accepted, so that its sender need not send it again to learn its id.
pub(crate) fn accepted(
    mut problem: Problem,
    receipt: &TurnReceipt,
    key: Option<&str>,
    json: bool,
) -> Problem {
    let is_told = (json && problem.code != ProblemCode::TimedOut && print::json(receipt).is_ok())
        || problem.what.contains(&receipt.turn);
    if !is_told {
        let key = key.map(|key| format!(", with the key `{key}`")).unwrap_or_default();
        let TurnReceipt { turn, session, .. } = receipt;
        problem.what.push_str(&format!("; turn {turn} of session {session} is accepted{key}"));
        if problem.hint.is_none() {
            problem = problem
                .hint(format!("`berth wait {turn}` waits for it, `berth result {turn}` shows the answer"));
        }
    }
    problem
}

fn print_receipt(receipt: &TurnReceipt, json: bool) -> Result<u8, Problem> {
    if json {
        print::json(receipt)?;
        return Ok(0);
    }
    print::text(&format!("{}\n", receipt.turn))?;
    if let Some(held) = &receipt.held {
        print::note(&format!("the turn waits: {held}"));
    }
    Ok(0)
}

/// The prompt: the words, or standard input for `-`.
pub(crate) fn text(words: &[String]) -> Result<String, Problem> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    let mut bytes = Vec::new();
    // One byte over the limit shows that the prompt is too long.
    let read = std::io::stdin().lock().take(MAX_PROMPT_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Problem::refused(format!("cannot read standard input: {error}")))?;
    if bytes.len() > MAX_PROMPT_BYTES {
        return Err(Problem::usage(format!(
            "the prompt on standard input has more than {MAX_PROMPT_BYTES} bytes; nothing was sent"
        ))
        .hint("put it into a file and name that in the prompt"));
    }
    String::from_utf8(bytes).map_err(|odd| {
        let at = odd.utf8_error().valid_up_to();
        Problem::usage(format!("the prompt on standard input is not UTF-8 (at byte {at}); nothing was sent"))
    })
}

/// Waits until the agent has the turn, or it was withdrawn.
fn until_begun(
    ctx: &CommandContext,
    id: &SessionId,
    receipt: &TurnReceipt,
    connection: Option<KeeperConnection>,
    json: bool,
) -> Result<u8, Problem> {
    let number = receipt.number;
    let view = turns::follow(ctx, id, number, connection, None, |news| Ok(news.begins(number)))?;
    if view.state == TurnState::Cancelled && view.delivered_at.is_none() {
        return turns::turn_withdrawn_problem(&view).map_or(Ok(turns::exit_code(&view)), Err);
    }
    let receipt = TurnReceipt { state: view.state, position: None, ..receipt.clone() };
    print_receipt(&receipt, json)
}
