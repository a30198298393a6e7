//! `berth hook`: what agents call when something happens.
//!
//! Promise: it ends with 0 whatever happens, and in time; on standard output there is only what the guard has to say,
//! in the agent's own form. It reads no config, makes no state directory and starts nothing.
//! Not here: what is done with an event (`verbs::hook`).
//! Start with [`early`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_api::{Code, Problem};
use berth_store::killpoint;
use berth_verbs::hook::{self, Call, MAX_EVENT_BYTES, Source};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::args::Hook;
use crate::print;

/// The verb that agents call.
pub(crate) const VERB: &str = "hook";
/// How long an agent may take to say what happened. Whoever holds our input open and says nothing is none.
const INPUT_PATIENCE: Duration = Duration::from_secs(2);
/// How much is read at a time.
const READ_BYTES: usize = 64 << 10;

/// Does what was called for, before anything else of this program begins. False: that is no hook, but somebody who
/// wants to know what it is.
pub(crate) fn early() -> bool {
    let args: Vec<OsString> = std::env::args_os().skip(2).collect();
    let Some((call, notice)) = understand(&args) else { return false };
    take(&call, notice);
    true
}

/// The same for who gave options of berth's own first.
pub(crate) fn run(args: &Hook) -> Result<u8, Problem> {
    let source = Source::of(&args.agent)
        .ok_or_else(|| Problem::new(Code::Usage, format!("`{}` is not an agent with hooks", args.agent)))?;
    let call = Call { source, home: args.home.clone(), config: args.config.clone() };
    take(&call, args.event.clone());
    Ok(0)
}

fn take(call: &Call, notice: Option<String>) {
    // Whatever is wrong with us is not the agent's trouble; and nothing of the event is printed.
    std::panic::set_hook(Box::new(|_| {}));
    let _ = std::panic::catch_unwind(move || {
        let event = notice.map(String::into_bytes).or_else(read_event);
        killpoint::reached("hook");
        if let Some(said) = event.and_then(|event| hook::take(call, &event)) {
            let _ = print::message(format!("{said}\n").as_bytes());
        }
    });
}

/// `AGENT [--home DIR] [--config FILE] [JSON]`. What is not known is passed over: an older berth may be called by
/// what a newer one installed.
fn understand(args: &[OsString]) -> Option<(Call, Option<String>)> {
    let mut args = args.iter();
    let source = args.next()?.to_str().and_then(Source::of)?;
    let mut call = Call { source, home: None, config: None };
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

/// What the agent says, if it is not too much and comes to an end in time.
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
