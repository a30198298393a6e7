//! The hooks a run carries with it: they need no installation, and change no file of the user.
//!
//! One of the agent's traits says how it takes them ([`HookCarrier`]): a plugin in a directory that its command line
//! names (an installed plugin of that name takes precedence, so that an event is reported once), or the setting
//! `notify`, where hooks need a user's trust.
//! Promise: a run is started with its hooks or, where they cannot be written, as if there were none; the command they
//! call is found again after an upgrade, and does nothing where berth is gone.
//! Not here: handling a hook (`verbs::hook`), permanent installation (`verbs::setup`), whether an agent runs
//! its hooks (`trust`).
//! Start with [`with_hooks`].

pub mod trust;

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use berth_core::SessionSpec;
use berth_driver::AgentTraits;
use berth_driver::hooks::{self, HookCarrier, HookEvents, PLUGIN_OPTION};
use berth_host::disk;
use berth_store::config_file::config_file;
use berth_transcript::TranscriptKind;
use serde_json::json;

use crate::location;

/// The directory of the hooks, in the state directory.
pub const HOOKS: &str = "hooks";
/// The name of a link to this program in that directory, which stays unchanged when the program moves.
const LINK: &str = "berth";
/// Environment variable: set to `off`, runs carry no hooks.
const VARIABLE: &str = "BERTH_HOOKS";
/// Adds the hooks to a command, if its agent takes them along. `root` is the state directory.
pub fn with_hooks(root: &Path, spec: &SessionSpec, mut command: Vec<String>) -> Vec<String> {
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

/// A second `notify` would replace the first: a user's own setting stays.
fn with_notify(root: &Path, spec: &SessionSpec, mut command: Vec<String>) -> Vec<String> {
    let kind = &spec.conversation;
    let Some(at) = program(&command, kind) else { return command };
    let config = TranscriptKind::of(kind).and_then(|kind| {
        let dir = berth_transcript::config_dir(kind, |name| location::variable(spec, name)).ok()?;
        fs::read_to_string(dir.join("config.toml")).ok()
    });
    let has_own = command.iter().any(|word| word.starts_with("notify="))
        || config.is_some_and(|text| text.lines().any(|line| line.trim_start().starts_with("notify")));
    let made = link_hook_program(root, false).inspect_err(|error| tracing::warn!(%error, ?root, "no hooks"));
    if !has_own && made.is_ok() {
        let words = json!(["sh", "-c", format!("{} \"$0\"", self::hook_command(root, kind))]);
        command.splice(at + 1..at + 1, ["-c".to_owned(), format!("notify={words}")]);
    }
    command
}

/// The index of the program of this name in a command. A wrapper of the user may come before it; words behind an
/// option are not examined.
fn program(command: &[String], name: &str) -> Option<usize> {
    let is_it = |word: &String| {
        let file = Path::new(word).file_name().unwrap_or_default();
        file.to_str().is_some_and(|file| file.starts_with(name))
    };
    command.iter().take_while(|word| !word.starts_with('-')).position(is_it)
}

/// Writes the plugin that runs carry, if it is missing. `None` if its path is not valid UTF-8.
fn write_plugin(root: &Path, kind: &str, events: HookEvents) -> io::Result<Option<String>> {
    link_hook_program(root, false)?;
    let name = match events {
        HookEvents::All => kind.to_owned(),
        HookEvents::Conversation => format!("{kind}-turns"),
    };
    let dir = root.join(HOOKS).join(name);
    let Some(text) = dir.to_str().map(str::to_owned) else { return Ok(None) };
    for (path, text) in hooks::hook_plugin_files(&hook_command(root, kind), events) {
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

/// The shell command of a hook of this agent. It does nothing where berth is gone; and it names the state directory,
/// since the hook's own TMPDIR, HOME and so on may differ from the keeper's.
pub fn hook_command(root: &Path, agent: &str) -> String {
    let link = quoted(&root.join(HOOKS).join(LINK));
    let config = config_file().map(|path| format!(" --config {}", quoted(&path)));
    format!(
        "b={link}; [ -x \"$b\" ] || b=$(command -v berth) || exit 0; exec \"$b\" hook {agent} --home {}{}",
        quoted(root),
        config.unwrap_or_default()
    )
}

/// Quotes a word for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// The path of the link to this program.
pub fn hook_link_path(root: &Path) -> PathBuf {
    root.join(HOOKS).join(LINK)
}

/// Makes the link to this program, if there is no working one; with `renew` in any case.
pub fn link_hook_program(root: &Path, renew: bool) -> io::Result<()> {
    let path = hook_link_path(root);
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

/// The path of this program. The path it was called by is better than its target: an upgrade changes the latter.
fn this_program() -> io::Result<PathBuf> {
    let real = std::env::current_exe()?;
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    // A bare name was found in PATH. A relative path depends on the working directory, which may differ next time.
    let is_name = called.components().count() == 1 && !called.is_absolute();
    let path = std::env::var_os("PATH").filter(|_| is_name).unwrap_or_default();
    let mut ways: Vec<PathBuf> = std::env::split_paths(&path).map(|dir| dir.join(&called)).collect();
    ways.push(called);
    let leads_here = |way: &PathBuf| way.is_absolute() && way.canonicalize().is_ok_and(|way| way == real);
    Ok(ways.into_iter().find(leads_here).unwrap_or(real))
}

#[cfg(test)]
mod tests {
    use berth_harness::TestDir;

    use super::*;

    fn spec(conversation: &str, driver: &str) -> SessionSpec {
        SessionSpec {
            conversation: conversation.to_owned(),
            driver: driver.to_owned(),
            ..SessionSpec::default()
        }
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn i4_hooks_come_before_the_users_arguments_and_only_with_claude_code() {
        let root = TestDir::new();
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
    }

    #[test]
    fn a_users_own_notify_is_looked_for_where_the_sessions_codex_looks() {
        let root = TestDir::new();
        let codex = root.join("codex");
        fs::create_dir_all(&codex).unwrap();
        let mut spec = spec("codex", "pty");
        spec.env.push(("CODEX_HOME".to_owned(), codex.display().to_string()));
        assert_ne!(with_hooks(&root, &spec, words("codex")), words("codex"));
        fs::write(codex.join("config.toml"), "notify = [\"mine\"]\n").unwrap();
        assert_eq!(with_hooks(&root, &spec, words("codex")), words("codex"));
    }

    #[test]
    fn the_command_of_a_hook_survives_odd_places() {
        let command = hook_command(Path::new("/tmp/it's here"), "claude");
        assert!(command.contains(r"'/tmp/it'\''s here'"), "{command}");
    }
}
