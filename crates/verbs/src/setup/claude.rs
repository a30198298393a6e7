//! Claude Code: a plugin in a directory that it looks through at every start.
//!
//! `$CLAUDE_CONFIG_DIR/skills/berth` is loaded without a word in anybody's settings, offline, and gives way to the
//! plugin of the same name that runs of ours carry. So the settings are only read: whether they let hooks run at all.
//! Promise: no file is changed but the two of the plugin.

use std::path::Path;

use berth_api::{Code, Problem};
use berth_driver::hooks::{self, AUTHOR, HookEvents, PLUGIN};
use berth_keeper::carried;
use serde_json::Value;

use super::{Change, Plan, config_dir, read};

/// What has to be done so that Claude Code tells berth of its conversations, or no longer does.
pub fn claude(root: &Path, removes: bool) -> Result<Plan, Problem> {
    let config = config_dir("CLAUDE_CONFIG_DIR", ".claude")?;
    let dir = config.join("skills").join(PLUGIN);
    let mut plan = Plan::default();
    let files = hooks::plugin(&carried::command(root, "claude"), HookEvents::All);
    let found: Vec<Option<String>> =
        files.iter().map(|(path, _)| read(&dir.join(path))).collect::<Result<_, _>>()?;
    let is_foreign = dir.exists() && !found.iter().flatten().any(|text| is_ours(text));
    if is_foreign && std::fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some()) {
        let what = format!("{} was not written by berth; nothing was changed", dir.display());
        if removes {
            plan.notes.push(what);
            return Ok(plan);
        }
        return Err(Problem::new(Code::Refused, what).hint("move it away, then try again"));
    }
    plan.is_new = found.iter().all(Option::is_none);
    let settings = config.join("settings.json");
    if !removes {
        plan.notes.extend(in_the_way(&settings)?);
    }
    for ((path, text), before) in files.into_iter().zip(found) {
        let after = (!removes).then_some(text);
        let (path, agent_dir) = (dir.join(path), config.clone());
        plan.change(Change { path, before, after, agent_dir });
    }
    if !plan.is_done() {
        let count = plan.changes.len();
        let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
        plan.summary = if removes {
            vec![
                "takes the plugin away by which Claude Code tells berth of its conversations:".to_owned(),
                format!("{files} in {}; your settings stay as they are", dir.display()),
            ]
        } else {
            vec![
                "gives Claude Code a plugin whose hooks tell berth which conversation is open:".to_owned(),
                format!("{files} in {}; your settings stay as they are", dir.display()),
            ]
        };
        plan.notes.push(if removes {
            "a Claude Code that runs has them until it is started again".to_owned()
        } else {
            "a Claude Code that runs has them once it is started again".to_owned()
        });
    }
    Ok(plan)
}

/// Whether a file of the plugin is one of ours, of whatever version.
fn is_ours(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
    let is_manifest = value["name"] == PLUGIN && value["author"]["name"] == AUTHOR;
    is_manifest || value["hooks"].is_object() && text.contains(" hook claude --home ")
}

/// What in a person's settings keeps hooks from running.
fn in_the_way(path: &Path) -> Result<Vec<String>, Problem> {
    let Some(text) = read(path)? else { return Ok(vec![]) };
    let settings: Value = serde_json::from_str(&text).map_err(|error| {
        let what = format!("{} is not valid JSON ({error}); nothing was changed", path.display());
        Problem::new(Code::Refused, what).hint("mend it, then try again: Claude Code cannot read it, either")
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
