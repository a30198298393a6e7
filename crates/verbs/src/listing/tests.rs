use super::{Extent, Filter, Order, RECENT_MS, Seen, is_like, rank};
use berth_api::status::{Timestamp, What};
use berth_api::{SessionState, Status};
use berth_store::view::Brief;

const NOW_MS: u64 = 10 * RECENT_MS;

fn status(state: impl Into<SessionState>) -> Status {
    let what = What {
        command: vec!["/usr/bin/claude".to_owned()],
        cwd: "/home/me/code/berth".to_owned(),
        agent: Some("helper-bot".to_owned()),
        ..What::default()
    };
    Status {
        id: "0a1b2c3d4e5f".to_owned(),
        name: Some("fix-login".to_owned()),
        state: state.into(),
        tags: vec!["work".to_owned(), "late".to_owned()],
        ended_at: Some(Timestamp(NOW_MS - RECENT_MS)),
        what,
        ..Status::default()
    }
}

fn is_shown(filter: &Filter, status: &Status) -> bool {
    filter.place(&Brief::from(status), NOW_MS).is_none()
}

#[test]
fn what_is_over_for_long_or_put_away_is_counted_until_it_is_asked_for() {
    let recent = Filter::default();
    assert!(matches!(recent.place(&Brief::from(&status("stopped")), NOW_MS), Some(Seen::Older)));
    assert!(recent.place(&Brief::from(&status("stopped")), NOW_MS - 1).is_none());
    assert!(matches!(recent.place(&Brief::from(&status("archived")), NOW_MS), Some(Seen::Archived)));
    // A loss is never too old: nobody has taken note of it yet.
    assert!(is_shown(&recent, &status("lost")) && is_shown(&recent, &status("idle")));
    let all = Filter { extent: Extent::All, ..Filter::default() };
    assert!(SessionState::ALL.into_iter().all(|state| is_shown(&all, &status(state))));
    let archived = Filter { extent: Extent::Archived, ..Filter::default() };
    let shown = SessionState::ALL.into_iter().filter(|state| is_shown(&archived, &status(state.clone())));
    assert!(shown.eq([SessionState::Archived]));
    let named = Filter { states: vec![SessionState::Stopped, SessionState::Archived], ..Filter::default() };
    let shown = SessionState::ALL.into_iter().filter(|state| is_shown(&named, &status(state.clone())));
    assert!(shown.eq([SessionState::Stopped, SessionState::Archived]));
}

#[test]
fn conditions_hold_together_and_each_can_fail() {
    let whole = Filter {
        states: vec![SessionState::Idle],
        agent: Some("claude".to_owned()),
        under: Some("/home/me/code".into()),
        tags: vec!["work".to_owned(), "late".to_owned()],
        name: Some("fix-*".to_owned()),
        ..Filter::default()
    };
    assert!(is_shown(&whole, &status("idle")));
    assert!(is_shown(&Filter { agent: Some("helper-bot".to_owned()), ..whole.clone() }, &status("idle")));
    let failing = [
        Filter { states: vec![SessionState::Working], ..whole.clone() },
        Filter { agent: Some("codex".to_owned()), ..whole.clone() },
        Filter { under: Some("/home/me/co".into()), ..whole.clone() },
        Filter { tags: vec!["work".to_owned(), "play".to_owned()], ..whole.clone() },
        Filter { name: Some("login*".to_owned()), ..whole.clone() },
    ];
    for filter in failing {
        assert!(!is_shown(&filter, &status("idle")), "{filter:?}");
    }
    let nameless = Status { name: None, ..status("idle") };
    assert!(!is_shown(&whole, &nameless));
}

#[test]
fn who_needs_somebody_comes_first_and_among_equals_the_last_active() {
    let at = |state: SessionState, ms: u64| Status { last_activity_at: Timestamp(ms), ..status(state) };
    let mut sessions: Vec<Status> = SessionState::ALL.into_iter().rev().map(|state| at(state, 5)).collect();
    sessions.push(at(SessionState::Idle, 9));
    Order::State.sort(&mut sessions);
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
