//! How a keeper comes to be: for a new session, for the next run of an old one, or as a new image
//! of itself.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use berth_api::client::SOCKET_NAME;
use berth_api::frame::{self, Kind};
use berth_api::message::{Answer, Call, Request, Size, Take};
use berth_api::{Code, Problem};
use berth_core::{Actor, Command, Event, Hold, Name, Observation, Outcome, Refusal, SessionId, Spec};
use berth_driver::Begin;
use berth_host::identity::Identity;
use berth_host::lock::LockFile;
use berth_host::pty::Pty;
use berth_host::signals::{self, SignalFd};
use berth_host::{memory, socket, tree, watchdog};
use berth_screen::{Screen, Splitter};
use berth_store::conversations::ConversationLock;
use berth_store::home::Home;
use berth_store::keepers::ADOPT_FLAG;
use berth_store::output::{self, OutputLog};
use berth_store::store::{self, Lease};
use berth_store::stranger::StrangeHolder;
use berth_store::{killpoint, process, view};
use rustix::event::epoll;

use super::conversation::{TakeUp, can_go_on};
use super::helper::Owners;
use super::requests::tags_of;
use super::{
    BOUNDARY, FIRST_CLIENT, Keeper, LISTENER, REPLAY_BYTES, SIGNALS, actor_of, bug, libc_chld, libc_term,
    now, screen_size, trouble,
};
use crate::boundary::Contained;
use crate::callers::{self, Peer};
use crate::driver::{self, pipes::Pipes, pty::Terminal};
use crate::owner::{Input, Owner};
use crate::start::LOOKING_SINCE;
use crate::{place, recover};

/// How much of a run's beginning is replayed after a restart in place, where what was painted last is not all of it.
const FIRST_BYTES: usize = 64 * 1024;
/// Plain colours, nothing on the screen, the cursor at the top.
const BLANK: &[u8] = b"\x1b[m\x1b[2J\x1b[H";

pub(super) fn begin(args: &[OsString]) -> Result<Keeper, Problem> {
    memory::one_heap();
    quiet_signals().map_err(|error| bug("setting up signals", &error))?;
    let text = |at: usize| args.get(at).and_then(|arg| arg.to_str());
    if text(0) == Some(ADOPT_FLAG) {
        return adopt(args);
    }
    let mut caller = first_client().map_err(|error| bug("reaching the caller", &error))?;
    let begun = (|| {
        let dir = args.first().map(PathBuf::from).ok_or_else(|| usage("the directory of a session"))?;
        let (home, id) = Home::of(&dir)?;
        let peer = Peer::of(&home, &caller).map_err(|error| bug("telling who asks", &error))?;
        let call = first_call(&mut caller)?;
        let by = actor_of(&caller).unwrap_or_default();
        let place = place::recorded(&call.place, place::is_gateway(home.root(), by.pid));
        let by = Actor { place, ..by };
        let seen = peer.look(&home).and_for(&home, call.agent.iter().chain(&call.also));
        let request = callers::admitted(&home, &id, &seen, call.request)?;
        Keeper::start(&home, id, request, by)
    })();
    match begun {
        Ok(mut keeper) => {
            let answer = Answer::Done { status: Box::new(keeper.status()) };
            // The agent runs; a caller that cannot be answered is no reason to end it.
            if let Ok(key) = keeper.add_client(caller) {
                if let Some(client) = keeper.clients.get_mut(&key) {
                    client.is_known = true;
                }
                keeper.answer(key, &answer);
                keeper.await_ready(key);
                keeper.flush(key);
            }
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
    fn start(home: &Home, id: SessionId, request: Request, by: Actor) -> Result<Self, Problem> {
        let dir = home.session_dir(&id);
        let lease = claim(home, &id)?;
        match request {
            // What follows takes a failed beginning away, and must never do so to a session that has one.
            Request::Create { .. } if store::exists(&dir)? => {
                return Err(berth_api::problem::refusal(&Refusal::AlreadyCreated, id.as_str()));
            }
            // It would run without an owner, and nothing would ever end it.
            Request::Resume { .. } if home.is_helpers() => {
                let what = format!("helper {id} cannot be resumed: it would have no owner");
                return Err(Problem::new(Code::Refused, what).hint("start it with `berth helper ensure`"));
            }
            _ => {}
        }
        let me = Identity::me().map_err(|error| bug("identifying this process", &error))?;
        // Before anything is made: a session that we are started in takes us for one of its own processes,
        // and may end us as such, until the lease says who we are. And whoever asks meanwhile is told who
        // clears up, not who died. Which run it will be is said when it begins.
        let _ = lease.sign(&me, 0);
        killpoint::reached("claimed");
        match request {
            Request::Create { spec, name, size, take, tags, note } => {
                let name = name.as_deref().map(Name::parse).transpose();
                let name = name.map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
                let spec = driver::with_traits(spec.into());
                let tag = Command::Tag { add: tags_of(&tags)?, remove: vec![] };
                let create = Command::Create { spec: spec.clone(), name };
                let before = [create, tag, Command::Note { note }].map(Input::Command).to_vec();
                let made = Owner::create(&dir, &id, &lease).and_then(|owner| {
                    let plan = Plan { before, after: vec![], size, spec, take, by };
                    Self::start_run(id, dir.clone(), lease, owner, plan, Some(&home.sessions_dir()))
                });
                if made.is_err() {
                    // Nothing was ever said in it and nobody else has heard of it: leave no
                    // half-made session.
                    let _ = fs::remove_dir_all(&dir);
                }
                made
            }
            Request::Resume { size, fresh, take, restore, interface } => {
                let (owner, torn) = Owner::open(&dir, &id, &lease)?;
                if owner.history().session.spec.is_none() {
                    // Asked before the torn end is noted: what was never made gets no first event.
                    return Err(berth_api::problem::refusal(&Refusal::NotCreated, id.as_str()));
                }
                let mut inputs = settle_past(&dir, &id, &owner)?;
                if restore {
                    inputs.push(Input::Command(Command::Restore { by: by.clone() }));
                }
                if fresh {
                    inputs.push(Input::Command(Command::LeaveConversation { by: by.clone() }));
                }
                if let Some(to) = interface {
                    can_go_on(&owner.ahead(&inputs, now()), to.into(), id.as_str())?;
                    let (to, by) = (to.into(), by.clone());
                    inputs.push(Input::Command(Command::SwitchInterface { to, at_once: false, by }));
                }
                // What is settled may be more than the end of a run: the interface that was chosen for this one.
                let spec = owner.ahead(&inputs, now()).spec.unwrap_or_default();
                view::doubt_short_cut(&dir)
                    .map_err(|error| trouble(&format!("begin the next run of session {id}"), &error))?;
                inputs.extend(torn.map(|what| Input::Note(Event::Warned { what })));
                let plan = Plan { before: inputs, after: vec![], size, spec, take, by };
                Self::start_run(id, dir, lease, owner, plan, None)
            }
            Request::StartHelper { spec, terms, owner } => {
                Self::start_helper(home, id, lease, spec, terms, owner)
            }
            other => Err(usage(&format!("to create or resume, not {other:?}"))),
        }
    }

    /// Records the run, then makes it. `new_in` is where a new session's name was made.
    pub(super) fn start_run(
        id: SessionId,
        dir: PathBuf,
        lease: Lease,
        mut owner: Owner,
        plan: Plan,
        new_in: Option<&Path>,
    ) -> Result<Self, Problem> {
        let me = Identity::me().map_err(|error| bug("identifying this process", &error))?;
        let run_lock = lock_run(&dir)?;
        let listener = socket::listen(&dir, SOCKET_NAME)
            .map_err(|error| trouble(&format!("make the socket of session {id}"), &error))?;
        let output_from = output::end_of(&dir.join("output"))
            .map_err(|error| trouble("find the end of the output", &error))?;
        let Plan { before: mut inputs, after, size, spec, take, by } = plan;
        let root = dir.parent().and_then(Path::parent).unwrap_or(&dir);
        let ahead = owner.ahead(&inputs, now());
        let take_up = TakeUp::prepare(root, &id, &ahead, &spec, &take, &by)?;
        inputs.extend(take_up.inputs);
        let contained = Contained::make(&id, owner.history().session.epoch.next(), &spec.limits)?;
        inputs.push(Input::Command(Command::Start {
            keeper: process::process(me.clone()),
            output_from,
            boundary: contained.boundary(),
        }));
        inputs.extend(after);
        if let Some(refusal) = owner.refusal(&inputs, now()) {
            // Before any of it is recorded: a run that began and whose owner was refused would be nobody's.
            return Err(berth_api::problem::refusal(&refusal, id.as_str()));
        }
        lease.confirm(&id)?;
        let taken = std::thread::scope(|scope| {
            // A session whose name is lost with the power is lost as well. Synced at the same time as
            // its first events, because then the disk commits both at once.
            let names = new_in.map(|sessions| scope.spawn(|| store::sync_dirs(&[&dir, sessions])));
            let taken = owner.take(inputs, now());
            let taken = taken.map_err(|error| store::journal_problem(&error, id.as_str()))?;
            match names.map(ScopedJoinHandle::join) {
                None | Some(Ok(Ok(()))) => Ok(taken),
                Some(Ok(Err(error))) => Err(trouble(&format!("make session {id} durable"), &error)),
                Some(Err(_)) => Err(bug("syncing", &io::Error::other("the thread panicked"))),
            }
        })?;
        if let Some(refusal) = taken.answers.into_iter().find_map(Result::err) {
            return Err(berth_api::problem::refusal(&refusal, id.as_str()));
        }
        killpoint::reached("starting");
        lease
            .sign(&me, owner.history().session.epoch.0)
            .map_err(|error| trouble(&format!("sign the lease of session {id}"), &error))?;
        let parts = Parts { id, dir, me, lease, run_lock, contained, owner, listener };
        let mut keeper = Self::assemble(parts, size)?;
        (keeper.begin, keeper.conversation) = (take_up.begin, take_up.lock);
        keeper.settle();
        killpoint::reached("started");
        keeper.started()
    }

    /// The run is over and something waits: begins the next one, without anybody asking again.
    pub(super) fn next_run(&mut self) {
        self.contained.remove();
        self.stop_talking();
        self.forget_terminal();
        // The next agent reads everything.
        self.delivery.outdated = false;
        self.renew_watchdog();
        if let Err(problem) = self.try_next_run() {
            if self.owner.history().session.switching {
                self.give_up_switching(&problem);
            }
            let hold = Hold::AgentFailed { reason: problem.what };
            // If its time is up, what waits is withdrawn; else it waits for somebody who mends it.
            self.report(vec![Observation::Tick, Observation::Held { hold }]);
        }
    }

    fn try_next_run(&mut self) -> Result<(), Problem> {
        let session = &self.owner.history().session;
        let spec = session.spec.clone().unwrap_or_default();
        // The right to write it is ours already; whoever else writes it is looked for again.
        self.conversation = None;
        let take_up =
            TakeUp::prepare(self.root(), &self.id, session, &spec, &Take::Nobody, &Actor::default())?;
        let contained = Contained::make(&self.id, session.epoch.next(), &spec.limits)?;
        let mut inputs = take_up.inputs;
        inputs.push(Input::Command(Command::Start {
            keeper: process::process(self.me.clone()),
            output_from: self.output.end(),
            boundary: contained.boundary(),
        }));
        if let Some(refusal) = self.owner.refusal(&inputs, now()) {
            return Err(self.refused(&refusal));
        }
        for watch in std::mem::take(&mut self.boundary_watches) {
            self.epoll_delete(&watch);
        }
        self.boundary_watches = contained.watches();
        for watch in &self.boundary_watches {
            let token = epoll::EventData::new_u64(BOUNDARY);
            epoll::add(&self.epoll, watch, token, watch.interest())
                .map_err(|error| trouble("watch the run's control group", &error.into()))?;
        }
        self.oom_kills = contained.oom_kills();
        self.contained = contained;
        (self.begin, self.conversation) = (take_up.begin, take_up.lock);
        (self.ran_out_at_ms, self.killed_at_ms, self.kill_again_at_ms) = (None, None, None);
        self.terminated = false;
        // It may say that the session is over, and would be believed if we died right after this.
        view::doubt_short_cut(&self.dir).map_err(|error| trouble("begin the next run", &error))?;
        self.take(inputs)?;
        // For people, and for whoever sweeps; the journal has it, too.
        let _ = self.lease.sign(&self.me, self.owner.history().session.epoch.0);
        Ok(())
    }

    /// Whether the run that was just asked for is there.
    fn started(mut self) -> Result<Self, Problem> {
        match self.owner.history().session.outcome() {
            Some(Outcome::StartFailed(reason)) => {
                let problem = Problem::new(Code::Refused, reason.clone());
                self.leave();
                Err(problem)
            }
            Some(Outcome::Exited(_) | Outcome::OutOfMemory | Outcome::Lost) | None => {
                self.begun = true;
                Ok(self)
            }
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
        // What was killed before we looked is not the cause of what ends later.
        let contained_oom_kills = parts.contained.oom_kills();
        let boundary_watches = parts.contained.watches();
        for watch in &boundary_watches {
            epoll::add(&epoll, watch, epoll::EventData::new_u64(BOUNDARY), watch.interest())
                .map_err(|error| trouble(error.into()))?;
        }
        let output = OutputLog::open(parts.dir.join("output"))
            .map_err(|error| self::trouble("open the output files", &error))?;
        let Parts { id, dir, me, lease, run_lock, contained, owner, listener } = parts;
        let extras = super::extras::StatusExtras::of(&dir);
        Ok(Self {
            id,
            dir,
            me,
            lease,
            run_lock,
            contained,
            boundary_watches,
            owner,
            listener,
            signals,
            epoll,
            watchdog: None,
            clients: BTreeMap::new(),
            writing: super::writing::Writing::default(),
            next_client: FIRST_CLIENT,
            calls: VecDeque::new(),
            terminal: None,
            talk: None,
            extras,
            desk: super::edges::Desk::default(),
            begin: Begin::New { id: None },
            conversation: None,
            seen: None,
            end_seen: None,
            delivery: super::delivery::Delivery::default(),
            terminated: false,
            output,
            screen: Screen::new(screen_size(size)),
            splitter: Splitter::new(),
            keys: VecDeque::new(),
            terminal_closed: false,
            wants_room: false,
            unwritten: Vec::new(),
            exits: Vec::new(),
            unjournalled: Vec::new(),
            lost_lease: None,
            looked_for_others_at_ms: None,
            oom_kills: contained_oom_kills,
            ran_out_at_ms: None,
            performed: Vec::new(),
            killed_at_ms: None,
            kill_again_at_ms: None,
            retry_at_ms: None,
            status_at_ms: None,
            buffer: Vec::new(),
            leaving: false,
            begun: false,
            notify: Default::default(),
            copying: Default::default(),
            owners: Owners::default(),
            looking: None,
        })
    }
}

/// What is recorded before and after the start of a run, in one commit with it.
pub(super) struct Plan {
    pub(super) before: Vec<Input>,
    pub(super) after: Vec<Input>,
    pub(super) size: Size,
    /// What will run.
    pub(super) spec: Spec,
    /// Who is ended, of those who write its conversation.
    pub(super) take: Take,
    /// The client that asked for the run, for the audit log.
    pub(super) by: Actor,
}

struct Parts {
    id: SessionId,
    dir: PathBuf,
    me: Identity,
    lease: Lease,
    run_lock: LockFile,
    contained: Contained,
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
    let lease_file = LockFile::from_fd(inherit(2)?);
    let run_lock = LockFile::from_fd(inherit(3)?);
    let listener = UnixListener::from(inherit(4)?);
    // By name, because which there are depends on the agent. One that did not come along is not there.
    let named = |name: &str| {
        let fd = args.iter().find_map(|arg| arg.to_str()?.strip_prefix(name)?.strip_prefix('='));
        watchdog::inherited(fd?.parse().ok()?).ok()
    };
    let dir_lock = named("dir").map(LockFile::from_fd).ok_or_else(|| usage("the lock on its directory"))?;
    let lease =
        Lease::inherited(lease_file, dir_lock, &dir).map_err(|error| bug("taking the lease over", &error))?;
    let pty = named("pty").map(|master| Pty { master });
    let pipes = named("out").zip(named("err"));
    let pipes = pipes.map(|(stdout, stderr)| Pipes { stdin: named("in"), stdout, stderr });
    let conversation = named("conversation").map(LockFile::from_fd);
    let size = pty.as_ref().and_then(|pty| pty.size().ok());
    let size = size.map_or_else(Size::default, |(rows, cols)| Size { rows, cols });
    let me = Identity::me().map_err(|error| bug("identifying this process", &error))?;
    let (owner, torn) = Owner::open_patiently(&dir, &id, &lease)?;
    // A group that cannot be opened now is no reason to give the run up.
    let contained = Contained::of(&owner.history().session, &id);
    let unopened =
        contained.as_ref().err().map(|error| format!("cannot use the run's control group: {error}"));
    let contained = contained.unwrap_or_else(|error| Contained::none(error.to_string()));
    let parts = Parts { id, dir, me, lease, run_lock, contained, owner, listener };
    let mut keeper = Keeper::assemble(parts, size)?;
    keeper.begun = true;
    let session = &keeper.owner.history().session;
    let written = session.spec.as_ref().zip(session.conversation.as_ref());
    keeper.conversation = conversation.zip(written).and_then(|(file, (spec, conversation))| {
        let (kind, id) = (spec.conversation.clone(), conversation.id.clone());
        ConversationLock::inherited(file, keeper.root(), kind, id)
    });
    if let Some(pty) = pty {
        keeper.watch_terminal(Terminal { pty }).map_err(|error| bug("watching the terminal", &error))?;
    }
    let from = keeper.owner.history().session.output_from;
    let output = keeper.dir.join("output");
    let shown = output::tail(&output, from, REPLAY_BYTES).unwrap_or_default();
    if from + REPLAY_BYTES < keeper.output.end() {
        keeper.screen.feed(&first_words(&output, from));
    }
    keeper.screen.feed(&shown);
    let _ = keeper.screen.take_answers();
    // Half a sequence at the end belongs to what the agent says next.
    let _ = keeper.splitter.push(&shown);
    let reason = "the event loop stood still, or an upgrade was asked for".to_owned();
    let mut inputs = vec![Input::Note(Event::KeeperRestarted { reason })];
    inputs.extend(torn.into_iter().chain(unopened).map(|what| Input::Note(Event::Warned { what })));
    // A disk that takes no notes is no reason to give the run up.
    let _ = keeper.take(inputs);
    // Connections did not come along, and so neither did whoever was typing.
    let somebody_typed = keeper.owner.history().session.writer.is_some();
    keeper.release_absent_writer();
    keeper.type_no_more(somebody_typed);
    keeper.adopt_agent();
    if let Some(pipes) = pipes {
        keeper.begin = begin_in(args);
        keeper
            .talk_again(pipes, begin_in(args))
            .map_err(|error| bug("taking the agent's pipes over", &error))?;
    }
    keeper.watch_owners_again();
    keeper.begin_to_look(looking_since(args));
    // A child may have ended between the images; its signal would have gone to the old one.
    keeper.on_children();
    // What the old image had committed and not done yet is still owed.
    keeper.settle();
    Ok(keeper)
}

/// What an agent said of its terminal when it began, and a blank screen: how it wants pastes and keys is said once.
fn first_words(output: &Path, from: u64) -> Vec<u8> {
    let mut first = vec![0; FIRST_BYTES];
    let count = match output::read_at(output, from, &mut first) {
        Ok((count, at)) if at == from => count,
        // The beginning is no longer kept.
        Ok(_) | Err(_) => 0,
    };
    let whole = Splitter::new().push(&first[..count]).into_owned();
    [whole.as_slice(), BLANK].concat()
}

/// How a run took its conversation up, as words for a new image.
pub(super) fn words_of(begin: &Begin) -> Vec<String> {
    let (kind, id, of) = match begin {
        Begin::New { id } => ("new", id.as_deref(), None),
        Begin::Resume { id } => ("resume", Some(id.as_str()), None),
        Begin::Fork { of, id } => ("fork", id.as_deref(), Some(of.as_str())),
    };
    let words = [("begin", Some(kind)), ("begin-id", id), ("begin-of", of)];
    words.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect()
}

fn begin_in(args: &[OsString]) -> Begin {
    let word = |name: &str| {
        let found = args.iter().find_map(|arg| arg.to_str()?.strip_prefix(name)?.strip_prefix('='));
        found.map(str::to_owned)
    };
    match (word("begin").as_deref(), word("begin-id"), word("begin-of")) {
        (Some("resume"), Some(id), _) => Begin::Resume { id },
        (Some("fork"), id, Some(of)) => Begin::Fork { of, id },
        (_, id, _) => Begin::New { id },
    }
}

/// Since when the image before this one looked whether its helper is ready.
fn looking_since(args: &[OsString]) -> Option<u64> {
    args.iter().find_map(|arg| arg.to_str()?.strip_prefix(LOOKING_SINCE)?.parse().ok())
}

/// What a run left behind when its keeper died is ended before the next one begins.
pub(super) fn settle_past(dir: &Path, id: &SessionId, owner: &Owner) -> Result<Vec<Input>, Problem> {
    let session = &owner.history().session;
    if !session.is_live() {
        return Ok(vec![]);
    }
    recover::end_leftovers(dir, id, session).map_err(|left| {
        Problem::new(
            Code::Held,
            format!("the last run of session {id} is not proven gone: {}", left.join("; ")),
        )
        .hint("end what is named there, then try again")
    })?;
    Ok(recover::gone(owner.history(), dir))
}

fn claim(home: &Home, id: &SessionId) -> Result<Lease, Problem> {
    let dir = home.session_dir(id);
    match Lease::claim(&dir) {
        Ok(Some(lease)) => Ok(lease),
        Ok(None) => {
            StrangeHolder::refuse(&dir, id.as_str())?;
            let holder = store::holder(&dir);
            if home.is_helpers() {
                return Err(Problem::new(Code::Held, format!("helper {id} has a keeper already ({holder})"))
                    .hint("join it with `berth helper ensure`"));
            }
            Err(Problem::new(Code::Held, format!("session {id} has a keeper already ({holder})"))
                .hint(format!("join it with `berth attach {id}`")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(store::no_session(id)),
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
    let call: Call =
        serde_json::from_slice(&frame.payload).map_err(|error| usage(&format!("a request ({error})")))?;
    let trace = call.trace.as_deref().filter(|trace| berth_api::trace::is_trace(trace));
    tracing::debug!(request = %berth_api::redact::kind(&call.request), trace, "first asked");
    Ok(call)
}

fn quiet_signals() -> io::Result<()> {
    // One that waits for the loop must go on waiting: a new image that let a SIGTERM through would
    // die of it instead of ending the session in order.
    signals::unblock_all_but(&[libc_chld(), libc_term()])?;
    use rustix::process::Signal as S;
    let unwanted = [S::HUP, S::INT, S::QUIT, S::PIPE, S::TSTP, S::TTIN, S::TTOU];
    signals::ignore(&unwanted.map(S::as_raw))
}

fn usage(wanted: &str) -> Problem {
    Problem::new(Code::Usage, format!("a keeper needs {wanted}"))
        .hint("keepers are started by `berth run` and `berth resume`")
}
