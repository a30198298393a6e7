//! The replays in `examples/`: a bug in the naive tool, and the same scene with berth.
//!
//! Promise: a replay has a lab as its stage, so what it leaves behind fails the test.
//! Start with [`ReplayReport::run`].

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{CommandOutput, TestEnvironment, said};

/// The output of a replay: promises that each tool kept or broke, in order.
#[derive(Debug)]
pub struct ReplayReport {
    /// Exit code and output of the command.
    pub said: CommandOutput,
    naive: String,
    berth: String,
}

impl ReplayReport {
    /// Runs `examples/EXAMPLE/replay` with these words, to its end.
    pub fn run(lab: &TestEnvironment, example: &str, words: &[&str]) -> Self {
        Self::of(said(Self::command(lab, example, words).output().expect("bash can be started")))
    }

    /// Prepares the command, without starting it.
    pub fn command(lab: &TestEnvironment, example: &str, words: &[&str]) -> Command {
        let programs = Path::new(&lab.agent()).parent().expect("a file is in a directory").to_owned();
        let path = std::env::var("PATH").expect("a path");
        let mut command = Command::new(Self::examples().join(example).join("replay"));
        command.args(words).current_dir(lab.dir()).stdin(Stdio::null());
        command.env("PATH", format!("{}:{path}", programs.display())).env("STAGE", lab.dir());
        command
    }

    /// Splits the output into the two scenes.
    pub fn of(said: CommandOutput) -> Self {
        let (naive, berth) = said.out.split_once("With berth:").unwrap_or((&said.out, ""));
        Self { naive: naive.to_owned(), berth: berth.to_owned(), said }
    }

    /// The directory of all examples.
    pub fn examples() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
    }

    /// Fails unless the naive tool broke exactly the promises that begin with these words, and berth kept all of its
    /// own, those among them. The exit code must agree.
    #[track_caller]
    pub fn check(&self, broken: &[&str], kept: &[&str]) {
        assert_eq!(self.said.code, 0, "{self:#?}");
        begin_with(&lines(&self.naive, "BROKEN"), broken, self);
        begin_with(&lines(&self.berth, "KEPT"), kept, self);
        assert!(lines(&self.berth, "BROKEN").is_empty(), "{self:#?}");
    }
}

fn lines<'t>(text: &'t str, verdict: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix(verdict)).map(str::trim_start).collect()
}

#[track_caller]
fn begin_with(lines: &[&str], beginnings: &[&str], replay: &ReplayReport) {
    let fit = lines.len() == beginnings.len()
        && lines.iter().zip(beginnings).all(|(line, beginning)| line.starts_with(beginning));
    assert!(fit, "{lines:#?} do not begin with {beginnings:#?}: {replay:#?}");
}
