//! Archive and restore, tags, notes and policies, as sentences.

use super::{IDLE_MS, TurnsScenario, actor, keyed, prompt};
use crate::lifecycle::MOST_TAGS;
use crate::turns::{FinalState, OnUnknown, ReleaseReason, TurnProgress};
use crate::{
    Command, Effect, Event, MAX_NOTE_BYTES, NotificationKind, NotificationPolicy, Observation, PolicyChange,
    Refusal, SafeName, SessionPolicy, SessionState, TimeoutChange,
};

fn tag(text: &str) -> SafeName {
    SafeName::parse(text).expect("a tag")
}

fn archive() -> Command {
    Command::Archive { by: actor(3) }
}

fn restore() -> Command {
    Command::Restore { by: actor(4) }
}

impl TurnsScenario {
    /// An archived session, whose run is over.
    fn archived(policy: SessionPolicy) -> Self {
        let mut story = Self::ready(policy);
        story.end_run();
        story.order(archive()).expect("nothing runs");
        story
    }

    fn session_state(&self) -> SessionState {
        self.session.state(false)
    }
}

#[test]
fn a_running_session_is_not_archived() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    assert_eq!(story.order(archive()), Err(Refusal::StillRunning));
    let stop = Command::Stop { by: actor(9), grace: std::time::Duration::ZERO };
    story.order(stop).expect("never refused");
    assert_eq!(story.order(archive()), Err(Refusal::StillRunning), "it is not over yet");
    story.end_run();
    assert_eq!(story.order(archive()), Ok(vec![Event::Archived { by: actor(3) }]));
    assert_eq!(story.session_state(), SessionState::Archived);
}

/// D6: stopping, archiving and restoring twice equals doing so once.
#[test]
fn d6_putting_away_and_bringing_back_twice_changes_nothing() {
    let mut story = TurnsScenario::archived(SessionPolicy::default());
    assert_eq!(story.order(archive()), Ok(vec![]));
    assert_eq!(story.order(restore()), Ok(vec![Event::Restored { by: actor(4) }]));
    assert_eq!(story.order(restore()), Ok(vec![]));
    assert_eq!(story.session_state(), SessionState::Stopped, "it is what it was before");
}

#[test]
fn an_archived_session_runs_only_after_it_was_restored() {
    let mut story = TurnsScenario::archived(SessionPolicy::default());
    assert_eq!(story.start(), Err(Refusal::Archived));
    assert_eq!(story.send(prompt("wake up")), Err(Refusal::Archived));
    story.order(restore()).expect("it was put away");
    story.start_ready();
    assert_eq!(story.session.state(true), SessionState::Idle);
}

#[test]
fn a_repeated_send_to_an_archived_session_returns_its_turn() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    story.send(keyed("do it", "k")).expect("there is room");
    story.deliver();
    story.see(Observation::TurnOver { turn: 1, end: super::end(FinalState::Done) });
    story.end_run();
    story.order(archive()).expect("nothing runs");
    assert_eq!(story.send(keyed("do it", "k")), Ok(vec![]));
    assert_eq!(story.send(keyed("do that", "k")), Err(Refusal::KeyReused { turn: 1 }));
}

/// C7: waiting turns are not lost when their session is archived, and do not begin a run either.
#[test]
fn c7_what_waits_is_put_away_with_its_session_and_comes_back_with_it() {
    let mut story = TurnsScenario::working(&["the second"]);
    story.see(Observation::TurnOver { turn: 1, end: super::end(FinalState::Done) });
    story.end_run();
    let epoch = story.session.epoch;
    assert!(story.owed().contains(&Effect::NextRun { epoch }), "else this proves nothing");
    story.order(archive()).expect("nothing runs");
    assert_eq!(story.owed(), vec![Effect::Leave]);
    assert_eq!(story.state(2), TurnProgress::Queued);
    story.order(restore()).expect("it was put away");
    assert!(story.owed().contains(&Effect::NextRun { epoch }));
}

#[test]
fn a_lost_session_is_put_away_and_is_lost_again_when_it_comes_back() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    story.keeper_dies();
    assert_eq!(story.session_state(), SessionState::Lost);
    story.order(archive()).expect("nothing runs");
    assert_eq!(story.session_state(), SessionState::Archived);
    story.order(restore()).expect("it was put away");
    assert_eq!(story.session_state(), SessionState::Lost);
}

#[test]
fn nothing_is_put_away_tagged_or_noted_before_it_is_created() {
    let change = PolicyChange { idle: TimeoutChange::After(1), ..PolicyChange::default() };
    for command in [
        archive(),
        restore(),
        Command::Tag { add: vec![tag("a")], remove: vec![] },
        Command::Note { note: Some("a".to_owned()) },
        Command::SetPolicy { change },
    ] {
        let refused =
            crate::decide(&crate::Session::default(), command.clone(), crate::ClockReading::default());
        assert_eq!(refused, Err(Refusal::NotCreated), "{command:?}");
    }
}

#[test]
fn tags_are_a_set_in_order() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    let add =
        |tags: &[&str]| Command::Tag { add: tags.iter().map(|text| tag(text)).collect(), remove: vec![] };
    story.order(add(&["work", "bug", "work"])).expect("there is room");
    assert_eq!(story.session.tags, [tag("bug"), tag("work")]);
    assert_eq!(story.order(add(&["bug"])), Ok(vec![]), "it has that one");
    let swap = Command::Tag { add: vec![tag("done")], remove: vec![tag("bug"), tag("never-there")] };
    story.order(swap).expect("there is room");
    assert_eq!(story.session.tags, [tag("done"), tag("work")]);
}

#[test]
fn a_session_has_a_limited_number_of_tags_and_is_refused_more_as_a_whole() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    let many: Vec<SafeName> = (0..MOST_TAGS).map(|number| tag(&format!("t{number}"))).collect();
    story.order(Command::Tag { add: many.clone(), remove: vec![] }).expect("just enough");
    let more = Command::Tag { add: vec![tag("more")], remove: vec![] };
    assert_eq!(story.order(more), Err(Refusal::TooManyTags { limit: MOST_TAGS }));
    let swap = Command::Tag { add: vec![tag("more")], remove: vec![many[0].clone()] };
    assert!(story.order(swap).is_ok(), "one for another");
    assert_eq!(story.session.tags.len(), MOST_TAGS);
}

#[test]
fn a_note_is_replaced_and_taken_away_and_has_a_limit() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    let note = |text: &str| Command::Note { note: Some(text.to_owned()) };
    story.order(note("look at this")).expect("short enough");
    assert_eq!(story.order(note("look at this")), Ok(vec![]));
    let long = "x".repeat(MAX_NOTE_BYTES + 1);
    let refused = Refusal::NoteTooLong { bytes: MAX_NOTE_BYTES + 1, limit: MAX_NOTE_BYTES };
    assert_eq!(story.order(note(&long)), Err(refused));
    assert_eq!(story.session.note.as_deref(), Some("look at this"));
    story.order(note(&long[1..])).expect("just short enough");
    story.order(Command::Note { note: None }).expect("never refused");
    assert_eq!(story.order(note("")), Ok(vec![]), "an empty note is none");
    assert_eq!(story.session.note, None);
}

fn change(change: PolicyChange) -> Command {
    Command::SetPolicy { change }
}

#[test]
fn two_who_change_different_parts_of_a_policy_do_not_undo_each_other() {
    let mut story =
        TurnsScenario::ready(SessionPolicy { idle_ms: Some(IDLE_MS), ..SessionPolicy::default() });
    story
        .order(change(PolicyChange { archive_after: TimeoutChange::After(7), ..Default::default() }))
        .expect("fine");
    let on_unknown = Some(OnUnknown::Continue);
    story
        .order(change(PolicyChange { on_unknown, idle: TimeoutChange::Never, ..Default::default() }))
        .expect("fine");
    let notify = NotificationPolicy::Only(vec![NotificationKind::Failed]);
    let told_of =
        |notify: NotificationPolicy| change(PolicyChange { notify: Some(notify), ..Default::default() });
    story.order(told_of(notify.clone())).expect("fine");
    let (archive_after_ms, on_unknown) = (Some(7), OnUnknown::Continue);
    let policy = SessionPolicy { archive_after_ms, on_unknown, notify, ..SessionPolicy::default() };
    assert_eq!(story.session.policy(), policy);
    story.order(told_of(NotificationPolicy::AsConfigured)).expect("fine");
    assert_eq!(story.session.policy(), SessionPolicy { notify: NotificationPolicy::AsConfigured, ..policy });
    assert_eq!(
        story.order(change(PolicyChange { idle: TimeoutChange::Never, ..Default::default() })),
        Ok(vec![])
    );
}

#[test]
fn an_agent_that_was_quiet_for_longer_than_a_new_limit_is_released_at_once() {
    let mut story = TurnsScenario::ready(SessionPolicy::default());
    story.now.boot_ms += 5000;
    story
        .order(change(PolicyChange { idle: TimeoutChange::After(1000), ..Default::default() }))
        .expect("fine");
    assert!(story.wakes_at().is_some_and(|at| at <= story.now.boot_ms));
    let released = story.see(Observation::Tick);
    assert!(matches!(released[..], [Event::RunReleased { why: ReleaseReason::Idle, .. }]), "{released:?}");
}

#[test]
fn a_time_to_live_that_is_given_again_counts_anew() {
    let mut story = TurnsScenario::ready(SessionPolicy { ttl_ms: Some(5000), ..SessionPolicy::default() });
    let begun = story.now.boot_ms;
    story.now.boot_ms = begun + 4000;
    let again = change(PolicyChange { ttl: TimeoutChange::After(5000), ..Default::default() });
    let events = story.order(again.clone()).expect("fine");
    assert!(matches!(events[..], [Event::ExpirySet { .. }]), "{events:?}");
    assert_eq!(story.wakes_at(), Some(begun + 9000));
    // A session at rest has no time that could be renewed.
    story.end_run();
    assert_eq!(story.order(again), Ok(vec![]));
}

#[test]
fn another_time_to_live_counts_from_the_moment_it_is_given() {
    let mut story = TurnsScenario::ready(SessionPolicy { ttl_ms: Some(5000), ..SessionPolicy::default() });
    let begun = story.now.boot_ms;
    story.now.boot_ms = begun + 4000;
    story
        .order(change(PolicyChange { ttl: TimeoutChange::After(9000), ..Default::default() }))
        .expect("fine");
    assert_eq!(story.wakes_at(), Some(begun + 13_000));
    story.order(change(PolicyChange { ttl: TimeoutChange::Never, ..Default::default() })).expect("fine");
    assert_eq!((story.wakes_at(), &story.session.expiry), (None, &None));
    // The time of a session at rest begins with its next run.
    story.end_run();
    story
        .order(change(PolicyChange { ttl: TimeoutChange::After(1000), ..Default::default() }))
        .expect("fine");
    assert_eq!(story.session.expiry, None);
    story.now.boot_ms = begun + 50_000;
    story.start_ready();
    assert_eq!(story.wakes_at(), Some(begun + 51_000));
}

#[test]
fn a_session_whose_time_was_up_gets_no_other_time() {
    let mut story = TurnsScenario::ready(SessionPolicy { ttl_ms: Some(5000), ..SessionPolicy::default() });
    story.now.boot_ms += 5000;
    story.see(Observation::Tick);
    story.end_run();
    let longer = change(PolicyChange { ttl: TimeoutChange::Never, ..Default::default() });
    assert_eq!(story.order(longer), Err(Refusal::Expired));
    story.order(archive()).expect("nothing runs");
    story.order(restore()).expect("it was put away");
    assert_eq!(story.start(), Err(Refusal::Expired), "bringing it back does not undo that either");
}
