//! The text and tool uses of the agent's current turn, kept for followers that come late.
//!
//! Promise: the kept text of a turn is bounded, however much the agent writes.
//! Not here: the answer that is recorded (`berth_driver` has it), the followers (`client_table`).

use std::collections::VecDeque;

use berth_api::message::KeeperNotice;
use berth_driver::{AgentActivity, MAX_ANSWER_BYTES};

/// The number of tool uses in one turn that are kept, and the size of each.
const MAX_TOOL_USES: usize = 50;
const MAX_TOOL_USE_BYTES: usize = 400;

/// The current turn of the agent, as far as it was reported.
#[derive(Debug, Default)]
pub(super) struct LiveTurnOutput {
    said: String,
    /// The last uses of tools, each with the length of the words before it.
    tool_uses: VecDeque<(usize, AgentActivity)>,
    activity: Option<AgentActivity>,
}

impl LiveTurnOutput {
    /// Forgets the words and tools of the turn before.
    pub(super) fn begin(&mut self) {
        (self.said, self.tool_uses) = (String::new(), VecDeque::new());
    }

    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Begins with text that the previous image has sent.
    pub(super) fn restore(&mut self, mut said: String) {
        said.truncate(said.floor_char_boundary(MAX_ANSWER_BYTES));
        self.said = said;
    }

    pub(super) fn add_words(&mut self, text: &str) {
        let room = MAX_ANSWER_BYTES.saturating_sub(self.said.len());
        self.said.push_str(&text[..text.floor_char_boundary(room)]);
    }

    /// Notes the agent's activity. True if it has changed: some agents repeat with every word that they are writing
    /// it. In a turn the use of a tool is kept.
    pub(super) fn note_activity(&mut self, activity: &AgentActivity, in_turn: bool) -> bool {
        let is_same = |last: &AgentActivity| (&last.what, &last.detail) == (&activity.what, &activity.detail);
        let is_news = self.activity.as_ref().is_none_or(|last| !is_same(last));
        self.activity = Some(activity.clone());
        if is_news && in_turn && !matches!(activity.what.as_str(), "thinking" | "writing") {
            if self.tool_uses.len() == MAX_TOOL_USES {
                self.tool_uses.pop_front();
            }
            let mut kept = AgentActivity { tokens: None, ..activity.clone() };
            kept.detail.truncate(kept.detail.floor_char_boundary(MAX_TOOL_USE_BYTES));
            self.tool_uses.push_back((self.said.len(), kept));
        }
        is_news
    }

    /// The activity of this moment, for people.
    pub(super) fn activity(&self) -> Option<String> {
        let AgentActivity { what, detail, .. } = self.activity.as_ref()?;
        Some(if detail.is_empty() { what.clone() } else { format!("{what}: {detail}") })
    }

    /// The notices of the turn so far, in their order.
    pub(super) fn notices(&self, turn: u64) -> Vec<KeeperNotice> {
        let mut notices = Vec::new();
        let say = |notices: &mut Vec<KeeperNotice>, text: &str| {
            if !text.is_empty() {
                notices.push(KeeperNotice::Said { turn, text: text.to_owned() });
            }
        };
        let mut at = 0;
        for (until, AgentActivity { what, detail, tokens }) in &self.tool_uses {
            say(&mut notices, &self.said[at..*until]);
            at = *until;
            notices.push(KeeperNotice::Doing {
                turn,
                activity: what.clone(),
                detail: detail.clone(),
                tokens: *tokens,
            });
        }
        say(&mut notices, &self.said[at..]);
        notices
    }
}
