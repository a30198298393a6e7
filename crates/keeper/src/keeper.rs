//! The keeper process: one loop that owns one session.
//!
//! Each pass of the loop takes events of the kernel, commits what they lead to (`commit_pipeline`), publishes what was
//! committed, and performs the effects that are owed. The state lives in parts, each in a file of its own; a part changes
//! only itself and returns what it learned, and the methods of `Keeper` commit that and tell the other parts.
//! Promise: no terminal, one thread that decides, no wait without a limit: while a batch is in flight, `commit` attends to
//! what needs no journal.
//! Start with [`keep`]; `begin` and `adopt` make the keeper, `commit` and `publish` are the way into the journal and out
//! of it, `requests` and `effects` are what comes in and goes out.

mod adopt;
mod agent_conversation;
mod agent_link;
mod agent_output;
mod agent_terminal;
mod agent_updates;
mod attach_requests;
mod begin;
mod client;
mod client_connections;
mod client_table;
mod commit;
mod commit_pipeline;
mod conversation_mark;
mod effects;
mod event_loop;
mod helper_requests;
mod helper_role;
mod hook_reports;
mod identity;
mod interface_switch;
mod journal_reads;
mod lease_loss;
mod next_run;
mod output_recorder;
mod publish;
mod readiness;
mod requests;
mod run_supervisor;
mod status_writer;
mod take_up;
mod timers;
pub mod transcript_copies;
mod tui_turns;
mod turn_requests;
mod waiting_reports;

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use berth_api::{Code, Problem, SessionState};
use berth_core::{Actor, Now};
use berth_host::{clock, memory, socket};
use berth_screen::Plain;
use berth_store::keepers::{ADOPT_FLAG, KEEPER_VERB};
use berth_store::{SessionFiles, killpoint};
use rustix::event::{Timespec, epoll};

use agent_conversation::AgentConversation;
use agent_link::AgentLink;
use agent_terminal::AgentTerminal;
use client_table::ClientTable;
use commit_pipeline::CommitPipeline;
use event_loop::{AGENT_IN, AGENT_OUT, BOUNDARY, EventLoop, FIRST_OWNER, LISTENER, SIGNALS, TERMINAL};
use helper_role::HelperRole;
use identity::KeeperIdentity;
use output_recorder::OutputRecorder;
use publish::NotificationGate;
use run_supervisor::RunSupervisor;
use status_writer::StatusWriter;
use transcript_copies::TranscriptCopier;
use tui_turns::TuiTurns;

/// How long clients may take to read the last words of a keeper that leaves.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(2);
/// How patient an orderly end by SIGTERM is with the agent.
const SIGTERM_GRACE: Duration = Duration::from_secs(5);
/// After how much quiet the keeper gives back memory it does not need while idle.
const LEAN_AFTER: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How much of a program's last words is shown.
const LAST_LINES: usize = 12;
const LAST_LINE_CHARS: usize = 200;

/// Runs the keeper. `args` is what follows the hidden verb. Returns the exit code.
pub fn keep(args: &[OsString]) -> u8 {
    tracing::info!(pid = std::process::id(), version = env!("CARGO_PKG_VERSION"), "a keeper begins");
    match begin::begin(args).and_then(Keeper::serve) {
        Ok(()) => {
            tracing::info!("nothing is left to keep");
            0
        }
        Err(problem) => {
            tracing::error!(code = ?problem.code, "{problem}");
            problem.code.exit_code()
        }
    }
}

/// The last complaints of a session's agent, as words to put behind a sentence.
pub fn last_complaints(files: &SessionFiles) -> String {
    let said = files.complaints().tail(0, agent_link::COMPLAINT_BYTES as u64);
    said.ok().filter(|said| !said.is_empty()).map(|said| last_lines(&said)).unwrap_or_default()
}

/// The parts of the process. The loop tells each what arrived.
struct Keeper {
    identity: KeeperIdentity,
    journal: CommitPipeline,
    event_loop: EventLoop,
    clients: ClientTable,
    run: RunSupervisor,
    output: OutputRecorder,
    terminal: AgentTerminal,
    tui_turns: TuiTurns,
    /// Set while the run's agent is on pipes.
    agent: Option<AgentLink>,
    conversation: AgentConversation,
    helper: HelperRole,
    status: StatusWriter,
    notifications: NotificationGate,
    copies: TranscriptCopier,
}

impl Keeper {
    /// The loop.
    fn serve(mut self) -> Result<(), Problem> {
        self.install_watchdog();
        self.write_status();
        self.journal.start_thread();
        let mut events = Vec::with_capacity(16);
        let mut lean = false;
        while !self.event_loop.is_leaving() {
            events.clear();
            let due = if self.has_deferred() { Some(Timespec::default()) } else { self.timeout() };
            let is_quiet_first = !lean && due.is_none_or(|due| LEAN_AFTER < due);
            let timeout = if is_quiet_first { Some(LEAN_AFTER) } else { due };
            self.event_loop
                .epoll()
                .wait(&mut events, timeout.as_ref())
                .map_err(|error| bug("waiting for events", &error))?;
            if events.is_empty() && is_quiet_first {
                // Nothing to do, and nothing due soon: be small until then, or until a client wants something.
                self.output.shrink();
                memory::give_back();
                lean = true;
                continue;
            }
            lean = false;
            self.arm_watchdog();
            self.forget_departing();
            for event in &events {
                self.handle(event.data.u64(), event.flags);
            }
            self.answer_calls();
            self.take_deferred();
            self.on_time();
            self.settle();
            self.leave_if_disowned();
            self.unpause_clients();
            self.flush_all();
            self.journal.write_snapshot();
            self.event_loop.disarm_watchdog();
        }
        self.leave();
        Ok(())
    }

    fn handle(&mut self, token: u64, flags: epoll::EventFlags) {
        match token {
            LISTENER => self.accept(),
            SIGNALS => self.on_signals(),
            TERMINAL => self.on_terminal(flags),
            BOUNDARY => self.on_boundary(),
            AGENT_OUT | AGENT_IN => self.on_agent(token),
            owner if owner >= FIRST_OWNER => self.on_owner(owner),
            client => self.on_client(client, flags),
        }
    }

    /// The last words: everything on disk, all clients told.
    fn leave(mut self) {
        // Nothing of the run writes the conversation any more, and all clients were told so: the next session that goes on
        // with it need not wait for farewells or a copy.
        self.conversation.unlock();
        killpoint::reached("keeper-leaves");
        self.output.finish();
        let is_disowned = self.journal.is_disowned();
        if !is_disowned {
            self.identity.files().write_screen(&self.terminal.last_paint());
        }
        self.status.read_branch_within(cwd_of(self.journal.session()), status_writer::LAST_BRANCH_PATIENCE);
        self.write_status();
        self.say_farewell();
        let status = self.written_status();
        let lease = self.journal.close();
        // A session that can go on is believed only as long as its journal is as the short cut says.
        if status.state == SessionState::Idle && !is_disowned {
            self.identity.files().write_short_cut(&status);
        }
        // With the lease held: what is being copied is not purged.
        self.copies.finish();
        drop(lease);
    }

    /// Writes to clients what they still take.
    fn say_farewell(&mut self) {
        let until = clock::boot_ms() + FAREWELL_PATIENCE.as_millis() as u64;
        while clock::boot_ms() < until {
            // The loop does not listen to the kernel any more.
            self.clients.write_all_now();
            self.flush_all();
            if self.clients.is_drained() {
                break;
            }
            let mut events = Vec::with_capacity(16);
            let patience = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let _ = self.event_loop.epoll().wait(&mut events, Some(&patience));
        }
    }

    // The watchdog.

    /// From now on a pass of the loop has its time, unless a new image would not know what the agent is about to be told.
    fn arm_watchdog(&self) {
        if self.has_said_everything() {
            self.event_loop.arm_watchdog();
        }
    }

    /// True if all words to the agent are with it: a new image does not know what is not.
    fn has_said_everything(&self) -> bool {
        self.agent.as_ref().is_none_or(|agent| !agent.has_words()) && !self.tui_turns.is_typing()
    }

    /// Descriptors changed: a new image would look for the old ones.
    fn renew_watchdog(&mut self) {
        if self.event_loop.has_watchdog() {
            self.install_watchdog();
        }
    }

    /// Has a new image take along what it needs of this one: lease, run lock and socket, then the rest by name.
    fn install_watchdog(&mut self) {
        let (lease, dir) = self.journal.lease_fds();
        let first = [lease, self.run.lock_fd(), self.event_loop.listener_fd()];
        let agent = self.agent.iter().flat_map(AgentLink::named_fds);
        let terminal = self.terminal.named_fd().into_iter();
        let named: Vec<_> = [("dir", dir)]
            .into_iter()
            .chain(terminal)
            .chain(agent)
            .chain(self.conversation.named_fd())
            .collect();
        let mut args: Vec<OsString> =
            vec!["berth".into(), KEEPER_VERB.into(), ADOPT_FLAG.into(), self.identity.files().argument()];
        args.extend(first.iter().map(|fd| fd.to_string().into()));
        args.extend(named.iter().map(|(name, fd)| format!("{name}={fd}").into()));
        args.extend(adopt::words_of(self.conversation.begin()).into_iter().map(OsString::from));
        args.extend(self.helper.probe_argument());
        let keep: Vec<_> = first.into_iter().chain(named.into_iter().map(|(_, fd)| fd)).collect();
        self.event_loop.install_watchdog(&args, &keep);
    }

    /// Does something without being replaced in the middle of it: what is recorded as said must be said, and a
    /// new image would not know that it was not. A disk that hangs cannot be helped by a new image anyway.
    fn undisturbed<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> T {
        self.event_loop.disarm_watchdog();
        let was_undisturbed = self.event_loop.set_undisturbed(true);
        let done = what(self);
        self.event_loop.set_undisturbed(was_undisturbed);
        if !was_undisturbed {
            self.arm_watchdog();
        }
        done
    }

    /// [`Self::undisturbed`], and clients are not read meanwhile: keys of a person would be joined with what is typed.
    fn with_keys_held<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> T {
        self.clients.hold_keys(true);
        let done = self.undisturbed(what);
        self.clients.hold_keys(false);
        done
    }
}

fn now() -> Now {
    Now { wall_ms: clock::wall_ms(), boot_ms: clock::boot_ms() }
}

fn cwd_of(session: &berth_core::Session) -> &str {
    session.spec.as_ref().map_or("", |spec| spec.cwd.as_str())
}

fn libc_chld() -> i32 {
    rustix::process::Signal::CHILD.as_raw()
}

fn libc_term() -> i32 {
    rustix::process::Signal::TERM.as_raw()
}

fn trouble(what: &str, error: &io::Error) -> Problem {
    Problem::new(Code::Refused, format!("cannot {what}: {error}"))
}

fn bug(what: &str, error: &io::Error) -> Problem {
    Problem::new(Code::Bug, format!("the keeper failed at {what}: {error}"))
}

fn actor_of(stream: &UnixStream) -> io::Result<Actor> {
    let peer = socket::peer(stream)?;
    Ok(Actor { pid: peer.pid, uid: Some(peer.uid), place: String::new() })
}

/// The last lines of what a program printed, as lines to put below a sentence.
fn last_lines(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    Plain::default().feed(bytes, &mut text);
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "; it printed nothing".to_owned();
    }
    let shown = lines[lines.len().saturating_sub(LAST_LINES)..].iter();
    let shown = shown.map(|line| format!("\n  {}", line.chars().take(LAST_LINE_CHARS).collect::<String>()));
    format!("; it printed last:{}", shown.collect::<String>())
}
