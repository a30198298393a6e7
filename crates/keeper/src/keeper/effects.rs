//! Effects: performs the actions that the committed state requires, each once.
//!
//! Promise: a turn is recorded as delivered before the agent gets it, and is sent once; the agent has read the
//! messages of other programs before it, as far as the record shows that.
//! Not here: which effects are owed (`berth_core`), the processes (`run_supervisor`), how a turn is typed (`tui_turns`).
//! Start with [`Keeper::settle`].

use std::io;

use berth_conversations::injected_hooks::{self, trust};
use berth_core::{
    ChosenReply, Command, ConversationOrigin, Effect, Epoch, Observation, ProcessRef, RunPhase, SessionSpec,
};
use berth_driver::ConversationStart;
use berth_store::conversation_locks::LOCK_PATIENCE;
use berth_store::killpoint;

use super::Keeper;
use super::external_writes::ComparedSession;
use super::tui_turns::TypingDecision;
use crate::agent_launch::{self, pipes, pty};
use crate::journaled_session::SessionInput;

/// The placeholder for the id of a conversation that has none when its session is made, in the command that goes
/// on with it.
const ID_PLACE: &str = "{id}";

impl Keeper {
    /// Performs the effects that are due and not yet done, until none is left.
    pub(super) fn settle(&mut self) {
        // One at a time: after one effect the others may not be due any more.
        while let Some(effect) = self.run.next_effect(self.journal.owed()) {
            self.perform(&effect);
        }
    }

    fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::Spawn { epoch } => self.spawn(*epoch),
            Effect::Terminate { .. } => {
                self.look_for_conversation();
                if !self.say_goodbye() {
                    self.run.terminate();
                }
            }
            Effect::Kill { .. } => {
                self.look_for_conversation();
                self.run.kill();
                self.on_children();
            }
            Effect::Prove { .. } => self.on_children(),
            // The loop's timeout follows from the state; see `timeout`.
            Effect::WakeAt { .. } => {}
            Effect::Deliver { turn } => self.deliver_turn(*turn),
            Effect::Say { turn } => self.say_turn(*turn),
            Effect::Interrupt { turn } => self.interrupt_turn(*turn),
            Effect::NextRun { .. } => self.next_run(),
            Effect::Leave => {
                // This comes before any client hears that the run is over: a client that asks then finds no keeper,
                // rather than one that no longer answers, and a look at the host finds no group.
                self.identity.files().remove_socket();
                self.run.remove_boundary();
                self.event_loop.leave();
            }
        }
    }

    // The agent's start and end.

    fn spawn(&mut self, epoch: Epoch) {
        let mut carried = None;
        let report = match self.start_agent(epoch, &mut carried) {
            Ok((agent, Ok(()))) => Observation::Spawned { epoch, agent },
            Ok((_, Err(error))) => {
                self.run.kill_unwatched();
                let reason = format!("cannot watch the agent: {error}");
                Observation::SpawnFailed { epoch, reason }
            }
            Err(reason) => Observation::SpawnFailed { epoch, reason },
        };
        killpoint::reached("spawned");
        self.report([report].into_iter().chain(carried).collect());
    }

    /// Starts the agent, and returns whether its hooks or its protocol report turns. The error is for people.
    fn start_agent(
        &mut self,
        epoch: Epoch,
        carried: &mut Option<Observation>,
    ) -> Result<(ProcessRef, io::Result<()>), String> {
        let spec = self.journal.session().spec.clone().unwrap_or_default();
        let variables = self.identity.variables(epoch);
        let root = self.identity.root();
        let begin = self.conversation.begin();
        // The agent's hooks are not part of the record: the next run has those of the program that starts it.
        if spec.takes_turns() {
            let driver = agent_launch::of(&spec.driver, self.identity.session())
                .ok_or_else(|| format!("this version of berth knows no driver called `{}`", spec.driver))?;
            let command = injected_hooks::with_hooks(root, &spec, driver.command_line(&spec.command, begin));
            let (pipes, agent) = pipes::start(&self.run.launch(&spec, &command, &variables))?;
            return Ok((agent, self.talk_to(driver, pipes)));
        }
        let command = injected_hooks::with_hooks(root, &spec, terminal_command(&spec, begin));
        *carried = trust::run_reports_turns(&spec, &command).then_some(Observation::HooksInjected { epoch });
        let size = self.terminal.size();
        let (terminal, agent) = pty::start(&self.run.launch(&spec, &command, &variables), size)?;
        Ok((agent, self.watch_terminal(terminal)))
    }

    pub(super) fn watch_terminal(&mut self, terminal: pty::AgentPty) -> io::Result<()> {
        self.terminal.watch(terminal)?;
        self.output.set_size(self.terminal.size());
        Ok(())
    }

    /// Asks an agent on pipes to exit. True if it may exit by itself, so that there is no hurry.
    fn say_goodbye(&mut self) -> bool {
        let session = self.journal.session();
        let is_busy = session.turns.current.is_some();
        let is_gone = matches!(&session.phase, RunPhase::Ending(ending) if ending.exit.is_some());
        let Some(agent) = &mut self.agent else { return false };
        if is_gone || agent.is_leaving() {
            return false;
        }
        agent.say_goodbye();
        self.renew_watchdog();
        !is_busy
    }

    // Turns of the agent.

    /// Gives the turn that is due to the agent, unless another program is writing its conversation.
    fn deliver_turn(&mut self, turn: u64) {
        killpoint::reached("due");
        // The cheap check comes first: it is repeated often while a terminal is not ready.
        match self.tui_turns.typable(self.journal.session(), &mut self.terminal) {
            TypingDecision::Now => {}
            TypingDecision::Later => return,
            TypingDecision::Held(hold) => return self.report(vec![Observation::Held { hold }]),
        }
        if let Some(report) = self.obstacle(turn) {
            return self.report(vec![report]);
        }
        let output_from = self.output.end();
        self.conversation.note_given(output_from);
        self.with_keys_held(|keeper| {
            // If the disk is full, delivery is tried again when there may be room; see `on_time`.
            let delivery = SessionInput::Command(Command::Deliver { turn, output_from });
            let hold = |keeper: &mut Self, on| keeper.agent.iter_mut().for_each(|agent| agent.hold(on));
            hold(keeper, true);
            let delivered = keeper.take(vec![delivery]);
            hold(keeper, false);
            match delivered {
                Ok(_) if keeper.journal.owed().contains(&Effect::Say { turn }) => {
                    keeper.run.note_performed(Effect::Say { turn });
                    keeper.say_turn(turn);
                }
                Ok(_) => {}
                Err(_) => keeper.journal.retry_soon(),
            }
        });
    }

    /// An obstacle to delivering this turn: another program writes the conversation, or wrote text that the agent
    /// must read first.
    fn obstacle(&mut self, turn: u64) -> Option<Observation> {
        if let Some(known) = self.journal.session().conversation.clone() {
            // The conversation changed while another session had the right to write it.
            let held = self.enter(known.id, LOCK_PATIENCE).into_hold();
            if held.is_some() {
                return held;
            }
        }
        let reader = ComparedSession {
            identity: &self.identity,
            handle: self.handle_name(),
            output_end: self.output.end(),
        };
        self.conversation.obstacle(turn, self.journal.session(), &reader)
    }

    /// Sends a turn's prompt. A turn that is recorded as delivered is sent once.
    fn say_turn(&mut self, turn: u64) {
        killpoint::reached("delivered");
        let session = self.journal.session();
        let Some(text) = session.turns.open(turn).map(|turn| turn.prompt.clone()) else { return };
        if session.has_terminal() {
            return self.tui_turns.paste(turn, &text, session, &mut self.terminal);
        }
        let is_whole = session.turns.current.as_ref().is_some_and(|current| current.turn == turn);
        let Some(agent) = &mut self.agent else { return };
        let out = if is_whole { agent.prompt(turn, &text) } else { agent.steer(turn, &text) };
        self.heed(out);
        killpoint::reached("said");
    }

    fn interrupt_turn(&mut self, turn: u64) {
        let session = self.journal.session();
        if session.has_terminal() {
            if let Some(report) = self.tui_turns.break_off(turn, session, &mut self.terminal) {
                self.report(vec![report]);
            }
            return;
        }
        if let Some(agent) = &mut self.agent {
            let out = agent.interrupt(turn);
            self.heed(out);
        }
    }

    /// Gives an agent on pipes the answer to its question.
    pub(super) fn answer_agent(&mut self, request: &str, reply: &ChosenReply) {
        if let Some(agent) = &mut self.agent {
            let out = agent.answer(request, reply);
            self.heed(out);
        }
    }
}

/// The command of an agent in a terminal. It goes on with the conversation that the agent had last, which may be another one
/// than the first: the first one's id is on the session's own command line.
fn terminal_command(spec: &SessionSpec, begin: &ConversationStart) -> Vec<String> {
    let first = match &spec.origin {
        ConversationOrigin::Named(first) | ConversationOrigin::Resumed(first) => Some(first),
        ConversationOrigin::New | ConversationOrigin::Forked(_) => None,
    };
    let (words, id, goes_on) = match begin {
        ConversationStart::Resume { id } if !spec.again.is_empty() => (&spec.again, Some(id), true),
        ConversationStart::Resume { id } => (&spec.command, Some(id), false),
        ConversationStart::New { id } => (&spec.command, id.as_ref(), false),
        ConversationStart::Fork { .. } => (&spec.command, None, false),
    };
    let Some(id) = id else { return words.clone() };
    let word = |word: &String| match first {
        Some(first) if word == first => id.clone(),
        None if goes_on => word.replace(ID_PLACE, id),
        Some(_) | None => word.clone(),
    };
    words.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_terminals_agent_goes_on_with_the_conversation_it_had_last() {
        let spec = |origin: ConversationOrigin, command: &str, again: &str| SessionSpec {
            origin,
            command: words(command),
            again: words(again),
            ..SessionSpec::default()
        };
        let resume = |id: &str| ConversationStart::Resume { id: id.to_owned() };
        let new = |id: Option<&str>| ConversationStart::New { id: id.map(str::to_owned) };
        let named = spec(
            ConversationOrigin::Named("one".to_owned()),
            "claude --session-id one",
            "claude --resume one --model {id}",
        );
        let codex = spec(ConversationOrigin::New, "codex", "codex resume {id}");
        let resumed = spec(ConversationOrigin::Resumed("one".to_owned()), "codex resume one", "");
        let other = spec(ConversationOrigin::New, "mine {id}", "");
        for (spec, begin, expected) in [
            (&named, new(Some("one")), "claude --session-id one"),
            (&named, resume("one"), "claude --resume one --model {id}"),
            (&named, resume("two"), "claude --resume two --model {id}"),
            // The first one is in use, and nothing was said in the second one.
            (&named, new(Some("two")), "claude --session-id two"),
            (&codex, new(None), "codex"),
            (&codex, resume("two"), "codex resume two"),
            (&resumed, resume("one"), "codex resume one"),
            (&resumed, resume("two"), "codex resume two"),
            (&other, resume("two"), "mine {id}"),
        ] {
            assert_eq!(terminal_command(spec, &begin).join(" "), expected, "{begin:?}");
        }
    }
}
