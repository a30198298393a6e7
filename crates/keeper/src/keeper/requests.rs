//! Requests of clients: what each does, and its answer.
//!
//! Not here: who may ask ([`Keeper::permitted`](super::Keeper)), attaching (`attach_requests`), turns (`turn_requests`),
//! owners of a helper (`helper_requests`), hooks (`hook_reports`).
//! Start with [`Keeper::on_request`].

use std::time::Duration;

use berth_api::message::{Answer, Request};
use berth_api::{Code, Problem, SessionState, Status, problem};
use berth_core::{Actor, Command, Name, Refusal};

use super::Keeper;
use super::client_table::ClientWait;

/// Parses tags.
pub(super) fn tags_of(texts: &[String]) -> Result<Vec<Name>, Problem> {
    let tag = |text: &String| {
        Name::parse(text)
            .map_err(|bad| Problem::new(Code::Usage, format!("`{text}` is not a valid tag: {bad}")))
    };
    texts.iter().map(tag).collect()
}

/// True for a run that was asked to end and did not.
fn is_unproven(status: &Status) -> bool {
    !status.left.is_empty() && status.state == SessionState::Stopping
}

impl Keeper {
    /// Answers at once, or returns `None` and answers later.
    pub(super) fn on_request(&mut self, key: u64, request: Request) -> Result<Option<Answer>, Problem> {
        match request {
            Request::Create { .. } | Request::Resume { .. } | Request::StartHelper { .. } => {
                Err(self.refused(&Refusal::AlreadyRunning))
            }
            Request::Join { owner, wanted } => self.join(key, owner, &wanted),
            Request::Leave { owner } => self.leave_helper(&owner),
            Request::Status => self.done(),
            Request::Stop { grace_ms } => self.stop(key, Duration::from_millis(grace_ms)),
            Request::SwitchInterface { to, at_once } => self.switch_interface(key, to.into(), at_once),
            Request::Rename { name } => {
                let name = Name::parse(&name).map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
                self.carry_out(Command::Rename { name })
            }
            Request::Tag { add, remove } => {
                self.carry_out(Command::Tag { add: tags_of(&add)?, remove: tags_of(&remove)? })
            }
            Request::Note { note } => self.carry_out(Command::Note { note }),
            Request::SetPolicy { change } => self.carry_out(Command::SetPolicy { change: change.into() }),
            Request::Attach { role, size } => self.attach(key, role, size),
            Request::Resize { size } => {
                if self.clients.writes(key) {
                    self.resize(size);
                }
                Ok(None)
            }
            Request::Type { text, take } => self.type_text(key, &text, take),
            Request::Screen { ansi } => {
                let text = if ansi { self.terminal.ansi() } else { self.terminal.text() };
                Ok(Some(Answer::Screen { text, cursor_row: Some(self.terminal.cursor_row()) }))
            }
            Request::Turn { turn } => {
                let found = self.journal.turn_answer(turn)?;
                Ok(Some(found.ok_or_else(|| self.refused(&Refusal::NoSuchTurn { turn }))?))
            }
            Request::Turns { from, limit } => Ok(Some(self.journal.turns_answer(from, limit)?)),
            Request::Events { from, limit } => {
                Ok(Some(self.journal.events_answer(&self.identity, from, limit)?))
            }
            Request::Watch { from } => self.watch(key, from),
            Request::AwaitAgent => self.await_agent(key),
            Request::Send { submit } => {
                self.send_all(vec![(key, None, submit)]);
                Ok(None)
            }
            Request::Follow { turn } => self.follow_turn(key, turn),
            Request::Withdraw { turn } => self.carry_out_for(key, |by| Command::Withdraw { turn, by }),
            Request::Cancel { turn } => self.cancel(key, turn),
            Request::Move { turn, to } => self.carry_out(Command::Move { turn, to }),
            Request::Edit { turn, text } => self.carry_out_for(key, |by| Command::Edit { turn, text, by }),
            Request::Pause => self.carry_out_for(key, |by| Command::Pause { by }),
            Request::GoOn => self.go_on(key),
            Request::AnswerAsk { request, wish, epoch } => self.answer_ask(key, request, wish, epoch),
            Request::Hook { report } => self.on_hook(key, report),
            Request::Restart => self.restart(key),
        }
    }

    /// Carries out an order whose answer is the state that it leads to.
    fn carry_out(&mut self, command: Command) -> Result<Option<Answer>, Problem> {
        self.order(command)?;
        self.done()
    }

    /// Carries out an order that is recorded with its author.
    fn carry_out_for(
        &mut self,
        key: u64,
        command: impl FnOnce(Actor) -> Command,
    ) -> Result<Option<Answer>, Problem> {
        match self.clients.actor(key) {
            Some(by) => self.carry_out(command(by)),
            None => Ok(None),
        }
    }

    fn restart(&mut self, key: u64) -> Result<Option<Answer>, Problem> {
        self.take_deferred();
        if self.has_deferred() || !self.has_said_everything() {
            return Err(Problem::new(Code::Held, "the agent is still being told something").hint("try again"));
        }
        let answer = Answer::Done { status: Box::new(self.status()) };
        self.clients.answer(key, &answer);
        self.flush_all();
        let why = self.event_loop.restart_now();
        Err(Problem::new(Code::Refused, format!("cannot replace the keeper's program: {why}")))
    }

    fn stop(&mut self, key: u64, grace: Duration) -> Result<Option<Answer>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        self.order(Command::Stop { by, grace })?;
        self.answer_at_the_end(key);
        Ok(None)
    }

    /// Answers when the run is over, or proven not to be: now, or later.
    pub(super) fn answer_at_the_end(&mut self, key: u64) {
        let status = self.status();
        if !self.journal.session().is_live() || is_unproven(&status) {
            let answer = self.end_answer(&status);
            self.clients.answer(key, &answer);
        } else {
            self.clients.wait_for(key, ClientWait::EndOfRun);
        }
    }

    /// Answers all clients that asked for the end.
    pub(super) fn answer_waiting_for_end(&mut self) {
        if self.clients.any_waits_for(ClientWait::EndOfRun) {
            let answer = self.end_answer(&self.status());
            self.clients.answer_waiting(ClientWait::EndOfRun, &answer);
        }
    }

    fn end_answer(&self, status: &Status) -> Answer {
        if !is_unproven(status) {
            return Answer::Done { status: Box::new(status.clone()) };
        }
        let (kind, show) =
            if self.identity.is_helper() { ("helper", "helper show") } else { ("session", "why") };
        let (handle, left) = (status.handle(), status.left.join("; "));
        let problem = Problem::new(Code::Refused, format!("{kind} `{handle}` could not be ended: {left}"))
            .hint(format!("it is recorded as stopping; `berth {show} {handle}` shows what is left"));
        Answer::Problem { problem }
    }

    fn watch(&mut self, key: u64, from: u64) -> Result<Option<Answer>, Problem> {
        self.room_for_lasting()?;
        let committed = self.journal.history().seq;
        let past = if from > committed { Vec::new() } else { self.identity.files().read(from)? };
        let answer = Answer::Done { status: Box::new(self.status()) };
        self.clients.answer(key, &answer);
        self.clients.watch(key, past.iter().filter(|event| event.seq().0 <= committed));
        Ok(None)
    }

    pub(super) fn refused(&self, refusal: &Refusal) -> Problem {
        let name = self.handle_name();
        let mut problem = if self.identity.is_helper() {
            problem::helper_refusal(refusal, &name)
        } else {
            problem::refusal(refusal, &name)
        };
        if let (Refusal::Held { .. }, Some(writer)) = (refusal, self.status().writer) {
            problem.what.push_str(&format!(", since {}", writer.since));
        }
        problem
    }

    /// The session's name or id, for people.
    pub(super) fn handle_name(&self) -> String {
        let name = self.journal.session().name.as_ref().map(ToString::to_string);
        name.unwrap_or_else(|| self.identity.session().to_string())
    }

    /// The answer to an order: the state that it led to.
    pub(super) fn done(&self) -> Result<Option<Answer>, Problem> {
        Ok(Some(Answer::Done { status: Box::new(self.status()) }))
    }
}
