//! A tool that runs until a test lets it end.

use std::path::Path;

use berth_harness::{RealAgents, wait_until};

/// A tool that says its pid, and then waits until something is written to `pipe`.
pub(crate) fn long_tool(agents: &RealAgents) -> String {
    let made = std::process::Command::new("mkfifo").arg(agents.work().join("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    "TOOL echo $$ > pid.new; mv pid.new pid; cat pipe".to_owned()
}

pub(crate) fn tool_pid(agents: &RealAgents) -> u32 {
    let file = agents.work().join("pid");
    wait_until("the tool's start", || file.exists());
    std::fs::read_to_string(file).expect("just seen").trim().parse().expect("a pid")
}

pub(crate) fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
