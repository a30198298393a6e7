//! Recordings: asciinema plays the bytes that the terminal got, when it got them.

use serde_json::Value;

use crate::find::{lab, said, talked};

/// A recording, checked as strictly as the format is described: a header with the fields that have to be there, then
/// events of a time that never goes back, a code and a text.
struct AsciicastRecording {
    header: Value,
    /// Output events: seconds since the beginning, and text.
    events: Vec<(f64, String)>,
    /// Each new size, with the number of output events before it.
    sizes: Vec<(usize, String)>,
}

impl AsciicastRecording {
    fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has an end");
        let mut lines = text.lines();
        let header: Value = serde_json::from_str(lines.next().expect("a header")).expect("JSON");
        let fields = header.as_object().expect("an object");
        assert_eq!(fields["version"], 2);
        for field in ["width", "height"] {
            assert!(fields[field].as_u64().is_some_and(|size| size > 0), "{field}: {header}");
        }
        assert!(fields["timestamp"].is_u64(), "{header}");
        let known = ["version", "width", "height", "timestamp", "idle_time_limit", "command", "title"];
        assert!(fields.keys().all(|field| known.contains(&field.as_str())), "{header}");
        let mut events: Vec<(f64, String)> = Vec::new();
        let mut sizes: Vec<(usize, String)> = Vec::new();
        for line in lines {
            let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let [at, code, data] = &event.as_array().expect("an array")[..] else { panic!("{line}") };
            let at = at.as_f64().expect("a time");
            assert!(events.last().is_none_or(|(before, _)| *before <= at) && at >= 0.0, "{line}");
            let text = data.as_str().expect("a text").to_owned();
            match code.as_str() {
                Some("o") => events.push((at, text)),
                Some("r") => sizes.push((events.len(), text)),
                Some(_) | None => panic!("{line}"),
            }
        }
        Self { header, events, sizes }
    }

    fn bytes(&self) -> Vec<u8> {
        self.events.iter().flat_map(|(_, text)| text.bytes()).collect()
    }
}

#[test]
fn a_recording_has_the_bytes_and_the_pauses_of_the_terminal() {
    let lab = lab();
    // Half a character before a pause, colours, and a lot. The pause counts from the moment its beginning is recorded.
    let gate = lab.dir().join("gate");
    let pause = format!("wait-file:{}", gate.display());
    let script =
        ["say:\\e[1mcaf\\xc3", &pause, "say:\\xa9\\e[0m \\xf0\\x9f\\x98\\x80\\n", "flood-colour:300K"];
    let id = lab.start_with(&["--name", "term"], &script);
    lab.wait_output(&id, "caf");
    let recorded = std::time::Instant::now();
    berth_harness::wait_until("a pause", || recorded.elapsed() > std::time::Duration::from_millis(400));
    std::fs::write(&gate, "").expect("a file");
    lab.berth(["wait", &id]);
    let cast = AsciicastRecording::read(&(lab.ok(["export", "term"]) + "\n"));
    assert_eq!(cast.bytes(), lab.output(&id));
    assert_eq!((&cast.header["title"], cast.header.get("idle_time_limit")), (&Value::from("term"), None));
    let before = cast.events.iter().find(|(_, text)| text.contains("caf")).expect("the beginning").0;
    let behind = cast.events.iter().find(|(_, text)| text.contains('é')).expect("the whole character").0;
    assert!(behind - before >= 0.3, "the pause is kept: {before} and {behind}");
    let limited = AsciicastRecording::read(
        &(lab.ok(["export", "term", "--format", "cast", "--idle-limit", "2s"]) + "\n"),
    );
    assert_eq!(limited.header["idle_time_limit"], 2.0);
    assert_eq!(limited.events.len(), cast.events.len());
}

#[test]
fn a_recording_has_each_size_of_the_terminal_before_the_first_output_at_it() {
    let lab = lab();
    let id = lab.start_with(&["--name", "sized"], &["winch", "raw", "say:ready\r\n", "echo"]);
    lab.wait_output(&id, "ready");
    let first = (lab.number(&id, "cols"), lab.number(&id, "rows"));
    let mut terminal = lab.terminal_of_size(["attach", &id], 30, 100);
    terminal.wait_for("size 100x30");
    terminal.resize(33, 111);
    terminal.wait_for("size 111x33");
    drop(terminal);
    lab.ok(["stop", &id]);
    let cast = AsciicastRecording::read(&(lab.ok(["export", "sized"]) + "\n"));
    assert_eq!(
        (&cast.header["width"], &cast.header["height"]),
        (&Value::from(first.0), &Value::from(first.1))
    );
    assert_eq!(cast.bytes(), lab.output(&id));
    let sizes: Vec<&str> = cast.sizes.iter().map(|(_, size)| size.as_str()).collect();
    assert_eq!(sizes, ["100x30", "111x33"]);
    for (before, size) in &cast.sizes {
        let (_, next) = &cast.events[*before];
        assert!(next.contains(&format!("size {size}")), "{size} came before {next:?}");
        assert!(cast.events[..*before].iter().all(|(_, text)| !text.contains(size)), "{size} came late");
    }
}

#[test]
fn bytes_that_are_not_text_are_replaced_and_the_rest_is_kept() {
    let lab = lab();
    said(&lab, "odd", &["say:a\\xffb\\xe2\\x82\\n"]);
    let cast = AsciicastRecording::read(&(lab.ok(["export", "odd"]) + "\n"));
    assert_eq!(String::from_utf8(cast.bytes()).unwrap().trim_end(), "a\u{fffd}b\u{fffd}");
}

#[test]
fn one_run_of_several_is_recorded_alone_and_begins_at_zero() {
    let lab = lab();
    let id = said(&lab, "twice", &["say:hello from a run\\n"]);
    lab.ok(["resume", "-d", &id]);
    lab.berth(["wait", &id]);
    let all = AsciicastRecording::read(&(lab.ok(["export", "twice"]) + "\n"));
    let second = AsciicastRecording::read(&(lab.ok(["export", "twice", "--run", "2"]) + "\n"));
    assert_eq!(all.bytes(), lab.output(&id));
    assert_eq!(second.bytes(), b"hello from a run\r\n");
    assert_eq!(second.events[0].0, 0.0);
    assert_eq!(lab.berth(["export", "twice", "--run", "9"]).code, 3);
}

#[test]
fn an_agent_without_a_terminal_has_no_recording() {
    let lab = lab();
    talked(&lab, "bot", &["hello"]);
    let refused = lab.berth(["export", "bot", "--format", "cast"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
    assert_eq!(lab.berth(["export", "bot", "--idle-limit", "2s"]).code, 2);
}
