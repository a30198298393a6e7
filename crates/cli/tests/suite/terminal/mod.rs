//! Terminals: attaching, leaving, typing, taking over, and losing the connection.
//!
//! Real terminals, the real binary, the fake agent. `TestTerminal` shows what a user would see.

mod attach;
mod disconnect;
mod leaving;
mod observe;
mod offers;
mod programs;
mod restart;
mod scrollback;
mod slow_disk;
mod typing;
mod writer;

use berth_api::client::KeeperMessage;
use berth_api::message::{AttachMode, KeeperAnswer, KeeperRequest, WindowSize};
use berth_api::{KeeperConnection, Problem};
use berth_harness::{TestEnvironment, TestTerminal};
use berth_screen::Screen;

use crate::common::contains;

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// A client without a terminal, as a program that speaks the protocol itself.
fn connect(lab: &TestEnvironment, id: &str) -> KeeperConnection {
    KeeperConnection::open(&lab.session_dir(id), "a test".to_owned()).expect("the keeper listens")
}

fn attach_over(connection: &mut KeeperConnection, role: AttachMode) -> Result<Option<u64>, Problem> {
    match connection.ask(KeeperRequest::Attach { role, size: WindowSize { rows: 24, cols: 80 } })? {
        KeeperAnswer::Attached { fence, .. } => Ok(fence),
        other => panic!("an odd answer: {other:?}"),
    }
}

/// The screen as the keeper has it, in a terminal of its size that has just attached.
fn kept_screen(lab: &TestEnvironment, id: &str) -> Screen {
    let mut connection = connect(lab, id);
    let request =
        KeeperRequest::Attach { role: AttachMode::Observer, size: WindowSize { rows: 24, cols: 80 } };
    let size = match connection.ask(request).expect("observing is free") {
        KeeperAnswer::Attached { size, .. } => berth_screen::ScreenSize { rows: size.rows, cols: size.cols },
        other => panic!("an odd answer: {other:?}"),
    };
    let mut screen = Screen::new(size);
    loop {
        match connection.next().expect("the keeper tells").expect("the keeper stays") {
            KeeperMessage::Screen(bytes) => {
                screen.feed(&bytes);
                return screen;
            }
            KeeperMessage::Answer(_) | KeeperMessage::Output(_) | KeeperMessage::Notice(_) => {}
        }
    }
}

/// The part of an observer's terminal that shows the session, without the status line.
fn watched(observer: &mut TestTerminal) -> String {
    let text = observer.text();
    let (screen, status) = text.rsplit_once('\n').unwrap_or(("", &text));
    assert!(status.contains("only watching"), "no status line below:\n{text}");
    screen.trim_end().to_owned()
}

/// The numbers `flood` wrote, in the order they came.
fn flood_numbers(output: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(output);
    let number = |line: &str| {
        let (before, _) = line.split_once(" the quick")?;
        // On a terminal something else may stand before the number.
        before.get(before.len().checked_sub(12)?..)?.parse().ok()
    };
    text.lines().filter_map(number).collect()
}

/// Asserts that the output of `flood` is all there, in order, nothing twice. Returns the number of lines.
fn assert_contiguous(numbers: &[u64]) -> u64 {
    for (at, number) in numbers.iter().enumerate() {
        assert_eq!(*number, at as u64 + 1, "the output jumps at line {}", at + 1);
    }
    numbers.len() as u64
}
