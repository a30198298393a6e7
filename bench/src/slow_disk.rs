//! From a key to its echo while the disk of the journal is slow.
//!
//! Promise: the same program on the same disk; strace makes each sync of the keeper take longer, or only watches it, so
//! that both pay for being watched. Another client writes notes all the time, so that there is something to sync.
//! Start with [`measure`].

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use crate::competitors::{self, CurrentBerth, SessionManager};
use crate::measurement::BenchSettings;
use crate::process::BenchProcess;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::terminal::BenchTerminal;
use crate::turns::BenchKeeperClient;
use crate::workspace::{BenchEnvironment, PATIENCE};

/// A new key each time, so that an echo cannot be mistaken for the one before.
const KEYS: &[u8] = b"jkxy";
/// The time a slow disk takes for a sync.
const SLOW: Duration = Duration::from_millis(200);
/// Before each key.
const PAUSE: Duration = Duration::from_millis(5);

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("y", &["berth"])?;
    let keys = bench.pick(1000, 100);
    let (mut quick, mut slow) = (MeasuredSamples::default(), MeasuredSamples::default());
    let mut notes = [0, 0];
    stage.each(|lab, holder| {
        (quick, notes[0]) = type_keys(lab, holder, Duration::ZERO, keys)?;
        (slow, notes[1]) = type_keys(lab, holder, SLOW, keys)?;
        Ok(())
    });
    let mut table = ReportTable::new(&["disk", "p50", "p99", "events meanwhile"]);
    for (name, samples, notes) in [("quick", &quick, notes[0]), ("slow", &slow, notes[1])] {
        let [p50, p99] = [0.5, 0.99].map(|share| cell(samples.quantile(share), " µs"));
        table.row([name.to_owned(), p50, p99, notes.to_string()]);
    }
    Ok(stage.close(ReportSection {
        title: "y. Key to echo with a slow disk",
        method: format!(
            "{keys} keys, {PAUSE:?} between an echo and the next key, while another client changes the session's note \
             as fast as that is accepted. strace watches the keeper; with the slow disk it makes each fsync and \
             fdatasync take {SLOW:?} longer."
        ),
        table,
        verdicts: vec![TargetVerdict::ratio(
            "key to echo p99: slow disk ÷ quick",
            TargetLimit::AtMost(2.0),
            ratio(slow.quantile(0.99), quick.quantile(0.99)),
        )],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

/// The microseconds to each echo, and how many events were recorded meanwhile.
fn type_keys(
    lab: &mut BenchEnvironment,
    holder: &dyn SessionManager,
    delay: Duration,
    keys: usize,
) -> Result<(MeasuredSamples, usize)> {
    let session = lab.start(holder, "echo")?.session;
    let mut terminal = BenchTerminal::open(&holder.attach(lab, &session.name), lab.dir())?;
    terminal.go()?;
    terminal.settle(Duration::from_millis(300), PATIENCE)?;
    let mut client = BenchKeeperClient::open(&CurrentBerth::root(lab), &session.name)?;
    let slowed = SyncSlowdown::attach(session.holder, delay)?;
    let (is_over, notes) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut samples = MeasuredSamples::default();
    let typed = std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<()> {
            while !is_over.load(Ordering::Relaxed) {
                let number = notes.fetch_add(1, Ordering::Relaxed);
                client.note(&format!("note {number}"))?;
            }
            Ok(())
        });
        let typed = (|| {
            for number in 0..keys {
                let key = KEYS[number % KEYS.len()];
                std::thread::sleep(PAUSE);
                terminal.settle(Duration::ZERO, PATIENCE)?;
                let typed_at = Instant::now();
                terminal.type_key(key)?;
                let took = terminal.wait_for(&[key], PATIENCE)? - typed_at;
                samples.push(took.as_secs_f64() * 1e6);
            }
            anyhow::Ok(())
        })();
        is_over.store(true, Ordering::Relaxed);
        typed.and(writer.join().expect("a writer does not panic"))
    });
    drop(slowed);
    drop(terminal);
    lab.stop(holder, &[session])?;
    typed.map(|()| (samples, notes.into_inner()))
}

/// A process whose syncs take longer until this is dropped.
struct SyncSlowdown(Child);

impl SyncSlowdown {
    fn attach(process: BenchProcess, delay: Duration) -> Result<Self> {
        let strace = competitors::find("strace").context("strace is not installed")?;
        let mut command = Command::new(strace);
        command.args(["-f", "-q", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
        if !delay.is_zero() {
            command.arg("-e").arg(format!("inject=fsync,fdatasync:delay_exit={}", delay.as_micros()));
        }
        command.arg("-p").arg(process.0.to_string());
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().context("start strace")?;
        let slowed = Self(child);
        let until = Instant::now() + PATIENCE;
        while !is_traced(process) {
            anyhow::ensure!(Instant::now() < until, "strace cannot watch process {}", process.0);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(slowed)
    }
}

impl Drop for SyncSlowdown {
    fn drop(&mut self) {
        // Told, so that it lets the process go on as it was.
        BenchProcess(self.0.id().cast_signed()).signal(Signal::TERM);
        let _ = self.0.wait();
    }
}

fn is_traced(process: BenchProcess) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.0)).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|pid| pid.trim() != "0"))
}
