//! Turns of an agent in a terminal that reports through its hooks: its reports, and the checks where it
//! does not report.
//!
//! Promise: the end of a turn counts only with the agent's transcript (`end_proof`); each question of an agent has a name
//! of its own.
//! Not here: the attribution of hooks and their effects (`hook_reports`), typing a turn (`paste`), keys of a
//! user (`unsent_text`), the rules of turns (`berth_core`), the names of an agent's hooks.
//! Start with [`TuiTurns`].

mod activity_checks;
mod conversation_signs;
mod end_proof;
mod paste;
mod unsent_text;

use std::time::Duration;

use berth_api::hook;
use berth_api::status::{ActivityStatus, Timestamp};
use berth_conversations::foreign_writers::{self, RegistryActivity};
use berth_conversations::location;
use berth_core::{FinalState, Observation, QueueHold, RunPhase, Session, TurnEnd, TurnProgress};
use berth_driver::AgentTraits;
use berth_host::clock;
use berth_store::SessionView;

use super::agent_terminal::AgentTerminal;
use super::identity::KeeperIdentity;
use conversation_signs::ConversationSigns;
use end_proof::RecordPosition;
pub(super) use end_proof::{EndVerdict, ReportedEnd, turn_to_prove};
pub(super) use paste::TypingDecision;
use paste::{PasteStage, TurnPaste, confirm_patience_ms, echo_patience_ms};
use unsent_text::UnsentText;

/// How long the terminal is quiet after a paste before Enter is pressed: an Enter that comes while a paste is being
/// taken in is swallowed by some agents.
const SETTLED_MS: u64 = 150;
/// The timeout for the first report of an agent that was started with hooks, once a turn waits for it.
const TELL_PATIENCE: Duration = Duration::from_secs(60);
/// The quiet time of a terminal after which an agent that reports nothing at its start is believed to listen.
const LISTENING_MS: u64 = 1500;
/// The time after its last activity within which an agent's reminder that it is idle is about that activity, and not
/// about an end before: such a reminder comes a minute after the end it is about.
const LATE_MS: u64 = 50_000;
/// The pause between two checks of a working agent, by its own records.
const CHECK_MS: u64 = 1000;
/// The pause before a check when it was just asked to break off.
const CHECK_SOON_MS: u64 = 100;
/// The time that an agent may take after an end to write down its answer. The next turn waits no less.
const WRITTEN_MS: u64 = 450;
/// The time after an end in which an agent's run is not ended for another interface.
const SETTLED_END_MS: u64 = 500;
/// The quiet time of the terminal of an agent that paints while it works, before its record is read.
const STILL_MS: u64 = 3000;
/// The quiet time where no turn of a client is in its record.
const STILL_LONG_MS: u64 = 30_000;
const ENTER: &[u8] = b"\r";
const ESCAPE: &[u8] = b"\x1b";
/// Takes back the line in the box.
const KILL_LINE: &[u8] = b"\x15";

/// The terminal's agent and its turn, as far as the journal does not have them.
#[derive(Debug, Default)]
pub(super) struct TuiTurns {
    unsent: UnsentText,
    signs: ConversationSigns,
    /// The turn that is being typed.
    paste: Option<TurnPaste>,
    /// Keys that came while a turn is typed. They are typed after it.
    behind: Vec<u8>,
    /// The time when the terminal last showed output, on the boot clock.
    shown_at_ms: u64,
    /// The time of the agent's last report that it works, on the agent's wall clock.
    busy_at_ms: u64,
    /// The time when that was heard, on the boot clock.
    busy_boot_ms: u64,
    /// The agent's last report, for people.
    last_report: Option<ActivityStatus>,
    /// The time of the next check whether the agent still works, on the boot clock.
    check_at_ms: Option<u64>,
    /// The time since when a turn waits for an agent that has reported nothing, on the boot clock.
    awaited_since_ms: Option<u64>,
    /// The time when a user last sent typed text, on the boot clock.
    sent_at_ms: Option<u64>,
    /// The time when the agent last reported an end, on the boot clock.
    ended_at_ms: Option<u64>,
    /// A conversation that another program writes, as was reported before.
    refused_conversation: Option<String>,
    /// The time since when a turn waits for the terminal to take it, on the boot clock.
    due_since_ms: Option<u64>,
    /// Set if a turn was broken off and its prompt may be in the box again; true if that is one line.
    put_back: Option<bool>,
    /// The time of the agent's last question on its screen, on the agent's wall clock.
    asked_at_ms: u64,
    /// The number of questions on its screen since this image of the keeper began.
    asked: u64,
    /// The name of its last question.
    last_request: String,
    /// The time to record the state of its conversation, on the boot clock: an agent reports an end before it
    /// has written it.
    remember_at_ms: Option<u64>,
    /// An end that a hook reported and that is not proven yet.
    reported_end: Option<ReportedEnd>,
    /// The end of the agent's record when its current turn was typed.
    record_position: Option<RecordPosition>,
}

/// The traits of the session's agent.
pub(super) fn traits_of(session: &Session) -> AgentTraits {
    AgentTraits::of(session.spec.as_ref().map_or("", |spec| spec.conversation.as_str()))
}

/// The agent's activity by its own list of sessions, if it keeps one.
fn doing(session: &Session) -> Option<RegistryActivity> {
    let (spec, agent) = (session.spec.as_ref()?, session.agent()?);
    let env = location::where_kept(spec, session.conversation.as_ref());
    foreign_writers::registry_activity(&spec.conversation, agent.pid, env)
}

/// True if the agent's own list of sessions says that it works.
pub(super) fn says_it_works(session: &Session) -> bool {
    matches!(doing(session), Some(RegistryActivity::Busy { .. }))
}

fn works(session: &Session) -> bool {
    session.edges.is_some_and(|edges| edges.working)
}

/// True while the terminal's agent is expected to report through hooks.
fn is_told_of(session: &Session) -> bool {
    session.tells && session.has_terminal() && matches!(session.phase, RunPhase::Running { .. })
}

impl TuiTurns {
    /// Notes that the terminal showed output.
    pub(super) fn note_output(&mut self) {
        self.shown_at_ms = clock::boot_ms();
        self.signs.note_output();
    }

    /// The agent's last report, for people.
    pub(super) fn last_report(&self) -> Option<ActivityStatus> {
        self.last_report.clone()
    }

    /// The time at which the agent has written down its last end, on the boot clock.
    pub(super) fn settled_at_ms(&self) -> Option<u64> {
        self.ended_at_ms.map(|at| at + SETTLED_END_MS)
    }

    // Keys of users.

    /// True while a turn is being typed and is not sent: no user types meanwhile.
    pub(super) fn is_typing(&self) -> bool {
        matches!(self.paste, Some(TurnPaste { stage: PasteStage::Pasted { .. }, .. }))
    }

    /// Keeps keys until the turn is sent.
    pub(super) fn keep_behind(&mut self, keys: &[u8]) {
        self.behind.extend_from_slice(keys);
    }

    /// The number of kept bytes.
    pub(super) fn kept_behind(&self) -> usize {
        self.behind.len()
    }

    /// True if a user typed text and did not send it.
    pub(super) fn has_unsent_text(&self) -> bool {
        self.unsent.waits()
    }

    /// A user has looked at the box, and says that the next turn may be typed.
    pub(super) fn accept_unsent_text(&mut self) {
        self.unsent.forget();
    }

    /// Processes keys that a user typed. True if they removed the unsent text that held the queue.
    pub(super) fn note_typed(&mut self, keys: &[u8], session: &Session) -> bool {
        if !session.tells {
            return false;
        }
        // Keys for a dialog are no text.
        let had_text = self.unsent.waits();
        let broke_off =
            if session.asks_on_screen() { UnsentText::default().feed(keys) } else { self.unsent.feed(keys) };
        if (had_text || keys.len() > 1) && keys.contains(&ENTER[0]) && !self.unsent.waits() {
            self.sent_at_ms = Some(clock::boot_ms());
        }
        if broke_off {
            if traits_of(session).restores_prompt && works(session) {
                self.unsent.mark_unknown();
            }
            self.check_soon();
        }
        matches!(session.turns.hold, Some(QueueHold::Draft)) && !self.unsent.waits()
    }

    /// Restores the state in a new image: a turn on its way is not typed again, and a user who was typing may
    /// have left text.
    pub(super) fn restore(&mut self, history: &SessionView, person_typed: bool) {
        let session = &history.session;
        let now = clock::boot_ms();
        if let Some(current) = &session.turns.current
            && session.turns.open(current.turn).is_some_and(|turn| turn.state == TurnProgress::Delivered)
        {
            let stage = PasteStage::Sent { until_ms: now + confirm_patience_ms() };
            self.paste = Some(TurnPaste { turn: current.turn, stage, before: vec![] });
        }
        if person_typed {
            self.unsent.mark_unknown();
        }
        // The journal has the last report. The agent may have become idle since, before this image began.
        self.last_report = history.last_report();
        let told_ms = self.last_report.as_ref().map_or_else(clock::wall_ms, |told| told.at.0);
        self.note_work(told_ms);
    }

    // Reports of the agent.

    fn note_work(&mut self, at_ms: u64) {
        (self.busy_at_ms, self.busy_boot_ms) = (at_ms, clock::boot_ms());
    }

    /// Notes the hook that reported, for people.
    pub(super) fn note_hook(&mut self, told: &hook::HookEvent, at_ms: u64) {
        self.last_report = Some(ActivityStatus { how: name_of(told), at: Timestamp(at_ms) });
    }

    /// Notes that the agent took a prompt.
    pub(super) fn note_prompt(&mut self, at_ms: u64) {
        self.note_tool(at_ms);
        // Text that was typed while a turn was on its way is still there.
        if self.paste.is_none() {
            self.unsent.taken();
        }
    }

    /// Notes that the agent uses a tool.
    pub(super) fn note_tool(&mut self, at_ms: u64) {
        self.reported_end = None;
        self.note_work(at_ms);
    }

    /// Notes a question on the agent's screen. Returns the name of the question. `seq` is the number of the last
    /// journalled event: it is higher in each image of the keeper that follows a recorded question, so that no name
    /// repeats within a session. An answer to an old question would otherwise answer a new one.
    pub(super) fn note_question(&mut self, seq: u64, at_ms: u64) -> String {
        self.asked_at_ms = at_ms;
        self.asked += 1;
        self.last_request = format!("screen-{seq}-{}", self.asked);
        self.last_request.clone()
    }

    /// The number of questions that the agent asked.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// The name of the last question.
    pub(super) fn last_request(&self) -> String {
        self.last_request.clone()
    }

    /// The agent reported that it was interrupted, and keeps a list of its own. It may be a reminder of an earlier end:
    /// that comes a minute later. Its own list tells. If the clock was set back meanwhile, the list seems to be older than
    /// its work; a minute later it is not.
    pub(super) fn note_interrupt(&mut self, session: &Session) -> bool {
        let Some(doing) = doing(session) else { return false };
        let busy_ms = clock::boot_ms().saturating_sub(self.busy_boot_ms);
        if busy_ms >= LATE_MS && matches!(doing, RegistryActivity::Idle { .. }) {
            self.busy_at_ms = 0;
        }
        self.check_soon();
        true
    }

    /// Ends a typed turn whose prompt the guard kept from the agent: the turn did nothing.
    pub(super) fn end_blocked_turn(&mut self, why: String, terminal: &mut AgentTerminal) -> Vec<Observation> {
        match self.paste.as_ref().map(|paste| (paste.turn, paste.stage)) {
            Some((turn, PasteStage::Sent { .. })) => {
                self.paste = None;
                self.let_keys_follow(terminal);
                // Every waiting turn would be stopped as well, and mixed with the text in the box.
                let who = format!("{why} (the text that was typed is still in its input box)");
                let hold = QueueHold::ForeignWriter { who };
                let end = TurnEnd::without_answer(FinalState::Failed, why);
                self.unsent.mark_unknown();
                vec![Observation::TurnOver { turn, end }, Observation::Held { hold }]
            }
            Some((_, PasteStage::Pasted { .. })) => vec![],
            // A user typed it, and the agent put it back into its box.
            None => {
                self.unsent.taken();
                self.unsent.mark_unknown();
                vec![]
            }
        }
    }

    // The conversation of the agent.

    /// True for a late report about the agent's previous conversation: hooks are processes of their own, and
    /// may come late.
    pub(super) fn is_of_another_conversation(&self, id: &str, session: &Session) -> bool {
        let known = session.conversation.as_ref().map(|known| known.id.as_str());
        !id.is_empty() && known.is_some_and(|known| known != id) && !self.is_refused_conversation(id)
    }

    /// True if the agent has this conversation open, and another session has the right to write it.
    pub(super) fn is_refused_conversation(&self, id: &str) -> bool {
        self.refused_conversation.as_deref() == Some(id)
    }

    /// Notes whether the conversation that the agent has open may be written.
    pub(super) fn note_conversation(&mut self, id: String, is_refused: bool) {
        self.refused_conversation = is_refused.then_some(id);
    }

    /// Starts a search for the conversation at once; it may take long.
    pub(super) fn expect_conversation(&mut self) {
        self.signs.expect();
    }

    /// The conversation that the agent has open by its own signs, if it is not known otherwise.
    pub(super) fn find_conversation(
        &mut self,
        session: &Session,
        identity: &KeeperIdentity,
    ) -> Option<String> {
        self.signs.find(session, identity)
    }

    /// Keys are about to reach the agent. True if its signs must be read before.
    pub(super) fn needs_look_before(&self, keys: &[u8]) -> bool {
        self.signs.needs_look_before(keys)
    }

    /// Notes keys that may end the first prompt, for which the agent opens a conversation.
    pub(super) fn expect_prompt(&mut self, keys: &[u8]) {
        self.signs.expect_prompt(keys);
    }

    /// The time of the next look for the conversation, on the boot clock.
    pub(super) fn signs_due_ms(&self, session: &Session) -> Option<u64> {
        self.signs.due_ms(session)
    }

    // Activity and time.

    /// Reacts to the agent's current activity; called after each report of it. Returns true while it works.
    pub(super) fn after_edge(&mut self, session: &Session, terminal: &mut AgentTerminal) -> bool {
        let is_unsent = self.paste.as_ref().is_some_and(|paste| {
            session.turns.open(paste.turn).is_some_and(|turn| turn.state == TurnProgress::Delivered)
        });
        if !is_unsent {
            self.paste = None;
            self.let_keys_follow(terminal);
        }
        let works = works(session);
        if works {
            self.remember_at_ms = None;
            self.check_at_ms.get_or_insert(clock::boot_ms() + CHECK_MS);
        } else {
            // The line is removed if no user typed there; more than a line cannot be removed for sure.
            match self.put_back.take() {
                Some(true) if !self.unsent.waits() => terminal.queue_keys(KILL_LINE),
                Some(_) => self.unsent.mark_unknown(),
                None => {}
            }
            self.check_at_ms = None;
        }
        works
    }

    /// Schedules recording the conversation for when the agent has written its end.
    pub(super) fn remember_soon(&mut self) {
        self.remember_at_ms = Some(clock::boot_ms() + WRITTEN_MS);
    }

    /// True once when the conversation is to be recorded.
    pub(super) fn take_remember(&mut self, now: u64) -> bool {
        self.remember_at_ms.take_if(|at| *at <= now).is_some()
    }

    /// Makes the agent break off, as a user at its terminal would.
    pub(super) fn break_off(
        &mut self,
        turn: u64,
        session: &Session,
        terminal: &mut AgentTerminal,
    ) -> Option<Observation> {
        if self.is_typing() {
            // The text was never sent, and stays in the box.
            self.paste = None;
            self.unsent.mark_unknown();
            self.let_keys_follow(terminal);
            let reason = "it was withdrawn before it was sent; its text is in the input box";
            let end = TurnEnd::without_answer(FinalState::Interrupted, reason);
            return Some(Observation::TurnOver { turn, end });
        }
        if traits_of(session).restores_prompt {
            let prompt = session.turns.open(turn).map(|turn| &turn.prompt);
            self.put_back = prompt.map(|prompt| prompt.trim().lines().count() <= 1);
        }
        terminal.queue_keys(ESCAPE);
        self.check_soon();
        None
    }

    /// Notes a key that makes an agent break off. Not every agent reports that.
    fn check_soon(&mut self) {
        if let Some(at) = &mut self.check_at_ms {
            *at = clock::boot_ms() + CHECK_SOON_MS;
        }
    }
}

/// The agents' name for the hook of this report.
fn name_of(told: &hook::HookEvent) -> String {
    let name = match told {
        hook::HookEvent::Started { .. } => "SessionStart",
        hook::HookEvent::Prompt { .. } => "UserPromptSubmit",
        hook::HookEvent::Tool { .. } => "tool use",
        hook::HookEvent::NeedsYou { .. } => "PermissionRequest",
        hook::HookEvent::Stopped { .. } => "Stop",
        hook::HookEvent::Interrupted => "Interrupt",
        hook::HookEvent::Ended { .. } => "SessionEnd",
    };
    format!("{name} hook")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_in_a_new_image_of_the_keeper_never_has_the_name_of_an_old_one() {
        let mut old = TuiTurns::default();
        let mut names: Vec<String> = [7, 7, 8].map(|seq| old.note_question(seq, 0)).into();
        let mut new = TuiTurns::default();
        names.extend([9, 9].map(|seq| new.note_question(seq, 0)));
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
}
