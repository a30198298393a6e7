//! Owners of a helper, and how their coming and going affects it.

use std::net::TcpStream;

use berth_harness::{wait_gone, wait_until};

use crate::helpers::{
    HelperLookalike, dir, ensure, ensured, events, is_alive, lab, owner, owners, process, shown, text,
};

/// An address at which a helper listens, with the script that makes it.
fn listener() -> (u16, String) {
    // The kernel does not give the port of this closed listener to another process for a while.
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = free.local_addr().expect("an address").port();
    (port, format!("listen-tcp:{port}"))
}

#[test]
fn d1_a_helper_in_a_worktree_ends_with_the_session_in_the_repository() {
    let lab = lab();
    let (repository, worktree) = (dir(&lab, "repository"), dir(&lab, "worktree"));
    let cwd = repository.to_str().expect("text");
    let session = lab.start_with(&["--cwd", cwd], &["expect:end", "exit:0"]);
    let helper = ensured(&lab, &worktree, "broker", &session, &[], &["hang"]);
    let running = process(&helper, "pid");
    let _bystander = HelperLookalike::new(&lab, &worktree, &["hang"]);
    lab.ok(["input", &session, "--enter", "end"]);
    wait_gone(&running);
    assert_eq!(lab.berth(["wait", &session]).code, 0);
    let id = text(&helper, "id");
    wait_until("its record to say so", || shown(&lab, &id)["state"] == "stopped");
    let left = events(&lab, &id, "owner_left");
    assert_eq!((left.len(), &left[0]["why"]), (1, &"gone".into()), "{left:?}");
}

#[test]
fn d1_a_helper_that_a_session_owns_elsewhere_can_be_released_from_anywhere() {
    let lab = lab();
    let (repository, worktree) = (dir(&lab, "repository"), dir(&lab, "worktree"));
    let (mine, theirs) = (owner(&lab), owner(&lab));
    let helper = ensured(&lab, &worktree, "broker", &mine, &[], &["hang"]);
    // A helper of the same name in our own directory, which is not ours.
    let other = ensured(&lab, &repository, "broker", &theirs, &[], &["hang"]);
    let running = process(&helper, "pid");
    let said =
        lab.command(["helper", "release", "broker", "--owner", &mine]).current_dir(&repository).output();
    assert!(said.is_ok_and(|said| said.status.success()));
    wait_gone(&running);
    assert!(is_alive(&process(&other, "pid")), "it was not theirs to release");
}

#[test]
fn d2_helpers_in_many_directories_all_end_with_their_owner() {
    let lab = lab();
    let session = owner(&lab);
    let other = owner(&lab);
    let mut gone = Vec::new();
    let mut stay = Vec::new();
    for place in ["tree-1", "tree-2", "tree-3", "tree-4", "tree-5", "no-tree"] {
        let place = dir(&lab, place);
        gone.push(process(&ensured(&lab, &place, "broker", &session, &[], &["hang"]), "pid"));
        stay.push(process(&ensured(&lab, &place, "other", &other, &[], &["hang"]), "pid"));
    }
    lab.ok(["stop", &session]);
    gone.iter().for_each(wait_gone);
    assert!(stay.iter().all(is_alive), "those of another session are not touched");
}

#[test]
fn d3_a_helper_outlives_the_first_owner_and_the_other_can_still_use_it() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (one, two) = (owner(&lab), owner(&lab));
    let (port, listen) = listener();
    let ready = format!("tcp:{port}");
    let script = [listen.as_str(), "hang"];
    let helper = ensured(&lab, &place, "web", &one, &["--ready", &ready], &script);
    let again = ensured(&lab, &place, "web", &two, &["--ready", &ready], &script);
    assert_eq!(helper["pid"], again["pid"], "one helper for both");
    assert_eq!(owners(&again), [one.clone(), two.clone()]);
    lab.ok(["stop", &one]);
    let id = text(&helper, "id");
    wait_until("the first owner to be out", || owners(&shown(&lab, &id)) == [two.as_str()]);
    TcpStream::connect(("127.0.0.1", port)).expect("the other one's call succeeds");
    assert_eq!(ensure(&lab, &place, "web", &two, &[], &script).out, format!("tcp:127.0.0.1:{port}\n"));
    let running = process(&helper, "pid");
    lab.ok(["helper", "release", &id, "--owner", &two]);
    wait_gone(&running);
}

/// The helper's keeper is below the first session's in the process tree, and not a part of that session.
#[test]
fn d3_a_helper_that_was_started_inside_a_session_outlives_it_while_another_one_owns_it() {
    for how in ["stop", "kill -9"] {
        let lab = lab();
        let place = dir(&lab, "place");
        let (berth, agent) = (env!("CARGO_BIN_EXE_berth"), lab.agent());
        let script = format!("{berth} helper ensure web -- {agent} hang && echo up; exec {agent} hang");
        let cwd = place.to_str().expect("text");
        let inside = lab.ok(["run", "-d", "--cwd", cwd, "--", "sh", "-c", &script]);
        lab.wait_output(&inside, "up");
        let other = owner(&lab);
        let helper = ensured(&lab, &place, "web", &other, &[], &["hang"]);
        match how {
            "stop" => drop(lab.ok(["stop", &inside])),
            _ => lab.kill_keeper(&inside),
        }
        let id = text(&helper, "id");
        wait_until("the first owner to be out", || owners(&shown(&lab, &id)) == [other.as_str()]);
        // A process that clears up after the dead session does not take the helper for a part of it.
        assert_ne!(lab.show(&inside)["state"], "running", "{how}");
        assert!(is_alive(&process(&helper, "pid")) && is_alive(&process(&helper, "keeper_pid")), "{how}");
        assert_eq!(shown(&lab, &id)["state"], "running", "{how}");
        let running = process(&helper, "pid");
        lab.ok(["stop", &other]);
        wait_gone(&running);
    }
}

#[test]
fn d6_releasing_twice_is_releasing_once_and_affects_no_other_owner() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (one, two) = (owner(&lab), owner(&lab));
    let helper = ensured(&lab, &place, "broker", &one, &[], &["hang"]);
    ensured(&lab, &place, "broker", &two, &[], &["hang"]);
    let unrelated = ensured(&lab, &place, "unrelated", &two, &[], &["hang"]);
    let _bystander = HelperLookalike::new(&lab, &place, &["hang"]);
    let id = text(&helper, "id");
    for _ in 0..3 {
        lab.ok(["helper", "release", &id, "--owner", &one]);
    }
    assert_eq!(owners(&shown(&lab, &id)), [two.as_str()]);
    assert!(is_alive(&process(&helper, "pid")));
    let running = process(&helper, "pid");
    lab.ok(["helper", "release", &id, "--owner", &two]);
    wait_gone(&running);
    // The helper is long over, and releasing it is still not an error.
    wait_until("its record to say so", || shown(&lab, &id)["state"] == "stopped");
    lab.ok(["helper", "release", &id, "--owner", &one]);
    lab.ok(["stop", &one]);
    lab.ok(["stop", &one]);
    assert_eq!(events(&lab, &id, "owner_left").len(), 2, "each of them left once");
    assert_eq!(events(&lab, &id, "stop_requested").len(), 1);
    assert!(is_alive(&process(&unrelated, "pid")));
}

/// An end hook that runs twice releases the helper by name, in its own directory.
#[test]
fn d6_leaving_twice_by_name_leaves_the_helper_of_another_directory_alone() {
    let lab = lab();
    let (here, there) = (dir(&lab, "here"), dir(&lab, "there"));
    let session = owner(&lab);
    let left = ensured(&lab, &here, "broker", &session, &[], &["hang"]);
    let kept = ensured(&lab, &there, "broker", &session, &[], &["hang"]);
    let running = [process(&left, "pid"), process(&kept, "pid")];
    let release = |from: &std::path::Path| {
        let mut command = lab.command(["helper", "release", "broker", "--owner", &session]);
        let said = berth_harness::said(command.current_dir(from).output().expect("berth can be started"));
        assert_eq!(said.code, 0, "{said:?}");
    };
    release(&here);
    wait_gone(&running[0]);
    (0..3).for_each(|_| release(&here));
    assert!(is_alive(&running[1]), "it left the other one");
    assert_eq!(owners(&shown(&lab, &text(&kept, "id"))), [session.as_str()]);
    // From a third directory, the name can mean only one helper.
    release(&dir(&lab, "elsewhere"));
    wait_gone(&running[1]);
}

#[test]
fn d7_a_session_that_never_used_a_helper_cannot_hurt_it() {
    let lab = lab();
    let place = dir(&lab, "place");
    let cwd = place.to_str().expect("text");
    let user = owner(&lab);
    let stranger = lab.start_with(&["--cwd", cwd], &["expect:end", "exit:0"]);
    let killed = lab.start_with(&["--cwd", cwd], &["hang"]);
    let helper = ensured(&lab, &place, "broker", &user, &[], &["hang"]);
    let refused = lab.berth(["helper", "release", text(&helper, "id").as_str(), "--owner", &stranger]);
    assert_eq!(refused.code, 1, "{refused:?}");
    lab.ok(["input", &stranger, "--enter", "end"]);
    assert_eq!(lab.berth(["wait", &stranger]).code, 0);
    lab.kill_keeper(&killed);
    assert_eq!(lab.show(&killed)["state"], "lost");
    let now = shown(&lab, &text(&helper, "id"));
    assert_eq!((text(&now, "state"), owners(&now)), ("running".into(), vec![user]));
    assert!(is_alive(&process(&helper, "pid")));
}

#[test]
fn e4_a_job_declared_as_a_helper_survives_the_command_that_started_it_and_dies_with_its_session() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (berth, agent) = (env!("CARGO_BIN_EXE_berth"), lab.agent());
    // The owner is not named: inside a session that session is the owner.
    let script = format!(
        "sh -c '{berth} helper ensure job --keep -- {agent} report hang' && echo command over; exec {agent} hang"
    );
    let cwd = place.to_str().expect("text");
    let session = lab.ok(["run", "-d", "--cwd", cwd, "--", "sh", "-c", &script]);
    lab.wait_output(&session, "command over");
    let helper = shown(&lab, "job");
    assert_eq!(owners(&helper), [session.as_str()]);
    assert_eq!(helper["helper"]["keep"], true);
    assert!(is_alive(&process(&helper, "pid")));
    let id = text(&helper, "id");
    let output = || lab.ok(["helper", "output", &id]);
    wait_until("its report", || output().contains('}'));
    let report: serde_json::Value = serde_json::from_str(output().trim()).expect("a report");
    assert_eq!(report["env"]["BERTH_HELPER"], id.as_str());
    assert_eq!(report["env"]["BERTH_SESSION"], serde_json::Value::Null, "it is not of the session");
    assert_eq!(report["env"]["BERTH_HOME"], lab.home().to_str().expect("text"));
    let _bystander = HelperLookalike::new(&lab, &place, &["report", "hang"]);
    let running = process(&helper, "pid");
    lab.ok(["stop", &session]);
    wait_gone(&running);
}

#[test]
fn helpers_are_not_sessions() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let id = text(&ensured(&lab, &place, "broker", &session, &[], &["hang"]), "id");
    let listed = lab.json(["ls", "--all", "--json"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    for named in ["broker", id.as_str()] {
        assert_eq!(lab.berth(["show", named]).code, 3);
        assert_eq!(lab.berth(["stop", named]).code, 3);
    }
    let listed = lab.json(["helper", "ls", "--json"]);
    assert_eq!((listed.as_array().map(Vec::len), text(&listed[0], "id")), (Some(1), id.clone()));
    let table = lab.ok(["helper", "ls"]);
    let owner = text(&lab.show(&session), "name");
    assert!(table.starts_with("NAME") && table.contains("broker") && table.contains(&owner), "{table}");
    lab.ok(["helper", "stop", &id]);
    assert_eq!(lab.json(["helper", "ls", "--json"]), serde_json::json!([]));
    assert_eq!(lab.json(["helper", "ls", "--all", "--json"]).as_array().map(Vec::len), Some(1));
}

#[test]
fn a_running_helper_is_not_replaced_and_one_that_is_over_may_get_another_command() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let helper = ensured(&lab, &place, "web", &session, &["--idle", "1m"], &["hang"]);
    for (options, script, why) in [
        (&[][..], &["say:x", "hang"][..], "another command"),
        (&[], &["say:x", "hang"], "fake-agent hang"),
        (&["--idle", "2m"], &["hang"], "--idle 60000ms"),
        (&["--ready", "tcp:80"], &["hang"], "without --ready"),
    ] {
        let said = ensure(&lab, &place, "web", &session, options, script);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
        assert!(said.err.contains(why) && said.err.contains("helper stop web"), "{said:?}");
    }
    assert!(is_alive(&process(&helper, "pid")));
    let id = text(&helper, "id");
    lab.ok(["helper", "stop", &id]);
    let next = ensured(&lab, &place, "web", &session, &[], &["say:x", "hang"]);
    assert_eq!((text(&next, "id"), next["epoch"].as_u64()), (id.clone(), Some(2)));
    assert_eq!(next["command"][1], "say:x");
    assert_eq!(events(&lab, &id, "command_changed").len(), 1);
}

#[test]
fn a_helper_of_the_account_is_the_same_everywhere() {
    let lab = lab();
    let (here, there) = (dir(&lab, "here"), dir(&lab, "there"));
    let (one, two) = (owner(&lab), owner(&lab));
    let user = ["--scope", "user"];
    let helper = ensured(&lab, &here, "broker", &one, &user, &["hang"]);
    assert_eq!(helper["pid"], ensured(&lab, &there, "broker", &two, &user, &["hang"])["pid"]);
    let of_dir = ensured(&lab, &there, "broker", &two, &[], &["hang"]);
    assert_ne!(helper["id"], of_dir["id"], "that of a directory is another one");
    let ambiguous = lab.berth(["helper", "show", "broker"]);
    assert_eq!(ambiguous.code, 0, "that of the account is known everywhere: {ambiguous:?}");
    assert!(ambiguous.out.contains(text(&helper, "id").as_str()), "{ambiguous:?}");
}
