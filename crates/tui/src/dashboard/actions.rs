//! Carries out the actions of the dashboard, beside the drawing thread.
//!
//! Promise: each action does what the command of its name does, with its refusals and hints.
//! Start with [`start`].

use std::path::PathBuf;
use std::sync::Arc;

use berth_api::message::{KeeperRequest, WriterTakeover};
use berth_api::turn::{NewTurn, split_turn_id};
use berth_api::{Problem, SessionStatus};
use berth_config::agents::AgentTable;
use berth_core::{Command, Refusal, SessionId};
use berth_verbs::VerbContext;
use berth_verbs::foreign::{self, AgentConversation, adopt};
use berth_verbs::lifecycle::SessionEdit;
use berth_verbs::stop;
use berth_verbs::{answer, fork, hosts, input, interface, queue, resume, run as verb};

use super::form::{FormSuggestion, InterfaceChoice};
use super::model::{ActionOutcome, DashboardAction, FinishedAction, LoadedList, QueueAction};
use super::panel::{HostPanelEntry, PanelEntries, PanelKind};
use super::workers::{DashboardMailbox, spawn};
use crate::{lifecycle, print, turns};

/// How long a run has to end by itself, as in `berth stop`.
const GRACE_MS: u64 = 5000;

/// Starts an action. The mailbox gets its result under the label `what`.
pub(crate) fn start(
    ctx: &Arc<VerbContext>,
    mailbox: &Arc<DashboardMailbox>,
    what: String,
    handle: String,
    action: DashboardAction,
) {
    let (there, label) = (Arc::clone(mailbox), what.clone());
    let ctx = Arc::clone(ctx);
    let work = move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&ctx, &handle, &action)));
        let outcome = done.unwrap_or_else(|_| {
            Err(Problem::bug(format!("{label} failed")).hint("`berth why` shows the session as it is"))
        });
        there.put(|inbox| inbox.done.push(FinishedAction { what: label, outcome }));
    };
    if let Err(problem) = spawn("action", mailbox, work) {
        mailbox.put(|inbox| inbox.done.push(FinishedAction { what, outcome: Err(problem) }));
    }
}

/// Reads the entries of a list. The mailbox gets them.
pub(crate) fn list(ctx: &Arc<VerbContext>, mailbox: &Arc<DashboardMailbox>, kind: PanelKind) {
    let (there, ctx) = (Arc::clone(mailbox), Arc::clone(ctx));
    look_for(mailbox, move || {
        let entries = entries(&ctx, &kind);
        there.put(|inbox| inbox.listed.push(LoadedList::Panel(kind, entries)));
    });
}

/// Reads the table of agents. The mailbox gets it.
pub(crate) fn list_agents(mailbox: &Arc<DashboardMailbox>) {
    let there = Arc::clone(mailbox);
    look_for(mailbox, move || {
        let agents = AgentTable::load().map(|table| {
            let known = |agent: &berth_config::agents::AgentDefinition| FormSuggestion {
                text: agent.name.clone(),
                about: agent.about.clone().unwrap_or_default(),
            };
            table.iter().map(known).collect()
        });
        there.put(|inbox| inbox.listed.push(LoadedList::Agents(agents)));
    });
}

fn look_for(mailbox: &Arc<DashboardMailbox>, work: impl FnOnce() + Send + 'static) {
    if let Err(problem) = spawn("list", mailbox, work) {
        mailbox.put(|inbox| inbox.trouble = Some(problem));
    }
}

fn entries(ctx: &VerbContext, kind: &PanelKind) -> Result<PanelEntries, Problem> {
    Ok(match kind {
        PanelKind::Queue { of } => {
            let waiting = queue::waiting_turns(ctx, of, of.as_str())?;
            PanelEntries::Queue { held: waiting.held, turns: waiting.queued }
        }
        PanelKind::Conversations => {
            let wanted = foreign::ConversationFilter {
                limit: Some(foreign::USUAL_PAST),
                ..foreign::ConversationFilter::default()
            };
            let found = foreign::list(ctx, &wanted);
            PanelEntries::Conversations { all: found.conversations, more: found.more }
        }
        PanelKind::Hosts => {
            let looks = hosts::all_host_statuses(&ctx.home, hosts::PATIENCE)?;
            PanelEntries::Hosts(looks.into_iter().flat_map(host_entries).collect())
        }
    })
}

/// Each host, followed by its sessions in the order of a list.
fn host_entries(mut look: hosts::HostStatus) -> Vec<HostPanelEntry> {
    look.sessions.sort_by_key(berth_verbs::listing::list_position);
    let host = look.host;
    let about = match (&look.away, look.age_ms) {
        (None, _) => look.skew.unwrap_or_default(),
        (Some(why), Some(age)) => format!("away, last seen {} ago: {why}", print::describe_age(age)),
        (Some(why), None) => format!("away, never seen: {why}"),
    };
    let is_away = look.away.is_some();
    let session = |status| HostPanelEntry::Session { host: host.clone(), status: Box::new(status) };
    let sessions: Vec<HostPanelEntry> = look.sessions.into_iter().map(session).collect();
    std::iter::once(HostPanelEntry::Host { host: host.clone(), about, is_away }).chain(sessions).collect()
}

fn run(ctx: &VerbContext, handle: &str, action: &DashboardAction) -> Result<ActionOutcome, Problem> {
    let note = match action {
        DashboardAction::Start { agent, dir, interface, prompt } => {
            return start_session(ctx, agent, dir, *interface, prompt);
        }
        DashboardAction::Adopt { conversation, take } => return go_on_with(ctx, conversation, take),
        DashboardAction::Fork { id, name } => {
            let (_, status) = fork::fork(ctx, id, handle, name.as_deref())?;
            return made(&status, format!("forked {handle}"));
        }
        DashboardAction::Send { id, text } => send(ctx, id, handle, text)?,
        DashboardAction::Type { id, text } => type_text(ctx, id, handle, text)?,
        DashboardAction::Answer { id, request, reply, epoch } => {
            answer::answer(ctx, id, handle, Some(request.clone()), reply.clone(), Some(*epoch))?;
            format!("answered {handle}")
        }
        DashboardAction::Stop { id } => {
            let ids = [id.clone()];
            let ended = stop::stop_together(ctx, &ids, GRACE_MS).next();
            ended.unwrap_or_else(|| Err(Problem::bug("nothing was stopped")))?;
            format!("stopped {handle}")
        }
        DashboardAction::Cancel { id, turn } => {
            let number = split_turn_id(turn).map(|(_, number)| number);
            let number = number.ok_or_else(|| Problem::bug(format!("`{turn}` is not a turn")))?;
            let command = Command::Cancel { turn: number, by: ctx.me() };
            turns::change(ctx, id, KeeperRequest::Cancel { turn: number }, command)?;
            format!("interrupted turn {number} of {handle}")
        }
        DashboardAction::Resume { id } => {
            resume::begin(ctx, id, handle, false, WriterTakeover::None)?;
            format!("resumed {handle}")
        }
        DashboardAction::Switch { id, to } => {
            let (_, status) = interface::switch(ctx, id, handle, *to, false)?;
            match status.next_interface {
                Some(next) => format!("{handle} goes on in its {} at the end of its turn", next.word()),
                None => format!("{handle} goes on in its {}", to.word()),
            }
        }
        DashboardAction::Archive { id } => {
            lifecycle::archive(ctx, id)?;
            format!("archived {handle}; . shows it, and e brings it back")
        }
        DashboardAction::Restore { id } => {
            lifecycle::restore(ctx, id)?;
            format!("restored {handle}")
        }
        DashboardAction::Rename { id, name } => {
            lifecycle::edit(ctx, id, SessionEdit { name: Some(name.clone()), ..SessionEdit::default() })?;
            format!("renamed {handle} to {name}")
        }
        DashboardAction::Note { id, note } => {
            lifecycle::edit(ctx, id, SessionEdit { note: Some(note.clone()), ..SessionEdit::default() })?;
            let what = if note.is_some() { "wrote" } else { "removed" };
            format!("{what} the note of {handle}")
        }
        DashboardAction::Tag { id, add, remove } => {
            let edit =
                SessionEdit { add_tags: add.clone(), remove_tags: remove.clone(), ..SessionEdit::default() };
            lifecycle::edit(ctx, id, edit)?;
            let added = add.iter().map(|tag| format!("+{tag}"));
            let all: Vec<String> = added.chain(remove.iter().map(|tag| format!("-{tag}"))).collect();
            format!("tagged {handle}: {}", all.join(" "))
        }
        DashboardAction::Queue { id, change } => change_queue(ctx, id, handle, change)?,
    };
    Ok(note.into())
}

fn send(ctx: &VerbContext, id: &SessionId, handle: &str, text: &str) -> Result<String, Problem> {
    let (_, receipt) = ctx.session(id).send(NewTurn { text: text.to_owned(), ..NewTurn::default() })?;
    let turn = receipt.number;
    Ok(match (receipt.held, receipt.position) {
        (Some(held), _) => format!("sent turn {turn} of {handle}; the queue was held: {held}"),
        (None, Some(before)) if before > 0 => {
            format!("sent turn {turn} of {handle}; {before} were before it")
        }
        (None, Some(_) | None) => format!("sent turn {turn} of {handle}"),
    })
}

/// Types a line into a terminal and presses Enter. A line end in it is an Enter too, as on a keyboard.
fn type_text(ctx: &VerbContext, id: &SessionId, handle: &str, text: &str) -> Result<String, Problem> {
    let text = text.replace('\n', "\r") + "\r";
    if text.len() > input::MAX_BYTES {
        let what = format!("at most {} bytes can be typed at once; nothing was typed", input::MAX_BYTES);
        return Err(Problem::refused(what).hint("put the text in a file and name the file"));
    }
    match ctx.ask(id, KeeperRequest::Type { text, take: false })? {
        Some(_) => Ok(format!("typed into {handle}")),
        None => Err(berth_api::problem::refusal(&Refusal::NotRunning, handle)),
    }
}

/// Starts a new session, with its first turn if there is a prompt.
fn start_session(
    ctx: &VerbContext,
    agent: &str,
    dir: &str,
    interface: InterfaceChoice,
    prompt: &str,
) -> Result<ActionOutcome, Problem> {
    if agent.is_empty() {
        return Err(Problem::usage("no agent was named; nothing was started")
            .hint("press c to return to the form; the arrow keys choose an agent"));
    }
    // A text that names no agent of the table is a command.
    let is_agent = AgentTable::load()?.iter().any(|known| known.name == agent);
    let words = || agent.split_whitespace().map(str::to_owned).collect();
    let prompt = Some(prompt).filter(|prompt| !prompt.trim().is_empty());
    if !is_agent && prompt.is_some() {
        return Err(Problem::usage(format!("`{agent}` is not an agent of the table and takes no prompt"))
            .hint("`berth agents` lists the agents; without a prompt this is started as a command"));
    }
    let wanted = verb::RunRequest {
        cwd: Some(directory(dir)?),
        agent: is_agent.then(|| agent.to_owned()),
        tui: is_agent && interface == InterfaceChoice::Own,
        prompt: prompt.map(str::to_owned),
        command: if is_agent { vec![] } else { words() },
        ..verb::RunRequest::default()
    };
    let status = verb::prepare(&wanted)?.start(ctx)?.status;
    if let Some(prompt) = prompt {
        let id = verb::id_of(&status)?;
        let submit = verb::first_turn(None, prompt.to_owned(), false);
        ctx.session(&id).send(submit).map_err(|refused| verb::without_its_turn(&id, false, refused))?;
    }
    made(&status, format!("started {}", status.handle()))
}

/// A directory as the user types it, with `~` for their home.
fn directory(text: &str) -> Result<PathBuf, Problem> {
    let home = || std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = match text.strip_prefix('~') {
        Some("") => home(),
        Some(rest) if rest.starts_with('/') => home().join(rest.trim_start_matches('/')),
        Some(_) | None => PathBuf::from(text),
    };
    std::path::absolute(&path)
        .map_err(|error| Problem::usage(format!("`{text}` is not a directory: {error}")))
}

/// Adopts a conversation from outside berth.
fn go_on_with(
    ctx: &VerbContext,
    conversation: &AgentConversation,
    take: &WriterTakeover,
) -> Result<ActionOutcome, Problem> {
    let others =
        if take.takes() { adopt::HolderPolicy::Take(take.clone()) } else { adopt::HolderPolicy::Refuse };
    let order = adopt::AdoptOptions { others, ..adopt::AdoptOptions::default() };
    let adopted = adopt::adopt(ctx, conversation, &order, &mut |_| {})?;
    made(&adopted.status, format!("adopted the conversation as {}", adopted.status.handle()))
}

fn made(status: &SessionStatus, note: String) -> Result<ActionOutcome, Problem> {
    Ok(ActionOutcome { note, made: Some(verb::id_of(status)?) })
}

fn change_queue(
    ctx: &VerbContext,
    id: &SessionId,
    handle: &str,
    change: &QueueAction,
) -> Result<String, Problem> {
    match change {
        QueueAction::Edit { turn, text } => {
            queue::edit_turn(ctx, id, *turn, text.clone())?;
            Ok(format!("changed turn {turn} of {handle}"))
        }
        QueueAction::Drop { turn } => {
            queue::withdraw_turn(ctx, id, *turn)?;
            Ok(format!("took turn {turn} out of the queue of {handle}"))
        }
        QueueAction::Move { turn, to } => {
            queue::move_turn(ctx, id, *turn, *to)?;
            Ok(format!("moved turn {turn} of {handle}"))
        }
        QueueAction::Pause => {
            queue::pause_queue(ctx, id)?;
            Ok(format!("paused the queue of {handle}"))
        }
        QueueAction::GoOn => {
            queue::continue_queue(ctx, id)?;
            Ok(format!("resumed the queue of {handle}"))
        }
    }
}
