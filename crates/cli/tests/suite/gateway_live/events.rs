//! The events of a session, in pages and as they happen.

use berth_api::message::KeeperRequest;
use berth_harness::{ServerEvent, ServerEventStream, wait_until};
use serde_json::json;

use crate::gateway_live::{agent, connect, lab, note, sockets};

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
fn a_stream_sends_the_status_then_past_events_then_new_ones() {
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

/// True if the event is of this kind and contains this word.
fn fits(event: &ServerEvent, (kind, word): (&str, &str)) -> bool {
    let value = event.json();
    event.event == kind && (value["event"] == word || value["state"] == word || kind == "gone")
}

fn expect(stream: &mut ServerEventStream, steps: &[(&str, &str)]) {
    for step in steps {
        stream.wait_for(&format!("{step:?}"), |event| fits(event, *step));
    }
}

#[test]
fn a_stream_goes_on_through_stop_resume_kill_and_a_new_program_and_ends_with_the_session() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["hang"]);
    let mut stream = gateway.events(&format!("/v1/sessions/{id}/events"), &[]);
    expect(&mut stream, &[("status", "running"), ("event", "run_started")]);
    lab.ok(["stop", &id]);
    expect(&mut stream, &[("event", "run_ended"), ("status", "stopped")]);
    lab.ok(["tag", &id, "later"]);
    expect(&mut stream, &[("event", "tags_changed")]);
    lab.ok(["resume", "-d", &id]);
    expect(&mut stream, &[("event", "run_started"), ("status", "running")]);
    let _ = connect(&lab, &id).ask(KeeperRequest::Restart);
    expect(&mut stream, &[("event", "keeper_restarted")]);
    lab.ok(["note", &id, "still here"]);
    expect(&mut stream, &[("event", "note_changed")]);
    lab.kill_keeper(&id);
    // `lost` is true from the moment the keeper is proven dead, before its run has an end in the journal and after. The
    // order of the two depends on which is faster: the reader of the loss, or the process that clears it up. (That a
    // stop is never called a loss is above, and in `lists::status_caches`.)
    let mut left = vec![("status", "lost"), ("event", "run_ended")];
    while !left.is_empty() {
        let event = stream.next().expect("the stream goes on");
        left.retain(|step| !fits(&event, *step));
    }
    lab.ok(["purge", &id, "--yes"]);
    expect(&mut stream, &[("gone", &id)]);
    assert_eq!(stream.next(), None);
}

#[test]
fn a_reader_that_is_behind_when_the_session_is_purged_is_told_that_it_is_gone() {
    // Together more than one piece of the journal and everything between us can hold.
    const NOTES: usize = 800;
    const NOTE_BYTES: usize = 4000;
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["hang"]);
    let mut keeper = connect(&lab, &id);
    for number in 0..NOTES {
        note(&mut keeper, &format!("{number:0NOTE_BYTES$}"));
    }
    lab.ok(["stop", &id]);
    let last = lab.log(&id).len();
    // The client has asked for all events, and reads only the first.
    let mut stream = gateway.events(&format!("/v1/sessions/{id}/events"), &[]);
    stream.wait_for("the first event", |event| event.event == "event");
    lab.ok(["purge", &id, "--yes"]);
    let mut heard = 1;
    let end = loop {
        match stream.next().expect("an end that is said") {
            event if event.event == "event" => heard += 1,
            event if event.event == "status" || event.event == "output" => {}
            event => break event,
        }
    };
    assert!(heard < last, "it was behind");
    assert_eq!((end.event.as_str(), end.json()["id"].as_str()), ("gone", Some(id.as_str())));
    assert_eq!(stream.next(), None);
}

#[test]
fn however_many_read_the_keeper_has_one_connection_for_them_and_none_without_them() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["hang"]);
    let keeper = lab.number(&id, "keeper_pid");
    let path = format!("/v1/sessions/{id}/events");
    // The keeper's listener. A client that asked for its number a moment ago may still be there.
    let alone = 1;
    wait_until("no client is connected", || sockets(keeper) == alone);
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
    // The gateway notices that a client is gone when it has something to send, or when the connection ends.
    wait_until("the last connection is closed", || sockets(keeper) == alone);
}

#[test]
fn text_of_a_turn_is_streamed_in_pieces_and_sent_whole_to_a_late_reader() {
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

/// The thread of the gateway that watches the list.
fn watching(pid: u32) -> Option<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let named = |name: &str| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/task/{name}/comm"));
        comm.is_ok_and(|comm| comm.trim() == "list")
    };
    threads.flatten().filter_map(|thread| thread.file_name().into_string().ok()).find(|name| named(name))
}

#[test]
fn readers_of_a_session_without_a_keeper_share_one_watching_thread() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["exit:0"]);
    lab.berth(["wait", &id, "--for", "exit"]);
    let mut stream = gateway.events(&format!("/v1/sessions/{id}/events"), &[]);
    stream.wait_for("the end", |event| event.data.contains("\"run_ended\""));
    wait_until("a thread watches", || watching(gateway.pid()).is_some());
    let first = watching(gateway.pid());
    for number in 0..5 {
        lab.ok(["note", &id, &format!("note {number}")]);
        stream.wait_for("the note", |event| event.data.contains(&format!("note {number}")));
    }
    assert_eq!(watching(gateway.pid()), first, "the same one looks all the time");
    drop(stream);
    wait_until("no thread watches", || watching(gateway.pid()).is_none());
}

#[test]
fn a_stream_can_begin_at_the_number_that_was_told_a_moment_ago() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["exit:0"]);
    lab.berth(["wait", &id, "--for", "exit"]);
    let path = format!("/v1/sessions/{id}");
    let events = format!("{path}/events");
    let mut first = gateway.events(&events, &[]);
    first.wait_for("the end", |event| event.data.contains("\"run_ended\""));
    for number in 0..10 {
        let note = json!({"note": format!("note {number}")});
        let seq = gateway.ask("PATCH", &path, &[], Some(&note)).ok()["seq"].as_u64().expect("a number");
        let mut next = gateway.events(&format!("{events}?after={seq}"), &[]);
        next.wait_for("where things stand", |event| event.event == "status" && event.json()["seq"] == seq);
    }
}

#[test]
fn a_steered_turn_does_not_silence_the_one_that_runs() {
    let lab = lab();
    let gateway = lab.serve();
    let id = agent(&lab);
    let path = format!("/v1/sessions/{id}/events");
    let mut stream = gateway.events(&path, &[]);
    let go = lab.dir().join("go");
    lab.ok(["send", &id, &format!("say:one \nwait-file:{}\nsay:two", go.display())]);
    let said = |event: &berth_harness::ServerEvent| event.event == "said";
    assert_eq!(stream.wait_for("the first words", said).json(), json!({"turn": 1, "at": 0, "text": "one "}));
    lab.ok(["send", "--steer", &id, "left a bit"]);
    let steered = stream.wait_for("the next words", said).json();
    assert_eq!((&steered["turn"], &steered["at"]), (&json!(1), &json!(4)), "{steered}");
    assert!(
        steered["text"].as_str().is_some_and(|text| text.starts_with("STEERED: left a bit")),
        "{steered}"
    );
    // The keeper has told of the second turn by now, or does before it tells of later events.
    let status = |event: &berth_harness::ServerEvent| event.data.contains("\"turn_delivered\"");
    gateway.events(&path, &[]).wait_for("its delivery", |event| status(event) && event.json()["turn"] == 2);
    std::fs::write(go, "").expect("a file");
    let last = stream.wait_for("the last words", |event| said(event) && event.data.contains("two")).json();
    assert_eq!(last["turn"], 1, "{last}");
    let ended = stream
        .wait_for("the end", |event| event.data.contains("\"turn_ended\"") && event.json()["turn"] == 1);
    let answer = ended.json()["answer"].as_str().expect("an answer").to_owned();
    assert_eq!(last["at"], answer.len() - "two".len(), "nothing was left out: {answer:?}");
}
