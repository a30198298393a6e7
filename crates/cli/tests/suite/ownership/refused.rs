//! E8: a process of the run that we may not signal. It is named with the reason, and the run is not called over until
//! the process is gone.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use berth_harness::{CommandOutput, TestEnvironment, signal, wait_gone};
use berth_host::identity::ProcessIdentity;
use rustix::process::Signal;

use crate::ownership::{AgentLookalike, BERTH, done, everything_kept, is_alive, is_gone, lab, written_down};

/// The account that berth runs as here, and one whose processes that account may not signal.
const NOBODY: u32 = 65534;
const ANOTHER: u32 = 65533;

/// On the command line of the process that stays. The session's own record does not have it.
const SECRET: &str = "sk-ant-api03-REDACTED0123456789";

/// A lab whose state directory belongs to an ordinary user.
pub(crate) struct OrdinaryUserFixture {
    pub(crate) lab: TestEnvironment,
    open: PathBuf,
}

impl OrdinaryUserFixture {
    /// `None` where the test cannot change accounts.
    pub(crate) fn new() -> Option<Self> {
        if !can_be_nobody() {
            return None;
        }
        let lab = lab();
        let open = lab.dir().join("open");
        for (dir, mode) in [(lab.home(), 0o700), (open.clone(), 0o777)] {
            fs::create_dir(&dir).expect("a directory");
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).expect("a mode");
            chown(&dir, Some(NOBODY), Some(NOBODY)).expect("root may");
        }
        Some(Self { lab, open })
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", BERTH]).args(args);
        command.env("BERTH_HOME", self.lab.home()).env("SECRET", SECRET).stdin(Stdio::null());
        command
    }

    pub(crate) fn berth(&self, args: &[&str]) -> CommandOutput {
        done(self.command(args))
    }

    fn show(&self, id: &str) -> (i32, serde_json::Value) {
        let said = self.berth(&["show", "--json", id]);
        (said.code, serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("no status: {said:?}")))
    }

    /// A session whose agent started a program of another user's: the session, its keeper, its agent,
    /// and the program, which stays.
    fn with_a_helper(&self) -> (String, [ProcessIdentity; 3]) {
        let helper = self.lab.dir().join("helper");
        fs::copy(self.lab.agent(), &helper).expect("a copy");
        chown(&helper, Some(ANOTHER), Some(ANOTHER)).expect("root may");
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o4755)).expect("a mode");
        let open = self.open.display();
        let script = format!(
            "{} own-uid ignore:HUP,TERM pidfile:{open}/helper wait-file:{open}/go say:$SECRET & \
             exec {} pidfile:{open}/agent ignore:HUP,TERM say:ready hang",
            helper.display(),
            self.lab.agent()
        );
        let said = self.berth(&["run", "-d", "--", "sh", "-c", &script]);
        assert_eq!(said.code, 0, "{said:?}");
        let id = said.out.trim().to_owned();
        let (helper, agent) =
            (written_down(&self.open.join("helper"), 1), written_down(&self.open.join("agent"), 1));
        let keeper = self.show(&id).1["keeper_pid"].as_u64().expect("a keeper") as u32;
        (id, [ProcessIdentity::of(keeper).expect("it runs"), agent[0].clone(), helper[0].clone()])
    }

    /// Asserts that the helper could not be ended, and has it go by itself.
    fn let_it_go(&self, helper: &ProcessIdentity) {
        assert!(is_alive(helper), "it could not be ended");
        fs::write(self.open.join("go"), "").expect("a file");
        wait_gone(helper);
    }

    /// Asserts that the secret is on the command line of the named process, and nowhere else.
    fn assert_no_secret(&self, told: &[&CommandOutput]) {
        for said in told {
            assert!(!format!("{said:?}").contains(SECRET), "{said:?}");
        }
        for (path, bytes) in everything_kept(&self.lab.home()) {
            // Output of the agent's own programs on its terminal is the user's record.
            if !path.components().any(|part| part.as_os_str() == "output") {
                assert!(!String::from_utf8_lossy(&bytes).contains(SECRET), "{}", path.display());
            }
        }
    }
}

fn can_be_nobody() -> bool {
    let can = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", BERTH, "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("SKIPPED: this needs root, setpriv, and a binary that others may execute");
    }
    can
}

#[test]
fn e8_a_process_that_may_not_be_signalled_is_named_and_the_session_is_over_only_when_it_is_gone() {
    let Some(ordinary) = OrdinaryUserFixture::new() else { return };
    let innocent = AgentLookalike::beside(&ordinary.lab);
    let (id, [keeper, agent, helper]) = ordinary.with_a_helper();
    let stop = ordinary.berth(&["stop", "--grace", "50ms", &id]);
    assert_ne!(stop.code, 0, "{stop:?}");
    let named = format!("pid {} (helper) cannot be signalled", helper.pid);
    assert!(stop.err.contains(&named) && stop.err.contains("not permitted"), "{stop:?}");
    let (_, shown) = ordinary.show(&id);
    assert_eq!(shown["state"], "stopping", "{shown}");
    assert!(shown["left"].to_string().contains(&named), "{shown}");
    assert!(is_gone(&agent) && is_alive(&keeper), "all other processes were ended");
    let refused = ordinary.berth(&["resume", "-d", &id]);
    assert_eq!(refused.code, 4, "{refused:?}");
    let why = ordinary.berth(&["why", &id]);
    assert!(why.out.contains(&named), "{why:?}");
    let swept = ordinary.berth(&["sweep"]);
    let log = ordinary.berth(&["log", &id]);
    assert!(!log.out.contains("nothing of it is left"), "{log:?}");
    ordinary.assert_no_secret(&[&stop, &refused, &why, &swept, &log]);

    ordinary.let_it_go(&helper);
    let waited = ordinary.berth(&["wait", &id, "--timeout", "60s"]);
    assert_eq!(waited.code, 137, "{waited:?}");
    assert_eq!(ordinary.show(&id).1["state"], "stopped");
    wait_gone(&keeper);
    innocent.assert_untouched();
}

#[test]
fn e8_after_the_keeper_was_killed_it_is_named_and_no_end_is_recorded() {
    let Some(ordinary) = OrdinaryUserFixture::new() else { return };
    let innocent = AgentLookalike::beside(&ordinary.lab);
    let (id, [keeper, agent, helper]) = ordinary.with_a_helper();
    signal(&keeper, Signal::KILL);
    wait_gone(&keeper);
    let shown = ordinary.berth(&["show", &id]);
    assert_eq!(shown.code, 1, "{shown:?}");
    assert!(shown.err.contains("not proven gone"), "{shown:?}");
    let named = format!("pid {} (helper) cannot be signalled", helper.pid);
    assert!(shown.err.contains(&named), "{shown:?}");
    assert!(is_gone(&agent), "all other processes were ended");
    let (stop, resume) = (ordinary.berth(&["stop", &id]), ordinary.berth(&["resume", "-d", &id]));
    let swept = ordinary.berth(&["sweep"]);
    assert_eq!((stop.code, resume.code, swept.code), (1, 4, 1), "{stop:?}\n{resume:?}\n{swept:?}");
    let log = ordinary.berth(&["log", &id]);
    assert!(!log.out.contains("nothing of it is left") && !log.out.contains("was lost"), "{log:?}");
    ordinary.assert_no_secret(&[&shown, &stop, &resume, &swept, &log]);

    ordinary.let_it_go(&helper);
    let (code, shown) = ordinary.show(&id);
    assert_eq!((code, &shown["state"]), (0, &"lost".into()), "{shown}");
    let log = ordinary.berth(&["log", &id]);
    assert!(log.out.contains("was lost"), "{log:?}");
    innocent.assert_untouched();
}
