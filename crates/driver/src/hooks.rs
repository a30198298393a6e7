//! Hooks: the way each kind of agent carries them, and the format that it needs.
//!
//! Promise: each event is reported by one hook; a hook that answers questions has the timeout of a person.
//! Not here: writing the files, whether an agent will run the hooks (the keeper checks that), the action of a hook.
//! Start with [`HookCarrier`], then [`hook_plugin_files`].

use serde_json::{Value, json};

/// Name of the plugin, carried or installed.
pub const PLUGIN: &str = "berth";
/// Author in the manifest of the plugin.
pub const AUTHOR: &str = "berth";
/// Command line option that names a directory with a plugin.
pub const PLUGIN_OPTION: &str = "--plugin-dir";
/// Timeout of a hook that may answer a question, in seconds: a day. The agent shows the question meanwhile.
pub const ANSWER_PATIENCE_SECS: u32 = 24 * 3600;
/// Timeout of all other hooks, in seconds. They take milliseconds.
const PATIENCE_SECS: u32 = 10;
/// Timeout of hooks of an agent that is exiting, in seconds: an agent that allows no more complains about a longer
/// time.
const LAST_PATIENCE_SECS: u32 = 3;
/// Name of the event of a question.
const ASKS: &str = "PermissionRequest";
/// Version in the manifest of the plugin.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The way in which a run of an agent carries hooks without a change of the user's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookCarrier {
    /// The agent takes no hooks.
    None,
    /// A plugin in a directory that [`PLUGIN_OPTION`] names, beside everything of the user's own. Its hooks run.
    Plugin {
        /// Driver that speaks the agent's own protocol, where a plugin works as well.
        protocol: &'static str,
    },
    /// The setting `notify` on the command line, which reports only ends of turns. The agent runs hooks once a person
    /// trusted them, and notes that in its own configuration.
    NotifySetting {
        /// Command line option with which all hooks run.
        trusts_all: &'static str,
    },
}

/// Set of events that an agent's plugin reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookEvents {
    /// All events about the agent's work: for its own terminal interface.
    All,
    /// The events about its conversation only: the protocol reports the rest.
    Conversation,
}

impl HookEvents {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::All => &[
                "SessionStart",
                "UserPromptSubmit",
                "PreToolUse",
                "PostToolUse",
                "PostToolUseFailure",
                ASKS,
                "Notification",
                "Stop",
                "SessionEnd",
            ],
            // Without the end of a turn the agent would count as working, and as the last writer, until it exits.
            Self::Conversation => &["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"],
        }
    }
}

/// The files of a plugin whose hooks run this command, by their paths in it.
pub fn hook_plugin_files(command: &str, events: HookEvents) -> [(&'static str, String); 2] {
    let manifest = json!({
        "name": PLUGIN,
        "version": VERSION,
        "description": "Tells berth which conversation is open, so that two writers of one are kept apart",
        "author": {"name": AUTHOR},
    });
    let mut hooks = json!({"hooks": hooks_json(events.names(), command)});
    if let Some(asks) = hooks.pointer_mut(&format!("/hooks/{ASKS}/0/hooks/0/timeout")) {
        *asks = ANSWER_PATIENCE_SECS.into();
    }
    [(".claude-plugin/plugin.json", pretty(&manifest)), ("hooks/hooks.json", pretty(&hooks))]
}

/// The settings that run one command for each of these events, in the format that all known agents read.
pub fn hooks_json(events: &[&str], command: &str) -> Value {
    let one = |event: &str| json!([{"hooks": [{"type": "command", "command": command, "timeout": hook_timeout_secs(event)}]}]);
    events.iter().map(|event| ((*event).to_owned(), one(event))).collect()
}

/// Timeout of the hook of this event, in seconds.
pub fn hook_timeout_secs(event: &str) -> u32 {
    match event {
        "SessionEnd" | "Interrupt" => LAST_PATIENCE_SECS,
        _ => PATIENCE_SECS,
    }
}

fn pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).expect("a value of strings and numbers");
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_has_every_event_once_and_questions_have_more_time() {
        let [(_, manifest), (_, hooks)] = hook_plugin_files("x", HookEvents::All);
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        assert_eq!(manifest["name"], PLUGIN);
        let hooks: Value = serde_json::from_str(&hooks).unwrap();
        let events = hooks["hooks"].as_object().unwrap();
        assert_eq!(events.len(), HookEvents::All.names().len());
        let timeout = |event: &str| events[event][0]["hooks"][0]["timeout"].as_u64();
        assert_eq!((timeout("Stop"), timeout("SessionEnd")), (Some(10), Some(3)));
        assert_eq!(timeout(ASKS), Some(u64::from(ANSWER_PATIENCE_SECS)));
    }
}
