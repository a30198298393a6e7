//! Claude Code: a plugin in a directory that it reads at every start.
//!
//! `$CLAUDE_CONFIG_DIR/skills/berth` is loaded without an entry in the user's settings, offline, and gives way to the
//! plugin of the same name that runs of berth carry. So the settings are only read, to see whether they allow hooks at
//! all.
//! Promise: no file is changed but the two of the plugin.

use std::path::Path;

use berth_api::Problem;
use berth_conversations::injected_hooks;
use berth_driver::hooks::{self, AUTHOR, HookEvents, PLUGIN};
use serde_json::Value;

use super::{FileEdit, SetupPlan, config_dir, read};

/// Plan for installing (or with `removes` for removing) the hooks by which Claude Code reports its conversations.
pub fn claude(root: &Path, removes: bool) -> Result<SetupPlan, Problem> {
    let config = config_dir("CLAUDE_CONFIG_DIR", ".claude")?;
    let dir = config.join("skills").join(PLUGIN);
    let mut plan = SetupPlan::default();
    let files = hooks::hook_plugin_files(&injected_hooks::hook_command(root, "claude"), HookEvents::All);
    let found: Vec<Option<String>> =
        files.iter().map(|(path, _)| read(&dir.join(path))).collect::<Result<_, _>>()?;
    let is_foreign = dir.exists() && !found.iter().flatten().any(|text| is_ours(text));
    if is_foreign && std::fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some()) {
        let what = format!("{} was not written by berth; nothing was changed", dir.display());
        if removes {
            plan.notes.push(what);
            return Ok(plan);
        }
        return Err(Problem::refused(what).hint("move it away, then try again"));
    }
    plan.is_new = found.iter().all(Option::is_none);
    let settings = config.join("settings.json");
    if !removes {
        plan.notes.extend(conflicting_setting(&settings)?);
    }
    for ((path, text), before) in files.into_iter().zip(found) {
        let after = (!removes).then_some(text);
        let (path, agent_dir) = (dir.join(path), config.clone());
        plan.change(FileEdit { path, before, after, agent_dir });
    }
    if !plan.is_done() {
        let count = plan.changes.len();
        let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
        plan.summary = if removes {
            vec![
                "removes the plugin by which Claude Code reports its conversations to berth:".to_owned(),
                format!("{files} in {}; your settings stay as they are", dir.display()),
            ]
        } else {
            vec![
                "installs in Claude Code a plugin whose hooks tell berth which conversation is open:"
                    .to_owned(),
                format!("{files} in {}; your settings stay as they are", dir.display()),
            ]
        };
        plan.notes.push(if removes {
            "a running Claude Code keeps the hooks until it is started again".to_owned()
        } else {
            "a running Claude Code gets the hooks once it is started again".to_owned()
        });
    }
    Ok(plan)
}

/// True if a file of the plugin was written by berth, by any version of it.
fn is_ours(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
    let is_manifest = value["name"] == PLUGIN && value["author"]["name"] == AUTHOR;
    is_manifest || value["hooks"].is_object() && text.contains(" hook claude --home ")
}

/// Settings of the user that keep hooks from running.
fn conflicting_setting(path: &Path) -> Result<Vec<String>, Problem> {
    let Some(text) = read(path)? else { return Ok(vec![]) };
    let settings: Value = serde_json::from_str(&text).map_err(|error| {
        let what = format!("{} is not valid JSON ({error}); nothing was changed", path.display());
        Problem::refused(what).hint("fix it, then try again: Claude Code cannot read it either")
    })?;
    let mut notes = Vec::new();
    if settings["disableAllHooks"] == true {
        notes.push(format!("{} turns all hooks off (disableAllHooks)", path.display()));
    }
    if settings["enabledPlugins"][format!("{PLUGIN}@skills-dir")] == false {
        notes.push(format!("{} turns the plugin off (enabledPlugins)", path.display()));
    }
    Ok(notes)
}
