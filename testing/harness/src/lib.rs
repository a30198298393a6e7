//! Private state directories, real terminals and leak checks for tests of the binary.
//!
//! Promise: a [`TestEnvironment`] uses nothing of the user's, and when it is dropped nothing of it is left: a process that outlives
//! its lab fails the test, and so does a control group. The lab finds processes that have its `BERTH_HOME` in their
//! environment, or hold a lock of one of its sessions or helpers; groups by the ids in their names.
//! Not here: the fake agent and the fake model (crates of their own), what a test checks.
//! Start with [`TestEnvironment::new`].

#![forbid(unsafe_code)]

mod gateway;
mod groups;
mod hosts;
mod json_process;
mod kill_guard;
mod openapi_check;
mod real;
mod real_fixture;
mod replay;
mod rpc;
mod seed;
mod socket;
mod terminal;
mod tmpfs_mount;
mod transcript;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use berth_host::identity::{ProcessIdentity, ProcessLiveness};
use berth_host::lock::{LockState, lock_state};
use berth_host::process_tree;

pub use berth_test_dir::TestDir;
pub use fake_model as model;
pub use gateway::{
    GatewayProcess, HttpResponse, PendingResponse, ServerEvent, ServerEventStream, exchange, request,
};
pub use hosts::TestHostPair;
pub use json_process::JsonLineProcess;
pub use kill_guard::ProcessKillGuard;
pub use openapi_check::OpenApiDescription;
pub use real::RealAgents;
pub use real_fixture::RealAgentFixture;
pub use replay::ReplayReport;
pub use rpc::RpcClient;
pub use seed::SeededRng;
pub use socket::{GatewayWebSocket, SocketMessage};
pub use terminal::TestTerminal;
pub use tmpfs_mount::TmpfsMount;
pub use transcript::{ParsedTranscript, TranscriptAgent};
pub use tungstenite;

/// How long anything a test waits for may take on a loaded machine. Never reached by a good run.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The name of a lab's config file, beside its state directory.
const CONFIG: &str = "config.toml";

/// A state directory of its own, and the programs under test.
#[derive(Debug)]
pub struct TestEnvironment {
    dir: PathBuf,
    berth: PathBuf,
}

/// The output and the exit code of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandOutput {
    /// The exit code; 128 + N for a signal.
    pub code: i32,
    /// Standard output, as text.
    pub out: String,
    /// Standard error, as text.
    pub err: String,
}

impl TestEnvironment {
    /// Makes a lab. `berth` is `env!("CARGO_BIN_EXE_berth")`.
    pub fn new(berth: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("berth-lab-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for the lab");
        Self { dir, berth: berth.into() }
    }

    /// Makes a lab whose config file has the agent `fake`, which takes turns and does what its prompts say.
    pub fn with_agent(berth: &str) -> Self {
        let lab = Self::new(berth);
        lab.add_agent("fake", &[]);
        lab
    }

    /// Adds an agent to the config file: the fake one, with more flags.
    pub fn add_agent(&self, name: &str, flags: &[&str]) {
        std::fs::create_dir_all(self.store()).expect("a directory for transcripts");
        let (program, store) = (self.agent(), self.store().display().to_string());
        let command = [&[program.as_str(), "acp", "--store", &store], flags].concat();
        let known = std::fs::read_to_string(self.config()).unwrap_or_default();
        let more = format!(
            "[agents.{name}]\ndriver = \"acp\"\nconversation_kind = \"fake\"\ncommand = {command:?}\n"
        );
        std::fs::write(self.config(), known + &more).expect("a config file");
    }

    /// Where the agents of [`TestEnvironment::add_agent`] keep their transcripts.
    pub fn store(&self) -> PathBuf {
        self.dir.join("store")
    }

    /// The lab's own directory, for files a test needs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The state directory.
    pub fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// The config file. There is none until a test writes one.
    pub fn config(&self) -> PathBuf {
        self.home().with_file_name(CONFIG)
    }

    /// Where a session lives.
    pub fn session_dir(&self, id: &str) -> PathBuf {
        self.home().join("sessions").join(id)
    }

    /// The fake agent, built beside berth.
    pub fn agent(&self) -> String {
        let path = self.berth.with_file_name("fake-agent");
        assert!(path.exists(), "{} is not built: cargo build --workspace", path.display());
        path.display().to_string()
    }

    /// A berth command, not yet started: standard input is empty.
    pub fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.berth);
        command.args(args).env("BERTH_HOME", self.home()).env("BERTH_CONFIG", self.config());
        command.stdin(Stdio::null());
        command.env_remove("BERTH_SESSION").env_remove("BERTH_RUN").env_remove("BERTH_KILLPOINT");
        command.env_remove("BERTH_HELPER");
        command
    }

    /// Runs a berth command to its end.
    pub fn berth<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> CommandOutput {
        said(self.command(args).output().expect("berth can be started"))
    }

    /// Runs a berth command that must succeed; its standard output without the last line end.
    pub fn ok<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        let said = self.berth(args);
        assert_eq!(said.code, 0, "{said:?}");
        said.out.trim_end_matches('\n').to_owned()
    }

    /// Runs a berth command that must succeed and print JSON.
    pub fn json<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> serde_json::Value {
        let out = self.ok(args);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("not JSON ({error}): {out}"))
    }

    /// Starts the fake agent with a script in a session; its id.
    pub fn start(&self, script: &[&str]) -> String {
        self.start_with(&[], script)
    }

    /// Starts one that says `ready` and from then on repeats every key; its id. A terminal that is not raw yet would
    /// repeat keys itself.
    pub fn start_echo(&self) -> String {
        let id = self.start(&["raw", "say:ready", "echo"]);
        self.wait_output(&id, "ready");
        id
    }

    /// Like [`Self::start`], with options for `run`.
    pub fn start_with(&self, options: &[&str], script: &[&str]) -> String {
        let agent = self.agent();
        let mut args = vec!["run", "-d"];
        args.extend(options);
        args.extend(["--", &agent]);
        args.extend(script);
        self.ok(args)
    }

    /// The status that `show --json` prints.
    pub fn show(&self, session: &str) -> serde_json::Value {
        self.json(["show", session, "--json"])
    }

    /// A number of `show --json`.
    pub fn number(&self, session: &str, field: &str) -> u32 {
        let shown = self.show(session);
        let number = shown[field].as_u64().and_then(|number| u32::try_from(number).ok());
        number.unwrap_or_else(|| panic!("no {field} in {shown}"))
    }

    /// The identity of a process `show --json` names: `pid` or `keeper_pid`.
    pub fn process(&self, session: &str, field: &str) -> ProcessIdentity {
        let pid = self.number(session, field);
        ProcessIdentity::of(pid).unwrap_or_else(|error| panic!("{field} {pid} is not there: {error}"))
    }

    /// Waits until the output of the current run matches.
    pub fn wait_output(&self, session: &str, regex: &str) {
        let what = format!("output:{regex}");
        let said = self.berth(["wait", session, "--for", &what, "--timeout", "60s"]);
        assert_eq!(
            said.code,
            0,
            "waiting for {regex}: {said:?}\noutput: {:?}",
            self.berth(["output", session])
        );
    }

    /// Starts a command in a terminal of its own.
    pub fn terminal<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> TestTerminal {
        TestTerminal::start(&self.berth, args, &self.home(), 24, 80)
    }

    /// Like [`Self::terminal`], with a size.
    pub fn terminal_of_size<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        rows: u16,
        cols: u16,
    ) -> TestTerminal {
        TestTerminal::start(&self.berth, args, &self.home(), rows, cols)
    }

    /// Starts any program in a terminal of its own, with this lab's state directory.
    pub fn terminal_running<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> TestTerminal {
        self.terminal_running_of_size(program, args, 24, 80)
    }

    /// Like [`Self::terminal_running`], with a size.
    pub fn terminal_running_of_size<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        args: impl IntoIterator<Item = A>,
        rows: u16,
        cols: u16,
    ) -> TestTerminal {
        TestTerminal::start(program, args, &self.home(), rows, cols)
    }

    /// The journal, as `log --json` prints it.
    pub fn log(&self, session: &str) -> Vec<serde_json::Value> {
        let out = self.ok(["log", session, "--json"]);
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}"))
        };
        out.lines().map(parse).collect()
    }

    /// The events of one kind in the journal.
    pub fn events(&self, session: &str, kind: &str) -> Vec<serde_json::Value> {
        self.log(session).into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// The agent's output, byte for byte.
    pub fn output(&self, session: &str) -> Vec<u8> {
        let said = self.command(["output", session]).output().expect("berth can be started");
        assert!(said.status.success(), "{said:?}");
        said.stdout
    }

    /// Kills the keeper with SIGKILL, and returns once it is gone.
    pub fn kill_keeper(&self, session: &str) {
        let keeper = self.process(session, "keeper_pid");
        signal(&keeper, rustix::process::Signal::KILL);
        wait_gone(&keeper);
    }

    /// All running processes of this lab, but for the test itself.
    pub fn processes(&self) -> Vec<ProcessIdentity> {
        let home = self.home().display().to_string();
        let mut found =
            process_tree::processes_with_variable("BERTH_HOME", &home).expect("/proc can be read").processes;
        // A process that cleared its environment still has the descriptors it inherited.
        for session in self.kept_in("sessions").into_iter().chain(self.kept_in("helpers")) {
            for lock in [session.join("run"), session.join("lease")] {
                if matches!(lock_state(&lock), Ok(Some(LockState::Held))) {
                    found.extend(
                        process_tree::processes_with_open_lock(&lock).expect("/proc can be read").processes,
                    );
                }
            }
        }
        found.sort_by_key(|identity| identity.pid);
        found.dedup();
        found
    }

    /// The directories of all sessions, or of all helpers.
    fn kept_in(&self, shelf: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.home().join(shelf));
        entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }
}

impl Drop for TestEnvironment {
    fn drop(&mut self) {
        for (shelf, verb) in [("sessions", &["stop"][..]), ("helpers", &["helper", "stop"])] {
            let kept = self.kept_in(shelf);
            for dir in &kept {
                // A test that plays a keeper in a thread listens for ever, and holds nothing.
                if matches!(lock_state(&dir.join("lease")), Ok(Some(LockState::Free))) {
                    let _ = std::fs::remove_file(dir.join("sock"));
                }
            }
            if !kept.is_empty() {
                let mut stop: Vec<&OsStr> = verb.iter().map(OsStr::new).collect();
                stop.extend(["--grace", "0s"].map(OsStr::new));
                stop.extend(kept.iter().filter_map(|dir| dir.file_name()));
                let _ = self.command(stop).output();
            }
        }
        // A keeper's last act follows its last answer; give it the moment it takes.
        let until = Instant::now() + Duration::from_secs(10);
        while !self.processes().is_empty() && Instant::now() < until {
            std::thread::yield_now();
        }
        let left = self.processes();
        for identity in &left {
            if let ProcessLiveness::Alive(pidfd) = identity.check() {
                let _ = pidfd.signal(rustix::process::Signal::KILL.as_raw());
            }
        }
        // A keeper that was killed in its last moment leaves an empty group to the next sweep.
        let all: Vec<PathBuf> =
            ["sessions", "helpers"].iter().flat_map(|shelf| self.kept_in(shelf)).collect();
        if !all.is_empty() {
            let _ = self.command(["sweep"]).output();
        }
        let ids = all.iter().filter_map(|session| session.file_name()?.to_str());
        let groups = groups::named_after(&ids.collect::<Vec<_>>());
        // The next test must not find the groups, nor the processes in them.
        groups.iter().for_each(|group| groups::remove(group));
        let _ = std::fs::remove_dir_all(&self.dir);
        if !std::thread::panicking() {
            assert!(left.is_empty(), "the test left processes behind: {left:?}");
            assert!(groups.is_empty(), "the test left control groups behind: {groups:?}");
        }
    }
}

/// The output and exit code of an ended process, as text.
pub fn said(output: Output) -> CommandOutput {
    use std::os::unix::process::ExitStatusExt;
    let code = output.status.code().or(output.status.signal().map(|signal| 128 + signal)).expect("it ended");
    CommandOutput {
        code,
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Sends a signal to exactly this process.
pub fn signal(identity: &ProcessIdentity, signal: rustix::process::Signal) {
    match identity.check() {
        ProcessLiveness::Alive(pidfd) => {
            pidfd.signal(signal.as_raw()).expect("our own process can be signalled")
        }
        ProcessLiveness::Gone => {}
        ProcessLiveness::CannotTell(why) => panic!("cannot tell whether {identity:?} lives: {why}"),
    }
}

/// Waits until a process is gone (a zombie counts as gone).
pub fn wait_gone(identity: &ProcessIdentity) {
    wait_until(&format!("the end of {identity:?}"), || matches!(identity.check(), ProcessLiveness::Gone));
}

/// Waits until a child has ended, and reads its code.
pub fn wait_child(mut child: Child) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let status = child.wait().expect("our own child");
    status.code().or(status.signal().map(|signal| 128 + signal)).expect("it ended")
}

/// The output of a child whose output is piped, once it ended.
pub fn ended(child: Child) -> CommandOutput {
    said(child.wait_with_output().expect("our own child"))
}

/// Tries something until it works.
pub fn retry<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut done = None;
    wait_until(what, || {
        done = attempt();
        done.is_some()
    });
    done.expect("it worked")
}

/// Waits for something that has no event to wait for. Fails loudly, never silently.
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
