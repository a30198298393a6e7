//! `berth doctor` on hosts that lack something. The lack is real: a namespace, a small disk, a limit.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use berth_harness::{CommandOutput, TestEnvironment, said};
use serde_json::Value;

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// Runs a shell script with `$BERTH` and `$BERTH_HOME`, in a mount namespace of its own.
fn apart(lab: &TestEnvironment, script: &str) -> CommandOutput {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", script]);
    command.env("BERTH", env!("CARGO_BIN_EXE_berth")).env("BERTH_HOME", lab.home()).stdin(Stdio::null());
    said(command.output().expect("unshare can be started"))
}

/// True if namespaces and mounts can be made here at all; elsewhere there is nothing to test with.
fn can_mount() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs none /mnt"]).stderr(Stdio::null());
    rustix::process::geteuid().is_root() && command.status().is_ok_and(|status| status.success())
}

fn report(said: &CommandOutput) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("not JSON ({error}): {said:?}"))
}

fn row<'r>(report: &'r Value, name: &str) -> &'r Value {
    let rows = report["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row `{name}` in {report}"))
}

fn names_in(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_row_that_is_not_fine_names_its_cost_and_its_fix() {
    let lab = lab();
    let report = lab.json(["doctor", "--json"]);
    assert_eq!(report["usable"], true, "these tests run here");
    for name in [
        "state directory",
        "room",
        "locks",
        "/proc",
        "pidfd",
        "subreaper",
        "cgroup v2",
        "systemd",
        "terminals",
        "processes",
        "open files",
    ] {
        row(&report, name);
    }
    let rows = report["rows"].as_array().expect("rows");
    let limited = rows.iter().filter(|row| row["state"] != "ok");
    for row in limited.clone() {
        assert!(row["cost"].is_string() && row["fix"].is_string(), "{row}");
    }
    assert_eq!(report["limited"], limited.count());

    let text = lab.ok(["doctor"]);
    let first = text.lines().next().expect("a first line");
    match report["limited"].as_u64() {
        Some(0) => assert_eq!(first, "this host has every feature that berth can use"),
        Some(1) => assert!(first.starts_with("1 thing is limited"), "{first}"),
        count => {
            assert!(first.starts_with(&format!("{} things are limited", count.expect("a count"))), "{first}")
        }
    }
}

#[test]
fn looking_leaves_nothing_behind_not_even_the_state_directory() {
    let lab = lab();
    let report = lab.json(["doctor", "--json"]);
    assert!(!lab.home().exists(), "doctor made the state directory");
    let found = row(&report, "state directory")["found"].as_str().expect("a sentence").to_owned();
    assert!(found.contains("made by the first session"), "{found}");
    // With a state directory there are files to check, and still nothing is added.
    lab.ok(["ls"]);
    let before = names_in(&lab.home());
    let report = lab.json(["doctor", "--json"]);
    assert_eq!(names_in(&lab.home()), before);
    assert!(row(&report, "state directory")["found"].as_str().is_some_and(|found| found.contains("private")));
}

#[test]
fn a_state_directory_that_others_may_enter_makes_berth_unusable_and_the_fix_is_a_command() {
    let lab = lab();
    std::fs::create_dir(lab.home()).expect("a directory");
    std::fs::set_permissions(lab.home(), std::fs::Permissions::from_mode(0o755)).expect("our own directory");
    let told = lab.berth(["doctor", "--json"]);
    assert_eq!(told.code, 1, "{told:?}");
    let report = report(&told);
    assert_eq!(
        (&report["usable"], &row(&report, "state directory")["state"]),
        (&false.into(), &"missing".into())
    );
    let fix = row(&report, "state directory")["fix"].as_str().expect("a fix").to_owned();
    assert_eq!(fix, format!("chmod 700 {}", lab.home().display()));
    let text = lab.berth(["doctor"]);
    assert_eq!(text.out.lines().next(), Some("berth cannot work here: state directory"), "{text:?}");

    let fixed = Command::new("sh").args(["-c", &fix]).status().expect("sh can be started");
    assert!(fixed.success());
    assert_eq!(lab.berth(["doctor"]).code, 0);
}

#[test]
fn few_open_files_are_told_with_the_limit() {
    let lab = lab();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 64; exec \"$BERTH\" doctor --json"]).stdin(Stdio::null());
    command.env("BERTH", env!("CARGO_BIN_EXE_berth")).env("BERTH_HOME", lab.home());
    let told = said(command.output().expect("sh can be started"));
    assert_eq!(told.code, 0, "{told:?}");
    let report = report(&told);
    let row = row(&report, "open files");
    assert_eq!(row["state"], "limited");
    assert!(row["found"].as_str().is_some_and(|found| found.starts_with("64 at a time")), "{row}");
}

#[test]
fn doctor_tells_the_cost_of_a_host_without_control_groups() {
    if !can_mount() {
        return;
    }
    let lab = lab();
    let told = apart(&lab, "mount -t tmpfs none /sys/fs/cgroup; exec \"$BERTH\" doctor --json");
    assert_eq!(told.code, 0, "berth works without: {told:?}");
    let report = report(&told);
    let row = row(&report, "cgroup v2");
    assert_eq!(row["state"], "missing", "{row}");
    assert!(row["fix"].as_str().is_some_and(|fix| fix.contains("mount -t cgroup2")), "{row}");
}

#[test]
fn control_groups_that_cannot_be_written_are_told_with_the_reason() {
    let mounted = lab().json(["doctor", "--json"]);
    if !can_mount() || row(&mounted, "cgroup v2")["state"] != "ok" {
        return;
    }
    let lab = lab();
    let script = "
        mount -t tmpfs none /sys/fs/cgroup
        mkdir /sys/fs/cgroup/unified
        mount -t cgroup2 none /sys/fs/cgroup/unified
        mount -o remount,bind,ro /sys/fs/cgroup/unified
        exec \"$BERTH\" doctor --json";
    let told = apart(&lab, script);
    assert_eq!(told.code, 0, "{told:?}");
    let report = report(&told);
    let row = row(&report, "cgroup v2");
    assert_eq!(row["state"], "limited", "{row}");
    assert!(row["found"].as_str().is_some_and(|found| found.contains("read-only file system")), "{row}");
}

#[test]
fn a_small_disk_is_limited_and_a_full_one_makes_berth_unusable() {
    if !can_mount() {
        return;
    }
    let lab = lab();
    let script = "
        mkdir \"$BERTH_HOME\"
        mount -t tmpfs -o size=1m,mode=700 none \"$BERTH_HOME\"
        \"$BERTH\" doctor --json
        head -c 2M /dev/zero > \"$BERTH_HOME/filler\" 2>/dev/null || true
        exec \"$BERTH\" doctor";
    let told = apart(&lab, script);
    assert_eq!(told.code, 1, "{told:?}");
    let (small, full) = told.out.split_once("\n}\n").expect("two reports");
    let small: Value = serde_json::from_str(&format!("{small}\n}}")).expect("JSON");
    assert_eq!(
        (&small["usable"], &row(&small, "room")["state"]),
        (&true.into(), &"limited".into()),
        "{small}"
    );
    assert!(
        row(&small, "state directory")["found"].as_str().is_some_and(|found| found.contains("tmpfs")),
        "{small}"
    );
    assert!(full.starts_with("berth cannot work here: room\n"), "{full}");
}

#[test]
fn a_disk_without_room_for_files_is_told_by_their_number() {
    if !can_mount() {
        return;
    }
    let lab = lab();
    let script = "
        mkdir \"$BERTH_HOME\"
        mount -t tmpfs -o nr_inodes=50,mode=700 none \"$BERTH_HOME\"
        exec \"$BERTH\" doctor --json";
    let report = report(&apart(&lab, script));
    assert_eq!(row(&report, "room")["state"], "limited", "{report}");
}
