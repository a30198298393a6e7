//! Sessions whose agent takes turns: starting them, and talking to their keepers as the command does.
//!
//! Promise: one connection asks one thing at a time; a wait that lasts longer than our patience is an error.
//! Not here: what is measured. Start with [`BerthWithAcp`] and [`BenchKeeperClient`].

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use berth_api::client::KeeperMessage;
use berth_api::message::{KeeperAnswer, KeeperNotice, KeeperRequest};
use berth_api::record::Event;
use berth_api::turn::{NewTurn, TurnReceipt};
use berth_api::{KeeperConnection, Problem, ProblemCode, TurnState};
use serde_json::{Value, json};

use crate::competitors::{CurrentBerth, SessionManager};
use crate::terminal::readable;
use crate::workspace::{BenchEnvironment, BenchSession, PATIENCE};

/// How long an agent gets to end by itself.
const GRACE_MS: u64 = 2000;

/// berth with the fake agent, which takes turns over ACP.
pub(crate) struct BerthWithAcp {
    berth: CurrentBerth,
    root: PathBuf,
    config: PathBuf,
}

impl BerthWithAcp {
    /// Writes the config file that names the agent; with a `store` it keeps transcripts there.
    pub(crate) fn new(program: &Path, lab: &BenchEnvironment, store: Option<&Path>) -> Result<Self> {
        let [agent, report] = &lab.agent("")[..] else { bail!("the agent is two words") };
        let mut words = vec![agent.clone(), "acp".to_owned(), "--do".to_owned(), report.clone()];
        words.extend(store.into_iter().flat_map(|dir| ["--store".to_owned(), dir.display().to_string()]));
        let config = lab.dir().join("config.toml");
        // JSON's strings are valid in TOML.
        let text = format!("[agents.fake]\ndriver = \"acp\"\ncommand = {}\n", json!(words));
        std::fs::write(&config, text).context("write a config file")?;
        let berth = CurrentBerth { program: program.to_path_buf() };
        Ok(Self { berth, root: CurrentBerth::root(lab), config })
    }

    /// A command of berth's that knows the fake agent.
    pub(crate) fn command(&self, lab: &BenchEnvironment) -> Command {
        let mut command = self.berth.command(lab);
        command.env("BERTH_CONFIG", &self.config);
        command
    }

    /// The berth program of these sessions.
    pub(crate) fn berth(&self) -> &CurrentBerth {
        &self.berth
    }

    /// A connection to the keeper of a session.
    pub(crate) fn client(&self, session: &str) -> Result<BenchKeeperClient> {
        BenchKeeperClient::open(&self.root, session)
    }

    /// The total size of a session's journal.
    pub(crate) fn journal_bytes(&self, session: &str) -> Result<u64> {
        let dir = self.root.join("sessions").join(session).join("journal");
        let mut bytes = 0;
        for file in std::fs::read_dir(&dir).context("list a journal")? {
            bytes += file?.metadata().context("look at a journal")?.len();
        }
        Ok(bytes)
    }
}

impl SessionManager for BerthWithAcp {
    fn name(&self) -> &'static str {
        "berth"
    }

    fn start(&self, lab: &BenchEnvironment, _session: &str, _agent: &[String]) -> Command {
        let mut command = self.command(lab);
        command.args(["run", "-d", "--agent", "fake"]);
        command
    }

    fn attach(&self, lab: &BenchEnvironment, session: &str) -> Command {
        self.berth.attach(lab, session)
    }

    fn end(&self, lab: &BenchEnvironment, session: &BenchSession) -> Command {
        self.berth.end(lab, session)
    }

    fn session_name(&self, wanted: &str, said: &str) -> String {
        self.berth.session_name(wanted, said)
    }

    /// Asked to end: an agent that is only killed is started again for the turns that wait.
    fn stop(&self, sessions: &[BenchSession]) {
        for session in sessions {
            // If this fails, the wait for the processes reports it.
            let _ = self.client(&session.name).and_then(|mut client| client.stop());
        }
    }
}

/// One connection to a keeper.
pub(crate) struct BenchKeeperClient(KeeperConnection);

impl BenchKeeperClient {
    /// Connects to the keeper of a session below this state directory.
    pub(crate) fn open(root: &Path, session: &str) -> Result<Self> {
        let dir = root.join("sessions").join(session);
        let connection = KeeperConnection::open(&dir, "bench".to_owned())
            .with_context(|| format!("connect to the keeper of {session}"))?;
        connection.set_timeout(Some(PATIENCE)).context("limit a wait")?;
        Ok(Self(connection))
    }

    /// Sends a turn; `None` if too many wait already.
    pub(crate) fn try_send(&mut self, text: &str) -> Result<Option<TurnReceipt>> {
        let submit = NewTurn { text: text.to_owned(), ..NewTurn::default() };
        match self.0.ask(KeeperRequest::Send { submit }) {
            Ok(KeeperAnswer::Receipt { receipt }) => Ok(Some(*receipt)),
            Ok(other) => bail!("an odd answer to a turn: {other:?}"),
            Err(Problem { code: ProblemCode::Full, .. }) => Ok(None),
            Err(problem) => bail!("a turn was refused: {}", problem.what),
        }
    }

    /// Sends a turn and returns its number.
    pub(crate) fn send(&mut self, text: &str) -> Result<u64> {
        Ok(self.try_send(text)?.context("too many turns wait")?.number)
    }

    /// Waits until a turn is done. Fails if it ends in any other way.
    pub(crate) fn until_done(&mut self, turn: u64) -> Result<()> {
        self.0.send(KeeperRequest::Follow { turn }).context("follow a turn")?;
        let mut is_answered = false;
        let mut ended = None;
        // The answer and the end may come in either order; both are taken from the connection.
        while !is_answered || ended.is_none() {
            match self.0.next().context("follow a turn")? {
                Some(KeeperMessage::Answer(KeeperAnswer::Receipt { receipt })) => {
                    is_answered = true;
                    ended = ended.or(Some(receipt.state).filter(|state| state.is_final()));
                }
                Some(KeeperMessage::Answer(other)) => bail!("an odd answer to who follows: {other:?}"),
                Some(KeeperMessage::Notice(KeeperNotice::Event { entry, .. })) => {
                    if let Event::TurnEnded { turn: it, end, .. } = entry.event
                        && it == turn
                    {
                        ended = Some(end.state.into());
                    }
                }
                Some(KeeperMessage::Notice(_) | KeeperMessage::Output(_) | KeeperMessage::Screen(_)) => {}
                None => bail!("the keeper went away"),
            }
        }
        match ended {
            Some(TurnState::Done) => Ok(()),
            other => bail!("turn {turn} ended as {other:?}"),
        }
    }

    /// Writes a note about the session, which is an event in its journal.
    pub(crate) fn note(&mut self, text: &str) -> Result<()> {
        self.order(KeeperRequest::Note { note: Some(text.to_owned()) })
    }

    /// Lets no further turn begin.
    pub(crate) fn pause(&mut self) -> Result<()> {
        self.order(KeeperRequest::Pause)
    }

    /// Lets the queue go on.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        self.order(KeeperRequest::GoOn)
    }

    /// Ends the session's run.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.order(KeeperRequest::Stop { grace_ms: GRACE_MS })
    }

    fn order(&mut self, request: KeeperRequest) -> Result<()> {
        match self.0.ask(request) {
            Ok(_) => Ok(()),
            Err(problem) => bail!("a keeper refused: {}", problem.what),
        }
    }
}

/// An agent on our own pipes, without berth between.
pub(crate) struct DirectAgent {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// A second handle of the output pipe, to poll.
    readable: File,
    line: Vec<u8>,
}

impl DirectAgent {
    /// Starts it, with no variables but those of the command, in a session of its own as a keeper does: the kernel
    /// may share the processors out between sessions, and then an agent in ours has it easier or harder.
    pub(crate) fn start(program: &Command) -> Result<Self> {
        let mut command = Command::new("setsid");
        command.arg(program.get_program()).args(program.get_args()).env_clear();
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(program.get_current_dir().unwrap_or(Path::new("/")));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("start an agent")?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the agent's output is a pipe")?;
        let readable = File::from(rustix::io::dup(&output).context("copy a descriptor")?);
        Ok(Self { child, input, output: BufReader::new(output), readable, line: Vec::new() })
    }

    /// Writes a line.
    pub(crate) fn say(&mut self, value: &Value) -> Result<()> {
        let input = self.input.as_mut().context("the agent's input is open")?;
        let line = format!("{value}\n");
        input.write_all(line.as_bytes()).context("write to an agent")
    }

    /// Reads lines until one is the one wanted.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            if self.output.buffer().is_empty() && !readable(&self.readable, Instant::now() + PATIENCE)? {
                bail!("the agent said nothing for {PATIENCE:?}");
            }
            self.line.clear();
            if self.output.read_until(b'\n', &mut self.line).context("read from an agent")? == 0 {
                bail!("the agent ended");
            }
            let Ok(value) = serde_json::from_slice::<Value>(&self.line) else { continue };
            if wanted(&value) {
                return Ok(value);
            }
        }
    }
}

impl Drop for DirectAgent {
    fn drop(&mut self) {
        // The end of its input is the agent's sign to leave; unread output must not hold it up.
        self.input = None;
        let until = Instant::now() + PATIENCE;
        let mut rest = Vec::new();
        while let Ok(None) = self.child.try_wait()
            && Instant::now() < until
        {
            let soon = Instant::now() + Duration::from_millis(20);
            if readable(&self.readable, soon).unwrap_or(false) {
                rest.clear();
                if !matches!(self.output.read_until(b'\n', &mut rest), Ok(1..)) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
