//! One writer: B1, B3, B14, observers, and the writer's size.

use berth_api::message::AttachMode;
use berth_harness::{SeededRng, TestTerminal, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::terminal::{attach_over, connect, lab};

/// Asserts that there were never two writers at once, and that each writer got a higher number than the one before.
fn assert_one_writer_at_a_time(log: &[Value]) {
    let mut holder: Option<(u64, Value)> = None;
    let mut highest = 0;
    for event in log {
        match event["event"].as_str() {
            Some("writer_granted") => {
                let fence = event["fence"].as_u64().expect("a fence");
                assert!(fence > highest, "fence {fence} after {highest} in {log:#?}");
                let lost = holder.as_ref().map_or(Value::Null, |(_, holder)| holder.clone());
                assert_eq!(event["taken_from"], lost, "{log:#?}");
                highest = fence;
                holder = Some((fence, event["holder"].clone()));
            }
            Some("writer_released") => {
                let (fence, _) = holder.take().expect("only a holder can release");
                assert_eq!(event["fence"], fence, "{log:#?}");
            }
            _ => {}
        }
    }
}

fn pid_of(terminal: &TestTerminal) -> u64 {
    terminal.identity().pid.into()
}

#[test]
fn b1_of_two_concurrent_writers_one_wins_and_the_other_is_told_its_name_place_and_time() {
    let lab = lab();
    let mut seed = SeededRng::announce("b1");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let id = lab.start_echo();
    for round in 1..=6 {
        let mut one = lab.terminal_of_size(["attach", &id], 24, 250);
        seed.dawdle(3000);
        let mut two = lab.terminal_of_size(["attach", &id], 24, 250);
        wait_until("a writer", || !lab.show(&id)["writer"].is_null());
        let winner = lab.show(&id)["writer"]["pid"].as_u64().expect("the writer's pid");
        assert!([pid_of(&one), pid_of(&two)].contains(&winner));
        let (won, lost) = if pid_of(&one) == winner { (&mut one, &mut two) } else { (&mut two, &mut one) };
        assert_eq!(lost.wait_exit(), 4);
        let told = lost.text();
        for fact in [format!("pid {winner} "), host.clone(), "since 20".to_owned(), "--take".to_owned()] {
            assert!(told.contains(&fact), "{fact:?} is missing:\n{told}");
        }
        let mark = format!("<{round}>");
        // Until the client shows the screen its terminal is still the kernel's, which echoes keys and
        // makes signals of some.
        won.wait_for("ready");
        won.type_keys(&mark);
        won.wait_for(&mark);
        won.type_keys("\x1c");
        assert_eq!(won.wait_exit(), 0);
        wait_until("the release", || lab.show(&id)["writer"].is_null());
        assert_eq!(lab.events(&id, "writer_granted").len(), round);
    }
    assert_one_writer_at_a_time(&lab.log(&id));
}

#[test]
fn an_observer_sees_everything_and_its_keys_have_no_effect() {
    let lab = lab();
    let id = lab.start_echo();
    let mut observer = lab.terminal(["attach", "--observe", &id]);
    observer.wait_for("ready");
    observer.type_keys("WRONG");
    observer.wait_for_raw(b"\x07");
    lab.ok(["input", &id, "right"]);
    observer.wait_for("right");
    assert_eq!(lab.output(&id), b"readyright");
    let granted = lab.events(&id, "writer_granted").len();
    assert_eq!(granted, 1, "only the typing command was a writer");
    // A client of the protocol other than `berth` is an observer just the same.
    let mut sneak = connect(&lab, &id);
    assert_eq!(attach_over(&mut sneak, AttachMode::Observer).expect("observing is free"), None);
    for fence in [0, 1, 2, u64::MAX] {
        sneak.type_keys(fence, b"WRONG").expect("the keeper listens");
    }
    lab.ok(["input", &id, "er"]);
    observer.wait_for("righter");
    assert_eq!(lab.output(&id), b"readyrighter");
    observer.type_keys("\x03");
    assert_eq!(observer.wait_exit(), 0, "an observer may leave with Ctrl-C");
}

#[test]
fn b3_keys_of_a_suspended_writer_are_dropped_after_a_take_over() {
    let lab = lab();
    let id = lab.start_echo();
    let mut first = lab.terminal(["attach", &id]);
    first.wait_for("ready");
    first.signal(Signal::STOP);
    first.type_keys("STALE");
    let mut second = lab.terminal(["attach", "--take", &id]);
    second.wait_for("ready");
    second.type_keys("<two>");
    second.wait_for("<two>");
    first.signal(Signal::CONT);
    first.wait_for("taken over: only watching");
    assert!(first.text().contains("· by pid "), "{}", first.text());
    first.type_keys("LATE");
    first.wait_for_raw(b"\x07");
    first.wait_for("<two>");
    second.type_keys("<end>");
    first.wait_for("<end>");
    second.wait_for("<end>");
    assert_eq!(lab.output(&id), b"ready<two><end>");
    assert_one_writer_at_a_time(&lab.log(&id));
}

#[test]
fn b3_keys_with_an_old_number_are_refused_by_the_keeper_itself() {
    let lab = lab();
    let id = lab.start(&["raw", "say:ready", "echo"]);
    lab.wait_output(&id, "ready");
    let mut old = connect(&lab, &id);
    let old_fence = attach_over(&mut old, AttachMode::Writer).expect("no client types").expect("a number");
    // One process is not its own rival, but its old number is still old.
    let mut new = connect(&lab, &id);
    let new_fence =
        attach_over(&mut new, AttachMode::Take).expect("taking over is allowed").expect("a number");
    assert!(new_fence > old_fence);
    old.type_keys(old_fence, b"STALE").expect("the keeper listens");
    old.type_keys(old_fence + 7, b"INVENTED").expect("the keeper listens");
    new.type_keys(new_fence, b"fresh").expect("the keeper listens");
    lab.wait_output(&id, "fresh");
    drop(old);
    new.type_keys(new_fence, b"er").expect("the loser's leaving takes nothing from the winner");
    lab.wait_output(&id, "fresher");
    assert_eq!(lab.output(&id), b"readyfresher");
    drop(new);
    wait_until("the release", || lab.show(&id)["writer"].is_null());
    assert_one_writer_at_a_time(&lab.log(&id));
}

#[test]
fn b14_whichever_side_of_a_take_over_is_killed_and_whenever_there_is_never_a_second_writer() {
    let lab = lab();
    let mut seed = SeededRng::announce("b14");
    let id = lab.start_echo();
    for round in 0..10 {
        let mut giver = lab.terminal(["attach", &id]);
        giver.wait_for("ready");
        let taker = lab.terminal(["attach", "--take", &id]);
        seed.dawdle(15_000);
        let victim = if round % 2 == 0 { &giver } else { &taker };
        victim.signal(Signal::KILL);
        seed.dawdle(5_000);
        // In whichever state the session is, the right can be claimed, and the new writer can type.
        let mut next = lab.terminal(["attach", "--take", &id]);
        next.wait_for("ready");
        let mark = format!("<{round}>");
        wait_until("the claim to count", || {
            lab.show(&id)["writer"]["pid"].as_u64() == Some(pid_of(&next)) || {
                // The taker was slower to start than we to claim, and took the right from us: claim again.
                next.type_keys("\x1c");
                next.wait_exit();
                next = lab.terminal(["attach", "--take", &id]);
                next.wait_for("ready");
                false
            }
        });
        next.type_keys(&mark);
        lab.wait_output(&id, &mark);
        drop((giver, taker, next));
        wait_until("everyone to be gone", || {
            let shown = lab.show(&id);
            shown["writer"].is_null() && shown["clients"] == 0
        });
    }
    assert_eq!(lab.output(&id), b"ready<0><1><2><3><4><5><6><7><8><9>");
    assert_one_writer_at_a_time(&lab.log(&id));
    let mut last = lab.terminal(["attach", &id]);
    last.wait_for("<9>");
}

#[test]
fn b14_clients_that_take_over_from_each_other_all_the_time_leave_one_writer_and_no_stray_key() {
    let lab = lab();
    let id = lab.start(&["raw", "say:ready", "echo"]);
    lab.wait_output(&id, "ready");
    let mut connections: Vec<_> = (0..4).map(|_| connect(&lab, &id)).collect();
    let mut fences = [0; 4];
    let mut expected = b"ready".to_vec();
    for turn in 0..40_usize {
        let at = turn * 7 % 4;
        fences[at] = attach_over(&mut connections[at], AttachMode::Take).expect("taken").expect("a number");
        for (other, connection) in connections.iter_mut().enumerate() {
            let key = [if other == at { b'a' + u8::try_from(turn % 26).expect("a letter") } else { b'!' }];
            connection.type_keys(fences[other], &key).expect("the keeper listens");
        }
        expected.push(b'a' + u8::try_from(turn % 26).expect("a letter"));
        // The next turn begins when this one's key has come back.
        let want = expected.clone();
        wait_until("the key", || lab.output(&id).len() >= want.len());
    }
    assert_eq!(lab.output(&id).escape_ascii().to_string(), expected.escape_ascii().to_string());
    drop(connections);
    assert_one_writer_at_a_time(&lab.log(&id));
}

#[test]
fn the_writers_size_is_the_agents_and_observers_change_nothing() {
    let lab = lab();
    let id = lab.start(&["winch", "raw", "say:ready\n", "echo"]);
    lab.wait_output(&id, "ready");
    let mut writer = lab.terminal_of_size(["attach", &id], 30, 100);
    writer.wait_for("size 100x30");
    writer.resize(40, 120);
    writer.wait_for("size 120x40");
    let mut observer = lab.terminal_of_size(["attach", "--observe", &id], 12, 50);
    observer.wait_for("size 120x40");
    observer.resize(13, 60);
    // A resize has no echo of its own. The observer's bell answers a key it sent after the resize,
    // so the keeper has heard of both.
    observer.type_keys("x");
    observer.wait_for_raw(b"\x07");
    let mut sneak = connect(&lab, &id);
    attach_over(&mut sneak, AttachMode::Observer).expect("observing is free");
    let size = berth_api::message::WindowSize { rows: 5, cols: 5 };
    sneak.send(berth_api::message::KeeperRequest::Resize { size }).expect("the keeper listens");
    writer.type_keys("<same>");
    writer.wait_for("<same>");
    let shown = lab.show(&id);
    assert_eq!((&shown["rows"], &shown["cols"]), (&40.into(), &120.into()));
    let mut taker = lab.terminal_of_size(["attach", "--take", &id], 25, 90);
    taker.wait_for("size 90x25");
    writer.resize(50, 150);
    writer.type_keys("y");
    writer.wait_for_raw(b"\x07");
    taker.type_keys("<taken>");
    taker.wait_for("<taken>");
    let output = String::from_utf8(lab.output(&id)).expect("text");
    let sizes: Vec<_> = output.lines().filter_map(|line| line.split("size ").nth(1)).collect();
    assert_eq!(sizes, ["100x30", "120x40", "90x25"], "{output}");
}
