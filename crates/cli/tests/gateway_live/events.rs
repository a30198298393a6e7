//! What happened, in pages and as it happens.

use berth_api::message::Request;
use berth_harness::wait_until;
use serde_json::json;

use crate::{agent, connect, lab, note, sockets};

#[test]
fn a_page_has_the_events_after_a_number_as_the_log_prints_them() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_with(&["--env", "SECRET=hidden"], &["hang"]);
    let mut keeper = connect(&lab, &id);
    let last = (0..5).map(|number| note(&mut keeper, &format!("note {number}"))).last().expect("five");
    let log = lab.log(&id);
    assert_eq!(log.len() as u64, last);
    let path = format!("/v1/sessions/{id}/events");
    let all = gateway.get(&path);
    assert_eq!(all.ok(), json!(log));
    assert_eq!(all.header("x-events-end"), Some(last.to_string().as_str()));
    assert!(!all.text().contains("hidden"), "{}", all.text());
    assert_eq!(gateway.get(&format!("{path}?after=2&limit=3")).ok(), json!(log[2..5]));
    assert_eq!(gateway.get(&format!("{path}?after={last}")).ok(), json!([]));
    assert_eq!(gateway.get(&format!("{path}?after={}", u64::MAX)).ok(), json!([]));
    for query in ["limit=0", "limit=10001", "after=-1", "after=x", "since=3"] {
        gateway.get(&format!("{path}?{query}")).problem(400, "usage");
    }
    gateway.get("/v1/sessions/nobody/events").problem(404, "not-found");
}

#[test]
fn a_stream_that_cannot_be_resumed_from_there_says_so() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["hang"]);
    let path = format!("/v1/sessions/{id}/events");
    let stream = [("Accept", "text/event-stream")];
    let ask = |path: &str, more: &[(&str, &str)]| gateway.ask("GET", path, &[&stream, more].concat(), None);
    for last in ["-1", "x", "1.5", "99999999999999999999999"] {
        ask(&path, &[("Last-Event-ID", last)]).problem(400, "usage");
    }
    let problem = ask(&path, &[("Last-Event-ID", "77")]).problem(400, "usage");
    assert!(problem["title"].as_str().is_some_and(|title| title.contains("is no event 77")), "{problem}");
    ask(&format!("{path}?limit=3"), &[]).problem(400, "usage");
    ask("/v1/sessions/nobody/events", &[]).problem(404, "not-found");
}

#[test]
fn a_stream_tells_where_things_stand_then_what_led_there_then_what_happens() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_with(&["--env", "SECRET=hidden"], &["say:ready", "echo"]);
    lab.wait_output(&id, "ready");
    let mut stream = gateway.events(&format!("/v1/sessions/{id}/events"), &[]);
    let first = stream.next().expect("an event");
    assert_eq!((first.event.as_str(), first.id.as_str()), ("status", ""));
    assert_eq!(first.json()["id"], id);
    let log = lab.log(&id);
    for line in &log {
        let told = stream.wait_for("the past", |event| event.event == "event");
        assert_eq!((told.json(), told.id), (line.clone(), line["seq"].to_string()));
        assert!(!told.data.contains("hidden"));
    }
    let output = stream.wait_for("output", |event| event.event == "output");
    assert_eq!((output.json(), output.id.as_str()), (json!({"end": 5}), ""));
    gateway.post(&format!("/v1/sessions/{id}/input"), &json!({"text": "more"})).ok();
    stream.wait_for("the next output", |event| event.event == "output" && event.json()["end"] == 9);
    lab.ok(["note", &id, "look at this"]);
    let noted = stream.wait_for("the note", |event| event.data.contains("look at this"));
    assert_eq!((noted.event.as_str(), noted.id), ("event", lab.log(&id).len().to_string()));
    stream.wait_for("the status", |event| event.event == "status" && event.json()["note"] == "look at this");
}

#[test]
fn a_stream_goes_on_through_stop_resume_kill_and_a_new_program_and_ends_with_the_session() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["hang"]);
    let mut stream = gateway.events(&format!("/v1/sessions/{id}/events"), &[]);
    let mut expect = |steps: &[(&str, &str)]| {
        for (kind, word) in steps {
            let fits = |event: &berth_harness::ServerEvent| {
                let value = event.json();
                event.event == *kind
                    && (value["event"] == *word || value["state"] == *word || kind == &"gone")
            };
            stream.wait_for(&format!("{kind} {word}"), fits);
        }
    };
    expect(&[("status", "running"), ("event", "run_started")]);
    lab.ok(["stop", &id]);
    expect(&[("event", "run_ended"), ("status", "stopped")]);
    lab.ok(["tag", &id, "later"]);
    expect(&[("event", "tagged")]);
    lab.ok(["resume", "-d", &id]);
    expect(&[("event", "run_started"), ("status", "running")]);
    let _ = connect(&lab, &id).ask(Request::Restart);
    expect(&[("event", "keeper_restarted")]);
    lab.ok(["note", &id, "still here"]);
    expect(&[("event", "noted")]);
    lab.kill_keeper(&id);
    expect(&[("status", "lost"), ("event", "run_ended")]);
    lab.ok(["purge", &id, "--yes"]);
    expect(&[("gone", &id)]);
    assert_eq!(stream.next(), None);
}

#[test]
fn however_many_read_the_keeper_has_one_connection_for_them_and_none_without_them() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["hang"]);
    let keeper = lab.number(&id, "keeper_pid");
    let path = format!("/v1/sessions/{id}/events");
    let alone = sockets(keeper);
    let open = || {
        let mut stream = gateway.events(&path, &[]);
        stream.wait_for("the last event", |event| event.data.contains("run_started"));
        stream
    };
    let first = open();
    let with_one = sockets(keeper);
    assert_eq!(with_one, alone + 1);
    let more: Vec<_> = (0..40).map(|_| open()).collect();
    assert_eq!(sockets(keeper), with_one);
    drop((first, more));
    // The gateway notices who is gone when it has something to say, or by the end of their connection.
    wait_until("the last connection is closed", || sockets(keeper) == alone);
}

#[test]
fn what_is_said_in_a_turn_is_told_piece_by_piece_and_as_a_whole_to_who_comes_late() {
    let lab = lab();
    let gateway = lab.serve();
    let id = agent(&lab);
    let path = format!("/v1/sessions/{id}/events");
    let mut early = gateway.events(&path, &[]);
    let gate = |name: &str| lab.dir().join(name);
    let prompt = format!(
        "say:one two \nwait-file:{}\nsay:three\nwait-file:{}",
        gate("a").display(),
        gate("b").display()
    );
    lab.ok(["send", &id, &prompt]);
    let said = |event: &berth_harness::ServerEvent| event.event == "said";
    let first = early.wait_for("the first words", said);
    assert_eq!((first.json(), first.id.as_str()), (json!({"turn": 1, "at": 0, "text": "one two "}), ""));
    let mut late = gateway.events(&path, &[]);
    assert_eq!(late.wait_for("what was said", said).json(), first.json());
    std::fs::write(gate("a"), "").expect("a file");
    for stream in [&mut early, &mut late] {
        let next = stream.wait_for("the next words", said).json();
        assert_eq!(next, json!({"turn": 1, "at": 8, "text": "three"}));
    }
    let mut later = gateway.events(&path, &[]);
    let whole = later.wait_for("all of it", said).json();
    assert_eq!(whole, json!({"turn": 1, "at": 0, "text": "one two three"}));
    std::fs::write(gate("b"), "").expect("a file");
    for stream in [&mut early, &mut late, &mut later] {
        let ended = stream.wait_for("the end", |event| event.data.contains("\"turn_ended\""));
        assert_eq!(ended.json()["answer"], "one two three");
    }
    let mut after = gateway.events(&path, &[]);
    after.wait_for("the end", |event| {
        assert_ne!(event.event, "said", "it is in the journal by now");
        event.data.contains("\"turn_ended\"")
    });
}
