//! Whether somebody else said something in our conversation since our agent last did.
//!
//! An agent that lives from turn to turn read its conversation once. Whoever came and went between two turns left
//! records it does not know of: its next answer would be a second branch, and one of the two would be forgotten.
//! Promise: before a turn is delivered, what is new in the agent's own record is compared with what our agent printed;
//! what it did not print somebody else said. Then the agent is started again, and reads everything, before it hears
//! the turn. In doubt it is left as it is. One turn begins at most one such start.
//! One in a terminal prints no ids, and is somebody's: what was answered while it told of no prompt is somebody else's,
//! and the turn is held until the agent has opened its conversation again, or a person says that it may go on. Such an agent
//! may write its last answer after it told its end, so the keeper waits a moment before it remembers the record. What
//! others asked and were told in that moment is theirs: their prompt is younger than the end.
//! Not here: others who are there now (`conversation`), what a record means (`berth_transcript::since`).

use berth_host::clock;
use berth_store::output;
use berth_transcript::since::{self, Mark, News};
use memchr::memmem;

use super::Keeper;
use crate::{driver, turn};

/// How much of what our agent printed is searched.
const MAX_PRINTED_BYTES: u64 = 64 << 20;
const READ_BYTES: usize = 256 * 1024;

/// The conversation as it was when our agent had nothing to do.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    id: String,
    mark: Mark,
    /// Where what the agent printed ended then.
    output_end: u64,
}

/// The conversation when the agent in the terminal told its end, and may not have written all of it.
#[derive(Clone, Debug)]
pub(super) struct EndSeen {
    seen: Seen,
    /// On the wall clock, which is in the records as well.
    at_ms: u64,
}

impl EndSeen {
    /// Whether a prompt that was given after the end has an answer.
    fn is_outdated(&self) -> bool {
        match self.seen.mark.news() {
            News::Said { answered_prompt_at_ms, .. } => {
                answered_prompt_at_ms.is_some_and(|at| at > self.at_ms)
            }
            News::Nothing | News::Replaced | News::CannotTell { .. } => false,
        }
    }
}

impl Keeper {
    /// Remembers the conversation as it is: the agent has just said all it had to say.
    pub(super) fn remember_conversation(&mut self) {
        if self.owner.history().session.takes_turns() {
            self.seen = self.conversation_now(self.seen.as_ref());
            self.end_seen = None;
        }
    }

    /// The agent in the terminal told its end: the conversation as it is, unless that is known of this end.
    pub(super) fn note_end(&mut self) {
        if self.end_seen.is_none() {
            let at_ms = clock::wall_ms();
            self.end_seen = self.conversation_now(None).map(|seen| EndSeen { seen, at_ms });
        }
    }

    /// The agent in the terminal has written what it said before its end.
    pub(super) fn remember_end(&mut self) {
        let end = self.end_seen.take();
        if !self.owner.history().session.takes_turns() {
            return;
        }
        self.seen = match end {
            Some(end) if end.is_outdated() => Some(end.seen),
            end => self.conversation_now(end.as_ref().map(|end| &end.seen)),
        };
    }

    /// The conversation as it is now. `before` knows where its file is.
    fn conversation_now(&self, before: Option<&Seen>) -> Option<Seen> {
        let session = &self.owner.history().session;
        let (spec, known) = session.spec.as_ref().zip(session.conversation.as_ref())?;
        let again = before.filter(|seen| seen.id == known.id).and_then(|seen| seen.mark.again());
        let env = turn::where_kept(spec, Some(known));
        let mark = again.or_else(|| since::mark(&spec.conversation, &known.id, env))?;
        Some(Seen { id: known.id.clone(), mark, output_end: self.output.end() })
    }

    /// The agent in the terminal works: what is written from now on is its own.
    pub(super) fn forget_conversation(&mut self) {
        (self.seen, self.end_seen) = (None, None);
    }

    /// What somebody else did to the conversation since then, for people.
    pub(super) fn another_wrote(&self) -> Option<String> {
        let session = &self.owner.history().session;
        let known = session.conversation.as_ref()?;
        let seen = self.seen.as_ref().filter(|seen| seen.id == known.id)?;
        match seen.mark.news() {
            News::Nothing => None,
            News::Replaced if session.has_terminal() => Some(format!(
                "it replaced the file; have the agent read that with `/resume {}` in its terminal, or go on \
                 without with `berth queue {} resume`",
                known.id,
                self.handle_name()
            )),
            News::Replaced => Some("the file of its conversation was replaced".to_owned()),
            News::CannotTell { why } => {
                tracing::debug!(why, "cannot tell whether another program wrote the conversation");
                None
            }
            News::Said { answers, .. } if session.has_terminal() => {
                // Its own commands are prompts in the record, and nobody answers them.
                let is_strange = !answers.is_empty() && !self.says_it_works();
                is_strange.then(|| {
                    format!(
                        "it wrote something the agent has not read; have the agent read that with `/resume {}` \
                         in its terminal, or go on without with `berth queue {} resume`",
                        known.id,
                        self.handle_name()
                    )
                })
            }
            News::Said { answers, prompts, .. } => {
                let was_silent = self.output.end() == seen.output_end;
                let is_strange = match answers.is_empty() {
                    true => was_silent && prompts > 0,
                    // An agent that does not print the ids of what it writes down may be at work by itself as long as
                    // anything is heard of it.
                    false if self.prints_ids() => answers.iter().any(|id| !self.printed(id)),
                    false => was_silent,
                };
                is_strange.then(|| "another program wrote its conversation since its last turn".to_owned())
            }
        }
    }

    fn prints_ids(&self) -> bool {
        let spec = self.owner.history().session.spec.as_ref();
        let driver = spec.and_then(|spec| driver::of(&spec.driver, &self.id));
        driver.is_some_and(|driver| driver.prints_record_ids())
    }

    /// Whether our agent printed this id since it was last given a turn. If that cannot be read, it did.
    fn printed(&self, id: &str) -> bool {
        let dir = self.dir.join("output");
        let finder = memmem::Finder::new(id.as_bytes());
        let overlap = id.len().saturating_sub(1);
        let (mut offset, mut kept) = (self.delivery.given_from, 0);
        let mut buffer = vec![0; READ_BYTES + overlap];
        let until = self.output.end().min(offset.saturating_add(MAX_PRINTED_BYTES));
        while offset < until {
            let Ok((count, at)) = output::read_at(&dir, offset, &mut buffer[kept..]) else { return true };
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
        until < self.output.end()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    #[test]
    fn only_an_answer_to_a_prompt_younger_than_the_end_is_somebody_elses() {
        let dir = std::env::temp_dir().join(format!("berth-end-seen-{}", std::process::id()));
        let path = dir.join(format!("projects/-w/{ID}.jsonl"));
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, "{}\n").expect("a file");
        let mark = since::mark("claude", ID, |_| Some(dir.clone().into())).expect("one file");
        let end = EndSeen { seen: Seen { id: ID.to_owned(), mark, output_end: 0 }, at_ms: 5000 };
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
        assert!(!end.is_outdated(), "nobody answers a command of the interface");
        answered();
        assert!(end.is_outdated(), "another one was asked and answered");
        fs::remove_dir_all(&dir).expect("our own directory");
    }
}
