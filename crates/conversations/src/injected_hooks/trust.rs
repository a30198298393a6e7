//! Checks that an agent will run our hooks.
//!
//! Some agents run the hooks that their command line names. Others run hooks that a user trusted, and note that in
//! their own `config.toml`: `[hooks.state."FILE:EVENT:GROUP:INDEX"]` with the `trusted_hash` of the hook at that time.
//! Promise: `true` only if that is so for the hooks that report the beginning and the end of a turn. A hook that was
//! changed since it was trusted is not noticed: then it reports nothing, and a turn that is sent is `unknown`.
//! Start with [`run_reports_turns`].

use std::fs;
use std::path::Path;

use berth_core::SessionSpec;
use berth_driver::AgentTraits;
use berth_driver::hooks::{HookCarrier, PLUGIN_OPTION};
use serde_json::Value;

use super::HOOKS;
use crate::location;

/// The events that mark a turn's beginning and end: their names in a file of hooks and in the agent's own notes.
const EDGES: [(&str, &str); 2] = [("UserPromptSubmit", "user_prompt_submit"), ("Stop", "stop")];
/// A larger file was not written by a person, and is not read.
const MAX_BYTES: u64 = 4 << 20;

/// True if a run of this command will report its turns through our hooks, as far as that is known before it starts.
pub fn run_reports_turns(spec: &SessionSpec, command: &[String]) -> bool {
    let kind = &spec.conversation;
    match AgentTraits::of(kind).hooks {
        HookCarrier::None => false,
        HookCarrier::Plugin { .. } => {
            let plugin = format!("/{HOOKS}/{kind}");
            command.windows(2).any(|pair| pair[0] == PLUGIN_OPTION && pair[1].ends_with(&plugin))
        }
        HookCarrier::NotifySetting { trusts_all } => {
            let env = |name: &str| location::variable(spec, name);
            let dir = berth_transcript::TranscriptKind::of(kind)
                .map(|kind| berth_transcript::config_dir(kind, env));
            let trusts_all = command.iter().any(|word| word == trusts_all);
            // Only a command of ours contains this.
            let call = format!(" hook {kind}");
            dir.is_some_and(|dir| {
                dir.is_ok_and(|dir| EDGES.iter().all(|edge| runs(&dir, edge, &call, trusts_all)))
            })
        }
    }
}

/// True if an agent of this directory runs a hook of ours for that event.
fn runs(dir: &Path, (event, noted): &(&str, &str), call: &str, trusts_all: bool) -> bool {
    let config = read(&dir.join("config.toml")).and_then(|text| toml::from_str(&text).ok());
    let config: Value = config.unwrap_or_default();
    let hooks = read(&dir.join("hooks.json")).and_then(|text| serde_json::from_str(&text).ok());
    let files = [("hooks.json", hooks.unwrap_or_default()), ("config.toml", config.clone())];
    files.iter().any(|(file, hooks)| {
        let path = dir.join(file);
        ours(&hooks["hooks"][event], call)
            .any(|(group, at)| trusts_all || is_trusted(&config, &path, &format!("{noted}:{group}:{at}")))
    })
}

/// The hooks of an event that are ours: their group, and their index in it.
fn ours(groups: &Value, call: &str) -> impl Iterator<Item = (usize, usize)> {
    let all = groups.as_array().into_iter().flatten().enumerate();
    let all = all.flat_map(|(group, found)| {
        let hooks = found["hooks"].as_array().into_iter().flatten().enumerate();
        hooks.map(move |(at, hook)| (group, at, hook))
    });
    let is_ours = move |hook: &Value| hook["command"].as_str().is_some_and(|command| command.contains(call));
    all.filter(move |(_, _, hook)| is_ours(hook)).map(|(group, at, _)| (group, at))
}

/// True if the agent's notes say that a user trusted the hook at this place in the file.
fn is_trusted(config: &Value, file: &Path, place: &str) -> bool {
    let noted = config["hooks"]["state"].as_object().into_iter().flatten();
    let is_file = |named: &str| {
        let named = Path::new(named);
        named == file
            || named.canonicalize().is_ok_and(|named| file.canonicalize().is_ok_and(|file| named == file))
    };
    let mut here = noted.filter(|(key, _)| {
        key.strip_suffix(place).and_then(|key| key.strip_suffix(':')).is_some_and(is_file)
    });
    here.any(|(_, state)| state["trusted_hash"].is_string() && state["enabled"] != false)
}

fn read(path: &Path) -> Option<String> {
    fs::metadata(path).ok().filter(|found| found.is_file() && found.len() <= MAX_BYTES)?;
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use berth_harness::TestDir;

    use super::*;

    #[test]
    fn codex_tells_only_by_hooks_of_ours_that_a_user_trusted() {
        let dir = TestDir::new();
        let spec = SessionSpec {
            conversation: "codex".to_owned(),
            env: vec![("CODEX_HOME".to_owned(), dir.display().to_string())],
            ..SessionSpec::default()
        };
        let command = |words: &str| -> Vec<String> { words.split(' ').map(str::to_owned).collect() };
        let tells = |words: &str| super::run_reports_turns(&spec, &command(words));
        let hook = |command: &str| serde_json::json!([{"hooks": [{"type": "command", "command": command}]}]);
        let hooks = |command: &str| {
            let all =
                serde_json::json!({"hooks": {"UserPromptSubmit": hook(command), "Stop": hook(command)}});
            fs::write(dir.join("hooks.json"), all.to_string()).unwrap();
        };
        let trust = |file: &str, more: &str| {
            let key =
                |event: &str| format!("[hooks.state.\"{}:{event}:0:0\"]\n{more}\n", dir.join(file).display());
            fs::write(dir.join("config.toml"), format!("{}{}", key("user_prompt_submit"), key("stop")))
                .unwrap();
        };
        assert!(!tells("codex --dangerously-bypass-hook-trust"), "nothing is set up");
        hooks("berth hook codex --home /x");
        assert!(!tells("codex") && tells("codex --dangerously-bypass-hook-trust"));
        trust("hooks.json", "trusted_hash = \"sha256:1\"");
        assert!(tells("codex resume x"));
        trust("hooks.json", "trusted_hash = \"sha256:1\"\nenabled = false");
        assert!(!tells("codex"));
        trust("elsewhere.json", "trusted_hash = \"sha256:1\"");
        assert!(!tells("codex"));
        // Theirs is trusted, and none of ours is there.
        hooks("mine");
        trust("hooks.json", "trusted_hash = \"sha256:1\"");
        assert!(!tells("codex"));
        // Ours are in the other file, behind one of theirs.
        let block = |event: &str, noted: &str| {
            let one = |command: &str| {
                format!(
                    "[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = \"command\"\ncommand = \"{command}\"\n"
                )
            };
            let key = format!("{}:{noted}:1:0", dir.join("config.toml").display());
            format!(
                "{}{}[hooks.state.\"{key}\"]\ntrusted_hash = \"x\"\n",
                one("mine"),
                one("b hook codex --home x")
            )
        };
        let text = format!("{}{}", block("UserPromptSubmit", "user_prompt_submit"), block("Stop", "stop"));
        fs::write(dir.join("config.toml"), text).unwrap();
        assert!(tells("codex"));
    }
}
