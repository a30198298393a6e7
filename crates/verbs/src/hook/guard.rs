//! Guard: of all processes that have a conversation open one may go on, and the others are warned or held up.
//!
//! Promise: the process that opened the conversation first goes on, and a later one never holds it up; a process never
//! conflicts with itself. If the order is not known, the prompt goes out.
//! Not here: the lock under which the guard decides (`super::record_event`).
//! Start with [`conflict`].

use std::path::Path;

use berth_conversations::foreign_writers::{self, ForeignWriter};
use berth_conversations::open_conversations::{CallingAgent, OpenConversation};
use berth_store::{StateDir, conversation_locks, session_status};
use serde_json::json;

use super::HookSource;
use crate::config::{Config, GuardMode as Mode};

/// Variable that overrides the config.
const VARIABLE: &str = "BERTH_GUARD";

/// The mode in effect. A config that cannot be read is ignored: a prompt is no place to complain about it.
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

/// The other writer of a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConflictingWriter {
    /// A session of berth that has the right to write the conversation.
    Session {
        /// Name of the session, else its id.
        handle: String,
    },
    /// A process that has had the conversation open for longer.
    Process(Box<ForeignWriter>),
    /// A process wrote the conversation after this one read it: the next prompt here would begin a second branch.
    Newer(Box<ForeignWriter>),
}

/// Processes that have this conversation open by the agent's own list, and that never reported through a hook: they are
/// older than the hooks, or have none.
pub fn writers_without_hook(
    others: &[OpenConversation],
    mine: &OpenConversation,
    agent: &CallingAgent,
) -> Vec<ForeignWriter> {
    // An agent with hooks reports what it has open, and the list may be ahead of that.
    let tells = |pid: u32| others.iter().any(|other| other.identity.pid == pid && other.is_alive());
    let is_known = |pid: u32| pid == mine.identity.pid || agent.above.contains(&pid) || tells(pid);
    let env = |name: &str| std::env::var_os(name);
    foreign_writers::listed_writers(&mine.kind, &mine.conversation_id, env, is_known).unwrap_or_default()
}

/// Process id and start time of a writer, as a record has them.
pub fn pid_and_start(writer: &ForeignWriter) -> (u32, u64) {
    (writer.identity.pid, writer.identity.start_ticks)
}

/// Finds a writer that is in the way of this one, among all `others` and among those that no hook reports (see
/// [`writers_without_hook`]). The caller holds the lock of all records.
pub fn conflict(
    root: &Path,
    others: &[OpenConversation],
    unheard: Vec<ForeignWriter>,
    mine: &OpenConversation,
    agent: &CallingAgent,
) -> Option<ConflictingWriter> {
    if let Some(id) =
        conversation_locks::held_by(&StateDir::at(root.to_owned()), &mine.kind, &mine.conversation_id)
        && agent.session.as_deref() != Some(id.as_str())
    {
        let home = StateDir::open(root.to_owned()).ok();
        let status = home.and_then(|home| session_status::status(&home, &id).ok());
        let handle = status.map_or_else(|| id.to_string(), |status| status.handle().to_owned());
        return Some(ConflictingWriter::Session { handle });
    }
    let of_it = || others.iter().filter(|other| other.is_of_one_with(mine));
    let first = of_it().filter(|other| other.rank() < mine.rank() && other.is_open());
    if let Some(first) = first.min_by_key(|other| other.rank()) {
        return Some(describe_conflict(root, first));
    }
    // The list does not say when a process opened the conversation, and the process may be older than that. But it
    // either had the conversation open when this agent came, or it did not.
    let first = unheard.into_iter().filter(|other| mine.was_open_in.contains(&pid_and_start(other)));
    if let Some(first) = first.min_by_key(|other| other.since_ms) {
        return Some(ConflictingWriter::Process(Box::new(first)));
    }
    let newer = others.iter().filter_map(|other| Some((other.wrote_unread_by(mine)?, other)));
    newer
        .max_by_key(|(at, _)| *at)
        .map(|(_, newer)| ConflictingWriter::Newer(Box::new(ForeignWriter::holding(newer))))
}

/// A holder in the form for messages.
fn describe_conflict(root: &Path, holder: &OpenConversation) -> ConflictingWriter {
    let handle = holder.session.as_ref().and_then(|session| {
        let home = StateDir::open(root.to_owned()).ok()?;
        let id = home.find(session).ok()?;
        Some(session_status::status(&home, &id).ok()?.handle().to_owned())
    });
    match handle {
        Some(handle) => ConflictingWriter::Session { handle },
        None => ConflictingWriter::Process(Box::new(ForeignWriter::holding(holder))),
    }
}

/// The message to the second writer.
pub fn conflict_message(
    other: &ConflictingWriter,
    mine: &OpenConversation,
    is_prompt: bool,
    mode: Mode,
) -> String {
    let id = &mine.conversation_id;
    let copy = match mine.kind.as_str() {
        "claude" => format!("claude --resume {id} --fork-session"),
        kind => format!("{kind} fork {id}"),
    };
    let (what, ways) = match other {
        ConflictingWriter::Session { handle } => (
            format!("berth session `{handle}` writes this conversation already"),
            vec![format!("go on there: berth attach {handle}"), format!("end it: berth stop {handle}")],
        ),
        ConflictingWriter::Process(writer) => (
            format!("this conversation is open elsewhere already: {}", writer.line()),
            vec![
                "go on there, or close it there first".to_owned(),
                format!("bring it under berth, which ends the other process: berth adopt {id} --take"),
            ],
        ),
        ConflictingWriter::Newer(writer) => (
            format!("another program wrote this conversation after this one opened it: {}", writer.line()),
            vec![format!("reload it: /resume {id}")],
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

/// The message in the form that the agent reads. Agents show a reason to the user, in their interface and in a pipe;
/// text on standard error is shown after the whole command of the hook.
pub fn json(agent: HookSource, blocks: bool, text: &str) -> String {
    let said = match (blocks, agent) {
        (true, HookSource::Claude) => json!({
            "decision": "block",
            "reason": text,
            "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "suppressOriginalPrompt": true},
        }),
        // Codex ignores an answer with an unknown word, and the prompt goes out.
        (true, HookSource::Codex) => json!({"decision": "block", "reason": text}),
        (false, HookSource::Claude | HookSource::Codex) => json!({"systemMessage": text}),
    };
    said.to_string()
}
