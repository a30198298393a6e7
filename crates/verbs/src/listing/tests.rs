use super::{ListExtent, ListOrder, ListingEntry, RECENT_MS, SessionFilter, is_like, rank};
use berth_api::status::{SpecView, Timestamp};
use berth_api::{SessionState, SessionStatus};
use berth_store::session_status::StatusSummary;

const NOW_MS: u64 = 10 * RECENT_MS;

fn status(state: impl Into<SessionState>) -> SessionStatus {
    let what = SpecView {
        command: vec!["/usr/bin/claude".to_owned()],
        cwd: "/home/me/code/berth".to_owned(),
        agent: Some("helper-bot".to_owned()),
        ..SpecView::default()
    };
    SessionStatus {
        id: "0a1b2c3d4e5f".to_owned(),
        name: Some("fix-login".to_owned()),
        state: state.into(),
        tags: vec!["work".to_owned(), "late".to_owned()],
        ended_at: Some(Timestamp(NOW_MS - RECENT_MS)),
        what,
        ..SessionStatus::default()
    }
}

fn is_shown(filter: &SessionFilter, status: &SessionStatus) -> bool {
    filter.place(&StatusSummary::from(status), NOW_MS).is_none()
}

#[test]
fn old_and_archived_sessions_are_only_counted_unless_they_are_asked_for() {
    let recent = SessionFilter::default();
    assert!(matches!(
        recent.place(&StatusSummary::from(&status("stopped")), NOW_MS),
        Some(ListingEntry::Older)
    ));
    assert!(recent.place(&StatusSummary::from(&status("stopped")), NOW_MS - 1).is_none());
    assert!(matches!(
        recent.place(&StatusSummary::from(&status("archived")), NOW_MS),
        Some(ListingEntry::Archived)
    ));
    // A loss is never too old: no user has seen it yet.
    assert!(is_shown(&recent, &status("lost")) && is_shown(&recent, &status("idle")));
    let all = SessionFilter { extent: ListExtent::All, ..SessionFilter::default() };
    assert!(SessionState::ALL.into_iter().all(|state| is_shown(&all, &status(state))));
    let archived = SessionFilter { extent: ListExtent::Archived, ..SessionFilter::default() };
    let shown = SessionState::ALL.into_iter().filter(|state| is_shown(&archived, &status(state.clone())));
    assert!(shown.eq([SessionState::Archived]));
    let named = SessionFilter {
        states: vec![SessionState::Stopped, SessionState::Archived],
        ..SessionFilter::default()
    };
    let shown = SessionState::ALL.into_iter().filter(|state| is_shown(&named, &status(state.clone())));
    assert!(shown.eq([SessionState::Stopped, SessionState::Archived]));
}

#[test]
fn a_session_must_meet_every_filter() {
    let whole = SessionFilter {
        states: vec![SessionState::Idle],
        agent: Some("claude".to_owned()),
        under: Some("/home/me/code".into()),
        tags: vec!["work".to_owned(), "late".to_owned()],
        name: Some("fix-*".to_owned()),
        ..SessionFilter::default()
    };
    assert!(is_shown(&whole, &status("idle")));
    assert!(is_shown(
        &SessionFilter { agent: Some("helper-bot".to_owned()), ..whole.clone() },
        &status("idle")
    ));
    let failing = [
        SessionFilter { states: vec![SessionState::Working], ..whole.clone() },
        SessionFilter { agent: Some("codex".to_owned()), ..whole.clone() },
        SessionFilter { under: Some("/home/me/co".into()), ..whole.clone() },
        SessionFilter { tags: vec!["work".to_owned(), "play".to_owned()], ..whole.clone() },
        SessionFilter { name: Some("login*".to_owned()), ..whole.clone() },
    ];
    for filter in failing {
        assert!(!is_shown(&filter, &status("idle")), "{filter:?}");
    }
    let nameless = SessionStatus { name: None, ..status("idle") };
    assert!(!is_shown(&whole, &nameless));
}

#[test]
fn sessions_that_need_a_user_come_first_and_among_equals_the_last_active() {
    let at =
        |state: SessionState, ms: u64| SessionStatus { last_activity_at: Timestamp(ms), ..status(state) };
    let mut sessions: Vec<SessionStatus> =
        SessionState::ALL.into_iter().rev().map(|state| at(state, 5)).collect();
    sessions.push(at(SessionState::Idle, 9));
    ListOrder::State.sort(&mut sessions);
    let states: Vec<(&SessionState, u64)> =
        sessions.iter().map(|status| (&status.state, status.last_activity_at.0)).collect();
    assert_eq!(states[..2], [(&SessionState::NeedsYou, 5), (&SessionState::Lost, 5)]);
    let (idle, stopped) = (&SessionState::Idle, &SessionState::Stopped);
    assert_eq!(states[6..], [(idle, 9), (idle, 5), (stopped, 5), (&SessionState::Archived, 5)]);
    assert!(sessions.is_sorted_by_key(|status| rank(&status.state)));
}

#[test]
fn a_pattern_stands_for_the_names_one_expects() {
    for (name, pattern) in [
        ("fix", "fix"),
        ("fix", "*"),
        ("fix", "f*"),
        ("fix", "*x"),
        ("fix", "f?x"),
        ("fix-login", "f*-l*n"),
        ("aab", "*ab"),
    ] {
        assert!(is_like(name, pattern), "{name} is not like {pattern}");
    }
    for (name, pattern) in [
        ("fix", ""),
        ("fix", "fi"),
        ("fix", "ix"),
        ("fix", "f?"),
        ("fix", "*z"),
        ("fix", "fix?"),
        ("f", "??"),
    ] {
        assert!(!is_like(name, pattern), "{name} is like {pattern}");
    }
}
