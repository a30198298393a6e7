//! berth with the real agents: a lab, and agents with a home and a model of their own.
//!
//! Promise: commands of berth have the environment of the agents and no other, so that sessions and gateways that they
//! start have it as well.
//! Not here: properties of one subject. Its fixture holds a [`RealAgentFixture`] and dereferences to it.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{CommandOutput, RealAgents, TestEnvironment, said};

/// A lab with real agents in it. The lab is the first field: it ends the runs while the model still answers.
#[derive(Debug)]
pub struct RealAgentFixture {
    /// The state directory, and berth.
    pub lab: TestEnvironment,
    /// The agents, and the model that they ask.
    pub agents: RealAgents,
}

impl RealAgentFixture {
    /// Makes a lab and agents. `berth` is `env!("CARGO_BIN_EXE_berth")`.
    pub fn new(berth: &str) -> Self {
        let lab = TestEnvironment::new(berth);
        let agents = RealAgents::new(lab.dir());
        Self { lab, agents }
    }

    /// A berth command in the agents' environment, not yet started.
    pub fn command(&self, args: &[&str]) -> Command {
        self.around(self.lab.command(args))
    }

    /// Gives any command the agents' environment, and the places of the lab; nothing else.
    pub fn around(&self, mut command: Command) -> Command {
        command.env_clear().env("BERTH_HOME", self.lab.home()).env("BERTH_CONFIG", self.lab.config());
        self.agents.around(&mut command);
        command
    }

    /// Runs a berth command to its end.
    pub fn berth(&self, args: &[&str]) -> CommandOutput {
        said(self.command(args).output().expect("berth can be started"))
    }

    /// Runs a berth command that must succeed; its standard output without the last line end.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        let said = self.berth(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out.trim_end_matches('\n').to_owned()
    }

    /// Runs a berth command that must succeed and print JSON.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let out = self.ok(args);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: not JSON ({error}): {out}"))
    }

    /// Starts a command that goes on while the test does something else.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("berth can be started")
    }
}
