//! A private place for one measurement: a directory, a fifo on which agents report, and the
//! processes started in it.
//!
//! Promise: nothing outside the directory is touched, and when the lab is closed every process
//! that was started in it is gone; those that had to be killed are named.
//! Relied upon: the bench is the subreaper of everything it starts (see `main`).
//! Start with [`BenchEnvironment::start`].

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Signal, WaitOptions, waitpid};
use serde_json::Value;

use crate::competitors::SessionManager;
use crate::process::{self, BenchProcess};
use crate::terminal::readable;

/// How long anything may take before we call it lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How long a process that was told to end may take before it counts as left behind.
const LEAVING: Duration = Duration::from_secs(3);
/// How often we look for something that cannot be waited for.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A private place for one measurement.
pub(crate) struct BenchEnvironment {
    dir: PathBuf,
    fake_agent: PathBuf,
    reports: File,
    unread: Vec<u8>,
    pending: VecDeque<AgentReport>,
    names: u32,
}

/// One line that an agent wrote to the fifo.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgentReport {
    /// 1 for the first of this agent.
    pub(crate) number: u64,
    pub(crate) agent: BenchProcess,
    pub(crate) at: Instant,
}

/// A session that runs.
#[derive(Debug, Clone)]
pub(crate) struct BenchSession {
    /// The name that the holder gave the session.
    pub(crate) name: String,
    pub(crate) agent: BenchProcess,
    /// The process that has the other end of the agent's terminal.
    pub(crate) holder: BenchProcess,
}

/// How long a start took.
pub(crate) struct StartTiming {
    pub(crate) session: BenchSession,
    /// From spawning the command to the agent's first act.
    pub(crate) running_after: Duration,
    /// From spawning the command until it had returned and the agent had acted.
    pub(crate) returned_after: Duration,
}

/// A start command under way.
pub(crate) struct PendingStart {
    wanted: String,
    said: PathBuf,
    command: Child,
    pub(crate) began_at: Instant,
}

impl PendingStart {
    fn complaint(&self) -> String {
        std::fs::read_to_string(self.said.with_extension("complaint")).unwrap_or_default().trim().to_owned()
    }
}

impl BenchEnvironment {
    /// Makes a lab inside this directory.
    pub(crate) fn new(base: &Path, name: &str, fake_agent: &Path) -> Result<Self> {
        let dir = base.join(name);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&dir);
        made.with_context(|| format!("create the directory {}", dir.display()))?;
        let fifo = dir.join("reports");
        make_fifo(&fifo)?;
        // Open for both, so that it never ends when an agent closes its side.
        let reports = File::options().read(true).write(true).open(&fifo).context("open the reports")?;
        let fake_agent = fake_agent.to_path_buf();
        Ok(Self { dir, fake_agent, reports, unread: Vec::new(), pending: VecDeque::new(), names: 0 })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A command that knows nothing of the user's own sessions and settings.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env("SHELL", "/bin/sh");
        for kept in ["PATH", "USER"] {
            command.envs(std::env::var_os(kept).map(|value| (kept, value)));
        }
        // Besides keeping sockets here, this is the mark by which leftovers are found.
        command.env("HOME", &self.dir).env("XDG_RUNTIME_DIR", &self.dir).current_dir(&self.dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// The agent's words: report first, then follow the script.
    pub(crate) fn agent(&self, script: &str) -> Vec<String> {
        let report = format!("record:{}:1", self.dir.join("reports").display());
        let mut words = vec![self.fake_agent.display().to_string(), report.clone()];
        words.extend(script.split_whitespace().map(|word| word.replace("REPORT", &report)));
        words
    }

    fn fresh_name(&mut self) -> String {
        self.names += 1;
        format!("s{}", self.names)
    }

    /// A file that does not exist yet.
    pub(crate) fn fresh_path(&mut self) -> PathBuf {
        let name = self.fresh_name();
        self.dir.join(name)
    }

    /// Spawns the start command and does not wait for it.
    pub(crate) fn launch(&mut self, holder: &dyn SessionManager, script: &str) -> Result<PendingStart> {
        let wanted = self.fresh_name();
        let said = self.dir.join(format!("{wanted}.said"));
        let mut command = holder.start(self, &wanted, &self.agent(script));
        // Files and not pipes: a holder that keeps its stdout open must not hold us up.
        let create = |path: &Path| File::create(path).with_context(|| format!("create {}", path.display()));
        command.stdout(create(&said)?).stderr(create(&said.with_extension("complaint"))?);
        let began_at = Instant::now();
        let command = command.spawn().with_context(|| format!("spawn {}", holder.name()))?;
        Ok(PendingStart { wanted, said, command, began_at })
    }

    /// Starts a session and waits until its agent runs and the command has returned.
    pub(crate) fn start(&mut self, holder: &dyn SessionManager, script: &str) -> Result<StartTiming> {
        let launch = self.launch(holder, script)?;
        let began_at = launch.began_at;
        let Some(report) = self.report(Instant::now() + PATIENCE)? else {
            bail!("the agent did not run within {PATIENCE:?}; {} said: {}", holder.name(), launch.complaint())
        };
        let name = self.finish(holder, launch)?;
        let returned_after = began_at.elapsed();
        let session = self.session(name, report)?;
        Ok(StartTiming { session, running_after: report.at - began_at, returned_after })
    }

    /// Waits for a start command and returns what the session is called.
    pub(crate) fn finish(&self, holder: &dyn SessionManager, mut launch: PendingStart) -> Result<String> {
        let status = launch.command.wait().with_context(|| format!("wait for {}", holder.name()))?;
        if !status.success() {
            bail!("{} failed to start a session ({status}): {}", holder.name(), launch.complaint());
        }
        let said = std::fs::read_to_string(&launch.said).context("read what a start command said")?;
        Ok(holder.session_name(&launch.wanted, &said))
    }

    /// The session of an agent that has reported.
    pub(crate) fn session(&self, name: String, report: AgentReport) -> Result<BenchSession> {
        let holder = report.agent.parent().with_context(|| format!("the agent of {name} is gone already"))?;
        Ok(BenchSession { name, agent: report.agent, holder })
    }

    /// Ends sessions and waits until their processes are gone.
    pub(crate) fn stop(&self, holder: &dyn SessionManager, sessions: &[BenchSession]) -> Result<()> {
        holder.stop(sessions);
        for session in sessions {
            gone(session.agent)
                .with_context(|| format!("end session {} of {}", session.name, holder.name()))?;
            if !holder.is_shared() {
                gone(session.holder).with_context(|| format!("end the holder {}", holder.name()))?;
            }
        }
        reap();
        Ok(())
    }

    /// The next report of any agent; `None` when the deadline passed first.
    pub(crate) fn report(&mut self, deadline: Instant) -> Result<Option<AgentReport>> {
        while self.pending.is_empty() {
            if !readable(&self.reports, deadline)? {
                return Ok(None);
            }
            let at = Instant::now();
            let mut buffer = [0; 4096];
            let count = self.reports.read(&mut buffer).context("read the reports")?;
            self.unread.extend_from_slice(&buffer[..count]);
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let line: Value = serde_json::from_slice(&line).context("understand a report")?;
                let number = line["n"].as_u64().context("a report without a number")?;
                let agent = line["pid"]
                    .as_i64()
                    .and_then(|pid| pid.try_into().ok())
                    .context("a report without a pid")?;
                self.pending.push_back(AgentReport { number, agent: BenchProcess(agent), at });
            }
        }
        Ok(self.pending.pop_front())
    }

    /// Waits for a later report of one agent, when no other reports.
    pub(crate) fn report_of(
        &mut self,
        agent: BenchProcess,
        number: u64,
        patience: Duration,
    ) -> Result<Option<Instant>> {
        match self.report(Instant::now() + patience)? {
            Some(report) if report.agent == agent && report.number == number => Ok(Some(report.at)),
            Some(report) => bail!("expected report {number} of {agent:?}, got {report:?}"),
            None => Ok(None),
        }
    }

    /// Ends the lab and names what had to be killed to get there.
    pub(crate) fn close(&self) -> Vec<String> {
        clean(&self.dir, LEAVING)
    }
}

/// Kills every process that has this directory as its mark, removes the directory, and names the processes that were
/// killed. A process on its way out gets a moment to go by itself.
pub(crate) fn clean(dir: &Path, moment: Duration) -> Vec<String> {
    let mark = dir.display().to_string();
    let deadline = Instant::now() + moment;
    while Instant::now() < deadline && !process::ours(&mark).is_empty() {
        reap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let left = process::ours(&mark);
    let names = left.iter().map(|process| format!("{} ({})", process.command_line(), process.0)).collect();
    let mut left = left;
    while !left.is_empty() {
        left.iter().for_each(|process| process.signal(Signal::KILL));
        std::thread::sleep(Duration::from_millis(20));
        reap();
        left = process::ours(&mark);
    }
    let _ = std::fs::remove_dir_all(dir);
    names
}

/// Takes the exit status of every orphan that ended. Called only where no command of ours is
/// still to be waited for, because it would be taken too.
pub(crate) fn reap() {
    while let Ok(Some(_)) = waitpid(None, WaitOptions::NOHANG) {}
}

/// Waits until a process has ended.
fn gone(process: BenchProcess) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while process.is_alive() {
        if Instant::now() > deadline {
            bail!("process {} ({}) does not end", process.0, process.command_line());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

pub(crate) fn make_fifo(path: &Path) -> Result<()> {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .with_context(|| format!("make the fifo {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_left_behind_in_a_lab_is_named_and_ended_with_it() {
        let base = std::env::temp_dir();
        let lab = BenchEnvironment::new(
            &base,
            &format!("bench-test-{}", std::process::id()),
            Path::new("fake-agent"),
        )
        .unwrap();
        let mut left = lab.command(Path::new("sleep")).arg("1000").spawn().unwrap();
        let named = clean(lab.dir(), Duration::ZERO);
        assert_eq!(named, [format!("sleep 1000 ({})", left.id())]);
        assert!(!lab.dir().exists());
        // Reaped already, so there is no child to wait for.
        assert!(left.wait().is_err());
    }
}
