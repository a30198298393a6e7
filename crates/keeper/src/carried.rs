//! The hooks a run carries with it: nothing has to be installed for them, and nothing of the person's is changed.
//!
//! How an agent takes them is one of its traits ([`HookCarrier`]): a plugin in a directory that its command line names (one
//! that is installed under the same name gives way to it, so that an event is told once), or the setting `notify`, where
//! hooks need a person's trust.
//! Promise: a run is started with its hooks or, where they cannot be written, as if there were none; the command
//! they call is found again after an upgrade, and where there is none any more it does nothing.
//! Not here: what is done when one is called (`verbs::hook`), what is installed for good (`verbs::setup`), whether an
//! agent runs them (`trust`).
//! Start with [`with_hooks`].

pub(crate) mod trust;

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use berth_core::Spec;
use berth_driver::AgentTraits;
use berth_driver::hooks::{self, HookCarrier, HookEvents, PLUGIN_OPTION};
use berth_host::disk;
use berth_transcript::Kind;
use serde_json::json;

use crate::{driver, notify};

/// Where in the state directory they are.
pub const HOOKS: &str = "hooks";
/// The way to this program in there, which stays the same when the program moves.
const LINK: &str = "berth";
/// Set to `off`, runs carry none.
const VARIABLE: &str = "BERTH_HOOKS";
/// A command with its hooks, if it is of an agent that takes them along. `root` is the state directory.
pub fn with_hooks(root: &Path, spec: &Spec, mut command: Vec<String>) -> Vec<String> {
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "off") {
        return command;
    }
    let events = match AgentTraits::of(&spec.conversation).hooks {
        HookCarrier::NotifySetting { .. } if !spec.takes_turns() => return with_notify(root, spec, command),
        HookCarrier::Plugin { .. } if !spec.takes_turns() => HookEvents::All,
        HookCarrier::Plugin { protocol } if spec.driver == protocol => HookEvents::Conversation,
        HookCarrier::Plugin { .. } | HookCarrier::NotifySetting { .. } | HookCarrier::None => return command,
    };
    let Some(at) = program(&command, &spec.conversation) else { return command };
    match write_plugin(root, &spec.conversation, events) {
        Ok(Some(dir)) => {
            command.splice(at + 1..at + 1, [PLUGIN_OPTION.to_owned(), dir]);
        }
        Ok(None) => tracing::warn!(?root, "no hooks: the state directory is not UTF-8"),
        Err(error) => tracing::warn!(%error, ?root, "no hooks: they cannot be written"),
    }
    command
}

/// A second `notify` takes the place of the first: where a person has their own, theirs stays.
fn with_notify(root: &Path, spec: &Spec, mut command: Vec<String>) -> Vec<String> {
    let kind = &spec.conversation;
    let Some(at) = program(&command, kind) else { return command };
    let config = Kind::of(kind).and_then(|kind| {
        let dir = berth_transcript::config_dir(kind, |name| driver::variable(spec, name)).ok()?;
        fs::read_to_string(dir.join("config.toml")).ok()
    });
    let has_own = command.iter().any(|word| word.starts_with("notify="))
        || config.is_some_and(|text| text.lines().any(|line| line.trim_start().starts_with("notify")));
    let made = link(root, false).inspect_err(|error| tracing::warn!(%error, ?root, "no hooks"));
    if !has_own && made.is_ok() {
        let words = json!(["sh", "-c", format!("{} \"$0\"", self::command(root, kind))]);
        command.splice(at + 1..at + 1, ["-c".to_owned(), format!("notify={words}")]);
    }
    command
}

/// Which word of a command is the program of this name. Somebody else's wrapper may come before it; whatever comes
/// behind an option is not looked at.
fn program(command: &[String], name: &str) -> Option<usize> {
    let is_it = |word: &String| {
        let file = Path::new(word).file_name().unwrap_or_default();
        file.to_str().is_some_and(|file| file.starts_with(name))
    };
    command.iter().take_while(|word| !word.starts_with('-')).position(is_it)
}

/// Writes the plugin that runs carry, where it is not there yet. `None`: its path cannot be said.
fn write_plugin(root: &Path, kind: &str, events: HookEvents) -> io::Result<Option<String>> {
    link(root, false)?;
    let name = match events {
        HookEvents::All => kind.to_owned(),
        HookEvents::Conversation => format!("{kind}-turns"),
    };
    let dir = root.join(HOOKS).join(name);
    let Some(text) = dir.to_str().map(str::to_owned) else { return Ok(None) };
    for (path, text) in hooks::plugin(&command(root, kind), events) {
        let path = dir.join(path);
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            continue;
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            continue;
        };
        fs::create_dir_all(parent)?;
        disk::write_atomically(parent, name, text.as_bytes(), false)?;
    }
    Ok(Some(text))
}

/// What a shell runs for a hook of this agent. Where berth is gone, nothing; and the hook's own TMPDIR, HOME and
/// so on say nothing about where the sessions are.
pub fn command(root: &Path, agent: &str) -> String {
    let link = quoted(&root.join(HOOKS).join(LINK));
    let config = notify::config_file().map(|path| format!(" --config {}", quoted(&path)));
    format!(
        "b={link}; [ -x \"$b\" ] || b=$(command -v berth) || exit 0; exec \"$b\" hook {agent} --home {}{}",
        quoted(root),
        config.unwrap_or_default()
    )
}

/// A word for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// The link to this program.
pub fn link_path(root: &Path) -> PathBuf {
    root.join(HOOKS).join(LINK)
}

/// Makes the link to this program, if there is none that leads anywhere; with `renew` in any case.
pub fn link(root: &Path, renew: bool) -> io::Result<()> {
    let path = link_path(root);
    if !renew && path.exists() {
        return Ok(());
    }
    let dir = root.join(HOOKS);
    berth_host::dir::private_dir(&dir).map_err(|error| io::Error::other(error.to_string()))?;
    let temporary = dir.join(format!(".{LINK}.{}", std::process::id()));
    let _ = fs::remove_file(&temporary);
    symlink(this_program()?, &temporary)?;
    fs::rename(&temporary, &path)
}

/// Where this program is. What was called is better than where that led to: an upgrade changes the latter.
fn this_program() -> io::Result<PathBuf> {
    let real = std::env::current_exe()?;
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    // Called by its name alone: somewhere in PATH. By a path from here: here may be elsewhere next time.
    let is_name = called.components().count() == 1 && !called.is_absolute();
    let path = std::env::var_os("PATH").filter(|_| is_name).unwrap_or_default();
    let mut ways: Vec<PathBuf> = std::env::split_paths(&path).map(|dir| dir.join(&called)).collect();
    ways.push(called);
    let leads_here = |way: &PathBuf| way.is_absolute() && way.canonicalize().is_ok_and(|way| way == real);
    Ok(ways.into_iter().find(leads_here).unwrap_or(real))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(conversation: &str, driver: &str) -> Spec {
        Spec { conversation: conversation.to_owned(), driver: driver.to_owned(), ..Spec::default() }
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn i4_hooks_come_before_what_the_person_gave_and_only_with_claude_code() {
        let root = std::env::temp_dir().join(format!("berth-carried-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let place = |dir: &str| root.join(HOOKS).join(dir).display().to_string();
        let line = |conversation: &str, driver: &str, line: &str| {
            with_hooks(&root, &spec(conversation, driver), words(line)).join(" ")
        };
        let all = place("claude");
        assert_eq!(
            line("claude", "pty", "/opt/bin/claude --resume x -- -hello"),
            format!("/opt/bin/claude --plugin-dir {all} --resume x -- -hello")
        );
        assert_eq!(line("claude", "pty", "nice claude -r x"), format!("nice claude --plugin-dir {all} -r x"));
        assert_eq!(
            line("claude", "claude", "claude -p"),
            format!("claude --plugin-dir {} -p", place("claude-turns"))
        );
        let codex = line("codex", "pty", "codex resume x");
        assert!(
            codex.starts_with("codex -c notify=[\"sh\",\"-c\",") && codex.ends_with("] resume x"),
            "{codex}"
        );
        for (conversation, driver, same) in [
            ("claude", "pty", "sh -c claude"),
            ("claude", "acp", "claude-agent-acp"),
            ("codex", "codex", "codex app-server"),
            ("codex", "pty", "codex -c notify=[\"x\"] resume x"),
            ("", "pty", "claude"),
        ] {
            assert_eq!(line(conversation, driver, same), same);
        }
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_notify_of_the_persons_own_is_looked_for_where_the_sessions_codex_looks() {
        let root = std::env::temp_dir().join(format!("berth-carried-notify-{}", std::process::id()));
        let codex = root.join("codex");
        fs::create_dir_all(&codex).unwrap();
        let mut spec = spec("codex", "pty");
        spec.env.push(("CODEX_HOME".to_owned(), codex.display().to_string()));
        assert_ne!(with_hooks(&root, &spec, words("codex")), words("codex"));
        fs::write(codex.join("config.toml"), "notify = [\"mine\"]\n").unwrap();
        assert_eq!(with_hooks(&root, &spec, words("codex")), words("codex"));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn the_command_of_a_hook_survives_odd_places() {
        let command = command(Path::new("/tmp/it's here"), "claude");
        assert!(command.contains(r"'/tmp/it'\''s here'"), "{command}");
    }
}
