//! What an agent says and does in its turn, told while it happens, and kept for who comes late.
//!
//! Promise: what is kept of a turn is bounded, whatever the agent says.
//! Not here: the answer that is recorded (`berth_driver` has it), who listens (`clients`).
//! Start with [`Keeper::tell_said`].

use std::collections::VecDeque;

use berth_api::message::Notice;
use berth_driver::{Activity, MAX_ANSWER_BYTES};

use super::{Keeper, Talk};
use crate::keeper::ACTIVITY_DELAY_MS;

/// How many uses of tools in one turn are kept for who comes late, and how much of each.
const MAX_DID: usize = 50;
const MAX_DID_BYTES: usize = 400;

impl Talk {
    /// What it does at the moment, for people.
    pub(in crate::keeper) fn activity(&self) -> Option<String> {
        let Activity { what, detail, .. } = self.activity.as_ref()?;
        Some(if detail.is_empty() { what.clone() } else { format!("{what}: {detail}") })
    }
}

impl Keeper {
    pub(super) fn tell_said(&mut self, turn: Option<u64>, text: &str) {
        let (Some(talk), Some(turn)) = (&mut self.talk, turn) else { return };
        let room = MAX_ANSWER_BYTES.saturating_sub(talk.said.len());
        let end = (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        talk.said.push_str(&text[..end]);
        self.tell_followers(turn, &Notice::Said { turn, text: text.to_owned() });
    }

    pub(super) fn tell_doing(&mut self, turn: Option<u64>, activity: Activity) {
        let Some(talk) = &mut self.talk else { return };
        // Some agents say with every word that they are writing it.
        let is_said = |last: &Activity| (&last.what, &last.detail) == (&activity.what, &activity.detail);
        let is_news = talk.activity.as_ref().is_none_or(|last| !is_said(last));
        talk.activity = Some(activity.clone());
        if is_news && turn.is_some() && !matches!(activity.what.as_str(), "thinking" | "writing") {
            if talk.did.len() == MAX_DID {
                talk.did.pop_front();
            }
            let mut kept = Activity { tokens: None, ..activity.clone() };
            kept.detail.truncate(kept.detail.floor_char_boundary(MAX_DID_BYTES));
            talk.did.push_back((talk.said.len(), kept));
        }
        if is_news {
            self.write_status_within(ACTIVITY_DELAY_MS);
        }
        let Some(turn) = turn else { return };
        let Activity { what, detail, tokens } = activity;
        self.tell_followers(turn, &Notice::Doing { turn, what, detail, tokens });
    }

    pub(super) fn forget_said(&mut self, turn: u64, current: Option<u64>) {
        if let Some(talk) = self.talk.as_mut().filter(|_| current == Some(turn)) {
            talk.said = String::new();
            talk.did = VecDeque::new();
            talk.activity = None;
        }
    }

    /// What was said and done so far in the turn the agent has, as it was told then.
    pub(in crate::keeper) fn told_so_far(&self, turn: u64) -> Vec<Notice> {
        let Some(talk) = &self.talk else { return Vec::new() };
        let mut told = Vec::new();
        let say = |told: &mut Vec<Notice>, text: &str| {
            if !text.is_empty() {
                told.push(Notice::Said { turn, text: text.to_owned() });
            }
        };
        let mut at = 0;
        for (until, Activity { what, detail, tokens }) in &talk.did {
            say(&mut told, &talk.said[at..*until]);
            at = *until;
            told.push(Notice::Doing { turn, what: what.clone(), detail: detail.clone(), tokens: *tokens });
        }
        say(&mut told, &talk.said[at..]);
        told
    }
}
