//! `berth log`: prints and verifies a session's journal.

use berth_api::helper::{HelperOwner, HelperScope, HelperTerms, LeaveReason};
use berth_api::record::{Actor, Event, EventEntry, ProcessExit, RunOutcome};
use berth_api::turn::{ActivityChange, OnUnknown};
use berth_api::{Problem, Timestamp, TurnState};
use berth_verbs::events::EventLine;
use berth_verbs::journal_heads;

use berth_core::SessionId;
use berth_verbs::follow::{RunUpdate, follow};

use crate::args::LogArgs;
use crate::ctx::CommandContext;
use crate::print;
use crate::target_session::TargetSession;

/// Size of the events that are read at once, in bytes.
const PAGE_BYTES: usize = 1 << 20;

pub(crate) fn run(ctx: &CommandContext, args: &LogArgs) -> Result<u8, Problem> {
    let TargetSession { id, handle, .. } = ctx.target(args.session.as_deref())?;
    if args.head {
        let head = journal_heads::head(ctx, &id)?;
        return if args.json { print::json(&head) } else { print::text(&format!("{}\n", head.head)) }
            .map(|()| 0);
    }
    if !args.verify.is_empty() {
        return verify(ctx, &id, &handle, args);
    }
    let mut next = args.from.max(1);
    if args.follow {
        follow(ctx.session(&id).events(next), None, |news| {
            if let RunUpdate::Event { seq, entry } = news {
                show(args, seq, *entry)?;
                next = seq + 1;
            }
            Ok(false)
        })?;
    }
    for page in ctx.home.session(&id).pages(next, PAGE_BYTES) {
        for event in page? {
            show(args, event.seq().0, event.get().entry())?;
        }
    }
    Ok(0)
}

/// Compares the journal with heads that were printed earlier.
fn verify(ctx: &CommandContext, id: &SessionId, handle: &str, args: &LogArgs) -> Result<u8, Problem> {
    let verification = journal_heads::verify(ctx, id, &args.verify)?;
    if args.json {
        print::json(&verification)?;
    } else if verification.unchanged {
        print::text(&format!("unchanged up to event {}\n", verification.unchanged_up_to))?;
    }
    verification.problem(handle).map_or(Ok(0), Err)
}

fn show(args: &LogArgs, seq: u64, entry: EventEntry) -> Result<(), Problem> {
    if args.json {
        return print::json_line(&EventLine::new(seq, entry));
    }
    let at = Timestamp(entry.at_ms);
    print::text(&format!("{seq:>5}  {at}  {}\n", sentence(&entry.event)))
}

fn sentence(event: &Event) -> String {
    match event {
        Event::Created { spec, name } => {
            let name = name.as_deref().map(|name| format!(" as `{name}`")).unwrap_or_default();
            format!("created{name}: {} in {}", print::command_line(&spec.command, 80), spec.cwd)
        }
        Event::Renamed { name } => format!("renamed to `{name}`"),
        Event::RunStarting { epoch, keeper, .. } => {
            format!("run {epoch} starting, kept by pid {}", keeper.pid)
        }
        Event::RunStarted { epoch, agent } => format!("run {epoch} started, agent is pid {}", agent.pid),
        Event::StopRequested { by, .. } => format!("asked to stop by {}", who(by)),
        Event::AgentExited { oom: true, .. } => "agent killed: out of memory".to_owned(),
        Event::OomKilled { kills, .. } => {
            format!("memory ran out: the kernel has killed {kills} of its processes")
        }
        Event::AgentExited { exit, .. } => format!("agent ended: {}", ended(*exit)),
        Event::KillOrdered { epoch } => {
            format!("grace time is over, killing the remaining processes of run {epoch}")
        }
        Event::EndUnproven { left, .. } => format!("not ended: {}", left.join("; ")),
        Event::RunEnded { epoch, outcome } => match outcome {
            RunOutcome::Exited(exit) => {
                format!("run {epoch} is over, nothing of it is left: {}", ended(*exit))
            }
            RunOutcome::OutOfMemory => format!("run {epoch} is over, nothing of it is left: out of memory"),
            RunOutcome::StartFailed(reason) => format!("run {epoch} could not start: {reason}"),
            RunOutcome::Lost => format!("run {epoch} was lost: its keeper died before the end was seen"),
        },
        Event::WriterGranted { holder, taken_from, .. } => match taken_from {
            Some(other) => format!("{} took over from {}", who(holder), who(other)),
            None => format!("{} attached", who(holder)),
        },
        Event::WriterReleased { .. } => "detached".to_owned(),
        Event::Typed { by, bytes } => format!("{} typed {bytes} bytes", who(by)),
        Event::KeeperRestarted { reason } => {
            format!("keeper replaced its program, the run went on: {reason}")
        }
        Event::OutputDropped { before } => format!("output before offset {before} is no longer kept"),
        Event::HelperDeclared { terms } => format!("declared as {}", shared(terms)),
        Event::CommandChanged { spec } => {
            format!("has a new command for its next runs: {}", print::command_line(&spec.command, 80))
        }
        Event::OwnerJoined { owner: HelperOwner { session, keep } } => {
            format!(
                "session {session} owns the helper{}",
                if *keep { ", also between its turns" } else { "" }
            )
        }
        Event::OwnerLeft { owner, why, stop_at_boot_ms } => {
            let why = match why {
                LeaveReason::Released => "released the helper",
                LeaveReason::Gone => "is gone",
            };
            let last = if stop_at_boot_ms.is_some() { "; it was the last owner" } else { "" };
            format!("session {owner} {why}{last}")
        }
        Event::BecameReady { address, .. } => match address {
            Some(address) => format!("ready at {address}"),
            None => "ready".to_owned(),
        },
        Event::NeverReady { reason, .. } => format!("did not get ready: {reason}"),
        Event::ConversationEntered { conversation } => {
            format!("the agent writes conversation {}", conversation.id)
        }
        Event::ConversationLeft { by } => format!("{} gave the conversation up", who(by)),
        Event::AgentReady { .. } => "the agent takes turns".to_owned(),
        Event::InterfaceChosen { interface, at_once, by } => {
            let when = if *at_once { ", without waiting for the turn's end" } else { "" };
            format!("{} chose the {} for the next run{when}", who(by), interface.word())
        }
        Event::HooksInjected { .. } => "the agent will tell its turns through hooks".to_owned(),
        Event::ActivityReported { edge, .. } => match edge {
            ActivityChange::Prompt => "the agent has a prompt (hook)".to_owned(),
            ActivityChange::Tool => "the agent uses a tool (hook)".to_owned(),
            ActivityChange::Stopped => "the agent ended its turn (hook)".to_owned(),
            ActivityChange::Interrupted => "the agent was interrupted (hook)".to_owned(),
            ActivityChange::Quiet => "the agent has nothing to do (its own list of sessions)".to_owned(),
        },
        Event::TurnAccepted { turn, prompt } => {
            format!("turn {turn} accepted from {}: {}", who(&prompt.by), print::first_words(&prompt.text, 80))
        }
        Event::TurnDelivered { turn, .. } => format!("turn {turn} given to the agent"),
        Event::TurnBegan { turn } => format!("turn {turn}: the agent has it"),
        Event::CancelRequested { turn, cancel } => {
            let why = if cancel.for_another { " for another one" } else { "" };
            format!("turn {turn} is being interrupted{why} by {}", who(&cancel.by))
        }
        Event::TurnEnded { turn, end, .. } => {
            let reason = end.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("turn {turn} {}{reason}", TurnState::from(end.state))
        }
        Event::LateResult { turn, end } => {
            format!("said after turn {turn} was over: {}", print::first_words(&end.answer, 80))
        }
        Event::QuestionAsked { ask } => {
            format!("the agent asks ({}): {}: {}", ask.request, ask.tool, print::first_words(&ask.detail, 80))
        }
        Event::Answered { request, reply, by } => format!("{} answered {request}: {reply}", who(by)),
        Event::QuestionWithdrawn { request } => format!("the agent no longer asks {request}"),
        Event::QueueHeld { hold } => format!("the queue is held: {}", hold.describe("S")),
        Event::QueueResumed { by } => format!("the queue was resumed by {}", who(by)),
        Event::QueueMoved { turn, to } => format!("turn {turn} has {to} before it now"),
        Event::TurnEdited { turn, text, by } => {
            format!("turn {turn} was changed by {}: {}", who(by), print::first_words(text, 80))
        }
        Event::RunReleased { epoch, why, .. } => format!("run {epoch} is ended: {}", why.describe()),
        Event::ExpirySet { .. } => "the session has a time to live".to_owned(),
        Event::Archived { by } => format!("archived by {}", who(by)),
        Event::Restored { by } => format!("restored by {}", who(by)),
        Event::TagsChanged { tags } if tags.is_empty() => "has no tags any more".to_owned(),
        Event::TagsChanged { tags } => format!("tagged {}", tags.join(", ")),
        Event::Imported { file, .. } => format!("imported from {file}"),
        Event::NoteChanged { note: None } => "the note was removed".to_owned(),
        Event::NoteChanged { note: Some(note) } => format!("noted: {}", print::first_words(note, 80)),
        Event::PolicySet { policy } => {
            let time = |ms: Option<u64>| ms.map_or_else(|| "never".to_owned(), print::exact_duration);
            format!(
                "policy: idle {}, ttl {}, archive after {}, {} after a turn with an unknown outcome, {} after a failure of the model, notify {}",
                time(policy.idle_ms),
                time(policy.ttl_ms),
                time(policy.archive_after_ms),
                match policy.on_unknown {
                    OnUnknown::Hold => "hold",
                    OnUnknown::Continue => "continue",
                },
                policy.on_failed.word(),
                super::policy::told_of(&policy.notify.0),
            )
        }
        Event::Warned { what } => format!("warning: {what}"),
    }
}

fn shared(terms: &HelperTerms) -> String {
    let whose = match &terms.scope {
        HelperScope::Dir(dir) => format!("of {dir}"),
        HelperScope::User => "of this account".to_owned(),
    };
    format!("helper `{}` {whose}", terms.name)
}

fn who(actor: &Actor) -> String {
    format!("pid {} ({})", actor.pid, actor.place)
}

fn ended(exit: ProcessExit) -> String {
    match exit {
        ProcessExit::Code(code) => format!("exit {code}"),
        ProcessExit::Signal(signal) => format!("signal {signal}"),
    }
}
