//! Codex: `hooks.json`, which it runs once a person trusts it, and `notify`, which it runs at once.
//!
//! Promise: a `hooks.json` of the person's own stays as it is; then the hooks go to the end of `config.toml`, between
//! two marks. A `notify` of theirs stays, too. Between the marks berth's lines are berth's, and nothing else is: Codex
//! puts what it is told to keep (a model, a trusted directory) wherever there is room.

use std::path::Path;

use berth_api::{Code, Problem};
use berth_driver::hooks;
use berth_keeper::carried;
use serde_json::{Value, json};

use super::{Change, Plan, config_dir, read};

/// What it is asked to tell of.
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
/// The first and the last line of what is berth's in somebody's file.
const FROM: &str = "# berth: from here to the next such line is berth's (`berth setup codex --remove`)";
/// What only a command of berth's has in it.
const CALL: &str = " hook codex --home ";
const TO: &str = "# berth: to here";
/// What stands behind [`FROM`] where the line before it had no end until then.
const HAD_NO_END: &str = " the line before had no end";
/// And where there was no such file.
const MADE: &str = " this file was made for it";

/// What has to be done so that Codex tells berth of its conversations, or no longer does.
pub fn codex(root: &Path, removes: bool) -> Result<Plan, Problem> {
    let dir = config_dir("CODEX_HOME", ".codex")?;
    let mut plan = Plan::default();
    let command = carried::command(root, "codex");
    let hooks_path = dir.join("hooks.json");
    let hooks = read(&hooks_path)?;
    let config_path = dir.join("config.toml");
    let config = read(&config_path)?;
    let text = config.as_deref().unwrap_or_default();
    let Own { text: own, is_made } = without_ours(text, &config_path)?;
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
        let all = json!({"hooks": hooks::hooks(&EVENTS, &command)});
        let text = serde_json::to_string_pretty(&all).expect("a value of strings and numbers");
        let after = (!removes).then_some(format!("{text}\n"));
        plan.change(Change { path: hooks_path, before: hooks, after, agent_dir: dir.clone() });
    }
    let is_over = wanted.trim().is_empty() && (config.is_none() || is_made && removes);
    let after = (!is_over).then_some(wanted);
    plan.change(Change { path: config_path, before: config, after, agent_dir: dir });
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
            true => "takes the hooks and `notify` away by which Codex tells berth of its conversations:",
            false => "gives Codex hooks and `notify`, which tell berth which conversation is open:",
        };
        plan.summary = vec![what.to_owned(), format!("{}; what you wrote stays", paths.join(" and "))];
        plan.notes.push("a Codex that runs knows of it once it is started again".to_owned());
    }
    Ok(plan)
}

/// The keys of a file that are in no table, tables included.
fn top_keys(text: &str) -> Result<Vec<String>, String> {
    let table = toml::de::DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    Ok(table.get_ref().keys().map(|key| key.get_ref().to_string()).collect())
}

fn refused(path: &Path, why: &str) -> Problem {
    Problem::new(Code::Refused, format!("{} {why}; nothing was changed", path.display()))
        .hint("mend it, then try again")
}

/// Whether a `hooks.json` is berth's alone.
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

/// The hooks as they stand in a `config.toml`.
fn block(command: &str) -> String {
    let command = Value::from(command).to_string();
    let mut text = String::new();
    for event in EVENTS {
        text.push_str(&format!(
            "[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = \"command\"\ncommand = {command}\ntimeout = {}\n",
            hooks::patience_secs(event)
        ));
    }
    text
}

/// What is a person's in a file.
struct Own {
    text: String,
    /// Whether the file was made by us.
    is_made: bool,
}

/// A text without what is berth's in it.
fn without_ours(text: &str, path: &Path) -> Result<Own, Problem> {
    let mut own = Own { text: String::new(), is_made: false };
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

impl Own {
    fn keep(&mut self, line: &str) {
        // The end of the last line went with what was ours behind it.
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(line);
    }
}

/// How many of the next lines are as berth writes them: a `notify`, or the hook of one event.
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
