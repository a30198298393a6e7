//! Processes that do everything to hide that they belong to a session.

use std::process::Command;

use berth_harness::{TestEnvironment, wait_until};

use crate::grants::{BERTH, agent, file, inside, lab};

/// Ways to run a command so that it carries fewer marks of its origin. `@` is the command.
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

/// Tries to stop the session `other` in each disguise, and once from a process that has lost all its ancestors.
fn try_all(lab: &TestEnvironment, other: &str) {
    let stop = format!("env BERTH_HOME={} {BERTH} stop other", lab.home().display());
    for disguise in DISGUISES {
        let home = lab.home().display().to_string();
        let command = disguise.replace('@', &stop).replace("$OTHER", other).replace("$HOMEDIR", &home);
        let heard = inside(lab, "outer", &command);
        assert_eq!(heard.code, 11, "{disguise}: {heard:?}");
    }
    // A double fork: the process that started it is gone before it begins.
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
    let text = std::fs::read_to_string(told.with_extension("text")).expect("the answer it got");
    assert_eq!(std::fs::read_to_string(&told).expect("a code").trim(), "11", "{text}");
    assert_ne!(lab.show("other")["state"], "stopped");
}

#[test]
fn a_process_that_hides_where_it_comes_from_counts_as_inside() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    let other = agent(&lab, "other", &[]);
    try_all(&lab, &other);
}

/// Starts the session `outer` with the agent where there are no control groups; `false` if that cannot be done here.
fn outer_without_groups(lab: &TestEnvironment) -> bool {
    let can = Command::new("unshare").args(["--mount", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: this needs root and unshare (util-linux)");
        return false;
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
    true
}

/// Without control groups, descent, lock and mark are the evidence.
#[test]
fn processes_count_as_inside_without_control_groups() {
    let lab = lab();
    if outer_without_groups(&lab) {
        let other = agent(&lab, "other", &[]);
        try_all(&lab, &other);
    }
}

/// Ways to damage the evidence that ties a run to its session, and to undo that: `$DIR` is the
/// directory of the session.
const DAMAGES: [(&str, &str); 7] = [
    ("cp lease kept; : >lease", "cat kept >lease"),
    ("cp lease kept; echo pid=1 start=1 boot=x epoch=1 >lease", "cat kept >lease"),
    ("mv lease kept", "mv kept lease"),
    ("mv run kept", "mv kept run"),
    ("mv journal kept", "mv kept journal"),
    ("mv $DIR $DIR.kept", "mv $DIR.kept $DIR"),
    ("mv $HOMEDIR $HOMEDIR.kept", "mv $HOMEDIR.kept $HOMEDIR"),
];

/// Tries to stop the session `other` with each piece of evidence damaged, from a process that carries nothing.
fn try_damaged(lab: &TestEnvironment) {
    let outer = lab.show("outer")["id"].as_str().expect("an id").to_owned();
    let (dir, home) = (lab.session_dir(&outer).display().to_string(), lab.home().display().to_string());
    let script = file(lab, "nothing-carried.sh");
    let close = "for fd in /proc/self/fd/*; do n=${fd##*/}; [ $n -gt 2 ] && eval \"exec $n>&-\"; done";
    std::fs::write(&script, format!("{close}; exec env -i BERTH_HOME=$1 {BERTH} stop other"))
        .expect("a script");
    for (damage, repair) in DAMAGES {
        let words = |text: &str| text.replace("$DIR", &dir).replace("$HOMEDIR", &home);
        let asked = if damage.contains("$HOMEDIR") { format!("{home}.kept") } else { home.clone() };
        let command = format!(
            "cd {dir}; {}; bash {} {asked}; code=$?; {}; rm -f kept; ( exit $code )",
            words(damage),
            script.display(),
            words(repair),
        );
        let heard = inside(lab, "outer", &command);
        assert_eq!(heard.code, 11, "{damage}: {heard:?}");
        assert_ne!(lab.show("other")["state"], "stopped", "{damage}");
    }
}

#[test]
fn an_agent_that_damages_the_evidence_against_it_counts_as_inside() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    try_damaged(&lab);
}

#[test]
fn an_agent_that_damages_the_evidence_counts_as_inside_without_control_groups() {
    let lab = lab();
    if outer_without_groups(&lab) {
        agent(&lab, "other", &[]);
        try_damaged(&lab);
    }
}

/// A keeper of another state directory is nearer above what runs in its session, and is itself below the agent.
#[test]
fn a_session_of_another_state_directory_is_no_way_out() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    let (aside, told) = (file(&lab, "aside"), file(&lab, "told"));
    let script = file(&lab, "aside.sh");
    let stop = format!("env -i BERTH_HOME={} {BERTH} stop other", lab.home().display());
    let text = format!("{stop} >{0}.text 2>&1; echo $? >{0}.part; mv {0}.part {0}", told.display());
    std::fs::write(&script, text).expect("a script");
    let run = format!("env BERTH_HOME={} berth run -d -- sh {}", aside.display(), script.display());
    inside(&lab, "outer", &run).ok();
    wait_until("it to have tried", || told.exists());
    let text = std::fs::read_to_string(told.with_extension("text")).expect("the answer it got");
    assert_eq!(std::fs::read_to_string(&told).expect("a code").trim(), "11", "{text}");
    assert_ne!(lab.show("other")["state"], "stopped");
}

/// A group that the agent makes below the run's group still belongs to the run.
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

/// A variable that outlived its run (a session manager may have taken it over) ties no process to that run.
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

/// In a pid namespace of their own, processes have numbers that mean others in `/proc`, or see no ancestors.
#[test]
fn a_process_with_pids_of_its_own_namespace_is_not_taken_for_a_person() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    let mut tried = 0;
    // A user namespace as well only where it takes one: no process outside can look at what begins one.
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
