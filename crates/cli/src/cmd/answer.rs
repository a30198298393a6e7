//! `berth answer`: what a session's agent wants to know.
//!
//! Promise: an answer that approves something reaches the question that its writer has read, or no question: it names
//! the question and its run, or a person at a terminal is shown the question first, or `--yes` says that any question
//! may be meant. A refusal needs none of that.
//! Start with [`run`].

use berth_api::turn::{Ask, Wish};
use berth_api::{Code, Problem, Status};
use berth_core::{Deed, Refusal};
use berth_verbs::answer;

use crate::args::Answer;
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::replies::QuestionId;
use crate::{consent, print, tty};

/// The longest command in a hint.
const COMMAND_BYTES: usize = 500;

pub(crate) fn run(ctx: &Ctx, args: &Answer) -> Result<u8, Problem> {
    let (Meant { id, handle, .. }, words) = target(ctx, args)?;
    if words.is_empty() && args.text.is_none() {
        return Err(unanswered(&ctx.status(&id)?, &handle, args.request.as_ref()));
    }
    let wish = wish(&words, args.text.clone())?;
    let (request, epoch) = match (&args.request, &wish) {
        (Some(question), Wish::Deny { .. }) => (Some(question.request.clone()), question.epoch),
        (None, Wish::Deny { .. }) => (None, None),
        (Some(QuestionId { epoch: Some(epoch), request }), _) => (Some(request.clone()), Some(*epoch)),
        (question, wish) => {
            ctx.may(Deed::Answer, &id)?;
            let status = ctx.status(&id)?;
            let request = approved(args, &status, &handle, &words, question.as_ref(), wish)?;
            (request, Some(status.epoch))
        }
    };
    let status = answer::answer(ctx, &id, &handle, request, wish, epoch)?;
    if args.json {
        print::json(&status)?;
    }
    Ok(0)
}

fn target(ctx: &Ctx, args: &Answer) -> Result<(Meant, Vec<String>), Problem> {
    let found = ctx.target_then(args.session.as_deref(), &args.answer);
    match (&found, &args.session) {
        // The only word is not a session: more likely it is the answer.
        (Err(problem), Some(word))
            if problem.code == Code::NotFound && args.answer.is_empty() && args.text.is_none() =>
        {
            ctx.target_and(word, &[], "allow, deny or an option")
        }
        _ => found,
    }
}

fn wish(words: &[String], text: Option<String>) -> Result<Wish, Problem> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match (words.as_slice(), text) {
        (["allow" | "yes"], None) => Ok(Wish::Allow),
        (["allow" | "yes", ..], _) => Err(Problem::new(Code::Usage, "`allow` takes no text and no option")
            .hint("a reason goes with `deny`; what else the agent is to know, `berth send` it")),
        (["deny" | "no"], reason) => Ok(Wish::Deny { reason }),
        (["deny" | "no", reason], None) => Ok(Wish::Deny { reason: Some((*reason).to_owned()) }),
        (["deny" | "no", ..], _) => {
            Err(Problem::new(Code::Usage, "`deny` takes one reason").hint("put the reason in quotes"))
        }
        (ids, text) => Ok(Wish::Options { ids: ids.iter().map(|id| (*id).to_owned()).collect(), text }),
    }
}

/// The request that an answer approves whose question is not named, or not with its run.
fn approved(
    args: &Answer,
    status: &Status,
    handle: &str,
    words: &[String],
    question: Option<&QuestionId>,
    wish: &Wish,
) -> Result<Option<String>, Problem> {
    // Without turns there are no questions; the keeper says so.
    let Some(turns) = &status.turns else { return Ok(None) };
    let id_of = |ask: &Ask| QuestionId::new(status.epoch, &ask.request);
    let command = |ask: &Ask| {
        let mut line = vec!["berth".to_owned(), "answer".to_owned(), handle.to_owned()];
        line.extend_from_slice(words);
        line.extend(args.text.iter().flat_map(|text| ["--text".to_owned(), text.clone()]));
        line.extend(["--request".to_owned(), id_of(ask).to_string()]);
        print::command_line(&line, COMMAND_BYTES)
    };
    if let Some(QuestionId { request, .. }) = question {
        let what = format!("`{request}` does not say which run's question is meant; nothing was answered");
        let hint = match turns.asks.iter().find(|ask| ask.request == *request) {
            Some(ask) => format!("read it with `berth show {handle}`; `{}` answers it", command(ask)),
            None => format!("`berth show {handle}` lists the questions as RUN:REQUEST"),
        };
        return Err(Problem::new(Code::Usage, what).hint(hint));
    }
    let ask = match turns.asks.as_slice() {
        [] => return Err(berth_api::problem::refusal(&Refusal::NoSuchRequest { request: None }, handle)),
        [ask] => ask,
        [first, ..] => {
            let ids: Vec<String> = turns.asks.iter().map(|ask| id_of(ask).to_string()).collect();
            let what = format!("session `{handle}` asks {} things: {}", ids.len(), ids.join(", "));
            return Err(Problem::new(Code::Usage, what)
                .hint(format!("`berth show {handle}` has them in full; as in `{}`", command(first))));
        }
    };
    // An answer that does not fit is refused by the keeper, which says what does.
    let fits = match wish {
        Wish::Options { ids, .. } => ids.iter().all(|id| ask.options.iter().any(|option| option.id == *id)),
        Wish::Allow | Wish::Deny { .. } => true,
    };
    let is_settled = args.yes || !fits || ask.options.is_empty();
    if !is_settled {
        let (tool, detail) = (&ask.tool, &ask.detail);
        if !tty::can_ask() {
            let what = format!("no question is named; `{handle}` asks ({}): {tool}: {detail}", id_of(ask));
            return Err(Problem::new(Code::Usage, what)
                .hint(format!("`{}` answers this one; --yes answers whatever is asked", command(ask))));
        }
        consent::confirm(&match wish {
            Wish::Allow => format!("Allow {tool}: {detail}?"),
            Wish::Deny { .. } | Wish::Options { .. } => {
                let answer = words.iter().chain(&args.text).cloned().collect::<Vec<_>>().join(" ");
                format!("Answer `{answer}` to {tool}: {detail}?")
            }
        })?;
    }
    Ok(Some(ask.request.clone()))
}

/// A caller that names only a session wants to know what it asks.
fn unanswered(status: &Status, handle: &str, wanted: Option<&QuestionId>) -> Problem {
    let asks = status.turns.as_ref().map(|turns| turns.asks.as_slice()).unwrap_or_default();
    let is_meant = |ask: &&Ask| {
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
    Problem::new(Code::Usage, what).hint(hint)
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
