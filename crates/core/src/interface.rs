//! The two interfaces of one agent: a chat that takes turns, and the agent's own in a terminal.
//!
//! Promise: a session has one interface at a time, and changes it only between two runs: the run that is live ends at
//! the end of its turn, the next one begins when that is proven gone. A choice that is recorded counts for the next run,
//! whatever becomes of the keeper. What waits stays in the queue.
//! Not here: how each is started (the caller records both commands when it makes the session).
//! Start with [`switch`].

use crate::turns;
use crate::{Actor, Event, Now, Phase, Refusal, Session, Spec};

/// How people and berth reach an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interface {
    /// The agent's protocol: berth shows what was said and asks its questions.
    Chat,
    /// A terminal with what the agent paints itself.
    Terminal,
}

impl Interface {
    /// The word people see.
    pub fn word(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Terminal => "terminal",
        }
    }
}

/// How an agent is started with one of its interfaces.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InterfaceLaunch {
    /// As [`Spec::driver`].
    pub driver: String,
    /// As [`Spec::command`].
    pub command: Vec<String>,
    /// As [`Spec::again`].
    pub again: Vec<String>,
}

/// The interface of the next run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextInterface {
    /// Which.
    pub interface: Interface,
    /// Whether the run that is live does not wait for the agent to finish.
    pub at_once: bool,
}

impl Spec {
    /// The interface that its command has.
    pub fn interface(&self) -> Interface {
        if self.takes_turns() { Interface::Chat } else { Interface::Terminal }
    }

    /// The interface that [`Self::other`] has.
    pub fn other_interface(&self) -> Option<Interface> {
        self.other.as_ref().map(|_| match self.interface() {
            Interface::Chat => Interface::Terminal,
            Interface::Terminal => Interface::Chat,
        })
    }

    /// Exchanges the command for that of the other interface.
    pub fn switch(&mut self) {
        if let Some(other) = &mut self.other {
            std::mem::swap(&mut self.driver, &mut other.driver);
            std::mem::swap(&mut self.command, &mut other.command);
            std::mem::swap(&mut self.again, &mut other.again);
        }
    }
}

impl Session {
    /// Whether the agent has a terminal now, or with its next run.
    pub(crate) fn will_have_terminal(&self) -> bool {
        match self.next_interface {
            Some(next) => next.interface == Interface::Terminal,
            None => self.has_terminal(),
        }
    }

    /// Whether the run is to be ended now for another interface.
    pub fn switch_is_due(&self) -> bool {
        let Some(next) = self.next_interface else { return false };
        let works = self.has_terminal() && self.edges.is_none_or(|edges| edges.working);
        let is_running = match self.phase {
            Phase::Running { .. } => true,
            Phase::New | Phase::Starting | Phase::Ending(_) | Phase::Ended { .. } => false,
        };
        is_running && self.turns.current.is_none() && (next.at_once || !works)
    }

    pub(crate) fn interface_chosen(&mut self, interface: Interface, at_once: bool) {
        let is_live = self.is_live();
        let Some(spec) = &mut self.spec else { return };
        let is_another = spec.interface() != interface;
        if is_live {
            self.next_interface = is_another.then_some(NextInterface { interface, at_once });
        } else if is_another {
            spec.switch();
        }
    }

    /// The run is over: what was chosen counts.
    pub(crate) fn interface_run_ended(&mut self) {
        if self.next_interface.take().is_some()
            && let Some(spec) = &mut self.spec
        {
            spec.switch();
            self.switching = true;
        }
    }
}

/// Chooses the interface of the next run, and has the live one end for it.
pub(crate) fn switch(
    session: &Session,
    to: Interface,
    at_once: bool,
    by: Actor,
    now: Now,
) -> Result<Vec<Event>, Refusal> {
    let spec = session.spec.as_ref().ok_or(Refusal::NotCreated)?;
    if session.archived {
        return Err(Refusal::Archived);
    }
    let chosen = Event::InterfaceChosen { interface: to, at_once, by: by.clone() };
    if spec.interface() == to {
        // Somebody changed their mind before the turn was over.
        return Ok(session.next_interface.iter().map(|_| chosen.clone()).collect());
    }
    if spec.other.is_none() {
        return Err(Refusal::OneInterface { has: spec.interface() });
    }
    if session.conversation.is_none() {
        return Err(Refusal::NoConversation);
    }
    if session.is_live() && session.stopped_by.is_some() {
        return Err(Refusal::BeingEnded);
    }
    if to == Interface::Terminal {
        let cannot = |turn: &&u64| {
            let waiting = session.turns.open(**turn);
            waiting.is_some_and(|waiting| turns::can_be_typed(session, &waiting.prompt).is_err())
        };
        if let Some(turn) = session.turns.queue.iter().find(cannot) {
            return Err(Refusal::CannotBeTyped { turn: *turn });
        }
    }
    if session.is_live() && session.has_terminal() && !session.tells && !at_once {
        return Err(Refusal::CannotTellWhetherItWorks);
    }
    if session.next_interface.is_some_and(|next| next.at_once || !at_once) {
        return Ok(vec![]);
    }
    let current = session.turns.current.as_ref().filter(|current| at_once && current.cancel.is_none());
    let interrupted = current.map(|current| turns::cancel_requested(current.turn, by, false, now));
    Ok(std::iter::once(chosen).chain(interrupted).collect())
}

#[cfg(test)]
mod tests;
