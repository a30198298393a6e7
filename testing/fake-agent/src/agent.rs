//! Doing the steps.
//!
//! Promise: a step is over when its effect is visible to others; a child's parent goes on
//! only once the child has become what it was asked to be.
//! Not here: understanding the script (`script`), fork and signals (`sys`).
//! Start with [`ScriptedAgent::run`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::json;

use crate::code;
use crate::script::ScriptStep;
use crate::sys::{self, ForkRole};

/// Large enough that the pty and not the number of system calls sets the pace.
const FLOOD_WRITE_BYTES: usize = 64 << 10;
/// Between two records of an endless transcript, so that a test's disk stays small.
const RECORD_PAUSE: Duration = Duration::from_millis(1);
/// How often `wait-file` looks.
const FILE_POLL: Duration = Duration::from_millis(2);

/// The process as far as the script can change it.
#[derive(Default)]
pub(crate) struct ScriptedAgent {
    /// Read from stdin and not yet consumed by a step.
    input: Vec<u8>,
    /// Where this process and its children write their pids.
    pidfile: Option<PathBuf>,
    /// Held by a child until it has settled; closing it tells the parent.
    unsettled: Option<OwnedFd>,
    /// The number of the last transcript record.
    last_record: u64,
    /// Memory that is only there to be used up.
    hoard: Vec<Vec<u8>>,
}

/// Why the script could not be carried out.
#[derive(Debug)]
pub(crate) enum ScriptFailure {
    InputEnded { expecting: String },
    Step { doing: String, source: io::Error },
}

impl ScriptFailure {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::InputEnded { .. } => code::INPUT_ENDED,
            Self::Step { .. } => code::STEP_FAILED,
        }
    }
}

impl std::fmt::Display for ScriptFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InputEnded { expecting } => write!(f, "the input ended while expecting {expecting}"),
            Self::Step { doing, source } => write!(f, "cannot {doing}: {source}"),
        }
    }
}

/// Names what was being done when the world said no.
pub(crate) trait FailureContext<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, ScriptFailure>;
}

impl<T, E: Into<io::Error>> FailureContext<T> for Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T, ScriptFailure> {
        self.map_err(|source| ScriptFailure::Step { doing: what.into(), source: source.into() })
    }
}

impl ScriptedAgent {
    /// Does the steps in order.
    pub(crate) fn run(&mut self, steps: &[ScriptStep]) -> Result<(), ScriptFailure> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &ScriptStep) -> Result<(), ScriptFailure> {
        if !step.settles() {
            self.settle()?;
        }
        match step {
            ScriptStep::Say(bytes) => say(bytes)?,
            ScriptStep::Flood { bytes, coloured } => flood(*bytes, *coloured)?,
            ScriptStep::Report { variables } => say(format!("{}\n", report(variables)?).as_bytes())?,
            ScriptStep::Winch => sys::print_size_on_winch().doing("handle SIGWINCH")?,
            ScriptStep::Close => close_output()?,
            ScriptStep::CloseAll => self.close_all()?,
            ScriptStep::ExpectLine => self.expect(|input| {
                input.iter().position(|byte| matches!(byte, b'\n' | b'\r')).map(|at| at + 1).ok_or("a line")
            })?,
            ScriptStep::Expect(text) => self.expect(|input| {
                let found = input.windows(text.len()).position(|window| window == text);
                found.map(|at| at + text.len()).ok_or_else(|| format!("`{}`", text.escape_ascii()))
            })?,
            ScriptStep::Raw => raw()?,
            ScriptStep::Echo { until } => self.echo(until.as_deref())?,
            ScriptStep::Ignore(signals) => {
                for signal in signals {
                    sys::ignore(*signal).doing(format!("ignore signal {}", signal.0))?;
                }
            }
            ScriptStep::Sleep { ms } => std::thread::sleep(Duration::from_millis(*ms)),
            ScriptStep::Hang => loop {
                rustix::event::pause();
            },
            ScriptStep::Exit(code) => std::process::exit((*code).into()),
            ScriptStep::Die(signal) => return Err(sys::die(*signal)).doing("die"),
            ScriptStep::Witness(path) => {
                sys::witness(appending(path)?.into_raw_fd()).doing("handle every signal")?
            }
            ScriptStep::Hog { bytes } => self.hog(*bytes),
            ScriptStep::OwnUid => sys::own_uid().doing("be the owner of this program")?,
            ScriptStep::Child(steps) => self.child(steps)?,
            ScriptStep::Setsid => drop(rustix::process::setsid().doing("lead a new session")?),
            ScriptStep::Orphan => orphan()?,
            ScriptStep::Daemonise => self.daemonise()?,
            ScriptStep::EmptyEnvironment { rest } => self.empty_environment(rest)?,
            ScriptStep::Loop { times, steps } => {
                let mut done = 0;
                while times.is_none_or(|times| done < times) {
                    self.run(steps)?;
                    done += 1;
                }
            }
            ScriptStep::Pidfile(path) => {
                self.pidfile = Some(path.clone());
                self.record_pid()?;
            }
            ScriptStep::Touch(path) => drop(appending(path)?),
            ScriptStep::WaitFile(path) => {
                while !path.exists() {
                    std::thread::sleep(FILE_POLL);
                }
            }
            ScriptStep::Record { path, times } => self.record(path, *times)?,
            ScriptStep::Tear(path) => self.tear(path)?,
            ScriptStep::ListenTcp { port } => listen_tcp(*port)?,
            ScriptStep::ListenUnix(path) => listen_unix(path)?,
        }
        Ok(())
    }

    /// Consumes input up to where `end_of` finds its end; until then an error names the awaited text.
    fn expect<W: Into<String>>(
        &mut self,
        end_of: impl Fn(&[u8]) -> Result<usize, W>,
    ) -> Result<(), ScriptFailure> {
        loop {
            let expecting = match end_of(&self.input) {
                Ok(end) => {
                    self.input.drain(..end);
                    return Ok(());
                }
                Err(expecting) => expecting.into(),
            };
            if self.read()? == 0 {
                return Err(ScriptFailure::InputEnded { expecting });
            }
        }
    }

    /// Writes back what comes in, a read at a time: this is what key-to-echo is measured with.
    fn echo(&mut self, until: Option<&[u8]>) -> Result<(), ScriptFailure> {
        raw()?;
        let mut echoed = 0;
        loop {
            say(&self.input[echoed..])?;
            let seen =
                until.and_then(|text| self.input.windows(text.len()).position(|window| window == text));
            if let (Some(at), Some(text)) = (seen, until) {
                self.input.drain(..at + text.len());
                return Ok(());
            }
            // Only a beginning of the text that ends it has to be remembered.
            let kept = until.map_or(0, |text| text.len() - 1).min(self.input.len());
            self.input.drain(..self.input.len() - kept);
            echoed = kept;
            if self.read()? == 0 {
                return Ok(());
            }
        }
    }

    /// Reads what is there; 0 when the input has ended. A terminal that hung up has ended.
    fn read(&mut self) -> Result<usize, ScriptFailure> {
        let mut buffer = [0; 4096];
        let count = match rustix::io::retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut buffer))
        {
            Err(rustix::io::Errno::IO) => 0,
            result => result.doing("read from stdin")?,
        };
        self.input.extend_from_slice(&buffer[..count]);
        Ok(count)
    }

    fn child(&mut self, steps: &[ScriptStep]) -> Result<(), ScriptFailure> {
        let (settled, unsettled) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).doing("make a pipe for a child")?;
        match sys::fork().doing("fork a child")? {
            ForkRole::Parent => {
                drop(unsettled);
                // End of file, or an error for that matter: no process on its way is left.
                let _ = rustix::io::retry_on_intr(|| rustix::io::read(&settled, &mut [0_u8; 1]));
                Ok(())
            }
            ForkRole::Child => {
                drop(settled);
                self.unsettled = Some(unsettled);
                let result = self.run(steps).and_then(|()| self.settle());
                if let Err(failure) = &result {
                    eprintln!("fake-agent: child {}: {failure}", std::process::id());
                }
                std::process::exit(result.map_or_else(|failure| failure.code().into(), |()| 0));
            }
        }
    }

    /// A child has become what it was asked to be: record it, then let the parent go on.
    fn settle(&mut self) -> Result<(), ScriptFailure> {
        if self.unsettled.is_some() {
            self.record_pid()?;
            self.unsettled = None;
        }
        Ok(())
    }

    fn daemonise(&self) -> Result<(), ScriptFailure> {
        orphan()?;
        rustix::process::setsid().doing("lead a new session")?;
        orphan()?;
        std::env::set_current_dir("/").doing("change to /")?;
        self.close_all()
    }

    /// Closes everything, the lock that the run hands on included.
    fn close_all(&self) -> Result<(), ScriptFailure> {
        let null = File::open("/dev/null").doing("open /dev/null")?;
        rustix::stdio::dup2_stdin(&null).doing("close stdin")?;
        drop(null);
        close_output()?;
        sys::close_all_but(self.unsettled.as_ref().map(AsRawFd::as_raw_fd));
        Ok(())
    }

    /// In pieces, each written to: memory that is only promised counts nowhere.
    fn hog(&mut self, bytes: u64) {
        const PIECE: usize = 1 << 20;
        let mut left = bytes;
        while left > 0 {
            let piece = PIECE.min(usize::try_from(left).unwrap_or(PIECE));
            self.hoard.push(vec![1; piece]);
            left -= piece as u64;
        }
    }

    fn empty_environment(&self, rest: &[String]) -> Result<(), ScriptFailure> {
        // Executing closes the pipe to the parent, so the pid has to be there before.
        self.record_pid()?;
        let mut command = std::process::Command::new("/proc/self/exe");
        command.arg0("fake-agent").env_clear();
        // The pid stays the same, but children of the new program want to be recorded as well.
        match &self.pidfile {
            Some(path) => command.arg(format!("pidfile:{}", path.display())),
            None if rest.is_empty() => command.arg("exit:0"),
            None => &mut command,
        };
        Err(command.args(rest).exec()).doing("execute myself with an empty environment")
    }

    fn record_pid(&self) -> Result<(), ScriptFailure> {
        let Some(path) = &self.pidfile else { return Ok(()) };
        let line = format!("{}\n", std::process::id());
        appending(path)?.write_all(line.as_bytes()).doing(format!("write to {}", path.display()))
    }

    fn record(&mut self, path: &Path, times: Option<u64>) -> Result<(), ScriptFailure> {
        let mut transcript = appending(path)?;
        let mut written = 0;
        while times.is_none_or(|times| written < times) {
            self.last_record += 1;
            let line = format!("{}\n", json!({"n": self.last_record, "pid": std::process::id()}));
            transcript.write_all(line.as_bytes()).doing(format!("write to {}", path.display()))?;
            written += 1;
            if times.is_none() {
                std::thread::sleep(RECORD_PAUSE);
            }
        }
        Ok(())
    }

    fn tear(&mut self, path: &Path) -> Result<(), ScriptFailure> {
        let half = format!("{{\"n\":{},\"pi", self.last_record + 1);
        appending(path)?.write_all(half.as_bytes()).doing(format!("write to {}", path.display()))
    }
}

/// The descriptor is given away: it stays open until the process ends, and children inherit it.
fn listen_tcp(port: u16) -> Result<(), ScriptFailure> {
    let listener = TcpListener::bind(("127.0.0.1", port)).doing(format!("listen on port {port}"))?;
    let address = listener.local_addr().doing("read my own address")?;
    let _ = listener.into_raw_fd();
    say(format!("listening tcp:{address}\n").as_bytes())
}

/// Like [`listen_tcp`], at a Unix socket.
fn listen_unix(path: &Path) -> Result<(), ScriptFailure> {
    let _ = UnixListener::bind(path).doing(format!("listen at {}", path.display()))?.into_raw_fd();
    say(format!("listening unix:{}\n", path.display()).as_bytes())
}

fn orphan() -> Result<(), ScriptFailure> {
    match sys::fork().doing("fork away from the parent")? {
        ForkRole::Parent => std::process::exit(0),
        ForkRole::Child => Ok(()),
    }
}

pub(crate) fn appending(path: &Path) -> Result<File, ScriptFailure> {
    OpenOptions::new().create(true).append(true).open(path).doing(format!("open {}", path.display()))
}

/// Writes to stdout without a buffer: nothing is left to be written twice after a fork.
pub(crate) fn say(mut bytes: &[u8]) -> Result<(), ScriptFailure> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(rustix::stdio::stdout(), bytes))
            .doing("write to stdout")?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// A descriptor number that is really free would be taken by the next file opened, and output without a reader would
/// end up in it. So the number stays and leads nowhere.
pub(crate) fn close_output() -> Result<(), ScriptFailure> {
    let null = OpenOptions::new().write(true).open("/dev/null").doing("open /dev/null")?;
    rustix::stdio::dup2_stdout(&null).doing("close stdout")?;
    rustix::stdio::dup2_stderr(&null).doing("close stderr")
}

/// Does nothing where stdin is not a terminal.
fn raw() -> Result<(), ScriptFailure> {
    let stdin = rustix::stdio::stdin();
    if let Ok(mut modes) = tcgetattr(stdin) {
        modes.make_raw();
        tcsetattr(stdin, OptionalActions::Now, &modes).doing("set the terminal to raw mode")?;
    }
    Ok(())
}

/// Numbered lines, produced faster than any terminal takes them, even in a debug build: only the numbers change from
/// one write to the next.
fn flood(bytes: u64, coloured: bool) -> Result<(), ScriptFailure> {
    let mut buffer = Vec::with_capacity(FLOOD_WRITE_BYTES);
    let mut numbers_at = Vec::new();
    for line in 0.. {
        let (colour, plain) = match coloured {
            true => (format!("\x1b[1;3{}m", line % 8), format!("\x1b[0m \x1b[48;5;{}m", line % 256)),
            false => (String::new(), " ".to_owned()),
        };
        let end = if coloured { "\x1b[0m\n" } else { "\n" };
        let text =
            format!("{colour}{:012}{plain}the quick brown fox jumps over the lazy dog and naps{end}", 0);
        if buffer.len() + text.len() > FLOOD_WRITE_BYTES {
            break;
        }
        numbers_at.push(buffer.len() + colour.len());
        buffer.extend_from_slice(text.as_bytes());
    }
    let mut left = bytes;
    let mut line = 0_u64;
    while left > 0 {
        for &at in &numbers_at {
            line += 1;
            let mut number = line;
            for digit in buffer[at..at + 12].iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        say(&buffer[..count])?;
        left -= count as u64;
    }
    Ok(())
}

/// Facts about this process: ids, terminal, variables.
pub(crate) fn report(variables: &[String]) -> Result<serde_json::Value, ScriptFailure> {
    let stdin = rustix::stdio::stdin();
    let size = tcgetwinsize(stdin).ok();
    let status = std::fs::read_to_string("/proc/self/status").doing("read /proc/self/status")?;
    let mask = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    // The two are 0 where the leader is outside of our pid namespace, and rustix has no such pid.
    let stat = std::fs::read_to_string("/proc/self/stat").doing("read /proc/self/stat")?;
    let number = |field: usize| -> Option<i32> {
        stat.rsplit(')').next()?.split_whitespace().nth(field.checked_sub(3)?)?.parse().ok()
    };
    let wanted =
        |name: &str| name == "TERM" || name.starts_with("BERTH_") || variables.iter().any(|v| v == name);
    let env: serde_json::Map<_, _> = std::env::vars_os()
        .map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned().into())
        })
        .filter(|(name, _)| wanted(name))
        .collect();
    Ok(json!({
        "pid": std::process::id(),
        "ppid": std::os::unix::process::parent_id(),
        "pgid": number(5),
        "sid": number(6),
        "cwd": std::env::current_dir().ok(),
        "tty": rustix::termios::isatty(stdin.as_fd()),
        "cols": size.map(|size| size.ws_col),
        "rows": size.map(|size| size.ws_row),
        "fds": open_descriptors(),
        "signals_blocked": mask("SigBlk:"),
        // Rust's runtime has ignored PIPE before we could look.
        "signals_ignored": mask("SigIgn:"),
        "args": std::env::args().collect::<Vec<_>>(),
        "env": env,
    }))
}

/// The descriptors this process was given.
fn open_descriptors() -> Vec<i32> {
    let Ok(listing) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let mut open: Vec<i32> =
        listing.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The listing itself was open while we read it; by now its number is free again.
    open.retain(|fd| Path::new(&format!("/proc/self/fd/{fd}")).symlink_metadata().is_ok());
    open.sort_unstable();
    open
}
