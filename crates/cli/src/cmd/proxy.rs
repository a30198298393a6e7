//! `berth proxy`: the other end of ssh.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use berth_api::{Code, Problem};
use berth_store::Home;

use crate::args::{Proxy, ProxyVerb};
use crate::print;

pub(crate) fn run(args: &Proxy) -> Result<u8, Problem> {
    match &args.verb {
        None => berth_gateway::serve_stdio(Home::locate()?).map(|()| 0),
        Some(ProxyVerb::Exec { from, called, words }) => exec(from, called.as_deref(), words),
    }
}

/// Becomes the command. Who is of another version is told: it may mean something else by it.
fn exec(from: &str, called: Option<&str>, words: &[OsString]) -> Result<u8, Problem> {
    let here = env!("CARGO_PKG_VERSION");
    if from != here {
        print::note(&format!("berth is {here} on this host, and {from} where you are"));
    }
    let program = std::env::current_exe()
        .map_err(|error| Problem::new(Code::Refused, format!("cannot find berth itself: {error}")))?;
    let error = Command::new(program).args(called.map(|name| format!("--called={name}"))).args(words).exec();
    Err(Problem::new(Code::Refused, format!("cannot start berth: {error}")))
}
