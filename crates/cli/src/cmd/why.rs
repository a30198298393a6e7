//! `berth why`: the evidence behind a state, or behind the claim on a process.

use berth_api::{Code, Problem};
use berth_keeper::whose::{self, Verdict, Whose};
use berth_keeper::why::{self, Fact};

use crate::args::Why;
use crate::ctx::Ctx;
use crate::print;
use crate::visible::Visible;

pub(crate) fn run(ctx: &Ctx, args: &Why) -> Result<u8, Problem> {
    match args.pid {
        None => of_session(ctx, args)?,
        Some(_) if ctx.session.is_some() => {
            return Err(Problem::new(Code::Usage, "--pid and --session do not go together")
                .hint("ask about a process, or about a session"));
        }
        Some(pid) => of_process(ctx, pid, args.json)?,
    }
    Ok(0)
}

fn of_session(ctx: &Ctx, args: &Why) -> Result<(), Problem> {
    let id = ctx.target(args.session.as_deref())?.id;
    let why = why::why(&ctx.home, &id)?;
    if args.json {
        return print::json(&why);
    }
    let handle = why.name.as_deref().unwrap_or(&why.id);
    let claim = Visible::from(format!("{handle} is ")) + print::painted((&why.state).into(), &why.state, 0);
    print::text(&told(claim, &why.evidence, &why.would_change))
}

fn of_process(ctx: &Ctx, pid: u32, json: bool) -> Result<(), Problem> {
    let whose = whose::whose(&ctx.home, pid)?;
    if json {
        return print::json(&whose);
    }
    let claim = format!(
        "pid {pid} ({}, {} old) {}",
        print::cut(&whose.command, 60),
        print::age(whose.age_ms),
        owner(&whose)
    );
    print::text(&told(
        claim.into(),
        &whose.evidence,
        &format!("what would happen to it: {}", whose.would_happen),
    ))
}

fn owner(whose: &Whose) -> String {
    let session = whose.name.as_deref().or(whose.session.as_deref()).unwrap_or("?");
    match whose.verdict {
        Verdict::Ours => format!("is of {} {session}", whose.kind),
        Verdict::LeftOver => format!("is left over from {} {session}", whose.kind),
        Verdict::NoRecord => format!("says it is of session {session}, which there is no record of"),
        Verdict::Elsewhere => format!("is of session {session} in another state directory"),
        Verdict::NotOurs => "is not of berth".to_owned(),
        Verdict::CannotTell => "cannot be told".to_owned(),
    }
}

fn told(claim: Visible, evidence: &[Fact], end: &str) -> Visible {
    let mut text = claim + "\n";
    for fact in evidence {
        let age =
            if fact.age_ms == 0 { "now".to_owned() } else { format!("{} ago", print::age(fact.age_ms)) };
        text.push(format!("  {:9}  {} ({age})\n", fact.source, fact.fact));
    }
    text.push(format!("{end}\n"));
    text
}
