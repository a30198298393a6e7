//! What can be typed to wait, and for what.

use std::time::Duration;

use super::duration;

/// Wait for a turn, an agent, the end of a run, or a line of output.
///
/// A turn (fix.3) is waited for until it is over; the exit code tells how it ended, as for `send --wait`. For a
/// session: `idle` (nothing to do; the default where the agent takes turns), `done` (the latest turn is over,
/// exit code as above), `needs-you` (it asks something, or its queue is held), `exit` (the run is over), or
/// `output:REGEX`. For `exit` the command's own code is passed through (128+N for a signal; 1 if the run was
/// lost). For `output:REGEX` the output of the current run is searched from its beginning, without
/// colours. Exit 6 when the time is up.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth wait fix.1                       the exit code says how that turn ended
  berth wait fix --timeout 10m           until it has nothing to do
  berth wait tests --for exit
  berth wait tests --for 'output:test result: .*'")]
pub(crate) struct Wait {
    /// The session, or a turn [default: the current session]
    #[arg(value_name = "S|T")]
    pub(crate) session: Option<String>,
    /// What to wait for: idle, done, needs-you, exit, or output:REGEX
    #[arg(long = "for", value_name = "WHAT", value_parser = wait_for)]
    pub(crate) what: Option<WaitFor>,
    /// Give up after this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print what `show --json` prints
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum WaitFor {
    Idle,
    Done,
    NeedsYou,
    Exit,
    Output(regex::bytes::Regex),
}

fn wait_for(text: &str) -> Result<WaitFor, String> {
    match text.split_once(':') {
        None if text == "exit" => Ok(WaitFor::Exit),
        None if text == "idle" => Ok(WaitFor::Idle),
        None if text == "done" => Ok(WaitFor::Done),
        None if text == "needs-you" => Ok(WaitFor::NeedsYou),
        Some(("output", pattern)) => {
            let regex = regex::bytes::RegexBuilder::new(pattern).multi_line(true).build();
            Ok(WaitFor::Output(regex.map_err(|error| error.to_string())?))
        }
        Some(_) | None => Err("wait for idle, done, needs-you, exit, or output:REGEX".to_owned()),
    }
}
