//! A process that has a scope of its own may divide it. The test binary runs itself as that process.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use berth_host::cgroup;
use berth_test_dir::TestDir;

const NOTE: &str = "BERTH_TEST_NOTE";

#[test]
fn a_process_in_its_own_scope_moves_below_it_and_may_be_asked_twice() {
    if let Some(note) = env::var_os(NOTE) {
        return inside(Path::new(&note));
    }
    let place = match cgroup::keeper_place() {
        Ok(place) => place.path().to_owned(),
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    assert_eq!(cgroup::scope_of_mine(), None, "no manager made one for this process");
    let scratch = TestDir::new();
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "scope::a_process_in_its_own_scope_moves_below_it_and_may_be_asked_twice",
            "--nocapture",
        ])
        .env(NOTE, scratch.join("note"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let scope = ScopeTestCgroup(place.join(cgroup::scope_name("test", child.id())));
    fs::create_dir(&scope.0).unwrap();
    fs::write(scope.0.join("cgroup.procs"), child.id().to_string()).unwrap();
    child.stdin.take().unwrap().write_all(b"go").unwrap();
    assert!(child.wait().unwrap().success());

    let note = fs::read_to_string(scratch.join("note")).unwrap();
    let at = scope.0.display();
    assert_eq!(note, format!("{at}\n{at}\n[]\n[{}]\n", child.id()));
}

/// Waits until this process is in the scope, and writes the groups it finds to the note.
fn inside(note: &Path) {
    let mut go = [0; 2];
    std::io::stdin().read_exact(&mut go).unwrap();
    let (first, second) = (cgroup::scope_of_mine().unwrap(), cgroup::scope_of_mine().unwrap());
    let members = |group: PathBuf| {
        let pids = fs::read_to_string(group.join("cgroup.procs")).unwrap();
        format!("[{}]", pids.lines().collect::<Vec<_>>().join(" "))
    };
    let above = members(first.clone());
    let text =
        format!("{}\n{}\n{above}\n{}\n", first.display(), second.display(), members(first.join("keeper")));
    fs::write(note, text).unwrap();
}

/// A cgroup that goes away with the test, and the one that is made in it.
struct ScopeTestCgroup(PathBuf);

impl Drop for ScopeTestCgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.0.join("keeper"));
        let _ = fs::remove_dir(&self.0);
    }
}
