//! Leaving: the terminal is given back as it was, however the dashboard ended.

use berth_harness::{TestEnvironment, TestTerminal};
use rustix::process::Signal;

use crate::dashboard::{agent, lab};

/// A shell that notes the terminal's settings before and after the dashboard.
fn shell(lab: &TestEnvironment) -> TestTerminal {
    let script = format!(
        "stty rows 24 cols 80 -echo tostop intr ^G; cd {0}; stty -a >before; echo before; \
         {1}; echo \"code $?\"; stty -a >after; echo it is over",
        lab.dir().display(),
        env!("CARGO_BIN_EXE_berth"),
    );
    lab.terminal_running("/bin/sh".as_ref(), ["-c", &script])
}

/// The dashboard's process: the process of the lab whose parent is the shell, and not a keeper.
fn dashboard(lab: &TestEnvironment) -> berth_host::identity::ProcessIdentity {
    let is_it = |identity: &berth_host::identity::ProcessIdentity| {
        let command = std::fs::read(format!("/proc/{}/cmdline", identity.pid)).unwrap_or_default();
        command.strip_suffix(&[0]) == Some(env!("CARGO_BIN_EXE_berth").as_bytes())
    };
    lab.processes().into_iter().find(is_it).expect("the dashboard runs")
}

#[test]
fn a_shell_finds_its_terminal_as_it_was_whatever_ended_the_dashboard() {
    for (ending, code) in [
        ("q", 0),
        ("\x03", 0),
        ("\x1b", 0),
        ("m half a message\x03\x03", 0),
        ("SIGTERM", 143),
        ("SIGHUP", 129),
        ("SIGINT", 130),
        ("SIGQUIT", 131),
    ] {
        let lab = lab();
        lab.start_with(&["--name", "tests"], &[r"say:\e[?1002h\e[?25lready", "hang"]);
        let mut terminal = shell(&lab);
        terminal.wait_for("ready");
        let signal = match ending {
            "SIGTERM" => Some(Signal::TERM),
            "SIGHUP" => Some(Signal::HUP),
            "SIGINT" => Some(Signal::INT),
            "SIGQUIT" => Some(Signal::QUIT),
            _ => None,
        };
        match signal {
            Some(signal) => berth_harness::signal(&dashboard(&lab), signal),
            None if ending.starts_with('s') => {
                terminal.type_keys(&ending[..ending.len() - 2]);
                terminal.wait_for("half a message");
                terminal.type_keys("\x03");
                terminal.wait_for("not sent");
                terminal.type_keys("\x03");
            }
            None => terminal.type_keys(ending),
        }
        terminal.wait_for("it is over");
        terminal.wait_exit();
        // Same screen, same cursor, no mode left on: as if the dashboard had never been there.
        let mut untouched = berth_screen::Screen::new(berth_screen::ScreenSize { rows: 24, cols: 80 });
        // Entering the alternate screen saves the cursor, and nothing takes that back.
        untouched.feed(format!("before\r\n\x1b7code {code}\r\nit is over\r\n").as_bytes());
        assert_eq!(terminal.text(), format!("before\ncode {code}\nit is over"), "after {ending:?}");
        assert!(
            terminal.restore() == untouched.restore(),
            "after {ending:?}: {}",
            terminal.restore().escape_ascii()
        );
        let settings = |name: &str| std::fs::read_to_string(lab.dir().join(name)).expect("stty wrote it");
        assert_eq!(settings("before"), settings("after"), "after {ending:?}");
        assert_eq!(lab.show("tests")["state"], "running");
    }
}

#[test]
fn a_terminal_that_goes_away_ends_the_dashboard_and_nothing_else() {
    let lab = lab();
    lab.start_with(&["--name", "tests"], &["say:ready", "hang"]);
    let mut terminal = crate::dashboard::open(&lab);
    terminal.wait_for("ready");
    terminal.close();
    assert_eq!(terminal.wait_exit(), 129);
    assert_eq!(lab.show("tests")["state"], "running");
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_again() {
    let lab = lab();
    lab.start_with(&["--name", "tests"], &["say:ready", "hang"]);
    let mut terminal = lab.terminal_running("/bin/bash".as_ref(), ["--norc", "--noprofile", "-i"]);
    terminal.type_keys(&format!("PS1='$ '; clear; echo first\n{}\n", env!("CARGO_BIN_EXE_berth")));
    terminal.wait_for("1 running");
    terminal.wait_for("ready");
    terminal.type_keys("\x1a");
    terminal.wait_for("Stopped");
    let text = terminal.text();
    assert!(text.contains("first") && !text.contains("running"), "{text}");
    terminal.type_keys("echo seen in between\n");
    terminal.wait_for("seen in between\n$");
    terminal.type_keys("fg\n");
    terminal.wait_for("1 running");
    terminal.wait_for("ready");
    terminal.type_keys("q");
    // Keys count for the shell from its prompt on: the dashboard drops what is typed while it leaves.
    terminal.wait_until("the prompt", |terminal| {
        let text = terminal.text();
        text.contains("seen in between") && text.lines().last().is_some_and(|last| last.trim_end() == "$")
    });
    terminal.type_keys("echo code $?; exit\n");
    terminal.wait_for("code 0");
    terminal.wait_exit();
}

#[test]
fn leaving_at_once_after_enter_still_sends_the_message() {
    let lab = lab();
    let id = agent(&lab, "docs");
    let mut terminal = crate::dashboard::open(&lab);
    terminal.wait_for("nothing was said yet");
    terminal.type_keys("mhello\rq");
    assert_eq!(terminal.wait_exit(), 0);
    lab.ok(["wait", &format!("{id}.1"), "--timeout", "60s"]);
}
