//! Requests of clients: the action of each, and its answer.
//!
//! Not here: permission ([`Keeper::permitted`](super::Keeper)), attaching (`attach_requests`), turns
//! (`turn_requests`), owners of a helper (`helper_requests`), hooks (`hook_reports`).
//! Start with [`Keeper::on_request`].

use std::time::Duration;

use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_api::{Problem, SessionState, SessionStatus, problem};
use berth_core::{Actor, Command, Refusal, SafeName};

use super::Keeper;
use super::client_table::ClientWait;

/// Parses tags; the error names the first that is not valid.
pub(super) fn tags_of(texts: &[String]) -> Result<Vec<SafeName>, Problem> {
    let tag = |text: &String| {
        SafeName::parse(text).map_err(|bad| Problem::usage(format!("`{text}` is not a valid tag: {bad}")))
    };
    texts.iter().map(tag).collect()
}

/// True for a run that is still there after it was asked to end.
fn is_unproven(status: &SessionStatus) -> bool {
    !status.left.is_empty() && status.state == SessionState::Stopping
}

impl Keeper {
    /// Answers at once, or returns `None` and answers later.
    pub(super) fn on_request(
        &mut self,
        key: u64,
        request: KeeperRequest,
    ) -> Result<Option<KeeperAnswer>, Problem> {
        match request {
            KeeperRequest::Create { .. }
            | KeeperRequest::Resume { .. }
            | KeeperRequest::StartHelper { .. } => Err(self.refused(&Refusal::AlreadyRunning)),
            KeeperRequest::Join { owner, wanted } => self.join(key, owner, &wanted),
            KeeperRequest::Leave { owner } => self.leave_helper(&owner),
            KeeperRequest::Status => self.done(),
            KeeperRequest::Stop { grace_ms } => self.stop(key, Duration::from_millis(grace_ms)),
            KeeperRequest::SwitchInterface { to, at_once } => self.switch_interface(key, to.into(), at_once),
            KeeperRequest::Rename { name } => {
                let name = SafeName::parse(&name).map_err(|bad| Problem::usage(bad.to_string()))?;
                self.carry_out(Command::Rename { name })
            }
            KeeperRequest::Tag { add, remove } => {
                self.carry_out(Command::Tag { add: tags_of(&add)?, remove: tags_of(&remove)? })
            }
            KeeperRequest::Note { note } => self.carry_out(Command::Note { note }),
            KeeperRequest::SetPolicy { change } => {
                self.carry_out(Command::SetPolicy { change: change.into() })
            }
            KeeperRequest::Attach { role, size } => self.attach(key, role, size),
            KeeperRequest::Resize { size } => {
                if self.clients.writes(key) {
                    self.resize(size);
                }
                Ok(None)
            }
            KeeperRequest::Type { text, take } => self.type_text(key, &text, take),
            KeeperRequest::Screen { ansi } => {
                let text = if ansi { self.terminal.ansi() } else { self.terminal.text() };
                Ok(Some(KeeperAnswer::Screen { text, cursor_row: Some(self.terminal.cursor_row()) }))
            }
            KeeperRequest::Turn { turn } => {
                let found = self.journal.turn_answer(turn)?;
                Ok(Some(found.ok_or_else(|| self.refused(&Refusal::NoSuchTurn { turn }))?))
            }
            KeeperRequest::Turns { from, limit } => Ok(Some(self.journal.turns_answer(from, limit)?)),
            KeeperRequest::Watch => self.watch(key),
            KeeperRequest::AwaitAgent => self.await_agent(key),
            KeeperRequest::Send { .. } => unreachable!("turns are queued and accepted by `answer_calls`"),
            KeeperRequest::Follow { turn } => self.follow_turn(key, turn),
            KeeperRequest::Withdraw { turn } => self.carry_out_for(key, |by| Command::Withdraw { turn, by }),
            KeeperRequest::Cancel { turn } => self.cancel(key, turn),
            KeeperRequest::Move { turn, to } => self.carry_out(Command::Move { turn, to }),
            KeeperRequest::Edit { turn, text } => {
                self.carry_out_for(key, |by| Command::Edit { turn, text, by })
            }
            KeeperRequest::Pause => self.carry_out_for(key, |by| Command::Pause { by }),
            KeeperRequest::GoOn => self.go_on(key),
            KeeperRequest::AnswerAsk { request, reply, epoch } => self.answer_ask(key, request, reply, epoch),
            KeeperRequest::Hook { report } => self.on_hook(key, report),
            KeeperRequest::Restart => self.restart(key),
        }
    }

    /// Carries out an order whose answer is the state that it leads to.
    fn carry_out(&mut self, command: Command) -> Result<Option<KeeperAnswer>, Problem> {
        self.order(command)?;
        self.done()
    }

    /// Carries out an order that is recorded with its author.
    fn carry_out_for(
        &mut self,
        key: u64,
        command: impl FnOnce(Actor) -> Command,
    ) -> Result<Option<KeeperAnswer>, Problem> {
        match self.clients.actor(key) {
            Some(by) => self.carry_out(command(by)),
            None => Ok(None),
        }
    }

    fn restart(&mut self, key: u64) -> Result<Option<KeeperAnswer>, Problem> {
        self.take_deferred();
        if self.has_deferred() || !self.has_said_everything() {
            let what = "an earlier request is not finished";
            return Err(Problem::held(what).hint("try again"));
        }
        let answer = KeeperAnswer::Done { status: Box::new(self.status()) };
        self.clients.answer(key, &answer);
        self.flush_all();
        let why = self.event_loop.restart_now();
        Err(Problem::refused(format!("cannot replace the keeper's program: {why}")))
    }

    fn stop(&mut self, key: u64, grace: Duration) -> Result<Option<KeeperAnswer>, Problem> {
        let Some(by) = self.clients.actor(key) else { return Ok(None) };
        self.order(Command::Stop { by, grace })?;
        self.answer_at_the_end(key);
        Ok(None)
    }

    /// Answers when the run is over, or still there after its kill: now, or later.
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

    fn end_answer(&self, status: &SessionStatus) -> KeeperAnswer {
        if !is_unproven(status) {
            return KeeperAnswer::Done { status: Box::new(status.clone()) };
        }
        let (kind, show) =
            if self.identity.is_helper() { ("helper", "helper show") } else { ("session", "why") };
        let (handle, left) = (status.handle(), status.left.join("; "));
        let problem =
            Problem::refused(format!("{kind} `{handle}` could not be ended: {left}")).hint(format!(
                "the {kind} is recorded as stopping; `berth {show} {handle}` shows the remaining processes"
            ));
        KeeperAnswer::Problem { problem }
    }

    fn watch(&mut self, key: u64) -> Result<Option<KeeperAnswer>, Problem> {
        self.room_for_lasting()?;
        let answer = KeeperAnswer::Done { status: Box::new(self.status()) };
        self.clients.answer(key, &answer);
        self.clients.watch(key);
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
    pub(super) fn done(&self) -> Result<Option<KeeperAnswer>, Problem> {
        Ok(Some(KeeperAnswer::Done { status: Box::new(self.status()) }))
    }
}
