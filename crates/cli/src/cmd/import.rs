//! `berth import`: makes sessions of past conversations.

use berth_api::{Problem, ProblemCode};
use berth_verbs::foreign::import::{self, ImportOptions, ImportOutcome, ImportedConversation};
use berth_verbs::foreign::{self, ConversationFilter, ConversationList};

use crate::args::ImportArgs;
use crate::cmd::conversations::directory;
use crate::ctx::CommandContext;
use crate::print;
use crate::progress::DeferredProgress;

pub(crate) fn run(ctx: &CommandContext, args: &ImportArgs) -> Result<u8, Problem> {
    let agent = args.agent.as_deref().map(foreign::kind).transpose()?;
    let found = if args.conversations.is_empty() {
        let under = args.dir.as_deref().map(directory).transpose()?;
        let limit = args.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        foreign::list(ctx, &ConversationFilter { agent, under, ours_too: false, limit })
    } else {
        let conversations = foreign::find_each(ctx, &args.conversations, agent)?;
        ConversationList { conversations, ..ConversationList::default() }
    };
    let order = ImportOptions { name: args.name.clone(), dry_run: args.dry_run };
    let progress = DeferredProgress::new("importing");
    let done = import::import(ctx, &found.conversations, &order, &progress)?;
    drop(progress);
    if args.json {
        print::json(&done)?;
    } else {
        print::text(&done.iter().map(|one| line(one) + "\n").collect::<String>())?;
        print::note(&summary(&done));
    }
    for why in &found.damaged {
        print::problem(&Problem::refused(why.clone()));
    }
    // A refused conversation is an error only if it was named. With --all, some are always open or empty.
    let is_refused =
        done.iter().any(|one| one.outcome == ImportOutcome::Refused) && !args.conversations.is_empty();
    Ok(if is_refused || !found.damaged.is_empty() { ProblemCode::Refused.exit_code() } else { 0 })
}

fn line(one: &ImportedConversation) -> String {
    let name = one.name.as_deref().or(one.session.as_deref()).unwrap_or("-");
    let dir = one.cwd.as_ref().map(|dir| format!(" in {}", dir.display())).unwrap_or_default();
    let (id, agent) = (&one.conversation, &one.agent);
    match one.outcome {
        ImportOutcome::Imported => {
            format!("{name}: {agent} {id}{dir}, last {}", print::age_since(one.last_activity_at))
        }
        ImportOutcome::Would => {
            format!("would be {name}: {agent} {id}{dir}, last {}", print::age_since(one.last_activity_at))
        }
        ImportOutcome::Already => format!("already: {name} ({agent} {id})"),
        ImportOutcome::Refused => {
            format!("skipped: {agent} {id}: {}", one.why.as_deref().unwrap_or("refused"))
        }
    }
}

fn summary(done: &[ImportedConversation]) -> String {
    let count = |outcome: ImportOutcome| done.iter().filter(|one| one.outcome == outcome).count();
    let kinds = [
        (ImportOutcome::Imported, "imported"),
        (ImportOutcome::Would, "would be imported"),
        (ImportOutcome::Already, "already here"),
        (ImportOutcome::Refused, "skipped"),
    ];
    let parts: Vec<String> = kinds
        .into_iter()
        .map(|(outcome, word)| (count(outcome), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if parts.is_empty() { "there is nothing to import".to_owned() } else { parts.join(", ") }
}
