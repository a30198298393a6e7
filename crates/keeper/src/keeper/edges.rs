//! An agent in a terminal that tells through its hooks: what it tells, and when it is looked at because it does not.
//!
//! Promise: a hook counts only if it comes from the run's own agent, which is looked up and not told; the end of a turn
//! counts only with the agent's own record (`proof`).
//! Not here: how a turn is typed for somebody (`paste`), what was typed by hand (`typing`), what follows for turns
//! (`berth_core`), what an agent calls its hooks.
//! Start with [`Keeper::on_hook`].

mod paste;
mod proof;

use std::time::Duration;

use berth_api::Problem;
use berth_api::hook::{self, Report};
use berth_api::message::{Answer, Notice};
use berth_api::status::{Timestamp, ToldStatus};
use berth_core::{Actor, Command, Final, Hold, Observation, Phase, Told, TurnEnd, TurnState};
use berth_driver::AgentTraits;
use berth_host::clock;
use berth_store::conversations::LOCK_PATIENCE;
use berth_store::killpoint;

use super::Keeper;
use super::own_signs::OwnSigns;
use super::typing::Typing;
use crate::callers::Peer;
use crate::owner::Input;
use crate::writers::{self, Doing};
use crate::{ancestry, turn};
pub(super) use paste::Typable;
use paste::{Paste, Stage, confirm_patience_ms, echo_patience_ms};
use proof::{RecordPosition, ReportedEnd};

/// How long the terminal is quiet after a paste before Enter is pressed: an Enter that comes while a paste is being
/// taken in is swallowed by some agents.
const SETTLED_MS: u64 = 150;
/// How long an agent that was started with hooks may take to tell something, once something waits for it.
const TELL_PATIENCE: Duration = Duration::from_secs(60);
/// How long a terminal is quiet before an agent that tells nothing at its start is believed to listen.
const LISTENING_MS: u64 = 1500;
/// How long after its last word an agent's reminder that it has nothing to do is about that, and not about an end before:
/// such a reminder comes a minute after the end it is about.
const LATE_MS: u64 = 50_000;
/// How often an agent that works is asked whether it still does, by what it writes down of itself.
const LOOK_MS: u64 = 1000;
/// The same when it was just told to break off.
const LOOK_SOON_MS: u64 = 100;
/// How long after an end an agent may take to write down what it said. The next turn waits no less.
const WRITTEN_MS: u64 = 450;
/// How long after an end an agent's run is not ended for another interface.
const SETTLED_END_MS: u64 = 500;
/// What an agent calls it when it opens its own conversation again because that was made shorter.
const COMPACTS: &str = "compact";
/// How long the terminal of an agent that paints while it works is quiet before its record is asked.
const STILL_MS: u64 = 3000;
/// The same where no turn of ours is in its record.
const STILL_LONG_MS: u64 = 30_000;
const ENTER: &[u8] = b"\r";
const ESCAPE: &[u8] = b"\x1b";
/// Takes back the line in the box.
const KILL_LINE: &[u8] = b"\x15";

/// What a keeper knows of the terminal's agent and has in no journal.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// What somebody typed and did not send.
    pub(super) typing: Typing,
    /// When its conversation is looked for.
    pub(super) signs: OwnSigns,
    /// The turn that is being typed.
    paste: Option<Paste>,
    /// Keys that came while a turn is typed. They follow it.
    behind: Vec<u8>,
    /// When the terminal last showed something, on the boot clock.
    shown_at_ms: u64,
    /// When the agent last told that it works, on the wall clock, as it says itself.
    busy_at_ms: u64,
    /// The same on the boot clock, when it was heard.
    busy_boot_ms: u64,
    /// What it told last.
    told: Option<ToldStatus>,
    /// When to look whether it still works, on the boot clock.
    look_at_ms: Option<u64>,
    /// Since when something waits for an agent that has told nothing, on the boot clock.
    awaited_since_ms: Option<u64>,
    /// When somebody last sent what they had typed, on the boot clock.
    sent_at_ms: Option<u64>,
    /// When the agent last told of an end, on the boot clock.
    ended_at_ms: Option<u64>,
    /// A conversation that somebody else writes, as was told already.
    conflict: Option<String>,
    /// Since when a turn waits for the terminal to take it, on the boot clock.
    due_since_ms: Option<u64>,
    /// A turn of ours was broken off, and its prompt may be in the box again; whether that is one line.
    put_back: Option<bool>,
    /// When it last asked something on its screen, on the wall clock, as it says itself.
    asked_at_ms: u64,
    /// How many questions it asked on its screen since this image of the keeper began.
    asked: u64,
    /// The name of the question that it asked last.
    last_request: String,
    /// When to remember its conversation as it is, on the boot clock: an agent tells an end before it has written it.
    remember_at_ms: Option<u64>,
    /// An end that a hook reported and that is not proven yet.
    reported_end: Option<ReportedEnd>,
    /// Where the agent's record ended when the turn it has was typed.
    record_position: Option<RecordPosition>,
}

impl Desk {
    /// Whether a turn is being typed and is not sent: nobody else types meanwhile.
    pub(super) fn is_typing(&self) -> bool {
        matches!(self.paste, Some(Paste { stage: Stage::Pasted { .. }, .. }))
    }

    /// Keys that wait until it is sent.
    pub(super) fn keep_behind(&mut self, keys: &[u8]) {
        self.behind.extend_from_slice(keys);
    }

    pub(super) fn kept_behind(&self) -> usize {
        self.behind.len()
    }

    /// The terminal shows something.
    pub(super) fn shown(&mut self) {
        self.shown_at_ms = clock::boot_ms();
        self.signs.shown();
    }

    /// When what it told of its last end is written down, on the boot clock.
    pub(super) fn settled_at_ms(&self) -> Option<u64> {
        self.ended_at_ms.map(|at| at + SETTLED_END_MS)
    }

    /// It told that it works.
    fn works(&mut self, at_ms: u64) {
        (self.busy_at_ms, self.busy_boot_ms) = (at_ms, clock::boot_ms());
    }

    /// Names the next question. `seq` is the number of the last journalled event: it is higher in each image of the
    /// keeper that follows a recorded question, so that no name repeats within a session. An answer to an old question
    /// would otherwise answer a new one.
    fn name_question(&mut self, seq: u64) -> String {
        self.asked += 1;
        self.last_request = format!("screen-{seq}-{}", self.asked);
        self.last_request.clone()
    }

    pub(super) fn told(&self) -> Option<ToldStatus> {
        self.told.clone()
    }
}

impl Keeper {
    /// Takes what an agent tells, if it is this run's.
    pub(super) fn on_hook(&mut self, key: u64, mut report: Report) -> Result<Option<Answer>, Problem> {
        let session = &self.owner.history().session;
        let kind = session.spec.as_ref().map(|spec| spec.conversation.as_str());
        let agent = session.agent().map(|agent| agent.pid);
        let is_ours = session.has_terminal() && !report.kind.is_empty() && kind == Some(report.kind.as_str());
        let client = self.clients.get(&key);
        let own = agent.zip(client).filter(|_| is_ours).is_some_and(|(agent, client)| {
            let peer = client.actor.pid;
            // What was seen is about whoever asks only if that still has its number.
            let own = ancestry::is_told_by(peer, agent) && !client.peer.as_ref().is_some_and(Peer::is_gone);
            tracing::debug!(peer, agent, own, "a hook");
            own
        });
        // The agent waits, and learns nothing from the answer: whose hook it is can be seen only while it waits, and
        // that is all it has to wait for. What it told is recorded before anybody else is answered.
        // But one that asks may wait for the answer: its agent shows the question meanwhile.
        let may_wait = own && self.has_room_for_hook();
        if let hook::Told::NeedsYou { waits, .. } = &mut report.told {
            *waits &= may_wait;
        }
        let waits = matches!(report.told, hook::Told::NeedsYou { waits: true, .. });
        if !waits {
            self.answer(key, &Answer::Heard);
            self.flush(key);
        }
        let asked_before = self.desk.asked;
        if own {
            // Nobody tells it again, and a new image would not know of it.
            self.undisturbed(|keeper| keeper.hear_hook(report));
        }
        if waits {
            let request = (self.desk.asked > asked_before).then(|| self.desk.last_request.clone());
            self.await_answer(key, request);
        }
        Ok(None)
    }

    /// The guard kept the agent from taking a prompt. The one that was typed for somebody is over: it did nothing.
    fn on_held_up(&mut self, why: String) {
        match self.desk.paste.as_ref().map(|paste| (paste.turn, paste.stage)) {
            Some((turn, Stage::Sent { .. })) => {
                self.desk.paste = None;
                self.let_keys_follow();
                // Whatever waits would be held up as well, and joined with what stayed in the box.
                let who = format!("{why} (the text that was typed is still in its input box)");
                let hold = Hold::ForeignWriter { who };
                let end = TurnEnd::without_answer(Final::Failed, why);
                self.desk.typing.doubt();
                self.report(vec![Observation::TurnOver { turn, end }, Observation::Held { hold }]);
            }
            Some((_, Stage::Pasted { .. })) => {}
            // Somebody typed it, and the agent put it back into its box.
            None => {
                self.desk.typing.taken();
                self.desk.typing.doubt();
            }
        }
        self.after_edge();
    }

    fn hear_hook(&mut self, report: Report) {
        if let Some(why) = report.held_up {
            return self.on_held_up(why);
        }
        // The second report of an end, where its hooks are trusted, may come when the next turn has begun. Where they are
        // not, something was said, and its signs tell in which conversation.
        let is_ended = matches!(report.told, hook::Told::Stopped { .. });
        if is_ended && self.traits().tells_ends_twice && report.transcript.is_none() {
            return self.look_for_conversation();
        }
        let Report { conversation_id, at_ms, told, model, .. } = report;
        let opens = matches!(told, hook::Told::Started { .. } | hook::Told::Prompt { .. });
        if !opens && self.is_of_another_conversation(&conversation_id) {
            return;
        }
        if let Some(model) = model {
            self.extras.uses(model);
        }
        let epoch = self.owner.history().session.epoch;
        let mut reports = Vec::new();
        // Whoever opens a conversation reads all of it, unless it only makes what it has shorter.
        let reads = matches!(&told, hook::Told::Started { how } if how != COMPACTS);
        // What was closed is no longer written; what is open next is told in a moment.
        if !matches!(told, hook::Told::Ended { .. }) {
            self.follow_conversation(conversation_id, opens, reads, &mut reports);
        }
        self.desk.told = Some(ToldStatus { how: name_of(&told), at: Timestamp(at_ms) });
        let told = match told {
            hook::Told::Started { .. } => Some(Told::Started),
            hook::Told::Prompt { text } => {
                self.desk.reported_end = None;
                self.desk.works(at_ms);
                // What was typed while ours was on its way is still there.
                if self.desk.paste.is_none() {
                    self.desk.typing.taken();
                }
                self.extras.prompted(&text);
                Some(Told::Prompt { text })
            }
            hook::Told::Tool { .. } => {
                self.desk.reported_end = None;
                self.desk.works(at_ms);
                Some(Told::Tool)
            }
            hook::Told::NeedsYou { what, waits } => {
                let request = self.desk.name_question(self.owner.history().seq);
                self.desk.asked_at_ms = at_ms;
                Some(Told::NeedsYou { request, what, answerable: waits })
            }
            hook::Told::Stopped { answer } => {
                // The answer of a turn of ours counts once it is proven.
                if let Some(answer) = answer.as_deref().filter(|_| self.turn_to_prove().is_none()) {
                    self.extras.answered(answer);
                }
                self.end_reported(ReportedEnd::stopped(answer))
            }
            hook::Told::Interrupted if self.doing().is_some() => {
                // It may be a reminder of an earlier end: that comes a minute later. Its own list tells. If the clock was
                // set back meanwhile, the list seems to be older than its work; a minute later it is not.
                let busy_ms = clock::boot_ms().saturating_sub(self.desk.busy_boot_ms);
                if busy_ms >= LATE_MS && matches!(self.doing(), Some(Doing::Idle { .. })) {
                    self.desk.busy_at_ms = 0;
                }
                self.look_soon();
                None
            }
            hook::Told::Interrupted => self.end_reported(ReportedEnd::interrupted()),
            hook::Told::Ended { .. } => None,
        };
        reports.extend(told.map(|told| Observation::Told { epoch, told }));
        self.report(reports);
        if reads {
            self.remember_conversation();
        }
        self.after_edge();
    }

    /// Hooks are processes of their own, and may come late: what was told of the conversation that the agent had before
    /// says nothing about the one it has.
    fn is_of_another_conversation(&self, id: &str) -> bool {
        let known = self.owner.history().session.conversation.as_ref().map(|known| known.id.as_str());
        !id.is_empty() && known.is_some_and(|known| known != id) && self.desk.conflict.as_deref() != Some(id)
    }

    /// Who follows the turn hears what the agent said, all at once: a terminal has no pieces of it.
    fn tell_answer(&mut self, answer: Option<&str>) {
        let session = &self.owner.history().session;
        let turns = &session.turns;
        let is_its_own = session.edges.is_none_or(|edges| edges.before == 0);
        let working = turns.current.as_ref().map(|current| current.turn).filter(|_| is_its_own);
        let working =
            working.filter(|turn| turns.open(*turn).is_some_and(|it| it.state == TurnState::Working));
        if let (Some(turn), Some(text)) = (working, answer.filter(|answer| !answer.is_empty())) {
            self.tell_followers(turn, &Notice::Said { turn, text: text.to_owned() });
        }
    }

    /// The agent has this conversation open from now on. If somebody else of ours writes it, that is said. `opens`: it
    /// says that it does; `reads`: and has read what is there.
    pub(super) fn follow_conversation(
        &mut self,
        id: String,
        opens: bool,
        reads: bool,
        reports: &mut Vec<Observation>,
    ) {
        // Waiting for a lock holds everything up: what is known to be somebody else's is not asked for at every tool.
        let is_refused = self.desk.conflict.as_ref() == Some(&id);
        if id.is_empty() || (is_refused && !opens) {
            return;
        }
        let before = reports.len();
        let patience = if is_refused { Duration::ZERO } else { LOCK_PATIENCE };
        self.enter_within(id.clone(), patience, reports);
        let conflict = reports[before..].iter().any(|report| matches!(report, Observation::Held { .. }));
        self.desk.conflict = conflict.then_some(id);
        let was_held = matches!(self.owner.history().session.turns.hold, Some(Hold::ForeignWriter { .. }));
        if was_held && !conflict && (reads || reports.len() > before) {
            // It went on to one that nobody else writes, or has read what somebody else said.
            let place = "the agent: another conversation, or read again".to_owned();
            let by = Actor { pid: self.me.pid, uid: None, place };
            let go_on = Command::GoOn { by };
            if self.writing.is_busy {
                self.writing.heard.push(Input::Command(go_on));
            } else {
                let _ = self.order(go_on);
            }
        }
    }

    /// What is looked at from now on follows from what the agent does.
    pub(super) fn after_edge(&mut self) {
        let session = &self.owner.history().session;
        let unsent = self.desk.paste.as_ref().is_some_and(|paste| {
            session.turns.open(paste.turn).is_some_and(|turn| turn.state == TurnState::Delivered)
        });
        let works = session.edges.is_some_and(|edges| edges.working);
        if !unsent {
            self.desk.paste = None;
            self.let_keys_follow();
        }
        if works {
            self.forget_conversation();
            self.desk.remember_at_ms = None;
        } else if self.seen.is_none() {
            self.note_end();
            self.desk.remember_at_ms = Some(clock::boot_ms() + WRITTEN_MS);
        }
        if !works {
            // Taken back if nobody else typed there; more than a line cannot be taken back for sure.
            match self.desk.put_back.take() {
                Some(true) if !self.desk.typing.waits() => self.queue_keys(KILL_LINE),
                Some(_) => self.desk.typing.doubt(),
                None => {}
            }
            self.desk.look_at_ms = None;
        } else if self.desk.look_at_ms.is_none() {
            self.desk.look_at_ms = Some(clock::boot_ms() + LOOK_MS);
        }
    }

    /// Has the agent break off, as somebody at its terminal would.
    pub(super) fn break_off_in_terminal(&mut self, turn: u64) {
        if self.desk.is_typing() {
            // It was never sent, and stays in the box.
            self.desk.paste = None;
            self.desk.typing.doubt();
            self.let_keys_follow();
            let reason = "it was withdrawn before it was sent; its text is in the input box";
            let end = TurnEnd::without_answer(Final::Interrupted, reason);
            return self.report(vec![Observation::TurnOver { turn, end }]);
        }
        let prompt = self.owner.history().session.turns.open(turn).map(|turn| turn.prompt.clone());
        if self.traits().restores_prompt {
            self.desk.put_back = prompt.map(|prompt| prompt.trim().lines().count() <= 1);
        }
        self.queue_keys(ESCAPE);
        self.look_soon();
    }

    /// Somebody pressed a key that breaks off what an agent does. Not every agent tells.
    pub(super) fn look_soon(&mut self) {
        if self.desk.look_at_ms.is_some() {
            self.desk.look_at_ms = Some(clock::boot_ms() + LOOK_SOON_MS);
        }
    }

    /// What was typed by hand, or was not.
    pub(super) fn typed_by_hand(&mut self, keys: &[u8]) {
        let session = &self.owner.history().session;
        if !session.tells {
            return;
        }
        // Keys for a dialog are no text.
        let had_text = self.desk.typing.waits();
        let broke_off =
            if session.asks_on_screen() { Typing::default().feed(keys) } else { self.desk.typing.feed(keys) };
        if (had_text || keys.len() > 1) && keys.contains(&ENTER[0]) && !self.desk.typing.waits() {
            self.desk.sent_at_ms = Some(clock::boot_ms());
        }
        if broke_off {
            if self.traits().restores_prompt
                && self.owner.history().session.edges.is_some_and(|edges| edges.working)
            {
                self.desk.typing.doubt();
            }
            self.look_soon();
        }
        let is_held = matches!(self.owner.history().session.turns.hold, Some(Hold::Draft));
        if is_held && !self.desk.typing.waits() {
            self.report(vec![Observation::DraftGone]);
        }
    }

    /// A new image: what is on its way is not typed again, and who was typing may have left something.
    pub(super) fn type_no_more(&mut self, somebody_typed: bool) {
        let session = &self.owner.history().session;
        if !session.tells || !session.has_terminal() {
            return;
        }
        let now = clock::boot_ms();
        if let Some(current) = &session.turns.current
            && session.turns.open(current.turn).is_some_and(|turn| turn.state == TurnState::Delivered)
        {
            let stage = Stage::Sent { until_ms: now + confirm_patience_ms() };
            self.desk.paste = Some(Paste { turn: current.turn, stage, before: vec![] });
        }
        if somebody_typed {
            self.desk.typing.doubt();
        }
        // When it told what is in the journal. It may have become idle since, before this image began.
        self.desk.told = self.owner.history().told();
        let told_ms = self.desk.told.as_ref().map_or_else(clock::wall_ms, |told| told.at.0);
        self.desk.works(told_ms);
        self.hooks_are_gone();
        self.after_edge();
    }

    /// When something about the terminal's agent is due, on the boot clock.
    pub(super) fn edges_due_ms(&self) -> Option<u64> {
        let session = &self.owner.history().session;
        if !session.tells || !matches!(session.phase, Phase::Running { .. }) || !session.has_terminal() {
            return None;
        }
        let paste = self.desk.paste.as_ref().map(|paste| match paste.stage {
            Stage::Pasted { since_ms } if !self.keys.is_empty() => since_ms + echo_patience_ms(),
            Stage::Pasted { since_ms } if self.desk.shown_at_ms < since_ms => since_ms + echo_patience_ms(),
            Stage::Pasted { .. } => self.desk.shown_at_ms + SETTLED_MS,
            Stage::Sent { until_ms } => until_ms,
        });
        let awaited = if session.edges.is_some() || session.turns.hold.is_some() {
            None
        } else if self.traits().tells_late {
            Some(self.desk.shown_at_ms + LISTENING_MS)
        } else {
            self.desk.awaited_since_ms.map(|since| since + TELL_PATIENCE.as_millis() as u64)
        };
        // A time that has passed and changed nothing is asked for again, but not at once.
        let now = clock::boot_ms();
        let typable = self.desk.due_since_ms.map(|_| now + SETTLED_MS);
        let proof = self.desk.reported_end.as_ref().map(ReportedEnd::look_at_ms);
        let due = [paste, awaited, typable, proof, self.desk.look_at_ms, self.desk.remember_at_ms];
        let due = due.into_iter().flatten().min()?;
        Some(if due <= now { now + SETTLED_MS } else { due })
    }

    /// What its agent does in its own way.
    fn traits(&self) -> AgentTraits {
        let spec = self.owner.history().session.spec.as_ref();
        AgentTraits::of(spec.map_or("", |spec| spec.conversation.as_str()))
    }

    pub(super) fn on_edges_time(&mut self) {
        let session = &self.owner.history().session;
        if !session.tells || !session.has_terminal() || !matches!(session.phase, Phase::Running { .. }) {
            return;
        }
        let now = clock::boot_ms();
        if session.edges.is_none() {
            self.await_first_word(now);
        }
        if self.desk.remember_at_ms.is_some_and(|at| at <= now) {
            self.desk.remember_at_ms = None;
            self.remember_end();
        }
        if self.desk.due_since_ms.is_some() {
            // If it is not due any more, nothing comes of it.
            self.desk.due_since_ms =
                self.desk.due_since_ms.filter(|_| self.owner.history().session.due_turn().is_some());
            self.deliver_again();
        }
        self.on_paste_time(now);
        self.on_proof_time(now);
        if self.desk.look_at_ms.is_some_and(|at| at <= now) {
            self.desk.look_at_ms = Some(now + LOOK_MS);
            self.look_whether_it_works();
        }
    }

    /// An agent that has told nothing yet: one that never does before its first prompt is believed to listen when its
    /// terminal takes pastes and is quiet; for any other, what waits is held after a while.
    fn await_first_word(&mut self, now: u64) {
        let session = &self.owner.history().session;
        let epoch = session.epoch;
        if self.traits().tells_late {
            let quiet = self.desk.shown_at_ms > 0 && self.desk.shown_at_ms + LISTENING_MS <= now;
            if quiet && self.screen.takes_paste() {
                self.report(vec![Observation::Told { epoch, told: Told::Started }]);
            } else if quiet {
                // Something else is in its place. It paints when that is over.
                self.desk.shown_at_ms = now;
            }
            return;
        }
        if session.turns.queue.is_empty() || session.turns.hold.is_some() {
            self.desk.awaited_since_ms = None;
            return;
        }
        let since = *self.desk.awaited_since_ms.get_or_insert(now);
        let patience = killpoint::patience("BERTH_READY_MS", TELL_PATIENCE).as_millis() as u64;
        if since + patience <= now {
            let reason = format!(
                "its hooks have not told within {} s that it takes a prompt; look at it with `berth attach`",
                TELL_PATIENCE.as_secs()
            );
            self.report(vec![Observation::Held { hold: Hold::AgentFailed { reason } }]);
        }
    }

    /// What the agent's own list says that it does, if it has one that says.
    fn doing(&self) -> Option<Doing> {
        let session = &self.owner.history().session;
        let (spec, agent) = (session.spec.as_ref()?, session.agent()?);
        let env = turn::where_kept(spec, session.conversation.as_ref());
        writers::doing(&spec.conversation, agent.pid, env)
    }

    /// Whether the agent's own list says that it works.
    pub(super) fn says_it_works(&self) -> bool {
        matches!(self.doing(), Some(Doing::Busy { .. }))
    }

    /// Asks what the agent writes down of itself: not every end is told by a hook.
    pub(super) fn look_whether_it_works(&mut self) {
        let session = &self.owner.history().session;
        if !session.edges.is_some_and(|edges| edges.working) {
            self.desk.look_at_ms = None;
            return;
        }
        // The proof of a reported end looks at the record already, and decides.
        if self.desk.reported_end.is_some() {
            return;
        }
        if self.traits().paints_while_working {
            return self.look_into_record();
        }
        let epoch = session.epoch;
        match self.doing() {
            Some(Doing::Idle { since_ms }) if since_ms > self.desk.busy_at_ms => {}
            // Somebody answered what it asked, and the tool runs; no hook tells before that is over.
            Some(Doing::Busy { since_ms })
                if session.asks_on_screen() && (1..since_ms).contains(&self.desk.asked_at_ms) =>
            {
                return self.report(vec![Observation::Told { epoch, told: Told::GoesOn }]);
            }
            Some(Doing::Idle { .. } | Doing::Busy { .. } | Doing::Other) | None => return,
        }
        let end = turn::of_quiet_agent(self.owner.history(), &self.id);
        self.desk.told = Some(ToldStatus {
            how: "the agent's own list of sessions".to_owned(),
            at: Timestamp(clock::wall_ms()),
        });
        self.report(vec![Observation::Told { epoch, told: Told::Quiet { end } }]);
        self.after_edge();
    }

    /// The same for an agent that keeps no list: it paints as long as it works. An end that no hook tells (the model
    /// could not be reached) is in its record.
    fn look_into_record(&mut self) {
        let session = &self.owner.history().session;
        let still_ms = clock::boot_ms().saturating_sub(self.desk.shown_at_ms);
        if still_ms < STILL_MS || session.asks_on_screen() {
            return;
        }
        let epoch = session.epoch;
        let has_turn = session.turns.current.is_some();
        let end = turn::recorded_end(self.owner.history(), &self.id);
        if end.is_none() && (has_turn || still_ms < STILL_LONG_MS) {
            // Reading it takes as long as it is large: the longer nothing happens, the more rarely it is read.
            self.desk.look_at_ms = Some(clock::boot_ms() + still_ms.clamp(LOOK_MS, STILL_LONG_MS));
            return;
        }
        self.desk.told =
            Some(ToldStatus { how: "the agent's own record".to_owned(), at: Timestamp(clock::wall_ms()) });
        self.report(vec![Observation::Told { epoch, told: Told::Quiet { end } }]);
        self.after_edge();
    }
}

/// What agents call the hook that told this.
fn name_of(told: &hook::Told) -> String {
    let name = match told {
        hook::Told::Started { .. } => "SessionStart",
        hook::Told::Prompt { .. } => "UserPromptSubmit",
        hook::Told::Tool { .. } => "tool use",
        hook::Told::NeedsYou { .. } => "PermissionRequest",
        hook::Told::Stopped { .. } => "Stop",
        hook::Told::Interrupted => "Interrupt",
        hook::Told::Ended { .. } => "SessionEnd",
    };
    format!("{name} hook")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_in_a_new_image_of_the_keeper_never_has_the_name_of_an_old_one() {
        let mut old = Desk::default();
        let mut names: Vec<String> = [7, 7, 8].map(|seq| old.name_question(seq)).into();
        let mut new = Desk::default();
        names.extend([9, 9].map(|seq| new.name_question(seq)));
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
}
