//! Processes that do everything not to be taken for what they are.

use std::process::Command;

use berth_harness::{Lab, wait_until};

use crate::{BERTH, agent, file, inside, lab};

/// Ways to run a command so that it carries less of where it comes from. `@` is the command.
const DISGUISES: [&str; 6] = [
    "env -i @",
    "setsid -w @",
    "env -i setsid -w @",
    // Every descriptor but the three, so that no lock is held.
    "bash -c 'for fd in /proc/self/fd/*; do n=${fd##*/}; [ $n -gt 2 ] && eval \"exec $n>&-\"; done; exec env -i @'",
    // Another session's mark.
    "env -i BERTH_SESSION=$OTHER BERTH_RUN=$OTHER:1 @",
    "env -i BERTH_SESSION= BERTH_RUN= BERTH_HOME=$HOMEDIR @",
];

/// Tries to stop the session `other` in each disguise, and once from a process that nobody is above any more.
fn try_all(lab: &Lab, other: &str) {
    let stop = format!("env BERTH_HOME={} {BERTH} stop other", lab.home().display());
    for disguise in DISGUISES {
        let home = lab.home().display().to_string();
        let command = disguise.replace('@', &stop).replace("$OTHER", other).replace("$HOMEDIR", &home);
        let heard = inside(lab, "outer", &command);
        assert_eq!(heard.code, 11, "{disguise}: {heard:?}");
    }
    // A double fork: whoever started it is gone before it begins.
    let told = file(lab, "told");
    let _ = std::fs::remove_file(&told);
    let late = format!(
        "while kill -0 $1 2>/dev/null; do sleep 0.01; done; {stop} >{0}.text 2>&1; echo $? >{0}.part; mv {0}.part {0}",
        told.display()
    );
    let script = file(lab, "late.sh");
    std::fs::write(&script, late).expect("a script");
    let fork = format!("sh -c 'env -i setsid sh {} $$ >/dev/null 2>&1 </dev/null &'", script.display());
    inside(lab, "outer", &fork).ok();
    wait_until("it to have tried", || told.exists());
    let text = std::fs::read_to_string(told.with_extension("text")).expect("what it was told");
    assert_eq!(std::fs::read_to_string(&told).expect("a code").trim(), "11", "{text}");
    assert_ne!(lab.show("other")["state"], "stopped");
}

#[test]
fn whoever_hides_where_they_come_from_is_inside_all_the_same() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    let other = agent(&lab, "other", &[]);
    try_all(&lab, &other);
}

/// Then it is descent, the lock and the mark that tell.
#[test]
fn without_control_groups_they_are_inside_as_well() {
    let lab = lab();
    let can = Command::new("unshare").args(["--mount", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: this needs root and unshare (util-linux)");
        return;
    }
    let script = "mount -t tmpfs none /sys/fs/cgroup; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args([
        "--mount", "sh", "-ec", script, "sh", BERTH, "run", "-d", "--agent", "fake", "--name", "outer",
    ]);
    let known = lab.command(["ls"]);
    command.envs(known.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env_remove("BERTH_SESSION").env_remove("BERTH_RUN");
    let made = command.output().expect("unshare");
    assert!(made.status.success(), "{made:?}");
    assert!(lab.show("outer")["boundary"]["cgroup"].is_null(), "{}", lab.show("outer"));
    let other = agent(&lab, "other", &[]);
    try_all(&lab, &other);
}

/// A group of its own below the run's is still the run's.
#[test]
fn a_control_group_below_the_runs_is_the_runs() {
    let lab = lab();
    let outer = agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    let group = lab.show(&outer)["boundary"]["cgroup"].as_str().map(str::to_owned);
    let Some(group) = group.filter(|_| rustix::process::geteuid().is_root()) else {
        eprintln!("SKIPPED: this needs root and control groups");
        return;
    };
    let below = format!("{group}/below");
    let command = format!(
        "mkdir {below} && echo $$ > {below}/cgroup.procs && env -i setsid -w env BERTH_HOME={} {BERTH} stop other",
        lab.home().display()
    );
    let heard = inside(&lab, "outer", &command);
    assert_eq!(heard.code, 11, "{heard:?}");
}

/// A variable that outlived its run, as one does that a session manager was told, ties nobody to anything.
#[test]
fn the_mark_of_a_run_that_is_over_counts_for_nothing() {
    let lab = lab();
    let over = lab.start_with(&["--name", "over"], &["hang"]);
    lab.start_with(&["--name", "other"], &["hang"]);
    let stop = |name: &str| {
        let mut command = lab.command(["stop", name]);
        command.env("BERTH_RUN", format!("{over}:1")).env("BERTH_SESSION", &over);
        command.output().expect("berth").status.code()
    };
    assert_eq!(stop("other"), Some(11), "it says itself that it is inside");
    lab.ok(["stop", "over"]);
    assert_eq!(stop("other"), Some(0));
}

/// In a pid namespace of their own they have numbers that mean others in `/proc`, or see nobody above them.
#[test]
fn who_has_process_numbers_of_their_own_is_not_taken_for_a_person() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    let mut tried = 0;
    // A user namespace as well only where it takes one: nobody outside can look at what begins one.
    let alone = if rustix::process::geteuid().is_root() { "unshare -pf" } else { "unshare -Urpf" };
    for how in ["", "env -i", "--mount-proc"] {
        let unshare = format!("{alone} {how}");
        let can =
            Command::new("sh").args(["-c", &format!("{} true", unshare.replace("env -i", ""))]).output();
        if !can.is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: `{unshare}` is not permitted here");
            continue;
        }
        tried += 1;
        let berth = format!("{unshare} env BERTH_HOME={} {BERTH}", lab.home().display());
        for order in
            ["token new --scope admin --name mine", "stop other", "sweep", "hosts add box --no-check"]
        {
            let heard = inside(&lab, "outer", &format!("{berth} {order}"));
            assert_eq!(heard.code, 11, "{unshare} {order}: {heard:?}");
        }
        // To look is free.
        let seen = inside(&lab, "outer", &format!("{berth} ls --json")).ok();
        assert!(seen.contains("other"), "{unshare}: {seen}");
    }
    assert_eq!(lab.json(["token", "ls", "--json"]).as_array().map(Vec::len), Some(0));
    assert_ne!(lab.show("other")["state"], "stopped");
    if tried == 0 {
        eprintln!("SKIPPED: this needs user namespaces");
    }
}
