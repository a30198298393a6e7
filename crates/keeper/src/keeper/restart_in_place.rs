//! A new image of a running keeper: same process, same lease, same children.
//!
//! Promise: text that the previous image sent to the agent is not sent twice, and the agent's exits are not lost.
//! Not here: the replacement itself (`berth_host::watchdog`), the driver's state (`agent_link`).
//! Start with [`adopt`].

use std::ffi::OsString;
use std::os::unix::net::UnixListener;

use berth_api::Problem;
use berth_api::message::WindowSize;
use berth_core::{EndingRun, Event, Observation, RunPhase};
use berth_driver::ConversationStart;
use berth_host::identity::ProcessIdentity;
use berth_host::lock::LockFile;
use berth_host::pty::Pty;
use berth_host::watchdog;
use berth_procs::run_cgroups::RunCgroups;
use berth_screen::StreamSplitter;
use berth_store::conversation_locks::ConversationLock;
use berth_store::output::OutputFiles;
use berth_store::store::Lease;
use berth_store::{SessionFiles, process_ref};

use super::identity::KeeperIdentity;
use super::startup::{KeeperParts, usage};
use super::{Keeper, bug};
use crate::agent_launch::{pipes::AgentPipes, pty::AgentPty};
use crate::journaled_session::{JournaledSession, SessionInput};
use crate::spawn_keeper::LOOKING_SINCE;

/// The bytes of output that are replayed to restore a screen after a restart in place.
const REPLAY_BYTES: u64 = 1024 * 1024;
/// The bytes of a run's beginning that are replayed if the last output is not all of it.
const FIRST_BYTES: usize = 64 * 1024;
/// Plain colours, nothing on the screen, the cursor at the top.
const BLANK: &[u8] = b"\x1b[m\x1b[2J\x1b[H";

/// Continues the work of an image that replaced itself: same process, same lease, same children.
pub(super) fn adopt(args: &[OsString]) -> Result<Keeper, Problem> {
    let number =
        |at: usize| args.get(at).and_then(|arg| arg.to_str()).and_then(|text| text.parse::<i32>().ok());
    let files = args.get(1).and_then(|place| SessionFiles::understand(place));
    let files = files.ok_or_else(|| usage("the directory of a session"))?;
    let inherit = |at: usize| {
        let fd = number(at).ok_or_else(|| usage("the number of a file"))?;
        watchdog::inherited_descriptor(fd).map_err(|error| bug("taking a file over", &error))
    };
    let lease_file = LockFile::from_fd(inherit(2)?);
    let run_lock = LockFile::from_fd(inherit(3)?);
    let listener = UnixListener::from(inherit(4)?);
    // By name, because they depend on the agent. A descriptor that did not come along is not there.
    let named = |name: &str| {
        let fd = args.iter().find_map(|arg| arg.to_str()?.strip_prefix(name)?.strip_prefix('='));
        watchdog::inherited_descriptor(fd?.parse().ok()?).ok()
    };
    let dir_lock = named("dir").map(LockFile::from_fd).ok_or_else(|| usage("the lock on its directory"))?;
    let lease = Lease::inherited(lease_file, dir_lock, &files)
        .map_err(|error| bug("taking the lease over", &error))?;
    let pty = named("pty").map(|master| Pty { master });
    let pipes = named("out").zip(named("err"));
    let pipes = pipes.map(|(stdout, stderr)| AgentPipes { stdin: named("in"), stdout, stderr });
    let conversation = named("conversation").map(LockFile::from_fd);
    let size = pty.as_ref().and_then(|pty| pty.size().ok());
    let size = size.map_or_else(WindowSize::default, |(rows, cols)| WindowSize { rows, cols });
    let me = ProcessIdentity::me().map_err(|error| bug("identifying this process", &error))?;
    let (journal, torn) = JournaledSession::open_patiently(&lease)?;
    // A group that cannot be opened now is not a reason to end the run.
    let contained = RunCgroups::of(&journal.history().session, files.id());
    let unopened =
        contained.as_ref().err().map(|error| format!("cannot use the run's control group: {error}"));
    let contained = contained.unwrap_or_else(|error| RunCgroups::none(error.to_string()));
    let parts = KeeperParts {
        identity: KeeperIdentity::new(files, me),
        lease,
        run_lock,
        contained,
        journal,
        listener,
    };
    let mut keeper = Keeper::assemble(parts, size)?;
    keeper.notifications.open();
    let session = keeper.journal.session();
    let written = session.spec.as_ref().zip(session.conversation.as_ref());
    let conversation = conversation.zip(written).and_then(|(file, (spec, conversation))| {
        let (kind, id) = (spec.conversation.clone(), conversation.id.clone());
        ConversationLock::inherited(file, &keeper.identity.home(), kind, id)
    });
    keeper.conversation.take_up(begin_in(args), conversation);
    if let Some(pty) = pty {
        keeper.watch_terminal(AgentPty { pty }).map_err(|error| bug("watching the terminal", &error))?;
    }
    keeper.replay_screen();
    let reason = "the event loop stood still, or an upgrade was asked for".to_owned();
    let mut inputs = vec![SessionInput::Note(Event::KeeperRestarted { reason })];
    inputs.extend(torn.into_iter().chain(unopened).map(|what| SessionInput::Note(Event::Warned { what })));
    // A disk that accepts no notes is not a reason to end the run.
    let _ = keeper.take(inputs);
    // Connections did not come along, and so neither did the client that was typing.
    let person_typed = keeper.journal.session().writer.is_some();
    keeper.release_absent_writer();
    keeper.restore_tui_turns(person_typed);
    keeper.adopt_run();
    if let Some(pipes) = pipes {
        keeper.talk_again(pipes).map_err(|error| bug("taking the agent's pipes over", &error))?;
    }
    keeper.watch_owners_again();
    keeper.begin_probe(looking_since(args));
    // A child may have ended between the images; its signal would have gone to the old one.
    keeper.on_children();
    // Effects that the old image had committed and not performed are still owed.
    keeper.settle();
    Ok(keeper)
}

impl Keeper {
    /// Shows the run's output on the screen again.
    fn replay_screen(&mut self) {
        let from = self.journal.session().output_from;
        let output = self.identity.files().output();
        let shown = output.tail(from, REPLAY_BYTES).unwrap_or_default();
        let is_cut = from + REPLAY_BYTES < self.output.end();
        let first = if is_cut { first_words(&output, from) } else { Vec::new() };
        self.terminal.replay(&first, &shown);
    }

    /// Counts the effects of the previous image as performed, and finds the agent that it may have spawned.
    fn adopt_run(&mut self) {
        self.run.adopt_effects(self.journal.owed());
        let session = self.journal.session();
        let epoch = session.epoch;
        let is_unrecorded = match &session.phase {
            RunPhase::Starting | RunPhase::Ending(EndingRun { agent: None, exit: None, .. }) => true,
            RunPhase::New | RunPhase::Running { .. } | RunPhase::Ending(_) | RunPhase::Ended { .. } => false,
        };
        if is_unrecorded && let Some(agent) = self.run.first_process() {
            self.report(vec![Observation::Spawned { epoch, agent: process_ref::to_process_ref(agent) }]);
        }
    }
}

/// The agent's first settings of its terminal, and a blank screen: an agent says only once how it wants
/// pastes and keys.
fn first_words(output: &OutputFiles, from: u64) -> Vec<u8> {
    let mut first = vec![0; FIRST_BYTES];
    let count = match output.read_at(from, &mut first) {
        Ok((count, at)) if at == from => count,
        // The beginning is no longer kept.
        Ok(_) | Err(_) => 0,
    };
    let whole = StreamSplitter::new().push(&first[..count]).into_owned();
    [whole.as_slice(), BLANK].concat()
}

/// The start of the conversation, as arguments for a new image.
pub(super) fn words_of(begin: &ConversationStart) -> Vec<String> {
    let (kind, id, of) = match begin {
        ConversationStart::New { id } => ("new", id.as_deref(), None),
        ConversationStart::Resume { id } => ("resume", Some(id.as_str()), None),
        ConversationStart::Fork { of, id } => ("fork", id.as_deref(), Some(of.as_str())),
    };
    let words = [("begin", Some(kind)), ("begin-id", id), ("begin-of", of)];
    words.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect()
}

fn begin_in(args: &[OsString]) -> ConversationStart {
    let word = |name: &str| {
        let found = args.iter().find_map(|arg| arg.to_str()?.strip_prefix(name)?.strip_prefix('='));
        found.map(str::to_owned)
    };
    match (word("begin").as_deref(), word("begin-id"), word("begin-of")) {
        (Some("resume"), Some(id), _) => ConversationStart::Resume { id },
        (Some("fork"), id, Some(of)) => ConversationStart::Fork { of, id },
        (_, id, _) => ConversationStart::New { id },
    }
}

/// The time since when the previous image waits for its helper to be ready.
fn looking_since(args: &[OsString]) -> Option<u64> {
    args.iter().find_map(|arg| arg.to_str()?.strip_prefix(LOOKING_SINCE)?.parse().ok())
}
