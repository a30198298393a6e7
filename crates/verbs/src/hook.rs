//! What an agent's hook brings: understood, noted, told to the keeper whose agent it is.
//!
//! Promise: a prompt is held up only by the guard's word. Garbage, a state directory that is not there, a keeper that
//! does not answer, a lock that is stuck: nothing is said, and the agent goes on. Only the
//! keeper of its own session hears what was said to the agent, and writes no more of it than a list shows.
//! Not here: reading it and exit codes (the CLI's `cmd/hook`), what is installed (see `setup`).
//! Start with [`take`].

mod claude;
mod codex;
pub mod guard;

use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::client;
use berth_api::hook::{Report, Told};
use berth_api::message::{self, Request};
use berth_driver::hooks::ANSWER_PATIENCE_SECS;
use berth_host::clock;
use berth_keeper::holders::{self, Agent, Holder, Holders};

use berth_keeper::writers;
use berth_store::Home;
use berth_store::SessionFiles;

use guard::Mode;

/// The most that is read of an event. A tool's whole answer may be in it.
pub const MAX_EVENT_BYTES: u64 = 16 << 20;
/// The most of a text that a keeper is told.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// How long a keeper may take to answer. The agent waits meanwhile.
const KEEPER_PATIENCE: Duration = Duration::from_secs(1);
/// The same where it would believe something wrong for long: whose hook it was cannot be told once that is gone.
const EDGE_PATIENCE: Duration = Duration::from_secs(4);
/// How long a hook waits for the answer to its agent's question: a little less than the agent waits for the hook.
const ANSWER_PATIENCE: Duration = Duration::from_secs(ANSWER_PATIENCE_SECS as u64 - 60);
/// The longest id of a conversation.
const MAX_ID_BYTES: usize = 512;

/// Whose hook it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Claude Code's.
    Claude,
    /// Codex'.
    Codex,
}

impl Source {
    /// The one of this name.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "claude" => Some(Self::Claude),
            "codex" => Some(Self::Codex),
            _ => None,
        }
    }

    /// Its kind of conversations.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    fn understand(self, event: &[u8], at_ms: u64) -> Option<Report> {
        let mut report = match self {
            Self::Claude => claude::understand(event, at_ms),
            Self::Codex => codex::understand(event, at_ms),
        }?;
        let is_id = |id: &str| (1..=MAX_ID_BYTES).contains(&id.len()) && !id.contains(['\0', '\n']);
        is_id(&report.conversation_id).then_some(())?;
        match &mut report.told {
            Told::Prompt { text } | Told::Stopped { answer: Some(text) } => shorten(text),
            // The tool and what for: people see it, and a command may have a secret in it.
            Told::NeedsYou { what, .. } => *what = berth_api::redact::text(what),
            Told::Started { .. }
            | Told::Tool { .. }
            | Told::Stopped { answer: None }
            | Told::Interrupted
            | Told::Ended { .. } => {}
        }
        Some(report)
    }
}

fn shorten(text: &mut String) {
    let end = (0..=MAX_TEXT_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
}

/// How a hook was called.
#[derive(Clone, Debug)]
pub struct Call {
    /// By whom.
    pub source: Source,
    /// The state directory of who set it up.
    pub home: Option<PathBuf>,
    /// Their config file.
    pub config: Option<PathBuf>,
}

/// Takes an event. What the agent is to read on our standard output, if anything.
pub fn take(call: &Call, event: &[u8]) -> Option<String> {
    let mut report = call.source.understand(event, clock::wall_ms())?;
    if !writers::is_kept(call.source.kind(), &report.conversation_id, |name| std::env::var_os(name)) {
        return None;
    }
    let named = std::env::var("CLAUDE_PID").ok().filter(|_| call.source == Source::Claude);
    let agent = holders::agent(call.source.kind(), named.and_then(|pid| pid.parse().ok()))?;
    let root = root(call, &agent)?;
    let said = note(call, &root, &agent, &report);
    // Whoever sent it through the keeper is told why nothing comes of it.
    if let Some(why) = said.as_ref().and_then(|said| said.held_up.clone()) {
        (report.told, report.held_up) = (Told::Interrupted, Some(why));
    }
    let decided = tell_keeper(&root, &agent, report);
    said.map(|said| said.json).or(decided)
}

/// The state directory: of the session that the agent runs in, else of who set the hook up.
fn root(call: &Call, agent: &Agent) -> Option<PathBuf> {
    let of_run = agent.kept_in.as_ref().map(SessionFiles::root);
    let root = of_run.map(Path::to_owned).or_else(|| call.home.clone()).or_else(|| Home::place().ok())?;
    root.is_absolute().then_some(root).filter(|root| root.is_dir())
}

/// What the agent is answered.
struct Answer {
    json: String,
    /// Its prompt does not go out, and why.
    held_up: Option<String>,
}

/// Brings the agent's record up to date, and asks the guard.
fn note(call: &Call, root: &Path, agent: &Agent, report: &Report) -> Option<Answer> {
    let holders = Holders::of(root);
    holders.make().ok()?;
    // Held until the record is written: of two at the same instant the second sees the first.
    let _lock = holders.lock().ok()??;
    let opens = match &report.told {
        Told::Prompt { .. } => true,
        Told::Started { how } => how != "compact",
        Told::Tool { .. }
        | Told::NeedsYou { .. }
        | Told::Stopped { .. }
        | Told::Interrupted
        | Told::Ended { .. } => false,
    };
    // Only who comes or goes on has to know of the others.
    let known = if opens { None } else { holders.of_process(&report.kind, &agent.identity) };
    let mut others = if known.is_none() { holders.all_with_room().holders } else { Vec::new() };
    let is_mine = |other: &&Holder| other.kind == report.kind && other.identity == agent.identity;
    let before = known.or_else(|| others.iter().find(is_mine).cloned());
    others.retain(|other| other.identity != agent.identity);
    let now = settled(&holders, &mut others, report);
    let mut after = Holder::after(before.as_ref(), agent, report, now)?;
    let is_new = before.as_ref().map(|before| before.opened_boot_ms) != Some(after.opened_boot_ms);
    let unheard = if opens || is_new { guard::unheard(&others, &after, agent) } else { Vec::new() };
    if is_new {
        after.opened_boot_ms = holders::next_opening(&others, &after);
        after.was_open_in = unheard.iter().map(guard::pid_and_start).collect();
    }
    let other = if opens { guard::conflict(root, &others, unheard, &after, agent) } else { None };
    let mode = other.as_ref().map_or(Mode::Off, |_| guard::mode(call.config.as_deref()));
    let is_prompt = matches!(report.told, Told::Prompt { .. });
    let blocks = is_prompt && mode == Mode::Block;
    let record = if blocks {
        // It is there, and has nothing to do.
        let wrote = before.as_ref().filter(|before| before.conversation_id == after.conversation_id);
        let wrote_boot_ms = wrote.and_then(|before| before.wrote_boot_ms);
        Holder { wrote_boot_ms, is_held_up: true, doing: holders::Doing::Idle, ..after }
    } else {
        after
    };
    let _ = holders.write(&record);
    let other = other.filter(|_| mode != Mode::Off)?;
    let text = guard::words(&other, &record, is_prompt, mode);
    let held_up = text.lines().next().filter(|_| blocks).map(str::to_owned);
    Some(Answer { json: guard::json(call.source, blocks, &text), held_up })
}

/// Notes of those who had this conversation and died at work that they may have written until now: when they died
/// nobody knows. The boot clock after that.
fn settled(holders: &Holders, others: &mut [Holder], report: &Report) -> u64 {
    let now = clock::boot_ms();
    let is_of_it =
        |other: &&mut Holder| other.kind == report.kind && other.conversation_id == report.conversation_id;
    let mut settled = false;
    for other in others.iter_mut().filter(is_of_it).filter(|other| !other.is_alive()) {
        if other.settle(now) {
            settled = true;
            let _ = holders.write(other);
        }
    }
    // Who reads the conversation now reads all that they wrote.
    if settled { now + 1 } else { now }
}

/// Tells the keeper, if it is its own agent: one that another agent of the run started is none of its business.
/// What the agent is to read of the answer to its question, if it asked one and somebody answered through berth.
fn tell_keeper(root: &Path, agent: &Agent, report: Report) -> Option<String> {
    let session = agent.kept_in.as_ref().filter(|session| session.has_socket())?;
    if Holders::of(root).any_of(&agent.above) {
        return None;
    }
    let patience = match &report.told {
        Told::Prompt { .. } | Told::Stopped { .. } | Told::Interrupted => EDGE_PATIENCE,
        Told::Started { .. } | Told::Tool { .. } | Told::NeedsYou { .. } | Told::Ended { .. } => {
            KEEPER_PATIENCE
        }
    };
    // A keeper that cannot be told is no reason to hold up a prompt.
    let place = format!("{}, a hook", client::NO_TERMINAL);
    if !matches!(report.told, Told::NeedsYou { waits: true, .. }) {
        let _ = session.tell_keeper(place, Request::Hook { report }, patience);
        return None;
    }
    // The agent shows its question meanwhile. A keeper that goes away, or says that the question is closed, leaves it there.
    let request = Request::Hook { report };
    match session.ask_keeper(place, request, patience, ANSWER_PATIENCE).ok()? {
        message::Answer::Decided { allows, reason } => Some(claude::decision(allows, reason)),
        message::Answer::Done { .. }
        | message::Answer::Heard
        | message::Answer::Attached { .. }
        | message::Answer::Screen { .. }
        | message::Answer::Receipt { .. }
        | message::Answer::Turn { .. }
        | message::Answer::Turns(_)
        | message::Answer::Events { .. }
        | message::Answer::Problem { .. } => None,
    }
}
