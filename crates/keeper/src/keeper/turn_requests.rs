//! Turns, as clients see them: sending, following, cancelling, the queue, the agent's questions.
//!
//! Promise: a receipt is given only for a turn that is on disk; a follower of a turn gets its end exactly once.
//! Not here: the rules (`berth_core`), how the agent gets a turn (`effects`).

use berth_api::message::{KeeperAnswer, KeeperNotice};
use berth_api::turn::{NewTurn, QuestionReply, QueueHold, TurnReceipt, turn_id};
use berth_api::{EventEntry, Problem, problem, redact};
use berth_core::{
    Actor, AgentQuestion, ChosenReply, Command, Event, Refusal, ReleaseReason, RunPhase, StartDeadline,
    TurnLookup, TurnPrompt, decide,
};
use berth_host::clock;
use berth_store::audit::{self, AuditEvent};
use berth_store::killpoint;

use super::agent_link::AgentLink;
use super::client_table::ClientWait;
use super::{Keeper, now};
use crate::journaled_session::SessionInput;
use crate::turn_outcome;

impl Keeper {
    /// Accepts turns, all in one commit, and gives a receipt for each.
    pub(super) fn send_all(&mut self, sends: Vec<(u64, Option<String>, NewTurn)>) {
        let (mut commands, mut senders, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (key, trace, submit) in sends {
            killpoint::reached("sending");
            let (turn_key, waits) = (submit.key.clone(), submit.wait);
            match self.send_command(key, submit) {
                Ok(Some(command)) => {
                    commands.push(SessionInput::Command(command));
                    senders.push((key, trace, waits));
                    keys.push(turn_key);
                }
                Ok(None) => {}
                Err(problem) => self.reply(key, trace.as_deref(), Err(problem)),
            }
        }
        if senders.is_empty() {
            return;
        }
        let taken = match self.take_batch(commands) {
            Ok(taken) => taken,
            Err(problem) => {
                for (key, trace, ..) in senders {
                    self.reply(key, trace.as_deref(), Err(problem.clone()));
                }
                return;
            }
        };
        killpoint::reached("accepted");
        let accepted = taken.accepted(&keys, self.journal.session());
        for ((key, trace, waits), accepted) in senders.into_iter().zip(accepted) {
            let answer = accepted.map_err(|refusal| self.refused(&refusal)).and_then(|accepted| {
                if waits {
                    self.clients.will_follow(key, accepted.turn);
                }
                let receipt = TurnReceipt { repeated: accepted.repeated, ..self.receipt(accepted.turn)? };
                Ok(Some(KeeperAnswer::Receipt { receipt: Box::new(receipt) }))
            });
            self.reply(key, trace.as_deref(), answer);
        }
    }

    /// The command that accepts a turn. `None` if its sender is gone.
    fn send_command(&self, key: u64, submit: NewTurn) -> Result<Option<Command>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        self.may_be_sent_to()?;
        if let Some(expected) = &submit.expected_session {
            turn_outcome::check_expected_session(self.journal.session(), self.identity.session(), expected)?;
        }
        let boot = self.identity.process().boot.clone().into();
        let start_by = submit.max_wait_ms.map(|wait| clock::boot_ms().saturating_add(wait));
        let start_by = start_by.map(|boot_ms| StartDeadline { boot, boot_ms });
        let NewTurn { text, key, manner, .. } = submit;
        let prompt = TurnPrompt { by, text, key, start_by, manner: manner.into(), retry: None };
        Ok(Some(Command::Send { prompt }))
    }

    /// A keeper that is about to leave must not take a turn that the next one would find waiting without a client.
    fn may_be_sent_to(&self) -> Result<(), Problem> {
        let is_over = match self.journal.session().phase {
            RunPhase::Ended { .. } => true,
            RunPhase::New | RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ending(_) => false,
        };
        if self.event_loop.is_leaving() || is_over {
            let handle = self.handle_name();
            return Err(Problem::unreachable(format!(
                "the run of session `{handle}` is over and its keeper leaves"
            ))
            .hint("try again"));
        }
        Ok(())
    }

    /// The current state of a turn, with its receipt.
    fn receipt(&mut self, turn: u64) -> Result<TurnReceipt, Problem> {
        let known = match self.journal.session().turns.find(turn) {
            TurnLookup::Here(turn) => Some(turn.state.into()),
            TurnLookup::Past => self.journal.turns(turn, 1, 0)?.pop().map(|view| view.state),
            TurnLookup::Absent => None,
        };
        let state = known.ok_or_else(|| self.refused(&Refusal::NoSuchTurn { turn }))?;
        let turns = &self.journal.session().turns;
        let position = turns.queue.iter().position(|queued| *queued == turn).map(|at| at as u64);
        let held = turns.hold.clone().filter(|_| position.is_some());
        Ok(TurnReceipt {
            turn: turn_id(self.identity.session().as_str(), turn),
            session: self.identity.session().to_string(),
            number: turn,
            state,
            repeated: false,
            position,
            paused: held.as_ref().is_some_and(|hold| !hold.needs_someone()),
            held: held.map(|hold| QueueHold::from(hold).describe(&self.handle_name())),
        })
    }

    /// Subscribes a client to a turn: it gets the messages and activity so far, then new ones, then the end.
    pub(super) fn follow_turn(&mut self, key: u64, turn: u64) -> Result<Option<KeeperAnswer>, Problem> {
        self.room_for_lasting()?;
        let turns = &self.journal.session().turns;
        let is_open = turns.open(turn).is_some();
        let is_current = turns.current.as_ref().is_some_and(|current| current.turn == turn);
        let receipt = Box::new(self.receipt(turn)?);
        self.clients.answer(key, &KeeperAnswer::Receipt { receipt });
        if is_open {
            let agent = self.agent.as_ref().filter(|_| is_current);
            let told = agent.map(|agent| agent.notices_so_far(turn)).unwrap_or_default();
            let asks = open_questions(&self.journal.session().turns.asks);
            self.clients.follow(key, turn, told.into_iter().chain(asks));
        }
        Ok(None)
    }

    pub(super) fn cancel(&mut self, key: u64, turn: u64) -> Result<Option<KeeperAnswer>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        self.order(Command::Cancel { turn, by })?;
        let receipt = Box::new(self.receipt(turn)?);
        Ok(Some(KeeperAnswer::Receipt { receipt }))
    }

    pub(super) fn go_on(&mut self, key: u64) -> Result<Option<KeeperAnswer>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        // A user who releases the queue has looked: at the text in the box, and at the messages of other programs.
        self.tui_turns.accept_unsent_text();
        self.conversation.accept(self.journal.session(), self.output.end());
        self.order(Command::GoOn { by })?;
        self.done()
    }

    pub(super) fn answer_ask(
        &mut self,
        key: u64,
        request: Option<String>,
        reply: QuestionReply,
        epoch: Option<u64>,
    ) -> Result<Option<KeeperAnswer>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        let now_runs = self.journal.session().epoch.0;
        if let Some(asked) = epoch.filter(|epoch| *epoch != now_runs) {
            let what = format!(
                "that was a question of run {asked} of session `{}`, and this is run {now_runs}; nothing was answered",
                self.handle_name()
            );
            return Err(Problem::refused(what).hint("answer the question that the agent asks now"));
        }
        self.look_whether_answered();
        let command = Command::Answer { request, reply: reply.into(), by };
        let session = self.journal.session();
        let asks = session.turns.asks.clone();
        let decided = decide(session, command.clone(), now()).map_err(|refusal| self.refused(&refusal))?;
        self.with_keys_held(|keeper| {
            keeper.order(command)?;
            for event in decided {
                if let Event::Answered { request, reply, by } = event {
                    let asked = asks.iter().find(|ask| ask.request == request);
                    keeper.note_answer(asked, &reply, &by);
                    keeper.answer_agent(&request, &reply);
                }
            }
            Ok(())
        })?;
        self.done()
    }

    fn note_answer(&self, asked: Option<&AgentQuestion>, reply: &ChosenReply, by: &Actor) {
        let choice = berth_api::turn::ChosenReply::from(reply.clone()).to_string();
        let event = AuditEvent::QuestionAnswered {
            session: self.identity.session().to_string(),
            name: self.handle_name(),
            tool: asked.map(|ask| audit::text_for_log(&ask.tool)).unwrap_or_default(),
            detail: asked
                .map(|ask| audit::text_for_log(&redact::redact_text(&ask.detail)))
                .unwrap_or_default(),
            choice: audit::text_for_log(&redact::redact_text(&choice)),
        };
        audit::append_audit_event(self.identity.root(), &problem::describe(by), event);
    }

    /// Answers when the agent is ready for turns, or has failed: now, or later.
    pub(super) fn await_agent(&mut self, key: u64) -> Result<Option<KeeperAnswer>, Problem> {
        self.room_for_lasting()?;
        self.clients.wait_for(key, ClientWait::AgentReady);
        self.answer_waiting_for_agent();
        Ok(None)
    }

    /// Answers all clients that wait for the agent.
    pub(super) fn answer_waiting_for_agent(&mut self) {
        if !self.clients.any_waits_for(ClientWait::AgentReady) {
            return;
        }
        let session = self.journal.session();
        let answer = match &session.phase {
            RunPhase::Starting | RunPhase::Running { .. } if session.next_interface.is_some() => return,
            RunPhase::Running { .. } if session.turns.ready.is_some() || session.has_terminal() => {
                KeeperAnswer::Done { status: Box::new(self.status()) }
            }
            RunPhase::New | RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Ending(_) => return,
            RunPhase::Ended { .. } if session.goes_on() => return,
            // The agent was ready for turns, and none came.
            RunPhase::Ended { .. } if session.released == Some(ReleaseReason::Idle) => {
                KeeperAnswer::Done { status: Box::new(self.status()) }
            }
            RunPhase::Ended { .. } => KeeperAnswer::Problem { problem: self.unusable() },
        };
        self.clients.answer_waiting(ClientWait::AgentReady, &answer);
    }

    /// The error for an agent that takes no turns.
    fn unusable(&self) -> Problem {
        let complaint = self.agent.as_ref().map(AgentLink::complaint).unwrap_or_default();
        turn_outcome::takes_no_turns_problem(&self.status(), &complaint)
    }
}

/// The agent's open questions, for a follower that comes late. They are repeated without their event numbers, which
/// are in the journal.
fn open_questions(asks: &[AgentQuestion]) -> Vec<KeeperNotice> {
    let told = |ask: &AgentQuestion| KeeperNotice::Event {
        seq: 0,
        entry: Box::new(EventEntry::new(0, &Event::QuestionAsked { ask: ask.clone() })),
    };
    asks.iter().map(told).collect()
}
