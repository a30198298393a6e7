//! The one thread that never waits for the others: signals, and what happens when the gateway stands still.
//!
//! Promise: every listener beats, in the task that lets clients in; if one has not for [`STUCK_AFTER`], the process
//! replaces its own program in place (`execve`) and goes on with the same pid, lock and listening sockets: who
//! connects meanwhile waits and is served by the new image. Sessions notice nothing: they are not in this process.
//! A signal that comes in between waits for the new image, so a gateway that stands still can be ended as well.
//! Not here: what the new image does with what it inherits (see `listeners`). Why: docs/design/gateway.md.
//! Start with [`Guard::start`].

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use berth_host::signals::SignalFd;
use berth_host::watchdog::Watchdog;
use berth_keeper::start;
use berth_store::killpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tokio_util::sync::CancellationToken;

use super::listeners::Listeners;
use super::log::Log;
use super::tls::Tls;
use super::{END_PATIENCE, systemd};

/// How long a listener may stand still. A machine that swaps is slow, too, and starting again helps it little.
const STUCK_AFTER: Duration = Duration::from_secs(20);
/// How often it beats, and is looked at, within that time.
const BEATS: u32 = 8;
/// How long an orderly end may take beyond what it allows itself.
const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// The argument by which a new image is told what it inherits.
pub(super) const INHERIT_FLAG: &str = "--inherit=";
/// The exit code of a gateway that stands still and cannot be started again.
const STUCK_CODE: i32 = 70;

/// The sign of life of one listener.
#[derive(Clone, Debug)]
pub(super) struct Heart {
    name: Arc<str>,
    beats: Arc<AtomicU64>,
    /// How often it is to beat.
    pub(super) every: Duration,
}

impl Heart {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.into(), beats: Arc::default(), every: beat_every() }
    }

    pub(super) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }
}

fn beat_every() -> Duration {
    killpoint::stuck_after(STUCK_AFTER) / BEATS
}

/// A way to start again in place.
#[derive(Debug)]
pub(super) struct Again(Option<Watchdog>);

impl Again {
    /// Prepares all that is needed, so that nothing has to be found out when it is too late. Who gives no arguments
    /// is not started again.
    pub(super) fn prepare(args: &[OsString], listeners: &Listeners, restarts: u64) -> io::Result<Self> {
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

/// What is needed to look after the others.
#[derive(Debug)]
pub(super) struct Guard {
    signals: SignalFd,
}

impl Guard {
    /// Takes the signals to itself, in this thread and all that it starts from now on.
    pub(super) fn new() -> io::Result<Self> {
        let ours = [Signal::TERM, Signal::INT, Signal::HUP].map(Signal::as_raw);
        // Who is gone is noticed where it is written to.
        berth_host::signals::ignore(&[Signal::PIPE.as_raw()])?;
        Ok(Self { signals: SignalFd::new(&ours)? })
    }

    /// Begins to look after everything.
    pub(super) fn start(
        self,
        hearts: Vec<Heart>,
        again: Again,
        ending: CancellationToken,
        log: Arc<Log>,
        tls: Option<Arc<Tls>>,
    ) -> io::Result<()> {
        let watch = Watch { guard: self, hearts, again, ending, log, tls, ends_at: None };
        std::thread::Builder::new().name("guard".to_owned()).spawn(move || watch.run())?;
        Ok(())
    }
}

struct Watch {
    guard: Guard,
    hearts: Vec<Heart>,
    again: Again,
    ending: CancellationToken,
    log: Arc<Log>,
    tls: Option<Arc<Tls>>,
    /// When the end has to be over.
    ends_at: Option<Instant>,
}

impl Watch {
    fn run(mut self) {
        let every = systemd::wants_signs_every().map_or_else(beat_every, |signs| signs.min(beat_every()));
        // What is counted is our own turns: a process that was suspended, or a machine that slept, missed none. A turn
        // that a signal cut short counts for what it was.
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
                    // What keeps it is a client or a verb, and neither is lost with it.
                    std::process::exit(0);
                }
                continue;
            }
            start::collect();
            for (heart, (seen, since)) in self.hearts.iter().zip(&mut missed) {
                let beats = heart.beats.load(Ordering::Relaxed);
                *since = if beats == *seen { *since + waited } else { Duration::ZERO };
                *seen = beats;
            }
            let longest = missed.iter().zip(&self.hearts).max_by_key(|((_, since), _)| *since);
            match longest {
                Some(((_, since), heart)) if *since >= killpoint::stuck_after(STUCK_AFTER) => {
                    self.start_again(&heart.name, *since);
                }
                // Only who could be reached is alive.
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
        // Files may be anywhere, and this thread waits for nothing.
        let _ = std::thread::Builder::new().name("tls".to_owned()).spawn(move || match tls.reload() {
            Ok(()) => log.say("reloaded", "the certificate and its key were read again"),
            Err(problem) => log.say("kept its certificate", &problem.what),
        });
    }

    fn start_again(&self, listener: &str, since: Duration) {
        let since = since.as_secs_f32();
        self.log.say(
            "stands still",
            &format!("{listener} accepted no connection for {since:.1} s; it starts again in place"),
        );
        self.log.flush();
        let error = match &self.again.0 {
            Some(watchdog) => watchdog.restart_now().to_string(),
            None => "it was not prepared".to_owned(),
        };
        self.log.say("ends", &format!("it stands still and cannot be started again: {error}"));
        self.log.flush();
        std::process::exit(STUCK_CODE);
    }
}
