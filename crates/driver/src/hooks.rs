//! Hooks: how each kind of agent takes them along, and the texts that it wants them written in.
//!
//! Promise: each event is told by one hook; a hook that answers questions has the patience of a person.
//! Not here: writing the files, whether an agent will run the hooks (the keeper looks), what is done when one is called.
//! Start with [`HookCarrier`], then [`plugin`].

use serde_json::{Value, json};

/// The plugin's name, carried or installed.
pub const PLUGIN: &str = "berth";
/// The author in the plugin's manifest.
pub const AUTHOR: &str = "berth";
/// The option of the command line that names a directory with a plugin.
pub const PLUGIN_OPTION: &str = "--plugin-dir";
/// The patience of a hook that may answer a question, in seconds: a day. The agent shows the question meanwhile.
pub const ANSWER_PATIENCE_SECS: u32 = 24 * 3600;
/// How long an agent waits for any other hook, in seconds. They take milliseconds.
const PATIENCE_SECS: u32 = 10;
/// How long an agent on its way out waits for one: an agent that gives no more complains of a longer time.
const LAST_PATIENCE_SECS: u32 = 3;
/// The event of a question.
const ASKS: &str = "PermissionRequest";
/// The version in the plugin's manifest.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How a run of an agent carries hooks along without a change of the person's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookCarrier {
    /// It takes none.
    None,
    /// A plugin in a directory that [`PLUGIN_OPTION`] names, beside everything of the person's own. Its hooks run.
    Plugin {
        /// The driver that speaks the agent's own protocol, where a plugin works as well.
        protocol: &'static str,
    },
    /// The setting `notify` on the command line, which tells of ends only. The agent runs hooks once a person trusted
    /// them, and notes that in its own configuration.
    NotifySetting {
        /// The option of the command line with which all hooks run.
        trusts_all: &'static str,
    },
}

/// The events that an agent's plugin tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookEvents {
    /// Everything that says what the agent does: for its own terminal interface.
    All,
    /// The conversation that it has: its protocol tells the rest.
    Conversation,
}

impl HookEvents {
    /// Their names.
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
            // Without the end of a turn it would be taken to be at work, and to have written, until it ends.
            Self::Conversation => &["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"],
        }
    }
}

/// The files of a plugin whose hooks run this command, by their paths in it.
pub fn plugin(command: &str, events: HookEvents) -> [(&'static str, String); 2] {
    let manifest = json!({
        "name": PLUGIN,
        "version": VERSION,
        "description": "Tells berth which conversation is open, so that two writers of one are kept apart",
        "author": {"name": AUTHOR},
    });
    let mut hooks = json!({"hooks": hooks(events.names(), command)});
    if let Some(asks) = hooks.pointer_mut(&format!("/hooks/{ASKS}/0/hooks/0/timeout")) {
        *asks = ANSWER_PATIENCE_SECS.into();
    }
    [(".claude-plugin/plugin.json", pretty(&manifest)), ("hooks/hooks.json", pretty(&hooks))]
}

/// One command for each of some events, in the format that all known agents read.
pub fn hooks(events: &[&str], command: &str) -> Value {
    let one = |event: &str| json!([{"hooks": [{"type": "command", "command": command, "timeout": patience_secs(event)}]}]);
    events.iter().map(|event| ((*event).to_owned(), one(event))).collect()
}

/// How long an agent may wait for the hook of this event, in seconds.
pub fn patience_secs(event: &str) -> u32 {
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
        let [(_, manifest), (_, hooks)] = plugin("x", HookEvents::All);
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
