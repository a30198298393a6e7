//! F1: however a client ends, the run goes on and nothing of it is lost.

use berth_harness::{TestEnvironment, TestTerminal, wait_until};
use rustix::process::Signal;

use crate::terminal::{assert_contiguous, flood_numbers, kept_screen, lab, watched};

/// The length of a line of `flood` in the agent's output, where LF has become CR LF.
const LINE_BYTES: u64 = 67;

fn touch(path: &std::path::Path) {
    std::fs::write(path, "").expect("a file");
}

fn assert_shows_the_truth(lab: &TestEnvironment, id: &str, terminal: &mut TestTerminal, marker: &str) {
    terminal.wait_for(marker);
    assert_eq!(terminal.text(), lab.ok(["screen", id]));
    let fresh = kept_screen(lab, id).restore();
    terminal.wait_until("the same screen as a fresh one", |terminal| terminal.restore() == fresh);
    // Compared once more, from the bytes alone.
    let mut replayed = berth_screen::Screen::new(berth_screen::ScreenSize { rows: 24, cols: 80 });
    replayed.feed(&terminal.raw);
    assert_eq!(replayed.restore(), terminal.restore());
}

/// An observer's terminal of 24 rows shows all of the screen but its first row, which has to make room for the status line.
fn assert_watches_the_truth(lab: &TestEnvironment, id: &str, observer: &mut TestTerminal) {
    let truth = lab.ok(["screen", id]);
    let (_, truth) = truth.split_once('\n').expect("a full screen");
    assert_eq!(watched(observer), truth);
}

#[test]
fn f1_hangup_term_a_closed_window_and_kill_9_of_the_client_change_nothing_for_the_agent() {
    for way in ["SIGHUP", "SIGTERM", "close", "SIGKILL"] {
        let lab = lab();
        let go = lab.dir().join("go");
        let wait = format!("wait-file:{}", go.display());
        let id = lab.start(&["flood:2M", &wait, "flood:2M", "exit:6"]);
        let mut terminal = lab.terminal(["attach", &id]);
        terminal.wait_for("the quick brown fox");
        match way {
            "SIGHUP" => terminal.signal(Signal::HUP),
            "SIGTERM" => terminal.signal(Signal::TERM),
            "close" => terminal.close(),
            _ => terminal.signal(Signal::KILL),
        }
        let code = terminal.wait_exit();
        assert_eq!(
            code,
            if way == "SIGTERM" {
                143
            } else if way == "SIGKILL" {
                137
            } else {
                129
            },
            "{way}"
        );
        assert_eq!(lab.show(&id)["state"], "running", "{way}");
        wait_until("the release", || lab.show(&id)["writer"].is_null());
        touch(&go);
        assert_eq!(lab.berth(["wait", &id]).code, 6, "{way}");
        let output = lab.output(&id);
        let numbers = flood_numbers(&output);
        let second = numbers.iter().rposition(|number| *number == 1).expect("a second flood");
        let lines = assert_contiguous(&numbers[..second]);
        assert_eq!(assert_contiguous(&numbers[second..]), lines, "{way}");
        assert!(lines * (LINE_BYTES - 1) + LINE_BYTES > 2 << 20, "only {lines} lines after {way}");
    }
}

#[test]
fn f1_a_foreground_run_off_a_terminal_can_be_killed_and_the_session_goes_on() {
    let lab = lab();
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let agent = lab.agent();
    for signal in [Signal::KILL, Signal::TERM, Signal::HUP, Signal::INT] {
        let mut command = lab.command(["run", "--", &agent, "say:ready\n", &wait, "say:done\n", "exit:4"]);
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("berth can be started");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
        assert_eq!(line, "ready\n");
        let listed = lab.json(["ls", "--json"]);
        let id = listed[0]["id"].as_str().expect("an id").to_owned();
        let pid = berth_host::identity::ProcessIdentity::of(child.id()).expect("it runs");
        berth_harness::signal(&pid, signal);
        assert_ne!(berth_harness::wait_child(child), 0);
        assert_eq!(lab.show(&id)["state"], "running");
        touch(&go);
        assert_eq!(lab.berth(["wait", &id]).code, 4);
        assert_eq!(lab.output(&id), b"ready\r\ndone\r\n");
        std::fs::remove_file(&go).expect("it was there");
    }
}

#[test]
fn f1_a_stopped_client_never_holds_up_the_agent_and_then_shows_the_right_screen() {
    let lab = lab();
    let [go, done] = ["go", "done"].map(|name| lab.dir().join(name));
    let (wait, touch_done) = (format!("wait-file:{}", go.display()), format!("touch:{}", done.display()));
    let id = lab.start(&[
        r"say:\e[?2004hready",
        &wait,
        "flood-colour:20M",
        r"say:\e[?25l\e[32mthe end",
        &touch_done,
        "hang",
    ]);
    let mut terminal = lab.terminal(["attach", &id]);
    terminal.wait_for("ready");
    let before = terminal.raw.len();
    let client = terminal.identity();
    terminal.signal(Signal::STOP);
    wait_until("the client to stand still", || {
        berth_host::identity::process_stat(client.pid).is_ok_and(|stat| stat.state == 'T')
    });
    touch(&go);
    wait_until("the flood to be over", || done.exists());
    assert_eq!(berth_host::identity::process_stat(client.pid).expect("it is there").state, 'T');
    terminal.signal(Signal::CONT);
    assert_shows_the_truth(&lab, &id, &mut terminal, "the end");
    let shown = terminal.raw.len() - before;
    assert!(shown < 2 << 20, "a client that was away is caught up with a screen, not with {shown} bytes");
    assert_eq!(lab.events(&id, "writer_granted").len(), 1, "it stayed the writer all the time");
    terminal.type_keys("\x1c");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn f1_a_terminal_that_does_not_read_never_holds_up_the_agent_nor_another_client() {
    let lab = lab();
    let [go, done] = ["go", "done"].map(|name| lab.dir().join(name));
    let (wait, touch_done) = (format!("wait-file:{}", go.display()), format!("touch:{}", done.display()));
    let id = lab.start(&["say:ready", &wait, "flood-colour:20M", "say:the end", &touch_done, "hang"]);
    let mut slow = lab.terminal(["attach", &id]);
    let mut quick = lab.terminal(["attach", "--observe", &id]);
    slow.wait_for("ready");
    quick.wait_for("ready");
    touch(&go);
    // The terminal of `slow` is not read from here on.
    quick.wait_for("the end");
    assert!(done.exists());
    assert_watches_the_truth(&lab, &id, &mut quick);
    assert_shows_the_truth(&lab, &id, &mut slow, "the end");
}

#[test]
fn f1_clients_that_cannot_keep_up_end_every_flood_with_the_right_screen() {
    let lab = lab();
    let ends: Vec<_> = (0..12).map(|round| format!(r"say:\r\n<end {round}>")).collect();
    let mut script = vec!["raw", "say:ready"];
    for end in &ends {
        script.extend(["expect:go", "flood:2M", end]);
    }
    script.push("hang");
    let id = lab.start(&script);
    let mut watchers: Vec<_> = (0..3).map(|_| lab.terminal(["attach", "--observe", &id])).collect();
    watchers.iter_mut().for_each(|watcher| watcher.wait_for("ready"));
    for end in &ends {
        lab.ok(["input", &id, "go"]);
        // The first one that is checked takes its time, and the others wait for it.
        for watcher in &mut watchers {
            watcher.wait_for(end.strip_prefix(r"say:\r\n").expect("the script says so"));
            assert_watches_the_truth(&lab, &id, watcher);
        }
        watchers.rotate_left(1);
    }
}

#[test]
fn f1_a_flood_passes_through_an_attached_client_in_order() {
    let lab = lab();
    let go = lab.dir().join("go");
    let wait = format!("wait-file:{}", go.display());
    let id = lab.start(&["say:ready\n", &wait, "flood:200K", "say:the end", "hang"]);
    let mut terminal = lab.terminal(["attach", &id]);
    terminal.wait_for("ready");
    touch(&go);
    terminal.wait_for("the end");
    // Less than what may wait for a client: nothing of it was skipped.
    let seen = flood_numbers(&terminal.raw);
    assert_eq!(assert_contiguous(&seen), 200 * 1024 / (LINE_BYTES - 1));
    assert_eq!(seen, flood_numbers(&lab.output(&id)));
}
