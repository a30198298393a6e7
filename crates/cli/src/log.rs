//! The log of berth's own work, for debugging.
//!
//! Promise: nothing is logged unless a user asks for it: with `-v` (steps), `-vv` (details) or BERTH_LOG=FILTER, to
//! standard error. A keeper logs by the BERTH_LOG that was set when it was started, to `keeper.log` in its session's
//! directory, which never takes more than two times [`MAX_LOG_BYTES`]. No text to or from an agent is ever logged.
//! Not here: the log lines themselves (the `tracing` calls beside the code that they describe).
//! Start with [`of_a_command`].

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Mutex;

use berth_api::Problem;
use berth_store::SessionFiles;
use berth_store::keepers::ADOPT_FLAG;
use tracing_subscriber::EnvFilter;

use crate::{print, ui};

/// The variable with the filter of log lines.
const VARIABLE: &str = "BERTH_LOG";
/// A keeper whose log is this long begins a new one and keeps the last.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Starts the log of a command, if the user asked for one.
pub(crate) fn of_a_command(verbose: u8) -> Result<(), Problem> {
    let format = tracing_subscriber::fmt().with_writer(print::log);
    match wanted() {
        Some(filter) => {
            let colours = ui::uses_colours(print::is_error_terminal());
            format.with_env_filter(filter?).with_ansi(colours).init();
        }
        None if verbose > 0 => {
            let level = if verbose > 1 { "debug" } else { "info" };
            let filter = without_messages(EnvFilter::new(level));
            let format =
                format.with_env_filter(filter).with_ansi(ui::uses_colours(print::is_error_terminal()));
            format.without_time().with_level(false).with_target(false).init();
        }
        None => {}
    }
    Ok(())
}

/// Starts the log of a keeper. A keeper that cannot write its log goes on without.
pub(crate) fn of_a_keeper(args: &[OsString]) {
    let Some(Ok(filter)) = wanted() else { return };
    let session =
        args.iter().find(|arg| *arg != ADOPT_FLAG).and_then(|place| SessionFiles::understand(place));
    let Some(Ok(log)) = session.map(|session| KeeperLog::open(session.logs())) else { return };
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Mutex::new(log)).init();
}

fn wanted() -> Option<Result<EnvFilter, Problem>> {
    let filter = std::env::var(VARIABLE).ok().filter(|filter| !filter.is_empty())?;
    Some(EnvFilter::try_new(&filter).map(without_messages).map_err(|error| {
        Problem::usage(format!("the variable {VARIABLE} is not a valid filter: {error}"))
            .hint("as in BERTH_LOG=info, BERTH_LOG=debug or BERTH_LOG=berth_keeper=debug,info")
    }))
}

/// Excludes the MCP library's log of messages, which contain texts to and from agents.
fn without_messages(filter: EnvFilter) -> EnvFilter {
    filter.add_directive("rmcp=off".parse().expect("a directive"))
}

/// A log file that is rotated when it is full.
struct KeeperLog {
    /// The current log, and the name that it gets when it is full.
    paths: [PathBuf; 2],
    file: File,
    bytes: u64,
}

impl KeeperLog {
    fn open(paths: [PathBuf; 2]) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&paths[0])?;
        let bytes = file.metadata()?.len();
        Ok(Self { paths, file, bytes })
    }
}

impl Write for KeeperLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.bytes + line.len() as u64 > MAX_LOG_BYTES {
            std::fs::rename(&self.paths[0], &self.paths[1])?;
            *self = Self::open(self.paths.clone())?;
        }
        let count = self.file.write(line)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use berth_harness::TestDir;

    use super::*;

    #[test]
    fn the_log_of_a_keeper_never_takes_more_than_twice_its_limit() {
        let dir = TestDir::new();
        let paths = ["new", "old"].map(|name| dir.join(name));
        let line = [b'x'; 1000];
        let mut log = KeeperLog::open(paths.clone()).expect("a log");
        for _ in 0..3 * MAX_LOG_BYTES / 1000 {
            log.write_all(&line).expect("a line");
        }
        drop(log);
        let size = |number: usize| std::fs::metadata(&paths[number]).expect("a log").len();
        assert!(size(0) <= MAX_LOG_BYTES && size(1) <= MAX_LOG_BYTES);
        let before = size(0);
        KeeperLog::open(paths.clone())
            .and_then(|mut log| log.write_all(b"again\n"))
            .expect("goes on where it was");
        assert_eq!(size(0), before + 6);
    }
}
