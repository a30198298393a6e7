//! Terminals: attaching, leaving, typing, taking over, and losing the connection.
//!
//! Real terminals, the real binary, the fake agent. `Terminal` shows what a person would see.

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

use berth_api::client::Arrival;
use berth_api::message::{Answer, Request, Role, Size};
use berth_api::{Connection, Problem};
use berth_harness::{Lab, Terminal};
use berth_screen::Screen;

use crate::common::contains;

fn lab() -> Lab {
    Lab::new(env!("CARGO_BIN_EXE_berth"))
}

/// A client without a terminal: what a program that speaks the protocol itself can do.
fn connect(lab: &Lab, id: &str) -> Connection {
    Connection::open(&lab.session_dir(id), "a test".to_owned()).expect("the keeper listens")
}

fn attach_over(connection: &mut Connection, role: Role) -> Result<Option<u64>, Problem> {
    match connection.ask(Request::Attach { role, size: Size { rows: 24, cols: 80 } })? {
        Answer::Attached { fence, .. } => Ok(fence),
        other => panic!("an odd answer: {other:?}"),
    }
}

/// The screen as the keeper has it, in a terminal of its size that has just attached.
fn kept_screen(lab: &Lab, id: &str) -> Screen {
    let mut connection = connect(lab, id);
    let request = Request::Attach { role: Role::Observer, size: Size { rows: 24, cols: 80 } };
    let size = match connection.ask(request).expect("observing is free") {
        Answer::Attached { size, .. } => berth_screen::Size { rows: size.rows, cols: size.cols },
        other => panic!("an odd answer: {other:?}"),
    };
    let mut screen = Screen::new(size);
    loop {
        match connection.next().expect("the keeper tells").expect("the keeper stays") {
            Arrival::Screen(bytes) => {
                screen.feed(&bytes);
                return screen;
            }
            Arrival::Answer(_) | Arrival::Output(_) | Arrival::Notice(_) => {}
        }
    }
}

/// What an observer's terminal shows of the session, without the status line.
fn watched(observer: &mut Terminal) -> String {
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

/// What `flood` wrote is all there, in order, nothing twice. Returns how many lines there are.
fn assert_contiguous(numbers: &[u64]) -> u64 {
    for (at, number) in numbers.iter().enumerate() {
        assert_eq!(*number, at as u64 + 1, "the output jumps at line {}", at + 1);
    }
    numbers.len() as u64
}
