//! A real terminal with a command in it, and an emulator that shows what a user would see.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use berth_host::identity::{Pidfd, ProcessIdentity};
use berth_host::pty::Pty;
use berth_host::spawn::{ChildStdio, SpawnOptions, spawn};
use berth_screen::{Screen, ScreenSize};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, waitpid};

use crate::{CONFIG, PATIENCE};

/// A terminal with a command in it, and an emulated screen.
pub struct TestTerminal {
    pty: Option<Pty>,
    screen: Screen,
    pid: u32,
    pidfd: Pidfd,
    exit: Option<i32>,
    /// Everything the command has written, raw.
    pub raw: Vec<u8>,
}

impl TestTerminal {
    pub(crate) fn start<A: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = A>,
        home: &Path,
        rows: u16,
        cols: u16,
    ) -> Self {
        let env: Vec<_> = std::env::vars_os()
            .filter(|(name, _)| name != "TERM" && !name.to_string_lossy().starts_with("BERTH_"))
            .chain([("TERM".into(), "xterm-256color".into())])
            .chain([("BERTH_HOME".into(), home.into())])
            .chain([("BERTH_CONFIG".into(), home.with_file_name(CONFIG).into())])
            .collect();
        Self::start_with(program, args, &env, &std::env::temp_dir(), rows, cols)
    }

    /// Starts a command with exactly these variables, in any directory.
    pub(crate) fn start_with<A: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = A>,
        env: &[(OsString, OsString)],
        cwd: &Path,
        rows: u16,
        cols: u16,
    ) -> Self {
        let (pty, slave) = Pty::open(rows, cols).expect("a terminal");
        let mut argv: Vec<OsString> = vec![program.into()];
        argv.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        let child = spawn(&SpawnOptions {
            program,
            args: &argv,
            env,
            cwd,
            stdio: ChildStdio::Terminal(slave.as_fd()),
            keep: &[],
            cgroup: None,
            joins: &[],
        })
        .expect("the command can be started");
        let screen = Screen::new(ScreenSize { rows, cols });
        Self { pty: Some(pty), screen, pid: child.pid, pidfd: child.pidfd, exit: None, raw: Vec::new() }
    }

    /// The command's process.
    pub fn identity(&self) -> ProcessIdentity {
        ProcessIdentity::of(self.pid).expect("the command runs")
    }

    /// Types keys into the terminal.
    pub fn type_keys(&mut self, keys: &str) {
        let mut keys = keys.as_bytes();
        let until = Instant::now() + PATIENCE;
        while !keys.is_empty() {
            let pty = self.pty.as_ref().expect("the terminal is open");
            match rustix::io::write(&pty.master, keys) {
                Ok(count) => keys = &keys[count..],
                // The program that is to read these keys may first wait for its output to be taken.
                Err(rustix::io::Errno::AGAIN) => drop(self.read()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("cannot type: {error}"),
            }
            assert!(
                Instant::now() < until,
                "the program takes no keys; the screen shows:\n{}",
                self.screen.text()
            );
        }
    }

    /// Takes in what is there, and waits for nothing.
    pub fn look(&mut self) {
        self.drain();
    }

    /// Types the same keys again and again until none was taken for a while, or `limit` bytes were. Returns how many.
    pub fn type_until_full(&self, keys: &[u8], limit: usize) -> usize {
        let pty = self.pty.as_ref().expect("the terminal is open");
        let mut typed = 0;
        while typed < limit {
            let patience = Timespec { tv_sec: 1, tv_nsec: 0 };
            let _ = poll(&mut [PollFd::new(&pty.master, PollFlags::OUT)], Some(&patience));
            match rustix::io::write(&pty.master, keys) {
                Ok(count) if count > 0 => typed += count,
                Ok(_) | Err(_) => break,
            }
        }
        typed
    }

    /// Reads and waits until the screen shows this text.
    pub fn wait_for(&mut self, text: &str) {
        self.wait_while(text, |terminal| !terminal.screen.text().contains(text));
    }

    /// Reads and waits until the raw bytes contain these.
    pub fn wait_for_raw(&mut self, bytes: &[u8]) {
        let what = String::from_utf8_lossy(bytes).into_owned();
        self.wait_while(&what, |terminal| !terminal.raw.windows(bytes.len()).any(|window| window == bytes));
    }

    /// Reads and waits until `happened` is true; `what` names it in the failure.
    pub fn wait_until(&mut self, what: &str, mut happened: impl FnMut(&mut Self) -> bool) {
        self.wait_while(what, |terminal| !happened(terminal));
    }

    fn wait_while(&mut self, what: &str, mut missing: impl FnMut(&mut Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while missing(self) {
            let over = !self.read();
            if over && missing(self) {
                panic!("the terminal closed without {what:?}; it shows:\n{}", self.screen.text());
            }
            assert!(Instant::now() < until, "no {what:?}; the screen shows:\n{}", self.screen.text());
        }
    }

    /// The text on the screen.
    pub fn text(&mut self) -> String {
        self.screen.text()
    }

    /// The screen with its modes, in canonical form.
    pub fn restore(&mut self) -> Vec<u8> {
        self.screen.restore()
    }

    /// Sets another size, as when a user drags the window's corner.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.pty.as_ref().expect("the terminal is open").resize(rows, cols).expect("a resize");
        self.screen.resize(ScreenSize { rows, cols });
    }

    /// Closes the terminal, as when a user closes the window or the connection drops.
    pub fn close(&mut self) {
        self.pty = None;
    }

    /// Sends the command a signal.
    pub fn signal(&self, signal: Signal) {
        self.pidfd.signal(signal.as_raw()).expect("our own child can be signalled");
    }

    /// Waits for the command's end; 128 + N for a signal.
    pub fn wait_exit(&mut self) -> i32 {
        let until = Instant::now() + PATIENCE;
        while !self.pidfd.has_exited() {
            assert!(Instant::now() < until, "it does not end; the screen shows:\n{}", self.screen.text());
            if self.pty.is_some() {
                self.read();
            } else {
                std::thread::yield_now();
            }
        }
        self.drain();
        self.reap()
    }

    fn reap(&mut self) -> i32 {
        if let Some(code) = self.exit {
            return code;
        }
        let pid = Pid::from_raw(i32::try_from(self.pid).expect("pids fit")).expect("pids are not zero");
        let status =
            waitpid(Some(pid), WaitOptions::empty()).expect("our own child").map(|(_, status)| status);
        let code = |status: WaitStatus| status.exit_status().or(status.terminating_signal().map(|n| 128 + n));
        let code = status.and_then(code).expect("it ended");
        self.exit = Some(code);
        code
    }

    /// Waits a little for bytes and takes them in. `false` when no more will come: the terminal is closed, or its
    /// command is over and all of its output was taken in.
    fn read(&mut self) -> bool {
        let over = self.pty.is_none() || self.pidfd.has_exited();
        if over {
            self.drain();
        } else {
            self.read_within(Timespec { tv_sec: 0, tv_nsec: 50_000_000 });
        }
        !over
    }

    /// Takes in all that is there: a command that is over may have written more than one read returns.
    fn drain(&mut self) {
        while self.read_within(Timespec { tv_sec: 0, tv_nsec: 0 }) {}
    }

    /// Takes in output that comes within this time. `true` if there was some. Polls first, always: output that was
    /// written may still be on its way inside the kernel, and a poll hurries it along where a read does not.
    fn read_within(&mut self, patience: Timespec) -> bool {
        let Some(pty) = &self.pty else { return false };
        let _ = poll(&mut [PollFd::new(&pty.master, PollFlags::IN)], Some(&patience));
        let mut buffer = [0; 65536];
        match rustix::io::read(&pty.master, &mut buffer) {
            Ok(count) if count > 0 => {
                self.raw.extend_from_slice(&buffer[..count]);
                self.screen.feed(&buffer[..count]);
                true
            }
            Ok(_) | Err(_) => false,
        }
    }
}

impl Drop for TestTerminal {
    fn drop(&mut self) {
        if self.exit.is_none() {
            let _ = self.pidfd.signal(Signal::KILL.as_raw());
            self.reap();
        }
    }
}
