use berth_api::SessionState;

use super::Paper;
use crate::listing::row::Row;
use crate::width::width;

fn draw(rows: &[Row], paper: Paper) -> Vec<String> {
    super::draw(rows, paper).iter().map(|line| line.as_str().to_owned()).collect()
}

fn row(session: &str, state: &str, doing: &str) -> Row {
    Row {
        session: session.to_owned(),
        id: "0a1b2c3d4e5f".to_owned(),
        state: state.to_owned(),
        paint: (&SessionState::from(state)).into(),
        age: "3d".to_owned(),
        active: "12m".to_owned(),
        dir: "~/code/berth".to_owned(),
        doing: doing.to_owned(),
        ..Row::default()
    }
}

fn rows() -> Vec<Row> {
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

fn paper(columns: usize) -> Paper {
    Paper { columns: Some(columns), colour: false }
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
                assert!(width(line) <= columns.max(2), "{columns}: {line:?} is {} wide", width(line));
            }
        }
    }
}

#[test]
fn columns_begin_at_the_same_place_in_every_line_whatever_is_in_them() {
    for columns in [40, 80, 200] {
        let lines = draw(&rows(), paper(columns));
        let head = &lines[0];
        let state_at = width(head.split("STATE").next().expect("a head"));
        for (line, state) in lines[1..].iter().zip(["needs-you", "working", "idle", "stopped"]) {
            let before = line.split(state).next().expect("a state");
            assert_eq!(width(before), state_at, "{columns}: {line:?}");
        }
    }
}

#[test]
fn a_narrow_terminal_keeps_name_state_and_what_it_does() {
    let lines = draw(&rows(), paper(40));
    assert_eq!(
        lines.join("\n"),
        "SESSION        STATE      DOING\n\
         fix-login      needs-you  asks: Bash: r…\n\
         translate      working    翻訳していま…\n\
         party          idle       🎉🎉🎉🎉🎉🎉…\n\
         xxxxxxxxxxxx…  stopped    failed · exit…"
    );
}

#[test]
fn an_ordinary_terminal_has_times_and_the_queue_too() {
    let lines = draw(&rows(), paper(80));
    assert_eq!(
        lines[..3].join("\n"),
        "SESSION                     STATE      ACTIVE  QUEUE  DOING\n\
         fix-login                   needs-you  12m            asks: Bash: rm -rf build/…\n\
         translate                   working    12m        12  翻訳しています: ドキュメ…"
    );
}

#[test]
fn a_wide_terminal_has_everything() {
    let lines = draw(&rows(), paper(200));
    for head in ["SESSION", "ID", "STATE", "AGE", "ACTIVE", "QUEUE", "TAGS", "DIRECTORY", "DOING"] {
        assert!(lines[0].contains(head), "no {head} in {}", lines[0]);
    }
    assert!(lines[1].contains("0a1b2c3d4e5f") && lines[1].contains("--workspace"), "{}", lines[1]);
}

#[test]
fn a_session_without_a_name_shows_its_id_once() {
    let rows = [
        row("fix", "idle", "sh"),
        Row { id: "9z8y7x6w5v4u".to_owned(), ..row("9z8y7x6w5v4u", "idle", "sh") },
    ];
    let lines = draw(&rows, paper(120));
    assert!(lines[0].contains("ID") && lines[1].contains("0a1b2c3d4e5f"), "{lines:#?}");
    assert_eq!(lines[2].matches("9z8y7x6w5v4u").count(), 1, "{lines:#?}");
}

#[test]
fn the_current_session_is_marked_and_the_others_make_room() {
    let mut rows = rows();
    rows[1].is_current = true;
    let lines = draw(&rows, paper(80));
    assert!(lines[1].starts_with("  fix-login") && lines[2].starts_with("@ translate"), "{lines:#?}");
}

#[test]
fn off_a_terminal_nothing_is_cut_and_the_columns_are_always_the_same() {
    let whole = Paper { columns: None, colour: false };
    let lines = draw(&rows(), whole);
    let words: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(
        words,
        ["ID", "NAME", "STATE", "AGE", "ACTIVE", "QUEUE", "TAGS", "DIRECTORY", "BRANCH", "MODEL", "DOING"]
    );
    assert!(lines[4].contains(&"x".repeat(64)));
    let bare = draw(&[row("0a1b2c3d4e5f", "idle", "sh")], whole);
    let words: Vec<&str> = bare[1].split_whitespace().collect();
    assert_eq!(words, ["0a1b2c3d4e5f", "-", "idle", "3d", "12m", "-", "-", "~/code/berth", "-", "-", "sh"]);
}

#[test]
fn colour_is_around_the_state_and_changes_no_width() {
    let plain = draw(&rows(), paper(80));
    let coloured = draw(&rows(), Paper { columns: Some(80), colour: true });
    assert!(coloured[1].contains("\x1b[1;35mneeds-you\x1b[0m"), "{:?}", coloured[1]);
    for (plain, coloured) in plain.iter().zip(&coloured) {
        let mut text = coloured.clone();
        for code in ["\x1b[1;35m", "\x1b[0m", "\x1b[32m", "\x1b[36m", "\x1b[2m"] {
            text = text.replace(code, "");
        }
        assert_eq!(&text, plain);
    }
}
