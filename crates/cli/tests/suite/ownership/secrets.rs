//! E13: secrets on the command lines and in the environments of processes that are examined and ended.
//!
//! The session's own recorded command is the user's record and kept as it was given, so these secrets are not in it:
//! they come from the environment, and from there onto the command lines of the agent's children.

use berth_harness::{wait_gone, wait_until};
use berth_host::identity::ProcessIdentity;

use crate::ownership::{AgentLookalike, done, everything_kept, is_gone, lab, written_down};

const SECRETS: [&str; 2] = ["hunter2-in-an-option", "hunter2-in-a-variable"];

#[test]
fn e13_secrets_of_processes_that_recovery_ends_are_in_no_journal_status_or_report() {
    let lab = lab();
    let innocent = AgentLookalike::beside(&lab);
    let (pids, agent) = (lab.dir().join("pids"), lab.agent());
    let script = format!(
        "sh -c 'trap \"\" HUP TERM; echo $$ >> {0}; exec 3>&-; read x < /dev/zero' x --api-key \"$OPTION\" & \
         exec {agent} ignore:HUP,TERM pidfile:{0} say:ready hang",
        pids.display()
    );
    let mut run = lab.command(["run", "-d", "--", "sh", "-c", &script]);
    run.env("OPTION", SECRETS[0]).env("ANTHROPIC_API_KEY", SECRETS[1]);
    let id = done(run).out.trim().to_owned();
    lab.wait_output(&id, "ready");
    let tree = written_down(&pids, 2);
    let child = tree.iter().find(|process| shows(process, SECRETS[0])).expect("it has the secret").clone();
    let mut told = vec![lab.berth(["why", "--json", "--pid", &child.pid.to_string()])];
    assert!(told[0].out.contains("--api-key ***"), "{told:?}");
    lab.kill_keeper(&id);
    for args in [
        &["why", &id][..],
        &["why", "--pid", &child.pid.to_string()],
        &["sweep", "--dry-run"],
        &["sweep", "--dry-run", "--json"],
        &["sweep", "--json"],
        &["sweep"],
        &["log", &id],
        &["log", "--json", &id],
        &["show", "--json", &id],
        &["ls"],
    ] {
        told.push(lab.berth(args));
    }
    assert!(told[4].out.contains(&format!("pid {}", child.pid)), "it is named: {:?}", told[4]);
    assert!(tree.iter().all(is_gone));
    // A stranger's command line is shown, without its secrets.
    let mut stranger = std::process::Command::new("sh");
    stranger.args(["-c", "read x", "x", "--token", SECRETS[0]]).env("BERTH_RUN", "zzzzzzzzzzzz:1");
    stranger.env("PASSWORD", SECRETS[1]).stdin(std::process::Stdio::piped());
    let mut stranger = stranger.spawn().expect("a shell");
    let process = ProcessIdentity::of(stranger.id()).expect("it runs");
    wait_until("it to be a shell", || shows(&process, SECRETS[0]));
    let swept = lab.berth(["sweep"]);
    assert!(swept.out.contains(&format!("pid {} (sh -c 'read x' x --token ***", process.pid)), "{swept:?}");
    told.extend([swept, lab.berth(["sweep", "--json"])]);
    stranger.kill().expect("our own child");
    stranger.wait().expect("our own child");
    wait_gone(&process);

    for secret in SECRETS {
        for said in &told {
            assert!(!format!("{said:?}").contains(secret), "{said:?}");
        }
        for (path, bytes) in everything_kept(&lab.home()) {
            assert!(!String::from_utf8_lossy(&bytes).contains(secret), "{} has it", path.display());
        }
    }
    innocent.assert_untouched();
}

fn shows(process: &ProcessIdentity, text: &str) -> bool {
    let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
    String::from_utf8_lossy(&line).contains(text)
}

/// True if the ordinary user may read this file of a process in `/proc`.
fn can_read(pid: u32, file: &str) -> bool {
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat", &format!("/proc/{pid}/{file}")]);
    command.output().expect("setpriv is installed").status.success()
}

#[test]
fn an_ordinary_user_cannot_look_into_its_keeper_and_gateway_and_every_command_still_works() {
    let Some(ordinary) = crate::ownership::refused::OrdinaryUserFixture::new() else { return };
    let agent = ordinary.lab.agent();
    let ok = |args: &[&str]| {
        let said = ordinary.berth(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out
    };
    let id = ok(&["run", "-d", "--name", "s", "--", &agent, "say:ready", "hang"]).trim().to_owned();
    let shown: serde_json::Value = serde_json::from_str(&ok(&["show", "s", "--json"])).expect("JSON");
    let pid = |field: &str| u32::try_from(shown[field].as_u64().expect("a pid")).expect("a pid");
    let (keeper, first) = (pid("keeper_pid"), pid("pid"));
    let gateway = ordinary.lab.serve_as(ordinary.command(&["serve"]), 1);
    for process in [keeper, gateway.pid()] {
        assert!(!can_read(process, "environ") && !can_read(process, "mem"), "{process}");
        assert!(can_read(process, "stat") && can_read(process, "cmdline"), "{process}");
    }
    assert!(can_read(first, "environ"), "the agent is as open as without berth");
    // Commands that examine keepers, by everything that /proc still shows.
    let whose = ok(&["why", "--json", "--pid", &keeper.to_string()]);
    assert!(whose.contains(&id) && whose.contains("\"keeper\"") && !whose.contains("not seen"), "{whose}");
    let whose = ok(&["why", "--json", "--pid", &first.to_string()]);
    assert!(whose.contains(&id) && whose.contains("\"ours\""), "{whose}");
    let listed = ok(&["ps", "s", "--json"]);
    assert!([keeper, first].iter().all(|pid| listed.contains(&pid.to_string())), "{listed}");
    let helper = ["helper", "ensure", "web", "--owner", "s", "--", &agent, "say:up", "hang"];
    ok(&helper);
    assert!(ok(&["helper", "ls", "--json"]).contains(&id), "the session owns the helper");
    let swept = ok(&["sweep", "--json"]);
    assert!(swept.contains(&id), "{swept}");
    ok(&["stop", "s", "--grace", "0s"]);
    wait_until("the helper to end with its last owner", || {
        !ok(&["helper", "ls", "--json"]).contains("\"running\"")
    });
    // After a keeper died, the leftovers of its run are found and ended.
    let again = ok(&["run", "-d", "--", &agent, "ignore:HUP,TERM", "say:ready", "hang"]);
    let shown: serde_json::Value =
        serde_json::from_str(&ok(&["show", again.trim(), "--json"])).expect("JSON");
    let process = |field: &str| {
        ProcessIdentity::of(u32::try_from(shown[field].as_u64().expect("a pid")).expect("a pid"))
            .expect("it runs")
    };
    let (keeper, left) = (process("keeper_pid"), process("pid"));
    berth_harness::signal(&keeper, rustix::process::Signal::KILL);
    wait_gone(&keeper);
    ok(&["sweep"]);
    wait_gone(&left);
}
