//! Hook reports: an agent's hook event is parsed, recorded, and passed to the keeper of the agent's session.
//!
//! Promise: only the guard holds a prompt up. After an invalid event, with a missing state directory, a keeper that
//! does not answer or a stuck lock, the hook stays silent and the agent goes on. Only the keeper of the agent's own
//! session gets the texts of prompts, and it writes no more of them than a list shows.
//! Not here: reading the event and exit codes (the CLI's `cmd/hook`), installing hooks (see `setup`).
//! Start with [`handle_event`].

mod claude;
mod codex;
pub mod guard;

use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::client;
use berth_api::hook::{HookEvent, HookReport};
use berth_api::message::{self, KeeperRequest};
use berth_conversations::open_conversations::{self, CallingAgent, OpenConversation, OpenConversations};
use berth_driver::hooks::ANSWER_PATIENCE_SECS;
use berth_host::clock;

use berth_config::config::GuardMode as Mode;
use berth_conversations::foreign_writers;
use berth_store::SessionFiles;
use berth_store::StateDir;

/// Limit for the size of an event. It may contain a tool's whole answer.
pub const MAX_EVENT_BYTES: u64 = 16 << 20;
/// Limit for a text that a keeper gets.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// Time that a keeper may take to answer. The agent waits meanwhile.
const KEEPER_PATIENCE: Duration = Duration::from_secs(1);
/// Time that a keeper may take if it would otherwise have a wrong status for long: the hook's agent cannot be
/// identified after the agent's end.
const EDGE_PATIENCE: Duration = Duration::from_secs(4);
/// Time that a hook waits for the answer to its agent's question: a little less than the agent waits for the hook.
const ANSWER_PATIENCE: Duration = Duration::from_secs(ANSWER_PATIENCE_SECS as u64 - 60);
/// Limit for the id of a conversation.
const MAX_ID_BYTES: usize = 512;

/// Agent that calls a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookSource {
    /// Claude Code.
    Claude,
    /// OpenAI Codex.
    Codex,
}

impl HookSource {
    /// Parses the name of an agent.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "claude" => Some(Self::Claude),
            "codex" => Some(Self::Codex),
            _ => None,
        }
    }

    /// Kind of the agent's conversations.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    fn understand(self, event: &[u8], at_ms: u64) -> Option<HookReport> {
        let mut report = match self {
            Self::Claude => claude::understand(event, at_ms),
            Self::Codex => codex::understand(event, at_ms),
        }?;
        let is_id = |id: &str| (1..=MAX_ID_BYTES).contains(&id.len()) && !id.contains(['\0', '\n']);
        is_id(&report.conversation_id).then_some(())?;
        match &mut report.told {
            HookEvent::Prompt { text } | HookEvent::Stopped { answer: Some(text) } => shorten(text),
            // The text names the tool and its purpose: people see it, and a command may contain a secret.
            HookEvent::NeedsYou { what, .. } => *what = berth_api::redact::redact_text(what),
            HookEvent::Started { .. }
            | HookEvent::Tool { .. }
            | HookEvent::Stopped { answer: None }
            | HookEvent::Interrupted
            | HookEvent::Ended { .. } => {}
        }
        Some(report)
    }
}

fn shorten(text: &mut String) {
    let end = (0..=MAX_TEXT_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
}

/// Arguments of a hook's call.
#[derive(Clone, Debug)]
pub struct HookCall {
    /// Agent that called the hook.
    pub source: HookSource,
    /// State directory of the user who installed the hook.
    pub home: Option<PathBuf>,
    /// Config file of that user.
    pub config: Option<PathBuf>,
}

/// Processes an event. Returns the text that the agent is to read on our standard output, if any.
pub fn handle_event(call: &HookCall, event: &[u8]) -> Option<String> {
    let mut report = call.source.understand(event, clock::wall_ms())?;
    if !foreign_writers::is_kept(call.source.kind(), &report.conversation_id, |name| std::env::var_os(name)) {
        return None;
    }
    let named = std::env::var("CLAUDE_PID").ok().filter(|_| call.source == HookSource::Claude);
    let agent =
        open_conversations::calling_agent(call.source.kind(), named.and_then(|pid| pid.parse().ok()))?;
    let root = root(call, &agent)?;
    let said = record_event(call, &root, &agent, &report);
    // A client that sent the prompt through the keeper gets the reason why it was not accepted.
    if let Some(why) = said.as_ref().and_then(|said| said.held_up.clone()) {
        (report.told, report.held_up) = (HookEvent::Interrupted, Some(why));
    }
    let decided = tell_keeper(&root, &agent, report);
    said.map(|said| said.json).or(decided)
}

/// The state directory: of the session that the agent runs in, else of the user who installed the hook.
fn root(call: &HookCall, agent: &CallingAgent) -> Option<PathBuf> {
    let of_run = agent.kept_in.as_ref().map(SessionFiles::root);
    let root = of_run.map(Path::to_owned).or_else(|| call.home.clone()).or_else(|| StateDir::place().ok())?;
    root.is_absolute().then_some(root).filter(|root| root.is_dir())
}

/// The answer to the agent.
struct HookAnswer {
    json: String,
    /// Reason for holding up the prompt, if it is.
    held_up: Option<String>,
}

/// Updates the agent's record, and asks the guard.
fn record_event(
    call: &HookCall,
    root: &Path,
    agent: &CallingAgent,
    report: &HookReport,
) -> Option<HookAnswer> {
    let holders = OpenConversations::of(root);
    holders.make().ok()?;
    // Held until the record is written: of two hooks at the same instant the second sees the first one's record.
    let _lock = holders.lock().ok()??;
    let opens = match &report.told {
        HookEvent::Prompt { .. } => true,
        HookEvent::Started { how } => how != "compact",
        HookEvent::Tool { .. }
        | HookEvent::NeedsYou { .. }
        | HookEvent::Stopped { .. }
        | HookEvent::Interrupted
        | HookEvent::Ended { .. } => false,
    };
    // Only an agent that begins or goes on with a conversation has to know of the others.
    let known = if opens { None } else { holders.of_process(&report.kind, &agent.identity) };
    let mut others = if known.is_none() { holders.all_with_room().holders } else { Vec::new() };
    let is_mine = |other: &&OpenConversation| other.kind == report.kind && other.identity == agent.identity;
    let before = known.or_else(|| others.iter().find(is_mine).cloned());
    others.retain(|other| other.identity != agent.identity);
    let now = confirm_dead_holders(&holders, &mut others, report);
    let mut after = OpenConversation::after(before.as_ref(), agent, report, now)?;
    let is_new = before.as_ref().map(|before| before.opened_boot_ms) != Some(after.opened_boot_ms);
    let unheard =
        if opens || is_new { guard::writers_without_hook(&others, &after, agent) } else { Vec::new() };
    if is_new {
        after.opened_boot_ms = open_conversations::next_opening(&others, &after);
        after.was_open_in = unheard.iter().map(guard::pid_and_start).collect();
    }
    let other = if opens { guard::conflict(root, &others, unheard, &after, agent) } else { None };
    let mode = other.as_ref().map_or(Mode::Off, |_| guard::mode(call.config.as_deref()));
    let is_prompt = matches!(report.told, HookEvent::Prompt { .. });
    let blocks = is_prompt && mode == Mode::Block;
    let record = if blocks {
        // The agent has the conversation open, and is idle.
        let wrote = before.as_ref().filter(|before| before.conversation_id == after.conversation_id);
        let wrote_boot_ms = wrote.and_then(|before| before.wrote_boot_ms);
        OpenConversation {
            wrote_boot_ms,
            is_held_up: true,
            doing: open_conversations::HookActivity::Idle,
            ..after
        }
    } else {
        after
    };
    let _ = holders.write(&record);
    let other = other.filter(|_| mode != Mode::Off)?;
    let text = guard::conflict_message(&other, &record, is_prompt, mode);
    let held_up = text.lines().next().filter(|_| blocks).map(str::to_owned);
    Some(HookAnswer { json: guard::json(call.source, blocks, &text), held_up })
}

/// Records for agents that had this conversation and died at work that they may have written until now: the time of
/// their death is not known. Returns the boot clock after that.
fn confirm_dead_holders(
    holders: &OpenConversations,
    others: &mut [OpenConversation],
    report: &HookReport,
) -> u64 {
    let now = clock::boot_ms();
    let is_of_it = |other: &&mut OpenConversation| {
        other.kind == report.kind && other.conversation_id == report.conversation_id
    };
    let mut settled = false;
    for other in others.iter_mut().filter(is_of_it).filter(|other| !other.is_alive()) {
        if other.settle(now) {
            settled = true;
            let _ = holders.write(other);
        }
    }
    // An agent that reads the conversation now reads everything that they wrote.
    if settled { now + 1 } else { now }
}

/// Reports the event to the keeper, if the agent is the keeper's own and not one that another agent of the run started.
/// Returns the answer to the agent's question, if it asked one and a client answered through berth.
fn tell_keeper(root: &Path, agent: &CallingAgent, report: HookReport) -> Option<String> {
    let session = agent.kept_in.as_ref().filter(|session| session.has_socket())?;
    if OpenConversations::of(root).any_of(&agent.above) {
        return None;
    }
    let patience = match &report.told {
        HookEvent::Prompt { .. } | HookEvent::Stopped { .. } | HookEvent::Interrupted => EDGE_PATIENCE,
        HookEvent::Started { .. }
        | HookEvent::Tool { .. }
        | HookEvent::NeedsYou { .. }
        | HookEvent::Ended { .. } => KEEPER_PATIENCE,
    };
    // An unreachable keeper is no reason to hold up a prompt.
    let place = format!("{}, a hook", client::SCRIPT_CLIENT);
    if !matches!(report.told, HookEvent::NeedsYou { waits: true, .. }) {
        let _ = session.tell_keeper(place, KeeperRequest::Hook { report }, patience);
        return None;
    }
    // The agent shows its question meanwhile. If the keeper goes away, or says that the question is closed, the
    // question stays there.
    let request = KeeperRequest::Hook { report };
    match session.ask_keeper(place, request, patience, ANSWER_PATIENCE).ok()? {
        message::KeeperAnswer::Decided { allows, reason } => Some(claude::decision(allows, reason)),
        message::KeeperAnswer::Done { .. }
        | message::KeeperAnswer::Heard
        | message::KeeperAnswer::Attached { .. }
        | message::KeeperAnswer::Screen { .. }
        | message::KeeperAnswer::Receipt { .. }
        | message::KeeperAnswer::Turn { .. }
        | message::KeeperAnswer::Turns(_)
        | message::KeeperAnswer::Problem { .. } => None,
    }
}
