//! Summary of a journal: the session's state, and the times and texts that a status shows.
//!
//! Promise: a history follows from the journal alone.
//! Not here: reading the journal (see `store`), and sizes and times of the output files (see `view`).
//! Start with [`SessionView`].

use std::collections::BTreeMap;

use berth_api::helper::{HelperStatus, OwnerStatus};
use berth_api::record::{Actor, EventEntry, SessionSpec};
use berth_api::redact;
use berth_api::status::{ActivityStatus, SessionStatus, SpecView, Timestamp, TurnsStatus, WriterStatus};
use berth_api::turn::{QueueHold, ReleaseReason, turn_id};
use berth_core::{
    ActivityChange, EndingRun, Event, HelperScope, KnownKey, RunPhase, Session, SessionId, SessionState,
    key_hash, text_digest,
};
use berth_journal::{Committed, JournalRecord};

use crate::turn_index::TurnLink;
use crate::{process_ref, turn_view};

/// Limit of a prompt or an answer in a status, in characters: more than a line of any terminal shows.
const LINE_CHARS: usize = 200;
/// Number of characters that are searched for secrets: a secret that begins within a line ends within this.
const REDACTED_CHARS: usize = 10 * LINE_CHARS;

/// An event with its time, as the journal keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredEvent {
    /// Wall clock, in milliseconds since 1970.
    pub at_ms: u64,
    /// The event itself.
    pub event: Event,
}

impl JournalRecord for StoredEvent {
    fn encode(&self, out: &mut Vec<u8>) {
        serde_json::to_writer(out, &self.entry()).expect("an entry is plain data and a Vec takes any write");
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let entry: EventEntry = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let event = entry.to_core().map_err(|bad| bad.to_string())?;
        Ok(Self { at_ms: entry.at_ms, event })
    }
}

impl StoredEvent {
    /// The stored form of the event.
    pub fn entry(&self) -> EventEntry {
        EventEntry::new(self.at_ms, &self.event)
    }
}

/// The latest prompt and its answer, as a list shows them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LastExchange {
    /// Latest prompt.
    pub prompt: Option<String>,
    /// Answer to that prompt, once there is one.
    pub answer: Option<String>,
}

impl LastExchange {
    /// Replaces the prompt: the agent has another one.
    pub fn prompted(&mut self, text: &str) {
        *self = Self { prompt: Some(beginning(text)).filter(|line| !line.is_empty()), answer: None };
    }

    /// Adds the answer of the agent.
    pub fn answered(&mut self, text: &str) {
        self.answer = first_line(text).or(self.answer.take());
    }
}

/// Summary of a session's past.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionView {
    /// State of the session.
    pub session: Session,
    /// Number of the last event.
    pub seq: u64,
    /// Number of the event that began the current or last run; 0 before the first.
    pub run_seq: u64,
    pub(crate) created_at_ms: u64,
    pub(crate) started_at_ms: Option<u64>,
    pub(crate) ended_at_ms: Option<u64>,
    pub(crate) last_event_at_ms: u64,
    pub(crate) archived_at_ms: Option<u64>,
    pub(crate) writer_since_ms: u64,
    /// Time at which the current turn was given to the agent.
    pub given_at_ms: Option<u64>,
    /// Time of the latest report of an agent in a terminal that is in the journal.
    pub(crate) told_at_ms: u64,
    /// Latest prompt and answer that are in the journal.
    pub(crate) last_said: LastExchange,
    /// Times at which the owners joined.
    pub(crate) joined_at_ms: BTreeMap<SessionId, u64>,
    /// Open questions of the agent, each with the number of its event.
    pub(crate) asked: Vec<(String, u64)>,
}

impl SessionView {
    /// Replays a journal.
    pub fn replay(events: &[Committed<StoredEvent>]) -> Self {
        Self::replay_with_links(events).0
    }

    /// Replays a journal, and returns the links from its events to turns.
    pub(crate) fn replay_with_links(events: &[Committed<StoredEvent>]) -> (Self, Vec<TurnLink>) {
        let mut history = Self::default();
        let links = events.iter().flat_map(|event| history.apply(event)).collect();
        (history, links)
    }

    /// Applies the next event, which must be on disk, and returns the links from it to turns.
    pub fn apply(&mut self, committed: &Committed<StoredEvent>) -> Vec<TurnLink> {
        let stored = committed.get();
        self.seq = committed.seq().0;
        let mut links = self.links(&stored.event);
        self.last_event_at_ms = stored.at_ms;
        match &stored.event {
            Event::Created { .. } => self.created_at_ms = stored.at_ms,
            Event::RunStarting { .. } => {
                self.run_seq = self.seq;
                self.started_at_ms = Some(stored.at_ms);
                self.ended_at_ms = None;
            }
            Event::RunEnded { .. } => {
                self.ended_at_ms = Some(stored.at_ms);
                self.joined_at_ms.clear();
            }
            Event::OwnerJoined { owner } => {
                self.joined_at_ms.entry(owner.session.clone()).or_insert(stored.at_ms);
            }
            Event::OwnerLeft { owner, .. } => drop(self.joined_at_ms.remove(owner)),
            Event::WriterGranted { .. } => self.writer_since_ms = stored.at_ms,
            Event::TurnDelivered { turn, .. } => {
                if self.session.turns.current.is_none() {
                    self.given_at_ms = Some(stored.at_ms);
                }
                if let Some(turn) = self.session.turns.open(*turn) {
                    self.last_said.prompted(&turn.prompt);
                }
            }
            Event::TurnEnded { end, .. } => self.last_said.answered(&end.answer),
            // An imported conversation is as old as it is, not as old as our record of it.
            Event::Imported { began_at_ms, last_at_ms, .. } => {
                (self.created_at_ms, self.ended_at_ms) = (*began_at_ms, Some(*last_at_ms));
                self.last_event_at_ms = *last_at_ms;
            }
            Event::AgentReady { .. } | Event::ActivityReported { .. } => self.told_at_ms = stored.at_ms,
            Event::Archived { .. } => self.archived_at_ms = Some(stored.at_ms),
            Event::Restored { .. } => self.archived_at_ms = None,
            Event::Renamed { .. }
            | Event::RunStarted { .. }
            | Event::StopRequested { .. }
            | Event::AgentExited { .. }
            | Event::OomKilled { .. }
            | Event::KillOrdered { .. }
            | Event::EndUnproven { .. }
            | Event::WriterReleased { .. }
            | Event::Typed { .. }
            | Event::KeeperRestarted { .. }
            | Event::OutputDropped { .. }
            | Event::HelperDeclared { .. }
            | Event::CommandChanged { .. }
            | Event::BecameReady { .. }
            | Event::NeverReady { .. }
            | Event::ConversationEntered { .. }
            | Event::ConversationLeft { .. }
            | Event::InterfaceChosen { .. }
            | Event::HooksInjected { .. }
            | Event::TurnAccepted { .. }
            | Event::TurnBegan { .. }
            | Event::CancelRequested { .. }
            | Event::LateResult { .. }
            | Event::QuestionAsked { .. }
            | Event::Answered { .. }
            | Event::QuestionWithdrawn { .. }
            | Event::QueueHeld { .. }
            | Event::QueueResumed { .. }
            | Event::QueueMoved { .. }
            | Event::TurnEdited { .. }
            | Event::RunReleased { .. }
            | Event::ExpirySet { .. }
            | Event::TagsChanged { .. }
            | Event::NoteChanged { .. }
            | Event::PolicySet { .. }
            | Event::Warned { .. } => {}
        }
        self.session.apply(&stored.event);
        match &stored.event {
            Event::QuestionAsked { ask } => self.asked.push((ask.request.clone(), self.seq)),
            Event::TurnDelivered { .. } => {
                let interface = self.session.spec.as_ref().map(berth_core::SessionSpec::interface);
                links.iter_mut().for_each(|link| link.interface = interface);
            }
            _ => {
                let asks = &self.session.turns.asks;
                self.asked.retain(|(request, _)| asks.iter().any(|ask| ask.request == *request));
            }
        }
        links
    }

    /// Links from the next event to turns. An answer comes with the question that it answers.
    fn links(&self, event: &Event) -> Vec<TurnLink> {
        let link =
            |turn: u64| TurnLink { turn, seq: self.seq, interface: None, is_question: false, key: None };
        if let Some(turn) = turn_view::turn_of(event) {
            return vec![TurnLink { key: key_of(event), ..link(turn) }];
        }
        let Event::Answered { request, .. } = event else { return vec![] };
        let asked = self.asked.iter().find(|(open, _)| open == request);
        match self.session.turns.current.as_ref().zip(asked) {
            Some((current, (_, asked))) => {
                let answer = link(current.turn);
                vec![TurnLink { seq: *asked, is_question: true, ..answer }, answer]
            }
            None => vec![],
        }
    }

    /// Everything that a list shows. `kept` is true if a keeper holds the lease.
    pub fn status(&self, id: &SessionId, kept: bool) -> SessionStatus {
        let session = &self.session;
        let spec: SessionSpec = session.spec.clone().unwrap_or_default().into();
        let mut status = SessionStatus {
            id: id.to_string(),
            name: session.name.as_ref().map(ToString::to_string),
            state: session.state(kept).into(),
            tags: session.tags.iter().map(ToString::to_string).collect(),
            note: session.note.clone(),
            archived_at: self.archived_at_ms.map(Timestamp),
            what: SpecView::from(&spec),
            epoch: session.epoch.0,
            pid: session.agent().filter(|_| kept).map(|agent| agent.pid),
            keeper_pid: session.keeper.as_ref().filter(|_| kept).map(|keeper| keeper.pid),
            created_at: Timestamp(self.created_at_ms),
            started_at: self.started_at_ms.map(Timestamp),
            ended_at: self.ended_at_ms.map(Timestamp),
            last_activity_at: Timestamp(self.last_event_at_ms),
            stopped_by: session.stopped_by.clone().map(Actor::from),
            writer: session.writer.as_ref().filter(|_| kept).map(|writer| WriterStatus {
                holder: writer.holder.clone().into(),
                since: Timestamp(self.writer_since_ms),
            }),
            boundary: session.boundary.clone().into(),
            oom_kills: session.oom_kills,
            output_from: session.output_from,
            helper: self.helper_status(kept),
            turns: self.turns_status(id),
            interface: session.spec.as_ref().map(|spec| spec.interface().into()),
            next_interface: session.next_interface.map(|next| next.interface.into()),
            other_interfaces: session
                .spec
                .as_ref()
                .and_then(berth_core::SessionSpec::other_interface)
                .into_iter()
                .map(Into::into)
                .collect(),
            conversation_id: session.conversation.as_ref().map(|conversation| conversation.id.clone()),
            last_prompt: self.last_said.prompt.clone(),
            last_answer: self.last_said.answer.clone(),
            released: session.released.clone().map(|why| ReleaseReason::from(why).describe()),
            seq: self.seq,
            ..SessionStatus::default()
        };
        if let RunPhase::Ending(EndingRun { left, .. }) = &session.phase {
            status.left = left.clone();
        }
        match session.outcome() {
            Some(outcome) => status.set_outcome(&outcome.clone().into()),
            None if session.state(kept) == SessionState::Lost => {
                status.set_outcome(&berth_api::record::RunOutcome::Lost);
                let unproven =
                    process_ref::other_host_of_run(session).map(|why| format!("not proven: {why}"));
                status.failure = unproven.or(status.failure);
            }
            None => {}
        }
        status
    }

    /// The part of the status about turns.
    fn turns_status(&self, id: &SessionId) -> Option<TurnsStatus> {
        let session = &self.session;
        // Turns of a chat stay visible after a switch to a terminal that takes no turns.
        (session.takes_turns() || session.turns.last() > 0).then_some(())?;
        let turns = &session.turns;
        let name = session.name.as_ref().map_or(id.as_str(), |name| name.as_str());
        let id_of = |turn: &u64| turn_id(id.as_str(), *turn);
        Some(TurnsStatus {
            current: turns.current.as_ref().map(|current| id_of(&current.turn)),
            queued: turns.queue.iter().map(id_of).collect(),
            total: turns.last(),
            held: turns.hold.clone().map(|hold| QueueHold::from(hold).describe(name)),
            asks: turns.asks.iter().cloned().map(Into::into).collect(),
            prompt: turns
                .current
                .as_ref()
                .and_then(|current| Some(beginning(&turns.open(current.turn)?.prompt))),
            activity: None,
            last_report: self.last_report(),
            releases_in_ms: None,
        })
    }

    /// Latest report of an agent in a terminal that is in the journal.
    pub fn last_report(&self) -> Option<ActivityStatus> {
        let edges = self.session.edges?;
        let how = edges.last.map_or("SessionStart hook", name_of_edge).to_owned();
        Some(ActivityStatus { how, at: Timestamp(self.told_at_ms) })
    }

    /// The part of the status about a helper.
    fn helper_status(&self, kept: bool) -> Option<HelperStatus> {
        let sharing = self.session.sharing.as_ref()?;
        let terms = &sharing.terms;
        let ready = self.session.ready().filter(|_| kept);
        let owners = sharing.owners.iter().map(|owner| OwnerStatus {
            session: owner.session.to_string(),
            name: None,
            keep: owner.keep,
            since: Timestamp(self.joined_at_ms.get(&owner.session).copied().unwrap_or_default()),
        });
        let (scope, dir) = match &terms.scope {
            HelperScope::Dir(dir) => ("dir", Some(dir.clone())),
            HelperScope::User => ("user", None),
        };
        Some(HelperStatus {
            name: terms.name.to_string(),
            scope: scope.to_owned(),
            dir,
            owners: owners.collect(),
            owners_known: true,
            ready: ready.is_some(),
            ready_when: terms
                .ready
                .clone()
                .map(|ready| berth_api::helper::ReadinessProbe::from(ready).to_string()),
            address: ready.flatten().map(str::to_owned),
            idle_ms: terms.linger_ms,
            lingers: self.session.idle_end_boot_ms().is_some(),
            keep: sharing.owners.iter().any(|owner| owner.keep),
        })
    }
}

/// Key with which an event accepts a turn.
fn key_of(event: &Event) -> Option<KnownKey> {
    let Event::TurnAccepted { turn, prompt } = event else { return None };
    let (hash, digest) = (key_hash(prompt.key.as_deref()?), text_digest(&prompt.text));
    Some(KnownKey { hash, turn: u32::try_from(*turn).ok()?, digest })
}

/// The first line of a text that has a letter or a digit.
fn first_line(text: &str) -> Option<String> {
    text.lines().find(|line| line.contains(char::is_alphanumeric)).map(beginning)
}

/// The first words of a text, on one line, with `***` for each secret. Of a long one no more is looked at than is needed.
fn beginning(text: &str) -> String {
    let words = text.split_whitespace().flat_map(|word| [" ", word]).flat_map(str::chars);
    let mut line: String = words.skip(1).take(REDACTED_CHARS).collect();
    // Redacted before it is cut: half a secret does not look like one.
    line = redact::redact_text(&line);
    if let Some((end, _)) = line.char_indices().nth(LINE_CHARS) {
        line.truncate(end);
        line.pop();
        line.push('…');
    }
    line
}

/// Source of a reported edge, for people.
fn name_of_edge(edge: ActivityChange) -> &'static str {
    match edge {
        ActivityChange::Prompt => "UserPromptSubmit hook",
        ActivityChange::Tool => "tool use hook",
        ActivityChange::Stopped => "Stop hook",
        ActivityChange::Interrupted => "Interrupt hook",
        ActivityChange::Quiet => "the agent's own list of sessions",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_belongs_to_the_latest_prompt_and_is_its_first_line() {
        let mut said = LastExchange::default();
        said.prompted("mend the\nlogin");
        said.answered("\n---\n Done.\nThe test was wrong.");
        assert_eq!(
            said,
            LastExchange { prompt: Some("mend the login".into()), answer: Some("Done.".into()) }
        );
        said.answered("");
        assert_eq!(said.answer.as_deref(), Some("Done."), "a late end without an answer changes nothing");
        said.prompted("and now?");
        assert_eq!(said, LastExchange { prompt: Some("and now?".into()), answer: None });
    }

    #[test]
    fn a_prompt_and_an_answer_are_shown_without_their_secrets_also_where_the_line_is_cut() {
        let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
        let before = "word ".repeat(LINE_CHARS / 5 - 2);
        for secret in [token.as_str(), "API_KEY=sk-proj-0123456789abcdef"] {
            for text in [format!("use {secret} for it"), format!("{before}{secret} for it")] {
                let mut said = LastExchange::default();
                said.prompted(&text);
                said.answered(&format!("Done.\n{text}"));
                let answer = first_line(&text).expect("a line");
                for line in [said.prompt.expect("a prompt"), said.answer.expect("an answer"), answer] {
                    assert!(!line.contains("ghp_") && !line.contains("sk-"), "{line}");
                }
            }
        }
    }

    #[test]
    fn the_beginning_of_a_prompt_is_one_line_and_never_too_long() {
        assert_eq!(beginning("  mend\n\tthe login \r\n"), "mend the login");
        assert_eq!(beginning(" \n"), "");
        assert_eq!(beginning(&"é".repeat(LINE_CHARS)), "é".repeat(LINE_CHARS));
        for long in ["é".repeat(LINE_CHARS + 1), "word ".repeat(LINE_CHARS), "a ".repeat(LINE_CHARS)] {
            let line = beginning(&long);
            assert!(line.chars().count() <= LINE_CHARS && line.ends_with('…'), "{line}");
        }
    }
}
