//! The two interfaces of one agent: a chat that takes turns, and the agent's own in a terminal.
//!
//! Promise: a session has one interface at a time, and changes it only between two runs: the live run ends at the
//! end of its turn, the next one begins when the first is proven gone. A recorded choice counts for the next run,
//! even if the keeper dies. Waiting turns stay in the queue.
//! Not here: the commands of each interface (the caller records both when it creates the session).
//! Start with [`switch`].

use crate::turns;
use crate::{Actor, ClockReading, Event, Refusal, RunPhase, Session, SessionSpec};

/// Interface between people and an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgentInterface {
    /// The agent's protocol: berth shows the messages and asks the agent's questions.
    Chat,
    /// A terminal with the agent's own interface.
    Terminal,
}

impl AgentInterface {
    /// Word that people see.
    pub fn word(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Terminal => "terminal",
        }
    }
}

/// Launch of an agent with one of its interfaces.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InterfaceLaunch {
    /// As [`SessionSpec::driver`].
    pub driver: String,
    /// As [`SessionSpec::command`].
    pub command: Vec<String>,
    /// As [`SessionSpec::again`].
    pub again: Vec<String>,
}

/// The interface of the next run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextInterface {
    /// Terminal or pipes; never the one of the live run.
    pub interface: AgentInterface,
    /// True if the live run does not wait for the agent to finish its turn.
    pub at_once: bool,
}

impl SessionSpec {
    /// The current interface.
    pub fn interface(&self) -> AgentInterface {
        if self.takes_turns() { AgentInterface::Chat } else { AgentInterface::Terminal }
    }

    /// The other interface, if the agent has two.
    pub fn other_interface(&self) -> Option<AgentInterface> {
        self.other.as_ref().map(|_| match self.interface() {
            AgentInterface::Chat => AgentInterface::Terminal,
            AgentInterface::Terminal => AgentInterface::Chat,
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
    /// True if the agent has a terminal now, or with its next run.
    pub(crate) fn will_have_terminal(&self) -> bool {
        match self.next_interface {
            Some(next) => next.interface == AgentInterface::Terminal,
            None => self.has_terminal(),
        }
    }

    /// True if the live run is to be ended now for another interface.
    pub fn switch_is_due(&self) -> bool {
        let Some(next) = self.next_interface else { return false };
        let works = self.has_terminal() && self.edges.is_none_or(|edges| edges.working);
        let is_running = match self.phase {
            RunPhase::Running { .. } => true,
            RunPhase::New | RunPhase::Starting | RunPhase::Ending(_) | RunPhase::Ended { .. } => false,
        };
        is_running && self.turns.current.is_none() && (next.at_once || !works)
    }

    pub(crate) fn interface_chosen(&mut self, interface: AgentInterface, at_once: bool) {
        let is_live = self.is_live();
        let Some(spec) = &mut self.spec else { return };
        let is_another = spec.interface() != interface;
        if is_live {
            self.next_interface = is_another.then_some(NextInterface { interface, at_once });
        } else if is_another {
            spec.switch();
        }
    }

    /// The run is over: the chosen interface counts from now on.
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
    to: AgentInterface,
    at_once: bool,
    by: Actor,
    now: ClockReading,
) -> Result<Vec<Event>, Refusal> {
    let spec = session.spec.as_ref().ok_or(Refusal::NotCreated)?;
    if session.archived {
        return Err(Refusal::Archived);
    }
    let chosen = Event::InterfaceChosen { interface: to, at_once, by: by.clone() };
    if spec.interface() == to {
        // The user changed their mind before the turn was over.
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
    if to == AgentInterface::Terminal {
        let cannot = |turn: &&u64| {
            let waiting = session.turns.open(**turn);
            waiting.is_some_and(|waiting| turns::check_typed_prompt(session, &waiting.prompt).is_err())
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
