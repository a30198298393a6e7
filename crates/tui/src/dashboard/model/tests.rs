//! Tests of the model: keys in, state and effects out.

use berth_api::status::TurnsStatus;
use berth_api::turn::TurnView;
use berth_api::{SessionState, SessionStatus, Timestamp};

use super::super::preview::PreviewContent;
use super::super::preview_transcript::PreviewTranscript;
use super::super::row::tests::{agent, asking, status};
use super::*;
use crate::keys::{InputEvent, KeyPress};

/// A dashboard with these sessions, at 80×24.
pub(crate) fn model(statuses: Vec<berth_api::SessionStatus>) -> DashboardModel {
    let mut model = DashboardModel::new(Rect::new(0, 0, 80, 24), 160_000);
    model.found(statuses.into_iter().map(known));
    model.loaded();
    model
}

fn known(status: berth_api::SessionStatus) -> (SessionId, SessionLookup) {
    let id = SessionId::parse(&status.id).expect("an id");
    (id, SessionLookup::Known(Box::new(RowStatus::Status(Box::new(status)))))
}

fn id(letter: char) -> SessionId {
    SessionId::parse(&letter.to_string().repeat(SessionId::LENGTH)).expect("an id")
}

fn press(model: &mut DashboardModel, keys: &str) -> Vec<DashboardEffect> {
    keys.chars().flat_map(|c| model.input(InputEvent::Key(KeyPress::Char(c)))).collect()
}

fn key(model: &mut DashboardModel, key: KeyPress) -> Vec<DashboardEffect> {
    model.input(InputEvent::Key(key))
}

/// Draws the question, and waits for its reading time.
fn read(model: &mut DashboardModel) {
    model.drawn();
    model.set_uptime(model.uptime + crate::reading_time::READING_TIME);
}

fn names(model: &DashboardModel) -> Vec<String> {
    model.rows().map(DashboardRow::handle).collect()
}

fn three() -> DashboardModel {
    model(vec![status('a', "tests", "running"), asking('b', "fix"), agent('c', "docs", "idle")])
}

/// More sessions than any list shows at once.
fn many() -> DashboardModel {
    let letters = "0123456789abcdefghjkmnpqrstvwxyz".chars();
    let are_ids = letters.filter(|c| SessionId::parse(&c.to_string().repeat(SessionId::LENGTH)).is_some());
    model(are_ids.map(|c| status(c, &format!("s{c}"), "running")).collect())
}

#[test]
fn a_session_that_needs_you_is_first_and_selected() {
    let model = three();
    assert_eq!(names(&model), ["fix", "tests", "docs"]);
    assert_eq!(model.selected().map(DashboardRow::handle).as_deref(), Some("fix"));
}

#[test]
fn the_selection_stays_with_its_session_when_the_order_changes_and_its_preview_too() {
    let mut model = three();
    assert_eq!(press(&mut model, "j"), [DashboardEffect::Look(Some(id('a')))]);
    let mut docs = asking('c', "docs");
    docs.last_activity_at = Timestamp(150_000);
    let effects = model.found([known(docs)]);
    assert_eq!(names(&model), ["docs", "fix", "tests"]);
    assert_eq!(model.selected().map(DashboardRow::handle).as_deref(), Some("tests"));
    assert_eq!(effects, [DashboardEffect::Bell]);
}

#[test]
fn while_sessions_are_still_found_the_first_is_selected_until_the_user_chooses() {
    let mut model = DashboardModel::new(Rect::new(0, 0, 80, 24), 160_000);
    model.found([known(status('a', "job", "stopped")), known(status('b', "other", "stopped"))]);
    let effects = model.found([known(agent('c', "docs", "working"))]);
    assert_eq!(effects, [DashboardEffect::Look(Some(id('c')))]);
    press(&mut model, "j");
    let chosen = model.selected().map(DashboardRow::handle);
    model.found([known(asking('d', "fix"))]);
    assert_eq!(model.selected().map(DashboardRow::handle), chosen);
    // The selection also stays once everything was found, without any key.
    let mut untouched = three();
    untouched.found([known(asking('d', "later"))]);
    assert_eq!(untouched.selected().map(DashboardRow::handle).as_deref(), Some("fix"));
}

#[test]
fn rows_move_by_activity_and_do_not_jump_with_every_byte() {
    let mut model = model(vec![status('a', "one", "running"), status('b', "two", "running")]);
    let before = names(&model);
    let mut active = |letter, at| {
        let mut fresh = status(letter, if letter == 'a' { "one" } else { "two" }, "running");
        fresh.last_activity_at = Timestamp(at);
        model.found([known(fresh)]);
        names(&model)
    };
    for (letter, at) in [('a', 130_000), ('b', 140_000), ('a', 150_000)] {
        assert_eq!(active(letter, at), before);
    }
    assert_eq!(active('b', 170_000), ["two", "one"]);
}

#[test]
fn a_bell_rings_once_for_each_that_newly_needs_you_but_not_for_the_selected_one() {
    let mut model = model(vec![agent('a', "one", "working"), agent('b', "two", "working")]);
    let selected = model.selected().expect("one").id.clone();
    let other = if selected == id('a') { 'b' } else { 'a' };
    assert_eq!(model.found([known(asking(other, "other"))]), [DashboardEffect::Bell]);
    assert_eq!(model.found([known(asking(other, "other"))]), []);
    let same = if other == 'a' { 'b' } else { 'a' };
    assert_eq!(model.found([known(asking(same, "same"))]), []);
}

#[test]
fn a_session_that_needs_you_when_the_dashboard_opens_rings_no_bell() {
    let mut model = DashboardModel::new(Rect::new(0, 0, 80, 24), 0);
    let effects = model.found([known(status('a', "a", "running")), known(asking('b', "b"))]);
    assert!(!effects.contains(&DashboardEffect::Bell), "{effects:?}");
}

#[test]
fn a_session_that_vanishes_leaves_its_neighbour_selected_and_a_note() {
    let mut model = three();
    press(&mut model, "j");
    let effects = model.found([(id('a'), SessionLookup::Gone)]);
    assert_eq!(model.selected().map(DashboardRow::handle).as_deref(), Some("docs"));
    assert_eq!(effects, [DashboardEffect::Look(Some(id('c')))]);
    assert_eq!(model.message, Some(StatusLineMessage::Note("tests is gone".into())));
    model.found([(id('b'), SessionLookup::Gone), (id('c'), SessionLookup::Gone)]);
    assert!(model.selected().is_none());
    // Without a session no key has an effect.
    for letter in "jkgGmaxCrnefRNTQ".chars() {
        assert_eq!(press(&mut model, &letter.to_string()), [], "{letter}");
        assert_eq!(model.mode, DashboardMode::Browse, "{letter}");
    }
    assert_eq!(key(&mut model, KeyPress::Enter), []);
}

#[test]
fn a_message_goes_to_the_session_it_was_begun_for() {
    let mut model = three();
    press(&mut model, "G");
    press(&mut model, "m");
    press(&mut model, "hi");
    key(&mut model, KeyPress::NewLine);
    model.input(InputEvent::Paste { text: "x\ny".into(), cut: false });
    model.found([known(asking('c', "docs"))]);
    let sent = key(&mut model, KeyPress::Enter);
    assert_eq!(sent, [DashboardEffect::Do(DashboardAction::Send { id: id('c'), text: "hi\nx\ny".into() })]);
    assert_eq!(model.busy, ["sending to docs"]);
    model.done(FinishedAction { what: "sending to docs".into(), outcome: Ok("turn 1".to_owned().into()) });
    assert_eq!(
        (model.busy.len(), model.message.clone()),
        (0, Some(StatusLineMessage::Note("turn 1".into())))
    );
}

#[test]
fn into_a_terminal_a_message_is_typed() {
    let mut model = model(vec![status('a', "tests", "running")]);
    press(&mut model, "mls");
    assert_eq!(
        key(&mut model, KeyPress::Enter),
        [DashboardEffect::Do(DashboardAction::Type { id: id('a'), text: "ls".into() })]
    );
}

#[test]
fn a_message_that_is_put_aside_is_there_again_and_an_empty_one_is_not_sent() {
    let mut model = three();
    press(&mut model, "mabc");
    assert_eq!(key(&mut model, KeyPress::Esc), []);
    press(&mut model, "m");
    match &model.mode {
        DashboardMode::Write { text, .. } => assert_eq!(text.text(), "abc"),
        other => panic!("{other:?}"),
    }
    key(&mut model, KeyPress::Ctrl('u'));
    assert_eq!(key(&mut model, KeyPress::Enter), []);
    assert_eq!(model.mode, DashboardMode::Browse);
}

#[test]
fn a_paste_that_is_too_long_is_refused_and_what_was_written_stays() {
    let mut model = three();
    press(&mut model, "mabc");
    model.input(InputEvent::Paste { text: "x".repeat(10), cut: true });
    assert!(matches!(&model.message, Some(StatusLineMessage::Problem(problem)) if problem.hint.is_some()));
    assert!(matches!(&model.mode, DashboardMode::Write { text, .. } if text.text() == "abc"));
}

#[test]
fn a_paste_is_never_a_key() {
    let mut model = three();
    assert_eq!(model.input(InputEvent::Paste { text: "xyq".into(), cut: false }), []);
    assert_eq!(model.mode, DashboardMode::Browse);
    press(&mut model, "jx");
    assert_eq!(model.input(InputEvent::Paste { text: "y".into(), cut: false }), []);
    assert!(matches!(model.mode, DashboardMode::Confirm { .. }));
}

#[test]
fn an_answer_goes_to_the_question_that_was_seen() {
    for (pressed, reply) in
        [('y', QuestionReply::Allow), ('n', QuestionReply::DENY), ('2', QuestionReply::option("always"))]
    {
        let mut model = three();
        press(&mut model, "a");
        read(&mut model);
        let answered = press(&mut model, &pressed.to_string());
        let action = DashboardAction::Answer { id: id('b'), request: "7".into(), reply, epoch: 0 };
        assert_eq!(answered, [DashboardEffect::Do(action)]);
    }
    // A question of the next run with an equal id takes no answer either.
    let mut model = three();
    press(&mut model, "a");
    model.found([known(SessionStatus { epoch: 1, ..asking('b', "fix") })]);
    assert_eq!(model.mode, DashboardMode::Browse);
    // Another question replaced it: the key that was meant for the first one answers nothing.
    let mut model = three();
    press(&mut model, "a");
    let mut other = asking('b', "fix");
    other.turns.as_mut().expect("turns").asks[0].request = "8".into();
    model.found([known(other)]);
    assert_eq!(model.mode, DashboardMode::Browse);
    assert_eq!(press(&mut model, "y"), []);
}

#[test]
fn a_reply_whose_question_goes_away_stays_open_and_enter_keeps_it_as_a_draft() {
    let mut status = asking('b', "fix");
    status.turns.as_mut().expect("turns").asks[0].takes_reason = true;
    let mut model = model(vec![status]);
    press(&mut model, "a");
    read(&mut model);
    press(&mut model, "tuse m");
    model.found([known(agent('b', "fix", "idle"))]);
    assert_eq!(model.message, Some(StatusLineMessage::Note("the question is no longer asked".into())));
    // In the list `x` would stop the session, and `y` agree to that.
    assert_eq!(press(&mut model, "xy"), []);
    assert!(
        matches!(&model.mode, DashboardMode::Write { text, .. } if text.text() == "use mxy"),
        "{:?}",
        model.mode
    );
    assert_eq!(key(&mut model, KeyPress::Enter), []);
    assert_eq!(model.mode, DashboardMode::Browse);
    press(&mut model, "m");
    assert!(
        matches!(&model.mode, DashboardMode::Write { text, .. } if text.text() == "use mxy"),
        "{:?}",
        model.mode
    );
}

#[test]
fn a_key_that_comes_before_the_question_could_be_read_answers_nothing() {
    let mut model = three();
    // All in one go, before anything is drawn.
    assert_eq!(press(&mut model, "ay1"), []);
    assert!(matches!(model.mode, DashboardMode::Answer { .. }) && !model.takes_answer());
    model.drawn();
    // Held down: each repetition comes before the question could be read.
    for _ in 0..100 {
        assert_eq!(press(&mut model, "y1"), []);
        assert_eq!(model.reading_left(), Some(crate::reading_time::READING_TIME));
        model.set_uptime(model.uptime + Duration::from_millis(600));
        model.drawn();
    }
    model.set_uptime(model.uptime + Duration::from_millis(100));
    assert!(model.takes_answer());
    assert_eq!(press(&mut model, "y").len(), 1);
    // The question can be left at any time.
    let mut model = three();
    press(&mut model, "a");
    key(&mut model, KeyPress::Esc);
    assert_eq!(model.mode, DashboardMode::Browse);
}

#[test]
fn a_question_without_yes_and_no_is_answered_by_number_only() {
    let mut model = three();
    let mut other = asking('b', "fix");
    for option in &mut other.turns.as_mut().expect("turns").asks[0].options {
        option.kind = berth_api::turn::QuestionOptionKind::Other;
    }
    model.found([known(other)]);
    press(&mut model, "a");
    read(&mut model);
    assert_eq!(press(&mut model, "yn9"), []);
    assert_eq!(press(&mut model, "3").len(), 1);
}

#[test]
fn stopping_needs_a_yes_and_stops_the_session_in_the_question() {
    let mut model = three();
    press(&mut model, "jx");
    assert!(matches!(&model.mode, DashboardMode::Confirm { question, .. } if question == "stop tests?"));
    model.found([known(asking('c', "docs"))]);
    assert_eq!(press(&mut model, "y"), [DashboardEffect::Do(DashboardAction::Stop { id: id('a') })]);
    for no in ["n", " ", "x"] {
        press(&mut model, "x");
        assert_eq!(press(&mut model, no), []);
        assert_eq!(model.mode, DashboardMode::Browse);
    }
}

#[test]
fn cancelling_is_for_the_turn_that_was_running_when_it_was_asked() {
    let mut busy = agent('a', "busy", "working");
    let turn = format!("{}.4", busy.id);
    busy.turns = Some(TurnsStatus { current: Some(turn.clone()), ..TurnsStatus::default() });
    let mut model = model(vec![busy.clone()]);
    press(&mut model, "C");
    busy.turns = Some(TurnsStatus { current: Some(format!("{}.5", busy.id)), ..TurnsStatus::default() });
    model.found([known(busy)]);
    assert_eq!(press(&mut model, "y"), [DashboardEffect::Do(DashboardAction::Cancel { id: id('a'), turn })]);
}

#[test]
fn only_a_session_that_does_not_run_is_resumed() {
    let mut model = model(vec![status('a', "job", "stopped")]);
    assert_eq!(press(&mut model, "r"), [DashboardEffect::Do(DashboardAction::Resume { id: id('a') })]);
    assert_eq!(press(&mut model, "x"), []);
    assert_eq!(key(&mut model, KeyPress::Enter), []);
    assert!(matches!(&model.message, Some(StatusLineMessage::Problem(_))));
    model.found([known(status('a', "job", "running"))]);
    assert_eq!(press(&mut model, "r"), []);
    assert_eq!(key(&mut model, KeyPress::Enter), [DashboardEffect::Attach { id: id('a'), observe: false }]);
    assert_eq!(press(&mut model, "o"), [DashboardEffect::Attach { id: id('a'), observe: true }]);
}

#[test]
fn an_ended_session_is_archived_and_an_archived_one_is_restored() {
    let mut model = model(vec![status('a', "job", "stopped")]);
    assert_eq!(press(&mut model, "e"), [DashboardEffect::Do(DashboardAction::Archive { id: id('a') })]);
    let mut away = status('a', "job", "archived");
    away.keeper_pid = None;
    away.archived_at = Some(Timestamp(150_000));
    model.found([known(away)]);
    assert!(names(&model).is_empty());
    press(&mut model, ".");
    assert_eq!(press(&mut model, "e"), [DashboardEffect::Do(DashboardAction::Restore { id: id('a') })]);
    model.found([known(status('a', "job", "running"))]);
    assert_eq!(press(&mut model, "e"), []);
    assert!(matches!(&model.message, Some(StatusLineMessage::Problem(_))));
}

#[test]
fn a_filter_is_live_and_escape_takes_it_back_before_it_leaves() {
    let mut model = three();
    press(&mut model, "/do");
    assert_eq!(names(&model), ["docs"]);
    assert_eq!(model.selected().map(DashboardRow::handle).as_deref(), Some("docs"));
    key(&mut model, KeyPress::Enter);
    assert_eq!(names(&model), ["docs"]);
    assert_eq!(key(&mut model, KeyPress::Esc), []);
    assert_eq!(names(&model).len(), 3);
    assert_eq!(key(&mut model, KeyPress::Esc), [DashboardEffect::Quit]);
    // Of several matches the first one is selected, unless the selected one is among them.
    press(&mut model, "G/n");
    assert_eq!(names(&model), ["fix", "tests"]);
    assert_eq!(model.selected().map(DashboardRow::handle).as_deref(), Some("fix"));
    key(&mut model, KeyPress::Esc);
    press(&mut model, "/nothing-like-it");
    assert!(model.selected().is_none());
    key(&mut model, KeyPress::Esc);
    assert_eq!(names(&model).len(), 3);
    assert!(model.selected().is_some());
}

#[test]
fn old_sessions_are_hidden_until_shown_or_searched_for() {
    let mut old = status('d', "ancient", "stopped");
    old.ended_at = Some(Timestamp(1));
    let mut model = DashboardModel::new(Rect::new(0, 0, 80, 24), 48 * 3600 * 1000);
    model.found([known(old), known(status('a', "tests", "running"))]);
    assert_eq!((names(&model), model.hidden), (vec!["tests".to_owned()], 1));
    press(&mut model, ".");
    assert_eq!(names(&model), ["tests", "ancient"]);
    press(&mut model, "./anci");
    assert_eq!(names(&model), ["ancient"]);
}

#[test]
fn every_way_out_leaves() {
    for out in [KeyPress::Char('q'), KeyPress::Esc, KeyPress::Ctrl('c')] {
        assert_eq!(key(&mut three(), out), [DashboardEffect::Quit], "{out:?}");
    }
    assert_eq!(key(&mut three(), KeyPress::Ctrl('z')), [DashboardEffect::Suspend]);
    let mut reading = three();
    reading.done(FinishedAction { what: String::new(), outcome: Ok("sent".to_owned().into()) });
    assert_eq!(key(&mut reading, KeyPress::Esc), []);
    assert_eq!(key(&mut reading, KeyPress::Esc), [DashboardEffect::Quit]);
}

#[test]
fn on_a_phone_enter_looks_first_and_escape_goes_back() {
    let mut model = three();
    model.resize(Rect::new(0, 0, 40, 20));
    press(&mut model, "j");
    assert_eq!(key(&mut model, KeyPress::Enter), []);
    assert_eq!(model.pane, ActivePane::Preview);
    assert_eq!(key(&mut model, KeyPress::Enter), [DashboardEffect::Attach { id: id('a'), observe: false }]);
    assert_eq!(key(&mut model, KeyPress::Esc), []);
    assert_eq!(model.pane, ActivePane::List);
    key(&mut model, KeyPress::Tab);
    assert_eq!(model.pane, ActivePane::Preview);
}

#[test]
fn on_a_phone_the_list_is_where_it_was_after_a_look_at_one() {
    let mut model = many();
    model.resize(Rect::new(0, 0, 40, 20));
    press(&mut model, "jjjj");
    key(&mut model, KeyPress::Enter);
    model.found([known(status('0', "s0", "running"))]);
    key(&mut model, KeyPress::Esc);
    assert_eq!((model.top, model.place()), (0, Some(4)));
}

#[test]
fn on_a_phone_one_that_leaves_the_list_leads_back_to_it() {
    let mut model = model(vec![status('a', "job", "stopped"), status('b', "other", "stopped")]);
    model.resize(Rect::new(0, 0, 40, 20));
    key(&mut model, KeyPress::Enter);
    let looked_at = model.selected().expect("one").id.clone();
    assert_eq!(
        press(&mut model, "e"),
        [DashboardEffect::Do(DashboardAction::Archive { id: looked_at.clone() })]
    );
    assert_eq!(model.pane, ActivePane::Preview);
    let letter = if looked_at == id('a') { 'a' } else { 'b' };
    let mut away = status(letter, "job", "archived");
    (away.keeper_pid, away.archived_at) = (None, Some(Timestamp(150_000)));
    model.found([known(away)]);
    assert_eq!((names(&model).len(), model.pane), (1, ActivePane::List));
    // A session that only moves in the list stays on the screen.
    key(&mut model, KeyPress::Enter);
    let other = if letter == 'a' { 'b' } else { 'a' };
    model.found([known(status(other, "other", "running"))]);
    assert_eq!(model.pane, ActivePane::Preview);
    // The matches of a filter are shown in the list.
    press(&mut model, "/");
    assert_eq!(model.pane, ActivePane::List);
}

#[test]
fn a_click_selects_the_row_under_it_and_the_wheel_scrolls_what_it_is_over() {
    let mut model = three();
    assert_eq!(model.input(InputEvent::Click { column: 5, row: 3 }), [DashboardEffect::Look(Some(id('c')))]);
    assert_eq!(model.input(InputEvent::Click { column: 5, row: 20 }), []);
    model.input(InputEvent::Wheel { column: 5, row: 20, up: true });
    assert_eq!((model.scrolled, model.selected().map(DashboardRow::handle).as_deref()), (3, Some("docs")));
    model.input(InputEvent::Wheel { column: 5, row: 20, up: false });
    assert_eq!(model.scrolled, 0);
    model.input(InputEvent::Wheel { column: 5, row: 2, up: true });
    assert_eq!(model.selected().map(DashboardRow::handle).as_deref(), Some("tests"));
}

#[test]
fn the_selected_one_is_always_in_view() {
    let mut model = many();
    let count = names(&model).len();
    assert!(count > 20, "{count}");
    for (keys, area) in
        [("jjjjjjjjjjjjjjjjjjjj", (80, 24)), ("G", (40, 10)), ("kkkk", (130, 8)), ("g", (60, 6))]
    {
        model.resize(Rect::new(0, 0, area.0, area.1));
        press(&mut model, keys);
        let (place, rows) = (model.place().expect("one"), model.layout().expect("room").rows());
        assert!((model.top..model.top + rows).contains(&place), "{place} in {} + {rows}", model.top);
        assert!(model.in_view().len() <= rows + 1);
    }
}

#[test]
fn a_preview_of_another_session_is_not_shown() {
    let mut model = three();
    let of = |letter| SessionPreview {
        id: id(letter),
        content: PreviewContent::Talk(PreviewTranscript::default()),
        remark: None,
    };
    model.previewed(of('a'));
    assert_eq!(model.preview, None);
    model.previewed(of('b'));
    assert!(model.preview.is_some());
    press(&mut model, "j");
    assert_eq!(model.preview, None);
}

#[test]
fn a_new_run_of_the_selected_session_gets_a_new_preview() {
    let mut model = model(vec![status('a', "job", "running")]);
    let mut stopped = status('a', "job", "stopped");
    assert_eq!(model.found([known(stopped.clone())]), [DashboardEffect::Look(Some(id('a')))]);
    stopped.exit = Some(1);
    assert_eq!(model.found([known(stopped)]), []);
}

#[test]
fn a_suspended_keeper_is_said_to_be_unreachable_until_it_goes_on() {
    let mut model = three();
    let pulse =
        |suspended| SessionMeasurement { memory_bytes: Some(1 << 20), last_activity_at: 0, suspended };
    model.measured(&id('a'), &pulse(true));
    assert_eq!(model.row(&id('a')).map(DashboardRow::state), Some(RowState::Unreachable));
    // The state on disk does not change that.
    model.found([known(status('a', "tests", "running"))]);
    assert_eq!(model.row(&id('a')).map(DashboardRow::state), Some(RowState::Unreachable));
    model.measured(&id('a'), &pulse(false));
    assert_eq!(model.row(&id('a')).map(DashboardRow::state), Some(RowState::Of(SessionState::Running)));
}

#[test]
fn only_so_much_is_under_way_at_once() {
    let mut model = model(vec![status('a', "job", "stopped")]);
    let begun: usize = (0..MOST_BUSY + 5).map(|_| press(&mut model, "r").len()).sum();
    assert_eq!(begun, MOST_BUSY);
    assert!(matches!(&model.message, Some(StatusLineMessage::Problem(_))));
}

#[test]
fn a_note_vanishes_by_itself_and_a_problem_when_it_is_solved() {
    let mut model = model(vec![status('a', "job", "stopped")]);
    model.done(FinishedAction { what: String::new(), outcome: Ok("resumed job".to_owned().into()) });
    assert_eq!(model.note_left(), Some(NOTE_TIME));
    model.set_uptime(NOTE_TIME);
    assert_eq!(model.message, None);
    // The problem stays until the session runs and can be attached to.
    key(&mut model, KeyPress::Enter);
    model.set_uptime(NOTE_TIME * 5);
    assert!(matches!(&model.message, Some(StatusLineMessage::Problem(_))));
    model.found([known(status('a', "job", "stopped"))]);
    assert!(model.message.is_some());
    model.found([known(status('a', "job", "running"))]);
    assert_eq!(model.message, None);
}

#[test]
fn a_form_starts_a_session_and_is_there_again_if_that_fails() {
    let mut model = three();
    model.set_cwd("/src/here".into());
    assert_eq!(press(&mut model, "c"), [DashboardEffect::ListAgents]);
    // Text that is typed before the agents are known is still text.
    press(&mut model, "codex");
    for field in [KeyPress::Tab, KeyPress::Down, KeyPress::Enter, KeyPress::Enter] {
        assert_eq!(key(&mut model, field), []);
    }
    model.input(InputEvent::Paste { text: "mend it\nnow".into(), cut: false });
    let action = DashboardAction::Start {
        agent: "codex".into(),
        dir: "/src/berth".into(),
        interface: InterfaceChoice::Chat,
        prompt: "mend it\nnow".into(),
    };
    assert_eq!(key(&mut model, KeyPress::Enter), [DashboardEffect::Do(action)]);
    let failed = Problem::not_found("no such program");
    model.done(FinishedAction { what: "starting codex".into(), outcome: Err(failed) });
    press(&mut model, "c");
    assert_eq!(
        model.form.as_ref().map(|form| form.value(FormField::Prompt)).as_deref(),
        Some("mend it\nnow")
    );
    key(&mut model, KeyPress::Enter);
    let made = ActionOutcome { note: "started it".into(), made: Some(id('d')) };
    model.done(FinishedAction { what: "starting codex".into(), outcome: Ok(made) });
    assert_eq!((model.form.clone(), &model.mode), (None, &DashboardMode::Browse));
    // The new session is selected once it is in the list.
    let effects = model.found([known(agent('d', "new", "working"))]);
    assert_eq!(model.selected().map(DashboardRow::handle).as_deref(), Some("new"));
    assert_eq!(effects, [DashboardEffect::Look(Some(id('d')))]);
}

#[test]
fn an_agent_with_another_interface_is_switched_to_it_and_one_without_says_so() {
    let mut docs = agent('c', "docs", "idle");
    docs.other_interfaces = vec![berth_api::record::AgentInterface::Terminal];
    let mut with_both = model(vec![docs]);
    let switch = DashboardAction::Switch { id: id('c'), to: berth_api::record::AgentInterface::Terminal };
    assert_eq!(key(&mut with_both, KeyPress::Char('I')), [DashboardEffect::Do(switch)]);
    let mut with_one = model(vec![agent('c', "docs", "idle")]);
    assert_eq!(key(&mut with_one, KeyPress::Char('I')), []);
}

#[test]
fn name_note_tags_and_copies_are_written_in_a_line() {
    let tagged = || {
        let mut docs = agent('c', "docs", "idle");
        (docs.tags, docs.note) = (vec!["old".into(), "work".into()], Some("look at it".into()));
        model(vec![docs])
    };
    let id = id('c');
    let cases = [
        ("R2", DashboardAction::Rename { id: id.clone(), name: "docs2".into() }),
        ("f", DashboardAction::Fork { id: id.clone(), name: None }),
        ("fcopy", DashboardAction::Fork { id: id.clone(), name: Some("copy".into()) }),
        ("N!", DashboardAction::Note { id: id.clone(), note: Some("look at it!".into()) }),
        ("T new", DashboardAction::Tag { id: id.clone(), add: vec!["new".into()], remove: vec![] }),
    ];
    for (keys, action) in cases {
        let mut model = tagged();
        press(&mut model, keys);
        assert_eq!(key(&mut model, KeyPress::Enter), [DashboardEffect::Do(action)], "{keys}");
        assert_eq!(model.mode, DashboardMode::Browse);
    }
    let mut model = tagged();
    press(&mut model, "N");
    key(&mut model, KeyPress::Ctrl('u'));
    assert_eq!(
        key(&mut model, KeyPress::Enter),
        [DashboardEffect::Do(DashboardAction::Note { id: id.clone(), note: None })]
    );
    press(&mut model, "T");
    key(&mut model, KeyPress::Ctrl('w'));
    let removed = DashboardAction::Tag { id, add: vec![], remove: vec!["work".into()] };
    assert_eq!(key(&mut model, KeyPress::Enter), [DashboardEffect::Do(removed)]);
}

#[test]
fn a_queue_is_changed_turn_by_turn_and_the_selection_stays_with_its_turn() {
    let mut model = model(vec![agent('c', "docs", "working")]);
    let of = PanelKind::Queue { of: id('c') };
    assert_eq!(press(&mut model, "Q"), [DashboardEffect::List(of.clone())]);
    let turn = |number: u64| TurnView { number, prompt: format!("p{number}"), ..TurnView::default() };
    let queue = |numbers: &[u64]| {
        let turns = numbers.iter().copied().map(turn).collect();
        LoadedList::Panel(PanelKind::Queue { of: id('c') }, Ok(PanelEntries::Queue { held: None, turns }))
    };
    let change = |change| vec![DashboardEffect::Do(DashboardAction::Queue { id: id('c'), change })];
    model.listed(queue(&[4, 5, 6]));
    assert_eq!(press(&mut model, "jJ"), change(QueueAction::Move { turn: 5, to: 2 }));
    model.listed(queue(&[4, 6, 5]));
    assert_eq!(press(&mut model, "J"), []);
    press(&mut model, "x");
    assert_eq!(press(&mut model, "y"), change(QueueAction::Drop { turn: 5 }));
    assert_eq!(model.mode, DashboardMode::Panel);
    // A turn that begins leaves the queue: the list is read again.
    let waiting = |numbers: &[u64]| {
        let mut status = agent('c', "docs", "working");
        let turns = status.turns.as_mut().expect("turns");
        turns.queued = numbers.iter().map(|number| format!("c.{number}")).collect();
        known(status)
    };
    assert!(model.found([waiting(&[4, 6])]).contains(&DashboardEffect::List(of.clone())));
    // Reads do not overlap: changes during one are read together after it.
    for _ in 0..3 {
        assert_eq!(model.found([waiting(&[6])]), []);
    }
    assert_eq!(model.listed(queue(&[4, 6])), [DashboardEffect::List(of)]);
    assert_eq!(model.listed(queue(&[6])), []);
    key(&mut model, KeyPress::Enter);
    press(&mut model, "!");
    let edited = change(QueueAction::Edit { turn: 6, text: "p6!".into() });
    assert_eq!(key(&mut model, KeyPress::Enter), edited);
    assert_eq!(press(&mut model, "p"), change(QueueAction::Pause));
    key(&mut model, KeyPress::Esc);
    assert_eq!((&model.mode, model.panel.is_none()), (&DashboardMode::Browse, true));
}

#[test]
fn a_foreign_conversation_is_adopted_after_a_yes_and_only_the_named_processes_are_ended() {
    let mut model = three();
    assert_eq!(press(&mut model, "O"), [DashboardEffect::List(PanelKind::Conversations)]);
    let holder = berth_verbs::foreign::ConversationHolder {
        pid: 7,
        since: Timestamp(0),
        terminal: None,
        cwd: None,
        command: "claude".into(),
        evidence: String::new(),
    };
    let conversation = berth_verbs::foreign::AgentConversation {
        id: "c1".into(),
        agent: "claude".into(),
        file: None,
        bytes: 0,
        cwd: None,
        title: None,
        first_words: None,
        version: None,
        branch: None,
        began_at: None,
        last_activity_at: Timestamp(0),
        archived: false,
        held_by: vec![holder],
        session: None,
        unreadable: None,
    };
    let entries = PanelEntries::Conversations { all: vec![conversation.clone()], more: 0 };
    model.listed(LoadedList::Panel(PanelKind::Conversations, Ok(entries)));
    key(&mut model, KeyPress::Enter);
    assert!(matches!(&model.mode, DashboardMode::Confirm { question, .. } if question.contains('7')));
    let action =
        DashboardAction::Adopt { conversation: Box::new(conversation), take: WriterTakeover::Only(vec![7]) };
    assert_eq!(press(&mut model, "y"), [DashboardEffect::Do(action)]);
}

#[test]
fn a_no_takes_a_reason_and_a_question_own_words_and_several_options() {
    let with = |change: &dyn Fn(&mut AgentQuestion)| {
        let mut status = asking('b', "fix");
        change(&mut status.turns.as_mut().expect("turns").asks[0]);
        let mut model = model(vec![status]);
        press(&mut model, "a");
        read(&mut model);
        model
    };
    let answer = |reply| {
        vec![DashboardEffect::Do(DashboardAction::Answer {
            id: id('b'),
            request: "7".into(),
            reply,
            epoch: 0,
        })]
    };
    let mut plain = with(&|_| {});
    assert_eq!(press(&mut plain, "t"), []);
    assert!(matches!(plain.mode, DashboardMode::Answer { .. }));
    let mut denied = with(&|ask| ask.takes_reason = true);
    press(&mut denied, "tuse mktemp");
    let reason = Some("use mktemp".into());
    assert_eq!(key(&mut denied, KeyPress::Enter), answer(QuestionReply::Deny { reason }));
    let several = |ask: &mut AgentQuestion| {
        (ask.several, ask.takes_text) = (true, true);
        ask.options.iter_mut().for_each(|option| option.kind = berth_api::turn::QuestionOptionKind::Other);
    };
    let mut chosen = with(&several);
    assert_eq!(key(&mut chosen, KeyPress::Enter), []);
    press(&mut chosen, "132");
    press(&mut chosen, "3");
    let ids = vec!["once".into(), "always".into()];
    assert_eq!(key(&mut chosen, KeyPress::Enter), answer(QuestionReply::Options { ids, text: None }));
    let mut own = with(&several);
    press(&mut own, "1tgreen");
    let text = Some("green".into());
    let reply = QuestionReply::Options { ids: vec!["once".into()], text };
    assert_eq!(key(&mut own, KeyPress::Enter), answer(reply));
    // Another client answers meanwhile: nothing is sent.
    let mut late = with(&several);
    press(&mut late, "tgreen");
    late.found([known(agent('b', "fix", "working"))]);
    let sent = key(&mut late, KeyPress::Enter);
    assert!(!sent.iter().any(|effect| matches!(effect, DashboardEffect::Do(_))), "{sent:?}");
}

#[test]
fn news_of_a_session_without_queued_turns_reads_no_queue() {
    let mut model = model(vec![agent('c', "docs", "working")]);
    let of = PanelKind::Queue { of: id('c') };
    press(&mut model, "Q");
    let empty = PanelEntries::Queue { held: None, turns: vec![] };
    assert_eq!(model.listed(LoadedList::Panel(of.clone(), Ok(empty))), []);
    assert_eq!(model.found([known(agent('c', "docs", "idle"))]), []);
    let mut held = agent('c', "docs", "idle");
    held.turns.as_mut().expect("turns").held = Some("paused".into());
    assert_eq!(model.found([known(held)]), [DashboardEffect::List(of)]);
}
