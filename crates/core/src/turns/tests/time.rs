//! Deadlines: idleness, turns that come too late, sessions whose time to live has ended.

use std::time::Duration;

use super::{IDLE_MS, TurnsScenario, actor, prompt};
use crate::turns::{FinalState, RELEASE_GRACE, ReleaseReason, SessionExpiry, TurnProgress, TurnPrompt};
use crate::{
    Command, Effect, Epoch, Event, Observation, ProcessExit, Refusal, RunPhase, SessionPolicy, SessionState,
};

/// H2: after a host slept, nothing that runs has expired, and nothing that waits without a limit.
#[test]
fn h2_eight_hours_of_sleep_end_no_turn() {
    let mut story =
        TurnsScenario::ready(SessionPolicy { idle_ms: Some(IDLE_MS), ..SessionPolicy::default() });
    story.send(prompt("one")).expect("there is room");
    story.deliver();
    story.send(prompt("two")).expect("there is room");
    assert_eq!(story.pass(8 * 3_600_000), vec![]);
    assert_eq!((story.state(1), story.queue()), (TurnProgress::Delivered, vec![2]));
}

/// H2, H5: an idle agent is released once, at a boundary between turns, and the next turn brings it back.
#[test]
fn h5_idleness_is_counted_from_the_last_turn() {
    let mut story =
        TurnsScenario::ready(SessionPolicy { idle_ms: Some(IDLE_MS), ..SessionPolicy::default() });
    assert_eq!(story.pass(IDLE_MS - 1), vec![]);
    story.send(prompt("one")).expect("there is room");
    story.deliver();
    assert_eq!(story.pass(IDLE_MS * 2), vec![], "a working agent is not idle");
    story.over(1, FinalState::Done);
    assert_eq!(story.wakes_at(), Some(story.now.boot_ms + IDLE_MS));
    assert_eq!(story.pass(IDLE_MS - 1), vec![]);
    assert!(matches!(&story.pass(1)[..], [Event::RunReleased { why: ReleaseReason::Idle, .. }]));
    assert_eq!(story.pass(1), vec![], "once");
    story.send(prompt("two")).expect("a run that berth ends is no reason to refuse");
    story.end_run();
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch: Epoch(1) }]);
    story.start_ready();
    assert_eq!(story.deliver(), 2);
}

#[test]
fn a_session_that_was_released_for_idleness_is_called_idle() {
    let mut story =
        TurnsScenario::ready(SessionPolicy { idle_ms: Some(IDLE_MS), ..SessionPolicy::default() });
    story.pass(IDLE_MS);
    story.end_run();
    assert_eq!(story.session.state(false), SessionState::Idle);
    assert_eq!(story.owed(), vec![Effect::Leave]);
}

/// `--max-wait`: the turn either runs or is withdrawn, never both.
#[test]
fn a_turn_that_was_not_started_in_time_is_withdrawn() {
    let mut story = TurnsScenario::working(&[]);
    let start_by = story.in_ms(100);
    story.send(TurnPrompt { start_by, ..prompt("soon") }).expect("there is room");
    story.send(prompt("whenever")).expect("there is room");
    assert_eq!(story.wakes_at(), Some(story.now.boot_ms + 100));
    assert_eq!(story.pass(99), vec![]);
    assert_eq!(story.pass(1).len(), 1);
    assert_eq!(story.state(2), TurnProgress::Over(FinalState::Cancelled));
    story.over(1, FinalState::Done);
    assert_eq!(story.deliver(), 3);
    assert_eq!(story.pass(1_000_000), vec![]);
}

/// `--max-wait`: the clock counts, not the order of the reports.
#[test]
fn a_turn_that_is_too_late_is_withdrawn_even_if_its_agent_is_ready_first() {
    let mut story = TurnsScenario::working(&[]);
    let start_by = story.in_ms(100);
    story.send(TurnPrompt { start_by, ..prompt("soon") }).expect("there is room");
    story.over(1, FinalState::Done);
    story.now.boot_ms += 100;
    assert_eq!(story.deliver(), 2, "it was due");
    assert_eq!(story.state(2), TurnProgress::Over(FinalState::Cancelled));
    assert_eq!(story.owed(), vec![], "and is not said");
}

/// H2: a time of an earlier boot has passed, whatever the new clock says.
#[test]
fn h2_a_turn_with_a_limit_does_not_run_after_the_host_was_started_again() {
    let mut story = TurnsScenario::working(&[]);
    let start_by = story.in_ms(3_600_000);
    story.send(TurnPrompt { start_by, ..prompt("within the hour") }).expect("there is room");
    story.over(1, FinalState::Done);
    story.reboot();
    story.start_ready();
    assert!(story.wakes_at() <= Some(story.now.boot_ms), "at once");
    story.deliver();
    assert_eq!(story.state(2), TurnProgress::Over(FinalState::Cancelled));
}

#[test]
fn a_turn_that_was_started_in_time_is_left_alone() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    let start_by = story.in_ms(100);
    story.send(TurnPrompt { start_by, ..prompt("soon") }).expect("there is room");
    story.deliver();
    assert_eq!(story.pass(100), vec![]);
    assert_eq!(story.state(1), TurnProgress::Delivered);
}

/// A run that does not end is no reason to let a turn wait longer than it may.
#[test]
fn a_turn_is_withdrawn_in_time_while_a_run_is_ending() {
    let mut story =
        TurnsScenario::ready(SessionPolicy { idle_ms: Some(IDLE_MS), ..SessionPolicy::default() });
    story.pass(IDLE_MS);
    let start_by = story.in_ms(100);
    story.send(TurnPrompt { start_by, ..prompt("soon") }).expect("there is room");
    assert_eq!(story.wakes_at(), Some(story.now.boot_ms + 100));
    story.pass(100);
    assert_eq!(story.state(1), TurnProgress::Over(FinalState::Cancelled));
    assert_eq!(story.wakes_at(), Some(story.now.boot_ms - 100 + RELEASE_GRACE.as_millis() as u64));
    story.pass(RELEASE_GRACE.as_millis() as u64);
    let start_by = story.in_ms(100);
    story.send(TurnPrompt { start_by, ..prompt("soon") }).expect("there is room");
    assert_eq!(story.wakes_at(), Some(story.now.boot_ms + 100), "killed, and still there");
}

/// The time to live ends between two runs: no turn waits for a run that cannot come.
#[test]
fn a_session_whose_time_is_up_between_two_runs_ends_for_good() {
    let mut story = TurnsScenario::ready(SessionPolicy { ttl_ms: Some(5000), ..SessionPolicy::default() });
    let epoch = story.session.epoch;
    story.see(Observation::Exited { epoch, exit: ProcessExit::Code(0), oom: false });
    story.send(prompt("one")).expect("it has time");
    story.now.boot_ms += 5000;
    story.see(Observation::Empty { epoch });
    assert_eq!(story.owed(), vec![Effect::NextRun { epoch }]);
    assert_eq!(story.start(), Err(Refusal::Expired));
    story.pass(0);
    assert_eq!(story.state(1), TurnProgress::Over(FinalState::Cancelled));
    assert_eq!(story.owed(), vec![Effect::Leave]);
}

/// The time to live ends once, and turns that can no longer be given are not left waiting for ever.
#[test]
fn a_session_whose_time_is_up_ends_for_good() {
    let mut story = TurnsScenario::ready(SessionPolicy { ttl_ms: Some(5000), ..SessionPolicy::default() });
    let expiry = SessionExpiry { boot: story.boot(), boot_ms: story.now.boot_ms + 5000 };
    assert_eq!(story.session.expiry, Some(expiry));
    story.send(prompt("one")).expect("there is room");
    story.deliver();
    story.send(prompt("two")).expect("there is room");
    story.pass(4999);
    assert!(matches!(story.session.phase, RunPhase::Running { .. }));
    story.now.boot_ms += 1;
    assert_eq!(story.send(prompt("three")), Err(Refusal::Expired), "it would wait for ever");
    let events = story.pass(0);
    assert!(
        matches!(events.last(), Some(Event::RunReleased { why: ReleaseReason::Expired, .. })),
        "{events:?}"
    );
    assert_eq!(story.state(2), TurnProgress::Over(FinalState::Cancelled));
    assert_eq!(story.send(prompt("three")), Err(Refusal::Expired), "it would wait for ever");
    story.end_run();
    assert_eq!(story.owed(), vec![Effect::Leave]);
    assert_eq!(story.start(), Err(Refusal::Expired));
    assert_eq!(story.send(prompt("three")), Err(Refusal::Expired), "it would wait for ever");
    story.reboot();
    assert_eq!(story.start(), Err(Refusal::Expired), "for good, whatever clock there is");
    assert_eq!(story.send(prompt("three")), Err(Refusal::Expired), "it would wait for ever");
}

/// H3: a time to live is counted by the clock of the host; a session that was not ended for it begins anew with
/// that clock.
#[test]
fn h3_a_session_that_was_at_rest_when_its_host_was_started_again_has_its_time_anew() {
    let mut story = TurnsScenario::ready(SessionPolicy { ttl_ms: Some(5000), ..SessionPolicy::default() });
    story.end_run();
    story.now.boot_ms += 5000;
    assert_eq!(story.start(), Err(Refusal::Expired));
    story.reboot();
    story.start().expect("the clock began anew");
    assert_eq!(
        story.session.expiry,
        Some(SessionExpiry { boot: story.boot(), boot_ms: story.now.boot_ms + 5000 })
    );
}

/// Times that outlive a run carry their boot; those of a run are of the boot that it began in, and end with it. So no time of
/// one boot is ever compared with the clock of another one, on this host or another.
#[test]
fn no_time_of_another_boot_wakes_ends_or_holds_up_anything() {
    let policy = SessionPolicy { idle_ms: Some(IDLE_MS), ttl_ms: Some(5000), ..SessionPolicy::default() };
    let mut idle = TurnsScenario::ready(policy);
    let mut stopping = TurnsScenario::working(&[]);
    stopping.order(Command::Cancel { turn: 1, by: actor(1) }).expect("it runs");
    stopping.order(Command::Stop { by: actor(1), grace: Duration::from_secs(9) }).expect("it runs");
    let mut late = TurnsScenario::working(&[]);
    let start_by = late.in_ms(1_000_000);
    late.send(TurnPrompt { start_by, ..prompt("soon") }).expect("there is room");
    for story in [&mut idle, &mut stopping, &mut late] {
        assert!(story.wakes_at().is_some_and(|at| at > 500), "there is something to wait for");
        story.reboot();
        assert_eq!(story.wakes_at(), None, "{:?}", story.session);
    }
    assert_eq!(late.state(2), TurnProgress::Queued, "nothing is decided without a run");
    late.start_ready();
    late.pass(0);
    assert_eq!(
        late.state(2),
        TurnProgress::Over(FinalState::Cancelled),
        "its time was on a clock that is gone"
    );
    idle.start_ready();
    assert_eq!(idle.wakes_at(), Some(idle.now.boot_ms + 5000), "counted by the clock of this boot");
}
