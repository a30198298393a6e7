//! Answers that are read from the journal: turns, as far as they fit into a frame.

use berth_api::Problem;
use berth_api::message::KeeperAnswer;
use berth_api::turn::{TurnPage, TurnView};

use super::commit_pipeline::CommitPipeline;

/// The bytes of text in an answer: the last turn of it may go beyond.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The bytes of text of one turn in an answer: JSON may make six bytes of one, and a frame has its limit.
const MAX_TURN_BYTES: usize = 2 << 20;

impl CommitPipeline {
    /// One turn; `None` if there is no such turn.
    pub(super) fn turn_answer(&mut self, turn: u64) -> Result<Option<KeeperAnswer>, Problem> {
        let found = self.turns(turn, 1, 0)?.pop().filter(|found| found.number == turn);
        let hold = self.session().turns.hold.as_ref();
        let needs_someone = hold.is_some_and(berth_core::QueueHold::needs_someone);
        Ok(found.map(|found| match found.text_bytes() > MAX_TURN_BYTES {
            // A turn that is too long for a frame is in the files.
            true => self.page(vec![]),
            false => KeeperAnswer::Turn { turn: Box::new(found), needs_someone },
        }))
    }

    /// At most `limit` turns, from the turn `from` on.
    pub(super) fn turns_answer(&mut self, from: u64, limit: u64) -> Result<KeeperAnswer, Problem> {
        let mut turns = self.turns(from, limit, MAX_ANSWER_BYTES)?;
        turns.pop_if(|last| last.text_bytes() > MAX_TURN_BYTES);
        Ok(self.page(turns))
    }

    fn page(&self, turns: Vec<TurnView>) -> KeeperAnswer {
        let (total, seq) = (self.session().turns.last(), self.history().seq);
        KeeperAnswer::Turns(TurnPage { turns, total, seq })
    }
}
