//! `berth why`: prints the evidence for a session's state, or for the owner of a process.

use berth_api::Problem;
use berth_procs::attribution::EvidenceFact;
use berth_procs::attribution::{self, AttributionVerdict, ProcessAttribution};
use berth_verbs::why;

use crate::args::WhyArgs;
use crate::ctx::CommandContext;
use crate::print;
use crate::safe_text::SafeText;

pub(crate) fn run(ctx: &CommandContext, args: &WhyArgs) -> Result<u8, Problem> {
    match args.pid {
        None => of_session(ctx, args)?,
        Some(_) if ctx.session.is_some() => {
            return Err(Problem::usage("--pid and --session do not go together")
                .hint("ask about a process, or about a session"));
        }
        Some(pid) => of_process(ctx, pid, args.json)?,
    }
    Ok(0)
}

fn of_session(ctx: &CommandContext, args: &WhyArgs) -> Result<(), Problem> {
    let id = ctx.target(args.session.as_deref())?.id;
    let why = why::why(&ctx.home, &id)?;
    if args.json {
        return print::json(&why);
    }
    let handle = why.name.as_deref().unwrap_or(&why.id);
    let claim = SafeText::from(format!("{handle} is ")) + print::painted((&why.state).into(), &why.state, 0);
    print::text(&claim_with_evidence(claim, &why.evidence, &why.would_change))
}

fn of_process(ctx: &CommandContext, pid: u32, json: bool) -> Result<(), Problem> {
    let whose = attribution::attribute_process(&ctx.home, pid)?;
    if json {
        return print::json(&whose);
    }
    let claim = format!(
        "pid {pid} ({}, {} old) {}",
        print::truncate(&whose.command, 60),
        print::describe_age(whose.age_ms),
        owner(&whose)
    );
    print::text(&claim_with_evidence(
        claim.into(),
        &whose.evidence,
        &format!("what would happen to the process: {}", whose.planned_action),
    ))
}

fn owner(whose: &ProcessAttribution) -> String {
    let session = whose.name.as_deref().or(whose.session.as_deref()).unwrap_or("?");
    match whose.verdict {
        AttributionVerdict::Ours => format!("belongs to {} {session}", whose.kind),
        AttributionVerdict::LeftOver => format!("is left over from {} {session}", whose.kind),
        AttributionVerdict::NoRecord => format!("has the mark of session {session}, which has no record"),
        AttributionVerdict::Elsewhere => format!("belongs to session {session} in another state directory"),
        AttributionVerdict::NotOurs => "does not belong to berth".to_owned(),
        AttributionVerdict::CannotTell => "has an unknown owner".to_owned(),
    }
}

fn claim_with_evidence(claim: SafeText, evidence: &[EvidenceFact], end: &str) -> SafeText {
    let mut text = claim + "\n";
    for fact in evidence {
        let age = if fact.age_ms == 0 {
            "now".to_owned()
        } else {
            format!("{} ago", print::describe_age(fact.age_ms))
        };
        text.push(format!("  {:9}  {} ({age})\n", fact.source, fact.fact));
    }
    text.push(format!("{end}\n"));
    text
}
