//! Commands: requests of clients, and the decision whether they are allowed.
//!
//! Promise: a refused command leaves nothing behind, and an accepted one changes the state by its events only.
//! Not here: who may command (see [`crate::check_permission`] for agents), and carrying out the events (see [`crate::effects()`]).
//! Start with [`decide`].

use std::time::Duration;

use crate::turns::{BadReply, FinalState, QuestionReply, ReleaseReason, SessionExpiry, TurnPrompt};
use crate::{
    Actor, AgentInterface, ClockReading, Epoch, Event, Fence, HelperOwner, HelperTerms, PolicyChange,
    ProcessRef, RunBoundary, RunPhase, SafeName, Session, SessionId, SessionSpec, interface, lifecycle,
    owners, turns,
};

/// A command for a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Create the session.
    Create {
        /** Program to run, and how to run it. */
        spec: SessionSpec,
        /** Name of the session, if it gets one. */
        name: Option<SafeName>,
    },
    /// Begin the next run.
    Start {
        /** The number of the run, from the claim on the session. */
        epoch: Epoch,
        /** Keeper that will hold the run. */
        keeper: ProcessRef,
        /** Offset at which its output will begin. */
        output_from: u64,
        /** Means that will hold its processes together. */
        boundary: RunBoundary,
    },
    /// End the run.
    Stop {
        /** Client that asks. */
        by: Actor,
        /** Time between the polite signal and the kill. */
        grace: Duration,
    },
    /// Rename the session.
    Rename {
        /** The new name. */
        name: SafeName,
    },
    /// Ask for the right to type.
    TakeWriter {
        /** Client that asks. */
        who: Actor,
        /** True to take it from the current writer. */
        force: bool,
    },
    /// Give up the right to type.
    ReleaseWriter {
        /** Fence of the client. */
        fence: Fence,
    },
    /// Type as a command does: recorded, unlike the keys of an attached client.
    Type {
        /** Client that asked. */
        by: Actor,
        /** Fence of the client. */
        fence: Fence,
        /** Number of bytes. */
        bytes: u64,
    },
    /// Declare the terms of a helper, before its next run.
    Declare {
        /** Program to run, and how to run it. */
        spec: SessionSpec,
        /** Terms on which sessions share it. */
        terms: HelperTerms,
    },
    /// Become an owner of a helper.
    Join {
        /** The owner, and whether it keeps the helper. */
        owner: HelperOwner,
    },
    /// Stop being an owner of a helper.
    Leave {
        /** Id of the session. */
        owner: SessionId,
    },
    /// Send a prompt to the agent.
    Send {
        /** Text and sender. */
        prompt: TurnPrompt,
    },
    /// Give the due turn to the agent.
    Deliver {
        /** Number of the turn. */
        turn: u64,
        /** Offset at which its output will begin. */
        output_from: u64,
    },
    /// Withdraw a waiting turn.
    Withdraw {
        /** Number of the turn. */
        turn: u64,
        /** Client that asks. */
        by: Actor,
    },
    /// Withdraw a waiting turn, or interrupt a running one.
    Cancel {
        /** Number of the turn. */
        turn: u64,
        /** Client that asks. */
        by: Actor,
    },
    /// Move a waiting turn to another place.
    Move {
        /** Number of the turn. */
        turn: u64,
        /** Number of turns that shall be before it. */
        to: u64,
    },
    /// Replace the text of a waiting turn.
    Edit {
        /** Number of the turn. */
        turn: u64,
        /** The new text. */
        text: String,
        /** Client that asks. */
        by: Actor,
    },
    /// Pause the queue: no further turn begins.
    Pause {
        /** Client that asks. */
        by: Actor,
    },
    /// Resume the queue after any hold.
    GoOn {
        /** Client that asks. */
        by: Actor,
    },
    /// Answer a question of the agent.
    Answer {
        /** Name of the question; may be absent if there is only one. */
        request: Option<String>,
        /** The answer. */
        reply: QuestionReply,
        /** Client that asked. */
        by: Actor,
    },
    /// Give up the conversation: the next run begins a new one.
    LeaveConversation {
        /** Client that asks. */
        by: Actor,
    },
    /// Change the agent's interface, in the same conversation.
    SwitchInterface {
        /** The new interface. */
        to: AgentInterface,
        /** True to interrupt the running turn. */
        at_once: bool,
        /** Client that asks. */
        by: Actor,
    },
    /// Archive the session.
    Archive {
        /** Client that asks. */
        by: Actor,
    },
    /// Restore the session from the archive.
    Restore {
        /** Client that asks. */
        by: Actor,
    },
    /// Add and remove tags.
    Tag {
        /** Tags to add. */
        add: Vec<SafeName>,
        /** Tags to remove. */
        remove: Vec<SafeName>,
    },
    /// Replace the note.
    Note {
        /** The new note; `None` to remove it. */
        note: Option<String>,
    },
    /// Change the policy.
    SetPolicy {
        /** Settings to change. */
        change: PolicyChange,
    },
}

/// A refused command. Nothing broke and nothing happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The session exists already.
    AlreadyCreated,
    /// The process that created the session died before anything was recorded: nothing can be run or renamed.
    NotCreated,
    /// The last run is not over.
    AlreadyRunning,
    /// No run is live.
    NotRunning,
    /// Another client may type.
    Held {
        /** Client that asked. */
        by: Actor,
    },
    /// The client was replaced as writer.
    StaleFence {
        /** The number that was given. */
        given: Fence,
        /** The number that counts. */
        current: Fence,
    },
    /// The run would have a number that is taken: its claim on the session is an old one.
    StaleEpoch {
        /** The number that was given. */
        given: Epoch,
        /** The number of the last run. */
        current: Epoch,
    },
    /// The session is not a helper, or its record is of an older version and does not list the owners.
    NotShared,
    /// The record is of a helper with another name or of another place.
    OtherHelper,
    /// The run is being ended: no session can join it.
    BeingEnded,
    /// The session neither owns the helper nor ever did.
    NotOwner {
        /** Id of the session. */
        owner: SessionId,
    },
    /// The helper has as many owners as it can have.
    TooManyOwners {
        /** The limit. */
        limit: usize,
    },
    /// The agent has a terminal and takes no turns.
    NoTurns,
    /// The prompt is empty.
    EmptyPrompt,
    /// The prompt is too long.
    PromptTooLong {
        /** Size in bytes. */
        bytes: usize,
        /** Limit in bytes. */
        limit: usize,
    },
    /// The text contains control characters, and would be typed into a terminal.
    CannotBePasted,
    /// The agent's interface would take the text as a command of its own.
    IsInterfaceCommand {
        /** First character of the command. */
        begins: char,
    },
    /// The agent asks on its screen, where only a user at its terminal can answer.
    OnScreen {
        /** Text of the question. */
        what: String,
        /** Kind of conversation that the agent writes. */
        agent: String,
    },
    /// The key is empty or too long.
    BadKey {
        /** Size in bytes. */
        bytes: usize,
        /** Limit in bytes. */
        limit: usize,
    },
    /// The key belongs to a turn with another prompt.
    KeyReused {
        /** Number of the turn. */
        turn: u64,
    },
    /// The queue is full.
    QueueFull {
        /** The limit. */
        limit: usize,
    },
    /// The agent takes no text into a running turn.
    CannotSteer,
    /// There is no such turn.
    NoSuchTurn {
        /** Number that was asked for. */
        turn: u64,
    },
    /// The turn is over.
    TurnOver {
        /** Number of the turn. */
        turn: u64,
        /** Final state; `None` if the turn is no longer in memory. */
        end: Option<FinalState>,
    },
    /// The agent has the turn already.
    TurnStarted {
        /** Number of the turn. */
        turn: u64,
    },
    /// The turn's text went into another turn and cannot be taken out of it.
    PartOf {
        /** Number of the turn. */
        turn: u64,
        /** Number of the other turn. */
        whole: u64,
    },
    /// The turn is not the due one.
    NotDue {
        /** Number of the turn. */
        turn: u64,
    },
    /// The agent does not wait for an answer to this question.
    NoSuchRequest {
        /** Name that was given. */
        request: Option<String>,
    },
    /// More than one question waits.
    WhichRequest {
        /** Names of the questions. */
        requests: Vec<String>,
    },
    /// The option is not one of the question's.
    NoSuchOption {
        /** Ids of the valid options. */
        options: Vec<String>,
    },
    /// The answer does not fit the question.
    BadAnswer(BadReply),
    /// The agent has no other interface that can resume its conversation.
    OneInterface {
        /** The only interface. */
        has: AgentInterface,
    },
    /// The conversation is empty, so no other interface can resume it.
    NoConversation,
    /// The text of a waiting turn cannot be typed into a terminal.
    CannotBeTyped {
        /** Number of the turn. */
        turn: u64,
    },
    /// The agent in the terminal does not report whether it works.
    CannotTellWhetherItWorks,
    /// The session's time to live has ended.
    Expired,
    /// The session is archived and has to be restored first.
    Archived,
    /// The run is not over, so the session cannot be archived.
    StillRunning,
    /// The session would have too many tags.
    TooManyTags {
        /** The limit. */
        limit: usize,
    },
    /// The note is too long.
    NoteTooLong {
        /** Size in bytes. */
        bytes: usize,
        /** Limit in bytes. */
        limit: usize,
    },
}

/// Decides whether a command is allowed, and returns its events.
pub fn decide(session: &Session, command: Command, now: ClockReading) -> Result<Vec<Event>, Refusal> {
    match command {
        Command::Create { spec, name } => match session.spec {
            Some(_) => Err(Refusal::AlreadyCreated),
            None => Ok(vec![Event::Created { spec, name }]),
        },
        Command::Start { .. }
        | Command::Rename { .. }
        | Command::SwitchInterface { .. }
        | Command::Archive { .. }
        | Command::Restore { .. }
        | Command::Tag { .. }
        | Command::Note { .. }
        | Command::SetPolicy { .. }
            if session.spec.is_none() =>
        {
            Err(Refusal::NotCreated)
        }
        Command::Start { .. } if session.is_live() => Err(Refusal::AlreadyRunning),
        Command::Start { .. } if session.archived => Err(Refusal::Archived),
        // A session that was ended for that has ended for good, whatever the clock says now.
        Command::Start { .. } if session.released == Some(ReleaseReason::Expired) => Err(Refusal::Expired),
        Command::Start { keeper, .. } if session.is_expired(&keeper.boot, now.boot_ms) => {
            Err(Refusal::Expired)
        }
        Command::Start { epoch, .. } if epoch <= session.epoch => {
            Err(Refusal::StaleEpoch { given: epoch, current: session.epoch })
        }
        Command::Start { epoch, keeper, output_from, boundary } => {
            let expiry = expiry(session, &keeper, now);
            let start = Event::RunStarting { epoch, keeper, output_from, boundary };
            Ok(expiry.into_iter().chain([start]).collect())
        }
        Command::Stop { by, grace } => Ok(stop(session, by, grace, now)),
        Command::Rename { name } if session.name.as_ref() == Some(&name) => Ok(vec![]),
        Command::Rename { name } => Ok(vec![Event::Renamed { name }]),
        Command::TakeWriter { who, force } => take_writer(session, who, force),
        Command::ReleaseWriter { fence } => match &session.writer {
            Some(writer) if writer.fence == fence => Ok(vec![Event::WriterReleased { fence }]),
            Some(_) | None => Ok(vec![]),
        },
        Command::Type { by, fence, bytes } => {
            may_type(session, fence)?;
            Ok(vec![Event::Typed { by, bytes }])
        }
        Command::Declare { spec, terms } => owners::declare(session, spec, terms),
        Command::Join { owner } => owners::join(session, owner),
        Command::Leave { owner } => owners::leave(session, owner, now),
        Command::Send { prompt } => turns::send(session, prompt, now),
        Command::Deliver { turn, output_from } => turns::deliver(session, turn, output_from, now),
        Command::Withdraw { turn, by } => turns::withdraw(session, turn, by, now),
        Command::Cancel { turn, by } => turns::cancel(session, turn, by, now),
        Command::Move { turn, to } => turns::move_turn(session, turn, to),
        Command::Edit { turn, text, by } => turns::edit(session, turn, text, by),
        Command::Pause { by } => turns::pause(session, by),
        Command::GoOn { by } => turns::go_on(session, by),
        Command::Answer { request, reply, by } => turns::answer(session, request.as_deref(), &reply, by),
        Command::LeaveConversation { .. } if session.is_live() => Err(Refusal::AlreadyRunning),
        Command::LeaveConversation { by } => {
            Ok(session.conversation.iter().map(|_| Event::ConversationLeft { by: by.clone() }).collect())
        }
        Command::SwitchInterface { to, at_once, by } => interface::switch(session, to, at_once, by, now),
        Command::Archive { by } => lifecycle::archive(session, by),
        Command::Restore { by } => Ok(lifecycle::restore(session, by)),
        Command::Tag { add, remove } => lifecycle::tag(session, add, &remove),
        Command::Note { note } => lifecycle::note(session, note),
        Command::SetPolicy { change } => lifecycle::set_policy(session, &change, now),
    }
}

/// The time to live begins with the first run, and anew with the first run after the host was started.
fn expiry(session: &Session, keeper: &ProcessRef, now: ClockReading) -> Option<Event> {
    let ttl_ms = session.spec.as_ref()?.policy.ttl_ms?;
    if session.expiry.as_ref().is_some_and(|expiry| expiry.boot == keeper.boot) {
        return None;
    }
    let expiry = SessionExpiry { boot: keeper.boot.clone(), boot_ms: now.boot_ms.saturating_add(ttl_ms) };
    Some(Event::ExpirySet { expiry })
}

/// Refuses input whose fence is not that of the current writer.
pub(crate) fn may_type(session: &Session, fence: Fence) -> Result<(), Refusal> {
    match (&session.phase, &session.writer) {
        (RunPhase::Running { .. } | RunPhase::Ending(_), Some(writer)) if writer.fence == fence => Ok(()),
        (RunPhase::Running { .. } | RunPhase::Ending(_), _) => {
            Err(Refusal::StaleFence { given: fence, current: session.fence })
        }
        (RunPhase::New | RunPhase::Starting | RunPhase::Ended { .. }, _) => Err(Refusal::NotRunning),
    }
}

fn stop(session: &Session, by: Actor, grace: Duration, now: ClockReading) -> Vec<Event> {
    let millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    let kill_at_boot_ms = now.boot_ms.saturating_add(millis);
    let request = Event::StopRequested { epoch: session.epoch, by, kill_at_boot_ms };
    match &session.phase {
        RunPhase::Starting | RunPhase::Running { .. } => vec![request],
        // A second, less patient request counts; a more patient one changes nothing.
        RunPhase::Ending(ending) if !ending.killed && kill_at_boot_ms < ending.kill_at_boot_ms => {
            vec![request]
        }
        // The run ends already, and waiting turns or another interface would begin the next one: the stop prevents
        // that.
        RunPhase::Ending(_)
            if session.stopped_by.is_none()
                && (session.takes_turns() || session.next_interface.is_some()) =>
        {
            vec![request]
        }
        RunPhase::Ended { .. } if session.goes_on() => vec![request],
        RunPhase::New | RunPhase::Ending(_) | RunPhase::Ended { .. } => vec![],
    }
}

fn take_writer(session: &Session, who: Actor, force: bool) -> Result<Vec<Event>, Refusal> {
    if !session.is_live() {
        return Err(Refusal::NotRunning);
    }
    let taken_from = match &session.writer {
        // A process that opens the session a second time is not its own rival, unless it does so for a client at
        // another place: a gateway is one process for many clients. (Processes of namespaces that we cannot see all
        // have the number 0.)
        Some(writer)
            if !force
                && (writer.holder.pid != who.pid || who.pid == 0 || writer.holder.place != who.place) =>
        {
            return Err(Refusal::Held { by: writer.holder.clone() });
        }
        Some(writer) => Some(writer.holder.clone()),
        None => None,
    };
    Ok(vec![Event::WriterGranted { fence: session.fence.next(), holder: who, taken_from }])
}

impl Session {
    /// Refuses input whose fence is not that of the current writer. Keys of an attached client are checked with
    /// this and not journalled.
    pub fn may_type(&self, fence: Fence) -> Result<(), Refusal> {
        may_type(self, fence)
    }
}
