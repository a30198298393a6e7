//! `berth answer`: answers a question of a session's agent.
//!
//! Promise: an answer that approves something reaches the question that its writer has read, or no question: it names
//! the question and its run, or berth first shows the question to a user at a terminal, or `--yes` accepts any
//! question. A refusal needs none of that.
//! Start with [`run`].

use berth_api::turn::{AgentQuestion, QuestionReply};
use berth_api::{Problem, ProblemCode, SessionStatus};
use berth_core::{CallerAction, Refusal};
use berth_verbs::answer;
use berth_verbs::answer::QuestionId;

use crate::args::AnswerArgs;
use crate::ctx::CommandContext;
use crate::target_session::TargetSession;
use crate::{consent, print, tty};

/// Length at which the command in a hint is cut, in bytes.
const COMMAND_BYTES: usize = 500;

pub(crate) fn run(ctx: &CommandContext, args: &AnswerArgs) -> Result<u8, Problem> {
    let (TargetSession { id, handle, .. }, words) = target(ctx, args)?;
    if words.is_empty() && args.text.is_none() {
        return Err(unanswered(&ctx.status(&id)?, &handle, args.request.as_ref()));
    }
    let reply = reply(&words, args.text.clone())?;
    let (request, epoch) = match (&args.request, &reply) {
        (Some(question), QuestionReply::Deny { .. }) => (Some(question.request.clone()), question.epoch),
        (None, QuestionReply::Deny { .. }) => (None, None),
        (Some(QuestionId { epoch: Some(epoch), request }), _) => (Some(request.clone()), Some(*epoch)),
        (question, reply) => {
            ctx.may(CallerAction::Answer, &id)?;
            let status = ctx.status(&id)?;
            let request = approved(args, &status, &handle, &words, question.as_ref(), reply)?;
            (request, Some(status.epoch))
        }
    };
    let status = answer::answer(ctx, &id, &handle, request, reply, epoch)?;
    if args.json {
        print::json(&status)?;
    }
    Ok(0)
}

fn target(ctx: &CommandContext, args: &AnswerArgs) -> Result<(TargetSession, Vec<String>), Problem> {
    let found = ctx.target_then(args.session.as_deref(), &args.answer);
    match (&found, &args.session) {
        // The only word does not name a session: more likely it is the answer.
        (Err(problem), Some(word))
            if problem.code == ProblemCode::NotFound && args.answer.is_empty() && args.text.is_none() =>
        {
            ctx.target_and(word, &[], "an answer (allow, deny or an option)")
        }
        _ => found,
    }
}

fn reply(words: &[String], text: Option<String>) -> Result<QuestionReply, Problem> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match (words.as_slice(), text) {
        (["allow" | "yes"], None) => Ok(QuestionReply::Allow),
        (["allow" | "yes", ..], _) => Err(Problem::usage("`allow` takes no text and no option")
            .hint("a reason goes with `deny`; send anything else with `berth send`")),
        (["deny" | "no"], reason) => Ok(QuestionReply::Deny { reason }),
        (["deny" | "no", reason], None) => Ok(QuestionReply::Deny { reason: Some((*reason).to_owned()) }),
        (["deny" | "no", ..], _) => {
            Err(Problem::usage("`deny` takes one reason").hint("put the reason in quotes"))
        }
        (ids, text) => {
            Ok(QuestionReply::Options { ids: ids.iter().map(|id| (*id).to_owned()).collect(), text })
        }
    }
}

/// The request to approve, for an answer that does not name its question with its run. Asks the user if needed.
fn approved(
    args: &AnswerArgs,
    status: &SessionStatus,
    handle: &str,
    words: &[String],
    question: Option<&QuestionId>,
    reply: &QuestionReply,
) -> Result<Option<String>, Problem> {
    // A session without turns has no questions; the keeper refuses the answer with that reason.
    let Some(turns) = &status.turns else { return Ok(None) };
    let id_of = |ask: &AgentQuestion| QuestionId::new(status.epoch, &ask.request);
    let command = |ask: &AgentQuestion| {
        let mut line = vec!["berth".to_owned(), "answer".to_owned(), handle.to_owned()];
        line.extend_from_slice(words);
        line.extend(args.text.iter().flat_map(|text| ["--text".to_owned(), text.clone()]));
        line.extend(["--request".to_owned(), id_of(ask).to_string()]);
        print::command_line(&line, COMMAND_BYTES)
    };
    if let Some(QuestionId { request, .. }) = question {
        let what = format!("`{request}` does not name the run of the question; nothing was answered");
        let hint = match turns.asks.iter().find(|ask| ask.request == *request) {
            Some(ask) => format!("read it with `berth show {handle}`; `{}` answers it", command(ask)),
            None => format!("`berth show {handle}` lists the questions as RUN:REQUEST"),
        };
        return Err(Problem::usage(what).hint(hint));
    }
    let ask = match turns.asks.as_slice() {
        [] => return Err(berth_api::problem::refusal(&Refusal::NoSuchRequest { request: None }, handle)),
        [ask] => ask,
        [first, ..] => {
            let ids: Vec<String> = turns.asks.iter().map(|ask| id_of(ask).to_string()).collect();
            let what = format!("session `{handle}` has {} open questions: {}", ids.len(), ids.join(", "));
            return Err(Problem::usage(what)
                .hint(format!("`berth show {handle}` has them in full; as in `{}`", command(first))));
        }
    };
    // The keeper refuses an answer that does not fit, and lists the answers that do.
    let fits = match reply {
        QuestionReply::Options { ids, .. } => {
            ids.iter().all(|id| ask.options.iter().any(|option| option.id == *id))
        }
        QuestionReply::Allow | QuestionReply::Deny { .. } => true,
    };
    let is_settled = args.yes || !fits || ask.options.is_empty();
    if !is_settled {
        let (tool, detail) = (&ask.tool, &ask.detail);
        if !tty::can_ask() {
            let what = format!("no question is named; `{handle}` asks ({}): {tool}: {detail}", id_of(ask));
            return Err(Problem::usage(what)
                .hint(format!("`{}` answers this question; --yes answers any open question", command(ask))));
        }
        consent::confirm(&match reply {
            QuestionReply::Allow => format!("Allow {tool}: {detail}?"),
            QuestionReply::Deny { .. } | QuestionReply::Options { .. } => {
                let answer = words.iter().chain(&args.text).cloned().collect::<Vec<_>>().join(" ");
                format!("Answer `{answer}` to {tool}: {detail}?")
            }
        })?;
    }
    Ok(Some(ask.request.clone()))
}

/// Tells a caller that gave no answer which question is open, and which answers fit.
fn unanswered(status: &SessionStatus, handle: &str, wanted: Option<&QuestionId>) -> Problem {
    let asks = status.turns.as_ref().map(|turns| turns.asks.as_slice()).unwrap_or_default();
    let is_meant = |ask: &&AgentQuestion| {
        wanted.is_none_or(|wanted| {
            wanted.request == ask.request && wanted.epoch.is_none_or(|epoch| epoch == status.epoch)
        })
    };
    let Some(ask) = asks.iter().find(is_meant) else {
        let request = wanted.map(ToString::to_string);
        return berth_api::problem::refusal(&Refusal::NoSuchRequest { request }, handle);
    };
    let more = match asks.len() - 1 {
        0 => String::new(),
        _ if wanted.is_some() => String::new(),
        more => format!(" (and {more} more: `berth show {handle}`)"),
    };
    let question = QuestionId::new(status.epoch, &ask.request);
    let (tool, detail) = (&ask.tool, &ask.detail);
    let what = format!("no answer is given; `{handle}` asks ({question}): {tool}: {detail}{more}");
    let options: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
    let several = if ask.several { " (several are possible)" } else { "" };
    let text = if ask.takes_text { ", or --text and your own words" } else { "" };
    let reason = if ask.takes_reason { "; `deny` takes a reason" } else { "" };
    let hint = format!(
        "with --request {question} answer `allow`, `deny`, or one of: {}{several}{text}{reason}",
        options.join(", ")
    );
    Problem::usage(what).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_question_is_read_back_as_it_is_written() {
        for (text, epoch, request) in
            [("2:0", Some(2), "0"), ("0", None, "0"), ("toolu:1", None, "toolu:1"), ("3:a:b", Some(3), "a:b")]
        {
            let id: QuestionId = text.parse().expect("any text is one");
            assert_eq!((id.epoch, id.request.as_str(), id.to_string().as_str()), (epoch, request, text));
        }
    }
}
