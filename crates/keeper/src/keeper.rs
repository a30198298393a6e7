//! The keeper process: one loop that owns one session.
//!
//! Each turn of the loop takes what arrived, lets the [`Owner`] decide and commit, publishes what
//! was committed, and does what is owed. Output bytes take their own way: file, clients, screen.
//! Promise: no terminal, one thread that decides, no wait without a limit: while a batch is on its way to the disk,
//! `writing` attends to what needs no journal.
//! Start with [`keep`]; `begin` makes the keeper, `requests`, `terminal` and `world` are what its
//! loop deals with: clients, the agent's bytes, the agent's processes; `agent` and `turns` are for one that
//! takes turns, `helper` and `ready` for one that is shared.

mod agent;
mod begin;
mod conversation;
pub mod copying;
mod delivery;
pub(crate) mod edges;
mod extras;
mod helper;
mod hook_answers;
mod interface;
mod look;
mod lost_lease;
mod own_signs;
mod ready;
mod requests;
mod seen;
mod terminal;
mod turns;
mod typing;
mod unjournalled;
mod world;
mod writing;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::frame::Kind;
use berth_api::message::{Notice, Size};
use berth_api::status::{AttachedStatus, Status};
use berth_api::{Code, Problem, SessionState, Timestamp, redact};
use berth_core::{Actor, Effect, Event, Now, Observation, Refusal, SessionId};
use berth_host::cgroup::Watch;
use berth_host::identity::Identity;
use berth_host::lock::LockFile;
use berth_host::signals::SignalFd;
use berth_host::socket;
use berth_host::watchdog::Watchdog;
use berth_host::{clock, memory};
use berth_journal::{Committed, JournalError};
use berth_screen::{Screen, Splitter};
use berth_store::conversations::ConversationLock;
use berth_store::history::Stored;
use berth_store::keepers::{ADOPT_FLAG, KEEPER_VERB};
use berth_store::output::{self, OutputLog};
use berth_store::store::{self, Lease};
use berth_store::{killpoint, view};
use rustix::event::{Timespec, epoll};

use crate::boundary::Contained;
use crate::clients::Client;
use crate::driver::pty::Terminal;
use crate::notify;
use crate::owner::{Input, Owner, Taken};
use crate::start::LOOKING_SINCE;

/// How long lists may have to look into the journal for what happened to a turn. Writing the short cut
/// costs as much as accepting a turn, and twice if the next event has to take its traces to the disk.
const STATUS_DELAY_MS: u64 = 50;
/// How long lists may be behind what the agent does at the moment, which is in no journal.
const ACTIVITY_DELAY_MS: u64 = 250;
/// A turn of the loop that takes longer than this replaces the program in place.
const STUCK_AFTER: Duration = Duration::from_secs(30);
/// How long clients may take to read the last words of a keeper that leaves.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(2);
/// How much of the output is replayed to restore a screen after a restart in place.
const REPLAY_BYTES: u64 = 1024 * 1024;
/// How patient an orderly end by SIGTERM is with the agent.
const SIGTERM_GRACE: Duration = Duration::from_secs(5);

/// After how much quiet the keeper gives back memory it does not need while idle.
const LEAN_AFTER: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const TERMINAL: u64 = 2;
const BOUNDARY: u64 = 3;
const AGENT_OUT: u64 = 4;
const AGENT_IN: u64 = 5;
const FIRST_CLIENT: u64 = 16;
/// Tokens from here on are of owners.
const FIRST_OWNER: u64 = 1 << 63;

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

/// What the agent of the session in `dir` complained of last, as words to put behind a sentence.
pub fn last_complaints(dir: &Path) -> String {
    let said = output::tail(&dir.join(agent::COMPLAINTS_DIR), 0, agent::COMPLAINT_BYTES as u64);
    said.ok().filter(|said| !said.is_empty()).map(|said| helper::last_lines(&said)).unwrap_or_default()
}

/// Everything the process owns.
struct Keeper {
    id: SessionId,
    dir: PathBuf,
    me: Identity,
    lease: Lease,
    run_lock: LockFile,
    contained: Contained,
    /// What tells of changes in it.
    boundary_watches: Vec<Watch>,
    owner: Owner,
    listener: UnixListener,
    signals: SignalFd,
    epoll: OwnedFd,
    watchdog: Option<Watchdog>,
    /// The journal on its way to the disk.
    writing: writing::Writing,
    clients: BTreeMap<u64, Client>,
    next_client: u64,
    /// Requests that arrived while a batch was on its way, oldest first.
    calls: VecDeque<(u64, Vec<u8>)>,
    terminal: Option<Terminal>,
    /// The agent, if it takes turns.
    talk: Option<agent::Talk>,
    /// What a status has and no journal does.
    extras: extras::StatusExtras,
    /// What there is to know of an agent in a terminal that tells.
    desk: edges::Desk,
    /// How the next run takes its conversation up.
    begin: berth_driver::Begin,
    /// The right to write the conversation.
    conversation: Option<ConversationLock>,
    /// The conversation as it was after the last turn.
    seen: Option<seen::Seen>,
    /// What the keeper remembers until the agent has written its end.
    end_seen: Option<seen::EndSeen>,
    /// What there is to know of turns on their way.
    delivery: delivery::Delivery,
    /// Whether everything of the run was asked to end.
    terminated: bool,
    output: OutputLog,
    screen: Screen,
    splitter: Splitter,
    /// Keys on their way to the agent.
    keys: VecDeque<u8>,
    /// The agent's side of the terminal is closed. Ours stays open, so that its number means the
    /// same to a new image.
    terminal_closed: bool,
    /// Whether the terminal is watched for room to write.
    wants_room: bool,
    /// Output that did not fit on the disk; reading stops until it does.
    unwritten: Vec<u8>,
    /// Exits that were seen and wait for the agent's last words to be on disk.
    exits: Vec<Observation>,
    /// Reports that did not fit into the journal.
    unjournalled: Vec<Observation>,
    /// What became of the lease, once it is no longer the one that was locked.
    lost_lease: Option<lost_lease::LeaseLoss>,
    /// When it was last asked whether only other sessions are in the run's group, on the boot clock.
    looked_for_others_at_ms: Option<u64>,
    /// How many processes of the run the kernel was seen to have killed because memory ran out.
    oom_kills: u64,
    /// When memory was last seen to have run out, on the boot clock.
    ran_out_at_ms: Option<u64>,
    /// Effects done for the current state.
    performed: Vec<Effect>,
    /// Since when something that was killed is still there, on the boot clock.
    killed_at_ms: Option<u64>,
    /// When to kill it again, on the boot clock.
    kill_again_at_ms: Option<u64>,
    /// When to try again what the disk refused, on the boot clock.
    retry_at_ms: Option<u64>,
    /// When the short cut for lists is to be written, on the boot clock.
    status_at_ms: Option<u64>,
    buffer: Vec<u8>,
    leaving: bool,
    /// Whether whoever started this run knows that it began; before, they are told what goes wrong with it.
    begun: bool,
    /// What is known of the config file, as far as it is about telling people.
    notify: notify::Known,
    /// Copies of the agent's transcript.
    copying: copying::Copying,
    /// The keepers of the sessions that own this helper.
    owners: helper::Owners,
    /// What is looked for until this helper is ready.
    looking: Option<ready::Looking>,
}

impl Keeper {
    /// The loop.
    fn serve(mut self) -> Result<(), Problem> {
        self.watchdog = self.make_watchdog().ok();
        self.write_status();
        self.start_writer();
        let mut events = Vec::with_capacity(16);
        let mut lean = false;
        while !self.leaving {
            events.clear();
            let due = if self.has_heard() { Some(Timespec::default()) } else { self.timeout() };
            let timeout = due.or((!lean).then_some(LEAN_AFTER));
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(bug("waiting for events", &error.into())),
            }
            if due.is_none() && events.is_empty() {
                // Nothing to do and nothing due: be small until somebody wants something.
                self.buffer = Vec::new();
                memory::give_back();
                lean = true;
                continue;
            }
            lean = false;
            self.arm_watchdog();
            for event in &events {
                self.handle(event.data.u64(), event.flags);
            }
            self.answer_calls();
            self.take_heard();
            self.on_time();
            self.settle();
            self.leave_if_disowned();
            self.flush_all();
            self.owner.write_snapshot();
            if let Some(watchdog) = &self.watchdog {
                watchdog.disarm();
            }
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

    /// Lets the owner take a batch and tells everyone what came of it.
    fn take(&mut self, inputs: Vec<Input>) -> Result<Vec<Result<(), Refusal>>, Problem> {
        Ok(self.take_batch(inputs)?.answers)
    }

    fn take_batch(&mut self, inputs: Vec<Input>) -> Result<Taken, Problem> {
        self.check_lease(&inputs)?;
        if self.writing.is_busy {
            debug_assert!(false, "a batch in the middle of another: {inputs:?}");
            return Err(Problem::new(Code::Bug, "the keeper is still writing the change before this one"));
        }
        self.commit(inputs)
    }

    fn commit(&mut self, inputs: Vec<Input>) -> Result<Taken, Problem> {
        let batch = self.owner.begin(inputs, now());
        let written = if batch.is_empty() { batch.write() } else { self.write(batch) };
        match self.owner.finish(written) {
            Ok(taken) => {
                self.publish(&taken.events);
                Ok(taken)
            }
            Err(error) => Err(self.journal_trouble(&error)),
        }
    }

    /// Takes a report. If the journal refuses, the report waits: the world will not repeat it.
    fn report(&mut self, observations: Vec<Observation>) {
        if self.writing.is_busy {
            // Part of the next batch.
            return self.writing.heard.extend(observations.into_iter().map(Input::Report));
        }
        let epoch = self.owner.history().session.epoch;
        unjournalled::add(&mut self.unjournalled, observations, epoch);
        if self.unjournalled.is_empty() {
            return;
        }
        let inputs = self.unjournalled.iter().cloned().map(Input::Report).collect();
        match self.take(inputs) {
            Ok(_) => self.unjournalled.clear(),
            Err(_) => self.retry_soon(),
        }
    }

    /// The same for what the journal refused before.
    fn report_again(&mut self) {
        let waited = !self.unjournalled.is_empty();
        self.report(vec![]);
        if waited && self.unjournalled.is_empty() && self.owner.history().session.tells {
            // What follows from it could not be known when it was told.
            self.after_edge();
        }
    }

    fn journal_trouble(&mut self, error: &JournalError) -> Problem {
        store::journal_problem(error, self.id.as_str())
    }

    /// Tells watchers what is on disk. Only what is on disk can be told.
    fn publish(&mut self, events: &[Committed<Stored>]) {
        for event in events {
            tracing::info!(seq = event.seq().0, event = %redact::kind(&event.get().event), "committed");
            let is_end = matches!(event.get().event, Event::RunEnded { .. } | Event::EndUnproven { .. });
            let mut json = None;
            for client in self.clients.values_mut() {
                let follows = client.follows.is_some_and(|turn| turns::concerns(&event.get().event, turn));
                if client.watches || follows || (is_end && client.attached.is_some()) {
                    let json = json.get_or_insert_with(|| {
                        let entry = Box::new(event.get().entry());
                        let notice = Notice::Event { seq: event.seq().0, entry };
                        serde_json::to_vec(&notice).expect("a notice is plain data")
                    });
                    client.send(Kind::Notice, json);
                }
            }
        }
        if events.is_empty() {
            return;
        }
        self.tell_those_who_do_not_look(events);
        self.extras.follow(events, self.owner.history());
        self.copy_transcript(events);
        if events.iter().all(|event| turns::is_of_a_turn(&event.get().event)) {
            self.write_status_within(STATUS_DELAY_MS);
        } else {
            let has_started =
                events.iter().any(|event| matches!(event.get().event, Event::RunStarted { .. }));
            if has_started {
                let cwd = self.cwd();
                self.extras.read_branch_within(&cwd, extras::FIRST_BRANCH_PATIENCE);
            }
            self.write_status();
            if has_started {
                // The branch may have come later than that.
                self.write_status_within(STATUS_DELAY_MS);
            }
        }
        if events
            .iter()
            .any(|event| matches!(event.get().event, Event::RunEnded { .. } | Event::EndUnproven { .. }))
        {
            self.answer_those_who_await_the_end();
        }
        self.answer_hooks(events);
        self.tell_readiness();
        self.tell_whether_it_takes_turns();
    }

    fn status(&self) -> Status {
        let mut status = self.owner.history().status(&self.id, true);
        let attached = self.clients.values().filter_map(|client| Some((client, client.attached?)));
        status.attached = attached
            .map(|(client, attached)| AttachedStatus {
                place: client.actor.place.clone(),
                since: Timestamp(attached.since_ms),
                writes: attached.fence.is_some(),
            })
            .collect();
        status.attached.sort_by_key(|attached| attached.since.0);
        status.clients = status.attached.len();
        status.output_bytes = self.output.end();
        status.output_file = self.output.file_name();
        status.rows = self.screen.size().rows;
        status.cols = self.screen.size().cols;
        view::add_output(&self.dir, &mut status);
        let boot_ms = clock::boot_ms();
        let session = &self.owner.history().session;
        self.extras.fill(session.has_terminal(), &mut status);
        if let Some(turns) = &mut status.turns {
            turns.told = self.desk.told().or(turns.told.take());
            turns.activity = self.talk.as_ref().and_then(agent::Talk::activity);
            turns.releases_in_ms = session.release_at_boot_ms().map(|at| at.saturating_sub(boot_ms));
        }
        let expiry = session.expiry.as_ref().filter(|expiry| expiry.boot.0 == self.me.boot);
        status.expires_in_ms = expiry.map(|expiry| expiry.boot_ms.saturating_sub(boot_ms));
        status
    }

    /// Writes the short cut for lists. It is derived, so a failure costs only time.
    fn write_status(&mut self) {
        if self.writing.is_busy {
            // The journal may have more by now than the status tells, and who reads both would believe the status.
            return self.write_status_within(0);
        }
        self.status_at_ms = None;
        if self.is_disowned() {
            return;
        }
        self.extras.take_branch();
        view::write_short_cut(&self.dir, &self.written_status());
    }

    fn written_status(&self) -> Status {
        let mut status = self.status();
        if !self.owner.history().session.is_live() {
            status.keeper_pid = None;
            // They are sent away with its last words.
            (status.clients, status.attached) = (0, vec![]);
        }
        status
    }

    /// Sees to it that lists learn of something within this time.
    fn write_status_within(&mut self, ms: u64) {
        if self.status_at_ms.is_none() {
            let cwd = self.cwd();
            self.extras.read_branch(&cwd);
        }
        let at = clock::boot_ms() + ms;
        self.status_at_ms = Some(self.status_at_ms.map_or(at, |earlier| earlier.min(at)));
    }

    fn cwd(&self) -> String {
        self.owner.history().session.spec.as_ref().map(|spec| spec.cwd.clone()).unwrap_or_default()
    }

    /// The last words: everything on disk, everyone told.
    fn leave(mut self) {
        // Nothing of ours writes the conversation any more, and everybody was told so: whoever goes on with it need not
        // wait for our farewells or a copy.
        self.conversation = None;
        killpoint::reached("keeper-leaves");
        let _ = self.output.finish();
        let is_disowned = self.is_disowned();
        if !is_disowned {
            let screen = self.screen.restore();
            let _ = berth_host::disk::write_atomically(&self.dir, SCREEN_FILE, &screen, false);
        }
        let cwd = self.cwd();
        self.extras.read_branch_within(&cwd, extras::LAST_BRANCH_PATIENCE);
        self.write_status();
        let until = clock::boot_ms() + FAREWELL_PATIENCE.as_millis() as u64;
        while clock::boot_ms() < until {
            // Nobody listens to the kernel any more.
            let keys: Vec<u64> = self.clients.keys().copied().collect();
            keys.into_iter().for_each(|key| self.write_now(key));
            self.flush_all();
            if self.clients.values().all(Client::is_drained) {
                break;
            }
            let mut events = Vec::with_capacity(16);
            let patience = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&patience));
        }
        let status = self.written_status();
        if is_disowned {
            self.owner.derive_no_more();
        }
        // Sealing is a courtesy to the next reader; the events themselves are on disk.
        let _ = self.owner.close();
        // A session that can go on is believed only as long as its journal is as the short cut says.
        if status.state == SessionState::Idle && !is_disowned {
            view::write_short_cut(&self.dir, &status);
        }
        // With the lease held: nobody purges what is being copied.
        self.copying.finish();
    }

    /// From now on a turn of the loop has its time, unless a new image would not know what we are about to say.
    fn arm_watchdog(&self) {
        if let Some(watchdog) = self.watchdog.as_ref().filter(|_| self.has_said_everything()) {
            watchdog.arm(killpoint::stuck_after(STUCK_AFTER));
        }
    }

    /// Descriptors changed: a new image would look for the old ones.
    fn renew_watchdog(&mut self) {
        if self.watchdog.is_some() {
            self.watchdog = self.make_watchdog().ok();
        }
    }

    fn make_watchdog(&self) -> io::Result<Watchdog> {
        let keep = self.kept_fds();
        let mut args: Vec<OsString> =
            vec!["berth".into(), KEEPER_VERB.into(), ADOPT_FLAG.into(), self.dir.clone().into()];
        args.extend(keep.iter().take(3).map(|fd| fd.to_string().into()));
        args.extend(self.named_fds().into_iter().map(|(name, fd)| format!("{name}={fd}").into()));
        args.extend(begin::words_of(&self.begin).into_iter().map(OsString::from));
        args.extend(self.looking.as_ref().map(|it| format!("{LOOKING_SINCE}{}", it.since_awake_ms()).into()));
        Watchdog::install(&args, &keep)
    }

    /// What a new image needs of this one: lease, run lock and socket, then what it has by name.
    fn kept_fds(&self) -> Vec<RawFd> {
        let mut fds = vec![
            self.lease.file().as_fd().as_raw_fd(),
            self.run_lock.as_fd().as_raw_fd(),
            self.listener.as_raw_fd(),
        ];
        fds.extend(self.named_fds().into_iter().map(|(_, fd)| fd));
        fds
    }

    /// What it needs besides, by name: the lock on its directory, a terminal or pipes, and the right to write a
    /// conversation.
    fn named_fds(&self) -> Vec<(&'static str, RawFd)> {
        let terminal = self.terminal.as_ref().map(|terminal| ("pty", terminal.pty.master.as_raw_fd()));
        let pipes = self.talk.as_ref().map(agent::Talk::pipes);
        let stdin = pipes.and_then(|pipes| Some(("in", pipes.stdin.as_ref()?.as_raw_fd())));
        let rest = pipes.map(|pipes| [("out", pipes.stdout.as_raw_fd()), ("err", pipes.stderr.as_raw_fd())]);
        let conversation =
            self.conversation.as_ref().map(|lock| ("conversation", lock.file().fd().as_raw_fd()));
        let dir = ("dir", self.lease.dir_lock().as_fd().as_raw_fd());
        let talk = stdin.into_iter().chain(rest.into_iter().flatten());
        [dir].into_iter().chain(terminal).chain(talk).chain(conversation).collect()
    }

    fn retry_soon(&mut self) {
        self.retry_at_ms = Some(clock::boot_ms() + 1000);
    }
}

/// The screen as the last run left it.
pub const SCREEN_FILE: &str = "screen.ansi";

fn now() -> Now {
    Now { wall_ms: clock::wall_ms(), boot_ms: clock::boot_ms() }
}

fn screen_size(size: Size) -> berth_screen::Size {
    berth_screen::Size { rows: size.rows, cols: size.cols }.clamped()
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
