//! `berth hook`: the command that agents call at each event.
//!
//! Promise: the exit code is always 0, within a time limit. Standard output has only the guard's message, in the
//! agent's own format. The command reads no config, makes no state directory and starts no process.
//! Not here: handling an event (see `berth_verbs::hook`).
//! Start with [`early`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_store::killpoint;
use berth_verbs::hook::{self, HookCall, HookSource, MAX_EVENT_BYTES};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::args::HookArgs;
use crate::print;

/// Name of the verb that agents call.
pub(crate) const VERB: &str = "hook";
/// Timeout for reading the event: a process that holds standard input open and writes nothing is not an agent.
const INPUT_PATIENCE: Duration = Duration::from_secs(2);
/// Size of each read.
const READ_BYTES: usize = 64 << 10;

/// Handles a call by an agent before the rest of this program starts. Returns false if the arguments are not such a
/// call, as in `berth hook --help`.
pub(crate) fn early() -> bool {
    let args: Vec<OsString> = std::env::args_os().skip(2).collect();
    let Some((call, notice)) = understand(&args) else { return false };
    take(&call, notice);
    true
}

/// Handles a call that has global options of berth before the verb.
pub(crate) fn run(args: &HookArgs) -> Result<u8, Problem> {
    let source = HookSource::of(&args.agent)
        .ok_or_else(|| Problem::usage(format!("`{}` is not an agent with hooks", args.agent)))?;
    let call = HookCall { source, home: args.home.clone(), config: args.config.clone() };
    take(&call, args.event.clone());
    Ok(0)
}

fn take(call: &HookCall, notice: Option<String>) {
    // A bug here must not disturb the agent, and a panic message could print parts of the event.
    std::panic::set_hook(Box::new(|_| {}));
    let _ = std::panic::catch_unwind(move || {
        let event = notice.map(String::into_bytes).or_else(read_event);
        killpoint::reached("hook");
        if let Some(said) = event.and_then(|event| hook::handle_event(call, &event)) {
            let _ = print::message(format!("{said}\n").as_bytes());
        }
    });
}

/// Parses `AGENT [--home DIR] [--config FILE] [JSON]`. Unknown words are skipped: hooks that a newer berth installed
/// may call an older one.
fn understand(args: &[OsString]) -> Option<(HookCall, Option<String>)> {
    let mut args = args.iter();
    let source = args.next()?.to_str().and_then(HookSource::of)?;
    let mut call = HookCall { source, home: None, config: None };
    let mut notice = None;
    while let Some(word) = args.next() {
        match word.to_str() {
            Some("--home") => call.home = args.next().map(PathBuf::from),
            Some("--config") => call.config = args.next().map(PathBuf::from),
            Some("--help" | "-h") => return None,
            Some(json) if json.starts_with('{') => notice = Some(json.to_owned()),
            Some(_) | None => {}
        }
    }
    Some((call, notice))
}

/// Reads the event from standard input; `None` if it is too large or does not end before the timeout.
fn read_event() -> Option<Vec<u8>> {
    let until = Instant::now() + INPUT_PATIENCE;
    let mut event = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
        match poll(&mut fds, Some(&left)) {
            Ok(0) => return None,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        event.reserve(READ_BYTES);
        match rustix::io::read(rustix::stdio::stdin(), spare_capacity(&mut event)) {
            Ok(0) => return Some(event),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        if event.len() as u64 > MAX_EVENT_BYTES {
            return None;
        }
    }
}
