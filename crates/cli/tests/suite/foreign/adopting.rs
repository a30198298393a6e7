//! `berth adopt`: at most one writer at every instant, with foreign writers and if any process dies (B11, B14).

use std::os::unix::process::CommandExt;
use std::process::Command;

use berth_harness::{said, wait_until};
use berth_host::identity::{ProcessIdentity, ProcessLiveness};
use rustix::process::Signal;

use crate::common::is_alive;
use crate::foreign::{ForeignFixture, id};

#[test]
fn b11_a_foreign_writer_is_named_and_no_session_is_made() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "mend the login page", 1);
    let mut open = world.open(&id('a'));
    let said = world.berth(&["adopt", "aaaa", "--tui", "--detach"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains(&format!("is being written by claude, pid {}", open.pid())), "{said:?}");
    assert!(said.err.contains("--take") && said.err.contains("--wait"), "{said:?}");
    assert!(world.sessions().is_empty() && !open.is_gone());
}

#[test]
fn b14_a_taken_conversation_is_free_before_it_is_written_here() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "mend the login page", 1);
    let mut open = world.open(&id('a'));
    let session = world.ok(&["adopt", "aaaa", "--tui", "--detach", "--take", "--name", "login"]);
    assert!(open.is_gone(), "it was not ended");
    let audit = world.ok(&["audit"]);
    assert!(audit.contains("took conversation") && audit.contains("for `login`"), "{audit}");
    let show = world.json(&["show", "login", "--json"]);
    assert_eq!(
        (&show["id"], &show["state"], &show["conversation_id"]),
        (&session.into(), &"running".into(), &id('a').into())
    );
    world.ok(&["stop", "login"]);
    // Once more: it is a session now, and goes on there.
    let again = world.berth(&["adopt", "aaaa", "--detach"]);
    assert!(again.code == 0 && again.err.contains("goes on in session login"), "{again:?}");
    assert_eq!(world.sessions().len(), 1);
    let renamed = world.berth(&["adopt", "aaaa", "--detach", "--name", "other"]);
    assert!(renamed.code == 1 && renamed.err.contains("already belongs to session `login`"), "{renamed:?}");
}

#[test]
fn b14_take_ends_the_named_processes_and_none_that_came_since() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "mend the login page", 1);
    let (mut first, mut second) = (world.open(&id('a')), world.open(&id('a')));
    let take = |pids: &str| {
        world.berth(&["adopt", "aaaa", "--tui", "--detach", "--name", "login", &format!("--take={pids}")])
    };
    let refused = take(&first.pid().to_string());
    assert!(refused.code == 4 && refused.err.contains(&format!("pid {}", second.pid())), "{refused:?}");
    assert!(!first.is_gone() && !second.is_gone() && world.sessions().is_empty(), "{refused:?}");
    // The check is repeated with the conversation's lock held, and there, as before, only named processes are ended.
    world.ok(&["adopt", "aaaa", "--tui", "--detach", "--name", "login", "--take"]);
    assert!(first.is_gone() && second.is_gone());
    world.ok(&["stop", "login"]);
    let (mut first, mut second) = (world.open(&id('a')), world.open(&id('a')));
    let take = |pids: &str| world.berth(&["adopt", "aaaa", "--detach", &format!("--take={pids}")]);
    let refused = take(&second.pid().to_string());
    assert!(refused.code == 4 && refused.err.contains(&format!("pid {}", first.pid())), "{refused:?}");
    assert!(!first.is_gone() && !second.is_gone(), "{refused:?}");
    let done = take(&format!("{},{}", first.pid(), second.pid()));
    assert!(done.code == 0 && first.is_gone() && second.is_gone(), "{done:?}");
}

#[test]
fn b14_adopt_with_wait_goes_on_when_the_conversation_is_closed_and_not_before() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "mend the login page", 1);
    let open = world.open(&id('a'));
    let late = world.berth(&["adopt", "aaaa", "--tui", "--detach", "--wait", "--timeout", "200ms"]);
    assert!(late.code == 6 && late.err.contains("waiting for claude, pid "), "{late:?}");
    let mut waiting = world.spawn(&["adopt", "aaaa", "--tui", "--detach", "--wait"]);
    let pid = waiting.id();
    // The command sleeps in the kernel until the other process ends.
    wait_until("it to wait", || {
        std::fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|place| place.contains("poll"))
    });
    assert!(waiting.try_wait().expect("our own child").is_none());
    assert!(world.sessions().is_empty());
    drop(open);
    let done = said(waiting.wait_with_output().expect("our own child"));
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(world.json(&["show", done.out.trim(), "--json"])["state"], "running");
}

#[test]
fn b14_a_command_that_dies_on_the_way_leaves_a_conversation_that_can_be_adopted() {
    for point in ["claimed", "starting", "started"] {
        let world = ForeignFixture::new();
        world.claude(&id('a'), "mend the login page", 1);
        let mut open = world.open(&id('a'));
        let mut command = world.command(&["adopt", "aaaa", "--tui", "--detach", "--take"]);
        let died = said(command.env("BERTH_KILLPOINT", point).output().expect("berth"));
        assert_ne!(died.code, 0, "{point}: {died:?}");
        let again = world.berth(&["adopt", "aaaa", "--tui", "--detach", "--take"]);
        assert_eq!(again.code, 0, "{point}: {again:?}");
        assert!(open.is_gone(), "{point}: two writers");
        assert_eq!(world.sessions(), [again.out.trim()], "{point}");
    }
}

/// Starts a process that carries the marks Claude Code gives to its children, in a session of its own. A leader of a
/// group cannot begin a session, so setsid makes another process and ends: an orphan, as a killed agent leaves it.
fn leave(world: &ForeignFixture, agent: u32, command: &[&str]) {
    let mut child = Command::new("setsid");
    child.args(command).envs(world.env()).process_group(0);
    child.env("CLAUDE_CODE_SESSION_ID", id('a')).env("CLAUDE_PID", agent.to_string());
    assert!(child.status().expect("setsid can be started").success());
}

/// A process that was left in a world. Ended with the test, however that ends.
struct LeftoverGuard<'a>(&'a ForeignFixture);

impl LeftoverGuard<'_> {
    /// All that carry the mark.
    fn all(&self) -> Vec<ProcessIdentity> {
        let home = self.0.lab.dir().display().to_string();
        let mut found =
            berth_host::process_tree::processes_with_variable("HOME", &home).expect("/proc").processes;
        found.retain(|one| {
            matches!(berth_host::process_tree::process_variables(one.pid, ["CLAUDE_PID"]), Ok([Some(_)]))
        });
        found
    }

    /// Processes of this name that lead a session: they have begun their program.
    fn leaders(&self, name: &str) -> Vec<ProcessIdentity> {
        let mut found = self.all();
        found.retain(|one| {
            let stat = berth_host::identity::process_stat(one.pid);
            stat.is_ok_and(|stat| stat.comm == name && stat.session == one.pid)
        });
        found
    }
}

impl Drop for LeftoverGuard<'_> {
    fn drop(&mut self) {
        for one in self.all() {
            if let ProcessLiveness::Alive(pidfd) = one.check() {
                let _ = pidfd.signal(Signal::KILL.as_raw());
            }
        }
    }
}

#[test]
fn a_tool_that_a_killed_agent_left_is_ended_first_and_a_daemon_is_not() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "mend the login page", 1);
    let mut dead = Command::new("true").spawn().expect("true can be started");
    let dead_pid = dead.id();
    dead.wait().expect("our own child");
    let wrapped = ": .claude/shell-snapshots/snapshot-bash-1.sh; sleep 1000; true";
    leave(&world, dead_pid, &["bash", "-c", wrapped]);
    leave(&world, dead_pid, &["sleep", "1001"]);
    // Its agent lives, so it is not an orphan.
    leave(&world, std::process::id(), &["bash", "-c", wrapped]);
    let left = LeftoverGuard(&world);
    wait_until("them to run", || left.leaders("bash").len() == 2 && left.leaders("sleep").len() == 1);
    let shells = left.leaders("bash");
    let daemon = left.leaders("sleep").remove(0);
    let session = world.ok(&["adopt", "aaaa", "--tui", "--detach"]);
    let alive: Vec<&ProcessIdentity> = shells.iter().filter(|one| is_alive(one)).collect();
    assert_eq!(alive.len(), 1, "one of the two had a dead agent");
    let [agent] = berth_host::process_tree::process_variables(alive[0].pid, ["CLAUDE_PID"]).expect("our own");
    assert_eq!(agent, Some(std::process::id().to_string()));
    assert!(is_alive(&daemon), "a process that may be meant to stay was ended");
    let log = world.ok(&["log", &session]);
    let ended = log.find("ended processes that a killed agent left running").expect(&log);
    assert!(ended < log.find("run 1 starting").expect(&log), "{log}");
    assert!(log.contains("left alone, because it may be meant to stay: pid "), "{log}");
    world.ok(&["stop", &session]);
    world.ok(&["adopt", "aaaa", "--detach", "--take"]);
    assert!(is_alive(&daemon), "--take is about processes that have the conversation open, and no other");
}
