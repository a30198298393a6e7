//! Codex: `hooks.json`, which runs once the user trusts it, and `notify`, which runs at once.
//!
//! Promise: the user's own `hooks.json` stays as it is; then the hooks go to the end of `config.toml`, between two
//! marks. The user's `notify` stays as well. Between the marks only lines in berth's form are berth's: Codex writes its
//! own settings (a model, a trusted directory) wherever there is room.

use std::path::Path;

use berth_api::Problem;
use berth_conversations::injected_hooks;
use berth_driver::hooks;
use serde_json::{Value, json};

use super::{FileEdit, SetupPlan, config_dir, read};

/// Events for which hooks are installed.
const EVENTS: [&str; 8] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PermissionRequest",
    "Stop",
    "Interrupt",
    "SessionEnd",
];
/// First line of berth's part of a user's file; [`TO`] is the last line.
const FROM: &str = "# berth: from here to the next such line is berth's (`berth setup codex --remove`)";
/// Text that only a command of berth's hooks contains.
const CALL: &str = " hook codex --home ";
const TO: &str = "# berth: to here";
/// Text after [`FROM`] if the line before it had no line end.
const HAD_NO_END: &str = " the line before had no end";
/// Text after [`FROM`] if berth created the file.
const MADE: &str = " this file was made for it";

/// Plan for installing (or with `removes` for removing) the hooks by which Codex reports its conversations.
pub fn codex(root: &Path, removes: bool) -> Result<SetupPlan, Problem> {
    let dir = config_dir("CODEX_HOME", ".codex")?;
    let mut plan = SetupPlan::default();
    let command = injected_hooks::hook_command(root, "codex");
    let hooks_path = dir.join("hooks.json");
    let hooks = read(&hooks_path)?;
    let config_path = dir.join("config.toml");
    let config = read(&config_path)?;
    let text = config.as_deref().unwrap_or_default();
    let UserText { text: own, is_made } = without_ours(text, &config_path)?;
    let keys =
        top_keys(&own).map_err(|error| refused(&config_path, &format!("is not valid TOML ({error})")))?;
    let is_ours = hooks.as_deref().map(|text| ours(&hooks_path, text)).transpose()?;
    plan.is_new = own == text && is_ours != Some(true);
    let mut wanted = own.clone();
    if !removes {
        if keys.iter().any(|key| key == "notify") {
            plan.notes.push(format!(
                "{} has a `notify` of your own, which stays; without trusted hooks berth hears nothing",
                config_path.display()
            ));
        } else {
            let words = json!(["sh", "-c", format!("{command} \"$0\"")]).to_string();
            let made = if config.is_none() || is_made { MADE } else { "" };
            wanted = format!("{FROM}{made}\nnotify = {words}\n{TO}\n{wanted}");
        }
        if is_ours == Some(false) {
            let has_end = wanted.is_empty() || wanted.ends_with('\n');
            let from = if has_end { FROM.to_owned() } else { format!("\n{FROM}{HAD_NO_END}") };
            wanted = format!("{wanted}{from}\n{}{TO}\n", block(&command));
        }
        if let Err(error) = top_keys(&wanted) {
            let why = format!("has hooks in a form that others cannot be added to ({error})");
            return Err(refused(&config_path, &why));
        }
    }
    if is_ours != Some(false) {
        let all = json!({"hooks": hooks::hooks_json(&EVENTS, &command)});
        let text = serde_json::to_string_pretty(&all).expect("a value of strings and numbers");
        let after = (!removes).then_some(format!("{text}\n"));
        plan.change(FileEdit { path: hooks_path, before: hooks, after, agent_dir: dir.clone() });
    }
    let is_over = wanted.trim().is_empty() && (config.is_none() || is_made && removes);
    let after = (!is_over).then_some(wanted);
    plan.change(FileEdit { path: config_path, before: config, after, agent_dir: dir });
    if !plan.is_done() && !removes {
        plan.notes.push(
            "Codex skips hooks that are not trusted, without a message: start `codex`, type /hooks and trust \
             those of berth; until then it only tells when a turn is over (notify)"
                .to_owned(),
        );
    }
    if !plan.is_done() {
        let paths: Vec<String> =
            plan.changes.iter().map(|change| change.path.display().to_string()).collect();
        let what = match removes {
            true => "removes the hooks and `notify` by which Codex reports its conversations to berth:",
            false => "installs hooks and `notify` for Codex, which tell berth which conversation is open:",
        };
        plan.summary = vec![what.to_owned(), format!("{}; what you wrote stays", paths.join(" and "))];
        plan.notes.push("a running Codex uses the change once it is started again".to_owned());
    }
    Ok(plan)
}

/// Top-level keys and tables of a file.
fn top_keys(text: &str) -> Result<Vec<String>, String> {
    let table = toml::de::DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    Ok(table.get_ref().keys().map(|key| key.get_ref().to_string()).collect())
}

fn refused(path: &Path, why: &str) -> Problem {
    Problem::refused(format!("{} {why}; nothing was changed", path.display())).hint("fix it, then try again")
}

/// True if a `hooks.json` has only berth's hooks.
fn ours(path: &Path, text: &str) -> Result<bool, Problem> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| refused(path, &format!("is not valid JSON ({error})")))?;
    let events = value["hooks"].as_object().filter(|_| value.as_object().is_some_and(|all| all.len() == 1));
    let is_ours = |groups: &Value| {
        let command = groups[0]["hooks"][0]["command"].as_str().unwrap_or_default();
        let is_alone = groups.as_array().is_some_and(|groups| groups.len() == 1)
            && groups[0]["hooks"].as_array().is_some_and(|hooks| hooks.len() == 1);
        is_alone && command.contains(CALL)
    };
    Ok(events.is_some_and(|events| !events.is_empty() && events.values().all(is_ours)))
}

/// The hooks in the form of `config.toml`.
fn block(command: &str) -> String {
    let command = Value::from(command).to_string();
    let mut text = String::new();
    for event in EVENTS {
        text.push_str(&format!(
            "[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = \"command\"\ncommand = {command}\ntimeout = {}\n",
            hooks::hook_timeout_secs(event)
        ));
    }
    text
}

/// The user's own part of a file.
struct UserText {
    text: String,
    /// True if berth created the file.
    is_made: bool,
}

/// The text of a file without berth's part.
fn without_ours(text: &str, path: &Path) -> Result<UserText, Problem> {
    let mut own = UserText { text: String::new(), is_made: false };
    let mut is_inside = false;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut rest = lines.as_slice();
    while let Some(line) = rest.first() {
        let begins = line.trim_end().strip_prefix(FROM).filter(|how| ["", HAD_NO_END, MADE].contains(how));
        let mut count = 1;
        match (is_inside, begins) {
            (false, Some(how)) => {
                is_inside = true;
                own.is_made |= how == MADE;
                if how == HAD_NO_END && own.text.ends_with('\n') {
                    own.text.pop();
                }
            }
            (true, _) if line.trim_end() == TO => is_inside = false,
            (true, _) if let Some(ours) = lines_of_ours(rest) => count = ours,
            (true | false, _) => own.keep(line),
        }
        rest = &rest[count..];
    }
    if is_inside {
        return Err(refused(path, &format!("has the line `{FROM}` and not its end, `{TO}`")));
    }
    Ok(own)
}

impl UserText {
    fn keep(&mut self, line: &str) {
        // The end of the last line was removed with berth's part after it.
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(line);
    }
}

/// Number of the next lines that have berth's form: a `notify`, or the hook of one event.
fn lines_of_ours(lines: &[&str]) -> Option<usize> {
    let line = |at: usize| lines.get(at).map_or("", |line| line.trim_end());
    let calls_us = |at: usize, key: &str| line(at).starts_with(key) && line(at).contains(CALL);
    if calls_us(0, "notify = [\"sh\",\"-c\",") {
        return Some(1);
    }
    let event = line(0).strip_prefix("[[hooks.")?.strip_suffix("]]")?;
    let is_ours = line(1) == format!("[[hooks.{event}.hooks]]")
        && line(2) == "type = \"command\""
        && calls_us(3, "command = ")
        && line(4).starts_with("timeout = ");
    is_ours.then_some(5)
}
