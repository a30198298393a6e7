//! The start of a keeper: for a new session, or for the next run of an old one.
//!
//! Promise: nothing is left of a session that could not be made; a run is recorded before it is made.
//! Not here: a new image of a running keeper (`adopt`), the next run of a keeper that stays (`next_run`).
//! Start with [`begin`].

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use berth_api::Problem;
use berth_api::frame::{self, FrameKind};
use berth_api::message::{KeeperAnswer, KeeperCall, KeeperRequest, WindowSize, WriterTakeover};
use berth_core::{Actor, Command, Event, Refusal, RunOutcome, SafeName, SessionId, SessionSpec};
use berth_host::identity::ProcessIdentity;
use berth_host::lock::LockFile;
use berth_host::{memory, process_tree, signals};
use berth_procs::callers::PeerProcess;
use berth_procs::run_cgroups::RunCgroups;
use berth_store::keepers::ADOPT_FLAG;
use berth_store::state_dir::StateDir;
use berth_store::store::{self, Lease};
use berth_store::{SessionFiles, killpoint, process_ref};

use super::agent_terminal::AgentTerminal;
use super::client_table::ClientTable;
use super::commit_pipeline::CommitPipeline;
use super::event_loop::EventLoop;
use super::helper_role::HelperRole;
use super::identity::KeeperIdentity;
use super::output_recorder::OutputRecorder;
use super::prepared_conversation::{PreparedConversation, can_go_on};
use super::publish::NotificationGate;
use super::requests::tags_of;
use super::restart_in_place::adopt;
use super::run_conversation::RunConversation;
use super::run_supervisor::RunSupervisor;
use super::status_writer::StatusWriter;
use super::transcript_copier::TranscriptCopier;
use super::tui_turns::TuiTurns;
use super::{Keeper, actor_of, bug, libc_chld, libc_term, now, trouble};
use crate::journaled_session::{JournaledSession, SessionInput};
use crate::{admission, agent_launch, client_place, recover};

pub(super) fn begin(args: &[OsString]) -> Result<Keeper, Problem> {
    memory::use_single_arena();
    quiet_signals().map_err(|error| bug("setting up signals", &error))?;
    let text = |at: usize| args.get(at).and_then(|arg| arg.to_str());
    if text(0) == Some(ADOPT_FLAG) {
        return adopt(args);
    }
    let mut caller = first_client().map_err(|error| bug("reaching the caller", &error))?;
    let begun = (|| {
        let place = args.first().ok_or_else(|| usage("the directory of a session"))?;
        let (home, files) = SessionFiles::open(place)?;
        let id = files.id().clone();
        let peer = PeerProcess::of(&home, &caller).map_err(|error| bug("identifying the caller", &error))?;
        let call = first_call(&mut caller)?;
        let by = actor_of(&caller).unwrap_or_default();
        let place = client_place::recorded_place(&call.place, client_place::is_gateway(home.root(), by.pid));
        let by = Actor { place, ..by };
        let seen = peer.attribute(&home).and_for(&home, call.agent.iter().chain(&call.also));
        let request = admission::check_first_request(&home, &id, &seen, call.request)?;
        Keeper::start(&home, id, request, by)
    })();
    match begun {
        Ok(mut keeper) => {
            let answer = KeeperAnswer::Done { status: Box::new(keeper.status()) };
            // The agent runs; a caller that cannot be answered is not a reason to end it.
            if let Ok(key) = keeper.clients.add(caller, &keeper.identity.home()) {
                keeper.clients.admit(key);
                keeper.clients.answer(key, &answer);
                keeper.await_readiness(key);
                keeper.flush(key);
            }
            Ok(keeper)
        }
        Err(problem) => {
            let answer = serde_json::to_vec(&KeeperAnswer::Problem { problem: problem.clone() });
            let _ = frame::write_frame(&mut caller, FrameKind::Answer, &[&answer.unwrap_or_default()]);
            Err(problem)
        }
    }
}

impl Keeper {
    /// Makes or reopens the session and starts its next run.
    fn start(home: &StateDir, id: SessionId, request: KeeperRequest, by: Actor) -> Result<Self, Problem> {
        let files = home.session(&id);
        let lease = claim(&files)?;
        match request {
            // A failed creation is cleaned up below, which must never happen to a session that exists.
            KeeperRequest::Create { .. } if files.has_events()? => {
                return Err(berth_api::problem::refusal(&Refusal::AlreadyCreated, id.as_str()));
            }
            // The helper would run without an owner, and would never be stopped.
            KeeperRequest::Resume { .. } if home.is_helpers() => {
                let what = format!("helper {id} cannot be resumed: it would have no owner");
                return Err(Problem::refused(what).hint("start it with `berth helper ensure`"));
            }
            _ => {}
        }
        let me = ProcessIdentity::me().map_err(|error| bug("identifying this process", &error))?;
        // This comes before anything is made: a session in which this keeper is started takes it for one of its own
        // processes, and may end it as such, until the lease names it. Also, a command that asks meanwhile sees the
        // keeper that recovers, not the one that died. The number of the run follows when it begins.
        let _ = lease.sign(&me, 0);
        killpoint::reached("claimed");
        match request {
            KeeperRequest::Create { spec, name, size, take, tags, note } => {
                let name = name.as_deref().map(SafeName::parse).transpose();
                let name = name.map_err(|bad| Problem::usage(bad.to_string()))?;
                let spec = agent_launch::with_traits(spec.into());
                let tag = Command::Tag { add: tags_of(&tags)?, remove: vec![] };
                let create = Command::Create { spec: spec.clone(), name };
                let before = [create, tag, Command::Note { note }].map(SessionInput::Command).to_vec();
                let made = JournaledSession::create(&lease).and_then(|journal| {
                    let plan = RunStartPlan { before, after: vec![], size, spec, take, by };
                    Self::start_run(lease, journal, plan, true)
                });
                if made.is_err() {
                    // The session is empty and no other program has heard of it: leave no half-made session.
                    files.remove_unmade();
                }
                made
            }
            KeeperRequest::Resume { size, fresh, take, restore, interface } => {
                let (journal, torn) = JournaledSession::open(&lease)?;
                if journal.history().session.spec.is_none() {
                    // Checked before the torn end is recorded: a session that was never made gets no first event.
                    return Err(berth_api::problem::refusal(&Refusal::NotCreated, id.as_str()));
                }
                let mut inputs = recover_last_run(&files, &journal)?;
                if restore {
                    inputs.push(SessionInput::Command(Command::Restore { by: by.clone() }));
                }
                if fresh {
                    inputs.push(SessionInput::Command(Command::LeaveConversation { by: by.clone() }));
                }
                if let Some(to) = interface {
                    can_go_on(&journal.state_after(&inputs, now()), to.into(), id.as_str())?;
                    let (to, by) = (to.into(), by.clone());
                    inputs.push(SessionInput::Command(Command::SwitchInterface { to, at_once: false, by }));
                }
                // The recovered events may be more than the end of a run: they may include the interface that was
                // chosen for this one.
                let spec = journal.state_after(&inputs, now()).spec.unwrap_or_default();
                files
                    .invalidate_status_cache()
                    .map_err(|error| trouble(&format!("begin the next run of session {id}"), &error))?;
                inputs.extend(torn.map(|what| SessionInput::Note(Event::Warned { what })));
                let plan = RunStartPlan { before: inputs, after: vec![], size, spec, take, by };
                Self::start_run(lease, journal, plan, false)
            }
            KeeperRequest::StartHelper { spec, terms, owner } => {
                Self::start_helper(home, id, lease, spec, terms, owner)
            }
            other => Err(usage(&format!("to create or resume, not {other:?}"))),
        }
    }

    /// Records the run, then makes it.
    pub(super) fn start_run(
        lease: Lease,
        mut journal: JournaledSession,
        plan: RunStartPlan,
        is_new: bool,
    ) -> Result<Self, Problem> {
        let me = ProcessIdentity::me().map_err(|error| bug("identifying this process", &error))?;
        let files = lease.files().clone();
        let id = files.id().clone();
        let run_lock = lock_run(&files)?;
        let listener =
            files.listen().map_err(|error| trouble(&format!("make the socket of session {id}"), &error))?;
        let output_from =
            files.output().end().map_err(|error| trouble("find the end of the output", &error))?;
        let RunStartPlan { before: mut inputs, after, size, spec, take, by } = plan;
        let ahead = journal.state_after(&inputs, now());
        let take_up = PreparedConversation::prepare(&files, &ahead, &spec, &take, &by)?;
        inputs.extend(take_up.inputs);
        let epoch = journal.next_epoch();
        let contained = RunCgroups::make(&id, epoch, &spec.limits)?;
        inputs.push(SessionInput::Command(Command::Start {
            epoch,
            keeper: process_ref::to_process_ref(me.clone()),
            output_from,
            boundary: contained.boundary(),
        }));
        inputs.extend(after);
        if let Some(refusal) = journal.refusal(&inputs, now()) {
            // Checked before any of it is recorded: a run whose owner was refused would have none.
            return Err(berth_api::problem::refusal(&refusal, id.as_str()));
        }
        lease.confirm()?;
        let taken = std::thread::scope(|scope| {
            // A session without its name after a power cut is lost as well. Synced at the same time as
            // its first events, because then the disk commits both at once.
            let names = is_new.then(|| scope.spawn(|| files.sync_new()));
            let taken = journal.take(inputs, now());
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
            .sign(&me, journal.history().session.epoch.0)
            .map_err(|error| trouble(&format!("sign the lease of session {id}"), &error))?;
        let identity = KeeperIdentity::new(files, me);
        let parts = KeeperParts { identity, lease, run_lock, contained, journal, listener };
        let mut keeper = Self::assemble(parts, size)?;
        keeper.conversation.take_up(take_up.begin, take_up.lock);
        keeper.settle();
        killpoint::reached("started");
        keeper.started()
    }

    /// The keeper, if the requested run exists.
    fn started(mut self) -> Result<Self, Problem> {
        match self.journal.session().outcome() {
            Some(RunOutcome::StartFailed(reason)) => {
                let problem = Problem::refused(reason.clone());
                self.leave();
                Err(problem)
            }
            Some(RunOutcome::Exited(_) | RunOutcome::OutOfMemory | RunOutcome::Lost) | None => {
                self.notifications.open();
                Ok(self)
            }
        }
    }

    pub(super) fn assemble(parts: KeeperParts, size: WindowSize) -> Result<Self, Problem> {
        let trouble = |error: io::Error| bug("setting up the event loop", &error);
        let KeeperParts { identity, lease, run_lock, contained, journal, listener } = parts;
        process_tree::become_subreaper().map_err(trouble)?;
        let event_loop = EventLoop::new(listener).map_err(trouble)?;
        let epoll = || event_loop.epoll().clone();
        let run = RunSupervisor::new(epoll(), identity.pid(), run_lock, contained).map_err(trouble)?;
        let output = identity
            .files()
            .output()
            .open_log()
            .map_err(|error| self::trouble("open the output files", &error))?;
        Ok(Self {
            journal: CommitPipeline::new(journal, lease),
            clients: ClientTable::new(epoll()),
            run,
            output: OutputRecorder::new(output),
            terminal: AgentTerminal::new(epoll(), size),
            tui_turns: TuiTurns::default(),
            agent: None,
            conversation: RunConversation::default(),
            helper: HelperRole::new(epoll()),
            status: StatusWriter::of(identity.files()),
            notifications: NotificationGate::default(),
            copies: TranscriptCopier::default(),
            event_loop,
            identity,
        })
    }
}

/// The events to record before and after the start of a run, in one commit with it.
pub(super) struct RunStartPlan {
    pub(super) before: Vec<SessionInput>,
    pub(super) after: Vec<SessionInput>,
    pub(super) size: WindowSize,
    pub(super) spec: SessionSpec,
    /// The programs to be ended, of those that write its conversation.
    pub(super) take: WriterTakeover,
    /// The client that asked for the run, for the audit log.
    pub(super) by: Actor,
}

/// The parts from which a keeper is assembled.
pub(super) struct KeeperParts {
    pub(super) identity: KeeperIdentity,
    pub(super) lease: Lease,
    pub(super) run_lock: LockFile,
    pub(super) contained: RunCgroups,
    pub(super) journal: JournaledSession,
    pub(super) listener: UnixListener,
}

/// Ends the remaining processes of a run whose keeper died, before the next one begins.
pub(super) fn recover_last_run(
    files: &SessionFiles,
    journal: &JournaledSession,
) -> Result<Vec<SessionInput>, Problem> {
    let session = &journal.history().session;
    if !session.is_live() {
        return Ok(vec![]);
    }
    recover::end_leftovers(files, session).map_err(|left| {
        let id = files.id();
        Problem::held(format!(
            "cannot prove that the last run of session {id} has ended: {}",
            left.join("; ")
        ))
        .hint("end the named processes, then try again")
    })?;
    Ok(recover::lost_run_inputs(journal.history(), files))
}

fn claim(files: &SessionFiles) -> Result<Lease, Problem> {
    let id = files.id();
    match files.claim() {
        Ok(Some(lease)) => Ok(lease),
        Ok(None) => {
            files.refuse_stranger(id.as_str())?;
            let holder = files.lease_holder();
            if files.is_helper() {
                return Err(Problem::held(format!("helper {id} has a keeper already ({holder})"))
                    .hint("join it with `berth helper ensure`"));
            }
            Err(Problem::held(format!("session {id} has a keeper already ({holder})"))
                .hint(format!("join it with `berth attach {id}`")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(store::no_session(id)),
        Err(error) => Err(trouble(&format!("claim session {id}"), &error)),
    }
}

/// Takes the lock that the agent's tree will inherit. It is free once no process of the last run is left.
fn lock_run(files: &SessionFiles) -> Result<LockFile, Problem> {
    let lock = files.run_lock().map_err(|error| trouble("open the run's lock", &error))?;
    match lock.acquire(Duration::from_millis(200)) {
        Ok(true) => Ok(lock),
        Ok(false) => Err(Problem::held("a process of the last run is still alive")
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

fn first_call(caller: &mut UnixStream) -> Result<KeeperCall, Problem> {
    let frame = frame::read_frame(caller).ok().flatten().ok_or_else(|| usage("a first request"))?;
    let call: KeeperCall =
        serde_json::from_slice(&frame.payload).map_err(|error| usage(&format!("a request ({error})")))?;
    let trace = call.trace.as_deref().filter(|trace| berth_api::trace::is_trace_id(trace));
    tracing::debug!(request = %berth_api::redact::variant_name(&call.request), trace, "first asked");
    Ok(call)
}

fn quiet_signals() -> io::Result<()> {
    // A signal that waits for the loop must go on waiting: a new image that let a SIGTERM through would
    // die of it instead of ending the session in order.
    signals::unblock_all_signals_but(&[libc_chld(), libc_term()])?;
    use rustix::process::Signal as S;
    let unwanted = [S::HUP, S::INT, S::QUIT, S::PIPE, S::TSTP, S::TTIN, S::TTOU];
    signals::ignore_signals(&unwanted.map(S::as_raw))
}

pub(super) fn usage(wanted: &str) -> Problem {
    Problem::usage(format!("a keeper needs {wanted}"))
        .hint("keepers are started by `berth run` and `berth resume`")
}
