//! The commands as scripts use them: exit codes, JSON, what is printed where, bad input.

use std::process::Stdio;

use berth_harness::{TestEnvironment, said};

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

#[test]
fn a_foreground_run_passes_output_and_exit_code_through_and_stays_listed() {
    let lab = lab();
    let said = lab.berth(["run", "--", "sh", "-c", "echo out; exit 3"]);
    assert_eq!((said.code, said.out.as_str()), (3, "out\n"));
    let listed = lab.json(["ls", "--json"]);
    assert_eq!(listed[0]["state"], "stopped");
    assert_eq!(listed[0]["exit"], 3);
}

#[test]
fn a3_stop_without_a_terminal_stops_and_says_so_with_exit_0() {
    let lab = lab();
    let id = lab.start(&["say:up", "hang"]);
    let agent = lab.process(&id, "pid");
    let said = lab.berth(["stop", &id]);
    assert_eq!(said.code, 0, "{said:?}");
    berth_harness::wait_gone(&agent);
    assert_eq!(lab.show(&id)["state"], "stopped");
}

#[test]
fn a11_an_exit_code_a_signal_a_stop_and_a_time_out_are_four_different_ends() {
    let lab = lab();
    let [exits, dies, stopped, hangs] =
        [&["exit:3"][..], &["die:KILL"], &["hang"], &["hang"]].map(|script| lab.start(script));
    let code = |args: &[&str]| lab.berth(args).code;
    assert_eq!(code(&["wait", &exits]), 3);
    assert_eq!(code(&["wait", &dies]), 128 + 9);
    lab.ok(["stop", &stopped]);
    assert_eq!(code(&["wait", &stopped]), 128 + 15);
    assert_eq!(code(&["wait", &hangs, "--timeout", "50ms"]), 6);
    assert_eq!(lab.show(&hangs)["state"], "running", "a wait that gives up changes nothing");
    assert_eq!((lab.show(&dies)["signal"].as_u64(), lab.show(&dies)["exit"].as_u64()), (Some(9), Some(137)));
    assert!(lab.show(&stopped)["stopped_by"]["pid"].is_u64());
    assert!(lab.show(&dies)["stopped_by"].is_null());
}

#[test]
fn a11_a_run_whose_keeper_died_is_lost_and_waiting_for_it_is_never_a_success() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let keeper = lab.process(&id, "keeper_pid");
    berth_harness::signal(&keeper, rustix::process::Signal::KILL);
    berth_harness::wait_gone(&keeper);
    let said = lab.berth(["wait", &id]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("lost"), "{said:?}");
    assert_eq!(lab.show(&id)["state"], "lost");
}

#[test]
fn run_detached_prints_the_id_alone_once_the_command_runs() {
    let lab = lab();
    let said = lab.berth(["run", "-d", "--", &lab.agent(), "hang"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let id = said.out.strip_suffix('\n').expect("one line");
    assert!(id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id:?}");
    let shown = lab.show(id);
    assert_eq!(shown["state"], "running");
    assert!(shown["pid"].is_u64());
}

#[test]
fn run_with_json_prints_the_session_at_its_start_or_at_its_end() {
    let lab = lab();
    let agent = lab.agent();
    assert_eq!(lab.json(["run", "-d", "--json", "--", &agent, "hang"])["state"], "running");
    let said = lab.berth(["run", "--json", "--", &agent, "say:hello", "exit:5"]);
    assert_eq!(said.code, 5);
    let shown: serde_json::Value = serde_json::from_str(&said.out).expect("JSON and nothing else");
    assert_eq!((&shown["state"], &shown["exit"]), (&"stopped".into(), &5.into()));
}

#[test]
fn json_has_the_promised_fields_and_no_secret() {
    let lab = lab();
    let agent = lab.agent();
    let args = [
        "run",
        "-d",
        "--name",
        "fields",
        "--cwd",
        "/",
        "--env",
        "TOKEN=hunter2",
        "--",
        &agent,
        "report:TOKEN",
        "hang",
    ];
    let id = lab.ok(args);
    lab.wait_output(&id, "hunter2");
    let shown = lab.show("fields");
    let promised = [
        "id",
        "name",
        "state",
        "driver",
        "command",
        "cwd",
        "epoch",
        "pid",
        "keeper_pid",
        "created_at",
        "last_activity_at",
        "exit",
    ];
    for field in promised {
        assert!(shown.get(field).is_some(), "no {field} in {shown}");
    }
    assert_eq!(shown["id"], id.as_str());
    assert_eq!(
        (&shown["name"], &shown["driver"], &shown["cwd"]),
        (&"fields".into(), &"pty".into(), &"/".into())
    );
    assert_eq!(shown["command"], serde_json::json!([agent, "report:TOKEN", "hang"]));
    assert_eq!((&shown["epoch"], &shown["exit"]), (&1.into(), &serde_json::Value::Null));
    assert_eq!(lab.json(["ls", "--json"]).as_array().map(Vec::len), Some(1));
    assert_eq!(lab.json(["why", &id, "--json"])["state"], "running");
    for args in
        [&["show", &id, "--json"][..], &["show", &id], &["ls"], &["log", &id], &["log", &id, "--json"]]
    {
        assert!(!lab.ok(args).contains("hunter2"), "{args:?} shows the value of a variable");
    }
    for line in lab.ok(["log", &id, "--json"]).lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("one object per line");
        assert!(event["seq"].is_u64() && event["at"].is_string() && event["event"].is_string(), "{line}");
    }
    let stopped = lab.json(["stop", &id, "--json"]);
    assert_eq!((&stopped[0]["state"], &stopped[0]["exit"]), (&"stopped".into(), &143.into()));
}

#[test]
fn a_run_off_a_terminal_ends_lines_as_a_pipe_would_and_loses_no_byte() {
    let lab = lab();
    // A terminal turns these into: a\r
    //  b\r\r
    //  c\r d\r
    //  e\r
    let said = lab.berth(["run", "--", &lab.agent(), r"say:a\nb\r\nc\rd\ne\r"]);
    assert_eq!((said.code, said.out.as_str()), (0, "a\nb\r\nc\rd\ne\r"));
    let raw = lab.berth(["output", lab.json(["ls", "--json"])[0]["id"].as_str().expect("an id")]);
    assert_eq!(raw.out, "a\r\nb\r\r\nc\rd\r\ne\r", "`output` is raw");
}

#[test]
fn f12_the_output_of_a_session_can_be_read_after_its_end() {
    let lab = lab();
    let id = lab.start_with(&["--name", "done"], &["say:first\\nlast words", "exit:7"]);
    assert_eq!(lab.berth(["wait", &id]).code, 7);
    let check = |session: &str| {
        assert_eq!(lab.ok(["output", session]), "first\r\nlast words");
        assert_eq!(lab.ok(["screen", session]).trim_end(), "first\nlast words");
        assert!(lab.ok(["screen", session, "--ansi"]).contains("last words"));
        assert_eq!(lab.ok(["output", session, "--from", "7"]), "last words");
        assert!(lab.ok(["log", session]).contains("agent ended: exit 7"));
        assert_eq!(
            lab.ok(["log", session, "--follow"]),
            lab.ok(["log", session]),
            "following an ended session does not wait"
        );
        assert_eq!(lab.ok(["output", session, "--follow"]), "first\r\nlast words");
        assert_eq!(lab.show(session)["exit"], 7);
        assert_eq!(lab.json(["why", session, "--json"])["state"], "stopped");
        assert_eq!(lab.berth(["wait", session]).code, 7);
    };
    check(&id);
    check("done");
    let again = lab.berth(["resume", "done"]);
    assert_eq!((again.code, again.out.as_str()), (7, "first\nlast words"), "only the new run's output");
    assert_eq!(lab.show(&id)["epoch"], 2);
    assert_eq!(lab.ok(["output", &id]), "first\r\nlast wordsfirst\r\nlast words");
}

#[test]
fn h4_fifty_sessions_started_at_once_are_fifty_sessions() {
    let lab = lab();
    let agent = lab.agent();
    let start =
        || lab.command(["run", "-d", "--", &agent, "hang"]).stdout(Stdio::piped()).spawn().expect("berth");
    let started: Vec<_> = (0..50).map(|_| start()).collect();
    let said: Vec<_> =
        started.into_iter().map(|child| said(child.wait_with_output().expect("it ends"))).collect();
    let mut ids: Vec<_> = said.iter().map(|said| said.out.trim()).collect();
    assert!(said.iter().all(|said| said.code == 0), "{said:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 50);
    let listed = lab.json(["ls", "--json"]);
    let listed = listed.as_array().expect("an array");
    assert_eq!(listed.len(), 50);
    assert!(listed.iter().all(|status| status["state"] == "running"), "{listed:?}");
}

#[test]
fn waiting_for_output_looks_through_colours_and_ends_at_the_end() {
    let lab = lab();
    let id = lab.start(&[r"say:\e[31mgre\e[0m\e[1men\e[0m li\e[4mght\n", "expect:go", "exit:0"]);
    lab.wait_output(&id, "^green light.?$");
    let late = lab.berth(["wait", &id, "--for", "output:never", "--timeout", "50ms"]);
    assert_eq!(late.code, 6, "{late:?}");
    assert!(late.err.contains("printed no match"), "{late:?}");
    lab.ok(["input", &id, "--enter", "go"]);
    assert_eq!(lab.berth(["wait", &id, "--for", "output:never"]).code, 1, "over, and nothing matched");
    assert_eq!(lab.berth(["wait", &id, "--for", "output:green light"]).code, 0);
    assert_eq!(lab.berth(["wait", &id, "--for", "output:(", "--timeout", "1s"]).code, 2);
    assert_eq!(lab.berth(["wait", &id, "--for", "rain"]).code, 2);
}

#[test]
fn timeouts_beyond_the_clock_never_expire() {
    let lab = lab();
    let id = lab.start(&["ignore:TERM,HUP", "say:up", "expect:go", "exit:4"]);
    lab.wait_output(&id, "up");
    let centuries = "4000000000000000h";
    let mut stop =
        lab.command(["stop", &id, "--grace", centuries]).stderr(Stdio::piped()).spawn().expect("berth");
    berth_harness::wait_until("the order to stop", || lab.show(&id)["state"] == "stopping");
    lab.wait_output(&id, "up");
    lab.ok(["input", &id, "--enter", "go"]);
    let waited = lab.berth(["wait", &id, "--timeout", centuries]);
    assert_eq!((waited.code, waited.err.as_str()), (4, ""));
    assert!(stop.wait().expect("our own child").success());
}

#[test]
fn stopping_several_with_one_unknown_stops_none() {
    let lab = lab();
    let [one, two] = [lab.start(&["hang"]), lab.start(&["hang"])];
    let said = lab.berth(["stop", &one, "no-such", &two]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("no-such"), "{said:?}");
    for id in [&one, &two] {
        assert_eq!(lab.show(id)["state"], "running");
    }
    lab.ok(["stop", &one, &two]);
    for id in [&one, &two] {
        assert_eq!(lab.show(id)["state"], "stopped");
    }
}

#[test]
fn stopping_a_stopped_session_changes_nothing_and_succeeds() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    lab.ok(["stop", &id]);
    let log = lab.ok(["log", &id]);
    lab.ok(["stop", &id]);
    lab.ok(["stop", &id, &id]);
    assert_eq!(lab.ok(["log", &id]), log);
    assert_eq!(lab.show(&id)["exit"], 143);
}

#[test]
fn a_session_can_be_resumed_and_renamed_the_moment_it_is_stopped() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    for round in 1..=10 {
        lab.ok(["stop", &id]);
        lab.ok(["resume", "-d", &id]);
        lab.ok(["stop", &id]);
        lab.ok(["rename", &id, &format!("round-{round}")]);
        lab.ok(["resume", "-d", &id]);
        assert_eq!(lab.show(&id)["epoch"], 2 * round + 1);
    }
}

#[test]
fn an_agent_that_ignores_the_request_to_stop_is_killed_after_the_grace_time() {
    let lab = lab();
    let id = lab.start(&["ignore:TERM,HUP", "say:deaf", "hang"]);
    lab.wait_output(&id, "deaf");
    let started = std::time::Instant::now();
    lab.ok(["stop", &id, "--grace", "300ms"]);
    assert!(
        started.elapsed() >= std::time::Duration::from_millis(300),
        "killed after {:?}",
        started.elapsed()
    );
    assert_eq!(lab.show(&id)["exit"], 137);
    assert!(lab.ok(["log", &id]).contains("grace time is over"));
}

#[test]
fn stop_waits_one_grace_time_for_many_sessions_that_ignore_sigterm() {
    let lab = lab();
    let ids: Vec<_> = (0..4).map(|_| lab.start(&["ignore:TERM,HUP", "say:deaf", "hang"])).collect();
    ids.iter().for_each(|id| lab.wait_output(id, "deaf"));
    let mut args = vec!["stop", "--json", "--grace", "5s"];
    args.extend(ids.iter().map(String::as_str));
    let started = std::time::Instant::now();
    let stopped = lab.json(args);
    assert!(started.elapsed() < std::time::Duration::from_secs(15), "it took {:?}", started.elapsed());
    let listed: Vec<_> = stopped.as_array().expect("an array").iter().map(|status| &status["id"]).collect();
    assert_eq!(listed, ids.iter().collect::<Vec<_>>(), "in the order they were named");
}

#[test]
fn stopping_several_ends_with_the_worst_code_of_all() {
    let lab = lab();
    let [stuck, damaged, fine] =
        ["stuck", "damaged", "fine"].map(|name| lab.start_with(&["--name", name], &["hang"]));
    // A keeper that is there and closes every connection at once.
    lab.kill_keeper(&stuck);
    let dir = lab.session_dir(&stuck);
    let _lease = berth_store::SessionFiles::understand(dir.as_os_str())
        .expect("a session")
        .claim()
        .expect("a lease")
        .expect("the lock is free");
    let listener = berth_host::socket::listen_at(&dir, "sock").expect("a socket");
    listener.set_nonblocking(false).expect("a socket");
    std::thread::spawn(move || while listener.accept().is_ok() {});
    lab.ok(["stop", &damaged]);
    berth_harness::wait_until("the keeper's end", || lab.processes().len() == 2);
    std::fs::remove_file(lab.session_dir(&damaged).join("status.json")).expect("the status cache");
    let segment = lab.session_dir(&damaged).join("journal/00000000000000000001.log");
    let mut bytes = std::fs::read(&segment).expect("the journal");
    bytes[60] ^= 1;
    std::fs::write(segment, bytes).expect("the journal");
    for ids in [[&stuck, &damaged, &fine], [&fine, &damaged, &stuck]] {
        let said = lab.berth(["stop"].into_iter().chain(ids.map(String::as_str)));
        assert_eq!(said.code, 5, "{said:?}");
    }
    assert_eq!(lab.show(&fine)["state"], "stopped");
}

#[test]
fn the_length_of_the_output_is_up_to_date_in_a_list() {
    let lab = lab();
    let go = lab.dir().join("go");
    let id = lab.start(&["say:early", &format!("wait-file:{}", go.display()), "say:, and late", "hang"]);
    lab.wait_output(&id, "early");
    std::fs::write(&go, "").expect("a file");
    lab.wait_output(&id, "late");
    assert_eq!(lab.json(["ls", "--json"])[0]["output_bytes"], "early, and late".len());
}

#[test]
fn why_ends_with_what_would_change_it() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let why = |id: &str| lab.ok(["why", id]).lines().last().unwrap_or_default().to_owned();
    assert!(why(&id).starts_with("changes when the agent's process ends"), "{}", why(&id));
    lab.ok(["stop", &id]);
    let sentence = format!("changes only with `berth resume {id}`, which starts the next run");
    assert_eq!(why(&id), sentence);
}

#[test]
fn an_interactive_shell_which_ignores_sigterm_stops_at_once() {
    let lab = lab();
    let id = lab.ok(["run", "-d", "--env", "PS1=ready> ", "--", "bash", "--norc", "-i"]);
    lab.wait_output(&id, "ready> ");
    lab.ok(["stop", &id, "--grace", "60s"]);
    assert_eq!(lab.show(&id)["exit"], 129, "by the hang-up, long before the grace was over");
}

#[test]
fn a_command_that_does_not_exist_is_refused_and_leaves_nothing() {
    let lab = lab();
    for command in ["no-such-command", "/no/such/command", "/etc/passwd", "/"] {
        let said = lab.berth(["run", "-d", "--name", "free", "--key", "free", "--", command]);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
        assert!(said.err.contains(command), "{said:?}");
        assert_eq!(std::fs::read_dir(lab.home().join("sessions")).expect("the directory").count(), 0);
        for pointers in ["names", "keys"] {
            assert_eq!(std::fs::read_dir(lab.home().join(pointers)).expect("the directory").count(), 0);
        }
    }
    assert_eq!(lab.json(["ls", "--all", "--json"]), serde_json::json!([]));
    lab.start_with(&["--name", "free", "--key", "free"], &["hang"]);
}

#[test]
fn a_directory_that_is_gone_is_refused_by_run_and_by_resume() {
    let lab = lab();
    let agent = lab.agent();
    let dir = lab.dir().join("project");
    let said = lab.berth(["run", "-d", "--cwd", &dir.display().to_string(), "--", &agent, "hang"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("project") && said.err.contains("hint:"), "{said:?}");
    std::fs::create_dir(&dir).expect("a directory");
    let id = lab.ok(["run", "-d", "--cwd", &dir.display().to_string(), "--", &agent, "exit:0"]);
    assert_eq!(lab.berth(["wait", &id]).code, 0);
    std::fs::remove_dir(&dir).expect("an empty directory");
    let said = lab.berth(["resume", &id]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("project"), "{said:?}");
    assert_eq!(lab.show(&id)["state"], "stopped", "the record stays");
    std::fs::create_dir(&dir).expect("a directory");
    assert_eq!(lab.berth(["resume", &id]).code, 0);
    let script =
        format!("cd {0} && rmdir {0} && exec {1} run -- true", dir.display(), env!("CARGO_BIN_EXE_berth"));
    let mut shell = std::process::Command::new("sh");
    let gone = said_by(shell.args(["-c", &script]).env("BERTH_HOME", lab.home()));
    assert_eq!(gone.code, 1, "{gone:?}");
    assert!(gone.err.contains("cannot use the directory"), "{gone:?}");
}

#[test]
fn wrong_usage_is_exit_2_and_an_unknown_session_exit_3() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let usage: [&[&str]; 9] = [
        &["dance"],
        &["run"],
        &["run", "--env", "X", "--", "true"],
        &["run", "--env", "BERTH_RUN=x", "--", "true"],
        &["stop"],
        &["wait", &id, "--timeout", "soon"],
        &["attach", &id, "--observe", "--take"],
        &["input", &id],
        &["run", "-d", "--key", "", "--", "true"],
    ];
    for args in usage {
        let said = lab.berth(args);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{args:?}: {said:?}");
    }
    for verb in ["show", "why", "screen", "output", "log", "stop", "wait", "resume"] {
        let said = lab.berth([verb, "no-such"]);
        assert_eq!(said.code, 3, "{verb}: {said:?}");
        assert!(said.err.contains("no session `no-such`") && said.err.contains("hint:"), "{said:?}");
    }
    assert_eq!(lab.berth(["input", "no-such", "x"]).code, 3);
    assert_eq!(lab.berth(["rename", "no-such", "x"]).code, 3);
    assert_eq!(lab.berth(["show", ""]).code, 3);
}

#[test]
fn input_without_a_run_is_refused_and_resuming_a_running_session_is_exit_4() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let said = lab.berth(["resume", &id]);
    assert_eq!(said.code, 4, "{said:?}");
    lab.ok(["stop", &id]);
    let said = lab.berth(["input", &id, "hello"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("not running") && said.err.contains("berth resume"), "{said:?}");
    assert_eq!(lab.show(&id)["state"], "stopped", "stopped stays stopped");
}

#[test]
fn attaching_without_a_terminal_is_a_usage_error_that_names_the_commands_for_scripts() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let said = lab.berth(["attach", &id]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains(&format!("berth output {id} --follow")), "{said:?}");
}

/// A page of the help, wrapped as for a file: not at the width of the terminal in which the tests run.
fn help_page(lab: &TestEnvironment, args: &[&str]) -> String {
    let said = said_by(lab.command(args).env_remove("COLUMNS"));
    assert_eq!(said.code, 0, "{said:?}");
    said.out.trim_end_matches('\n').to_owned()
}

#[test]
fn the_help_of_every_command_says_what_it_does() {
    let lab = lab();
    let top = help_page(&lab, &["help", "--all"]);
    insta::assert_snapshot!("help-all", top);
    assert_eq!(top, help_page(&lab, &["--help", "--all"]));
    let verbs = [
        "run", "resume", "ls", "show", "why", "attach", "input", "screen", "output", "log", "stop", "wait",
        "rename", "demo", "ps", "doctor", "helper",
    ];
    for verb in verbs {
        assert!(top.contains(&format!("\n  {verb} ")), "{verb} is not in the overview");
        let help = lab.ok([verb, "--help"]);
        let says = help.lines().next().unwrap_or_default();
        assert!(says.len() > 15 && says.contains(' '), "{verb}: {says}");
        assert!(help.contains("Usage: berth"), "{help}");
    }
    assert!(lab.ok(["attach", "--help"]).contains("exit code is passed through"));
    for verb in ["run", "ls", "input", "ps"] {
        assert!(lab.ok([verb, "--help"]).contains("Examples:"), "{verb}");
    }
}

#[test]
fn the_first_page_of_the_help_fits_a_terminal_of_80_columns_and_24_lines() {
    let lab = lab();
    let page = help_page(&lab, &["--help"]);
    insta::assert_snapshot!("help", page);
    let lines: Vec<&str> = page.lines().collect();
    assert!(lines.len() <= 24, "{} lines:\n{page}", lines.len());
    for line in &lines {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    for same in [["-h"], ["help"]] {
        assert_eq!(help_page(&lab, &same), page, "{same:?}");
    }
}

#[test]
fn help_of_a_command_prints_what_its_help_option_prints() {
    let lab = lab();
    for path in [&["ls"][..], &["run"], &["input"], &["helper", "ensure"], &["queue", "move"], &["help"]] {
        assert_eq!(lab.ok([&["help"], path].concat()), lab.ok([path, &["--help"]].concat()), "{path:?}");
    }
    for unknown in [&["help", "stpo"][..], &["help", "helper", "ensrue"]] {
        let said = lab.berth(unknown);
        assert!(said.code == 2 && said.err.contains("similar"), "{said:?}");
    }
    let advised = lab.berth(["help", "kill"]);
    assert!(advised.code == 2 && advised.err.contains("berth stop S"), "{advised:?}");
}

fn said_by(command: &mut std::process::Command) -> berth_harness::CommandOutput {
    said(command.stdin(Stdio::null()).output().expect("it can be started"))
}
