//! `berth demo`: shows a session that survives a lost connection and a killed keeper.
//!
//! Promise: real processes run in a new state directory; at the end, and after a signal, the processes are ended and
//! the directory is removed.
//! Not here: the scripted agent (see `agent`).

mod agent;

use std::cell::Cell;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_host::identity::{Pidfd, ProcessIdentity, ProcessLiveness};
use berth_host::pty::Pty;
use berth_host::signals::SignalFd;
use berth_host::spawn::{ChildStdio as SpawnStdio, SpawnOptions, spawn};
use rustix::process::Signal;

use crate::args;
use crate::print;
use crate::safe_text::SafeText;

/// Name of the demo's session.
const NAME: &str = "builder";
/// The prompt of the first turn.
const PROMPT: &str = "fix the tests";
/// Pause before each step, for reading the one before.
const TO_READ: Duration = Duration::from_secs(1);
/// Limit of each wait of the demo.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(args: &args::DemoArgs) -> Result<u8, Problem> {
    if let Some(dir) = &args.agent {
        return agent::run(dir);
    }
    let demo = DemoRun::new()?;
    let played = play(&demo);
    match demo.signalled() {
        // Dropping the demo cleans up after an interruption at any step.
        Some(signal) => Ok(u8::try_from(128 + signal).unwrap_or(255)),
        None => played,
    }
}

fn play(demo: &DemoRun) -> Result<u8, Problem> {
    let began = Instant::now();
    say("berth keeps the sessions of AI agents. This takes about ten seconds, with a\n\
         built-in agent that follows a script, in a directory of its own.");

    demo.step("1. An agent (a stand-in) starts in a session of its own. No daemon needed.");
    demo.show(&["run", "-d", "--agent", "demo", "--name", NAME])?;

    demo.step("2. It gets a turn. You watch, and your SSH connection dies (kill -9).");
    demo.show(&["send", NAME, PROMPT])?;
    demo.until_fixed(1)?;
    demo.attach_and_kill()?;
    let before = agent::fixed(&demo.dir);
    demo.until_fixed(before + 1)?;
    say(&format!(
        "  the agent had fixed {} then, and {} now: it went on working",
        tests(before),
        tests(agent::fixed(&demo.dir))
    ));

    demo.step("3. The hard case: kill -9 of the keeper in the middle of a turn.");
    let status = demo.status()?;
    let keeper = ProcessIdentity::of(number(&status, "keeper_pid")?).map_err(odd)?;
    let agent = ProcessIdentity::of(number(&status, "pid")?).map_err(odd)?;
    match keeper.check() {
        ProcessLiveness::Alive(pidfd) => {
            say(&format!("  $ kill -9 {}", keeper.pid));
            kill(&pidfd)?;
        }
        ProcessLiveness::Gone | ProcessLiveness::CannotTell(_) => {
            return Err(problem("the keeper is not running"));
        }
    }
    demo.show(&["turn", &format!("{NAME}.1")])?;
    let is_gone = matches!(agent.check(), ProcessLiveness::Gone);
    say(&format!(
        "  fixed: {}; the turn has an end, the agent is {}",
        tests(agent::fixed(&demo.dir)),
        if is_gone { "gone: no process is left" } else { "STILL THERE" }
    ));

    demo.step("4. Resume. berth does not repeat the unknown turn: check it, resume the queue.");
    demo.show(&["resume", NAME, "-d"])?;
    demo.show(&["queue", NAME, "resume"])?;
    demo.show(&["send", NAME, "--wait", "go on"])?;

    demo.step("5. All of it is on record. Stop it: exit 0 means proven gone.");
    demo.show(&["grep", "-i", "tests", NAME])?;
    demo.show(&["stop", NAME])?;
    say(&format!("\nThat took {} s. Now yours:", began.elapsed().as_secs().max(1)));
    say("  berth agents                          the agents that are installed here");
    say("  berth run --agent claude              a session with one");
    say("  berth run --name first -- bash        any command (Ctrl-\\ leaves it running)");
    if is_gone { Ok(0) } else { Err(problem("a process was left behind")) }
}

/// A running demo. Dropping it ends the session and removes the directory.
struct DemoRun {
    /// The demo's own directory: state, work directory, config and the agent's notes.
    dir: PathBuf,
    signals: SignalFd,
    signal: Cell<Option<i32>>,
}

impl DemoRun {
    fn new() -> Result<Self, Problem> {
        let wanted = [Signal::INT, Signal::TERM, Signal::HUP].map(Signal::as_raw);
        let signals = SignalFd::new(&wanted).map_err(odd)?;
        let demo = Self { dir: own_dir(&std::env::temp_dir())?, signals, signal: Cell::new(None) };
        std::fs::create_dir(demo.work()).map_err(odd)?;
        let program = std::env::current_exe().map_err(odd)?;
        let command = [&program, Path::new("demo"), Path::new("--agent"), &demo.dir];
        let command = command.map(|word| word.to_string_lossy().into_owned());
        let config =
            format!("[agents.demo]\ndriver = \"acp\"\nconversation_kind = \"demo\"\ncommand = {command:?}\n");
        std::fs::write(demo.config(), config).map_err(odd)?;
        Ok(demo)
    }

    fn home(&self) -> PathBuf {
        self.dir.join("state")
    }

    fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    fn config(&self) -> PathBuf {
        self.dir.join("config.toml")
    }

    /// Prints the title of the next step, after a pause to read the output of the one before.
    fn step(&self, text: &str) {
        let until = Instant::now() + TO_READ;
        while Instant::now() < until && self.signalled().is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        say(&format!("\n{text}"));
    }

    /// The signal that asks the demo to end; `None` if none has arrived.
    fn signalled(&self) -> Option<i32> {
        if self.signal.get().is_none() {
            self.signal.set(self.signals.read().ok().flatten());
        }
        self.signal.get()
    }

    fn call(&self, args: &[&str]) -> Result<Output, Problem> {
        match self.signalled() {
            Some(signal) => Err(problem(&format!("interrupted by signal {signal}"))),
            None => self.call_anyway(args),
        }
    }

    fn call_anyway(&self, args: &[&str]) -> Result<Output, Problem> {
        let mut command = Command::new(berth_host::spawn::THIS_PROGRAM);
        command.args(args).env("BERTH_HOME", self.home()).env("BERTH_CONFIG", self.config());
        command.current_dir(self.work()).stdin(Stdio::null());
        // In a process group of its own the command is not ended half way by Ctrl-C, so the demo knows what it started.
        command.process_group(0).output().map_err(odd)
    }

    /// Runs a berth command, and shows the command and its output.
    fn show(&self, args: &[&str]) -> Result<(), Problem> {
        let shown: Vec<_> = args
            .iter()
            .map(|arg| if arg.contains(' ') { format!("'{arg}'") } else { (*arg).to_owned() })
            .collect();
        say(&format!("  $ berth {}", shown.join(" ")));
        let output = self.call(args)?;
        for line in
            [&output.stdout, &output.stderr].iter().flat_map(|bytes| bytes.split(|byte| *byte == b'\n'))
        {
            if !line.is_empty() {
                say(&format!("  {}", String::from_utf8_lossy(line)));
            }
        }
        if output.status.success() { Ok(()) } else { Err(problem("the command above should have succeeded")) }
    }

    fn status(&self) -> Result<serde_json::Value, Problem> {
        serde_json::from_slice(&self.call(&["show", NAME, "--json"])?.stdout)
            .map_err(|error| problem(&error.to_string()))
    }

    /// Waits until the agent has fixed this number of tests.
    fn until_fixed(&self, tests: usize) -> Result<(), Problem> {
        let deadline = Instant::now() + PATIENCE;
        while agent::fixed(&self.dir) < tests.min(agent::TESTS) {
            if let Some(signal) = self.signalled() {
                return Err(problem(&format!("interrupted by signal {signal}")));
            }
            if Instant::now() > deadline {
                return Err(problem("the agent makes no progress"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Attaches a real client in a real terminal, and kills it with SIGKILL.
    fn attach_and_kill(&self) -> Result<(), Problem> {
        say(&format!("  $ berth attach {NAME}        (in a terminal of its own)"));
        let (pty, slave) = Pty::open(24, 80).map_err(odd)?;
        let own = [("BERTH_HOME", self.home()), ("BERTH_CONFIG", self.config())];
        let env: Vec<_> = std::env::vars_os()
            .filter(|(name, _)| name != "BERTH_HOME" && name != "BERTH_CONFIG")
            .chain(own.map(|(name, value)| (name.into(), value.into_os_string())))
            .collect();
        let client = spawn(&SpawnOptions {
            program: Path::new(berth_host::spawn::THIS_PROGRAM),
            args: &["berth", "attach", NAME].map(Into::into),
            env: &env,
            cwd: &self.work(),
            stdio: SpawnStdio::Terminal(slave.as_fd()),
            keep: &[],
            cgroup: None,
            joins: &[],
        })
        .map_err(|error| problem(&error.to_string()))?;
        drop(slave);
        let deadline = Instant::now() + PATIENCE;
        let wanted = PROMPT.as_bytes();
        let mut seen = Vec::new();
        while self.signalled().is_none()
            && !seen.windows(wanted.len()).any(|window| window == wanted)
            && Instant::now() < deadline
        {
            let mut buffer = [0; 4096];
            match rustix::io::read(&pty.master, &mut buffer) {
                Ok(count) => seen.extend_from_slice(&buffer[..count]),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        say(&format!("  $ kill -9 {}", client.pid));
        kill(&client.pidfd)?;
        let _ = berth_host::process_tree::reap_children();
        Ok(())
    }
}

impl Drop for DemoRun {
    fn drop(&mut self) {
        let _ = self.call_anyway(&["stop", "--grace", "1s", NAME]);
        // A keeper writes its last records after its last answer, possibly while this removes the directory: try again.
        let until = Instant::now() + Duration::from_secs(5);
        while std::fs::remove_dir_all(&self.dir).is_err() && self.dir.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A new directory that only this account can enter. Other accounts write to a directory for temporary files: one that
/// exists already may have links in it, and is never used.
fn own_dir(parent: &Path) -> Result<PathBuf, Problem> {
    let mut random = [0; 8];
    berth_host::random_bytes(&mut random).map_err(odd)?;
    let random = u64::from_le_bytes(random);
    let dir = parent.join(format!("berth-demo-{}-{random:016x}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&dir).map_err(odd)?;
    Ok(dir)
}

/// Kills a process and waits until it is gone: a sent signal does not prove an end.
fn kill(pidfd: &Pidfd) -> Result<(), Problem> {
    pidfd.signal(Signal::KILL.as_raw()).map_err(odd)?;
    while !pidfd.has_exited() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn number(status: &serde_json::Value, field: &str) -> Result<u32, Problem> {
    let number = status.get(field).and_then(serde_json::Value::as_u64).and_then(|n| u32::try_from(n).ok());
    number.ok_or_else(|| problem(&format!("`show` has no {field}")))
}

fn tests(count: usize) -> String {
    if count == 1 { "1 test".to_owned() } else { format!("{count} tests") }
}

fn say(text: &str) {
    // An error means that the reader closed standard output: the demo goes on without output.
    let _ = print::message(SafeText::from(format!("{text}\n")).as_str().as_bytes());
}

fn problem(what: &str) -> Problem {
    Problem::refused(format!("the demo failed: {what}"))
}

fn odd(error: std::io::Error) -> Problem {
    problem(&error.to_string())
}
