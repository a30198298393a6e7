//! The keeper replaces its own program in place: clients come back by themselves.

use berth_api::message::KeeperRequest;
use berth_harness::{TestEnvironment, wait_until};

use crate::terminal::{connect, kept_screen, lab, watched};

/// Replaces the keeper's program and waits until the new one has said so.
fn replace(lab: &TestEnvironment, id: &str) {
    let before = lab.events(id, "keeper_restarted").len();
    // The answer comes before the new program does; a connection that breaks is an answer as well.
    let _ = connect(lab, id).ask(KeeperRequest::Restart);
    wait_until("the new program", || lab.events(id, "keeper_restarted").len() == before + 1);
}

#[test]
fn e11_clients_return_by_themselves_each_in_its_role_when_the_keeper_replaces_its_program() {
    let lab = lab();
    let id = lab.start(&["raw", r"say:\e[?1049h\e[?2004h\e[?1006hready", "echo"]);
    let pids = |lab: &TestEnvironment| (lab.number(&id, "pid"), lab.number(&id, "keeper_pid"));
    let before = pids(&lab);
    let mut demoted = lab.terminal(["attach", &id]);
    demoted.wait_for("ready");
    let mut observer = lab.terminal(["attach", "--observe", &id]);
    observer.wait_for("ready");
    let mut writer = lab.terminal(["attach", "--take", &id]);
    writer.wait_for("ready");
    demoted.wait_for("taken over: only watching");
    for round in 0..5 {
        replace(&lab, &id);
        assert_eq!(pids(&lab), before, "the same keeper and the same agent");
        wait_until("all three to be back", || lab.show(&id)["clients"] == 3);
        assert_eq!(lab.number(&id, "clients"), 3);
        let holder = lab.show(&id)["writer"]["pid"].as_u64();
        assert_eq!(holder, Some(writer.identity().pid.into()), "round {round}: the writer is the one it was");
        let mark = format!("<{round}>");
        demoted.type_keys("WRONG");
        writer.type_keys(&mark);
        for terminal in [&mut writer, &mut demoted, &mut observer] {
            terminal.wait_for(&mark);
        }
    }
    assert!(lab.output(&id).ends_with(b"ready<0><1><2><3><4>"), "{}", lab.output(&id).escape_ascii());
    assert_eq!(writer.text(), watched(&mut observer));
    assert_eq!(writer.text(), watched(&mut demoted));
    assert_eq!(writer.restore(), kept_screen(&lab, &id).restore());
    writer.type_keys("\x1c");
    assert_eq!(writer.wait_exit(), 0);
}

#[test]
fn e11_a_sequence_cut_in_half_by_the_replacement_is_whole_for_a_client_that_attaches_then() {
    let lab = lab();
    let id = lab.start(&["raw", r"say:ready\e[3", "expect:go", r"say:1mred", "hang"]);
    lab.wait_output(&id, "ready");
    replace(&lab, &id);
    let mut terminal = lab.terminal(["attach", "--observe", &id]);
    terminal.wait_for("ready");
    lab.ok(["input", &id, "go"]);
    terminal.wait_for("red");
    assert_eq!(watched(&mut terminal), "readyred");
}

#[test]
fn e11_the_size_of_the_terminal_survives_the_replacement() {
    let lab = lab();
    let id = lab.start(&["winch", "raw", "say:ready\n", "echo"]);
    lab.wait_output(&id, "ready");
    let mut terminal = lab.terminal_of_size(["attach", &id], 30, 100);
    terminal.wait_for("size 100x30");
    terminal.resize(33, 111);
    terminal.wait_for("size 111x33");
    terminal.type_keys("\x1c");
    assert_eq!(terminal.wait_exit(), 0);
    replace(&lab, &id);
    let shown = lab.show(&id);
    assert_eq!((&shown["rows"], &shown["cols"]), (&33.into(), &111.into()));
}

#[test]
fn e11_an_agent_that_has_closed_its_terminal_survives_the_replacement() {
    let lab = lab();
    let go = lab.dir().join("go");
    let script = format!(
        "echo ready; exec </dev/null >/dev/null 2>&1; while ! test -e {}; do read -t 0.01 x </dev/zero || :; done; exit 9",
        go.display()
    );
    let id = lab.ok(["run", "-d", "--", "bash", "-c", &script]);
    lab.wait_output(&id, "ready");
    wait_until("the terminal to be closed", || lab.berth(["input", &id, "x"]).code == 1);
    // Connections take the number the terminal had.
    let _others: Vec<_> = (0..5).map(|_| connect(&lab, &id)).collect();
    for _ in 0..2 {
        replace(&lab, &id);
    }
    assert_eq!(lab.show(&id)["state"], "running");
    std::fs::write(&go, "").expect("a file");
    assert_eq!(lab.berth(["wait", &id]).code, 9);
}
