//! Questions of an agent in a terminal that are answered from elsewhere: its hook waits for the answer and prints it.
//!
//! Promise: the agent shows its question meanwhile, and the first answer counts; a hook is told as soon as its
//! question is closed. A hook that leaves, or whose keeper does, leaves the question to the terminal: nothing hangs on it.
//! Not here: whose hook it is (`edges`), what the agent reads (`verbs::hook`).
//! Start with [`Keeper::await_answer`].

use berth_api::message::Answer;
use berth_core::{Event, Observation, Told};
use berth_journal::Committed;
use berth_store::history::Stored;

use super::Keeper;

/// How many hooks may wait at once. Each tool of the agent can call its hooks, and other clients need room as well.
const MOST_WAITING_HOOKS: usize = 16;

impl Keeper {
    /// Whether another hook may wait. One that may not is answered at once, and its question waits at the terminal alone.
    pub(super) fn has_room_for_hook(&self) -> bool {
        let waiting = self.clients.values().filter(|client| client.awaits_answer.is_some()).count();
        waiting < MOST_WAITING_HOOKS && self.room_for_lasting().is_ok()
    }

    /// The hook that asked this waits, if its question is recorded and can be answered.
    pub(super) fn await_answer(&mut self, key: u64, request: Option<String>) {
        let request = request.filter(|request| self.is_answerable(request));
        match (self.clients.get_mut(&key), request) {
            (Some(client), Some(request)) => client.awaits_answer = Some(request),
            (Some(_), None) => {
                self.answer(key, &Answer::Heard);
                self.flush(key);
            }
            (None, _) => {}
        }
    }

    fn is_answerable(&self, request: &str) -> bool {
        let mut asks = self.owner.history().session.turns.asks.iter();
        asks.any(|ask| ask.request == request && ask.is_answerable())
    }

    /// Tells each hook whose question was answered, or closed without an answer.
    pub(super) fn answer_hooks(&mut self, events: &[Committed<Stored>]) {
        let waiting =
            self.clients.iter().filter_map(|(key, client)| Some((*key, client.awaits_answer.clone()?)));
        for (key, request) in waiting.collect::<Vec<_>>() {
            let reply = events.iter().find_map(|event| match &event.get().event {
                Event::Answered { request: answered, reply, .. } if *answered == request => Some(reply),
                _ => None,
            });
            let answer = match reply {
                Some(reply) => Answer::Decided { allows: !reply.is_refusal(), reason: reply.text.clone() },
                None if self.is_answerable(&request) => continue,
                None => Answer::Heard,
            };
            if let Some(client) = self.clients.get_mut(&key) {
                client.awaits_answer = None;
            }
            self.answer(key, &answer);
            // A new image of the keeper takes no client along, and the journal says that this one was answered.
            self.flush(key);
        }
    }

    /// A hook left without an answer: it was killed, or its time was up. The agent still shows the question.
    pub(super) fn on_hook_left(&mut self, request: String) {
        let epoch = self.owner.history().session.epoch;
        self.report(vec![Observation::Told { epoch, told: Told::HookLeft { request } }]);
    }

    /// This is a new image of the keeper, and no hook came along.
    pub(super) fn hooks_are_gone(&mut self) {
        let asks = self.owner.history().session.turns.asks.iter();
        let left: Vec<String> =
            asks.filter(|ask| ask.is_answerable()).map(|ask| ask.request.clone()).collect();
        left.into_iter().for_each(|request| self.on_hook_left(request));
    }

    /// Looks whether somebody answered at the terminal a moment ago: no hook tells before the tool is over.
    pub(super) fn look_whether_answered(&mut self) {
        if self.owner.history().session.asks_on_screen() {
            self.look_whether_it_works();
        }
    }
}
