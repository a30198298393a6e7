//! Turns, as clients see them: sending, following, cancelling, the queue, the agent's questions.
//!
//! Promise: a receipt is given for what is on disk, and for nothing else; a follower of a turn hears its
//! end exactly once.
//! Not here: the rules (`berth_core`), how the agent gets a turn (`effects`).

use berth_api::message::{Answer, Notice};
use berth_api::turn::{Hold, NewTurn, Receipt, Wish, turn_id};
use berth_api::{Code, Entry, Problem, problem, redact};
use berth_core::{
    Actor, Ask, Command, Event, Phase, Prompt, Refusal, Release, Reply, StartBy, TurnLookup, decide,
};
use berth_host::clock;
use berth_store::killpoint;

use super::agent_link::AgentLink;
use super::client_table::ClientWait;
use super::{Keeper, now};
use crate::audit::{self, AuditEvent};
use crate::journaled_session::Input;
use crate::turn;

impl Keeper {
    /// Accepts turns, all in one commit, and gives a receipt for each.
    pub(super) fn send_all(&mut self, sends: Vec<(u64, Option<String>, NewTurn)>) {
        let (mut commands, mut senders, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (key, trace, submit) in sends {
            killpoint::reached("sending");
            let (turn_key, waits) = (submit.key.clone(), submit.wait);
            match self.send_command(key, submit) {
                Ok(Some(command)) => {
                    commands.push(Input::Command(command));
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
                let receipt = Receipt { repeated: accepted.repeated, ..self.receipt(accepted.turn)? };
                Ok(Some(Answer::Receipt { receipt: Box::new(receipt) }))
            });
            self.reply(key, trace.as_deref(), answer);
        }
    }

    /// The command that accepts a turn. `None` if its sender is gone.
    fn send_command(&self, key: u64, submit: NewTurn) -> Result<Option<Command>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        self.may_be_sent_to()?;
        if let Some(expected) = &submit.expected_session {
            turn::is_expected(self.journal.session(), self.identity.session(), expected)?;
        }
        let boot = self.identity.process().boot.clone().into();
        let start_by = submit.max_wait_ms.map(|wait| clock::boot_ms().saturating_add(wait));
        let start_by = start_by.map(|boot_ms| StartBy { boot, boot_ms });
        let NewTurn { text, key, manner, .. } = submit;
        let prompt = Prompt { by, text, key, start_by, manner: manner.into(), retry: None };
        Ok(Some(Command::Send { prompt }))
    }

    /// A keeper that is about to leave must not take a turn that the next one would find waiting without a client.
    fn may_be_sent_to(&self) -> Result<(), Problem> {
        let is_over = match self.journal.session().phase {
            Phase::Ended { .. } => true,
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ending(_) => false,
        };
        if self.event_loop.is_leaving() || is_over {
            let handle = self.handle_name();
            return Err(Problem::new(
                Code::Unreachable,
                format!("the run of session `{handle}` is over and its keeper leaves"),
            )
            .hint("try again"));
        }
        Ok(())
    }

    /// Where a turn stands.
    fn receipt(&mut self, turn: u64) -> Result<Receipt, Problem> {
        let known = match self.journal.session().turns.find(turn) {
            TurnLookup::Here(turn) => Some(turn.state.into()),
            TurnLookup::Past => self.journal.turns(turn, 1, 0)?.pop().map(|view| view.state),
            TurnLookup::Absent => None,
        };
        let state = known.ok_or_else(|| self.refused(&Refusal::NoSuchTurn { turn }))?;
        let turns = &self.journal.session().turns;
        let position = turns.queue.iter().position(|queued| *queued == turn).map(|at| at as u64);
        let held = turns.hold.clone().filter(|_| position.is_some());
        Ok(Receipt {
            turn: turn_id(self.identity.session().as_str(), turn),
            session: self.identity.session().to_string(),
            number: turn,
            state,
            repeated: false,
            position,
            paused: held.as_ref().is_some_and(|hold| !hold.needs_someone()),
            held: held.map(|hold| Hold::from(hold).describe(&self.handle_name())),
        })
    }

    /// Tells a client of a turn from now on: what was said and done so far, then what is, then its end.
    pub(super) fn follow_turn(&mut self, key: u64, turn: u64) -> Result<Option<Answer>, Problem> {
        self.room_for_lasting()?;
        let turns = &self.journal.session().turns;
        let is_open = turns.open(turn).is_some();
        let is_current = turns.current.as_ref().is_some_and(|current| current.turn == turn);
        let receipt = Box::new(self.receipt(turn)?);
        self.clients.answer(key, &Answer::Receipt { receipt });
        if is_open {
            let agent = self.agent.as_ref().filter(|_| is_current);
            let told = agent.map(|agent| agent.notices_so_far(turn)).unwrap_or_default();
            let asks = open_questions(&self.journal.session().turns.asks);
            self.clients.follow(key, turn, told.into_iter().chain(asks));
        }
        Ok(None)
    }

    pub(super) fn cancel(&mut self, key: u64, turn: u64) -> Result<Option<Answer>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        self.order(Command::Cancel { turn, by })?;
        let receipt = Box::new(self.receipt(turn)?);
        Ok(Some(Answer::Receipt { receipt }))
    }

    pub(super) fn go_on(&mut self, key: u64) -> Result<Option<Answer>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        // A person who lets it go on has looked: at the text in the box, and at what others said.
        self.tui_turns.accept_unsent_text();
        self.conversation.accept(self.journal.session(), self.output.end());
        self.order(Command::GoOn { by })?;
        self.done()
    }

    pub(super) fn answer_ask(
        &mut self,
        key: u64,
        request: Option<String>,
        wish: Wish,
        epoch: Option<u64>,
    ) -> Result<Option<Answer>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        let now_runs = self.journal.session().epoch.0;
        if let Some(asked) = epoch.filter(|epoch| *epoch != now_runs) {
            let what = format!(
                "that was a question of run {asked} of session `{}`, and this is run {now_runs}; nothing was answered",
                self.handle_name()
            );
            return Err(Problem::new(Code::Refused, what).hint("look what it asks now, and answer that"));
        }
        self.look_whether_answered();
        let command = Command::Answer { request, wish: wish.into(), by };
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

    fn note_answer(&self, asked: Option<&Ask>, reply: &Reply, by: &Actor) {
        let choice = berth_api::turn::Reply::from(reply.clone()).to_string();
        let event = AuditEvent::QuestionAnswered {
            session: self.identity.session().to_string(),
            name: self.handle_name(),
            tool: asked.map(|ask| audit::plain(&ask.tool)).unwrap_or_default(),
            detail: asked.map(|ask| audit::plain(&redact::text(&ask.detail))).unwrap_or_default(),
            choice: audit::plain(&redact::text(&choice)),
        };
        audit::note(self.identity.root(), &problem::describe(by), event);
    }

    /// Answers when the agent takes turns, or will not: now, or later.
    pub(super) fn await_agent(&mut self, key: u64) -> Result<Option<Answer>, Problem> {
        self.room_for_lasting()?;
        self.clients.wait_for(key, ClientWait::AgentReady);
        self.answer_waiting_for_agent();
        Ok(None)
    }

    /// Tells all clients that wait for the agent whether it takes turns.
    pub(super) fn answer_waiting_for_agent(&mut self) {
        if !self.clients.any_waits_for(ClientWait::AgentReady) {
            return;
        }
        let session = self.journal.session();
        let answer = match &session.phase {
            Phase::Starting | Phase::Running { .. } if session.next_interface.is_some() => return,
            Phase::Running { .. } if session.turns.ready.is_some() || session.has_terminal() => {
                Answer::Done { status: Box::new(self.status()) }
            }
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ending(_) => return,
            Phase::Ended { .. } if session.goes_on() => return,
            // It took turns, and none came.
            Phase::Ended { .. } if session.released == Some(Release::Idle) => {
                Answer::Done { status: Box::new(self.status()) }
            }
            Phase::Ended { .. } => Answer::Problem { problem: self.unusable() },
        };
        self.clients.answer_waiting(ClientWait::AgentReady, &answer);
    }

    /// Why the agent takes no turns.
    fn unusable(&self) -> Problem {
        let complaint = self.agent.as_ref().map(AgentLink::complaint).unwrap_or_default();
        turn::unusable(&self.status(), &complaint)
    }
}

/// The agent's open questions, for a follower that comes late. They are told as they were told then, without their
/// numbers: these are in the journal.
fn open_questions(asks: &[Ask]) -> Vec<Notice> {
    let told = |ask: &Ask| Notice::Event {
        seq: 0,
        entry: Box::new(Entry::new(0, &Event::Asked { ask: ask.clone() })),
    };
    asks.iter().map(told).collect()
}
