//! The conversation that the run's agent writes: the right to write it, and whether the agent has read all of it.
//!
//! Promise: at most one session writes a conversation; a conversation that another program wrote since is noticed before
//! the next turn is delivered, as far as the record shows that.
//! Not here: which conversation a run takes up (`take_up`), the record (`external_writes`),
//! the lock (`berth_store::conversation_locks`).
//! Start with [`RunConversation::enter`], then [`RunConversation::obstacle`].

use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use berth_conversations::foreign_writers;
use berth_conversations::location;
use berth_core::{Conversation, Epoch, Observation, QueueHold, Session};
use berth_driver::ConversationStart;
use berth_host::{clock, identity};
use berth_store::conversation_locks::{ConversationClaim, ConversationLock};

use super::external_writes::{ComparedSession, ConversationMark, EndMark};
use super::identity::KeeperIdentity;
use super::prepared_conversation::is_an_id;

/// The largest number of generations between an agent and its keeper.
const MAX_GENERATIONS: usize = 64;

/// The conversation of the run, as far as the journal does not have it.
#[derive(Debug)]
pub(super) struct RunConversation {
    /// How the run took its conversation up.
    begin: ConversationStart,
    /// The right to write the conversation.
    lock: Option<ConversationLock>,
    /// The conversation as it was after the last turn.
    mark: Option<ConversationMark>,
    /// The conversation at the time when the agent reported an end, until the agent has written that end.
    end_mark: Option<EndMark>,
    /// Where the output ended when the agent was last given a turn.
    given_from: u64,
    /// The turn for which the agent was started again because another program had written.
    reread_for: Option<u64>,
    /// True if another program wrote the conversation after the run's agent read it: the agent's next answer would be
    /// a second branch.
    is_outdated: bool,
}

/// The result of entering a conversation.
#[derive(Debug, Default)]
pub(super) struct EnteredConversation {
    pub(super) reports: Vec<Observation>,
    /// True if the right to write it was taken now.
    pub(super) has_new_lock: bool,
}

impl EnteredConversation {
    fn held(who: String) -> Observation {
        Observation::Held { hold: QueueHold::ForeignWriter { who } }
    }

    /// The report that another program has the right to write the conversation.
    pub(super) fn into_hold(self) -> Option<Observation> {
        self.reports.into_iter().find(|report| matches!(report, Observation::Held { .. }))
    }

    pub(super) fn is_refused(&self) -> bool {
        self.reports.iter().any(|report| matches!(report, Observation::Held { .. }))
    }
}

impl Default for RunConversation {
    fn default() -> Self {
        Self {
            begin: ConversationStart::New { id: None },
            lock: None,
            mark: None,
            end_mark: None,
            given_from: 0,
            reread_for: None,
            is_outdated: false,
        }
    }
}

impl RunConversation {
    /// Takes up a conversation for a run, with the right to write it.
    pub(super) fn take_up(&mut self, begin: ConversationStart, lock: Option<ConversationLock>) {
        (self.begin, self.lock) = (begin, lock);
    }

    /// How the run took its conversation up.
    pub(super) fn begin(&self) -> &ConversationStart {
        &self.begin
    }

    /// Gives up the right to write the conversation.
    pub(super) fn unlock(&mut self) {
        self.lock = None;
    }

    /// The descriptor that a new image needs, by name.
    pub(super) fn named_fd(&self) -> Option<(&'static str, RawFd)> {
        self.lock.as_ref().map(|lock| ("conversation", lock.file().fd().as_raw_fd()))
    }

    /// Makes this the conversation that the agent writes from now on, and moves the lock to it. `patience`: the time
    /// that the lock may take.
    pub(super) fn enter(
        &mut self,
        identity: &KeeperIdentity,
        session: &Session,
        id: String,
        patience: Duration,
    ) -> EnteredConversation {
        let mut entered = EnteredConversation::default();
        let Some(spec) = &session.spec else { return entered };
        let is_known = session.conversation.as_ref().is_some_and(|known| known.id == id);
        let is_ours = self.lock.as_ref().is_some_and(|lock| lock.is_of(&spec.conversation, &id));
        if is_known && is_ours {
            return entered;
        }
        let reports = &mut entered.reports;
        // The id may be put on a command line, and an agent's own tools can call its hooks.
        if !is_an_id(spec, &id) {
            let who = "the agent gave its conversation an id that is not valid".to_owned();
            reports.push(EnteredConversation::held(who));
            return entered;
        }
        let conversation = Conversation { store: location::transcript_dir_setting(spec), id };
        if is_ours {
            // The agent was in a conversation that it may not write, and is back. A second claim would conflict
            // with our own.
            reports.push(Observation::Conversation { conversation });
            return entered;
        }
        let (kind, id) = (&spec.conversation, &conversation.id);
        match identity.home().claim_conversation_within(patience, kind, id, identity.session()) {
            Ok(ConversationClaim::Ours(lock)) => {
                self.lock = Some(lock);
                entered.has_new_lock = true;
            }
            Ok(ConversationClaim::Held(by)) => {
                let who = by.map_or_else(|| "another session".to_owned(), |by| format!("session {by}"));
                reports.push(EnteredConversation::held(who));
            }
            Err(error) => {
                reports.push(EnteredConversation::held(format!(
                    "cannot lock conversation {}: {error}",
                    conversation.id
                )));
            }
        }
        reports.push(Observation::Conversation { conversation });
        entered
    }

    // Changes by other programs.

    /// Records the state of the conversation: the agent has just finished its answer.
    pub(super) fn remember(&mut self, session: &Session, output_end: u64) {
        if session.takes_turns() {
            self.mark = ConversationMark::now(session, output_end, self.mark.as_ref());
            self.end_mark = None;
        }
    }

    /// Records the state of the conversation when the agent in the terminal reported its end, unless this end was
    /// recorded. True if the agent's last turn is not remembered yet.
    pub(super) fn note_end(&mut self, session: &Session, output_end: u64) -> bool {
        if self.mark.is_some() {
            return false;
        }
        if self.end_mark.is_none() {
            let at_ms = clock::wall_ms();
            let mark = ConversationMark::now(session, output_end, None);
            self.end_mark = mark.map(|mark| EndMark::new(mark, at_ms));
        }
        true
    }

    /// The agent in the terminal has written the answer that it gave before its end.
    pub(super) fn remember_end(&mut self, session: &Session, output_end: u64) {
        let end = self.end_mark.take();
        if !session.takes_turns() {
            return;
        }
        self.mark = match end {
            Some(end) if end.is_outdated() => Some(end.into_mark()),
            end => ConversationMark::now(session, output_end, end.as_ref().map(EndMark::mark)),
        };
    }

    /// The agent in the terminal works: text written from now on is its own.
    pub(super) fn forget(&mut self) {
        (self.mark, self.end_mark) = (None, None);
    }

    /// A user has seen in the agent's terminal what other programs wrote, so it counts as read.
    pub(super) fn accept(&mut self, session: &Session, output_end: u64) {
        if self.mark.is_some() && session.has_terminal() {
            self.remember(session, output_end);
        }
    }

    /// The next run reads everything.
    pub(super) fn will_be_reread(&mut self) {
        self.is_outdated = false;
    }

    /// The agent is about to be given a turn.
    pub(super) fn note_given(&mut self, output_end: u64) {
        self.given_from = output_end;
    }

    /// An obstacle to delivering this turn: another program writes the conversation, or wrote text that the agent
    /// must read first.
    pub(super) fn obstacle(
        &mut self,
        turn: u64,
        session: &Session,
        reader: &ComparedSession<'_>,
    ) -> Option<Observation> {
        let (epoch, in_terminal) = (session.epoch, session.has_terminal());
        if let Some(who) = foreign_writer(session, reader.identity) {
            // An agent in a terminal is not started again for this. The record shows what was said.
            self.is_outdated = !in_terminal;
            return Some(Observation::Held { hold: QueueHold::ForeignWriter { who } });
        }
        if self.is_outdated {
            return Some(rereads(epoch, "another program wrote its conversation meanwhile"));
        }
        let mark = self.mark.as_ref();
        let news = || mark.and_then(|mark| mark.external_changes(session, reader, self.given_from));
        if in_terminal {
            return Some(Observation::Held { hold: QueueHold::ForeignWriter { who: news()? } });
        }
        let what = news().filter(|_| self.reread_for != Some(turn))?;
        self.reread_for = Some(turn);
        Some(rereads(epoch, &what))
    }
}

fn rereads(epoch: Epoch, what: &str) -> Observation {
    Observation::Broken { epoch, reason: format!("{what}; the next run reads it anew") }
}

/// A program that is not the run's and writes the session's conversation, for people.
pub(super) fn foreign_writer(session: &Session, identity: &KeeperIdentity) -> Option<String> {
    let (spec, known) = (session.spec.as_ref()?, session.conversation.as_ref()?);
    let agent = session.agent().map(|agent| agent.pid);
    let ours = |pid: u32| Some(pid) == agent || is_below(pid, identity.pid());
    let env = location::where_kept(spec, Some(known));
    match foreign_writers::registered_writers(&spec.conversation, &known.id, env, ours) {
        Ok(found) if found.is_empty() => None,
        Ok(found) => {
            Some(found.iter().map(foreign_writers::ForeignWriter::line).collect::<Vec<_>>().join("; and by "))
        }
        Err(why) => Some(format!("cannot tell: {why}")),
    }
}

/// True if a process descends from another one.
fn is_below(pid: u32, above: u32) -> bool {
    let mut pid = pid;
    for _ in 0..MAX_GENERATIONS {
        match identity::process_stat(pid) {
            Ok(stat) if stat.ppid == above => return true,
            Ok(stat) if stat.ppid > 1 => pid = stat.ppid,
            Ok(_) | Err(_) => return false,
        }
    }
    false
}
