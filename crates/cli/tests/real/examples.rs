//! The example that is a plugin of Claude Code: its replay with a stand-in, then the plugin in the real one.

use std::path::Path;
use std::process::Command;

use berth_harness::{
    RealAgentFixture, RealAgents, ReplayReport, TestEnvironment, said, signal, wait_gone, wait_until,
};
use berth_host::identity::ProcessIdentity;
use rustix::process::Signal;

const BERTH: &str = env!("CARGO_BIN_EXE_berth");

/// Lets a program find berth and Node.
fn with_path(command: &mut Command, agents: &RealAgents) {
    let programs = Path::new(BERTH).parent().expect("a file is in a directory");
    let path = std::env::var("PATH").expect("a path");
    command.env("PATH", format!("{}:{}:{path}", programs.display(), agents.bin().display()));
}

#[test]
fn no_broker_is_left_when_both_owners_leave_together_or_one_is_killed() {
    let lab = TestEnvironment::new(BERTH);
    let agents = RealAgents::new(lab.dir());
    let mut command = ReplayReport::command(&lab, "shared-broker", &[]);
    with_path(&mut command, &agents);
    ReplayReport::of(said(command.output().expect("bash can be started"))).check(
        &[
            "they share one broker (here: 2)",
            "no broker is left (here: 1)",
            "no broker is left (here: 1, owned by",
        ],
        &[
            "they share one broker (here: 1)",
            "it knows both owners",
            "no broker is left, and berth knows of none",
            "they share one broker (here: 1)",
            "it knows both owners",
            "no broker is left, and berth knows of none",
        ],
    );
}

/// A repository in which Claude Code works, and a worktree of it.
struct WorktreeRepository {
    base: RealAgentFixture,
}

impl WorktreeRepository {
    fn new() -> Self {
        let repository = Self { base: RealAgentFixture::new(BERTH) };
        repository.git(&["init", "--quiet"]);
        let begin = ["commit", "--quiet", "--allow-empty", "-m", "begin"];
        repository.git(&[&["-c", "user.name=me", "-c", "user.email=me@localhost"][..], &begin].concat());
        repository.git(&["worktree", "add", "--quiet", "../review"]);
        repository
    }

    fn git(&self, args: &[&str]) {
        let done = Command::new("git").args(args).current_dir(self.base.agents.work()).status();
        assert!(done.expect("git is installed").success(), "{args:?}");
    }

    /// Starts Claude Code with the plugin in the main tree and in the worktree; each has a turn that lasts until `gate` is
    /// released. Returns the one broker of both.
    fn start_both(&self, gate: &str) -> ProcessIdentity {
        let plugin =
            ReplayReport::examples().join("shared-broker/plugin").canonicalize().expect("the plugin");
        for (name, place) in [("session", "work"), ("review", "review")] {
            let name = format!("{name}-{gate}");
            let mut command = self.base.lab.command(["run", "-d", "--name", &name, "--", "claude", "-p"]);
            command.arg("--plugin-dir").arg(&plugin).arg(format!("HOLD {gate}"));
            with_path(self.base.agents.around(&mut command), &self.base.agents);
            command.current_dir(self.base.agents.home().join(place));
            let started = said(command.output().expect("berth can be started"));
            assert_eq!(started.code, 0, "{started:?}");
        }
        wait_until("both turns", || self.base.agents.model().arrivals(gate) == 2);
        let helpers = self.base.lab.json(["helper", "ls", "--json"]);
        assert_eq!(helpers.as_array().map(Vec::len), Some(1), "one broker for both: {helpers:#}");
        let owners = helpers[0]["helper"]["owners"].as_array().map(Vec::len);
        assert_eq!(owners, Some(2), "both own it: {helpers:#}");
        let pid = helpers[0]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("it runs");
        ProcessIdentity::of(pid).expect("it runs")
    }

    fn assert_no_broker_is_left(&self, broker: &ProcessIdentity) {
        wait_gone(broker);
        wait_until("its record to say so", || {
            self.base.lab.json(["helper", "ls", "--json"]) == serde_json::json!([])
        });
    }
}

#[test]
fn claude_code_in_the_main_tree_and_in_a_worktree_share_a_broker_and_leave_none() {
    let repository = WorktreeRepository::new();
    let (lab, model) = (&repository.base.lab, repository.base.agents.model());

    let broker = repository.start_both("together");
    model.release("together");
    repository.assert_no_broker_is_left(&broker);
    for name in ["session-together", "review-together"] {
        assert_eq!(lab.berth(["wait", name, "--timeout", "60s"]).code, 0, "{name}");
    }

    let broker = repository.start_both("killed");
    let agent = lab.process("review-killed", "pid");
    lab.kill_keeper("review-killed");
    signal(&agent, Signal::KILL);
    model.release("killed");
    repository.assert_no_broker_is_left(&broker);
}
