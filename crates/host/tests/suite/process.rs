//! Facts about processes, compared with processes we know.

use berth_host::identity::ProcessIdentity;
use berth_host::process::all_processes;

use crate::common::{ScriptShell, alone};

#[test]
fn everything_about_a_child_is_as_it_was_started() {
    let mut shell = ScriptShell::run("cd /tmp; echo up; read x; :");
    assert_eq!(shell.line(), "up");
    let pid = shell.child.pid;
    let all = all_processes().unwrap();
    let found = all.iter().find(|process| process.pid == pid).expect("it is listed");
    assert_eq!(found.identity().unwrap(), ProcessIdentity::of(pid).unwrap());
    assert_eq!((found.ppid, found.comm.as_str(), found.is_kernel), (std::process::id(), "sh", false));
    assert!(found.age_ms() < 60_000, "{found:?}");
    assert!(found.cpu_ms() < 60_000, "{found:?}");
    assert_eq!(found.tty_name(), None);

    let opened = found.open().unwrap();
    assert_eq!(opened.argv().unwrap(), ["sh", "-c", "cd /tmp; echo up; read x; :"]);
    assert_eq!(opened.uid().unwrap(), rustix::process::geteuid().as_raw());
    assert_eq!(opened.cwd().unwrap(), std::path::Path::new("/tmp"));
    let (pss, rss) = (opened.pss_bytes().unwrap(), found.rss_bytes());
    assert!(0 < pss && pss <= rss && rss < 1 << 30, "pss {pss}, rss {rss}");

    shell.stdin = None;
    crate::common::await_exit(&shell.child.pidfd);
    assert!(opened.argv().unwrap().is_empty(), "a zombie has no words left");
    assert_eq!(shell.finish(), 0);
    assert!(opened.argv().is_err(), "what was opened does not turn into another process");
    assert!(found.open().is_err());
}

#[test]
fn a_process_with_the_pid_of_another_is_not_opened_for_it() {
    let me = std::process::id();
    let all = all_processes().unwrap();
    let mut other = all.into_iter().find(|process| process.pid == me).expect("I am listed");
    other.start_ticks += 1;
    assert_eq!(other.open().unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn the_census_lists_zombies_and_says_so() {
    let _turn = alone();
    let shell = ScriptShell::run("exit 3");
    crate::common::await_exit(&shell.child.pidfd);
    let all = all_processes().unwrap();
    assert!(all.iter().any(|process| process.pid == shell.child.pid && process.is_zombie()), "{all:?}");
    assert_eq!(shell.finish(), 3);
}
