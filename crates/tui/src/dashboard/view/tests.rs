//! Tests of the view: pictures, as text.

use berth_api::Problem;
use berth_api::status::{ContextStatus, TurnsStatus};
use berth_core::SessionId;
use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::model::tests::model;
use super::super::model::{SessionLookup, SessionMeasurement};
use super::super::preview::{PreviewContent, PreviewScreen, SessionPreview};
use super::super::preview_transcript::PreviewTranscript;
use super::super::preview_transcript::tests::{accepted, ended};
use super::super::row::RowStatus;
use super::super::row::tests::{agent, asking, status};
use super::*;
use crate::keys::{InputEvent, KeyPress};

const PLAIN: ViewStyle = ViewStyle { colour: false };

/// The picture on a terminal of this size.
fn picture(model: &mut DashboardModel, width: u16, height: u16) -> String {
    model.resize(Rect::new(0, 0, width, height));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a backend in memory");
    terminal
        .draw(|frame| {
            draw(model, PLAIN, frame.buffer_mut());
        })
        .expect("a picture in memory");
    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let mut text = String::new();
        let mut x = 0;
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            text.push_str(symbol);
            x += u16::try_from(crate::text_width::column_width(symbol)).unwrap_or(1).max(1);
        }
        text.trim_end().to_owned()
    };
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

fn id(letter: char) -> SessionId {
    SessionId::parse(&letter.to_string().repeat(SessionId::LENGTH)).expect("an id")
}

fn talk(letter: char) -> SessionPreview {
    let mut transcript = PreviewTranscript::default();
    transcript.event(&accepted(1, "why does the login fail?"));
    transcript.event(&ended(1, "The token is compared before it is trimmed. 日本語 🙂 are fine."));
    transcript.event(&accepted(2, "then mend it"));
    transcript.event(&berth_api::record::Event::TurnBegan { turn: 2 });
    transcript.doing(2, "Read", "src/login.rs");
    transcript.said(2, "I will trim it first.\n\n  let token = token.trim();");
    SessionPreview { id: id(letter), content: PreviewContent::Talk(transcript), remark: None }
}

fn sessions() -> DashboardModel {
    let mut working = agent('d', "日本語-docs", "working");
    working.turns = Some(TurnsStatus {
        activity: Some("Bash: cargo test --workspace".into()),
        queued: vec!["d.4".into(), "d.5".into()],
        ..TurnsStatus::default()
    });
    let mut failed = status('e', "job", "stopped");
    failed.exit = Some(3);
    let mut model = model(vec![
        status('a', "tests", "running"),
        asking('b', "fix-login"),
        agent('c', "idle-one", "idle"),
        working,
        failed,
    ]);
    let pulse = SessionMeasurement { memory_bytes: Some(180 << 20), ..SessionMeasurement::default() };
    model.measured(&id('a'), &pulse);
    model.previewed(talk('b'));
    model
}

#[test]
fn eighty_by_twenty_four_has_the_list_above_the_preview() {
    assert_snapshot!("80x24", picture(&mut sessions(), 80, 24));
}

#[test]
fn a_phone_has_one_pane_at_a_time() {
    let mut model = sessions();
    assert_snapshot!("40x20-list", picture(&mut model, 40, 20));
    model.input(InputEvent::Key(KeyPress::Enter));
    assert_snapshot!("40x20-preview", picture(&mut model, 40, 20));
}

#[test]
fn a_wide_terminal_has_them_side_by_side() {
    assert_snapshot!("120x40", picture(&mut sessions(), 120, 40));
}

#[test]
fn a_screen_is_shown_by_its_end_and_scrolls() {
    let mut model = model(vec![status('a', "tests", "running")]);
    let screen: Vec<String> = (1..=60).map(|n| format!("\x1b[32mline {n}\x1b[0m 🙂")).collect();
    let content = PreviewContent::Screen(PreviewScreen::new(&screen.join("\n"), None));
    model.previewed(SessionPreview { id: id('a'), content, remark: None });
    let shown = picture(&mut model, 80, 24);
    assert!(shown.contains("line 60 🙂") && !shown.contains("line 30 "), "{shown}");
    model.input(InputEvent::Key(KeyPress::PageUp));
    let shown = picture(&mut model, 80, 24);
    assert!(!shown.contains("line 60 ") && shown.contains("more below"), "{shown}");
    for _ in 0..20 {
        model.input(InputEvent::Key(KeyPress::PageUp));
    }
    assert!(picture(&mut model, 80, 24).contains("line 1 🙂"));
    // Scrolling beyond the beginning must cost no extra key on the way back.
    model.input(InputEvent::Key(KeyPress::PageDown));
    assert!(!picture(&mut model, 80, 24).contains("line 1 🙂"));
}

#[test]
fn a_screen_is_shown_where_its_cursor_is_and_scrolls_both_ways() {
    let mut model = model(vec![status('a', "vim", "running")]);
    let text: Vec<String> = (1..=60).map(|n| format!("line {n} 🙂")).collect();
    let mut shown_with = |cursor_row: u16| {
        let content = PreviewContent::Screen(PreviewScreen::new(&text.join("\n"), Some(cursor_row)));
        model.previewed(SessionPreview { id: id('a'), content, remark: None });
        picture(&mut model, 80, 24)
    };
    for (row, has, has_not) in
        [(0, "line 1 ", "line 60 "), (30, "line 31 ", "line 1 "), (59, "line 60 ", "more")]
    {
        let shown = shown_with(row);
        assert!(shown.contains(has) && !shown.contains(has_not), "cursor on {row}:\n{shown}");
        assert_eq!(shown.contains("more below"), row < 59, "{shown}");
    }
    shown_with(0);
    for _ in 0..20 {
        model.input(InputEvent::Key(KeyPress::PageDown));
    }
    assert!(picture(&mut model, 80, 24).contains("line 60 🙂"));
    // Scrolling beyond the end must cost no extra key on the way back.
    model.input(InputEvent::Key(KeyPress::PageUp));
    assert!(!picture(&mut model, 80, 24).contains("line 60 🙂"));
}

#[test]
fn the_help_says_everything_in_full_on_a_phone_too() {
    let mut model = sessions();
    model.input(InputEvent::Key(KeyPress::Char('?')));
    assert_snapshot!("40x20-help", picture(&mut model, 40, 20));
    for width in [40, 50, 59, 60, 80] {
        let shown = picture(&mut model, width, 20);
        assert!(!shown.contains("…\n") && shown.contains("sessions go on"), "{width}:\n{shown}");
    }
}

#[test]
fn a_phone_is_told_the_way_back_and_the_way_out() {
    for keep in ["fix-login", "tests", "job"] {
        let mut model = sessions();
        while model.selected().map(DashboardRow::handle).as_deref() != Some(keep) {
            model.input(InputEvent::Key(KeyPress::Down));
        }
        let footer = |model: &mut DashboardModel| {
            let shown = picture(model, 40, 20);
            shown.lines().last().unwrap_or_default().to_owned()
        };
        let list = footer(&mut model);
        assert!(list.contains("Enter look") && list.ends_with("q quit  ? help"), "{list}");
        model.input(InputEvent::Key(KeyPress::Enter));
        let preview = footer(&mut model);
        assert!(preview.starts_with("Esc list  ") && preview.ends_with("? help"), "{preview}");
    }
}

#[test]
fn an_empty_dashboard_shows_how_to_begin() {
    assert_snapshot!("80x24-empty", picture(&mut model(vec![]), 80, 24));
    assert_snapshot!("40x20-empty", picture(&mut model(vec![]), 40, 20));
    let mut looking = DashboardModel::new(Rect::new(0, 0, 80, 24), 0);
    assert_snapshot!("80x24-looking", picture(&mut looking, 80, 24));
}

#[test]
fn a_damaged_session_is_shown_with_what_to_do() {
    let mut model = model(vec![]);
    let problem = Problem::refused("cannot use the journal: checksum").hint("docs/recovery.md");
    model.found([(id('a'), SessionLookup::Known(Box::new(RowStatus::Damaged(problem))))]);
    assert_snapshot!("80x24-damaged", picture(&mut model, 80, 24));
}

#[test]
fn a_question_is_shown_in_full_with_what_can_be_answered() {
    let mut question = asking('b', "fix");
    let long = format!("cargo test {} && rm -rf target", "--workspace ".repeat(12));
    question.turns.as_mut().expect("turns").asks[0].detail = long;
    let mut model = model(vec![question]);
    model.input(InputEvent::Key(KeyPress::Char('a')));
    assert_snapshot!("80x24-question-unread", picture(&mut model, 80, 24));
    model.drawn();
    model.set_uptime(crate::reading_time::READING_TIME);
    assert_snapshot!("80x24-question", picture(&mut model, 80, 24));
    assert_snapshot!("40x30-question", picture(&mut model, 40, 30));
}

#[test]
fn the_text_being_written_is_shown_with_the_cursor_behind_it() {
    let mut model = sessions();
    model.input(InputEvent::Key(KeyPress::Char('m')));
    model.input(InputEvent::Paste { text: "first\nsecond 日本".into(), cut: false });
    model.resize(Rect::new(0, 0, 80, 24));
    let mut buffer = Buffer::empty(model.area);
    let cursor = draw(&mut model, PLAIN, &mut buffer);
    assert_eq!(cursor, Some(Position { x: 13, y: 23 }));
    assert_snapshot!("80x24-message", picture(&mut model, 80, 24));
    // A long text stays within half of the screen, and the cursor stays visible.
    model.input(InputEvent::Paste { text: "word ".repeat(20_000), cut: false });
    let cursor = draw(&mut model, PLAIN, &mut buffer).expect("a cursor");
    assert!(cursor.y < 24 && cursor.x < 80, "{cursor:?}");
}

#[test]
fn an_error_has_its_hint_below_it() {
    let mut model = sessions();
    model.trouble(Problem::held("another client is attached").hint("watch with o"));
    assert_snapshot!("80x24-error", picture(&mut model, 80, 24));
}

#[test]
fn no_control_character_is_ever_drawn_at_any_size() {
    let mut hostile = asking('a', "x");
    hostile.name = Some("na\x1b[31mme\n\x07".into());
    hostile.what.cwd = "/tmp/\x1b]0;evil\x07".into();
    hostile.note = Some("\u{9b}31m".into());
    hostile.tags = vec!["\x1b[2J".into()];
    let ask = &mut hostile.turns.as_mut().expect("turns").asks[0];
    (ask.tool, ask.detail) = ("B\x1bash".into(), "rm \x1b[8m-rf /\r\n\x08\x7f".into());
    ask.options[0].name = "Y\x1b[0mes".into();
    let mut model = model(vec![hostile]);
    let mut transcript = PreviewTranscript::default();
    transcript.event(&accepted(1, "\x1b[?1049h\r\x00 prompt"));
    transcript.said(1, "\x1b]52;c;AAAA\x07 said \u{202e}");
    transcript.doing(1, "To\x1bol", "\x1b[5n");
    model.previewed(SessionPreview {
        id: id('a'),
        content: PreviewContent::Talk(transcript),
        remark: Some("\x1b[c".into()),
    });
    model.trouble(Problem::refused("\x1b[31m no").hint("\x07"));
    for width in 1..130 {
        for height in [1, 5, 6, 7, 12, 24, 50] {
            let area = Rect::new(0, 0, width, height);
            model.resize(area);
            let mut buffer = Buffer::empty(area);
            draw(&mut model, PLAIN, &mut buffer);
            for cell in buffer.content() {
                // A character that reverses the direction of writing could make a command look like another one.
                let obeyed = |c: char| c.is_control() || c == '\u{202e}';
                assert!(!cell.symbol().contains(obeyed), "{:?} at {width}×{height}", cell.symbol());
            }
        }
    }
}

#[test]
fn colours_are_sixteen_and_the_background_is_the_terminals_own() {
    let mut model = sessions();
    model.resize(Rect::new(0, 0, 80, 24));
    for pressed in ["", "?", "m", "x", "c", "Q", "i", "R"] {
        for c in pressed.chars() {
            model.input(InputEvent::Key(KeyPress::Char(c)));
        }
        let mut buffer = Buffer::empty(model.area);
        draw(&mut model, ViewStyle { colour: true }, &mut buffer);
        for cell in buffer.content() {
            assert_eq!(cell.bg, Color::Reset);
            assert!(!matches!(cell.fg, Color::Rgb(..) | Color::Indexed(_) | Color::White | Color::Black));
        }
        model.input(InputEvent::Key(KeyPress::Esc));
    }
}

#[test]
fn a_terminal_too_small_for_anything_says_so() {
    assert_snapshot!("19x24", picture(&mut sessions(), 19, 24));
    for (width, height) in [(1, 1), (2, 1), (1, 5), (200, 2)] {
        picture(&mut sessions(), width, height);
    }
}

#[test]
fn a_list_that_is_longer_than_the_screen_says_how_many_more_there_are() {
    let letters = "0123456789abcdefghjkmnpqrstvw".chars();
    let mut model = model(letters.map(|c| status(c, &format!("s{c}"), "running")).collect());
    assert_snapshot!("80x24-more-below", picture(&mut model, 80, 24));
    for _ in 0..20 {
        model.input(InputEvent::Key(KeyPress::Down));
    }
    assert_snapshot!("80x24-more-around", picture(&mut model, 80, 24));
    model.input(InputEvent::Key(KeyPress::Char('G')));
    let wide = picture(&mut model, 200, 24);
    assert!(wide.contains("↑"), "{wide}");
    assert!(!picture(&mut model, 200, 60).contains(" more"));
}

#[test]
fn a_form_and_its_suggestions_are_shown_with_the_cursor_in_the_field() {
    let mut model = sessions();
    model.set_cwd("/src/here".into());
    model.input(InputEvent::Key(KeyPress::Char('c')));
    let about = "Claude Code".to_owned();
    let agents = vec![super::super::form::FormSuggestion { text: "claude".into(), about }];
    model.listed(super::super::model::LoadedList::Agents(Ok(agents)));
    assert_snapshot!("80x24-new", picture(&mut model, 80, 24));
    let mut buffer = Buffer::empty(model.area);
    assert_eq!(draw(&mut model, PLAIN, &mut buffer), Some(Position { x: 18, y: 3 }));
    for (width, height) in [(20, 6), (40, 8), (60, 10), (200, 50)] {
        picture(&mut model, width, height);
    }
}

#[test]
fn details_stand_in_the_place_of_the_preview() {
    let mut shows = sessions();
    shows.input(InputEvent::Key(KeyPress::Char('i')));
    // No agent told of a context, so there is none.
    assert_snapshot!("80x24-details", picture(&mut shows, 80, 24));
    let mut tells = agent('a', "one", "idle");
    tells.context = Some(ContextStatus { used_tokens: 45_210, window_tokens: Some(200_000) });
    let mut shows = model(vec![tells]);
    shows.input(InputEvent::Key(KeyPress::Char('i')));
    assert_snapshot!("80x24-details-context", picture(&mut shows, 80, 24));
}
