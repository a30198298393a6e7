//! A mark in the agent's record, to tell later whether another program wrote the conversation since.
//!
//! An agent that lives from turn to turn read its conversation once. A program that came and went between two turns left
//! records that the agent does not know of: its next answer would be a second branch, and one of the two would be lost.
//! Promise: before a turn is delivered, new entries in the agent's transcript are compared with the agent's output;
//! entries that the agent did not print were written by another program. Then the agent is started again, and reads
//! everything, before it gets the turn. In doubt the agent is left as it is. One turn begins at most one such start.
//! An agent in a terminal prints no ids, and a user uses it: an answer without a reported prompt is another program's,
//! and the turn is held until the agent has opened its conversation again, or a user says that it may go on.
//! Such an agent may write its last answer after it reported its end, so the keeper waits a moment before it
//! remembers the record. Prompts and answers of other programs in that moment are recognised: their prompt is younger
//! than the end.
//! Not here: other programs that are there now (`run_conversation`), the meaning of a record
//! (`berth_transcript::new_messages`).

use berth_conversations::location;
use berth_core::Session;
use berth_transcript::new_messages::{self, TranscriptPosition, TranscriptUpdate};
use memchr::memmem;

use super::identity::KeeperIdentity;
use super::tui_turns::says_it_works;
use crate::agent_launch;

/// The bytes of the agent's output that are searched.
const MAX_PRINTED_BYTES: u64 = 64 << 20;
const READ_BYTES: usize = 256 * 1024;

/// The conversation as it was when the agent had nothing to do.
#[derive(Clone, Debug)]
pub(super) struct ConversationMark {
    id: String,
    mark: TranscriptPosition,
    /// The end of the agent's output at that time.
    output_end: u64,
}

/// The conversation when the agent in the terminal reported its end, and may not have written all of it.
#[derive(Clone, Debug)]
pub(super) struct EndMark {
    mark: ConversationMark,
    /// The time on the wall clock, which is in the records as well.
    at_ms: u64,
}

/// The session whose conversation is compared with its mark.
#[derive(Debug)]
pub(super) struct ComparedSession<'a> {
    pub(super) identity: &'a KeeperIdentity,
    /// The session's name or id, for people.
    pub(super) handle: String,
    pub(super) output_end: u64,
}

impl EndMark {
    pub(super) fn new(mark: ConversationMark, at_ms: u64) -> Self {
        Self { mark, at_ms }
    }

    pub(super) fn mark(&self) -> &ConversationMark {
        &self.mark
    }

    pub(super) fn into_mark(self) -> ConversationMark {
        self.mark
    }

    /// True if a prompt that was given after the end has an answer.
    pub(super) fn is_outdated(&self) -> bool {
        match self.mark.mark.news() {
            TranscriptUpdate::Said { answered_prompt_at_ms, .. } => {
                answered_prompt_at_ms.is_some_and(|at| at > self.at_ms)
            }
            TranscriptUpdate::Nothing | TranscriptUpdate::Replaced | TranscriptUpdate::CannotTell { .. } => {
                false
            }
        }
    }
}

impl ConversationMark {
    /// The conversation as it is now. `before` knows the place of its file.
    pub(super) fn now(session: &Session, output_end: u64, before: Option<&Self>) -> Option<Self> {
        let (spec, known) = session.spec.as_ref().zip(session.conversation.as_ref())?;
        let again = before.filter(|before| before.id == known.id).and_then(|before| before.mark.again());
        let env = location::where_kept(spec, Some(known));
        let mark = again.or_else(|| new_messages::current_position(&spec.conversation, &known.id, env))?;
        Some(Self { id: known.id.clone(), mark, output_end })
    }

    /// A description of the changes by another program since then, for people. `given_from`: the end of the output
    /// when the agent was last given a turn.
    pub(super) fn external_changes(
        &self,
        session: &Session,
        reader: &ComparedSession<'_>,
        given_from: u64,
    ) -> Option<String> {
        let known = session.conversation.as_ref().filter(|known| known.id == self.id)?;
        let advice = || {
            let handle = &reader.handle;
            format!(
                "have the agent read that with `/resume {}` in its terminal, or go on without with `berth queue {handle} \
                 resume`",
                known.id
            )
        };
        match self.mark.news() {
            TranscriptUpdate::Nothing => None,
            TranscriptUpdate::Replaced if session.has_terminal() => {
                Some(format!("it replaced the file; {}", advice()))
            }
            TranscriptUpdate::Replaced => Some("the file of its conversation was replaced".to_owned()),
            TranscriptUpdate::CannotTell { why } => {
                tracing::debug!(why, "cannot tell whether another program wrote the conversation");
                None
            }
            TranscriptUpdate::Said { answers, .. } if session.has_terminal() => {
                // The agent's own commands are prompts in the record, and get no answer.
                let is_strange = !answers.is_empty() && !says_it_works(session);
                is_strange.then(|| format!("it wrote something the agent has not read; {}", advice()))
            }
            TranscriptUpdate::Said { answers, prompts, .. } => {
                let was_silent = reader.output_end == self.output_end;
                let is_strange = match answers.is_empty() {
                    true => was_silent && prompts > 0,
                    // An agent that does not print the ids of its entries may be at work by itself as long as
                    // it prints anything.
                    false if prints_ids(session, reader) => {
                        answers.iter().any(|id| !reader.printed(id, given_from))
                    }
                    false => was_silent,
                };
                is_strange.then(|| "another program wrote its conversation since its last turn".to_owned())
            }
        }
    }
}

fn prints_ids(session: &Session, reader: &ComparedSession<'_>) -> bool {
    let driver =
        session.spec.as_ref().and_then(|spec| agent_launch::of(&spec.driver, reader.identity.session()));
    driver.is_some_and(|driver| driver.prints_record_ids())
}

impl ComparedSession<'_> {
    /// True if the agent printed this id since `given_from`. If that cannot be read, it did.
    fn printed(&self, id: &str, given_from: u64) -> bool {
        let output = self.identity.files().output();
        let finder = memmem::Finder::new(id.as_bytes());
        let overlap = id.len().saturating_sub(1);
        let (mut offset, mut kept) = (given_from, 0);
        let mut buffer = vec![0; READ_BYTES + overlap];
        let until = self.output_end.min(offset.saturating_add(MAX_PRINTED_BYTES));
        while offset < until {
            let Ok((count, at)) = output.read_at(offset, &mut buffer[kept..]) else { return true };
            if count == 0 {
                break;
            }
            // A gap, where old output was dropped: the parts on both sides do not belong together.
            let from = if at == offset { 0 } else { kept };
            offset = at + count as u64;
            let filled = kept + count;
            if finder.find(&buffer[from..filled]).is_some() {
                return true;
            }
            kept = overlap.min(filled);
            buffer.copy_within(filled - kept..filled, 0);
        }
        // The unread rest may have it.
        until < self.output_end
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use berth_test_dir::TestDir;

    use super::*;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    #[test]
    fn only_an_answer_to_a_prompt_younger_than_the_end_is_another_programs() {
        let dir = TestDir::new();
        let path = dir.join(format!("projects/-w/{ID}.jsonl"));
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, "{}\n").expect("a file");
        let mark = new_messages::current_position("claude", ID, |_| Some(dir.to_path_buf().into()))
            .expect("one file");
        let end = EndMark::new(ConversationMark { id: ID.to_owned(), mark, output_end: 0 }, 5000);
        let add = |line: &str| {
            let mut file = File::options().append(true).open(&path).expect("the file");
            writeln!(file, "{line}").expect("a line");
        };
        let asked = |second: u8| {
            add(&format!(
                r#"{{"type":"user","timestamp":"1970-01-01T00:00:0{second}.000Z","message":{{"content":"x"}}}}"#
            ));
        };
        let answered = || add(r#"{"type":"assistant","uuid":"a","message":{"model":"m","content":[]}}"#);
        assert!(!end.is_outdated(), "nothing is new");
        asked(4);
        answered();
        assert!(!end.is_outdated(), "the agent wrote its own turn late");
        asked(6);
        assert!(!end.is_outdated(), "a command of the interface gets no answer");
        answered();
        assert!(end.is_outdated(), "another one was asked and answered");
    }
}
