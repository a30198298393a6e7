//! The holders that are compared: how each starts, attaches to and ends a session.
//!
//! Promise: all run with their defaults, apart from where their sockets are; nothing a holder
//! does here can reach a session of the user's.
//! Not here: what is measured.
//! Start with [`SessionManager`].

use std::cell::RefCell;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;

use crate::workspace::{BenchEnvironment, BenchSession, PATIENCE};

/// Something that keeps a command running in a terminal without anyone in front of it.
pub(crate) trait SessionManager {
    fn name(&self) -> &'static str;

    /// The command that starts a session without a client.
    fn start(&self, lab: &BenchEnvironment, session: &str, agent: &[String]) -> Command;

    /// The command that attaches the terminal it runs in.
    fn attach(&self, lab: &BenchEnvironment, session: &str) -> Command;

    /// The command its users type to end a session.
    fn end(&self, lab: &BenchEnvironment, session: &BenchSession) -> Command;

    /// The name of a session, given the name we wished for and the output of the start command.
    fn session_name(&self, wanted: &str, _said: &str) -> String {
        wanted.to_owned()
    }

    /// True if one process holds all sessions and so outlives each of them.
    fn is_shared(&self) -> bool {
        false
    }

    /// Gets ready for the first session.
    fn prepare(&self, _lab: &BenchEnvironment) -> Result<()> {
        Ok(())
    }

    /// Ends sessions, by ending what runs in them; the caller waits for the processes.
    fn stop(&self, sessions: &[BenchSession]) {
        sessions.iter().for_each(|session| session.agent.signal(Signal::KILL));
    }

    /// The commands its users type to end all of these sessions, to be spawned at once.
    fn end_all(&self, lab: &BenchEnvironment, sessions: &[BenchSession]) -> Vec<Command> {
        sessions.iter().map(|session| self.end(lab, session)).collect()
    }

    /// Ends what [`SessionManager::prepare`] began.
    fn shut_down(&self, _lab: &BenchEnvironment) {}
}

/// Every holder there is, installed or not, with the arguments that make it tell its version.
pub(crate) const KNOWN: [(&str, &str, &[&str]); 10] = [
    ("berth", "berth", &["--version"]),
    (BERTH_NAMED, "berth", &["--version"]),
    (BERTH_BEFORE, "berth", &["--version"]),
    ("tmux", "tmux", &["-V"]),
    ("tmux, cold", "tmux", &["-V"]),
    ("dtach", "dtach", &["--help"]),
    ("abduco", "abduco", &["-v"]),
    ("shpool", "shpool", &["version"]),
    ("screen", "screen", &["--version"]),
    ("pueue", "pueue", &["--version"]),
];

/// berth with a name for each session that the user chose.
pub(crate) const BERTH_NAMED: &str = "berth, names given";

/// An earlier build of berth (`--before`).
pub(crate) const BERTH_BEFORE: &str = "berth, before";

/// Makes a holder; `program` is where its command is.
pub(crate) fn holder(name: &str, program: &Path) -> Result<Box<dyn SessionManager>> {
    let program = program.to_path_buf();
    Ok(match name {
        "berth" => Box::new(CurrentBerth { program }),
        BERTH_NAMED => Box::new(BerthWithNames(CurrentBerth { program })),
        BERTH_BEFORE => Box::new(EarlierBerth(CurrentBerth { program })),
        "tmux" => Box::new(Tmux { program, is_warm: true }),
        "tmux, cold" => Box::new(Tmux { program, is_warm: false }),
        "dtach" => Box::new(Dtach { program }),
        "abduco" => Box::new(Abduco { program }),
        "shpool" => Box::new(Shpool { program, daemon: RefCell::new(None) }),
        "screen" => Box::new(GnuScreen { program }),
        "pueue" => Box::new(Pueue { program, daemon: RefCell::new(None) }),
        other => bail!("no holder is called {other}"),
    })
}

/// Where a command is, looking through PATH.
pub(crate) fn find(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(command)).find(|file| file.is_file())
}

/// A keeper for each session.
pub(crate) struct CurrentBerth {
    pub(crate) program: PathBuf,
}

impl CurrentBerth {
    pub(crate) fn command(&self, lab: &BenchEnvironment) -> Command {
        let mut command = lab.command(&self.program);
        command.env("BERTH_HOME", Self::root(lab));
        command
    }

    /// Where its sessions are.
    pub(crate) fn root(lab: &BenchEnvironment) -> PathBuf {
        lab.dir().join("berth")
    }
}

impl SessionManager for CurrentBerth {
    fn name(&self) -> &'static str {
        "berth"
    }

    fn start(&self, lab: &BenchEnvironment, _session: &str, agent: &[String]) -> Command {
        let mut command = self.command(lab);
        command.args(["run", "-d", "--"]).args(agent);
        command
    }

    fn attach(&self, lab: &BenchEnvironment, session: &str) -> Command {
        let mut command = self.command(lab);
        command.args(["attach", session]);
        command
    }

    fn end(&self, lab: &BenchEnvironment, session: &BenchSession) -> Command {
        let mut command = self.command(lab);
        command.args(["stop", &session.name]);
        command
    }

    fn end_all(&self, lab: &BenchEnvironment, _sessions: &[BenchSession]) -> Vec<Command> {
        let mut command = self.command(lab);
        command.args(["stop", "--all", "--yes"]);
        vec![command]
    }

    fn session_name(&self, _wanted: &str, said: &str) -> String {
        said.trim().to_owned()
    }
}

/// A keeper for each session, and a name that the user chose.
struct BerthWithNames(CurrentBerth);

impl SessionManager for BerthWithNames {
    fn name(&self) -> &'static str {
        BERTH_NAMED
    }

    fn start(&self, lab: &BenchEnvironment, session: &str, agent: &[String]) -> Command {
        let mut command = self.0.command(lab);
        command.args(["run", "-d", "--name", session, "--"]).args(agent);
        command
    }

    fn attach(&self, lab: &BenchEnvironment, session: &str) -> Command {
        self.0.attach(lab, session)
    }

    fn end(&self, lab: &BenchEnvironment, session: &BenchSession) -> Command {
        self.0.end(lab, session)
    }
}

/// An earlier build. Its state directory is its own, because formats change between builds.
struct EarlierBerth(CurrentBerth);

impl EarlierBerth {
    fn at_home(lab: &BenchEnvironment, mut command: Command) -> Command {
        command.env("BERTH_HOME", lab.dir().join("before"));
        command
    }
}

impl SessionManager for EarlierBerth {
    fn name(&self) -> &'static str {
        BERTH_BEFORE
    }

    fn start(&self, lab: &BenchEnvironment, session: &str, agent: &[String]) -> Command {
        Self::at_home(lab, self.0.start(lab, session, agent))
    }

    fn attach(&self, lab: &BenchEnvironment, session: &str) -> Command {
        Self::at_home(lab, self.0.attach(lab, session))
    }

    fn end(&self, lab: &BenchEnvironment, session: &BenchSession) -> Command {
        Self::at_home(lab, self.0.end(lab, session))
    }

    fn end_all(&self, lab: &BenchEnvironment, sessions: &[BenchSession]) -> Vec<Command> {
        self.0.end_all(lab, sessions).into_iter().map(|command| Self::at_home(lab, command)).collect()
    }

    fn session_name(&self, wanted: &str, said: &str) -> String {
        self.0.session_name(wanted, said)
    }
}

/// One server for all sessions; cold when the first session has to start it.
struct Tmux {
    program: PathBuf,
    is_warm: bool,
}

impl Tmux {
    fn command(&self, lab: &BenchEnvironment) -> Command {
        let mut command = lab.command(&self.program);
        let socket = if self.is_warm { "tmux" } else { "cold" };
        command.arg("-S").arg(lab.dir().join(socket)).args(["-f", "/dev/null"]);
        command
    }
}

impl SessionManager for Tmux {
    fn name(&self) -> &'static str {
        if self.is_warm { "tmux" } else { "tmux, cold" }
    }

    fn start(&self, lab: &BenchEnvironment, session: &str, agent: &[String]) -> Command {
        let mut command = self.command(lab);
        command.args(["new-session", "-d", "-s", session]).args(agent);
        command
    }

    fn attach(&self, lab: &BenchEnvironment, session: &str) -> Command {
        let mut command = self.command(lab);
        command.args(["attach-session", "-t", &format!("={session}")]);
        command
    }

    fn end(&self, lab: &BenchEnvironment, session: &BenchSession) -> Command {
        let mut command = self.command(lab);
        command.args(["kill-session", "-t", &format!("={}", session.name)]);
        command
    }

    /// A cold server ends with its only session, so it is waited for like a private holder.
    fn is_shared(&self) -> bool {
        self.is_warm
    }

    fn prepare(&self, lab: &BenchEnvironment) -> Result<()> {
        if !self.is_warm {
            return Ok(());
        }
        let mut command = self.command(lab);
        let status = command.args(["new-session", "-d", "-s", "base", "sleep", "1000000"]).status()?;
        if status.success() { Ok(()) } else { bail!("cannot start a tmux server ({status})") }
    }

    fn shut_down(&self, lab: &BenchEnvironment) {
        let _ = self.command(lab).arg("kill-server").status();
    }
}

/// A master for each session; keeps no screen.
struct Dtach {
    program: PathBuf,
}

impl SessionManager for Dtach {
    fn name(&self) -> &'static str {
        "dtach"
    }

    fn start(&self, lab: &BenchEnvironment, session: &str, agent: &[String]) -> Command {
        let mut command = lab.command(&self.program);
        command.arg("-n").arg(lab.dir().join(session)).args(agent);
        command
    }

    fn attach(&self, lab: &BenchEnvironment, session: &str) -> Command {
        let mut command = lab.command(&self.program);
        command.arg("-a").arg(lab.dir().join(session));
        command
    }

    fn end(&self, lab: &BenchEnvironment, session: &BenchSession) -> Command {
        kill(lab, session)
    }
}

/// A server for each session; keeps no screen.
struct Abduco {
    program: PathBuf,
}

impl Abduco {
    fn command(&self, lab: &BenchEnvironment) -> Command {
        let mut command = lab.command(&self.program);
        command.env("ABDUCO_SOCKET_DIR", lab.dir());
        command
    }
}

impl SessionManager for Abduco {
    fn name(&self) -> &'static str {
        "abduco"
    }

    fn start(&self, lab: &BenchEnvironment, session: &str, agent: &[String]) -> Command {
        let mut command = self.command(lab);
        command.args(["-n", session]).args(agent);
        command
    }

    fn attach(&self, lab: &BenchEnvironment, session: &str) -> Command {
        let mut command = self.command(lab);
        command.args(["-a", session]);
        command
    }

    fn end(&self, lab: &BenchEnvironment, session: &BenchSession) -> Command {
        kill(lab, session)
    }

    /// The server would wait for its parent to collect the exit status.
    fn stop(&self, sessions: &[BenchSession]) {
        for session in sessions {
            session.agent.signal(Signal::KILL);
            session.holder.signal(Signal::KILL);
        }
    }
}

/// The usual way to end a session of a holder that has no command for that.
fn kill(lab: &BenchEnvironment, session: &BenchSession) -> Command {
    let mut command = lab.command(Path::new("kill"));
    command.arg(session.holder.0.to_string());
    command
}

/// One daemon for all sessions.
struct Shpool {
    program: PathBuf,
    daemon: RefCell<Option<Child>>,
}

impl Shpool {
    fn command(&self, lab: &BenchEnvironment) -> Command {
        let mut command = lab.command(&self.program);
        command
            .arg("--socket")
            .arg(lab.dir().join("pool.sock"))
            .arg("--config-file")
            .arg(lab.dir().join("shpool.toml"));
        command
    }
}

impl SessionManager for Shpool {
    fn name(&self) -> &'static str {
        "shpool"
    }

    fn start(&self, lab: &BenchEnvironment, session: &str, agent: &[String]) -> Command {
        let mut command = self.command(lab);
        command.args(["attach", "-b", "-c", &agent.join(" "), session]);
        command
    }

    fn attach(&self, lab: &BenchEnvironment, session: &str) -> Command {
        let mut command = self.command(lab);
        command.args(["attach", "-f", session]);
        command
    }

    fn end(&self, lab: &BenchEnvironment, session: &BenchSession) -> Command {
        let mut command = self.command(lab);
        command.args(["kill", &session.name]);
        command
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn prepare(&self, lab: &BenchEnvironment) -> Result<()> {
        std::fs::write(lab.dir().join("shpool.toml"), "").context("write shpool.toml")?;
        let daemon = self.command(lab).arg("daemon").spawn().context("spawn shpool daemon")?;
        *self.daemon.borrow_mut() = Some(daemon);
        let deadline = Instant::now() + PATIENCE;
        while !lab.dir().join("pool.sock").exists() {
            if Instant::now() > deadline {
                bail!("shpool's daemon did not open its socket");
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(())
    }

    fn shut_down(&self, _lab: &BenchEnvironment) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A screen for each session.
struct GnuScreen {
    program: PathBuf,
}

impl GnuScreen {
    fn command(&self, lab: &BenchEnvironment) -> Command {
        let mut command = lab.command(&self.program);
        command.env("SCREENDIR", lab.dir().join("screens")).args(["-c", "/dev/null"]);
        command
    }
}

impl SessionManager for GnuScreen {
    fn name(&self) -> &'static str {
        "screen"
    }

    fn start(&self, lab: &BenchEnvironment, session: &str, agent: &[String]) -> Command {
        let mut command = self.command(lab);
        command.args(["-dmS", session]).args(agent);
        command
    }

    fn attach(&self, lab: &BenchEnvironment, session: &str) -> Command {
        let mut command = self.command(lab);
        command.args(["-r", session]);
        command
    }

    fn end(&self, lab: &BenchEnvironment, session: &BenchSession) -> Command {
        let mut command = self.command(lab);
        command.args(["-S", &session.name, "-X", "quit"]);
        command
    }

    fn prepare(&self, lab: &BenchEnvironment) -> Result<()> {
        std::fs::DirBuilder::new().mode(0o700).create(lab.dir().join("screens")).context("create SCREENDIR")
    }
}

/// One daemon for all commands, which have no terminal.
struct Pueue {
    program: PathBuf,
    daemon: RefCell<Option<Child>>,
}

impl SessionManager for Pueue {
    fn name(&self) -> &'static str {
        "pueue"
    }

    fn start(&self, lab: &BenchEnvironment, _session: &str, agent: &[String]) -> Command {
        let mut command = lab.command(&self.program);
        command.args(["add", "--print-task-id", "--immediate", "--escape", "--"]).args(agent);
        command
    }

    fn attach(&self, lab: &BenchEnvironment, session: &str) -> Command {
        let mut command = lab.command(&self.program);
        command.args(["follow", session]);
        command
    }

    fn end(&self, lab: &BenchEnvironment, session: &BenchSession) -> Command {
        let mut command = lab.command(&self.program);
        command.args(["kill", &session.name]);
        command
    }

    fn session_name(&self, _wanted: &str, said: &str) -> String {
        said.trim().to_owned()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn prepare(&self, lab: &BenchEnvironment) -> Result<()> {
        let daemon = self.program.with_file_name("pueued");
        let daemon = lab.command(&daemon).spawn().context("spawn pueued")?;
        *self.daemon.borrow_mut() = Some(daemon);
        let deadline = Instant::now() + PATIENCE;
        while !lab.command(&self.program).arg("status").status().is_ok_and(|status| status.success()) {
            if Instant::now() > deadline {
                bail!("pueue's daemon does not answer");
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Ok(())
    }

    fn shut_down(&self, lab: &BenchEnvironment) {
        let _ = lab.command(&self.program).arg("shutdown").status();
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
