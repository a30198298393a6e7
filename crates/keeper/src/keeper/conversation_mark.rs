//! A mark in the agent's record, to tell later whether another program wrote the conversation since.
//!
//! An agent that lives from turn to turn read its conversation once. A program that came and went between two turns left
//! records that the agent does not know of: its next answer would be a second branch, and one of the two would be lost.
//! Promise: before a turn is delivered, what is new in the agent's own record is compared with what the agent printed;
//! what it did not print another program wrote. Then the agent is started again, and reads everything, before it hears
//! the turn. In doubt it is left as it is. One turn begins at most one such start.
//! An agent in a terminal prints no ids, and a person uses it: what was answered while it told of no prompt is another
//! program's, and the turn is held until the agent has opened its conversation again, or a person says that it may go on.
//! Such an agent may write its last answer after it told its end, so the keeper waits a moment before it remembers the
//! record. What others asked and were told in that moment is theirs: their prompt is younger than the end.
//! Not here: other programs that are there now (`agent_conversation`), what a record means (`berth_transcript::since`).

use berth_core::Session;
use berth_transcript::since::{self, Mark, News};
use memchr::memmem;

use super::identity::KeeperIdentity;
use super::tui_turns::says_it_works;
use crate::{driver, turn};

/// How much of what the agent printed is searched.
const MAX_PRINTED_BYTES: u64 = 64 << 20;
const READ_BYTES: usize = 256 * 1024;

/// The conversation as it was when the agent had nothing to do.
#[derive(Clone, Debug)]
pub(super) struct ConversationMark {
    id: String,
    mark: Mark,
    /// Where the agent's output ended then.
    output_end: u64,
}

/// The conversation when the agent in the terminal told its end, and may not have written all of it.
#[derive(Clone, Debug)]
pub(super) struct EndMark {
    mark: ConversationMark,
    /// On the wall clock, which is in the records as well.
    at_ms: u64,
}

/// The session whose conversation is compared with its mark.
#[derive(Debug)]
pub(super) struct Reader<'a> {
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
            News::Said { answered_prompt_at_ms, .. } => {
                answered_prompt_at_ms.is_some_and(|at| at > self.at_ms)
            }
            News::Nothing | News::Replaced | News::CannotTell { .. } => false,
        }
    }
}

impl ConversationMark {
    /// The conversation as it is now. `before` knows where its file is.
    pub(super) fn now(session: &Session, output_end: u64, before: Option<&Self>) -> Option<Self> {
        let (spec, known) = session.spec.as_ref().zip(session.conversation.as_ref())?;
        let again = before.filter(|before| before.id == known.id).and_then(|before| before.mark.again());
        let env = turn::where_kept(spec, Some(known));
        let mark = again.or_else(|| since::mark(&spec.conversation, &known.id, env))?;
        Some(Self { id: known.id.clone(), mark, output_end })
    }

    /// What another program did to the conversation since then, for people. `given_from`: where the output ended when the
    /// agent was last given a turn.
    pub(super) fn news_of_others(
        &self,
        session: &Session,
        reader: &Reader<'_>,
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
            News::Nothing => None,
            News::Replaced if session.has_terminal() => Some(format!("it replaced the file; {}", advice())),
            News::Replaced => Some("the file of its conversation was replaced".to_owned()),
            News::CannotTell { why } => {
                tracing::debug!(why, "cannot tell whether another program wrote the conversation");
                None
            }
            News::Said { answers, .. } if session.has_terminal() => {
                // Its own commands are prompts in the record, and get no answer.
                let is_strange = !answers.is_empty() && !says_it_works(session);
                is_strange.then(|| format!("it wrote something the agent has not read; {}", advice()))
            }
            News::Said { answers, prompts, .. } => {
                let was_silent = reader.output_end == self.output_end;
                let is_strange = match answers.is_empty() {
                    true => was_silent && prompts > 0,
                    // An agent that does not print the ids of what it writes down may be at work by itself as long as
                    // anything is heard of it.
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

fn prints_ids(session: &Session, reader: &Reader<'_>) -> bool {
    let driver = session.spec.as_ref().and_then(|spec| driver::of(&spec.driver, reader.identity.session()));
    driver.is_some_and(|driver| driver.prints_record_ids())
}

impl Reader<'_> {
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
            // A gap, where old output was dropped: what is on both sides does not belong together.
            let from = if at == offset { 0 } else { kept };
            offset = at + count as u64;
            let filled = kept + count;
            if finder.find(&buffer[from..filled]).is_some() {
                return true;
            }
            kept = overlap.min(filled);
            buffer.copy_within(filled - kept..filled, 0);
        }
        // More than is read may have it.
        until < self.output_end
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    #[test]
    fn only_an_answer_to_a_prompt_younger_than_the_end_is_another_programs() {
        let dir = std::env::temp_dir().join(format!("berth-end-mark-{}", std::process::id()));
        let path = dir.join(format!("projects/-w/{ID}.jsonl"));
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, "{}\n").expect("a file");
        let mark = since::mark("claude", ID, |_| Some(dir.clone().into())).expect("one file");
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
        fs::remove_dir_all(&dir).expect("our own directory");
    }
}
