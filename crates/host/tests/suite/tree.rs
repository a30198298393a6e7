//! Adopting, listing, signalling and reaping real descendants.

use berth_host::identity::{Pidfd, process_stat};
use berth_host::process_tree::{self, WaitStatus};

use crate::common::{ScriptShell, alone, await_exit, kill_orphans};

/// The number of a process that a shell prints.
fn pid_from(shell: &mut ScriptShell) -> u32 {
    shell.line().parse().unwrap()
}

#[test]
fn an_orphan_comes_to_the_subreaper_and_is_found_signalled_and_reaped() {
    let _turn = alone();
    let _orphans = kill_orphans();
    let me = std::process::id();
    // The middle process leaves `sleep` behind in a session of its own and exits.
    let mut shell = ScriptShell::run("setsid sh -c 'echo $$; exec sleep 1000' & exit 3");
    let orphan = pid_from(&mut shell);
    await_exit(&shell.child.pidfd);
    let reaped = process_tree::reap_children().unwrap();
    assert_eq!(reaped.exits, [(shell.child.pid, WaitStatus::Code(3))]);
    assert!(!reaped.no_children);
    shell.forget();

    assert_eq!(process_stat(orphan).unwrap().ppid, me);
    assert_eq!(process_tree::descendants(me).unwrap(), [orphan]);
    let pidfd = Pidfd::open(orphan).unwrap();
    let refused = process_tree::signal_descendants(me, |pid| {
        assert_eq!(pid, orphan);
        vec![libc::SIGTERM, libc::SIGCONT]
    });
    assert!(refused.unwrap().is_empty());
    await_exit(&pidfd);
    let reaped = process_tree::reap_children().unwrap();
    assert_eq!(reaped.exits, [(orphan, WaitStatus::Signal(libc::SIGTERM))]);
    assert!(reaped.no_children);
}

#[test]
fn a_deep_tree_is_listed_whole_and_without_strangers() {
    let _turn = alone();
    let stranger = ScriptShell::run("read x");
    let mut shell = ScriptShell::run("echo $$; sh -c 'echo $$; sh -c \"echo \\$\\$; read x\"; true'; true");
    let pids = [pid_from(&mut shell), pid_from(&mut shell), pid_from(&mut shell)];
    assert_eq!(process_tree::descendants(pids[0]).unwrap(), pids[1..]);
    let of_me = process_tree::descendants(std::process::id()).unwrap();
    assert!(pids.iter().chain([&stranger.child.pid]).all(|pid| of_me.contains(pid)), "{of_me:?}");

    let refused = process_tree::signal_descendants(pids[1], |_| vec![libc::SIGKILL]).unwrap();
    assert!(refused.is_empty());
    assert_eq!(shell.finish(), 0, "only the innermost one was killed");
    assert!(!stranger.child.pidfd.has_exited());
}

#[test]
fn a_process_that_refuses_a_signal_is_told() {
    let _turn = alone();
    let shell = ScriptShell::run("read x");
    let refused = process_tree::signal_descendants(std::process::id(), |_| vec![999, libc::SIGKILL]).unwrap();
    let told: Vec<_> = refused.iter().map(|(pid, error)| (*pid, error.raw_os_error())).collect();
    assert_eq!(told, [(shell.child.pid, Some(libc::EINVAL))]);
    assert_eq!(shell.finish(), 1, "it saw the end of its input, and no signal");
}

#[test]
fn a_zombie_is_no_descendant() {
    let _turn = alone();
    let shell = ScriptShell::run("exit 0");
    await_exit(&shell.child.pidfd);
    assert!(!process_tree::descendants(std::process::id()).unwrap().contains(&shell.child.pid));
}

#[test]
fn reaping_never_blocks() {
    let _turn = alone();
    let shell = ScriptShell::run("read x");
    let reaped = process_tree::reap_children().unwrap();
    assert!(reaped.exits.is_empty() && !reaped.no_children);
    shell.finish();
    assert!(process_tree::reap_children().unwrap().no_children);
}

#[test]
fn a_mark_is_found_in_processes_that_carry_exactly_it() {
    let value = format!("{}-{}", std::process::id(), berth_host::clock::boot_ms());
    let env = |key: &str, value: &str| [(key.into(), value.into())];
    let marked = ScriptShell::run_with("read x", &env("BERTH_TEST_MARK", &value), &[]);
    let longer = ScriptShell::run_with("read x", &env("BERTH_TEST_MARK", &format!("{value}0")), &[]);
    let other = ScriptShell::run_with("read x", &env("X_BERTH_TEST_MARK", &value), &[]);
    let found = process_tree::processes_with_variable("BERTH_TEST_MARK", &value).unwrap();
    let pids: Vec<u32> = found.processes.iter().map(|process| process.pid).collect();
    assert_eq!(pids, [marked.child.pid]);
    assert_eq!(found.processes[0].start_ticks, process_stat(marked.child.pid).unwrap().start_ticks);

    let any: Vec<_> = process_tree::processes_with_variable_named("BERTH_TEST_MARK").unwrap();
    let any: Vec<_> = any.iter().map(|(process, value)| (process.pid, value.as_str())).collect();
    let longer_value = format!("{value}0");
    for expected in [(marked.child.pid, value.as_str()), (longer.child.pid, longer_value.as_str())] {
        assert!(any.contains(&expected), "{any:?}");
    }
    assert!(any.iter().all(|(pid, _)| *pid != other.child.pid), "{any:?}");
}

#[test]
fn a_mark_behind_a_large_environment_is_found() {
    let value = format!("{}-{}", std::process::id(), berth_host::clock::boot_ms());
    let filler = (0..20).map(|index| (format!("FILLER_{index}").into(), "x".repeat(10_000).into()));
    let env: Vec<_> = filler.chain([("BERTH_TEST_LAST".into(), value.clone().into())]).collect();
    let marked = ScriptShell::run_with("read x", &env, &[]);
    // At once after the start, when the kernel may still be writing the environment down.
    let found = process_tree::processes_with_variable("BERTH_TEST_LAST", &value).unwrap().processes;
    assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [marked.child.pid]);
}

#[test]
fn a_process_that_mentions_a_text_is_found_by_its_words_and_its_variables() {
    let value = format!("{}-{}", std::process::id(), berth_host::clock::boot_ms());
    let variable = ScriptShell::run_with("read x", &[("BERTH_TEST_ANY".into(), value.clone().into())], &[]);
    let word = ScriptShell::run(&format!("exec sh -c 'echo ready; read x' --resume={value}"));
    let mut word = word;
    assert_eq!(word.line(), "ready");
    let _other =
        ScriptShell::run_with("read x", &[("BERTH_TEST_ANY".into(), format!("{value}0").into())], &[]);
    let found = process_tree::processes_mentioning(&[&value, "no process has this"]).unwrap().processes;
    let mut pids: Vec<u32> = found.iter().map(|process| process.pid).collect();
    pids.sort_unstable();
    let mut expected = [variable.child.pid, word.child.pid];
    expected.sort_unstable();
    assert_eq!(pids, expected);
}
