//! Asks programs for their versions.
//!
//! Promise: every question has an answer within its timeout, and afterwards no process of a program that was asked is
//! left, including processes that the program started.
//! Not here: which programs there are (see [`crate::agents`]).
//! Start with [`ask_all`].

use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use berth_host::identity::Pidfd;
use berth_host::process_tree;
use berth_screen::PlainTextFilter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::agents::AgentDefinition;
use crate::print;

/// Limit of the output that is read of a program. A version is in the first line.
const MAX_ANSWER_BYTES: usize = 16 * 1024;
/// Length at which a version is cut.
const MAX_VERSION_CHARS: usize = 60;
/// Length at which the output of a failed program is cut, when it is shown as the reason.
const MAX_REASON_CHARS: usize = 200;
/// Longest wait for killed processes to be gone.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// A program to ask for its version.
pub(super) struct VersionQuery<'a> {
    pub(super) program: &'a Path,
    /// Arguments that make the program print its version.
    pub(super) args: &'a [String],
    /// Variables in addition to those of this process.
    pub(super) env: &'a [(String, String)],
}

/// The outcome of a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum VersionReply {
    /// The program printed this version.
    Version(String),
    /// The program was still running after this timeout.
    Silent(Duration),
    /// The program ended without a version, or could not be started; with the reason.
    Failed(String),
}

impl VersionReply {
    pub(super) fn version(&self) -> Option<String> {
        match self {
            Self::Version(version) => Some(version.clone()),
            Self::Silent(_) | Self::Failed(_) => None,
        }
    }

    /// A sentence that says why there is no version; `None` if there is one.
    pub(super) fn trouble(&self, agent: &AgentDefinition) -> Option<String> {
        let program = agent.command.iter().take(1);
        let asked: Vec<String> = program.chain(agent.version.iter().flatten()).cloned().collect();
        let asked = print::command_line(&asked, MAX_REASON_CHARS);
        match self {
            Self::Version(_) => None,
            Self::Silent(limit) => Some(format!(
                "`{asked}` did not answer within {} and was ended",
                print::describe_age(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
            )),
            Self::Failed(reason) => Some(format!("`{asked}` failed: {reason}")),
        }
    }

    /// The answer as a cell of a table.
    pub(super) fn in_a_word(&self, args: &str) -> String {
        match self {
            Self::Version(version) => version.clone(),
            Self::Silent(_) => format!("printed no version for {args}"),
            Self::Failed(_) => format!("failed with {args}"),
        }
    }
}

/// Asks all programs at the same time. Processes that they left running are killed before this returns.
pub(super) fn ask_all(questions: &[Option<VersionQuery<'_>>], limit: Duration) -> Vec<Option<VersionReply>> {
    // A program may end before its children; as a subreaper this process becomes their parent, and not init.
    let _ = process_tree::become_subreaper();
    let answers = std::thread::scope(|scope| {
        let asking: Vec<_> = questions
            .iter()
            .map(|question| question.as_ref().map(|question| scope.spawn(move || ask(question, limit))))
            .collect();
        let answer = |thread: std::thread::ScopedJoinHandle<'_, VersionReply>| {
            thread.join().unwrap_or_else(|_| VersionReply::Failed("the program was not started".to_owned()))
        };
        asking.into_iter().map(|thread| thread.map(answer)).collect()
    });
    end_all();
    answers
}

fn ask(question: &VersionQuery<'_>, limit: Duration) -> VersionReply {
    // A timeout beyond the range of the clock means no limit.
    let until = Instant::now().checked_add(limit);
    let mut command = Command::new(question.program);
    command.args(question.args).envs(question.env.iter().map(|(name, value)| (name, value)));
    // The child stays in this process group, so that Ctrl-C ends it as well.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return VersionReply::Failed(error.to_string()),
    };
    let said = listen(&mut child, until);
    if said.is_none() {
        let _ = process_tree::signal_descendants(child.id(), |_| vec![Signal::KILL.as_raw()]);
        let _ = child.kill();
    }
    match (child.wait(), said) {
        (_, None) => VersionReply::Silent(limit),
        (Ok(status), Some((out, err))) => understand(status, &out, &err),
        (Err(error), Some(_)) => VersionReply::Failed(error.to_string()),
    }
}

/// The output of the child until its end; `None` if it did not end in time.
fn listen(child: &mut Child, until: Option<Instant>) -> Option<(Vec<u8>, Vec<u8>)> {
    // The child has not been waited for, so its pid cannot belong to another process.
    let pidfd = Pidfd::open(child.id()).ok()?;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let (mut said_out, mut said_err) = (Vec::new(), Vec::new());
    loop {
        let has_ended = pidfd.has_exited();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let is_late = left.is_some_and(|left| left.is_zero());
        let pause = if has_ended { Some(Duration::ZERO) } else { left };
        let (out_ready, err_ready) = {
            let closed = pidfd.as_fd();
            let mut fds = [
                PollFd::new(&closed, PollFlags::IN),
                PollFd::from_borrowed_fd(out.as_ref().map_or(closed, AsFd::as_fd), PollFlags::IN),
                PollFd::from_borrowed_fd(err.as_ref().map_or(closed, AsFd::as_fd), PollFlags::IN),
            ];
            match poll(&mut fds, pause.and_then(|pause| Timespec::try_from(pause).ok()).as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
            let ready = |at: usize| !fds[at].revents().is_empty();
            (out.is_some() && ready(1), err.is_some() && ready(2))
        };
        if out_ready {
            take(&mut out, &mut said_out);
        }
        if err_ready {
            take(&mut err, &mut said_err);
        }
        // Children of the child may hold the pipes open for ever, or fill them: the child's end completes the answer.
        if has_ended && (is_late || !out_ready && !err_ready) {
            return Some((said_out, said_err));
        }
        if is_late {
            return None;
        }
    }
}

/// Reads once from a pipe that has data or was closed. Drops the pipe when it was closed.
fn take(pipe: &mut Option<impl Read>, said: &mut Vec<u8>) {
    let mut buffer = [0; 4096];
    match pipe.as_mut().map(|pipe| pipe.read(&mut buffer)) {
        Some(Ok(count)) if count > 0 => {
            let room = MAX_ANSWER_BYTES - said.len();
            said.extend(&buffer[..count.min(room)]);
        }
        Some(Err(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
        Some(Ok(_) | Err(_)) | None => *pipe = None,
    }
}

fn understand(status: ExitStatus, out: &[u8], err: &[u8]) -> VersionReply {
    let (out, err) = (first_line(out), first_line(err));
    if !status.success() {
        let said = err.or(out).map(|line| format!(": {}", print::truncate(&line, MAX_REASON_CHARS)));
        return VersionReply::Failed(format!("{status}{}", said.unwrap_or_default()));
    }
    // Warnings go to standard error, so standard output comes first.
    match out.or(err) {
        Some(line) => {
            VersionReply::Version(print::truncate(number_in(&line).unwrap_or(&line), MAX_VERSION_CHARS))
        }
        None => VersionReply::Failed("the program printed nothing".to_owned()),
    }
}

/// The first line that is not blank, without colours and control characters.
fn first_line(said: &[u8]) -> Option<String> {
    let mut plain = Vec::new();
    PlainTextFilter::default().feed(said, &mut plain);
    let text = String::from_utf8_lossy(&plain);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).collect())
}

/// Finds the number in a line: `2.6.0` in `@agentclientprotocol/codex-acp 2.6.0`.
fn number_in(line: &str) -> Option<&str> {
    let words = line.split_whitespace().map(|word| word.trim_matches(['(', ')', ',', ';']));
    let mut numbers = words.map(|word| word.strip_prefix('v').unwrap_or(word));
    numbers.find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
}

/// Kills the remaining processes of all programs that were asked. This process starts no other children, so every
/// descendant belongs to a question.
fn end_all() {
    let me = std::process::id();
    let until = Instant::now() + END_PATIENCE;
    // Only while there are children: finding descendants walks all of /proc.
    while process_tree::reap_children().is_ok_and(|reaped| !reaped.no_children) && Instant::now() < until {
        let _ = process_tree::signal_descendants(me, |_| vec![Signal::KILL.as_raw()]);
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn answer(raw_status: i32, out: &str, err: &str) -> VersionReply {
        understand(ExitStatus::from_raw(raw_status), out.as_bytes(), err.as_bytes())
    }

    #[test]
    fn the_output_of_each_known_agent_becomes_a_version_number() {
        for (said, version) in [
            ("2.1.325 (Claude Code)\n", "2.1.325"),
            ("codex-cli 0.166.0\n", "0.166.0"),
            ("@agentclientprotocol/codex-acp 2.6.0\n", "2.6.0"),
            ("0.99.1\n", "0.99.1"),
            ("\nv1.18.33\n", "1.18.33"),
            ("\x1b[32mthing\x1b[0m (3.0-rc1)", "3.0-rc1"),
            ("nightly build\nof today\n", "nightly build"),
        ] {
            assert_eq!(answer(0, said, "WARNING: 9.9.9\n"), VersionReply::Version(version.to_owned()));
        }
        assert_eq!(answer(0, "", "thing 1.0\n"), VersionReply::Version("1.0".to_owned()));
    }

    #[test]
    fn output_without_a_version_is_a_failure_with_its_reason() {
        let failed = |reason: &str| VersionReply::Failed(reason.to_owned());
        assert_eq!(
            answer(1 << 8, "1.0\n", "node is too old\nstack\n"),
            failed("exit status: 1: node is too old")
        );
        assert_eq!(answer(0, " \n", ""), failed("the program printed nothing"));
    }

    #[test]
    fn a_version_is_cut_and_has_no_control_characters() {
        let VersionReply::Version(version) = answer(0, &format!("{}\x07\n", "x".repeat(5000)), "") else {
            panic!("there is a version")
        };
        assert_eq!(version.chars().count(), MAX_VERSION_CHARS);
        assert!(!version.contains(char::is_control));
    }
}
