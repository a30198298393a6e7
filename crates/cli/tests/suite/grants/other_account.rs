//! The recipe of docs/grants.md for agents under another account: there, file modes are the wall.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use berth_harness::TestEnvironment;

use crate::grants::{BERTH, agent, inside};

/// The uid of an account that does not exist.
const OTHER_ACCOUNT: u32 = 54_321;

/// A lab whose agent `walled` runs as another account, as docs/grants.md says.
fn lab_with_a_wall() -> TestEnvironment {
    let lab = TestEnvironment::with_agent(BERTH);
    fs::set_permissions(lab.dir(), Permissions::from_mode(0o755)).expect("our own directory");
    for dir in ["work", "store-walled"] {
        let dir = lab.dir().join(dir);
        fs::create_dir_all(&dir).expect("a directory");
        chown(&dir, Some(OTHER_ACCOUNT), Some(OTHER_ACCOUNT)).expect("root may");
    }
    let account = OTHER_ACCOUNT.to_string();
    let store = lab.dir().join("store-walled").display().to_string();
    let command = [
        "setpriv",
        "--reuid",
        &account,
        "--regid",
        &account,
        "--clear-groups",
        "--no-new-privs",
        "--",
        &lab.agent(),
        "acp",
        "--store",
        &store,
    ];
    let known = fs::read_to_string(lab.config()).expect("a config");
    let more = format!("[agents.walled]\ndriver = \"acp\"\ncommand = {command:?}\n");
    fs::write(lab.config(), known + &more).expect("a config");
    lab
}

#[test]
fn an_agent_under_another_account_takes_turns_and_reaches_nothing_of_its_keeper() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: only root can start an agent under another account");
        return;
    }
    if !Path::new("/usr/bin/setpriv").exists() {
        println!("left out: there is no setpriv (util-linux) here");
        return;
    }
    let lab = lab_with_a_wall();
    let other = agent(&lab, "other", &[]);
    let work = lab.dir().join("work").display().to_string();
    let walled = lab.ok(["run", "-d", "--agent", "walled", "--name", "walled", "--cwd", &work]);
    assert_eq!(lab.ok(["send", "--wait", "walled", "say:hello"]), "hello");
    assert_eq!(inside(&lab, "walled", "id -u").ok().trim(), OTHER_ACCOUNT.to_string());
    lab.ok(["token", "new", "--scope", "read", "--name", "bot"]);
    let home = lab.home().display().to_string();
    let journal = format!("{home}/sessions/{walled}/journal");
    for deed in [
        format!("ls {home}"),
        format!("cat {home}/token.key"),
        format!("ls {journal}"),
        format!("echo x >{home}/sessions/{walled}/lease"),
        "berth ls".to_owned(),
        "berth stop other".to_owned(),
        format!("berth answer {walled} allow"),
        format!("kill -0 {}", lab.number("other", "keeper_pid")),
        format!("kill -0 {}", lab.number("walled", "keeper_pid")),
        format!("cat /proc/{}/environ", lab.number("other", "keeper_pid")),
    ] {
        assert_ne!(inside(&lab, "walled", &deed).code, 0, "{deed} was let in");
    }
    assert_eq!(lab.show(&other)["state"], "idle", "nothing was done to it");
    // The keeper ends all of its processes, including one that left its process group.
    inside(&lab, "walled", "setsid sleep 1000 >/dev/null 2>&1 & echo $! >child").ok();
    let child = fs::read_to_string(lab.dir().join("work/child")).expect("a number");
    lab.ok(["stop", "walled"]);
    assert!(!Path::new(&format!("/proc/{}", child.trim())).exists(), "a child is left");
}
