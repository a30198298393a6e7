use berth_api::SessionState;
use insta::assert_snapshot;

use super::TableFormat;
use crate::listing::row::ListingRow;
use crate::text_width::column_width;

fn draw(rows: &[ListingRow], paper: TableFormat) -> Vec<String> {
    super::draw(rows, paper).iter().map(|line| line.as_str().to_owned()).collect()
}

fn row(session: &str, state: &str, doing: &str) -> ListingRow {
    ListingRow {
        session: session.to_owned(),
        id: "0a1b2c3d4e5f".to_owned(),
        state: state.to_owned(),
        paint: (&SessionState::from(state)).into(),
        age: "3d".to_owned(),
        active: "12m".to_owned(),
        dir: "~/code/berth".to_owned(),
        doing: doing.to_owned(),
        ..ListingRow::default()
    }
}

fn rows() -> Vec<ListingRow> {
    let mut rows = vec![
        row("fix-login", "needs-you", "asks: Bash: rm -rf build/ && cargo build --release --workspace"),
        row("translate", "working", "翻訳しています: ドキュメントの最初の章から最後の章まで全部です、はい"),
        row("party", "idle", "🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉"),
        row(&"x".repeat(64), "stopped", "failed · exit 3 · make"),
    ];
    rows[1].queued = "12".to_owned();
    rows[2].tags = "fun,work".to_owned();
    rows
}

fn paper(columns: usize) -> TableFormat {
    TableFormat { columns: Some(columns), colour: false }
}

#[test]
fn no_line_is_wider_than_the_terminal_and_none_is_lost() {
    for columns in 1..260 {
        for is_current in [false, true] {
            let mut rows = rows();
            rows[0].is_current = is_current;
            let lines = draw(&rows, paper(columns));
            assert_eq!(lines.len(), 5);
            for line in &lines {
                assert!(
                    column_width(line) <= columns.max(2),
                    "{columns}: {line:?} is {} wide",
                    column_width(line)
                );
            }
        }
    }
}

#[test]
fn columns_begin_at_the_same_place_in_every_line() {
    for columns in [40, 80, 200] {
        let lines = draw(&rows(), paper(columns));
        let head = &lines[0];
        let state_at = column_width(head.split("STATE").next().expect("a head"));
        for (line, state) in lines[1..].iter().zip(["needs-you", "working", "idle", "stopped"]) {
            let before = line.split(state).next().expect("a state");
            assert_eq!(column_width(before), state_at, "{columns}: {line:?}");
        }
    }
}

#[test]
fn a_narrow_terminal_keeps_name_state_and_activity() {
    assert_snapshot!("40-columns", draw(&rows(), paper(40)).join("\n"));
}

#[test]
fn an_ordinary_terminal_has_times_and_the_queue_too() {
    assert_snapshot!("80-columns", draw(&rows(), paper(80)).join("\n"));
}

#[test]
fn a_wide_terminal_has_everything() {
    assert_snapshot!("200-columns", draw(&rows(), paper(200)).join("\n"));
}

#[test]
fn a_session_without_a_name_shows_its_id_once() {
    let rows = [
        row("fix", "idle", "sh"),
        ListingRow { id: "9z8y7x6w5v4u".to_owned(), ..row("9z8y7x6w5v4u", "idle", "sh") },
    ];
    assert_snapshot!("without-a-name", draw(&rows, paper(120)).join("\n"));
}

#[test]
fn the_current_session_is_marked_and_the_others_make_room() {
    let mut rows = rows();
    rows[1].is_current = true;
    assert_snapshot!("current-session", draw(&rows, paper(80)).join("\n"));
}

#[test]
fn off_a_terminal_nothing_is_cut_and_the_columns_are_always_the_same() {
    let whole = TableFormat { columns: None, colour: false };
    assert_snapshot!("off-a-terminal", draw(&rows(), whole).join("\n"));
    assert_snapshot!("off-a-terminal-bare", draw(&[row("0a1b2c3d4e5f", "idle", "sh")], whole).join("\n"));
}

#[test]
fn colour_is_around_the_state_and_changes_no_width() {
    let plain = draw(&rows(), paper(80));
    let coloured = draw(&rows(), TableFormat { columns: Some(80), colour: true });
    assert!(coloured[1].contains("\x1b[1;35mneeds-you\x1b[0m"), "{:?}", coloured[1]);
    for (plain, coloured) in plain.iter().zip(&coloured) {
        let mut text = coloured.clone();
        for code in ["\x1b[1;35m", "\x1b[0m", "\x1b[32m", "\x1b[36m", "\x1b[2m"] {
            text = text.replace(code, "");
        }
        assert_eq!(&text, plain);
    }
}
