//! Notifications by a command: the user's own one, or `notify-send` for the desktop.
//!
//! Promise: no shell reads the command. The command has a timeout; when it ends or times out, the rest of its process
//! group is killed.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use berth_host::identity::Pidfd;
use berth_store::notifications::EVENT_VARIABLES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::{DeliveryResult, EventNotification};

/// The program that shows a notification on the desktop.
const NOTIFY_SEND: &str = "notify-send";
/// How often to check a process that has no pidfd, so that a wait for it cannot time out.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Runs the user's command: details in its environment, everything as JSON on its standard input.
pub(super) fn run(
    words: &[String],
    told: &EventNotification,
    timeout: Duration,
    until: Instant,
) -> DeliveryResult {
    let Some((program, args)) = words.split_first() else {
        return DeliveryResult::failed("there is no command");
    };
    let mut command = Command::new(program);
    command.args(args).envs(variables(told));
    ended(program, command, told.json(), timeout, until)
}

/// Shows a notification on the desktop, if there is one.
pub(super) fn desktop(told: &EventNotification, timeout: Duration, until: Instant) -> DeliveryResult {
    let Some(bus) = session_bus() else {
        return DeliveryResult::skipped("there is no session bus, so no desktop");
    };
    if !is_in_path(NOTIFY_SEND) {
        return DeliveryResult::skipped(format!("{NOTIFY_SEND} is not in PATH"));
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

/// Runs a program in a process group of its own until it ends or times out.
fn ended(
    program: &str,
    mut command: Command,
    input: Vec<u8>,
    timeout: Duration,
    until: Instant,
) -> DeliveryResult {
    let until = Instant::now().checked_add(timeout).map_or(until, |then| then.min(until));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .current_dir("/");
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return DeliveryResult::failed(format!("cannot run {program}: {error}")),
    };
    // The program may leave its input unread, and a pipe has room for little: this thread ends with the program.
    let stdin = child.stdin.take();
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let in_time = ends_by(child.id(), until);
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        // The child leads its own process group and is not reaped yet, so the group id cannot belong to another one.
        // Processes that it left in the group are killed in either case.
        let _ = kill_process_group(group, Signal::KILL);
    }
    match child.wait() {
        Ok(status) if in_time => judged(program, status),
        Ok(_) => DeliveryResult::failed(format!(
            "{program} did not end within {} s and was killed",
            timeout.as_secs_f32()
        )),
        Err(error) => DeliveryResult::failed(format!("cannot wait for {program}: {error}")),
    }
}

/// Waits until a child has ended, without reaping it. False if it has not ended by then.
fn ends_by(pid: u32, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    if let Ok(held) = Pidfd::open(pid) {
        let wait = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
        return poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&wait)) == Ok(1);
    }
    // The kernel gives no pidfd: check every now and then.
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return false };
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while !matches!(waitid(WaitId::Pid(pid), look), Ok(Some(_))) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    true
}

fn judged(program: &str, status: ExitStatus) -> DeliveryResult {
    if status.success() {
        DeliveryResult::sent(program)
    } else {
        DeliveryResult::failed(format!("{program}: {status}"))
    }
}

/// The variables of a notification. They avoid the prefix of variables that override keys of the config file, or a
/// berth that the command starts would read them as keys.
fn variables(told: &EventNotification) -> impl Iterator<Item = (String, String)> {
    let data = &told.data;
    let all = [
        ("ID", told.id.clone()),
        ("WHAT", told.what.word().to_owned()),
        ("TITLE", told.title.clone()),
        ("TEXT", data.text.clone()),
        ("NEXT", data.next.clone()),
        ("SESSION", data.session.clone()),
        ("NAME", data.name.clone().unwrap_or_default()),
        ("AGENT", data.agent.clone().unwrap_or_default()),
        ("CWD", data.cwd.clone()),
        ("HOST", data.host.clone()),
        ("TURN", data.turn.clone().unwrap_or_default()),
        ("REQUEST", data.request.clone().unwrap_or_default()),
        ("EPOCH", data.epoch.map(|epoch| epoch.to_string()).unwrap_or_default()),
        ("NUMBER", data.event.to_string()),
    ];
    all.into_iter().map(|(name, value)| (format!("{EVENT_VARIABLES}{name}"), value))
}

/// The address of the user's session bus: from the environment, or where systemd puts it.
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
