//! Turns, as clients see them: sending, following, cancelling, the queue, the agent's questions.
//!
//! Promise: a receipt is given for what is on disk, and for nothing else; who follows a turn hears its
//! end exactly once.
//! Not here: the rules (`berth_core`), the agent (`agent`).

use berth_api::frame::Kind;
use berth_api::message::{Answer, Notice};
use berth_api::turn::{Hold, NewTurn, Receipt, Wish, turn_id};
use berth_api::{Code, Entry, Problem, problem, redact};
use berth_core::{
    Actor, Ask, Command, Event, Phase, Prompt, Refusal, Release, Reply, StartBy, TurnLookup, decide,
};
use berth_host::clock;
use berth_store::killpoint;

use super::{Keeper, now};
use crate::audit::{self, AuditEvent};
use crate::owner::Input;
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
        let accepted = taken.accepted(&keys, &self.owner.history().session);
        for ((key, trace, waits), accepted) in senders.into_iter().zip(accepted) {
            let answer = accepted.map_err(|refusal| self.refused(&refusal)).and_then(|accepted| {
                if let Some(client) = self.clients.get_mut(&key).filter(|_| waits) {
                    client.waits_for = Some(accepted.turn);
                }
                let receipt = Receipt { repeated: accepted.repeated, ..self.receipt(accepted.turn)? };
                Ok(Some(Answer::Receipt { receipt: Box::new(receipt) }))
            });
            self.reply(key, trace.as_deref(), answer);
        }
    }

    /// The command that accepts a turn. `None` if its sender is gone.
    fn send_command(&self, key: u64, submit: NewTurn) -> Result<Option<Command>, Problem> {
        let Some(by) = self.actor(key) else { return Ok(None) };
        self.may_be_sent_to()?;
        if let Some(expected) = &submit.expected_session {
            turn::is_expected(&self.owner.history().session, &self.id, expected)?;
        }
        let boot = self.me.boot.clone().into();
        let start_by = submit.max_wait_ms.map(|wait| clock::boot_ms().saturating_add(wait));
        let start_by = start_by.map(|boot_ms| StartBy { boot, boot_ms });
        let NewTurn { text, key, manner, .. } = submit;
        let prompt = Prompt { by, text, key, start_by, manner: manner.into(), retry: None };
        Ok(Some(Command::Send { prompt }))
    }

    fn actor(&self, key: u64) -> Option<Actor> {
        self.clients.get(&key).map(|client| client.actor.clone())
    }

    /// A keeper that is about to leave must not take what the next one would find waiting for nobody.
    fn may_be_sent_to(&self) -> Result<(), Problem> {
        let is_over = match self.owner.history().session.phase {
            Phase::Ended { .. } => true,
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ending(_) => false,
        };
        if self.leaving || is_over {
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
        let known = match self.owner.history().session.turns.find(turn) {
            TurnLookup::Here(turn) => Some(turn.state.into()),
            TurnLookup::Past => self.owner.turns(turn, 1, 0)?.pop().map(|view| view.state),
            TurnLookup::Absent => None,
        };
        let state = known.ok_or_else(|| self.refused(&Refusal::NoSuchTurn { turn }))?;
        let turns = &self.owner.history().session.turns;
        let position = turns.queue.iter().position(|queued| *queued == turn).map(|at| at as u64);
        let held = turns.hold.clone().filter(|_| position.is_some());
        Ok(Receipt {
            turn: turn_id(self.id.as_str(), turn),
            session: self.id.to_string(),
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
        let turns = &self.owner.history().session.turns;
        let is_open = turns.open(turn).is_some();
        let is_current = turns.current.as_ref().is_some_and(|current| current.turn == turn);
        let receipt = Box::new(self.receipt(turn)?);
        self.answer(key, &Answer::Receipt { receipt });
        let told = if is_current { self.told_so_far(turn) } else { Vec::new() };
        let asks = turns_asks(&self.owner.history().session.turns.asks);
        if let Some(client) = self.clients.get_mut(&key).filter(|_| is_open) {
            client.follows = Some(turn);
            for notice in told.into_iter().chain(asks) {
                client.send(Kind::Notice, &plain(&notice));
            }
        }
        Ok(None)
    }

    pub(super) fn tell_followers(&mut self, turn: u64, notice: &Notice) {
        let follows = |client: &&mut crate::clients::Client| client.follows == Some(turn);
        let mut json = None;
        for client in self.clients.values_mut().filter(follows) {
            client.send(Kind::Notice, json.get_or_insert_with(|| plain(notice)));
        }
    }

    pub(super) fn cancel(&mut self, key: u64, turn: u64) -> Result<Option<Answer>, Problem> {
        let Some(by) = self.actor(key) else { return Ok(None) };
        self.order(Command::Cancel { turn, by })?;
        let receipt = Box::new(self.receipt(turn)?);
        Ok(Some(Answer::Receipt { receipt }))
    }

    pub(super) fn withdraw(&mut self, key: u64, turn: u64) -> Result<Option<Answer>, Problem> {
        let Some(by) = self.actor(key) else { return Ok(None) };
        self.order(Command::Withdraw { turn, by })?;
        self.done()
    }

    pub(super) fn move_turn(&mut self, turn: u64, to: u64) -> Result<Option<Answer>, Problem> {
        self.order(Command::Move { turn, to })?;
        self.done()
    }

    pub(super) fn edit(&mut self, key: u64, turn: u64, text: String) -> Result<Option<Answer>, Problem> {
        let Some(by) = self.actor(key) else { return Ok(None) };
        self.order(Command::Edit { turn, text, by })?;
        self.done()
    }

    pub(super) fn pause(&mut self, key: u64) -> Result<Option<Answer>, Problem> {
        let Some(by) = self.actor(key) else { return Ok(None) };
        self.order(Command::Pause { by })?;
        self.done()
    }

    pub(super) fn go_on(&mut self, key: u64) -> Result<Option<Answer>, Problem> {
        let Some(by) = self.actor(key) else { return Ok(None) };
        // Whoever lets it go on has looked: at what is in the box, and at what others said.
        self.desk.typing.forget();
        if self.seen.is_some() && self.owner.history().session.has_terminal() {
            self.remember_conversation();
        }
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
        let Some(by) = self.actor(key) else { return Ok(None) };
        let now_runs = self.owner.history().session.epoch.0;
        if let Some(asked) = epoch.filter(|epoch| *epoch != now_runs) {
            let what = format!(
                "that was a question of run {asked} of session `{}`, and this is run {now_runs}; nothing was answered",
                self.handle_name()
            );
            return Err(Problem::new(Code::Refused, what).hint("look what it asks now, and answer that"));
        }
        self.look_whether_answered();
        let command = Command::Answer { request, wish: wish.into(), by };
        let session = &self.owner.history().session;
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
            session: self.id.to_string(),
            name: self.handle_name(),
            tool: asked.map(|ask| audit::plain(&ask.tool)).unwrap_or_default(),
            detail: asked.map(|ask| audit::plain(&redact::text(&ask.detail))).unwrap_or_default(),
            choice: audit::plain(&redact::text(&choice)),
        };
        audit::note(self.root(), &problem::describe(by), event);
    }

    /// Answers when the agent takes turns, or will not: now, or later.
    pub(super) fn await_agent(&mut self, key: u64) -> Result<Option<Answer>, Problem> {
        self.room_for_lasting()?;
        if let Some(client) = self.clients.get_mut(&key) {
            client.awaits_agent = true;
        }
        self.tell_whether_it_takes_turns();
        Ok(None)
    }

    /// Everyone who waits for the agent hears whether it takes turns.
    pub(super) fn tell_whether_it_takes_turns(&mut self) {
        if !self.clients.values().any(|client| client.awaits_agent) {
            return;
        }
        let session = &self.owner.history().session;
        let answer = match &session.phase {
            Phase::Starting | Phase::Running { .. } if session.next_interface.is_some() => return,
            Phase::Running { .. } if session.turns.ready.is_some() || session.has_terminal() => {
                Answer::Done { status: Box::new(self.status()) }
            }
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ending(_) => return,
            Phase::Ended { .. } if session.goes_on() => return,
            // It took turns, and there were none.
            Phase::Ended { .. } if session.released == Some(Release::Idle) => {
                Answer::Done { status: Box::new(self.status()) }
            }
            Phase::Ended { .. } => Answer::Problem { problem: self.unusable() },
        };
        self.answer_those_who_await_the_agent(&answer);
    }

    pub(super) fn answer_those_who_await_the_agent(&mut self, answer: &Answer) {
        let waiting: Vec<u64> =
            self.clients.iter().filter(|(_, client)| client.awaits_agent).map(|(key, _)| *key).collect();
        for key in waiting {
            if let Some(client) = self.clients.get_mut(&key) {
                client.awaits_agent = false;
            }
            self.answer(key, answer);
        }
    }

    /// Why the agent takes no turns.
    fn unusable(&self) -> Problem {
        turn::unusable(&self.status(), &self.complaint())
    }
}

/// Whether whoever follows this turn wants to know.
pub(super) fn concerns(event: &Event, turn: u64) -> bool {
    match event {
        Event::TurnDelivered { turn: it, .. }
        | Event::TurnBegan { turn: it }
        | Event::CancelRequested { turn: it, .. }
        | Event::TurnEdited { turn: it, .. }
        | Event::TurnEnded { turn: it, .. } => *it == turn,
        Event::Asked { .. }
        | Event::Answered { .. }
        | Event::Unasked { .. }
        | Event::QueueHeld { .. }
        | Event::QueueResumed { .. }
        | Event::RunEnded { .. } => true,
        _ => false,
    }
}

/// What the agent wants to know already, for whoever comes late. It is told as it was told then, without its
/// number: that is in the journal.
fn turns_asks(asks: &[Ask]) -> Vec<Notice> {
    let told = |ask: &Ask| Notice::Event {
        seq: 0,
        entry: Box::new(Entry::new(0, &Event::Asked { ask: ask.clone() })),
    };
    asks.iter().map(told).collect()
}

/// Whether this is about one turn and nothing else. Such events come often.
pub(super) fn is_of_a_turn(event: &Event) -> bool {
    matches!(
        event,
        Event::TurnAccepted { .. }
            | Event::TurnDelivered { .. }
            | Event::TurnBegan { .. }
            | Event::TurnEnded { .. }
            | Event::TurnLate { .. }
    )
}

fn plain(notice: &Notice) -> Vec<u8> {
    serde_json::to_vec(notice).expect("a notice is plain data")
}
