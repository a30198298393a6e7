//! Lasting clients: they wait for an answer, watch all events, or follow a turn.
//!
//! Not here: requests that are answered at once (see `requests`).

use berth_api::frame::FrameKind;
use berth_api::message::{KeeperAnswer, KeeperNotice};
use berth_core::{Event, NotificationKind};

use super::{ClientTable, ClientWait, plain};
use crate::keeper::client::ConnectedClient;

impl ClientTable {
    /// True if a client with a lasting connection is notified of the event.
    pub(in crate::keeper) fn is_shown_to_user(&self, event: &Event, occasion: NotificationKind) -> bool {
        self.connected().any(|client| client.shows_to_user(event, occasion))
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
    pub(in crate::keeper) fn answer_waiting(&mut self, wait: ClientWait, answer: &KeeperAnswer) {
        for client in self.clients.values_mut().filter(|client| client.waits_for(wait)) {
            *client.wait(wait) = false;
            client.send(FrameKind::Answer, &serde_json::to_vec(answer).expect("an answer is plain data"));
        }
    }

    /// Subscribes a client to all events after these.
    pub(in crate::keeper) fn watch(&mut self, key: u64) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.watches = true;
        }
    }

    /// Subscribes a client to a turn, after these notices.
    pub(in crate::keeper) fn follow(
        &mut self,
        key: u64,
        turn: u64,
        notices: impl Iterator<Item = KeeperNotice>,
    ) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        client.follows = Some(turn);
        notices.for_each(|notice| client.send(FrameKind::Notice, &plain(&notice)));
    }

    pub(in crate::keeper) fn tell_followers(&mut self, turn: u64, notice: &KeeperNotice) {
        let mut json = None;
        for client in self.clients.values_mut().filter(|client| client.follows == Some(turn)) {
            client.send(FrameKind::Notice, json.get_or_insert_with(|| plain(notice)));
        }
    }

    /// Notes the turn that a client sent and is about to follow.
    pub(in crate::keeper) fn will_follow(&mut self, key: u64, turn: u64) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.sent_turn = Some(turn);
        }
    }

    /// Notes that a hook waits for the answer to its question.
    pub(in crate::keeper) fn await_answer(&mut self, key: u64, request: String) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.awaits_answer = Some(request);
        }
    }

    /// The hooks that wait, with the questions whose answers they wait for.
    pub(in crate::keeper) fn waiting_hooks(&self) -> Vec<(u64, String)> {
        let waiting = |(key, client): (&u64, &ConnectedClient)| Some((*key, client.awaits_answer.clone()?));
        self.clients.iter().filter_map(waiting).collect()
    }

    /// Answers a hook that waits.
    pub(in crate::keeper) fn answer_hook(&mut self, key: u64, answer: &KeeperAnswer) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.awaits_answer = None;
        }
        self.answer(key, answer);
    }
}
