//! The registry of helpers: command, keeper and hook use one registry, and no other user's.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use berth_harness::{TestEnvironment, said, wait_gone, wait_until};
use berth_host::process_tree;

use crate::helpers::{dir, ensure, ensured, is_alive, lab, owner, owners, process, shown, text};

/// A state directory that the lab does not know of is cleared by the test, also when it fails.
struct StateDirCleanup {
    root: PathBuf,
    berth: PathBuf,
}

impl Drop for StateDirCleanup {
    fn drop(&mut self) {
        for (shelf, verb) in [("sessions", &["stop"][..]), ("helpers", &["helper", "stop"])] {
            for kept in fs::read_dir(self.root.join(shelf)).into_iter().flatten().flatten() {
                let mut stop = Command::new(&self.berth);
                stop.args(verb).args(["--grace", "0s"]).arg(kept.file_name()).env("BERTH_HOME", &self.root);
                let _ = stop.output();
            }
        }
    }
}

/// The state directory follows from XDG_STATE_HOME here, as for most people; the hook has another one.
#[test]
fn d14_a_hook_with_another_environment_uses_the_same_registry() {
    let lab = lab();
    let (state, elsewhere, place) = (dir(&lab, "state"), dir(&lab, "elsewhere"), dir(&lab, "place"));
    // Installed through a link.
    symlink(
        std::path::Path::new(env!("CARGO_BIN_EXE_berth")).parent().expect("a directory"),
        lab.dir().join("bin"),
    )
    .expect("a link");
    let berth = lab.dir().join("bin/berth");
    let agent = lab.agent();
    let command = |args: &[&str]| {
        let mut command = Command::new(&berth);
        command.args(args).env("XDG_STATE_HOME", &state).env_remove("BERTH_HOME").stdin(Stdio::null());
        command.env_remove("BERTH_SESSION").current_dir(&place);
        said(command.output().expect("berth can be started"))
    };
    let _stops_all = StateDirCleanup { root: state.join("berth"), berth: berth.clone() };
    let hook = format!(
        "env HOME={0} TMPDIR={0} XDG_STATE_HOME={0} XDG_RUNTIME_DIR={0} {1}",
        elsewhere.display(),
        berth.display()
    );
    let script = format!(
        "{hook} helper ensure broker -- {agent} hang && echo started; read go; \
         {hook} helper release broker && echo released; exec {agent} hang"
    );
    let session = command(&["run", "-d", "--", "sh", "-c", &script]);
    assert_eq!(session.code, 0, "{session:?}");
    let session = session.out.trim().to_owned();
    let wait_for = |what: &str| {
        let said = command(&["wait", &session, "--for", what, "--timeout", "60s"]);
        assert_eq!(said.code, 0, "{said:?} {}", command(&["output", &session]).out);
    };
    wait_for("output:started");
    let listed = command(&["helper", "ls", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.out).expect("JSON");
    assert_eq!(listed[0]["helper"]["owners"][0]["session"], session.as_str(), "{listed}");
    let running = process(&listed[0], "pid");
    assert!(is_alive(&running));
    assert_eq!(fs::read_dir(&elsewhere).expect("a directory").count(), 0, "nothing went elsewhere");
    assert_eq!(command(&["input", &session, "--enter", "go"]).code, 0);
    wait_for("output:released");
    wait_gone(&running);
    assert_eq!(command(&["stop", "--grace", "0s", &session]).code, 0);
    let home = state.join("berth").display().to_string();
    let left =
        || process_tree::processes_with_variable("BERTH_HOME", &home).expect("/proc can be read").processes;
    wait_until("all of it to be gone", || left().is_empty());
}

/// Marks and control groups are named after ids.
#[test]
fn helpers_of_one_name_in_two_state_directories_have_nothing_to_do_with_each_other() {
    let (one, two) = (lab(), lab());
    let options = ["--scope", "user"];
    let place = dir(&one, "place");
    let (mine, yours) = (owner(&one), owner(&two));
    let helper =
        |lab: &TestEnvironment, session: &str| ensured(lab, &place, "web", session, &options, &["hang"]);
    let other = helper(&two, &yours);
    let is_unhurt = |after: &str| {
        let now = shown(&two, &text(&other, "id"));
        assert!(is_alive(&process(&other, "pid")), "{after}");
        assert_eq!((&now["pid"], &now["state"]), (&other["pid"], &"running".into()), "{after}");
        assert_eq!(owners(&now), [yours.as_str()], "{after}");
    };
    for end in ["stop", "release", "kill -9"] {
        let helper = helper(&one, &mine);
        assert_ne!(helper["id"], other["id"]);
        let group = |status: &serde_json::Value| status["boundary"]["cgroup"].as_str().map(str::to_owned);
        assert_eq!(group(&helper).is_some(), group(&other).is_some(), "{helper} {other}");
        assert!(group(&helper).is_none() || group(&helper) != group(&other), "{helper}");
        is_unhurt("both are up");
        let (running, id) = (process(&helper, "pid"), text(&helper, "id"));
        match end {
            "stop" => drop(one.ok(["helper", "stop", "--grace", "0s", "web"])),
            "release" => drop(one.ok(["helper", "release", "web", "--owner", &mine])),
            _ => {
                berth_harness::signal(&process(&helper, "keeper_pid"), rustix::process::Signal::KILL);
                one.ok(["sweep"]);
            }
        }
        wait_gone(&running);
        wait_until("its record to say so", || shown(&one, &id)["state"] != "running");
        one.ok(["sweep"]);
        is_unhurt(end);
    }
}

/// A state directory reached under another path is the same one.
#[test]
fn a_state_directory_that_is_reached_through_a_link_has_the_same_helpers() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let helper = ensured(&lab, &place, "web", &session, &[], &["hang"]);
    let link = lab.dir().join("link");
    // Only directories above it may be links: a state directory that is a link itself is refused.
    symlink(lab.home().parent().expect("a directory"), &link).expect("a link");
    let link = link.join(lab.home().file_name().expect("a name"));
    let mut command = crate::helpers::ensuring(&lab, &place, "web", &session, &["--json"], &["hang"]);
    let said = said(command.env("BERTH_HOME", &link).output().expect("berth can be started"));
    assert_eq!(said.code, 0, "{said:?}");
    let again: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!((&again["id"], &again["pid"]), (&helper["id"], &helper["pid"]));
}

/// A bind mount gives one directory two paths: the directory that a helper is of, and the state directory.
#[test]
fn a_directory_that_is_reached_through_a_bind_mount_has_the_same_helpers() {
    let lab = lab();
    let (place, mounted, home) = (dir(&lab, "place"), dir(&lab, "mounted"), dir(&lab, "home-mounted"));
    let session = owner(&lab);
    // Mounts of a namespace of its own are gone with its last process, however the test ends.
    let script = "mount --bind \"$1\" \"$2\" && mount --bind \"$BERTH_HOME\" \"$3\" || exit 99; shift 3; set -e; \
                  cd \"$PLACE\"; \"$@\"; cd \"$MOUNTED\"; \"$@\"; BERTH_HOME=\"$MOUNTED_HOME\" \"$@\"";
    let ensure = crate::helpers::ensuring(&lab, &place, "web", &session, &["--json"], &["hang"]);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).args([&place, &mounted, &home]);
    command.arg(ensure.get_program()).args(ensure.get_args());
    for (name, value) in ensure.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("PLACE", &place).env("MOUNTED", &mounted).env("MOUNTED_HOME", &home);
    let said = said(command.stdin(Stdio::null()).output().expect("unshare"));
    if said.code == 99 || said.err.contains("unshare failed") {
        eprintln!("SKIPPED: this needs the right to mount");
        return;
    }
    assert_eq!(said.code, 0, "{said:?}");
    let answers = serde_json::Deserializer::from_str(&said.out).into_iter::<serde_json::Value>();
    let answers: Vec<serde_json::Value> = answers.map(|answer| answer.expect("JSON")).collect();
    let pids: Vec<_> = answers.iter().map(|answer| (text(answer, "id"), answer["pid"].clone())).collect();
    assert_eq!(pids.len(), 3, "{said:?}");
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    let helper = process(&answers[0], "pid");
    lab.ok(["helper", "release", &pids[0].0, "--owner", &session]);
    wait_gone(&helper);
}

#[test]
fn d16_a_shelf_that_others_could_have_prepared_is_refused() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let shelf = lab.home().join("helpers");
    fs::create_dir(&shelf).expect("a directory");
    fs::set_permissions(&shelf, fs::Permissions::from_mode(0o777)).expect("chmod");
    let said = ensure(&lab, &place, "web", &session, &[], &["hang"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("open to other users") && said.err.contains("BERTH_HOME"), "{said:?}");
    assert_eq!(fs::read_dir(&shelf).expect("a directory").count(), 0, "nothing was put there");
    if std::os::unix::fs::chown(&shelf, Some(65534), None).is_ok() {
        fs::set_permissions(&shelf, fs::Permissions::from_mode(0o700)).expect("chmod");
        let said = ensure(&lab, &place, "web", &session, &[], &["hang"]);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
        assert!(said.err.contains("belongs to user 65534"), "{said:?}");
        std::os::unix::fs::chown(&shelf, Some(0), None).expect("root may do that");
    }
    fs::remove_dir(&shelf).expect("it is empty");
    symlink(&place, &shelf).expect("a link");
    assert_eq!(ensure(&lab, &place, "web", &session, &[], &["hang"]).code, 1);
    fs::remove_file(&shelf).expect("our own link");
}
