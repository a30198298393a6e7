//! E1 and E2: a process number that means another process now, because the kernel reused it or the host rebooted.

use std::process::Command;

use berth_harness::{TestEnvironment, signal, wait_gone, wait_until};
use berth_host::identity::ProcessIdentity;
use rustix::process::Signal;

use crate::ownership::namespace::{
    WITHOUT_GROUPS, another_boot, another_host, can_unshare, changed, inside_pid_namespace, next_pid_is,
};
use crate::ownership::{AgentLookalike, BERTH, done, endings, is_alive, is_gone, lab};

/// Ends a process and frees its number: process 1 inherits it, and collects it.
fn kill_and_free(process: &ProcessIdentity) {
    signal(process, Signal::KILL);
    wait_gone(process);
    wait_until("its number to be free", || ProcessIdentity::of(process.pid).is_err());
}

/// A bystander with this very number.
fn bystander_with(lab: &TestEnvironment, pid: u32, name: &str) -> AgentLookalike {
    next_pid_is(pid);
    let bystander = AgentLookalike::start(Command::new(lab.agent()), lab, name);
    assert_eq!(bystander.identity.pid, pid, "another process took the number");
    bystander
}

#[test]
fn e1_a_process_with_the_number_of_a_dead_agent_or_keeper_is_never_signalled() {
    let test = "ownership::reuse::e1_a_process_with_the_number_of_a_dead_agent_or_keeper_is_never_signalled";
    inside_pid_namespace(test, || {
        for first in ["show", "stop", "resume", "sweep", "ls", "wait", "why"] {
            let lab = lab();
            let id = lab.start(&["ignore:HUP", "say:ready", "hang"]);
            lab.wait_output(&id, "ready");
            let (keeper, agent) = (lab.process(&id, "keeper_pid"), lab.process(&id, "pid"));
            kill_and_free(&keeper);
            kill_and_free(&agent);
            let innocent = [(agent.pid, "as-agent"), (keeper.pid, "as-keeper")]
                .map(|(pid, name)| bystander_with(&lab, pid, name));
            // The first command is the one that clears up, and so each of them comes first once.
            for verb in [first, "show", "stop", "resume", "sweep", "stop", "sweep"] {
                let said = match verb {
                    "resume" => lab.berth(["resume", "-d", &id]),
                    "sweep" | "ls" => lab.berth([verb]),
                    _ => lab.berth([verb, &id]),
                };
                let expected = if verb == "wait" { 1 } else { 0 };
                assert_eq!(said.code, expected, "{first}, {verb}: {said:?}");
                innocent.iter().for_each(AgentLookalike::assert_untouched);
            }
            assert_eq!(endings(&lab, &id)[0], (1, "\"lost\"".to_owned()), "{first}");
        }
    });
}

/// A pid namespace that sees the `/proc` of another one: every number in it means another process there, and a number
/// with a matching start time can be read for a process that has nothing to do with it.
#[test]
fn e1_where_proc_shows_the_numbers_of_others_no_process_is_signalled() {
    let test = "ownership::reuse::e1_where_proc_shows_the_numbers_of_others_no_process_is_signalled";
    inside_pid_namespace(test, || {
        let lab = lab();
        let agent = lab.agent();
        let run = ["run", "-d", "--", &agent, "ignore:HUP,TERM", "say:ready", "hang"];
        let started = done(changed(&lab, WITHOUT_GROUPS, &run));
        assert_eq!(started.code, 0, "{started:?}");
        let id = started.out.trim();
        lab.wait_output(id, "ready");
        let process = lab.process(id, "pid");
        lab.kill_keeper(id);
        for verb in ["show", "stop", "sweep", "resume"] {
            let (heard, ready) =
                (lab.dir().join(format!("{verb}.heard")), lab.dir().join(format!("{verb}.ready")));
            let args = match verb {
                "sweep" => "sweep".to_owned(),
                "resume" => format!("resume -d {id}"),
                _ => format!("{verb} {id}"),
            };
            // In that namespace the agent's number is that of an innocent process.
            let script = format!(
                "echo {last} > /proc/sys/kernel/ns_last_pid; {agent} witness:{heard} touch:{ready} hang & \
                 [ $! = {pid} ] || exit 99; while ! [ -e {ready} ]; do :; done; {BERTH} {args}; code=$?; \
                 kill -KILL {pid} || exit 98; exit $code",
                last = process.pid - 1,
                pid = process.pid,
                heard = heard.display(),
                ready = ready.display(),
            );
            let mut command = Command::new("unshare");
            command.args(["--pid", "--fork", "--kill-child", "sh", "-c", &script]);
            command.env("BERTH_HOME", lab.home()).stdin(std::process::Stdio::null());
            let said = done(command);
            // Exit code 11: a caller that cannot be examined may not give orders.
            assert!([1, 4, 11, 70].contains(&said.code), "{verb}: {said:?}");
            let heard = std::fs::read_to_string(heard).expect("its file");
            assert_eq!(heard, "", "{verb} signalled an innocent process: {said:?}");
            assert!(is_alive(&process), "{verb} ended what it cannot see: {said:?}");
            assert!(endings(&lab, id).is_empty(), "{verb} recorded an end that is none: {said:?}");
        }
        assert_eq!(lab.show(id)["state"], "lost");
        assert!(is_gone(&process));
    });
}

/// A lost session whose agent lives on and writes down the signals it hears.
fn lost_with_a_living_agent(
    lab: &TestEnvironment,
    closing: &[&str],
) -> (String, ProcessIdentity, std::path::PathBuf) {
    let (heard, ready) = (lab.dir().join("agent.heard"), lab.dir().join("agent.ready"));
    let (witness, touch) = (format!("witness:{}", heard.display()), format!("touch:{}", ready.display()));
    let mut script = closing.to_vec();
    script.extend([witness.as_str(), &touch, "hang"]);
    let id = lab.start(&script);
    wait_until("the agent to listen", || ready.exists());
    let agent = lab.process(&id, "pid");
    lab.kill_keeper(&id);
    // Signals that the end of its terminal brings (HUP and CONT) are not ours.
    wait_until("its terminal to hang up", || {
        let heard = std::fs::read_to_string(&heard).expect("its file");
        ["    1\n", "   18\n"].iter().all(|signal| heard.contains(signal))
    });
    std::fs::write(&heard, "").expect("its file");
    (id, agent, heard)
}

#[test]
fn e2_after_a_reboot_no_old_number_is_trusted_and_the_session_is_resumed() {
    if !can_unshare() {
        return;
    }
    let lab = lab();
    let innocent = AgentLookalike::beside(&lab);
    // A real reboot would have ended the process. It holds nothing any more, and is the last to claim so.
    let (id, agent, heard) = lost_with_a_living_agent(&lab, &["close-all"]);
    // No group survives a reboot either.
    let rebooted = format!("{}\n{WITHOUT_GROUPS}", another_boot(&lab));
    let berth = |args: &[&str]| {
        let said = done(changed(&lab, &rebooted, args));
        assert!(is_alive(&agent), "{args:?} ended a process by a number from before the reboot");
        assert_eq!(std::fs::read_to_string(&heard).expect("its file"), "", "{args:?} signalled it");
        innocent.assert_untouched();
        said
    };
    let why = berth(&["why", &id]);
    assert!(why.out.contains("is lost") && why.out.contains("is gone"), "{why:?}");
    let shown = berth(&["show", &id, "--json"]);
    assert!(shown.code == 0 && shown.out.contains("\"state\": \"lost\""), "{shown:?}");
    assert_eq!(berth(&["sweep"]).code, 0);
    assert_eq!(berth(&["stop", &id]).code, 0);
    let resumed = berth(&["resume", "-d", "--json", &id]);
    assert!(resumed.code == 0 && resumed.out.contains("\"epoch\": 2"), "{resumed:?}");
    assert_eq!(berth(&["sweep"]).code, 0);
    let stopped = berth(&["stop", "--grace", "0s", &id]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert_eq!(endings(&lab, &id)[0], (1, "\"lost\"".to_owned()));
    signal(&agent, Signal::KILL);
    wait_gone(&agent);
    // Removes the group that a reboot would have taken away.
    lab.ok(["sweep"]);
}

#[test]
fn e2_a_boot_id_that_changed_while_the_runs_lock_is_held_ends_and_starts_nothing() {
    if !can_unshare() {
        return;
    }
    let lab = lab();
    let innocent = AgentLookalike::beside(&lab);
    let (id, agent, heard) = lost_with_a_living_agent(&lab, &[]);
    let rebooted = another_boot(&lab);
    for (args, code) in
        [(&["show", &id][..], 1), (&["resume", "-d", &id], 4), (&["stop", &id], 1), (&["sweep"], 1)]
    {
        let said = done(changed(&lab, &rebooted, args));
        assert_eq!(said.code, code, "{args:?}: {said:?}");
        assert!(format!("{said:?}").contains("lock"), "{args:?} says what is in the way: {said:?}");
        assert!(is_alive(&agent), "{args:?}");
        assert_eq!(std::fs::read_to_string(&heard).expect("its file"), "", "{args:?} signalled it");
    }
    assert!(endings(&lab, &id).is_empty(), "no end was recorded");
    // With the right boot id the agent is known again, and ended.
    assert_eq!(lab.show(&id)["state"], "lost");
    assert!(is_gone(&agent));
    innocent.assert_untouched();
}

#[test]
fn a_run_of_another_host_is_over_only_when_a_person_says_that_the_host_is_down() {
    if !can_unshare() {
        return;
    }
    if !std::path::Path::new("/etc/machine-id").exists() {
        return eprintln!("SKIPPED: this host has no machine id");
    }
    let lab = lab();
    // The process runs on "that host": nothing here holds a lock of it.
    let (id, agent, heard) = lost_with_a_living_agent(&lab, &["close-all"]);
    let (host, _) = agent.boot.split_once('/').expect("host and boot");
    let copy = lab.dir().join("copy");
    let copied = Command::new("cp").arg("-a").arg(lab.home()).arg(&copy).status().expect("cp starts");
    assert!(copied.success());
    let elsewhere = format!("{}\n{WITHOUT_GROUPS}", another_host(&lab));
    let in_home = |home: &std::path::Path, args: &[&str], down: &str| {
        let mut command = changed(&lab, &elsewhere, args);
        command.env("BERTH_HOME", home).env("BERTH_HOST_IS_DOWN", down);
        let said = done(command);
        assert!(is_alive(&agent), "{args:?} ended a process by a number of another host");
        assert_eq!(std::fs::read_to_string(&heard).expect("its file"), "", "{args:?} signalled it");
        said
    };
    // A disk that was moved, and a copy.
    for home in [&lab.home(), &copy] {
        for args in [&["show", &id][..], &["resume", "-d", &id], &["stop", &id], &["sweep"]] {
            let said = in_home(home, args, "another one");
            assert_ne!(said.code, 0, "{args:?}: {said:?}");
            let words = format!("another host ({host})");
            assert!(format!("{said:?}").contains(&words), "{args:?} says what is in the way: {said:?}");
        }
        let why = in_home(home, &["why", &id], "");
        assert!(why.out.contains("is lost") && why.out.contains("another host"), "{why:?}");
        let shown = in_home(home, &["show", &id], "");
        assert!(shown.out.contains("not proven: ") && !shown.out.contains("died"), "{shown:?}");
    }
    assert!(endings(&lab, &id).is_empty(), "no end was recorded");
    for home in [&lab.home(), &copy] {
        let resumed = in_home(home, &["resume", "-d", "--json", &id], host);
        assert!(resumed.code == 0 && resumed.out.contains("\"epoch\": 2"), "{resumed:?}");
        let stopped = in_home(home, &["stop", "--grace", "0s", &id], host);
        assert_eq!(stopped.code, 0, "{stopped:?}");
    }
    assert_eq!(endings(&lab, &id)[0], (1, "\"lost\"".to_owned()));
    signal(&agent, Signal::KILL);
    wait_gone(&agent);
    // The group of the first run, which on another host would not be here.
    lab.ok(["sweep"]);
}
