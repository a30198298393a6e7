//! The keeper process: one loop that owns one session.
//!
//! Each pass of the loop takes events of the kernel, commits what they lead to (`commit_pipeline`), publishes what was
//! committed, and performs the effects that are owed. The state lives in parts, each in a file of its own; a part changes
//! only itself and returns what it learned, and the methods of `Keeper` commit that and tell the other parts.
//! Promise: no terminal, one thread that decides, no wait without a limit: while a batch is in flight, `commit` attends to
//! work that needs no journal.
//! Start with [`run_keeper`]; `begin` and `adopt` make the keeper, `commit` and `publish` are the way into the journal and out
//! of it, `requests` and `effects` are what comes in and goes out.

mod agent_link;
mod agent_output;
mod agent_terminal;
mod agent_updates;
mod attach_requests;
mod client;
mod client_connections;
mod client_table;
mod commit;
mod commit_pipeline;
mod effects;
mod event_loop;
mod external_writes;
mod helper_requests;
mod helper_role;
mod hook_reports;
mod identity;
mod interface_switch;
mod journal_reads;
mod lease_loss;
mod next_run;
mod output_recorder;
mod prepared_conversation;
mod publish;
mod readiness;
mod requests;
mod restart_in_place;
mod run_conversation;
mod run_supervisor;
mod startup;
mod status_writer;
mod sync_pace;
mod timers;
pub mod transcript_copier;
mod tui_turns;
mod turn_requests;
mod waiting_reports;

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use berth_api::{Problem, SessionState};
use berth_core::{Actor, ClockReading};
use berth_host::{clock, memory, socket};
use berth_screen::PlainTextFilter;
use berth_store::keepers::{ADOPT_FLAG, KEEPER_VERB};
use berth_store::{SessionFiles, killpoint};
use rustix::event::{Timespec, epoll};

use agent_link::AgentLink;
use agent_terminal::AgentTerminal;
use client_table::{ClientTable, MAX_CLIENTS};
use commit_pipeline::CommitPipeline;
use event_loop::{AGENT_IN, AGENT_OUT, BOUNDARY, EventLoop, FIRST_OWNER, LISTENER, SIGNALS, TERMINAL};
use helper_role::HelperRole;
use identity::KeeperIdentity;
use output_recorder::OutputRecorder;
use publish::NotificationGate;
use run_conversation::RunConversation;
use run_supervisor::RunSupervisor;
use status_writer::StatusWriter;
use transcript_copier::TranscriptCopier;
use tui_turns::TuiTurns;

/// The time that clients may take to read the last frames of a keeper that leaves.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(2);
/// The grace period of the agent after a SIGTERM to the keeper.
const SIGTERM_GRACE: Duration = Duration::from_secs(5);
/// The idle time after which the keeper gives back memory.
const LEAN_AFTER: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// The number of lines shown of a program's last output.
const LAST_LINES: usize = 12;
const LAST_LINE_CHARS: usize = 200;

/// Runs the keeper. `args` is what follows the hidden verb. Returns the exit code.
pub fn run_keeper(args: &[OsString]) -> u8 {
    tracing::info!(pid = std::process::id(), version = env!("CARGO_PKG_VERSION"), "a keeper begins");
    match startup::begin(args).and_then(Keeper::serve) {
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

/// The last error output of a session's agent, worded to follow a sentence.
pub fn last_complaints(files: &SessionFiles) -> String {
    let said = files.complaints().tail(0, agent_link::COMPLAINT_BYTES as u64);
    said.ok().filter(|said| !said.is_empty()).map(|said| last_lines(&said)).unwrap_or_default()
}

/// The parts of the process. The loop passes each event to its part.
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
    conversation: RunConversation,
    helper: HelperRole,
    status: StatusWriter,
    notifications: NotificationGate,
    copies: TranscriptCopier,
}

impl Keeper {
    fn serve(mut self) -> Result<(), Problem> {
        self.install_watchdog();
        self.write_status();
        self.journal.start_thread();
        // Room for all clients at once: turns that arrive together are accepted together.
        let mut events = Vec::with_capacity(MAX_CLIENTS);
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
                // There is no work now or soon: use little memory until then, or until a client sends a request.
                self.output.shrink();
                memory::release_unused();
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

    /// Ends the work: everything is on disk, and all clients were notified.
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
        // The status of a session that can go on is believed only while its journal is as the status says.
        if status.state == SessionState::Idle && !is_disowned {
            self.identity.files().write_status_cache(&status);
        }
        // While the lease is held, files that are being copied are not purged.
        self.copies.finish();
        drop(lease);
    }

    /// Writes the queued frames to clients for a limited time.
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

    /// Starts the timeout of a pass of the loop, unless a new image could not know what the agent is about to be sent.
    fn arm_watchdog(&self) {
        if self.has_said_everything() {
            self.event_loop.arm_watchdog();
        }
    }

    /// True if all queued bytes were written to the agent: a new image does not know the rest.
    fn has_said_everything(&self) -> bool {
        self.agent.as_ref().is_none_or(|agent| !agent.has_words()) && !self.tui_turns.is_typing()
    }

    /// Descriptors changed: a new image would look for the old ones.
    fn renew_watchdog(&mut self) {
        if self.event_loop.has_watchdog() {
            self.install_watchdog();
        }
    }

    /// Passes the descriptors that a new image needs: lease, run lock and socket, then the rest by name.
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
        args.extend(restart_in_place::words_of(self.conversation.begin()).into_iter().map(OsString::from));
        args.extend(self.helper.probe_argument());
        let keep: Vec<_> = first.into_iter().chain(named.into_iter().map(|(_, fd)| fd)).collect();
        self.event_loop.install_watchdog(&args, &keep);
    }

    /// Calls `what` without a replacement of the program in the middle of it: words recorded as said must be said,
    /// and a new image would not know that they were not. A disk that hangs cannot be helped by a new image anyway.
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

    /// Like [`Self::undisturbed`], but clients are not read meanwhile: keys of a user would be mixed into
    /// the typed text.
    fn with_keys_held<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> T {
        self.clients.hold_keys(true);
        let done = self.undisturbed(what);
        self.clients.hold_keys(false);
        done
    }
}

fn now() -> ClockReading {
    ClockReading { wall_ms: clock::wall_ms(), boot_ms: clock::boot_ms() }
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
    Problem::refused(format!("cannot {what}: {error}"))
}

fn bug(what: &str, error: &io::Error) -> Problem {
    Problem::bug(format!("the keeper failed at {what}: {error}"))
}

fn actor_of(stream: &UnixStream) -> io::Result<Actor> {
    let peer = socket::peer_credentials(stream)?;
    Ok(Actor { pid: peer.pid, uid: Some(peer.uid), place: String::new() })
}

/// The last lines of a program's output, to be shown below a sentence.
fn last_lines(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    PlainTextFilter::default().feed(bytes, &mut text);
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "; it printed nothing".to_owned();
    }
    let shown = lines[lines.len().saturating_sub(LAST_LINES)..].iter();
    let shown = shown.map(|line| format!("\n  {}", line.chars().take(LAST_LINE_CHARS).collect::<String>()));
    format!("; it printed last:{}", shown.collect::<String>())
}
