//! `berth setup`: what runs beside the commands.
//!
//! Promise: every file is shown before it is written (--dry-run), a second time changes only what is different, and a
//! file that berth did not write is left alone. `--remove` takes away exactly what is berth's.
//! Not here: what the units say (see `units`), what agents are given (`verbs::setup`).

mod agent;
mod units;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_api::{Code, Problem};
use berth_host::{disk, facts};

use berth_verbs::setup;

use crate::args::{Setup, SetupClaude, SetupCodex, SetupSystemd, SetupVerb};
use crate::print;
use units::{MARK, Unit};

pub(crate) fn run(args: &Setup) -> Result<u8, Problem> {
    match &args.verb {
        SetupVerb::Systemd(args) => systemd(args),
        SetupVerb::Claude(SetupClaude { how }) => agent::run("claude", *how, setup::claude),
        SetupVerb::Codex(SetupCodex { how }) => agent::run("codex", *how, setup::codex),
    }
}

fn systemd(args: &SetupSystemd) -> Result<u8, Problem> {
    let dir = place()?;
    // What was set up is taken away whole; the gateway is set up for who wants it.
    let mut units = units::all()?;
    units.retain(|unit| !unit.is_gateway || args.gateway || args.remove);
    let states: Vec<(&Unit, State)> = units.iter().map(|unit| (unit, state(&dir, unit))).collect();
    let manager = manager();
    if args.dry_run {
        let said = say(&dir, &states, args.remove);
        match &manager {
            Ok(()) => print::note("your systemd can be reached, and would be told"),
            Err(why) if args.remove || args.force => {
                print::note(&format!("no systemd of yours can be reached here: {why}"));
            }
            Err(why) => {
                print::note(&format!("no systemd of yours can be reached here, so --force is needed: {why}"));
            }
        }
        if !args.remove {
            linger_hint();
        }
        return said;
    }
    if args.remove {
        return remove(&dir, &states, manager.is_ok());
    }
    if let Some((unit, _)) = states.iter().find(|(_, state)| *state == State::Foreign) {
        return Err(foreign(&dir, unit));
    }
    if let Err(why) = &manager
        && !args.force
    {
        return Err(Problem::new(Code::Refused, format!("no systemd of yours can be reached here: {why}"))
            .hint(
                "--force writes the files for when there is one; `berth sweep` does the same work by hand",
            ));
    }
    let changed = states.iter().filter(|(_, state)| *state != State::Same);
    for (unit, _) in changed.clone() {
        write(&dir, unit)?;
        print::note(&format!("wrote {}", dir.join(unit.name).display()));
    }
    if manager.is_ok() {
        if changed.count() > 0 {
            systemctl(&["daemon-reload"])?;
        }
        for unit in units.iter().filter(|unit| unit.is_enabled) {
            systemctl(&["enable", "--now", unit.name])?;
            print::note(&format!("{} runs; `systemctl --user status {}` shows it", unit.name, unit.name));
        }
    } else {
        let enabled: Vec<&str> = units.iter().filter(|unit| unit.is_enabled).map(|unit| unit.name).collect();
        print::note(&format!("not started; later: `systemctl --user enable --now {}`", enabled.join(" ")));
    }
    linger_hint();
    Ok(0)
}

/// What there is in the place of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Missing,
    Same,
    /// Ours, and different.
    Old,
    /// Somebody else's.
    Foreign,
}

fn state(dir: &Path, unit: &Unit) -> State {
    let path = dir.join(unit.name);
    // What cannot be read, or is no file, is not ours; and neither is what somebody links to.
    match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return State::Missing,
        Ok(found) if found.is_file() => {}
        Ok(_) | Err(_) => return State::Foreign,
    }
    match std::fs::read_to_string(&path) {
        Ok(text) if text == unit.text => State::Same,
        Ok(text) if text.lines().next() == Some(MARK) => State::Old,
        Ok(_) | Err(_) => State::Foreign,
    }
}

fn say(dir: &Path, states: &[(&Unit, State)], removes: bool) -> Result<u8, Problem> {
    let mut text = String::new();
    for (unit, state) in states {
        let what = match (removes, state) {
            (false, State::Missing) => "would be written",
            (false, State::Old) => "would be changed",
            (false, State::Same) => "is there already",
            (true, State::Missing) => "is not there",
            (true, State::Old | State::Same) => "would be removed",
            (_, State::Foreign) => "was not written by berth, and would be left alone",
        };
        text.push_str(&format!("# {}: {what}\n", dir.join(unit.name).display()));
        if !removes {
            text.push_str(&format!("{}\n", unit.text));
        }
    }
    print::text(&text)?;
    match states.iter().find(|(_, state)| *state == State::Foreign) {
        Some((unit, _)) if !removes => Err(foreign(dir, unit)),
        Some(_) | None => Ok(0),
    }
}

fn remove(dir: &Path, states: &[(&Unit, State)], is_reachable: bool) -> Result<u8, Problem> {
    let ours: Vec<&Unit> = states
        .iter()
        .filter(|(_, state)| matches!(state, State::Same | State::Old))
        .map(|(unit, _)| *unit)
        .collect();
    for (unit, state) in states {
        if *state == State::Foreign {
            print::note(&format!("{} was not written by berth; left alone", dir.join(unit.name).display()));
        }
    }
    if ours.is_empty() {
        print::note("nothing of berth's is set up there");
        return Ok(0);
    }
    if is_reachable {
        for unit in ours.iter().filter(|unit| unit.is_enabled) {
            systemctl(&["disable", "--now", unit.name])?;
        }
    }
    for unit in &ours {
        let path = dir.join(unit.name);
        std::fs::remove_file(&path).map_err(|error| {
            Problem::new(Code::Refused, format!("cannot remove {}: {error}", path.display()))
                .hint("remove it by hand, then `systemctl --user daemon-reload`")
        })?;
        print::note(&format!("removed {}", path.display()));
    }
    if is_reachable {
        systemctl(&["daemon-reload"])?;
    }
    Ok(0)
}

fn foreign(dir: &Path, unit: &Unit) -> Problem {
    let path = dir.join(unit.name);
    Problem::new(Code::Refused, format!("{} was not written by berth; nothing was changed", path.display()))
        .hint(format!("move it away; changes of your own belong in {}.d/", path.display()))
}

fn write(dir: &Path, unit: &Unit) -> Result<(), Problem> {
    let written = std::fs::create_dir_all(dir)
        .and_then(|()| disk::write_atomically(dir, unit.name, unit.text.as_bytes(), true));
    written.map_err(|error| {
        Problem::new(Code::Refused, format!("cannot write {}: {error}", dir.join(unit.name).display()))
            .hint("`berth setup systemd --dry-run` prints it, for a place of your own")
    })
}

/// Where a user's units are.
fn place() -> Result<PathBuf, Problem> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    config.map(|config| config.join("systemd/user")).ok_or_else(|| {
        Problem::new(Code::Refused, "there is no place for units: neither XDG_CONFIG_HOME nor HOME is set")
            .hint("set HOME")
    })
}

/// Whether this user's systemd answers.
fn manager() -> Result<(), String> {
    call(&["show", "--property=Version"]).map_err(|said| said.replace('\n', "; "))
}

fn systemctl(args: &[&str]) -> Result<(), Problem> {
    call(args).map_err(|said| {
        Problem::new(Code::Refused, format!("`systemctl --user {}` failed: {said}", args.join(" ")))
            .hint("the files are written; run it again when that is fixed")
    })
}

fn call(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("systemctl");
    command.args(["--user", "--no-ask-password"]).args(args).stdin(Stdio::null());
    match command.output() {
        Ok(ended) if ended.status.success() => Ok(()),
        Ok(ended) => Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned()),
        Err(error) => Err(format!("systemctl cannot be started: {error}")),
    }
}

/// Who logs out for good takes their systemd along, and all it keeps.
fn linger_hint() {
    let lingers = facts::systemd::look().and_then(|found| found.lingers);
    if lingers == Some(false) {
        print::note(
            "linger is off: after your last logout systemd ends everything of yours, this timer and the keepers \
             with their agents; `loginctl enable-linger` keeps them",
        );
    }
}
