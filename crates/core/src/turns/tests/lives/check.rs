//! Invariants after every step of a life.

use super::super::TurnsScenario;
use super::RandomTurnsScenario;
use crate::turns::{
    AgentCapabilities, FinalState, MOST_ASKS, MOST_OVER_KEPT, MOST_QUEUED, QueueHold, ReleaseReason,
    SessionTurns, StartDeadline, TurnLookup, TurnProgress,
};
use crate::{Command, Effect, Observation, ProcessExit, RunPhase, Session, decide, effects, observe};

impl RandomTurnsScenario {
    /// Invariants at a moment without activity.
    pub(super) fn check(&self) {
        let session = &self.story.session;
        let turns = &session.turns;
        assert_eq!(Session::replay(&self.story.events), *session, "replay leads elsewhere than life did");
        self.check_places(turns);
        self.check_window(turns);
        assert!(turns.asks.len() <= MOST_ASKS);
        let is_live = session.is_live();
        assert!(is_live || (turns.current.is_none() && turns.ready.is_none() && turns.asks.is_empty()));
        assert!(turns.current.is_none() || turns.ready.is_some(), "only an agent that takes turns has one");
        let is_quiet = turns.ready.is_some() && turns.current.is_none() && turns.queue.is_empty();
        assert_eq!(turns.quiet_since_boot_ms.is_some(), is_quiet, "it is quiet if it has nothing to do");
        if let Some(retry) = turns.hold.as_ref().and_then(QueueHold::retry) {
            assert!(turns.queue.contains(&retry), "a back-off is before a turn that waits");
        }
        self.check_owed();
        self.check_that_time_does_not_stand_still();
        self.check_that_agents_are_not_tried_for_ever();
    }

    /// Each turn is in one place: in the queue, with the agent, or over.
    fn check_places(&self, turns: &SessionTurns) {
        let mut with_agent: Vec<u64> = turns.current.iter().map(|current| current.turn).collect();
        with_agent.extend(turns.current.iter().flat_map(|current| current.steered.iter().copied()));
        let mut waiting = self.story.queue();
        with_agent.sort_unstable();
        waiting.sort_unstable();
        let (mut delivered, mut queued) = (Vec::new(), Vec::new());
        for (turn, (_, state)) in &self.seen.turns {
            assert_eq!(self.story.state(*turn), *state, "turn {turn}");
            match state {
                TurnProgress::Queued => queued.push(*turn),
                TurnProgress::Delivered | TurnProgress::Working => delivered.push(*turn),
                TurnProgress::Over(_) => {}
            }
        }
        assert_eq!((waiting, with_agent), (queued, delivered));
        assert!(turns.queue.len() <= MOST_QUEUED);
        assert_eq!(turns.last(), self.seen.accepted);
    }

    /// Memory has the turns that are not over and the last that are, and no others.
    fn check_window(&self, turns: &SessionTurns) {
        let (evicted, kept) = self.seen.ended.split_at(self.seen.ended.len().saturating_sub(MOST_OVER_KEPT));
        for turn in kept {
            assert!(matches!(turns.find(*turn), TurnLookup::Here(_)), "turn {turn} ended just now");
        }
        for turn in evicted {
            assert_eq!(turns.find(*turn), TurnLookup::Past, "turn {turn} ended long ago");
            assert_eq!(turns.open(*turn), None);
        }
        let open = self.seen.turns.values().filter(|(_, state)| !state.is_over()).count();
        assert_eq!(turns.window.len(), open + kept.len());
        for turn in [0, turns.last() + 1] {
            assert_eq!(turns.find(turn), TurnLookup::Absent);
        }
        let given = || self.seen.turns.iter().filter(|(_, (times, _))| *times > 0);
        let done =
            self.seen.turns.iter().filter(|(_, (_, state))| *state == TurnProgress::Over(FinalState::Done));
        assert_eq!(turns.given_total, given().count() as u64);
        assert_eq!(turns.last_given, given().map(|(turn, _)| *turn).max().unwrap_or_default());
        assert_eq!(turns.last_done, done.map(|(turn, _)| *turn).max().unwrap_or_default());
    }

    fn check_owed(&self) {
        let session = &self.story.session;
        let turns = &session.turns;
        let is_running = matches!(session.phase, RunPhase::Running { .. });
        let cancel = turns.current.as_ref().filter(|current| current.cancel.is_some());
        let owed = effects(session);
        for effect in &owed {
            match effect {
                Effect::Say { turn } => {
                    let has = turns.current.iter().any(|it| it.turn == *turn || it.steered.contains(turn));
                    assert!(is_running && has, "{effect:?}");
                    assert_eq!(self.story.state(*turn), TurnProgress::Delivered, "said, and heard");
                }
                Effect::Interrupt { turn } => {
                    assert!(is_running && cancel.is_some_and(|it| it.turn == *turn), "{effect:?}");
                }
                Effect::Deliver { turn } => {
                    assert!(is_running && turns.ready.is_some() && turns.hold.is_none(), "{effect:?}");
                    assert_eq!(turns.queue.front(), Some(turn));
                }
                Effect::NextRun { .. } => {
                    let may = !self.seen.is_stopped
                        && !self.seen.is_archived
                        && session.released != Some(ReleaseReason::Expired);
                    let is_held = turns.hold.as_ref().is_some_and(|hold| hold.retry().is_none());
                    assert!(may && !is_held && !turns.queue.is_empty(), "{effect:?}");
                    assert!(!owed.contains(&Effect::Leave));
                }
                Effect::Leave => assert!(!session.is_live()),
                Effect::Spawn { .. }
                | Effect::Terminate { .. }
                | Effect::Kill { .. }
                | Effect::Prove { .. }
                | Effect::WakeAt { .. } => {}
            }
        }
        let interrupts = owed.iter().filter(|effect| matches!(effect, Effect::Interrupt { .. })).count();
        assert_eq!(interrupts, usize::from(is_running && cancel.is_some()));
    }

    /// A keeper that wakes when asked to finds something to do, and then something else: a loop cannot spin.
    fn check_that_time_does_not_stand_still(&self) {
        let (mut session, mut now) = (self.story.session.clone(), self.story.now);
        for _ in 0..4 {
            let wakes_at = effects(&session).into_iter().find_map(|effect| match effect {
                Effect::WakeAt { boot_ms } => Some(boot_ms),
                _ => None,
            });
            let Some(at) = wakes_at else { return };
            now.boot_ms = now.boot_ms.max(at);
            let events = observe(&session, &Observation::Tick, now);
            assert!(!events.is_empty(), "woken at {at} for nothing: {:?}", session);
            events.iter().for_each(|event| session.apply(event));
        }
        // A queue with many deadlines has as many reasons to wake, each later than the one before.
        let waits = session.turns.queue.iter().filter_map(|turn| session.turns.open(*turn)?.start_by.clone());
        let late = |by: &StartDeadline| by.boot == self.story.boot() && by.boot_ms <= now.boot_ms;
        assert_eq!(waits.filter(late).count(), 0, "woken again and again: {session:?}");
    }

    /// An agent that never takes a turn is not started over and over.
    fn check_that_agents_are_not_tried_for_ever(&self) {
        let mut story =
            TurnsScenario { events: Vec::new(), session: self.story.session.clone(), ..self.story };
        for _ in 0..4 {
            let epoch = story.session.epoch;
            if !story.owed().contains(&Effect::NextRun { epoch }) {
                return;
            }
            let keeper = story.process(7);
            let start =
                Command::Start { epoch: epoch.next(), keeper, output_from: 0, boundary: Default::default() };
            let Ok(events) = decide(&story.session, start, story.now) else { return };
            story.apply(&events);
            let epoch = story.session.epoch;
            for report in [
                Observation::Spawned { epoch, agent: story.process(8) },
                Observation::AgentReady { epoch, able: AgentCapabilities::default() },
                Observation::Exited { epoch, exit: ProcessExit::Code(0), oom: false },
                Observation::Empty { epoch },
            ] {
                let events = observe(&story.session, &report, story.now);
                story.apply(&events);
            }
        }
        panic!("an agent that takes no turn is started again and again: {:?}", story.session);
    }
}
