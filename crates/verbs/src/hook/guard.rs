//! The guard: of all that have a conversation open one goes on, and the others are told.
//!
//! Promise: whoever had it first goes on, and is never held up by whoever came later; a process is in nobody's way
//! by what it does itself. Where it cannot be told, the prompt goes out.
//! Not here: the lock under which this is decided (`super::note`).
//! Start with [`conflict`].

use std::path::Path;

use berth_keeper::holders::{Agent, Holder};
use berth_keeper::writers::{self, Writer};
use berth_store::{Home, conversations, view};
use serde_json::json;

use super::Source;
use crate::config::Config;

/// The variable that counts over the config.
const VARIABLE: &str = "BERTH_GUARD";

/// What the guard does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// A second writer's prompt does not go out.
    #[default]
    Block,
    /// It goes out, and who sent it is told.
    Warn,
    /// Nothing.
    Off,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Block, Self::Warn, Self::Off];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Warn => "warn",
            Self::Off => "off",
        }
    }
}

/// What it shall do here. A config that cannot be read says nothing: a prompt is no place to complain of it.
pub fn mode(config: Option<&Path>) -> Mode {
    let said = std::env::var(VARIABLE).ok();
    let said = said.and_then(|said| Mode::ALL.into_iter().find(|mode| mode.name() == said));
    said.unwrap_or_else(|| {
        let config = match config {
            Some(path) => Config::load_from(path.to_owned()),
            None => Config::load(),
        };
        config.map(|config| config.hooks.guard).unwrap_or_default()
    })
}

/// Who is in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Other {
    /// A session of ours has the right to write it.
    Session {
        /// What people call it.
        handle: String,
    },
    /// A process has had it open for longer.
    Process(Box<Writer>),
    /// Somebody wrote it since this process read it: what it says next would be a second branch.
    Newer(Box<Writer>),
}

/// Those that have this conversation open by the agent's own list, and that no hook ever told of: they were there before
/// hooks were, or have none.
pub fn unheard(others: &[Holder], mine: &Holder, agent: &Agent) -> Vec<Writer> {
    // Who has hooks tells itself what it has open, and the list may be ahead of that.
    let tells = |pid: u32| others.iter().any(|other| other.identity.pid == pid && other.is_alive());
    let is_known = |pid: u32| pid == mine.identity.pid || agent.above.contains(&pid) || tells(pid);
    let env = |name: &str| std::env::var_os(name);
    writers::listed(&mine.kind, &mine.conversation_id, env, is_known).unwrap_or_default()
}

/// A process, as a record has it.
pub fn pid_and_start(writer: &Writer) -> (u32, u64) {
    (writer.identity.pid, writer.identity.start_ticks)
}

/// Looks for whoever is in the way of this one among all `others`, and those that no hook tells of (see [`unheard`]).
/// Who asks holds the lock of all records.
pub fn conflict(
    root: &Path,
    others: &[Holder],
    unheard: Vec<Writer>,
    mine: &Holder,
    agent: &Agent,
) -> Option<Other> {
    if let Some(id) = conversations::held_by(&Home::at(root.to_owned()), &mine.kind, &mine.conversation_id)
        && agent.session.as_deref() != Some(id.as_str())
    {
        let home = Home::open(root.to_owned()).ok();
        let status = home.and_then(|home| view::status(&home, &id).ok());
        let handle = status.map_or_else(|| id.to_string(), |status| status.handle().to_owned());
        return Some(Other::Session { handle });
    }
    let of_it = || others.iter().filter(|other| other.is_of_one_with(mine));
    let first = of_it().filter(|other| other.rank() < mine.rank() && other.is_open());
    if let Some(first) = first.min_by_key(|other| other.rank()) {
        return Some(in_the_way(root, first));
    }
    // When a process opened it the list does not say, and it may be older than what it has open. But it was there when
    // we came, or it was not.
    let first = unheard.into_iter().filter(|other| mine.was_open_in.contains(&pid_and_start(other)));
    if let Some(first) = first.min_by_key(|other| other.since_ms) {
        return Some(Other::Process(Box::new(first)));
    }
    let newer = others.iter().filter_map(|other| Some((other.wrote_unread_by(mine)?, other)));
    newer.max_by_key(|(at, _)| *at).map(|(_, newer)| Other::Newer(Box::new(Writer::holding(newer))))
}

/// A holder, as what people know it by.
fn in_the_way(root: &Path, holder: &Holder) -> Other {
    let handle = holder.session.as_ref().and_then(|session| {
        let home = Home::open(root.to_owned()).ok()?;
        let id = home.find(session).ok()?;
        Some(view::status(&home, &id).ok()?.handle().to_owned())
    });
    match handle {
        Some(handle) => Other::Session { handle },
        None => Other::Process(Box::new(Writer::holding(holder))),
    }
}

/// What is said to who came second.
pub fn words(other: &Other, mine: &Holder, is_prompt: bool, mode: Mode) -> String {
    let id = &mine.conversation_id;
    let copy = match mine.kind.as_str() {
        "claude" => format!("claude --resume {id} --fork-session"),
        kind => format!("{kind} fork {id}"),
    };
    let (what, ways) = match other {
        Other::Session { handle } => (
            format!("berth session `{handle}` writes this conversation already"),
            vec![format!("go on there: berth attach {handle}"), format!("end it: berth stop {handle}")],
        ),
        Other::Process(writer) => (
            format!("this conversation is open elsewhere already: {}", writer.line()),
            vec![
                "go on there, or close that one first".to_owned(),
                format!("bring it under berth, which ends that one: berth adopt {id} --take"),
            ],
        ),
        Other::Newer(writer) => (
            format!("this conversation was written elsewhere since it was opened here: {}", writer.line()),
            vec![format!("read it again, in here: /resume {id}")],
        ),
    };
    let sent = match (is_prompt, mode) {
        (true, Mode::Block) => "berth: the prompt was not sent, because ",
        (true, Mode::Warn | Mode::Off) | (false, _) => "berth: ",
    };
    let mut text = format!("{sent}{what}\n");
    for way in ways.into_iter().chain([format!("work on a copy: {copy}")]) {
        text.push_str(&format!("  - {way}\n"));
    }
    text.push_str("(BERTH_GUARD=warn only warns)");
    text
}

/// The same in the form that agent reads. They show a reason to the person, in their interface and in a pipe; what
/// stands on standard error is shown with the whole command of the hook before it.
pub fn json(agent: Source, blocks: bool, text: &str) -> String {
    let said = match (blocks, agent) {
        (true, Source::Claude) => json!({
            "decision": "block",
            "reason": text,
            "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "suppressOriginalPrompt": true},
        }),
        // It takes an answer with a word it does not know for none, and the prompt goes out.
        (true, Source::Codex) => json!({"decision": "block", "reason": text}),
        (false, Source::Claude | Source::Codex) => json!({"systemMessage": text}),
    };
    said.to_string()
}
