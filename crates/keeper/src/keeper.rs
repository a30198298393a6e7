//! The keeper process: one loop that owns one session.
//!
//! Each turn of the loop takes what arrived, lets the [`Owner`] decide and commit, publishes what
//! was committed, and does what is owed. Output bytes take their own way: file, clients, screen.
//! Promise: no terminal, no thread that matters, no wait without a limit.
//! Start with [`keep`]; `requests`, `terminal` and `world` hold the three halves of the loop.

mod requests;
mod terminal;
mod world;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::client::SOCKET_NAME;
use berth_api::frame::{self, Kind};
use berth_api::message::{Answer, Call, Notice, Request, Size};
use berth_api::status::Status;
use berth_api::{Code, Problem};
use berth_core::{Actor, Command, Effect, Event, Name, Now, Observation, Outcome, Refusal, SessionId};
use berth_host::identity::Identity;
use berth_host::lock::LockFile;
use berth_host::pty::Pty;
use berth_host::signals::{self, SignalFd};
use berth_host::socket;
use berth_host::watchdog::{self, Watchdog};
use berth_host::{clock, memory, tree};
use berth_journal::{Committed, JournalError};
use berth_screen::{Screen, Splitter};
use rustix::event::{Timespec, epoll};

use crate::clients::Client;
use crate::driver::pty::Terminal;
use crate::history::Stored;
use crate::home::Home;
use crate::killpoint;
use crate::output::{self, OutputLog};
use crate::owner::{Input, Owner};
use crate::start::{ADOPT_FLAG, KEEPER_VERB};
use crate::store::{self, Lease};
use crate::{recover, view};

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
const FIRST_CLIENT: u64 = 16;

/// Runs the keeper. `args` is what follows the hidden verb. Returns the exit code.
pub fn keep(args: &[OsString]) -> u8 {
    match begin(args).and_then(Keeper::serve) {
        Ok(()) => 0,
        Err(problem) => problem.code.exit_code(),
    }
}

/// Everything the process owns.
struct Keeper {
    id: SessionId,
    dir: PathBuf,
    me: Identity,
    lease: Lease,
    run_lock: LockFile,
    owner: Owner,
    listener: UnixListener,
    signals: SignalFd,
    epoll: OwnedFd,
    watchdog: Option<Watchdog>,
    clients: BTreeMap<u64, Client>,
    next_client: u64,
    terminal: Option<Terminal>,
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
    /// Effects done for the current state.
    performed: Vec<Effect>,
    /// Since when something that was killed is still there, on the boot clock.
    killed_at_ms: Option<u64>,
    /// When to kill it again, on the boot clock.
    kill_again_at_ms: Option<u64>,
    /// When to try again what the disk refused, on the boot clock.
    retry_at_ms: Option<u64>,
    buffer: Vec<u8>,
    leaving: bool,
}

fn begin(args: &[OsString]) -> Result<Keeper, Problem> {
    memory::one_heap();
    quiet_signals().map_err(|error| bug("setting up signals", &error))?;
    let text = |at: usize| args.get(at).and_then(|arg| arg.to_str());
    if text(0) == Some(ADOPT_FLAG) {
        return adopt(args);
    }
    let mut caller = first_client().map_err(|error| bug("reaching the caller", &error))?;
    let begun = (|| {
        let root = args.first().map(PathBuf::from).ok_or_else(|| usage("a state directory"))?;
        let id = text(1).and_then(SessionId::parse).ok_or_else(|| usage("a session id"))?;
        let call = first_call(&mut caller)?;
        Keeper::start(&Home::open(root)?, id, call)
    })();
    match begun {
        Ok(mut keeper) => {
            let answer = Answer::Done { status: Box::new(keeper.status()) };
            let key = keeper.add_client(caller).map_err(|error| bug("keeping the caller", &error))?;
            keeper.answer(key, &answer);
            keeper.flush(key);
            Ok(keeper)
        }
        Err(problem) => {
            let answer = serde_json::to_vec(&Answer::Problem { problem: problem.clone() });
            let _ = frame::write(&mut caller, Kind::Answer, &[&answer.unwrap_or_default()]);
            Err(problem)
        }
    }
}

impl Keeper {
    /// Makes or reopens the session and starts its next run.
    fn start(home: &Home, id: SessionId, call: Call) -> Result<Self, Problem> {
        let dir = home.session_dir(&id);
        let lease = claim(&dir, &id)?;
        killpoint::reached("claimed");
        match call.request {
            // What follows takes a failed beginning away, and must never do so to a session that has one.
            Request::Create { .. } if store::exists(&dir)? => {
                Err(berth_api::problem::refusal(&Refusal::AlreadyCreated, id.as_str()))
            }
            Request::Create { spec, name, size } => {
                let name = name.as_deref().map(Name::parse).transpose();
                let name = name.map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
                let create = Command::Create { spec: spec.into(), name };
                let made = store::create(&dir, &id, &lease).and_then(|owner| {
                    let inputs = vec![Input::Command(create)];
                    Self::start_run(id, dir.clone(), lease, owner, inputs, size, Some(&home.sessions_dir()))
                });
                if made.is_err() {
                    // Nothing was ever said in it and nobody else has heard of it: leave no
                    // half-made session.
                    let _ = fs::remove_dir_all(&dir);
                }
                made
            }
            Request::Resume { size } => {
                let (owner, torn) = store::open(&dir, &id, &lease)?;
                if owner.history().session.spec.is_none() {
                    // Asked before the torn end is noted: what was never made gets no first event.
                    return Err(berth_api::problem::refusal(&Refusal::NotCreated, id.as_str()));
                }
                let mut inputs = settle_past(&dir, &id, &owner)?;
                view::doubt_short_cut(&dir)
                    .map_err(|error| trouble(&format!("begin the next run of session {id}"), &error))?;
                inputs.extend(torn.map(|what| Input::Note(Event::Warned { what })));
                Self::start_run(id, dir, lease, owner, inputs, size, None)
            }
            other => Err(usage(&format!("to create or resume, not {other:?}"))),
        }
    }

    /// Records the run, then makes it. `new_in` is the directory a new session's name was made in.
    fn start_run(
        id: SessionId,
        dir: PathBuf,
        lease: Lease,
        mut owner: Owner,
        mut inputs: Vec<Input>,
        size: Size,
        new_in: Option<&Path>,
    ) -> Result<Self, Problem> {
        let me = Identity::me().map_err(|error| bug("identifying this process", &error))?;
        let run_lock = lock_run(&dir)?;
        let listener = socket::listen(&dir, SOCKET_NAME)
            .map_err(|error| trouble(&format!("make the socket of session {id}"), &error))?;
        let output_from = output::end_of(&dir.join("output"))
            .map_err(|error| trouble("find the end of the output", &error))?;
        inputs.push(Input::Command(Command::Start { keeper: recover::process(me.clone()), output_from }));
        let taken = owner.take(inputs, now()).map_err(|error| store::journal_problem(&error, id.as_str()))?;
        if let Some(refusal) = taken.answers.into_iter().find_map(Result::err) {
            return Err(berth_api::problem::refusal(&refusal, id.as_str()));
        }
        if let Some(sessions_dir) = new_in {
            store::sync_dirs(&[&dir, sessions_dir])
                .map_err(|error| trouble(&format!("make session {id} durable"), &error))?;
        }
        killpoint::reached("starting");
        lease
            .sign(&me, owner.history().session.epoch.0)
            .map_err(|error| trouble(&format!("sign the lease of session {id}"), &error))?;
        let mut keeper = Self::assemble(Parts { id, dir, me, lease, run_lock, owner, listener }, size)?;
        keeper.settle();
        killpoint::reached("started");
        keeper.started()
    }

    /// Whether the run that was just asked for is there.
    fn started(self) -> Result<Self, Problem> {
        match self.owner.history().session.outcome() {
            Some(Outcome::StartFailed(reason)) => {
                let problem = Problem::new(Code::Refused, reason.clone());
                self.leave();
                Err(problem)
            }
            Some(Outcome::Exited(_) | Outcome::Lost) | None => Ok(self),
        }
    }

    fn assemble(parts: Parts, size: Size) -> Result<Self, Problem> {
        let trouble = |error: io::Error| bug("setting up the event loop", &error);
        tree::become_subreaper().map_err(trouble)?;
        let signals = SignalFd::new(&[libc_chld(), libc_term()]).map_err(trouble)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| trouble(error.into()))?;
        for (fd, token) in [(parts.listener.as_fd(), LISTENER), (signals.as_fd(), SIGNALS)] {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
                .map_err(|error| trouble(error.into()))?;
        }
        let output = OutputLog::open(parts.dir.join("output"))
            .map_err(|error| self::trouble("open the output files", &error))?;
        let Parts { id, dir, me, lease, run_lock, owner, listener } = parts;
        Ok(Self {
            id,
            dir,
            me,
            lease,
            run_lock,
            owner,
            listener,
            signals,
            epoll,
            watchdog: None,
            clients: BTreeMap::new(),
            next_client: FIRST_CLIENT,
            terminal: None,
            output,
            screen: Screen::new(screen_size(size)),
            splitter: Splitter::new(),
            keys: VecDeque::new(),
            terminal_closed: false,
            wants_room: false,
            unwritten: Vec::new(),
            exits: Vec::new(),
            unjournalled: Vec::new(),
            performed: Vec::new(),
            killed_at_ms: None,
            kill_again_at_ms: None,
            retry_at_ms: None,
            buffer: Vec::new(),
            leaving: false,
        })
    }

    /// The loop.
    fn serve(mut self) -> Result<(), Problem> {
        self.watchdog = self.make_watchdog().ok();
        self.write_status();
        let mut events = Vec::with_capacity(16);
        let mut lean = false;
        while !self.leaving {
            events.clear();
            let due = self.timeout();
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
            if let Some(watchdog) = &self.watchdog {
                watchdog.arm(killpoint::stuck_after(STUCK_AFTER));
            }
            for event in &events {
                self.handle(event.data.u64(), event.flags);
            }
            self.on_time();
            self.settle();
            self.flush_all();
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
            client => self.on_client(client, flags),
        }
    }

    /// Lets the owner take a batch and tells everyone what came of it.
    fn take(&mut self, inputs: Vec<Input>) -> Result<Vec<Result<(), Refusal>>, Problem> {
        match self.owner.take(inputs, now()) {
            Ok(taken) => {
                self.publish(&taken.events);
                Ok(taken.answers)
            }
            Err(error) => Err(self.journal_trouble(&error)),
        }
    }

    /// Takes a report. If the journal refuses, the report waits: the world will not repeat it.
    fn report(&mut self, observations: Vec<Observation>) {
        for observation in observations {
            if !self.unjournalled.contains(&observation) {
                self.unjournalled.push(observation);
            }
        }
        if self.unjournalled.is_empty() {
            return;
        }
        let inputs = self.unjournalled.iter().cloned().map(Input::Report).collect();
        match self.take(inputs) {
            Ok(_) => self.unjournalled.clear(),
            Err(_) => self.retry_soon(),
        }
    }

    fn journal_trouble(&mut self, error: &JournalError) -> Problem {
        store::journal_problem(error, self.id.as_str())
    }

    /// Tells watchers what is on disk. Only what is on disk can be told.
    fn publish(&mut self, events: &[Committed<Stored>]) {
        for event in events {
            let is_end = matches!(event.get().event, Event::RunEnded { .. } | Event::EndUnproven { .. });
            let notice = Notice::Event { seq: event.seq().0, entry: event.get().entry() };
            let json = serde_json::to_vec(&notice).expect("a notice is plain data");
            for client in self.clients.values_mut() {
                if client.watches || (is_end && client.attached.is_some()) {
                    client.send(Kind::Notice, &json);
                }
            }
        }
        if events.is_empty() {
            return;
        }
        self.write_status();
        if events
            .iter()
            .any(|event| matches!(event.get().event, Event::RunEnded { .. } | Event::EndUnproven { .. }))
        {
            self.answer_those_who_await_the_end();
        }
    }

    fn status(&self) -> Status {
        let mut status = self.owner.history().status(&self.id, true);
        status.clients = self.clients.values().filter(|client| client.attached.is_some()).count();
        status.output_bytes = self.output.end();
        status.output_file = self.output.file_name();
        status.rows = self.screen.size().rows;
        status.cols = self.screen.size().cols;
        status
    }

    /// Writes the short cut for lists. It is derived, so a failure costs only time.
    fn write_status(&self) {
        let mut status = self.status();
        if !self.owner.history().session.is_live() {
            status.keeper_pid = None;
        }
        view::write_short_cut(&self.dir, &status);
    }

    /// The last words: everything on disk, everyone told, the socket gone.
    fn leave(mut self) {
        let _ = self.output.finish();
        let _ = berth_host::disk::write_atomically(&self.dir, SCREEN_FILE, &self.screen.restore(), false);
        self.write_status();
        let until = clock::boot_ms() + FAREWELL_PATIENCE.as_millis() as u64;
        while clock::boot_ms() < until {
            self.flush_all();
            if self.clients.values().all(Client::is_drained) {
                break;
            }
            let mut events = Vec::with_capacity(16);
            let patience = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&patience));
        }
        let _ = fs::remove_file(self.dir.join(SOCKET_NAME));
        // Sealing is a courtesy to the next reader; the events themselves are on disk.
        let _ = self.owner.close();
    }

    fn make_watchdog(&self) -> io::Result<Watchdog> {
        let keep = self.kept_fds();
        let mut args: Vec<OsString> =
            vec!["berth".into(), KEEPER_VERB.into(), ADOPT_FLAG.into(), self.dir.clone().into()];
        args.extend(keep.iter().map(|fd| fd.to_string().into()));
        Watchdog::install(&args, &keep)
    }

    /// What a new image needs of this one: lease, run lock, socket and, if there is one, terminal.
    fn kept_fds(&self) -> Vec<RawFd> {
        let mut fds = vec![
            self.lease.file().as_fd().as_raw_fd(),
            self.run_lock.as_fd().as_raw_fd(),
            self.listener.as_raw_fd(),
        ];
        fds.extend(self.terminal.as_ref().map(|terminal| terminal.pty.master.as_raw_fd()));
        fds
    }

    fn retry_soon(&mut self) {
        self.retry_at_ms = Some(clock::boot_ms() + 1000);
    }
}

/// The screen as the last run left it.
pub const SCREEN_FILE: &str = "screen.ansi";

struct Parts {
    id: SessionId,
    dir: PathBuf,
    me: Identity,
    lease: Lease,
    run_lock: LockFile,
    owner: Owner,
    listener: UnixListener,
}

/// Continues the work of an image that replaced itself: same process, same lease, same children.
fn adopt(args: &[OsString]) -> Result<Keeper, Problem> {
    let number =
        |at: usize| args.get(at).and_then(|arg| arg.to_str()).and_then(|text| text.parse::<i32>().ok());
    let dir = args.get(1).map(PathBuf::from).ok_or_else(|| usage("a session directory"))?;
    let id = dir.file_name().and_then(|name| name.to_str()).and_then(SessionId::parse);
    let id = id.ok_or_else(|| usage("the directory of a session"))?;
    let inherit = |at: usize| {
        let fd = number(at).ok_or_else(|| usage("the number of a file"))?;
        watchdog::inherited(fd).map_err(|error| bug("taking a file over", &error))
    };
    let lease = Lease::inherited(LockFile::from_fd(inherit(2)?));
    let run_lock = LockFile::from_fd(inherit(3)?);
    let listener = UnixListener::from(inherit(4)?);
    let pty = args.get(5).map(|_| inherit(5)).transpose()?.map(|master| Pty { master });
    let size = pty.as_ref().and_then(|pty| pty.size().ok());
    let size = size.map_or_else(Size::default, |(rows, cols)| Size { rows, cols });
    let me = Identity::me().map_err(|error| bug("identifying this process", &error))?;
    let (owner, torn) = store::open(&dir, &id, &lease)?;
    let parts = Parts { id, dir, me, lease, run_lock, owner, listener };
    let mut keeper = Keeper::assemble(parts, size)?;
    if let Some(pty) = pty {
        keeper.watch_terminal(Terminal { pty }).map_err(|error| bug("watching the terminal", &error))?;
    }
    let shown = output::tail(&keeper.dir.join("output"), REPLAY_BYTES).unwrap_or_default();
    keeper.screen.feed(&shown);
    let _ = keeper.screen.take_answers();
    // Half a sequence at the end belongs to what the agent says next.
    let _ = keeper.splitter.push(&shown);
    let reason = "the event loop stood still, or an upgrade was asked for".to_owned();
    let mut inputs = vec![Input::Note(Event::KeeperRestarted { reason })];
    inputs.extend(torn.map(|what| Input::Note(Event::Warned { what })));
    // Connections did not come along, and so neither did whoever was typing.
    let writer = keeper.owner.history().session.writer.clone();
    inputs.extend(writer.map(|writer| Input::Command(Command::ReleaseWriter { fence: writer.fence })));
    keeper.take(inputs)?;
    keeper.adopt_agent();
    // A child may have ended between the images; its signal would have gone to the old one.
    keeper.on_children();
    Ok(keeper)
}

/// What a run left behind when its keeper died is ended before the next one begins.
fn settle_past(dir: &Path, id: &SessionId, owner: &Owner) -> Result<Vec<Input>, Problem> {
    let session = &owner.history().session;
    if !session.is_live() {
        return Ok(vec![]);
    }
    let epoch = session.epoch;
    recover::end_leftovers(dir, id, epoch, session.agent()).map_err(|left| {
        Problem::new(
            Code::Held,
            format!("the last run of session {id} is not proven gone: {}", left.join("; ")),
        )
        .hint("end what is named there, then try again")
    })?;
    Ok(vec![Input::Report(Observation::KeeperGone { epoch })])
}

fn claim(dir: &Path, id: &SessionId) -> Result<Lease, Problem> {
    match Lease::claim(dir) {
        Ok(Some(lease)) => Ok(lease),
        Ok(None) => {
            let holder = store::holder(dir);
            Err(Problem::new(Code::Held, format!("session {id} has a keeper already ({holder})"))
                .hint(format!("join it with `berth attach {id}`")))
        }
        Err(error) => Err(trouble(&format!("claim session {id}"), &error)),
    }
}

/// Takes the lock the agent's tree will inherit. Free means: nobody of the last run is left.
fn lock_run(dir: &Path) -> Result<LockFile, Problem> {
    let lock =
        LockFile::open_or_create(&dir.join("run")).map_err(|error| trouble("open the run's lock", &error))?;
    match lock.acquire(Duration::from_millis(200)) {
        Ok(true) => Ok(lock),
        Ok(false) => Err(Problem::new(Code::Held, "something of the last run is still there")
            .hint("`berth why` names it; end it, then try again")),
        Err(error) => Err(trouble("take the run's lock", &error)),
    }
}

/// The process that started this keeper is its first client; it speaks over our standard input.
fn first_client() -> io::Result<UnixStream> {
    let stdin = rustix::stdio::stdin();
    let stream = rustix::io::fcntl_dupfd_cloexec(stdin, 3)?;
    let null = fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(UnixStream::from(stream))
}

fn first_call(caller: &mut UnixStream) -> Result<Call, Problem> {
    let frame = frame::read(caller).ok().flatten().ok_or_else(|| usage("a first request"))?;
    serde_json::from_slice(&frame.payload).map_err(|error| usage(&format!("a request ({error})")))
}

fn quiet_signals() -> io::Result<()> {
    // One that waits for the loop must go on waiting: a new image that let a SIGTERM through would
    // die of it instead of ending the session in order.
    signals::unblock_all_but(&[libc_chld(), libc_term()])?;
    use rustix::process::Signal as S;
    let unwanted = [S::HUP, S::INT, S::QUIT, S::PIPE, S::TSTP, S::TTIN, S::TTOU];
    signals::ignore(&unwanted.map(S::as_raw))
}

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

fn usage(wanted: &str) -> Problem {
    Problem::new(Code::Usage, format!("a keeper needs {wanted}"))
        .hint("keepers are started by `berth run` and `berth resume`")
}

fn bug(what: &str, error: &io::Error) -> Problem {
    Problem::new(Code::Bug, format!("the keeper failed at {what}: {error}"))
}

fn actor_of(stream: &UnixStream) -> io::Result<Actor> {
    let peer = socket::peer(stream)?;
    Ok(Actor { pid: peer.pid, uid: peer.uid, place: String::new() })
}
