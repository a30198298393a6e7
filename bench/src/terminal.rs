//! A terminal for a client to run in, with the bench as the user in front of it.
//!
//! Promise: the client has the terminal as its controlling one, begins exactly when told, and is gone
//! when the terminal is dropped.
//! Not here: what to type (see the measurements).
//! Start with [`BenchTerminal::open`]; [`enter`] is its other half, inside the new process.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::process::BenchProcess;

/// Columns and rows of every terminal here.
pub(crate) const SIZE: (u16, u16) = (120, 40);
/// The hidden verb of the bench that makes its terminal the controlling one.
pub(crate) const VERB: &str = "on-terminal";

/// The user's side of a terminal, and the client on the other side.
pub(crate) struct BenchTerminal {
    keyboard: File,
    client: Child,
    gate: PathBuf,
}

impl BenchTerminal {
    /// Prepares a client behind a gate, so that opening a terminal is not part of what is timed.
    pub(crate) fn open(command: &Command, dir: &Path) -> Result<Self> {
        let keyboard =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).context("open a pty")?;
        grantpt(&keyboard).and_then(|()| unlockpt(&keyboard)).context("unlock a pty")?;
        let name = ptsname(&keyboard, Vec::new()).context("name of a pty")?;
        let name = name.to_str().context("a pty has a plain name")?;
        let screen: OwnedFd =
            File::options().read(true).write(true).open(name).context("open a terminal")?.into();
        let size = Winsize { ws_col: SIZE.0, ws_row: SIZE.1, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keyboard, size).context("set the size of a terminal")?;
        let gate = dir.join(format!("gate{}", name.replace('/', "-")));
        crate::workspace::make_fifo(&gate)?;

        let mut helper = Command::new(std::env::current_exe().context("find the bench's own program")?);
        helper.arg(VERB).arg(&gate).arg(command.get_program()).args(command.get_args()).env_clear();
        helper.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        helper
            .stdin(Stdio::from(screen.try_clone()?))
            .stdout(Stdio::from(screen.try_clone()?))
            .stderr(screen);
        let client = helper.spawn().context("spawn a client on a terminal")?;
        Ok(Self { keyboard: keyboard.into(), client, gate })
    }

    /// Lets the client begin. The moment returned is just before it is executed.
    pub(crate) fn go(&self) -> Result<Instant> {
        // Opening waits for the client to stand at the gate.
        let mut gate = File::options().write(true).open(&self.gate).context("open the gate")?;
        let now = Instant::now();
        gate.write_all(b"g").context("open the gate")?;
        Ok(now)
    }

    pub(crate) fn client(&self) -> BenchProcess {
        BenchProcess(self.client.id().cast_signed())
    }

    pub(crate) fn type_key(&mut self, key: u8) -> Result<()> {
        self.keyboard.write_all(&[key]).context("type a key")
    }

    /// A second handle on the user's side, for a reader of its own.
    pub(crate) fn screen(&self) -> Result<File> {
        self.keyboard.try_clone().context("share a pty")
    }

    /// Reads until the text was seen and returns the moment it was.
    pub(crate) fn wait_for(&mut self, text: &[u8], patience: Duration) -> Result<Instant> {
        let deadline = Instant::now() + patience;
        let mut seen = Vec::new();
        while self.read(&mut seen, deadline)? {
            // The text may have been cut by a read, so look a little further back.
            if seen.windows(text.len()).any(|window| window == text) {
                return Ok(Instant::now());
            }
            seen.drain(..seen.len().saturating_sub(text.len() - 1));
        }
        bail!("no `{}` on the terminal within {patience:?}", text.escape_ascii())
    }

    /// Reads until nothing came for a while.
    pub(crate) fn settle(&mut self, quiet: Duration, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        let mut seen = Vec::new();
        while self.read(&mut seen, deadline.min(Instant::now() + quiet))? {
            seen.clear();
        }
        Ok(())
    }

    /// Appends what is there; false when the deadline passed without anything.
    fn read(&mut self, seen: &mut Vec<u8>, deadline: Instant) -> Result<bool> {
        if !readable(&self.keyboard, deadline)? {
            return Ok(false);
        }
        let mut buffer = [0; 16 << 10];
        let count = self.keyboard.read(&mut buffer).context("read from a terminal whose client ended")?;
        seen.extend_from_slice(&buffer[..count]);
        Ok(true)
    }
}

impl Drop for BenchTerminal {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
        let _ = std::fs::remove_file(&self.gate);
    }
}

/// Waits until there is something to read; false when the deadline passed first.
pub(crate) fn readable(file: &File, deadline: Instant) -> Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).context("a wait is longer than the kernel can count")?;
        match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result.context("poll")? > 0),
        }
    }
}

/// The hidden verb: make stdin the controlling terminal, wait at the gate, become the client.
pub(crate) fn enter(gate: &Path, program: &str, arguments: &[String]) -> Result<()> {
    rustix::process::setsid().context("lead a new session")?;
    rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()).context("take the terminal")?;
    let mut gate = File::open(gate).context("stand at the gate")?;
    gate.read_exact(&mut [0]).context("wait at the gate")?;
    Err(Command::new(program).args(arguments).exec()).with_context(|| format!("execute {program}"))
}
