//! Another host for one command: `unshare` and a few mounts, which end with it.

use std::path::Path;
use std::process::{Command, Stdio};

use berth_harness::TestEnvironment;

use crate::ownership::BERTH;

/// Hides every control group, as on a host that has none for us.
pub(crate) const WITHOUT_GROUPS: &str = "mount -t tmpfs none /sys/fs/cgroup";

/// The variable that tells this test binary that it is the part inside.
const INSIDE: &str = "BERTH_TEST_INSIDE";

/// True if this test may make namespaces.
pub(crate) fn can_unshare() -> bool {
    let can = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("SKIPPED: this needs root and unshare (util-linux)");
    }
    can
}

/// A berth command in a mount namespace of its own, after a shell script has changed its view of the host.
pub(crate) fn changed(lab: &TestEnvironment, script: &str, args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", &format!("{script}\nexec \"$@\""), "sh", BERTH]).args(args);
    command.env("BERTH_HOME", lab.home()).stdin(Stdio::null());
    command.env_remove("BERTH_SESSION").env_remove("BERTH_RUN").env_remove("BERTH_KILLPOINT");
    command
}

/// The script that shows another boot id.
pub(crate) fn another_boot(lab: &TestEnvironment) -> String {
    let file = lab.dir().join("boot_id");
    std::fs::write(&file, "00000000-1111-4222-8333-444444444444\n").expect("a file");
    format!("mount --bind {} /proc/sys/kernel/random/boot_id", file.display())
}

/// The script that shows another host, which has another boot as well.
pub(crate) fn another_host(lab: &TestEnvironment) -> String {
    let file = lab.dir().join("machine-id");
    std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").expect("a file");
    format!("{}\nmount --bind {} /etc/machine-id", another_boot(lab), file.display())
}

/// Runs `body` in a pid namespace of its own: this test binary executes itself there with `test`, the whole name of the
/// test that calls this. A shell is process 1 there, which collects the dead at once, and every process that is left
/// ends with it.
pub(crate) fn inside_pid_namespace(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    if !can_unshare() {
        return;
    }
    // Process numbers in there are small, so names made of them would meet those of other tests.
    let lab = crate::ownership::lab();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", "\"$@\"; exit $?", "sh"]);
    command.arg(std::env::current_exe().expect("this very program"));
    command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1").env("TMPDIR", lab.dir());
    let output = command.output().expect("unshare starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = format!("{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "inside the namespace:\n{told}");
    assert!(told.contains("1 passed"), "nothing was tested inside; is `{test}` its name?\n{told}");
}

/// Makes the next process of this namespace have this number.
pub(crate) fn next_pid_is(pid: u32) {
    let path = Path::new("/proc/sys/kernel/ns_last_pid");
    std::fs::write(path, (pid - 1).to_string()).expect("root may choose the next number");
}
