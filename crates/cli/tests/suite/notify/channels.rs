//! The channels of notifications on this machine: a command, the desktop, a terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use berth_harness::{TestEnvironment, wait_until};

use crate::notify::{lab_with, log, settled};

/// A program of the test's own.
fn program(lab: &TestEnvironment, name: &str, script: &str) -> PathBuf {
    let dir = lab.dir().join("bin");
    fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("a script that can be run");
    path
}

fn add(lab: &TestEnvironment, notify: &str) {
    let known = fs::read_to_string(lab.config()).expect("a config file");
    fs::write(lab.config(), known + notify).expect("a config file");
}

fn wait_for(path: &Path) -> String {
    wait_until(&format!("{}", path.display()), || path.exists());
    fs::read_to_string(path).expect("a file")
}

#[test]
fn a_command_is_given_everything_in_variables_and_as_json() {
    let lab = lab_with("");
    let out = lab.dir().join("out");
    let script = format!(
        "{{ echo \"$1|$BERTH_EVENT_WHAT|$BERTH_EVENT_NAME|$BERTH_EVENT_TITLE|$BERTH_EVENT_TEXT\"; cat; }} \
         > {0}.part; mv {0}.part {0}",
        out.display()
    );
    let command = program(&lab, "tell", &script);
    add(&lab, &format!("[notify]\ncommand = [{:?}, \"$HOME; exit 1\"]\n", command));
    lab.start_with(&["--name", "s"], &["exit:3"]);
    let told = wait_for(&out);
    let (first, json) = told.split_once('\n').expect("two lines");
    assert_eq!(first, "$HOME; exit 1|failed|s|s failed|the run ended with exit code 3", "no shell read it");
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(json["data"]["title"], "s failed");
    settled(&lab);
    assert_eq!(log(&lab)[0]["outcome"], "sent");
}

#[test]
fn a_command_that_does_not_end_is_killed_with_its_children() {
    let lab = lab_with("");
    let pids = lab.dir().join("pids");
    let script = format!("sleep 1000 & echo $! $$ > {0}.part; mv {0}.part {0}; wait", pids.display());
    let command = program(&lab, "hangs", &script);
    add(&lab, &format!("[notify]\ncommand = [{command:?}]\ncommand_timeout = \"3s\"\n"));
    lab.start_with(&["--name", "s"], &["exit:0"]);
    let pids: Vec<u32> =
        wait_for(&pids).split_whitespace().map(|pid| pid.parse().expect("a number")).collect();
    settled(&lab);
    for pid in pids {
        let left = berth_host::identity::process_stat(pid).ok().filter(|stat| !stat.is_zombie());
        assert!(left.is_none(), "{left:?}");
    }
    let last = log(&lab).pop().expect("a line");
    assert_eq!(last["outcome"], "failed");
    assert!(last["detail"].as_str().is_some_and(|why| why.contains("was killed")), "{last}");
}

#[test]
fn processes_that_a_command_leaves_behind_are_killed_when_it_ends() {
    let lab = lab_with("");
    let pid = lab.dir().join("pid");
    let script = format!("sleep 1000 & echo $! > {0}.part; mv {0}.part {0}", pid.display());
    let command = program(&lab, "leaves", &script);
    add(&lab, &format!("[notify]\ncommand = [{command:?}]\n"));
    lab.start_with(&["--name", "s"], &["exit:0"]);
    let pid: u32 = wait_for(&pid).trim().parse().expect("a number");
    settled(&lab);
    let left = berth_host::identity::process_stat(pid).ok().filter(|stat| !stat.is_zombie());
    assert!(left.is_none(), "{left:?}");
    assert_eq!(log(&lab).pop().expect("a line")["outcome"], "sent");
}

#[test]
fn a_session_that_a_command_starts_is_told_nothing_of_the_other_one() {
    let lab = lab_with("");
    let out = lab.dir().join("out");
    let script = format!(
        "test -n \"$BERTH_EVENT_TITLE\" || exit 9; BERTH_NOTIFY_ON=failed {} run -d --notify none --name t --cwd {2} -- \
         sh -c 'env > {1}.part; mv {1}.part {1}'",
        env!("CARGO_BIN_EXE_berth"),
        out.display(),
        // Below `control` a session starts only in the directory of the session that the command was told of.
        env!("CARGO_MANIFEST_DIR")
    );
    let command = program(&lab, "starts", &script);
    add(&lab, &format!("[notify]\ncommand = [{command:?}]\n"));
    lab.start_with(&["--name", "s"], &["exit:0"]);
    let variables = wait_for(&out);
    settled(&lab);
    assert_eq!(log(&lab)[0]["outcome"], "sent");
    assert!(!variables.lines().any(|line| line.starts_with("BERTH_EVENT_")), "{variables}");
    assert!(variables.contains("BERTH_NOTIFY_ON=failed\n"), "that is a key of the config file: {variables}");
}

#[test]
fn a_config_file_named_by_a_relative_path_is_found_by_processes_in_other_directories() {
    let lab = lab_with("");
    let out = lab.dir().join("out");
    let command =
        program(&lab, "tell", &format!("mv $(mktemp -p {}) {}", lab.dir().display(), out.display()));
    add(&lab, &format!("[notify]\ncommand = [{command:?}]\n"));
    let mut run = lab.command(["run", "-d", "--name", "s", "--", "true"]);
    let name = lab.config().file_name().expect("a name").to_owned();
    run.current_dir(lab.config().parent().expect("a directory")).env("BERTH_CONFIG", name);
    assert!(run.output().expect("berth starts").status.success());
    wait_for(&out);
    settled(&lab);
}

#[test]
fn a_command_that_fails_or_is_not_there_is_a_failure() {
    let lab = lab_with("");
    let command = program(&lab, "fails", "exit 9");
    add(&lab, &format!("[notify]\ncommand = [{command:?}]\n"));
    let said = lab.berth(["notify", "test"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("exit status: 9"), "{said:?}");
    fs::remove_file(&command).expect("our own file");
    let said = lab.berth(["notify", "test"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("No such file"), "{said:?}");
}

#[test]
fn the_desktop_is_told_by_notify_send_if_there_is_one() {
    let lab = lab_with("[notify]\ndesktop = true\n");
    let out = lab.dir().join("out");
    let script = format!(
        "for word; do printf '%s\\n' \"[$word]\"; done > {0}.part; echo \"$DBUS_SESSION_BUS_ADDRESS\" >> {0}.part; \
         mv {0}.part {0}",
        out.display()
    );
    let odd = lab.dir().join("a<b>&c");
    fs::create_dir(&odd).expect("a directory");
    let run = |name: &str, bus: Option<&str>| {
        let mut run = lab.command(["run", "-d", "--name", name, "--", "sh", "-c", "exit 3"]);
        run.current_dir(&odd).stdout(std::process::Stdio::null());
        run.env("PATH", format!("{}/bin:/usr/bin:/bin", lab.dir().display()));
        run.env_remove("DBUS_SESSION_BUS_ADDRESS").env_remove("XDG_RUNTIME_DIR");
        run.envs(bus.map(|bus| ("DBUS_SESSION_BUS_ADDRESS", bus)));
        assert!(run.status().expect("berth starts").success());
        wait_until("the log", || log(&lab).iter().any(|line| line["name"] == name));
        log(&lab).pop().expect("a line")
    };
    let without_bus = run("a", None);
    assert_eq!(without_bus["outcome"], "skipped", "{without_bus}");
    program(&lab, "notify-send", &script);
    let told = run("b", Some("unix:path=/nowhere"));
    assert_eq!(told["outcome"], "sent", "{told}");
    let said = wait_for(&out);
    assert!(said.contains("[--urgency]\n[critical]\n[--]\n[b"), "{said}");
    assert!(said.contains("the run ended with exit code 3\n"), "{said}");
    assert!(said.contains("/a&lt;b&gt;&amp;c on "), "nothing in it is markup: {said}");
    assert!(said.ends_with("unix:path=/nowhere\n"), "{said}");
}

/// A shell at a terminal of its own, whose current session this is.
fn shell_using(lab: &TestEnvironment, session: &str) -> berth_harness::TestTerminal {
    let mut shell = lab.terminal_running(Path::new("/bin/sh"), Vec::<String>::new());
    shell.type_keys("PS1='READY'\r");
    shell.wait_until("a prompt", |shell| shell.text().ends_with("READY"));
    shell.type_keys(&format!("{} use {session}; echo used=$?\r", env!("CARGO_BIN_EXE_berth")));
    shell.wait_until("its prompt", |shell| shell.text().trim_end().ends_with("used=0\nREADY"));
    shell
}

#[test]
fn the_terminals_whose_current_session_it_is_hear_a_bell_and_a_notification() {
    let lab = lab_with("[notify]\nterminal = true\n");
    let gate = lab.dir().join("go");
    let wait = format!("wait-file:{}", gate.display());
    lab.start_with(&["--name", "s"], &[&wait, "exit:3"]);
    lab.start_with(&["--name", "other"], &["hang"]);
    let mut mine = shell_using(&lab, "s");
    let mut others = shell_using(&lab, "other");
    let (before, others_before) = (mine.text(), others.raw.len());
    fs::write(&gate, "").expect("a file");
    let told = "\x07\x1b]9;s failed: the run ended with exit code 3\x1b\\";
    mine.wait_for_raw(told.as_bytes());
    settled(&lab);
    assert_eq!(mine.text(), before, "no letter of it is shown");
    others.look();
    assert!(!others.raw[others_before..].contains(&7), "it is not its session");
    let line = log(&lab).pop().expect("a line");
    assert_eq!(line["outcome"], "sent", "{line}");
    // A terminal that is closed is not written to, even if another one has its device now.
    mine.close();
    drop(mine);
    lab.ok(["resume", "-d", "s"]);
    wait_until("the log", || log(&lab).len() >= 2);
    let line = log(&lab).pop().expect("a line");
    assert_eq!(line["outcome"], "skipped", "{line}");
}

#[test]
fn a_terminal_that_takes_nothing_holds_up_no_notifier() {
    let lab = lab_with("[notify]\nterminal = true\nterminal_style = \"both\"\n");
    let gate = lab.dir().join("go");
    let wait = format!("wait-file:{}", gate.display());
    lab.start_with(&["--name", "s"], &[&wait, "exit:0"]);
    let mut shell = shell_using(&lab, "s");
    // The terminal is not read, so it takes only so much.
    shell.type_keys("yes\r");
    let tty = lab.json(["ps", "s", "--json"]);
    assert!(tty.is_array());
    let pid = shell.identity().pid;
    let device = fs::read_link(format!("/proc/{pid}/fd/0")).expect("a terminal");
    let full = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let fd = rustix::fs::open(&device, full, rustix::fs::Mode::empty()).expect("a terminal");
    wait_until("it to be full", || rustix::io::write(&fd, b"y") == Err(rustix::io::Errno::AGAIN));
    fs::write(&gate, "").expect("a file");
    wait_until("the log", || !log(&lab).is_empty());
    settled(&lab);
    let line = log(&lab).pop().expect("a line");
    assert_eq!(line["outcome"], "failed", "{line}");
}
