//! Clients that stay: they wait for something, watch all events, or follow a turn.

use berth_api::frame::Kind;
use berth_api::message::{Answer, Notice};
use berth_core::{Event, Occasion};
use berth_journal::Committed;
use berth_store::history::Stored;

use super::{ClientTable, ClientWait, notice_of, plain};
use crate::keeper::client::Client;

impl ClientTable {
    /// True if a client is told of the event over a connection that it keeps up.
    pub(in crate::keeper) fn is_looked_at(&self, event: &Event, occasion: Occasion) -> bool {
        self.connected().any(|client| client.looks_at(event, occasion))
    }

    pub(in crate::keeper) fn wait_for(&mut self, key: u64, wait: ClientWait) {
        if let Some(client) = self.clients.get_mut(&key) {
            *client.wait(wait) = true;
        }
    }

    pub(in crate::keeper) fn any_waits_for(&self, wait: ClientWait) -> bool {
        self.clients.values().any(|client| client.waits_for(wait))
    }

    /// Answers all clients that wait for this.
    pub(in crate::keeper) fn answer_waiting(&mut self, wait: ClientWait, answer: &Answer) {
        for client in self.clients.values_mut().filter(|client| client.waits_for(wait)) {
            *client.wait(wait) = false;
            client.send(Kind::Answer, &serde_json::to_vec(answer).expect("an answer is plain data"));
        }
    }

    /// Has a client hear of all events from now on, after these.
    pub(in crate::keeper) fn watch<'a>(
        &mut self,
        key: u64,
        past: impl Iterator<Item = &'a Committed<Stored>>,
    ) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        client.watches = true;
        past.for_each(|event| client.send(Kind::Notice, &plain(&notice_of(event))));
    }

    /// Has a client hear of a turn from now on, after these notices.
    pub(in crate::keeper) fn follow(&mut self, key: u64, turn: u64, notices: impl Iterator<Item = Notice>) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        client.follows = Some(turn);
        notices.for_each(|notice| client.send(Kind::Notice, &plain(&notice)));
    }

    pub(in crate::keeper) fn tell_followers(&mut self, turn: u64, notice: &Notice) {
        let mut json = None;
        for client in self.clients.values_mut().filter(|client| client.follows == Some(turn)) {
            client.send(Kind::Notice, json.get_or_insert_with(|| plain(notice)));
        }
    }

    /// Notes the turn that a client sent and is about to follow.
    pub(in crate::keeper) fn will_follow(&mut self, key: u64, turn: u64) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.sent_turn = Some(turn);
        }
    }

    /// Has a hook wait for the answer to its question.
    pub(in crate::keeper) fn await_answer(&mut self, key: u64, request: String) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.awaits_answer = Some(request);
        }
    }

    /// The hooks that wait, with the questions whose answers they wait for.
    pub(in crate::keeper) fn waiting_hooks(&self) -> Vec<(u64, String)> {
        let waiting = |(key, client): (&u64, &Client)| Some((*key, client.awaits_answer.clone()?));
        self.clients.iter().filter_map(waiting).collect()
    }

    /// Answers a hook that waits.
    pub(in crate::keeper) fn answer_hook(&mut self, key: u64, answer: &Answer) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.awaits_answer = None;
        }
        self.answer(key, answer);
    }
}
