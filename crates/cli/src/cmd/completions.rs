//! `berth completions`: prints the script with which a shell asks berth for completions.

use std::ffi::OsStr;
use std::path::Path;

use berth_api::Problem;
use berth_host::spawn::find_program;
use clap_complete::env::Shells;

use crate::args::CompletionsArgs;
use crate::{completion, print};

pub(crate) fn run(args: &CompletionsArgs) -> Result<u8, Problem> {
    let shells = Shells::builtins();
    let shell = shells.completer(args.shell.name()).expect("clap knows the shells that can be named");
    let mut script = Vec::new();
    shell
        .write_registration(completion::VARIABLE, "berth", "berth", &program()?, &mut script)
        .map_err(|error| Problem::bug(format!("cannot make the script: {error}")))?;
    print::raw(&script)?;
    Ok(0)
}

/// The command with which the script calls berth: its name if PATH leads to this program, else its full path.
fn program() -> Result<String, Problem> {
    let trouble = |what: String| Problem::refused(what).hint("put berth into a directory that is in PATH");
    let ours = std::env::current_exe().and_then(|path| path.canonicalize());
    let ours = ours.map_err(|error| trouble(format!("cannot tell where this program is: {error}")))?;
    let path = std::env::var_os("PATH");
    let found = find_program(OsStr::new("berth"), path.as_deref(), Path::new("/")).ok();
    if found.and_then(|found| found.canonicalize().ok()).is_some_and(|found| found == ours) {
        return Ok("berth".to_owned());
    }
    let place = ours.into_os_string().into_string();
    place.map_err(|place| trouble(format!("{} is not UTF-8", Path::new(&place).display())))
}
