//! Watchdog thread, which never waits for the others: it handles signals, and restarts a gateway that is stuck.
//!
//! Promise: every listener beats, in the task that accepts clients. If one has not for [`STALL_TIMEOUT`], the process
//! replaces its own program in place (`execve`) and continues with the same pid, lock and listening sockets. A client
//! that connects meanwhile waits and is served by the new image. Sessions are not in this process and notice nothing. A
//! signal that arrives in between waits for the new image, so a stuck gateway can be ended as well.
//! Not here: the new image's use of what it inherits (see `listeners`). Reasons: docs/design/gateway.md.
//! Start with [`SupervisorSetup::start`].

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use berth_host::signals::SignalFd;
use berth_host::watchdog::Watchdog;
use berth_store::killpoint;
use berth_verbs::keepers;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tokio_util::sync::CancellationToken;

use super::access_log::AccessLog;
use super::listeners::BoundListeners;
use super::tls::ReloadableTls;
use super::{END_PATIENCE, systemd};

/// Time without a beat after which a listener counts as stuck. On a machine that swaps everything is slow, and a
/// restart helps little.
const STALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of beats and checks within that time.
const BEATS: u32 = 8;
/// Time that an orderly shutdown may take beyond its own timeout.
const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// Argument that tells a new image its inherited descriptors.
pub(super) const INHERIT_FLAG: &str = "--inherit=";
/// Exit code of a gateway that is stuck and cannot be restarted.
const STUCK_CODE: i32 = 70;

/// Heartbeat of one listener.
#[derive(Clone, Debug)]
pub(super) struct ListenerHeartbeat {
    name: Arc<str>,
    beats: Arc<AtomicU64>,
    /// Interval between beats.
    pub(super) every: Duration,
}

impl ListenerHeartbeat {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.into(), beats: Arc::default(), every: beat_every() }
    }

    pub(super) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }
}

fn beat_every() -> Duration {
    killpoint::stuck_after(STALL_TIMEOUT) / BEATS
}

/// A prepared restart in place.
#[derive(Debug)]
pub(super) struct InPlaceRestart(Option<Watchdog>);

impl InPlaceRestart {
    /// Prepares everything that a restart needs, because a stuck process may not be able to find it. Without arguments
    /// there is no restart.
    pub(super) fn prepare(args: &[OsString], listeners: &BoundListeners, restarts: u64) -> io::Result<Self> {
        if args.is_empty() {
            return Ok(Self(None));
        }
        let fds = listeners.fds();
        let numbers: Vec<String> =
            std::iter::once(restarts.to_string()).chain(fds.iter().map(ToString::to_string)).collect();
        let is_old = |arg: &&OsString| arg.to_string_lossy().starts_with(INHERIT_FLAG);
        let mut args: Vec<OsString> = args.iter().filter(|arg| !is_old(arg)).cloned().collect();
        args.push(format!("{INHERIT_FLAG}{}", numbers.join(",")).into());
        Watchdog::install(&args, &fds).map(|watchdog| Self(Some(watchdog)))
    }
}

/// Signals that the watchdog handles.
#[derive(Debug)]
pub(super) struct SupervisorSetup {
    signals: SignalFd,
}

impl SupervisorSetup {
    /// Blocks the signals in this thread and in all that it starts from now on, so that only the watchdog receives
    /// them.
    pub(super) fn new() -> io::Result<Self> {
        let ours = [Signal::TERM, Signal::INT, Signal::HUP].map(Signal::as_raw);
        // A lost peer shows as an error of the write.
        berth_host::signals::ignore_signals(&[Signal::PIPE.as_raw()])?;
        Ok(Self { signals: SignalFd::new(&ours)? })
    }

    /// Starts the watchdog thread.
    pub(super) fn start(
        self,
        hearts: Vec<ListenerHeartbeat>,
        again: InPlaceRestart,
        ending: CancellationToken,
        log: Arc<AccessLog>,
        tls: Option<Arc<ReloadableTls>>,
    ) -> io::Result<()> {
        let watch = Supervisor { guard: self, hearts, again, ending, log, tls, ends_at: None };
        std::thread::Builder::new().name("guard".to_owned()).spawn(move || watch.run())?;
        Ok(())
    }
}

struct Supervisor {
    guard: SupervisorSetup,
    hearts: Vec<ListenerHeartbeat>,
    again: InPlaceRestart,
    ending: CancellationToken,
    log: Arc<AccessLog>,
    tls: Option<Arc<ReloadableTls>>,
    /// Time at which the shutdown has to be over.
    ends_at: Option<Instant>,
}

impl Supervisor {
    fn run(mut self) {
        let every = systemd::wants_signs_every().map_or_else(beat_every, |signs| signs.min(beat_every()));
        // The time is counted in this thread's own rounds: a process that was suspended, or a machine that slept,
        // missed none. A round that a signal cut short counts for its actual length.
        let mut missed: Vec<(u64, Duration)> = vec![(0, Duration::ZERO); self.hearts.len()];
        loop {
            let begun = Instant::now();
            self.wait(every);
            let waited = begun.elapsed().min(every);
            while let Ok(Some(signal)) = self.guard.signals.read() {
                self.on_signal(signal);
            }
            if let Some(ends_at) = self.ends_at {
                if Instant::now() > ends_at {
                    // A client or a verb delays the end, and neither is lost with the process.
                    std::process::exit(0);
                }
                continue;
            }
            keepers::reap_keepers();
            for (heart, (seen, since)) in self.hearts.iter().zip(&mut missed) {
                let beats = heart.beats.load(Ordering::Relaxed);
                *since = if beats == *seen { *since + waited } else { Duration::ZERO };
                *seen = beats;
            }
            let longest = missed.iter().zip(&self.hearts).max_by_key(|((_, since), _)| *since);
            match longest {
                Some(((_, since), heart)) if *since >= killpoint::stuck_after(STALL_TIMEOUT) => {
                    self.start_again(&heart.name, *since);
                }
                // Only a responsive gateway notifies systemd.
                Some(_) | None => systemd::tell("WATCHDOG=1"),
            }
        }
    }

    fn wait(&self, every: Duration) {
        let mut fds = [PollFd::new(&self.guard.signals, PollFlags::IN)];
        let timeout =
            Timespec { tv_sec: every.as_secs().cast_signed(), tv_nsec: every.subsec_nanos().into() };
        let _ = poll(&mut fds, Some(&timeout));
    }

    fn on_signal(&mut self, signal: i32) {
        if signal != Signal::HUP.as_raw() {
            systemd::tell("STOPPING=1");
            let at_once = self.ends_at.is_some();
            self.ends_at =
                Some(Instant::now() + if at_once { Duration::ZERO } else { END_PATIENCE + LAST_PATIENCE });
            self.ending.cancel();
            return;
        }
        let (Some(tls), log) = (self.tls.clone(), self.log.clone()) else { return };
        // Reading files may block, and this thread must not wait.
        let _ = std::thread::Builder::new().name("tls".to_owned()).spawn(move || match tls.reload() {
            Ok(()) => log.say("reloaded", "the certificate and its key were read again"),
            Err(problem) => log.say("kept its certificate", &problem.what),
        });
    }

    fn start_again(&self, listener: &str, since: Duration) {
        let since = since.as_secs_f32();
        self.log.say(
            "stands still",
            &format!("{listener} accepted no connection for {since:.1} s; the gateway restarts in place"),
        );
        self.log.flush();
        let error = match &self.again.0 {
            Some(watchdog) => watchdog.restart_now().to_string(),
            None => "a restart was not prepared".to_owned(),
        };
        self.log.say("ends", &format!("the gateway is stuck and cannot be restarted: {error}"));
        self.log.flush();
        std::process::exit(STUCK_CODE);
    }
}
