//! Hooks of the agent in the terminal: their attribution, their effects on the session, and the hooks that wait
//! for an answer.
//!
//! Promise: a hook counts only if it comes from the run's own agent, by evidence and not by its word. The agent shows
//! its question while a hook waits, and the first answer counts; a hook is answered as soon as its question is
//! closed. If a hook or its keeper ends, the question stays in the terminal: nothing depends on the hook.
//! Not here: the state of the terminal's agent (`tui_turns`), the agent's formats (`verbs::hook`).
//! Start with [`Keeper::on_hook`].

use std::time::Duration;

use berth_api::Problem;
use berth_api::hook::{self, HookReport};
use berth_api::message::{KeeperAnswer, KeeperNotice};
use berth_core::{Command, Event, Observation, QueueHold, Session, TerminalReport, TurnProgress};
use berth_host::clock;
use berth_journal::Committed;
use berth_procs::hook_ancestry;
use berth_store::conversation_locks::LOCK_PATIENCE;
use berth_store::session_view::StoredEvent;

use super::Keeper;
use super::tui_turns::{EndVerdict, ReportedEnd, TuiTurns, traits_of, turn_to_prove};
use crate::journaled_session::SessionInput;

/// The reason that agents give for opening their own conversation again after a compaction.
const COMPACTS: &str = "compact";

impl Keeper {
    /// Accepts a report of an agent, if it is this run's.
    pub(super) fn on_hook(
        &mut self,
        key: u64,
        mut report: HookReport,
    ) -> Result<Option<KeeperAnswer>, Problem> {
        let is_own = self.is_own_hook(key, &report);
        // The agent waits, and the answer tells it nothing: its process can be attributed only while it waits, and
        // that is all it has to wait for. Its report is recorded before any other client is answered. But a hook that
        // asks may wait for the answer: its agent shows the question meanwhile.
        let may_wait = is_own && self.clients.has_room_for_hook();
        if let hook::HookEvent::NeedsYou { waits, .. } = &mut report.told {
            *waits &= may_wait;
        }
        let waits = matches!(report.told, hook::HookEvent::NeedsYou { waits: true, .. });
        if !waits {
            self.clients.answer(key, &KeeperAnswer::Heard);
            self.flush(key);
        }
        let asked_before = self.tui_turns.asked();
        if is_own {
            // A report comes once, and a new image would not know of it.
            self.undisturbed(|keeper| keeper.hear_hook(report));
        }
        if waits {
            let request = (self.tui_turns.asked() > asked_before).then(|| self.tui_turns.last_request());
            self.await_answer(key, request);
        }
        Ok(None)
    }

    fn is_own_hook(&self, key: u64, report: &HookReport) -> bool {
        let session = self.journal.session();
        let kind = session.spec.as_ref().map(|spec| spec.conversation.as_str());
        let is_ours = session.has_terminal() && !report.kind.is_empty() && kind == Some(report.kind.as_str());
        let agent = session.agent().filter(|_| is_ours).map(|agent| agent.pid);
        let Some((agent, peer)) = agent.zip(self.clients.actor(key).map(|actor| actor.pid)) else {
            return false;
        };
        // The evidence is about this client only if its process still has its pid.
        let is_own = hook_ancestry::is_hook_of_agent(peer, agent) && !self.clients.is_gone(key);
        tracing::debug!(peer, agent, own = is_own, "a hook");
        is_own
    }

    fn hear_hook(&mut self, report: HookReport) {
        if let Some(why) = report.held_up {
            // The guard kept the agent from taking a prompt.
            let reports = self.tui_turns.end_blocked_turn(why, &mut self.terminal);
            self.report(reports);
            return self.after_edge();
        }
        let session = self.journal.session();
        // Where hooks are trusted, the second report of an end may come when the next turn has begun. Otherwise a
        // message was sent, and the agent's signs tell in which conversation.
        let is_ended = matches!(report.told, hook::HookEvent::Stopped { .. });
        if is_ended && traits_of(session).tells_ends_twice && report.transcript.is_none() {
            return self.look_for_conversation();
        }
        let HookReport { conversation_id, at_ms, told, model, .. } = report;
        let opens = matches!(told, hook::HookEvent::Started { .. } | hook::HookEvent::Prompt { .. });
        if !opens && self.tui_turns.is_of_another_conversation(&conversation_id, session) {
            return;
        }
        if let Some(model) = model {
            self.status.note_model(model);
        }
        let epoch = self.journal.epoch();
        let mut reports = Vec::new();
        // An agent that opens a conversation reads all of it, except after a compaction.
        let reads = matches!(&told, hook::HookEvent::Started { how } if how != COMPACTS);
        // A closed conversation is no longer written; the next one is reported in a moment.
        if !matches!(told, hook::HookEvent::Ended { .. }) {
            reports = self.follow_conversation(conversation_id, opens, reads);
        }
        self.tui_turns.note_hook(&told, at_ms);
        reports.extend(self.understand_hook(told, at_ms).map(|told| Observation::Told { epoch, told }));
        self.report(reports);
        if reads {
            self.remember_conversation();
        }
        self.after_edge();
    }

    fn understand_hook(&mut self, told: hook::HookEvent, at_ms: u64) -> Option<TerminalReport> {
        match told {
            hook::HookEvent::Started { .. } => Some(TerminalReport::Started),
            hook::HookEvent::Prompt { text } => {
                self.tui_turns.note_prompt(at_ms);
                self.status.note_prompt(&text);
                Some(TerminalReport::Prompt { text })
            }
            hook::HookEvent::Tool { .. } => {
                self.tui_turns.note_tool(at_ms);
                Some(TerminalReport::Tool)
            }
            hook::HookEvent::NeedsYou { what, waits } => {
                let request = self.tui_turns.note_question(self.journal.history().seq, at_ms);
                Some(TerminalReport::NeedsYou { request, what, answerable: waits })
            }
            hook::HookEvent::Stopped { answer } => {
                // The answer of a client's turn counts once it is proven.
                let is_free = turn_to_prove(self.journal.session()).is_none();
                if let Some(answer) = answer.as_deref().filter(|_| is_free) {
                    self.status.note_answer(answer);
                }
                self.on_reported_end(ReportedEnd::stopped(answer))
            }
            hook::HookEvent::Interrupted if self.tui_turns.note_interrupt(self.journal.session()) => None,
            hook::HookEvent::Interrupted => self.on_reported_end(ReportedEnd::interrupted()),
            hook::HookEvent::Ended { .. } => None,
        }
    }

    fn on_reported_end(&mut self, end: ReportedEnd) -> Option<TerminalReport> {
        let verdict = self.tui_turns.note_end(end, self.journal.history(), &self.identity)?;
        Some(self.accept_end(verdict))
    }

    /// Applies the end of a turn, and returns the report to record.
    fn accept_end(&mut self, verdict: EndVerdict) -> TerminalReport {
        if verdict.has_ended {
            self.conversation.forget();
        }
        // Followers of the turn get the answer in one piece: a terminal does not deliver parts of it.
        let answer = verdict.answer.filter(|answer| !answer.is_empty());
        if let (Some(turn), Some(text)) = (working_turn(self.journal.session()), answer) {
            self.clients.tell_followers(turn, &KeeperNotice::Said { turn, text });
        }
        verdict.told
    }

    /// Reacts to the agent's current activity; called after each report of it.
    pub(super) fn after_edge(&mut self) {
        let session = self.journal.session();
        if self.tui_turns.after_edge(session, &mut self.terminal) {
            self.conversation.forget();
        } else if self.conversation.note_end(session, self.output.end()) {
            self.tui_turns.remember_soon();
        }
    }

    // The conversation that hooks report.

    /// Notes that the agent has this conversation open from now on. `opens`: the report says that it was opened;
    /// `reads`: and was read from disk. Returns the reports about that; one of them says if another session writes it.
    fn follow_conversation(&mut self, id: String, opens: bool, reads: bool) -> Vec<Observation> {
        // Waiting for a lock blocks everything: a conversation that is known to be another session's is not claimed
        // again at every tool.
        let was_refused = self.tui_turns.is_refused_conversation(&id);
        if id.is_empty() || (was_refused && !opens) {
            return Vec::new();
        }
        let patience = if was_refused { Duration::ZERO } else { LOCK_PATIENCE };
        let entered = self.enter(id.clone(), patience);
        let is_refused = entered.is_refused();
        self.tui_turns.note_conversation(id, is_refused);
        let was_held = matches!(self.journal.session().turns.hold, Some(QueueHold::ForeignWriter { .. }));
        if was_held && !is_refused && (reads || !entered.reports.is_empty()) {
            // The agent went on to a conversation that no other program writes, or has read the messages
            // of another program.
            let by = self.identity.as_actor("the agent: another conversation, or read again");
            let go_on = Command::GoOn { by };
            if self.journal.is_busy() {
                self.journal.defer(SessionInput::Command(go_on));
            } else {
                let _ = self.order(go_on);
            }
        }
        entered.reports
    }

    /// Finds the conversation that the agent has open, and follows it; the search may take long.
    pub(super) fn look_for_conversation(&mut self) {
        self.tui_turns.expect_conversation();
        self.follow_signs();
    }

    /// Finds the conversation before keys reach the agent that may end it.
    pub(super) fn look_for_conversation_before(&mut self, keys: &[u8]) {
        if self.tui_turns.needs_look_before(keys) {
            self.follow_signs();
        }
        self.tui_turns.expect_prompt(keys);
    }

    fn follow_signs(&mut self) {
        let Some(id) = self.tui_turns.find_conversation(self.journal.session(), &self.identity) else {
            return;
        };
        let reports = self.follow_conversation(id, false, false);
        if !reports.is_empty() {
            self.report(reports);
        }
    }

    // Deadlines of the agent in the terminal.

    pub(super) fn on_tui_time(&mut self) {
        let now = clock::boot_ms();
        if TuiTurns::has_time(self.journal.session()) {
            let session = self.journal.session();
            if let Some(report) = self.tui_turns.await_first_word(now, session, &mut self.terminal) {
                self.report(vec![report]);
            }
            if self.tui_turns.take_remember(now) {
                self.conversation.remember_end(self.journal.session(), self.output.end());
            }
            if self.tui_turns.take_typable(self.journal.session()) {
                self.run.deliver_again();
            }
            let session = self.journal.session();
            if let Some(report) = self.tui_turns.on_paste_time(now, session, &mut self.terminal) {
                self.report(vec![report]);
            }
            let history = self.journal.history();
            if let Some(verdict) = self.tui_turns.on_proof_time(now, history, &self.identity) {
                let (epoch, told) = (self.journal.epoch(), self.accept_end(verdict));
                self.report(vec![Observation::Told { epoch, told }]);
                self.after_edge();
            }
            if self.tui_turns.take_check(now) {
                self.check_terminal_agent();
            }
        }
        if self.tui_turns.signs_due_ms(self.journal.session()).is_some_and(|at| at <= now) {
            self.follow_signs();
        }
    }

    /// Checks the agent's transcripts of its activity.
    fn check_terminal_agent(&mut self) {
        let Some(report) = self.tui_turns.check_agent(self.journal.history(), &self.identity) else { return };
        let is_edge = matches!(report, Observation::Told { told: TerminalReport::Quiet { .. }, .. });
        self.report(vec![report]);
        if is_edge {
            self.after_edge();
        }
    }

    /// Restores the state in a new image: a turn on its way is not typed again. `person_typed`: an attached client
    /// that is gone may have left text in the terminal.
    pub(super) fn restore_tui_turns(&mut self, person_typed: bool) {
        let session = self.journal.session();
        if !session.tells || !session.has_terminal() {
            return;
        }
        self.tui_turns.restore(self.journal.history(), person_typed);
        self.close_questions_of_hooks();
        self.after_edge();
    }

    // Hooks that wait for an answer.

    /// Lets the hook of this question wait, if the question is recorded and can be answered.
    fn await_answer(&mut self, key: u64, request: Option<String>) {
        match request.filter(|request| is_answerable(self.journal.session(), request)) {
            Some(request) => self.clients.await_answer(key, request),
            None => {
                self.clients.answer(key, &KeeperAnswer::Heard);
                self.flush(key);
            }
        }
    }

    /// Answers each hook whose question was answered, or closed without an answer.
    pub(super) fn answer_hooks(&mut self, events: &[Committed<StoredEvent>]) {
        for (key, request) in self.clients.waiting_hooks() {
            let reply = events.iter().find_map(|event| match &event.get().event {
                Event::Answered { request: answered, reply, .. } if *answered == request => Some(reply),
                _ => None,
            });
            let answer = match reply {
                Some(reply) => {
                    KeeperAnswer::Decided { allows: !reply.is_refusal(), reason: reply.text.clone() }
                }
                None if is_answerable(self.journal.session(), &request) => continue,
                None => KeeperAnswer::Heard,
            };
            self.clients.answer_hook(key, &answer);
            // A new image of the keeper keeps no client, and the journal says that this one was answered.
            self.flush(key);
        }
    }

    /// A hook left without an answer: it was killed, or timed out. The agent still shows the question.
    pub(super) fn on_hook_left(&mut self, request: String) {
        let epoch = self.journal.epoch();
        self.report(vec![Observation::Told { epoch, told: TerminalReport::HookLeft { request } }]);
    }

    /// Closes the questions of hooks in a new image of the keeper, which has no hooks.
    fn close_questions_of_hooks(&mut self) {
        let asks = self.journal.session().turns.asks.iter();
        let left: Vec<String> =
            asks.filter(|ask| ask.is_answerable()).map(|ask| ask.request.clone()).collect();
        left.into_iter().for_each(|request| self.on_hook_left(request));
    }

    /// Checks whether a user answered at the terminal a moment ago: no hook reports before the tool is over.
    pub(super) fn look_whether_answered(&mut self) {
        if self.journal.session().asks_on_screen() {
            self.check_terminal_agent();
        }
    }
}

fn is_answerable(session: &Session, request: &str) -> bool {
    session.turns.asks.iter().any(|ask| ask.request == request && ask.is_answerable())
}

/// The turn of a client that the agent is working on.
fn working_turn(session: &Session) -> Option<u64> {
    let turns = &session.turns;
    let is_its_own = session.edges.is_none_or(|edges| edges.before == 0);
    let turn = turns.current.as_ref().filter(|_| is_its_own)?.turn;
    turns.open(turn).filter(|it| it.state == TurnProgress::Working).map(|_| turn)
}
