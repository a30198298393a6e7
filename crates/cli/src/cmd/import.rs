//! `berth import`: past conversations as sessions.

use berth_api::{Code, Problem};
use berth_verbs::foreign::import::{self, Imported, Order, Outcome};
use berth_verbs::foreign::{self, Found, Wanted};

use crate::args::Import;
use crate::cmd::conversations::directory;
use crate::ctx::Ctx;
use crate::print;
use crate::progress::Later;

pub(crate) fn run(ctx: &Ctx, args: &Import) -> Result<u8, Problem> {
    let agent = args.agent.as_deref().map(foreign::kind).transpose()?;
    let found = if args.conversations.is_empty() {
        let under = args.dir.as_deref().map(directory).transpose()?;
        let limit = args.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        foreign::list(ctx, &Wanted { agent, under, ours_too: false, limit })
    } else {
        let conversations = foreign::find_each(ctx, &args.conversations, agent)?;
        Found { conversations, ..Found::default() }
    };
    let order = Order { name: args.name.clone(), dry_run: args.dry_run };
    let progress = Later::new("importing");
    let done = import::import(ctx, &found.conversations, &order, &progress)?;
    drop(progress);
    if args.json {
        print::json(&done)?;
    } else {
        print::text(&done.iter().map(|one| line(one) + "\n").collect::<String>())?;
        print::note(&summary(&done));
    }
    for why in &found.damaged {
        print::problem(&Problem::new(Code::Refused, why.clone()));
    }
    // Who named one wants that one; of all there are, some are open or empty, and that is told.
    let is_refused = done.iter().any(|one| one.outcome == Outcome::Refused) && !args.conversations.is_empty();
    Ok(if is_refused || !found.damaged.is_empty() { Code::Refused.exit_code() } else { 0 })
}

fn line(one: &Imported) -> String {
    let name = one.name.as_deref().or(one.session.as_deref()).unwrap_or("-");
    let dir = one.cwd.as_ref().map(|dir| format!(" in {}", dir.display())).unwrap_or_default();
    let (id, agent) = (&one.conversation, &one.agent);
    match one.outcome {
        Outcome::Imported => format!("{name}: {agent} {id}{dir}, last {}", print::ago(one.last_activity_at)),
        Outcome::Would => {
            format!("would be {name}: {agent} {id}{dir}, last {}", print::ago(one.last_activity_at))
        }
        Outcome::Already => format!("already: {name} ({agent} {id})"),
        Outcome::Refused => format!("left: {agent} {id}: {}", one.why.as_deref().unwrap_or("refused")),
    }
}

fn summary(done: &[Imported]) -> String {
    let count = |outcome: Outcome| done.iter().filter(|one| one.outcome == outcome).count();
    let kinds = [
        (Outcome::Imported, "imported"),
        (Outcome::Would, "would be imported"),
        (Outcome::Already, "already here"),
        (Outcome::Refused, "left as they are"),
    ];
    let parts: Vec<String> = kinds
        .into_iter()
        .map(|(outcome, word)| (count(outcome), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if parts.is_empty() { "there is nothing to import".to_owned() } else { parts.join(", ") }
}
