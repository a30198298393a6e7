//! A person's own command, and the desktop, which is told by one.
//!
//! Promise: no shell reads anything; the program and what it started have their time, and are killed after it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use berth_host::identity::Pidfd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Came, Notification};

/// What tells the desktop.
const NOTIFY_SEND: &str = "notify-send";

/// Runs a person's command: details in its environment, everything as JSON on its standard input.
pub(super) fn run(words: &[String], told: &Notification, timeout: Duration, until: Instant) -> Came {
    let Some((program, args)) = words.split_first() else { return Came::failed("there is no command") };
    let mut command = Command::new(program);
    command.args(args).envs(variables(told));
    ended(program, command, told.json(), timeout, until)
}

/// Tells the desktop, if there is one.
pub(super) fn desktop(told: &Notification, timeout: Duration, until: Instant) -> Came {
    let Some(bus) = session_bus() else { return Came::skipped("there is no session bus, so no desktop") };
    if !is_in_path(NOTIFY_SEND) {
        return Came::skipped(format!("{NOTIFY_SEND} is not in PATH"));
    }
    let urgency = if told.what.is_urgent() { "critical" } else { "normal" };
    let mut command = Command::new(NOTIFY_SEND);
    command.env("DBUS_SESSION_BUS_ADDRESS", bus);
    command.args([
        "--app-name=berth",
        "--urgency",
        urgency,
        "--",
        &told.title,
        &without_markup(&told.lines()),
    ]);
    ended(NOTIFY_SEND, command, Vec::new(), timeout, until)
}

/// Runs a program in a group of its own until it ends or its time is up.
fn ended(program: &str, mut command: Command, input: Vec<u8>, timeout: Duration, until: Instant) -> Came {
    let until = until.min(Instant::now() + timeout);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .current_dir("/");
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Came::failed(format!("cannot run {program}: {error}")),
    };
    let held = Pidfd::open(child.id());
    // It may not read, and a pipe has an end: this thread ends with the program that should.
    let stdin = child.stdin.take();
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let left = until.saturating_duration_since(Instant::now());
    let wait = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
    let in_time = match &held {
        Ok(held) => poll(&mut [PollFd::new(held, PollFlags::IN)], Some(&wait)) == Ok(1),
        Err(_) => false,
    };
    if !in_time && let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        // It was made the leader of a group of its own, and is not reaped yet: the group is still its own.
        let _ = kill_process_group(group, Signal::KILL);
    }
    match child.wait() {
        Ok(status) if in_time => judged(program, status),
        Ok(_) => {
            Came::failed(format!("{program} did not end within {} s and was killed", timeout.as_secs_f32()))
        }
        Err(error) => Came::failed(format!("cannot wait for {program}: {error}")),
    }
}

fn judged(program: &str, status: ExitStatus) -> Came {
    if status.success() { Came::sent(program) } else { Came::failed(format!("{program}: {status}")) }
}

fn variables(told: &Notification) -> Vec<(&'static str, String)> {
    let data = &told.data;
    vec![
        ("BERTH_NOTIFY_ID", told.id.clone()),
        ("BERTH_NOTIFY_WHAT", told.what.word().to_owned()),
        ("BERTH_NOTIFY_TITLE", told.title.clone()),
        ("BERTH_NOTIFY_TEXT", data.text.clone()),
        ("BERTH_NOTIFY_NEXT", data.next.clone()),
        ("BERTH_NOTIFY_SESSION", data.session.clone()),
        ("BERTH_NOTIFY_NAME", data.name.clone().unwrap_or_default()),
        ("BERTH_NOTIFY_AGENT", data.agent.clone().unwrap_or_default()),
        ("BERTH_NOTIFY_CWD", data.cwd.clone()),
        ("BERTH_NOTIFY_HOST", data.host.clone()),
        ("BERTH_NOTIFY_TURN", data.turn.clone().unwrap_or_default()),
        ("BERTH_NOTIFY_EVENT", data.event.to_string()),
    ]
}

/// The address of the person's session bus: given, or where systemd puts it.
fn session_bus() -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let usual = || {
        let path = PathBuf::from(set("XDG_RUNTIME_DIR")?).join("bus");
        path.exists().then(|| format!("unix:path={}", path.display()))
    };
    set("DBUS_SESSION_BUS_ADDRESS").or_else(usual)
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Desktops take a little HTML for markup.
fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
