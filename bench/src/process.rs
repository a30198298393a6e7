//! Facts about a process from /proc.
//!
//! Promise: a process that ended, also one not yet reaped, reads as `None`.
//! Start with [`BenchProcess`].

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Kernel ticks per second: 100 on every common Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process, by its number. The bench is the reaper of all processes it looks at, so the kernel does not give a number
/// to another process before the bench has reaped it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BenchProcess(pub(crate) i32);

/// Memory in KiB.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessMemory {
    /// Shared pages counted by share.
    pub(crate) pss: f64,
    /// The part of it that no file backs.
    pub(crate) anonymous: f64,
}

impl BenchProcess {
    /// The fields of /proc/PID/stat from the state on.
    fn stat(self) -> Option<Vec<String>> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        let fields: Vec<String> = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect();
        if matches!(fields[0].as_str(), "Z" | "X") { None } else { Some(fields) }
    }

    pub(crate) fn is_alive(self) -> bool {
        self.stat().is_some()
    }

    pub(crate) fn parent(self) -> Option<Self> {
        self.stat()?.get(1)?.parse().ok().map(Self)
    }

    /// Time on a CPU, children excluded.
    pub(crate) fn cpu_seconds(self) -> Option<f64> {
        let stat = self.stat()?;
        let ticks: f64 = stat.get(11)?.parse::<f64>().ok()? + stat.get(12)?.parse::<f64>().ok()?;
        Some(ticks / TICKS_PER_SECOND)
    }

    /// Time on a CPU of the threads that are alive, to the nanosecond.
    pub(crate) fn cpu_fine(self) -> Option<Duration> {
        let mut total = Duration::ZERO;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.0)).ok()?.flatten() {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            total += Duration::from_nanos(text.split(' ').next()?.parse().ok()?);
        }
        Some(total)
    }

    pub(crate) fn memory(self) -> Option<ProcessMemory> {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.0)).ok()?;
        let kib = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse::<f64>().ok()
        };
        Some(ProcessMemory { pss: kib("Pss:")?, anonymous: kib("Pss_Anon:")? })
    }

    pub(crate) fn command_line(self) -> String {
        let words = std::fs::read(format!("/proc/{}/cmdline", self.0)).unwrap_or_default();
        String::from_utf8_lossy(&words).replace('\0', " ").trim().to_owned()
    }

    /// A signal to a process that has just gone is not an error.
    pub(crate) fn signal(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.0) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Every process below this one that is alive, and every one that has the directory in its
/// environment: a holder may have moved out of the family, but not out of its environment.
pub(crate) fn ours(dir: &str) -> Vec<BenchProcess> {
    let me = BenchProcess(std::process::id().cast_signed());
    let all: Vec<BenchProcess> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(BenchProcess))
        .collect();
    let marked = |process: &BenchProcess| {
        let environment = std::fs::read(format!("/proc/{}/environ", process.0)).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(dir)
    };
    let below = |process: &BenchProcess| {
        let mut ancestors = std::iter::successors(process.parent(), |process| process.parent());
        ancestors.any(|ancestor| ancestor == me)
    };
    all.into_iter()
        .filter(|process| *process != me && process.is_alive() && (below(process) || marked(process)))
        .collect()
}
