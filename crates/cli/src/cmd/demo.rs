//! `berth demo`: the promise, shown with real processes in a state directory of its own.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use berth_api::{Code, Problem};
use berth_host::identity::{Identity, Pidfd, Verdict};
use berth_host::pty::Pty;
use berth_host::signals::SignalFd;
use berth_host::spawn::{Spawn, Stdio as SpawnStdio, spawn};
use rustix::process::Signal;

use crate::print;
use crate::visible::Visible;

/// A stand-in for an agent: it counts, so that everyone can see whether it was interrupted. Not for
/// ever: a demo that is killed with -9 leaves nothing that stays.
const AGENT: &str = "n=0; while [ $n -lt 600 ]; do n=$((n+1)); echo step $n; sleep .1; done";

pub(crate) fn run() -> Result<u8, Problem> {
    let demo = Demo::new()?;
    let played = play(&demo);
    match demo.signalled() {
        // Dropping the demo clears up, whatever it was interrupted in.
        Some(signal) => Ok(u8::try_from(128 + signal).unwrap_or(255)),
        None => played,
    }
}

fn play(demo: &Demo) -> Result<u8, Problem> {
    say("berth keeps sessions. Here is what that means, with real processes, in a directory of its own.");

    step("1. Two agents start. No daemon, nothing else to install.");
    demo.show(&["run", "-d", "--name", "builder", "--", "sh", "-c", AGENT])?;
    demo.show(&["run", "-d", "--name", "reviewer", "--", "sh", "-c", AGENT])?;
    demo.show(&["ls"])?;

    step("2. A person attaches; their SSH connection dies (kill -9 of the client).");
    let before = demo.steps("builder")?;
    demo.attach_and_kill()?;
    demo.until("builder", before + 5)?;
    say(&format!(
        "   the agent was at step {before}, and is at step {} now: it never noticed",
        demo.steps("builder")?
    ));

    step("3. The worst: kill -9 of the keeper, the process that holds the session.");
    let status = demo.status("builder")?;
    let keeper = Identity::of(number(&status, "keeper_pid")?).map_err(odd)?;
    let agent = Identity::of(number(&status, "pid")?).map_err(odd)?;
    match keeper.check() {
        Verdict::Alive(pidfd) => kill(&pidfd)?,
        Verdict::Gone | Verdict::CannotTell(_) => return Err(problem("the keeper is not there")),
    }
    demo.show(&["ls"])?;
    let gone = matches!(agent.check(), Verdict::Gone);
    say(&format!(
        "   the other session was not touched; the dead one's agent is {}",
        if gone { "gone too: nothing leaks" } else { "STILL THERE" }
    ));

    step("4. Bring it back. Same session, same record, the next run.");
    demo.show(&["resume", "builder", "-d"])?;
    let now = demo.steps("builder")?;
    demo.until("builder", now + 2)?;
    demo.show(&["log", "builder"])?;

    step("5. Stop both. Exit 0 means: proven gone.");
    demo.show(&["stop", "builder", "reviewer"])?;
    demo.show(&["ls"])?;
    say("\nThat was it. Now yours:  berth run --name first -- bash      (Ctrl-\\ leaves it running)");
    if gone { Ok(0) } else { Err(problem("a process was left behind")) }
}

/// The demo's own state directory; everything in it is ended and removed on the way out.
struct Demo {
    home: PathBuf,
    signals: SignalFd,
    signal: Cell<Option<i32>>,
}

impl Demo {
    fn new() -> Result<Self, Problem> {
        let home = std::env::temp_dir().join(format!("berth-demo-{}", std::process::id()));
        let wanted = [Signal::INT, Signal::TERM, Signal::HUP].map(Signal::as_raw);
        let signals = SignalFd::new(&wanted).map_err(odd)?;
        Ok(Self { home, signals, signal: Cell::new(None) })
    }

    /// The signal that wants the demo to end, if one has come.
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
        command.args(args).env("BERTH_HOME", &self.home).stdin(Stdio::null());
        // In a group of its own Ctrl-C does not end it half way: we know what was started.
        command.process_group(0).output().map_err(odd)
    }

    /// Runs a command as a person would, and shows it.
    fn show(&self, args: &[&str]) -> Result<(), Problem> {
        let shown: Vec<_> = args.iter().map(|arg| if *arg == AGENT { "'…count…'" } else { arg }).collect();
        say(&format!("   $ berth {}", shown.join(" ")));
        let output = self.call(args)?;
        for line in
            [&output.stdout, &output.stderr].iter().flat_map(|bytes| bytes.split(|byte| *byte == b'\n'))
        {
            let line = String::from_utf8_lossy(line).replace(AGENT, "…count…");
            if !line.is_empty() {
                say(&format!("     {line}"));
            }
        }
        if output.status.success() { Ok(()) } else { Err(problem("that should have worked")) }
    }

    fn status(&self, session: &str) -> Result<serde_json::Value, Problem> {
        serde_json::from_slice(&self.call(&["show", session, "--json"])?.stdout)
            .map_err(|error| problem(&error.to_string()))
    }

    /// How far the agent has counted, by its output.
    fn steps(&self, session: &str) -> Result<usize, Problem> {
        let output = self.call(&["output", session])?;
        Ok(output.stdout.windows(5).filter(|window| window == b"step ").count())
    }

    fn until(&self, session: &str, steps: usize) -> Result<(), Problem> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.steps(session)? < steps {
            if Instant::now() > deadline {
                return Err(problem("the agent does not go on"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// A real terminal with a real client in it, which then dies without a word.
    fn attach_and_kill(&self) -> Result<(), Problem> {
        say("   $ berth attach builder        (in a terminal of its own)");
        let (pty, slave) = Pty::open(24, 80).map_err(odd)?;
        let env: Vec<_> = std::env::vars_os()
            .filter(|(name, _)| name != "BERTH_HOME")
            .chain([("BERTH_HOME".into(), self.home.clone().into_os_string())])
            .collect();
        let client = spawn(&Spawn {
            program: Path::new(berth_host::spawn::THIS_PROGRAM),
            args: &["berth", "attach", "builder"].map(Into::into),
            env: &env,
            cwd: &std::env::temp_dir(),
            stdio: SpawnStdio::Terminal(slave.as_fd()),
            keep: &[],
            cgroup: None,
            joins: &[],
        })
        .map_err(|error| problem(&error.to_string()))?;
        drop(slave);
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut seen = Vec::new();
        while self.signalled().is_none()
            && !seen.windows(5).any(|window| window == b"step ")
            && Instant::now() < deadline
        {
            let mut buffer = [0; 4096];
            match rustix::io::read(&pty.master, &mut buffer) {
                Ok(count) => seen.extend_from_slice(&buffer[..count]),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        say(&format!("   $ kill -9 {}", client.pid));
        kill(&client.pidfd)?;
        let _ = berth_host::tree::reap();
        Ok(())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.call_anyway(&["stop", "--grace", "1s", "builder"]);
        let _ = self.call_anyway(&["stop", "--grace", "1s", "reviewer"]);
        // A keeper writes its last words after its last answer, and may do so while we clear up.
        let until = Instant::now() + Duration::from_secs(5);
        while std::fs::remove_dir_all(&self.home).is_err() && self.home.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Kills, and waits until the process is gone: a signal sent is not yet a death.
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

fn step(text: &str) {
    say(&format!("\n{text}"));
}

fn say(text: &str) {
    // Whoever closed our standard output wants no more words.
    let _ = print::message(Visible::from(format!("{text}\n")).as_str().as_bytes());
}

fn problem(what: &str) -> Problem {
    Problem::new(Code::Refused, format!("the demo failed: {what}"))
}

fn odd(error: std::io::Error) -> Problem {
    problem(&error.to_string())
}
