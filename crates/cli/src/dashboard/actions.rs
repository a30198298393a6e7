//! Doing what a person asked for, away from the drawing thread.
//!
//! Promise: each is the same as the command of the same name, with the same refusals and hints.
//! Start with [`start`].

use std::path::PathBuf;
use std::sync::Arc;

use berth_api::message::{Request, Take};
use berth_api::turn::{NewTurn, split_turn_id};
use berth_api::{Code, Problem, Status};
use berth_core::{Command, Refusal, SessionId};
use berth_verbs::agents::Table;
use berth_verbs::foreign::{self, Conversation, adopt};
use berth_verbs::life::Edit;
use berth_verbs::{answer, fork, hosts, input, interface, queue, resume, run as verb};

use super::form::{Interface, Suggestion};
use super::model::{Action, Done, Listed, Outcome, QueueChange};
use super::panel::{Entries, HostEntry, PanelKind};
use super::source::{Mailbox, spawn};
use crate::cmd::stop;
use crate::ctx::Ctx;
use crate::{life, print, turns};

/// How long a run is given to end by itself: what `berth stop` gives.
const GRACE_MS: u64 = 5000;

/// Begins something; how it came out is left in the mailbox under these words.
pub(crate) fn start(ctx: &Arc<Ctx>, mailbox: &Arc<Mailbox>, what: String, handle: String, action: Action) {
    let (there, label) = (Arc::clone(mailbox), what.clone());
    let ctx = Arc::clone(ctx);
    let work = move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&ctx, &handle, &action)));
        let outcome = done.unwrap_or_else(|_| {
            Err(Problem::new(Code::Bug, format!("{label} failed"))
                .hint("`berth why` shows the session as it is"))
        });
        there.put(|inbox| inbox.done.push(Done { what: label, outcome }));
    };
    if let Err(problem) = spawn("action", mailbox, work) {
        mailbox.put(|inbox| inbox.done.push(Done { what, outcome: Err(problem) }));
    }
}

/// Looks for what a list has; what was found is left in the mailbox.
pub(crate) fn list(ctx: &Arc<Ctx>, mailbox: &Arc<Mailbox>, kind: PanelKind) {
    let (there, ctx) = (Arc::clone(mailbox), Arc::clone(ctx));
    look_for(mailbox, move || {
        let entries = entries(&ctx, &kind);
        there.put(|inbox| inbox.listed.push(Listed::Panel(kind, entries)));
    });
}

/// Looks for the agents there are.
pub(crate) fn list_agents(mailbox: &Arc<Mailbox>) {
    let there = Arc::clone(mailbox);
    look_for(mailbox, move || {
        let agents = Table::load().map(|table| {
            let known = |agent: &berth_verbs::agents::Agent| Suggestion {
                text: agent.name.clone(),
                about: agent.about.clone().unwrap_or_default(),
            };
            table.iter().map(known).collect()
        });
        there.put(|inbox| inbox.listed.push(Listed::Agents(agents)));
    });
}

fn look_for(mailbox: &Arc<Mailbox>, work: impl FnOnce() + Send + 'static) {
    if let Err(problem) = spawn("list", mailbox, work) {
        mailbox.put(|inbox| inbox.trouble = Some(problem));
    }
}

fn entries(ctx: &Ctx, kind: &PanelKind) -> Result<Entries, Problem> {
    Ok(match kind {
        PanelKind::Queue { of } => {
            let waiting = queue::waiting(ctx, of, of.as_str())?;
            Entries::Queue { held: waiting.held, turns: waiting.queued }
        }
        PanelKind::Conversations => {
            let wanted = foreign::Wanted { limit: Some(foreign::USUAL_PAST), ..foreign::Wanted::default() };
            let found = foreign::list(ctx, &wanted);
            Entries::Conversations { all: found.conversations, beyond: found.beyond }
        }
        PanelKind::Hosts => {
            let looks = hosts::look_at_all(&ctx.home, hosts::PATIENCE)?;
            Entries::Hosts(looks.into_iter().flat_map(host_entries).collect())
        }
    })
}

/// A host, then its sessions in the order of a list.
fn host_entries(mut look: hosts::Look) -> Vec<HostEntry> {
    look.sessions.sort_by_key(berth_verbs::listing::place);
    let host = look.host;
    let about = match (&look.away, look.age_ms) {
        (None, _) => look.skew.unwrap_or_default(),
        (Some(why), Some(age)) => format!("away, last seen {} ago: {why}", print::age(age)),
        (Some(why), None) => format!("away, never seen: {why}"),
    };
    let is_away = look.away.is_some();
    let session = |status| HostEntry::Session { host: host.clone(), status: Box::new(status) };
    let sessions: Vec<HostEntry> = look.sessions.into_iter().map(session).collect();
    std::iter::once(HostEntry::Host { host: host.clone(), about, is_away }).chain(sessions).collect()
}

fn run(ctx: &Ctx, handle: &str, action: &Action) -> Result<Outcome, Problem> {
    let note = match action {
        Action::Start { agent, dir, interface, prompt } => {
            return start_session(ctx, agent, dir, *interface, prompt);
        }
        Action::Adopt { conversation, take } => return go_on_with(ctx, conversation, take),
        Action::Fork { id, name } => {
            let (_, status) = fork::fork(ctx, id, handle, name.as_deref())?;
            return made(&status, format!("forked {handle}"));
        }
        Action::Send { id, text } => send(ctx, id, handle, text)?,
        Action::Type { id, text } => type_text(ctx, id, handle, text)?,
        Action::Answer { id, request, wish, epoch } => {
            answer::answer(ctx, id, handle, Some(request.clone()), wish.clone(), Some(*epoch))?;
            format!("answered {handle}")
        }
        Action::Stop { id } => {
            let ids = [id.clone()];
            let ended = stop::stop_together(ctx, &ids, GRACE_MS).next();
            ended.unwrap_or_else(|| Err(Problem::new(Code::Bug, "nothing was stopped")))?;
            format!("stopped {handle}")
        }
        Action::Cancel { id, turn } => {
            let number = split_turn_id(turn).map(|(_, number)| number);
            let number = number.ok_or_else(|| Problem::new(Code::Bug, format!("`{turn}` is not a turn")))?;
            let command = Command::Cancel { turn: number, by: ctx.me() };
            turns::change(ctx, id, Request::Cancel { turn: number }, command)?;
            format!("interrupted turn {number} of {handle}")
        }
        Action::Resume { id } => {
            resume::begin(ctx, id, handle, false, Take::Nobody)?;
            format!("resumed {handle}")
        }
        Action::Switch { id, to } => {
            let (_, status) = interface::switch(ctx, id, handle, *to, false)?;
            match status.next_interface {
                Some(next) => format!("{handle} goes on in its {} at the end of its turn", next.word()),
                None => format!("{handle} goes on in its {}", to.word()),
            }
        }
        Action::Archive { id } => {
            life::archive(ctx, id)?;
            format!("archived {handle}; . shows it, and e brings it back")
        }
        Action::Restore { id } => {
            life::restore(ctx, id)?;
            format!("restored {handle}")
        }
        Action::Rename { id, name } => {
            life::edit(ctx, id, Edit { name: Some(name.clone()), ..Edit::default() })?;
            format!("renamed {handle} to {name}")
        }
        Action::Note { id, note } => {
            life::edit(ctx, id, Edit { note: Some(note.clone()), ..Edit::default() })?;
            let what = if note.is_some() { "wrote" } else { "removed" };
            format!("{what} the note of {handle}")
        }
        Action::Tag { id, add, remove } => {
            let edit = Edit { add_tags: add.clone(), remove_tags: remove.clone(), ..Edit::default() };
            life::edit(ctx, id, edit)?;
            let added = add.iter().map(|tag| format!("+{tag}"));
            let all: Vec<String> = added.chain(remove.iter().map(|tag| format!("-{tag}"))).collect();
            format!("tagged {handle}: {}", all.join(" "))
        }
        Action::Queue { id, change } => change_queue(ctx, id, handle, change)?,
    };
    Ok(note.into())
}

fn send(ctx: &Ctx, id: &SessionId, handle: &str, text: &str) -> Result<String, Problem> {
    let (_, receipt) = turns::send(ctx, id, NewTurn { text: text.to_owned(), ..NewTurn::default() })?;
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
fn type_text(ctx: &Ctx, id: &SessionId, handle: &str, text: &str) -> Result<String, Problem> {
    let text = text.replace('\n', "\r") + "\r";
    if text.len() > input::MAX_BYTES {
        let what = format!("at most {} bytes can be typed at once; nothing was", input::MAX_BYTES);
        return Err(Problem::new(Code::Refused, what).hint("put it in a file and name the file"));
    }
    match ctx.ask(id, Request::Type { text, take: false })? {
        Some(_) => Ok(format!("typed into {handle}")),
        None => Err(berth_api::problem::refusal(&Refusal::NotRunning, handle)),
    }
}

/// A new session, and its first turn.
fn start_session(
    ctx: &Ctx,
    agent: &str,
    dir: &str,
    interface: Interface,
    prompt: &str,
) -> Result<Outcome, Problem> {
    if agent.is_empty() {
        return Err(Problem::new(Code::Usage, "no agent was named; nothing was started")
            .hint("c goes on with the form; the arrow keys choose an agent"));
    }
    // Words that are not an agent of the table are a command.
    let is_agent = Table::load()?.iter().any(|known| known.name == agent);
    let words = || agent.split_whitespace().map(str::to_owned).collect();
    let prompt = Some(prompt).filter(|prompt| !prompt.trim().is_empty());
    if !is_agent && prompt.is_some() {
        return Err(Problem::new(
            Code::Usage,
            format!("`{agent}` is not an agent of the table and takes no prompt"),
        )
        .hint("`berth agents` lists them; without a prompt it is started as a command"));
    }
    let wanted = verb::Wanted {
        cwd: Some(directory(dir)?),
        agent: is_agent.then(|| agent.to_owned()),
        tui: is_agent && interface == Interface::Own,
        prompt: prompt.map(str::to_owned),
        command: if is_agent { vec![] } else { words() },
        ..verb::Wanted::default()
    };
    let status = verb::prepare(&wanted)?.start(ctx)?.status;
    if let Some(prompt) = prompt {
        let id = verb::id_of(&status)?;
        let submit = verb::first_turn(None, prompt.to_owned(), false);
        turns::send(ctx, &id, submit).map_err(|refused| verb::without_its_turn(&id, false, refused))?;
    }
    made(&status, format!("started {}", status.handle()))
}

/// A directory as a person writes it.
fn directory(text: &str) -> Result<PathBuf, Problem> {
    let home = || std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = match text.strip_prefix('~') {
        Some("") => home(),
        Some(rest) if rest.starts_with('/') => home().join(rest.trim_start_matches('/')),
        Some(_) | None => PathBuf::from(text),
    };
    std::path::absolute(&path)
        .map_err(|error| Problem::new(Code::Usage, format!("`{text}` is not a directory: {error}")))
}

/// Goes on with a conversation that was had elsewhere.
fn go_on_with(ctx: &Ctx, conversation: &Conversation, take: &Take) -> Result<Outcome, Problem> {
    let others = if take.takes() { adopt::Others::Take(take.clone()) } else { adopt::Others::Refuse };
    let order = adopt::Order { others, ..adopt::Order::default() };
    let adopted = adopt::adopt(ctx, conversation, &order, &mut |_| {})?;
    made(&adopted.status, format!("adopted the conversation as {}", adopted.status.handle()))
}

fn made(status: &Status, note: String) -> Result<Outcome, Problem> {
    Ok(Outcome { note, made: Some(verb::id_of(status)?) })
}

fn change_queue(ctx: &Ctx, id: &SessionId, handle: &str, change: &QueueChange) -> Result<String, Problem> {
    match change {
        QueueChange::Edit { turn, text } => {
            queue::edit(ctx, id, *turn, text.clone())?;
            Ok(format!("changed turn {turn} of {handle}"))
        }
        QueueChange::Drop { turn } => {
            queue::withdraw(ctx, id, *turn)?;
            Ok(format!("took turn {turn} out of the queue of {handle}"))
        }
        QueueChange::Move { turn, to } => {
            queue::shift(ctx, id, *turn, *to)?;
            Ok(format!("moved turn {turn} of {handle}"))
        }
        QueueChange::Pause => {
            queue::pause(ctx, id)?;
            Ok(format!("paused the queue of {handle}"))
        }
        QueueChange::GoOn => {
            queue::go_on(ctx, id)?;
            Ok(format!("resumed the queue of {handle}"))
        }
    }
}
