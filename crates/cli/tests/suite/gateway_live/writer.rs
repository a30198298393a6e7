//! One writer, through the API: B14 and B15.

use berth_harness::{GatewayProcess, GatewayWebSocket, SeededRng, SocketMessage, wait_until};
use serde_json::{Value, json};

use crate::gateway_live::lab;

/// Asserts that there were never two writers at once, and that each writer got a higher number than the one before.
fn assert_one_writer_at_a_time(log: &[Value]) {
    let mut holder: Option<u64> = None;
    let mut highest = 0;
    for event in log {
        match event["event"].as_str() {
            Some("writer_granted") => {
                let fence = event["fence"].as_u64().expect("a fence");
                assert!(fence > highest, "fence {fence} after {highest}: {log:#?}");
                assert_eq!(event["taken_from"].is_null(), holder.is_none(), "{log:#?}");
                (highest, holder) = (fence, Some(fence));
            }
            Some("writer_released") => {
                assert_eq!(event["fence"].as_u64(), holder.take(), "{log:#?}");
            }
            // A run that is over has no writer.
            Some("run_ended") => holder = None,
            _ => {}
        }
    }
}

fn attach(gateway: &GatewayProcess, id: &str, role: &str) -> GatewayWebSocket {
    let mut terminal = gateway.terminal(id, &format!("role={role}"));
    terminal.wait_remark("attached");
    terminal
}

/// Types, and returns true if the keys were shown; false if another client took the right before.
fn types(terminal: &mut GatewayWebSocket, mark: &str) -> bool {
    terminal.type_keys(mark.as_bytes());
    loop {
        if terminal.shown.windows(mark.len()).any(|shown| shown == mark.as_bytes()) {
            return true;
        }
        match terminal.hear() {
            SocketMessage::Remark(remark) if remark.get("replaced").is_some() => return false,
            SocketMessage::Remark(_) | SocketMessage::Bytes => {}
            SocketMessage::Closed(code) => panic!("closed with {code:?}"),
        }
    }
}

#[test]
fn b14_a_writer_is_refused_while_there_is_one_and_takes_over_when_it_says_so() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_echo();
    let mut first = attach(&gateway, &id, "writer");
    let mut refused = gateway.terminal(&id, "role=writer");
    let problem = refused.wait_remark("problem");
    assert_eq!((&problem["code"], &problem["status"]), (&json!("held"), &json!(409)), "{problem}");
    assert!(problem["title"].as_str().is_some_and(|title| title.contains("since")), "{problem}");
    assert_eq!(refused.wait_closed(), Some(4409));
    first.type_keys(b"<one>");
    first.wait_for("<one>");
    let mut second = attach(&gateway, &id, "take");
    assert!(first.wait_remark("replaced")["by"].as_str().is_some_and(|by| by.contains("pid ")));
    second.type_keys(b"<two>");
    // The first terminal goes on as an observer.
    first.wait_for("<two>");
    second.close();
    wait_until("no client types", || lab.show(&id)["writer"].is_null());
    let mut third = attach(&gateway, &id, "writer");
    third.type_keys(b"<three>");
    first.wait_for("<three>");
    assert_eq!(lab.output(&id), b"ready<one><two><three>");
    assert_one_writer_at_a_time(&lab.log(&id));
}

#[test]
fn the_api_lists_attached_clients_and_marks_the_writer() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_echo();
    let path = format!("/v1/sessions/{id}");
    let attached = || gateway.get(&path).ok()["attached"].as_array().expect("a list").clone();
    assert_eq!(attached(), [] as [Value; 0]);
    let looks = attach(&gateway, &id, "observer");
    wait_until("it to be told of", || attached().len() == 1);
    let types = attach(&gateway, &id, "writer");
    wait_until("both to be told of", || attached().len() == 2);
    let both = attached();
    assert_eq!((&both[0]["writes"], &both[1]["writes"]), (&json!(false), &json!(true)));
    for one in &both {
        assert!(one["place"].as_str().is_some_and(|place| place.contains("the local socket")), "{one}");
        assert!(one["since"].as_str().is_some_and(|since| since.ends_with('Z')), "{one}");
    }
    let shown = lab.ok(["show", &id]);
    assert!(shown.contains("(observer), since ") && shown.contains("(writer), since "), "{shown}");
    types.close();
    looks.close();
    wait_until("all clients to be gone", || attached().is_empty());
}

#[test]
fn b14_a_takeover_cut_off_at_any_side_never_leaves_two_writers_and_the_right_can_be_had_again() {
    let lab = lab();
    let mut seed = SeededRng::announce("b14");
    let mut gateway = lab.serve();
    let id = lab.start_echo();
    for round in 0..12 {
        let mut old = attach(&gateway, &id, "take");
        old.type_keys(b"o");
        let new = gateway.terminal(&id, "role=take");
        seed.dawdle(2000);
        match seed.below(4) {
            0 => gateway.kill(),
            1 => drop(old),
            2 => {
                lab.kill_keeper(&id);
                lab.ok(["resume", &id, "-d"]);
            }
            _ => drop(new),
        }
        if !gateway.is_running() {
            gateway = lab.serve();
        }
        let mark = format!("<{round}>");
        while !types(&mut attach(&gateway, &id, "take"), &mark) {}
    }
    wait_until("no client types", || lab.show(&id)["writer"].is_null());
    assert_one_writer_at_a_time(&lab.log(&id));
}

#[test]
fn b15_keys_sizes_and_the_end_of_a_replaced_writer_change_nothing() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_echo();
    let mut old = attach(&gateway, &id, "writer");
    let mut new = gateway.terminal(&id, "role=take&rows=33&cols=77");
    new.wait_remark("attached");
    // The old writer has not read yet that it was replaced, and types on.
    old.type_keys(b"STALE");
    old.say(&json!({"resize": {"rows": 3, "cols": 3}}));
    old.wait_remark("replaced");
    old.type_keys(b"LATE");
    assert_eq!(old.wait_remark("problem")["code"], "usage");
    let writer = lab.show(&id)["writer"].clone();
    old.close();
    new.type_keys(b"<new>");
    new.wait_for("<new>");
    let status = lab.show(&id);
    assert_eq!((&status["rows"], &status["writer"]), (&json!(33), &writer));
    assert_eq!(lab.output(&id), b"ready<new>");
    assert_eq!(
        lab.events(&id, "writer_released").len(),
        0,
        "no client released a right that it did not have"
    );
}

#[test]
fn b15_of_keys_typed_while_the_right_is_taken_none_comes_after_the_taking() {
    let lab = lab();
    let mut seed = SeededRng::announce("b15");
    let gateway = lab.serve();
    let id = lab.start_echo();
    for round in 0..10 {
        let mut old = attach(&gateway, &id, "take");
        let mut pause = seed.fork();
        std::thread::scope(|scope| {
            let typing = scope.spawn(move || {
                for _ in 0..200 {
                    if old.try_type(b"o").is_err() {
                        break;
                    }
                }
                old
            });
            pause.dawdle(4000);
            let mut new = attach(&gateway, &id, "take");
            let mark = format!("<{round}>");
            new.type_keys(mark.as_bytes());
            new.wait_for(&mark);
            let mut old = typing.join().expect("it typed");
            // A message behind the keys is answered when the keys have been passed on.
            old.type_keys(b"o");
            old.say_text("{");
            let is_answer = |title: &Value| {
                title.as_str().is_some_and(|title| title.contains("the message is not valid"))
            };
            while !is_answer(&old.wait_remark("problem")["title"]) {}
            new.type_keys(b"|");
            new.wait_for(&format!("{mark}|"));
        });
    }
    let output = String::from_utf8(lab.output(&id)).expect("text");
    // Between two take-overs the output has only the keys of the client that took over.
    for round in 0..10 {
        assert!(output.contains(&format!("<{round}>|")), "{output}");
    }
    assert_one_writer_at_a_time(&lab.log(&id));
}
