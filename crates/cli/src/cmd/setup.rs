//! `berth setup`: installs systemd units, and hooks of agents.
//!
//! Promise: --dry-run shows every file before it is written. A second setup changes only files that differ, and a file
//! that berth did not write is left alone. `--remove` removes exactly the files of berth.
//! Not here: the text of the units (see `units`), the files of agents (see `berth_verbs::setup`).

mod agent;
mod units;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_api::Problem;
use berth_host::{disk, facts};

use berth_verbs::setup;

use crate::args::{SetupArgs, SetupClaudeArgs, SetupCodexArgs, SetupSystemdArgs, SetupVerb};
use crate::print;
use units::{MARK, SystemdUnit};

pub(crate) fn run(args: &SetupArgs) -> Result<u8, Problem> {
    match &args.verb {
        SetupVerb::Systemd(args) => systemd(args),
        SetupVerb::Claude(SetupClaudeArgs { how }) => agent::run("claude", *how, setup::claude),
        SetupVerb::Codex(SetupCodexArgs { how }) => agent::run("codex", *how, setup::codex),
    }
}

fn systemd(args: &SetupSystemdArgs) -> Result<u8, Problem> {
    let dir = place()?;
    // --remove removes every unit; the gateway's unit is written only with --gateway.
    let mut units = units::all()?;
    units.retain(|unit| !unit.is_gateway || args.gateway || args.remove);
    let states: Vec<(&SystemdUnit, UnitState)> = units.iter().map(|unit| (unit, state(&dir, unit))).collect();
    let manager = manager();
    if args.dry_run {
        let said = say(&dir, &states, args.remove);
        match &manager {
            Ok(()) => print::note("your systemd can be reached, and would start the units"),
            Err(why) if args.remove || args.force => {
                print::note(&format!("your systemd cannot be reached here: {why}"));
            }
            Err(why) => {
                print::note(&format!("your systemd cannot be reached here, so --force is needed: {why}"));
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
    if let Some((unit, _)) = states.iter().find(|(_, state)| *state == UnitState::Foreign) {
        return Err(foreign(&dir, unit));
    }
    if let Err(why) = &manager
        && !args.force
    {
        return Err(Problem::refused(format!("your systemd cannot be reached here: {why}"))
            .hint("--force writes the files for a later systemd; `berth sweep` does the work by hand"));
    }
    let changed = states.iter().filter(|(_, state)| *state != UnitState::Same);
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

/// State of a unit's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UnitState {
    Missing,
    Same,
    /// Written by berth, with another text.
    Old,
    /// Not written by berth.
    Foreign,
}

fn state(dir: &Path, unit: &SystemdUnit) -> UnitState {
    let path = dir.join(unit.name);
    // A file that cannot be read, a link, or anything else that is not a regular file was not written by berth.
    match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return UnitState::Missing,
        Ok(found) if found.is_file() => {}
        Ok(_) | Err(_) => return UnitState::Foreign,
    }
    match std::fs::read_to_string(&path) {
        Ok(text) if text == unit.text => UnitState::Same,
        Ok(text) if text.lines().next() == Some(MARK) => UnitState::Old,
        Ok(_) | Err(_) => UnitState::Foreign,
    }
}

fn say(dir: &Path, states: &[(&SystemdUnit, UnitState)], removes: bool) -> Result<u8, Problem> {
    let mut text = String::new();
    for (unit, state) in states {
        let what = match (removes, state) {
            (false, UnitState::Missing) => "would be written",
            (false, UnitState::Old) => "would be changed",
            (false, UnitState::Same) => "exists already",
            (true, UnitState::Missing) => "is not there",
            (true, UnitState::Old | UnitState::Same) => "would be removed",
            (_, UnitState::Foreign) => "was not written by berth, and would be left alone",
        };
        text.push_str(&format!("# {}: {what}\n", dir.join(unit.name).display()));
        if !removes {
            text.push_str(&format!("{}\n", unit.text));
        }
    }
    print::text(&text)?;
    match states.iter().find(|(_, state)| *state == UnitState::Foreign) {
        Some((unit, _)) if !removes => Err(foreign(dir, unit)),
        Some(_) | None => Ok(0),
    }
}

fn remove(dir: &Path, states: &[(&SystemdUnit, UnitState)], is_reachable: bool) -> Result<u8, Problem> {
    let ours: Vec<&SystemdUnit> = states
        .iter()
        .filter(|(_, state)| matches!(state, UnitState::Same | UnitState::Old))
        .map(|(unit, _)| *unit)
        .collect();
    for (unit, state) in states {
        if *state == UnitState::Foreign {
            print::note(&format!("{} was not written by berth; left alone", dir.join(unit.name).display()));
        }
    }
    if ours.is_empty() {
        print::note("no unit of berth is set up there");
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
            Problem::refused(format!("cannot remove {}: {error}", path.display()))
                .hint("remove it by hand, then `systemctl --user daemon-reload`")
        })?;
        print::note(&format!("removed {}", path.display()));
    }
    if is_reachable {
        systemctl(&["daemon-reload"])?;
    }
    Ok(0)
}

fn foreign(dir: &Path, unit: &SystemdUnit) -> Problem {
    let path = dir.join(unit.name);
    Problem::refused(format!("{} was not written by berth; nothing was changed", path.display()))
        .hint(format!("move it away; changes of your own belong in {}.d/", path.display()))
}

fn write(dir: &Path, unit: &SystemdUnit) -> Result<(), Problem> {
    let written = std::fs::create_dir_all(dir)
        .and_then(|()| disk::write_atomically(dir, unit.name, unit.text.as_bytes(), true));
    written.map_err(|error| {
        Problem::refused(format!("cannot write {}: {error}", dir.join(unit.name).display()))
            .hint("`berth setup systemd --dry-run` prints the file, for a place of your own")
    })
}

/// The directory of this user's units.
fn place() -> Result<PathBuf, Problem> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    config.map(|config| config.join("systemd/user")).ok_or_else(|| {
        Problem::refused("there is no place for units: neither XDG_CONFIG_HOME nor HOME is set")
            .hint("set HOME")
    })
}

/// Checks that this user's systemd answers; the error is the reason.
fn manager() -> Result<(), String> {
    call(&["show", "--property=Version"]).map_err(|said| said.replace('\n', "; "))
}

fn systemctl(args: &[&str]) -> Result<(), Problem> {
    call(args).map_err(|said| {
        Problem::refused(format!("`systemctl --user {}` failed: {said}", args.join(" ")))
            .hint("the files are written; run the command again when that is fixed")
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

/// Prints a note if linger is off: the user's systemd then ends at the last logout, with all its services.
fn linger_hint() {
    let lingers = facts::systemd::systemd_facts().and_then(|found| found.lingers);
    if lingers == Some(false) {
        print::note(
            "linger is off: after your last logout systemd ends all your processes, this timer and the keepers \
             with their agents; `loginctl enable-linger` keeps them",
        );
    }
}
