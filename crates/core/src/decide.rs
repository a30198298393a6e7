//! Commands: what somebody wants, and whether they may have it.

use std::time::Duration;

use crate::turns::{BadAnswer, Expiry, Final, Prompt, Release, Wish};
use crate::{
    Actor, Boundary, Epoch, Event, Fence, Interface, Name, Now, Owner, Phase, PolicyChange, Process, Session,
    SessionId, Spec, Terms, interface, life, owners, turns,
};

/// An order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Make the session.
    Create {
        /** What it runs. */
        spec: Spec,
        /** Its name. */
        name: Option<Name>,
    },
    /// Begin the next run.
    Start {
        /** The number of the run, from the claim on the session. */
        epoch: Epoch,
        /** Who will hold it. */
        keeper: Process,
        /** Where its output will begin. */
        output_from: u64,
        /** What will hold it together. */
        boundary: Boundary,
    },
    /// End the run.
    Stop {
        /** Who asks. */
        by: Actor,
        /** How long to be patient. */
        grace: Duration,
    },
    /// Give it another name.
    Rename {
        /** The new one. */
        name: Name,
    },
    /// Ask for the right to type.
    TakeWriter {
        /** Who asks. */
        who: Actor,
        /** Whether to take it from somebody. */
        force: bool,
    },
    /// Give the right to type back.
    ReleaseWriter {
        /** Whose number it was. */
        fence: Fence,
    },
    /// Type as a command does: recorded, unlike the keys of an attached person.
    Type {
        /** Who. */
        by: Actor,
        /** With which right. */
        fence: Fence,
        /** How much. */
        bytes: u64,
    },
    /// Say what a helper is, before its next run.
    Declare {
        /** What it runs. */
        spec: Spec,
        /** How it is shared. */
        terms: Terms,
    },
    /// Own a helper.
    Join {
        /** Who, and how. */
        owner: Owner,
    },
    /// Own it no longer.
    Leave {
        /** Who. */
        owner: SessionId,
    },
    /// Have something said to the agent.
    Send {
        /** What. */
        prompt: Prompt,
    },
    /// Give the turn that is due to the agent.
    Deliver {
        /** Which. */
        turn: u64,
        /** Where its output will begin. */
        output_from: u64,
    },
    /// Withdraw a turn that waits.
    Withdraw {
        /** Which. */
        turn: u64,
        /** Who asks. */
        by: Actor,
    },
    /// Withdraw a turn, or have it broken off.
    Cancel {
        /** Which. */
        turn: u64,
        /** Who asks. */
        by: Actor,
    },
    /// Put a turn that waits at another place.
    Move {
        /** Which. */
        turn: u64,
        /** How many shall be before it. */
        to: u64,
    },
    /// Have a turn that waits say something else.
    Edit {
        /** Which. */
        turn: u64,
        /** What it shall say. */
        text: String,
        /** Who asks. */
        by: Actor,
    },
    /// Let no further turn begin.
    Pause {
        /** Who asks. */
        by: Actor,
    },
    /// Let the queue go on, whatever held it.
    GoOn {
        /** Who asks. */
        by: Actor,
    },
    /// Answer what the agent asked.
    Answer {
        /** Which question; the only one if none is named. */
        request: Option<String>,
        /** What. */
        wish: Wish,
        /** Who. */
        by: Actor,
    },
    /// Give up the conversation: the next run begins a new one.
    LeaveConversation {
        /** Who wants that. */
        by: Actor,
    },
    /// Go on with another interface of the agent, in the same conversation.
    SwitchInterface {
        /** Which. */
        to: Interface,
        /** Whether to interrupt a turn that runs. */
        at_once: bool,
        /** Who asks. */
        by: Actor,
    },
    /// Put it away.
    Archive {
        /** Who asks. */
        by: Actor,
    },
    /// Bring it back.
    Restore {
        /** Who asks. */
        by: Actor,
    },
    /// Add tags, and take others away.
    Tag {
        /** Which to add. */
        add: Vec<Name>,
        /** Which to take away. */
        remove: Vec<Name>,
    },
    /// Write something about it, in place of what was written before.
    Note {
        /** What; nothing to take it away. */
        note: Option<String>,
    },
    /// Say when it ends by itself, and what waits for what.
    SetPolicy {
        /** What is to be different. */
        change: PolicyChange,
    },
}

/// A polite no. Nothing broke and nothing happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It exists already.
    AlreadyCreated,
    /// Its maker died before anything was recorded: there is nothing to run or to name.
    NotCreated,
    /// The last run is not over.
    AlreadyRunning,
    /// There is no run to do this to.
    NotRunning,
    /// Somebody else may type.
    Held {
        /** Who. */
        by: Actor,
    },
    /// The asker was replaced as writer.
    StaleFence {
        /** The number it came with. */
        given: Fence,
        /** The number that counts. */
        current: Fence,
    },
    /// The run would have a number that is taken: its claim on the session is an old one.
    StaleEpoch {
        /** The number it came with. */
        given: Epoch,
        /** The number of the last run. */
        current: Epoch,
    },
    /// It is not a helper, or one of an older version: nobody knows who uses it.
    NotShared,
    /// The record is of a helper with another name or of another place.
    OtherHelper,
    /// The run is being ended: it is nobody's to join.
    BeingEnded,
    /// The asker neither owns the helper nor ever did.
    NotOwner {
        /** Who. */
        owner: SessionId,
    },
    /// No more can own it.
    TooManyOwners {
        /** How many can. */
        limit: usize,
    },
    /// Its agent has a terminal and takes no turns.
    NoTurns,
    /// Nothing to say.
    EmptyPrompt,
    /// Too much to say.
    PromptTooLong {
        /** How much it is. */
        bytes: usize,
        /** How much it may be. */
        limit: usize,
    },
    /// The text has keys in it, and would be typed into a terminal.
    CannotBePasted,
    /// The agent's interface would take the text for a command of its own.
    IsInterfaceCommand {
        /** What it begins with. */
        begins: char,
    },
    /// The agent asks on its screen, where only somebody at its terminal can answer.
    OnScreen {
        /** What it asks. */
        what: String,
        /** Whose conversations it writes. */
        agent: String,
    },
    /// A key that is empty or too long.
    BadKey {
        /** How long it is. */
        bytes: usize,
        /** How long it may be. */
        limit: usize,
    },
    /// The key belongs to a turn with another prompt.
    KeyReused {
        /** Which. */
        turn: u64,
    },
    /// No more can wait.
    QueueFull {
        /** How many can. */
        limit: usize,
    },
    /// The agent takes no text into a turn that runs.
    CannotSteer,
    /// There is no such turn.
    NoSuchTurn {
        /** The number asked for. */
        turn: u64,
    },
    /// The turn is over.
    TurnOver {
        /** Which. */
        turn: u64,
        /** How; `None` if it is no longer in memory. */
        end: Option<Final>,
    },
    /// The agent has the turn already.
    TurnStarted {
        /** Which. */
        turn: u64,
    },
    /// The turn's text went into another one and cannot be taken out of it.
    PartOf {
        /** Which. */
        turn: u64,
        /** The other one. */
        whole: u64,
    },
    /// It is not this turn's time.
    NotDue {
        /** Which. */
        turn: u64,
    },
    /// Nothing like that was asked, or no longer.
    NoSuchRequest {
        /** The one that was named. */
        request: Option<String>,
    },
    /// More than one question waits.
    WhichRequest {
        /** Which. */
        requests: Vec<String>,
    },
    /// Not one of the answers there are.
    NoSuchOption {
        /** Which there are. */
        options: Vec<String>,
    },
    /// The answer does not fit the question.
    BadAnswer(BadAnswer),
    /// Its agent has no other interface that could go on with its conversation.
    OneInterface {
        /** The one it has. */
        has: Interface,
    },
    /// Nothing was said in it yet that another interface could go on with.
    NoConversation,
    /// A turn waits whose text cannot be typed into a terminal.
    CannotBeTyped {
        /** Which. */
        turn: u64,
    },
    /// The agent in its terminal does not tell whether it works.
    CannotTellWhetherItWorks,
    /// The session's time is up.
    Expired,
    /// It was put away: it has to be brought back first.
    Archived,
    /// The run is not over: it cannot be put away.
    StillRunning,
    /// No more tags.
    TooManyTags {
        /** How many it can have. */
        limit: usize,
    },
    /// Too much written about it.
    NoteTooLong {
        /** How much it is. */
        bytes: usize,
        /** How much it may be. */
        limit: usize,
    },
}

/// May this be done, and what would happen?
pub fn decide(session: &Session, command: Command, now: Now) -> Result<Vec<Event>, Refusal> {
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
        // Once it was ended for that, it is for good, whatever clock there is now.
        Command::Start { .. } if session.released == Some(Release::Expired) => Err(Refusal::Expired),
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
        Command::Move { turn, to } => turns::shift(session, turn, to),
        Command::Edit { turn, text, by } => turns::edit(session, turn, text, by),
        Command::Pause { by } => turns::pause(session, by),
        Command::GoOn { by } => turns::go_on(session, by),
        Command::Answer { request, wish, by } => turns::answer(session, request.as_deref(), &wish, by),
        Command::LeaveConversation { .. } if session.is_live() => Err(Refusal::AlreadyRunning),
        Command::LeaveConversation { by } => {
            Ok(session.conversation.iter().map(|_| Event::ConversationLeft { by: by.clone() }).collect())
        }
        Command::SwitchInterface { to, at_once, by } => interface::switch(session, to, at_once, by, now),
        Command::Archive { by } => life::archive(session, by),
        Command::Restore { by } => Ok(life::restore(session, by)),
        Command::Tag { add, remove } => life::tag(session, add, &remove),
        Command::Note { note } => life::note(session, note),
        Command::SetPolicy { change } => life::set_policy(session, &change, now),
    }
}

/// A session's time begins with its first run, and anew with the first one after the host was started.
fn expiry(session: &Session, keeper: &Process, now: Now) -> Option<Event> {
    let ttl_ms = session.spec.as_ref()?.policy.ttl_ms?;
    if session.expiry.as_ref().is_some_and(|expiry| expiry.boot == keeper.boot) {
        return None;
    }
    let expiry = Expiry { boot: keeper.boot.clone(), boot_ms: now.boot_ms.saturating_add(ttl_ms) };
    Some(Event::ExpirySet { expiry })
}

/// Whether input that carries this fence may reach the agent.
pub(crate) fn may_type(session: &Session, fence: Fence) -> Result<(), Refusal> {
    match (&session.phase, &session.writer) {
        (Phase::Running { .. } | Phase::Ending(_), Some(writer)) if writer.fence == fence => Ok(()),
        (Phase::Running { .. } | Phase::Ending(_), _) => {
            Err(Refusal::StaleFence { given: fence, current: session.fence })
        }
        (Phase::New | Phase::Starting | Phase::Ended { .. }, _) => Err(Refusal::NotRunning),
    }
}

fn stop(session: &Session, by: Actor, grace: Duration, now: Now) -> Vec<Event> {
    let millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    let kill_at_boot_ms = now.boot_ms.saturating_add(millis);
    let request = Event::StopRequested { epoch: session.epoch, by, kill_at_boot_ms };
    match &session.phase {
        Phase::Starting | Phase::Running { .. } => vec![request],
        // A second, less patient request counts; a more patient one changes nothing.
        Phase::Ending(ending) if !ending.killed && kill_at_boot_ms < ending.kill_at_boot_ms => vec![request],
        // It ends already, and what waits or another interface would begin the next run: the stop prevents that.
        Phase::Ending(_)
            if session.stopped_by.is_none()
                && (session.takes_turns() || session.next_interface.is_some()) =>
        {
            vec![request]
        }
        Phase::Ended { .. } if session.goes_on() => vec![request],
        Phase::New | Phase::Ending(_) | Phase::Ended { .. } => vec![],
    }
}

fn take_writer(session: &Session, who: Actor, force: bool) -> Result<Vec<Event>, Refusal> {
    if !session.is_live() {
        return Err(Refusal::NotRunning);
    }
    let taken_from = match &session.writer {
        // A process that opens the session a second time is not its own rival, unless it does so for somebody at
        // another place: a gateway is one process for many people. (Processes of namespaces we do not see are all
        // number 0.)
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
    /// Whether input that carries this fence may reach the agent. Keys of an attached person are
    /// checked with this and not journalled.
    pub fn may_type(&self, fence: Fence) -> Result<(), Refusal> {
        may_type(self, fence)
    }
}
