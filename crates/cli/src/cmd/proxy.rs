//! `berth proxy`: serves a berth on another host, at the far end of ssh.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use berth_api::Problem;
use berth_store::StateDir;

use crate::args::{ProxyArgs, ProxyVerb};
use crate::print;

pub(crate) fn run(args: &ProxyArgs) -> Result<u8, Problem> {
    match &args.verb {
        None => berth_gateway::serve_stdio(StateDir::locate()?).map(|()| 0),
        Some(ProxyVerb::Exec { from, called, words }) => exec(from, called.as_deref(), words),
    }
}

/// Replaces this process with the command. Notes a caller of another version, for which the command may differ.
fn exec(from: &str, called: Option<&str>, words: &[OsString]) -> Result<u8, Problem> {
    let here = env!("CARGO_PKG_VERSION");
    if from != here {
        print::note(&format!("berth is {here} on this host, and {from} where you are"));
    }
    let program = std::env::current_exe()
        .map_err(|error| Problem::refused(format!("cannot find berth itself: {error}")))?;
    let error = Command::new(program).args(called.map(|name| format!("--called={name}"))).args(words).exec();
    Err(Problem::refused(format!("cannot start berth: {error}")))
}
