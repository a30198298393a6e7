//! `berth ps`: the processes of a session, and the session of a port.

use std::os::unix::fs::DirBuilderExt;

use berth_harness::{TestEnvironment, said, signal, wait_until};
use rustix::process::Signal;
use serde_json::Value;

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

fn numbers(processes: &Value, field: &str) -> Vec<u64> {
    let all = processes.as_array().expect("a list");
    all.iter().map(|process| process[field].as_u64().expect("a number")).collect()
}

/// The address the agent said it listens on.
fn address(lab: &TestEnvironment, session: &str) -> String {
    lab.wait_output(session, "listening tcp:.*\n");
    let output = String::from_utf8_lossy(&lab.output(session)).into_owned();
    let line = output.lines().find_map(|line| line.trim_end().strip_prefix("listening tcp:"));
    line.expect("the agent listens").to_owned()
}

fn port(address: &str) -> &str {
    address.rsplit(':').next().expect("an address has a port")
}

#[test]
fn the_tree_of_a_session_has_its_keeper_on_top_and_everything_below() {
    let lab = lab();
    let id = lab.start_with(
        &["--name", "fix"],
        &[
            "child",
            "[",
            "child",
            "[",
            "setsid",
            "hang",
            "]",
            "hang",
            "]",
            "child",
            "[",
            "daemonise",
            "hang",
            "]",
            "say:up",
            "hang",
        ],
    );
    lab.wait_output(&id, "up");
    let told = lab.json(["ps", "fix", "--json"]);
    assert_eq!(told.as_array().map(Vec::len), Some(1), "{told}");
    let block = &told[0];
    let (keeper, agent) = (lab.number("fix", "keeper_pid"), lab.number("fix", "pid"));
    assert_eq!((&block["session"], &block["name"]), (&id.as_str().into(), &"fix".into()));
    assert_eq!(block["keeper_pid"], keeper);
    let processes = &block["processes"];
    let pids = numbers(processes, "pid");
    assert_eq!(pids.len(), 5, "{processes}");
    assert_eq!(pids[..2], [u64::from(keeper), u64::from(agent)]);
    let roles: Vec<&str> =
        processes.as_array().expect("a list").iter().filter_map(|row| row["role"].as_str()).collect();
    assert_eq!(roles, ["keeper", "agent", "process", "process", "process"]);
    // The child of the child is below it, and the daemon below the keeper, which adopted it.
    let parents = numbers(processes, "ppid");
    assert_eq!(
        parents[1..],
        [u64::from(keeper), u64::from(agent), pids[2], u64::from(keeper)],
        "{processes}"
    );
    for row in processes.as_array().expect("a list") {
        assert!(row["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{row}");
        assert!(row["age_ms"].as_u64().is_some_and(|age| age < 600_000), "{row}");
        assert_eq!(row["astray"], false, "{row}");
    }
    assert_eq!(
        numbers(processes, "memory_bytes").iter().sum::<u64>(),
        block["memory_bytes"].as_u64().expect("a sum")
    );

    let text = lab.ok(["ps"]);
    let branches =
        ["berth keeper", "├─ fake-agent", "│  └─ fake-agent", "│     └─ fake-agent", "└─ fake-agent"];
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("fix ({id})"));
    for (line, branch) in lines[2..].iter().zip(branches) {
        assert!(line.contains(branch), "`{branch}` is not in: {text}");
    }
    assert!(lines.last().expect("a total").starts_with("5 processes, "), "{text}");
}

#[test]
fn a_session_inside_a_session_is_in_a_block_of_its_own() {
    let lab = lab();
    let (berth, agent) = (env!("CARGO_BIN_EXE_berth"), lab.agent());
    let script = format!("{berth} run -d --name inner -- {agent} hang && echo both && exec {agent} hang");
    let outer = lab.ok(["run", "-d", "--name", "outer", "--", "sh", "-c", &script]);
    lab.wait_output(&outer, "both");
    // The shell has become the agent, and `berth run` is over.
    wait_until("the outer session to be two processes", || {
        lab.json(["ps", "outer", "--json"])[0]["processes"].as_array().is_some_and(|rows| rows.len() == 2)
    });
    let all = lab.json(["ps", "--json"]);
    let names: Vec<&Value> = all.as_array().expect("a list").iter().map(|block| &block["name"]).collect();
    assert_eq!(names, ["outer", "inner"], "{all}");
    assert_eq!(numbers(&all[1]["processes"], "pid")[1], u64::from(lab.number("inner", "pid")));
}

#[test]
fn a_session_that_does_not_run_has_no_processes_and_that_is_not_an_error() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    lab.ok(["stop", &id, "--grace", "0s"]);
    let said = lab.berth(["ps", &id]);
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{said:?}");
    assert_eq!(said.err, format!("no process of `{id}` runs\n"));
    let told = lab.json(["ps", &id, "--json"]);
    assert_eq!((&told[0]["processes"], &told[0]["keeper_pid"]), (&Value::Array(Vec::new()), &Value::Null));
    assert_eq!(lab.json(["ps", "--json"]), Value::Array(Vec::new()));
    assert_eq!(lab.berth(["ps", "nobody"]).code, 3);
}

#[test]
fn leftovers_of_a_dead_keeper_are_listed_and_marked_and_looking_does_not_end_them() {
    let lab = lab();
    let pids = lab.dir().join("pids");
    let id = lab.start(&[
        &format!("pidfile:{}", pids.display()),
        "ignore:HUP,TERM",
        "child",
        "[",
        "orphan",
        "setsid",
        "env-i",
        "ignore:HUP,TERM",
        "child",
        "[",
        "hang",
        "]",
        "hang",
        "]",
        "say:up",
        "hang",
    ]);
    lab.wait_output(&id, "up");
    let recorded = || -> Vec<u64> {
        let text = std::fs::read_to_string(&pids).unwrap_or_default();
        let mut pids: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    };
    wait_until("three processes", || recorded().len() == 3);
    lab.kill_keeper(&id);
    let expected = recorded();
    for _ in 0..2 {
        let block = &lab.json(["ps", &id, "--json"])[0];
        let mut found = numbers(&block["processes"], "pid");
        found.sort_unstable();
        assert_eq!(found, expected, "{block}");
        assert_eq!(block["keeper_pid"], Value::Null);
        let rows = block["processes"].as_array().expect("a list");
        assert!(rows.iter().all(|row| row["astray"] == true), "{block}");
    }
    assert!(lab.ok(["ps"]).contains("(not below the keeper)"));
}

#[test]
fn ports_are_shown_with_the_process_that_listens() {
    let lab = lab();
    let dir = lab.dir().display().to_string();
    let script = ["listen-tcp:0", "child", "[", "listen-unix:near", "hang", "]", "say:up", "hang"];
    let id = lab.start_with(&["--cwd", &dir], &script);
    lab.wait_output(&id, "up");
    let address = address(&lab, &id);
    let block = &lab.json(["ps", &id, "--json"])[0];
    let tcp = format!("tcp:{address}");
    assert_eq!(block["processes"][1]["ports"], serde_json::json!([tcp]), "{block}");
    assert_eq!(
        block["processes"][2]["ports"],
        serde_json::json!([tcp, format!("unix:{dir}/near")]),
        "{block}"
    );
    let text = lab.ok(["ps", &id]);
    assert!(text.contains(&format!("tcp:{},unix:near", port(&address))), "{text}");
}

#[test]
fn the_owner_of_a_port_is_named_as_a_session_or_as_not_of_berth() {
    let lab = lab();
    let id = lab.start_with(&["--name", "web"], &["listen-tcp:0", "hang"]);
    let address = address(&lab, &id);
    let told = lab.json(["ps", "--port", port(&address), "--json"]);
    assert_eq!(told.as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!((&told[0]["session"], &told[0]["name"]), (&id.as_str().into(), &"web".into()), "{told}");
    assert_eq!(told[0]["pid"], lab.number("web", "pid"));
    assert_eq!(told[0]["address"], format!("tcp:{address}"));
    let text = lab.ok(["ps", "--port", port(&address)]);
    assert!(text.contains(" web ") && text.contains("fake-agent"), "{text}");

    let mine = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let number = mine.local_addr().expect("an address").port().to_string();
    let told = lab.json(["ps", "--port", &number, "--json"]);
    assert_eq!((&told[0]["pid"], &told[0]["session"]), (&std::process::id().into(), &Value::Null), "{told}");
    assert!(lab.ok(["ps", "--port", &number]).contains("not of berth"));

    drop(mine);
    let said = lab.berth(["ps", "--port", &number]);
    assert_eq!((said.code, said.out.as_str()), (3, ""), "{said:?}");
    assert!(said.err.contains(&format!("no process listens on port {number}")), "{said:?}");
    assert_eq!(lab.berth(["ps", "--port", "0"]).code, 2);
    assert_eq!(lab.berth(["ps", "--port", "70000"]).code, 2);
    assert_eq!(lab.berth(["ps", "web", "--port", "1"]).code, 2);
}

#[test]
fn a_port_that_a_dead_keepers_run_still_has_is_told_by_its_mark() {
    let lab = lab();
    let id = lab.start(&["ignore:HUP,TERM", "listen-tcp:0", "hang"]);
    let address = address(&lab, &id);
    let agent = lab.number(&id, "pid");
    lab.kill_keeper(&id);
    let told = lab.json(["ps", "--port", port(&address), "--json"]);
    assert_eq!((&told[0]["pid"], &told[0]["session"]), (&agent.into(), &id.as_str().into()), "{told}");
}

#[test]
fn e13_the_secrets_of_children_of_a_session_are_not_shown() {
    let lab = lab();
    let agent = lab.agent();
    let script = format!("exec -a 'sh --token hunter2' {agent} listen-tcp:0 hang");
    let id = lab.ok(["run", "-d", "--", "bash", "-c", &script]);
    let address = address(&lab, &id);
    for args in [
        vec!["ps"],
        vec!["ps", "--json"],
        vec!["ps", "--port", port(&address)],
        vec!["ps", "--port", port(&address), "--json"],
    ] {
        let told = lab.ok(&args);
        assert!(told.contains("--token ***") && !told.contains("hunter2"), "{args:?}: {told}");
    }
}

#[test]
fn a_suspended_agent_is_shown_as_that() {
    let lab = lab();
    let id = lab.start(&["say:up", "hang"]);
    lab.wait_output(&id, "up");
    let agent = lab.process(&id, "pid");
    signal(&agent, Signal::STOP);
    wait_until("the agent to be suspended", || lab.ok(["ps", &id]).contains("(suspended)"));
    assert_eq!(lab.json(["ps", &id, "--json"])[0]["processes"][1]["state"], "suspended");
    signal(&agent, Signal::CONT);
}

#[test]
fn in_a_narrow_terminal_no_line_is_wrapped() {
    let lab = lab();
    let long = "x".repeat(300);
    let id = lab.start(&["listen-tcp:0", &format!("say:{long}"), "nl", "say:up", "hang"]);
    lab.wait_output(&id, "up");
    let mut terminal = lab.terminal_of_size(["ps"], 24, 60);
    terminal.wait_for("processes, ");
    let screen = terminal.text();
    let agent = screen.lines().find(|line| line.contains("fake-agent")).expect("the agent's line").to_owned();
    assert!(agent.trim_end().ends_with('…') && agent.trim_end().chars().count() <= 60, "{screen}");
}

#[test]
fn a_port_of_another_user_is_told_although_its_process_may_not_be_seen() {
    const NOBODY: u32 = 65534;
    let setpriv = std::process::Command::new("setpriv").arg("--version").output();
    if !rustix::process::geteuid().is_root() || setpriv.is_err() {
        return;
    }
    let lab = lab();
    // The program of the other user, and its directory, must be open to that user.
    let (berth, home) = (lab.dir().join("berth"), lab.dir().join("theirs"));
    std::fs::copy(env!("CARGO_BIN_EXE_berth"), &berth).expect("a copy");
    std::fs::DirBuilder::new().mode(0o700).create(&home).expect("a directory");
    std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).expect("we are root");
    let ask = |port: u16| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&berth);
        command.args(["ps", "--port", &port.to_string()]).env("BERTH_HOME", &home);
        said(command.output().expect("setpriv can be started"))
    };
    let mine = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = mine.local_addr().expect("an address").port();
    let told = ask(port);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.out.contains("cannot tell") && told.out.contains("of user 0"), "{told:?}");
    drop(mine);
    let told = ask(port);
    assert_eq!(told.code, 3, "{told:?}");
    assert!(told.err.contains("processes of other users could not be examined"), "{told:?}");
}
