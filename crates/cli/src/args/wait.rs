//! Arguments of `berth wait`.

use std::time::Duration;

use super::parse_duration;

/// Wait for a turn, an agent, the end of a run, or a line of output.
///
/// For a turn (fix.3), waits until it is over; the exit code tells how it ended, as for `send --wait`. For a
/// session: `idle` (nothing to do; the default for an agent in a chat), `done` (the latest turn is over, exit code as
/// above), `needs-you` (the agent asks something, or the queue is held), `exit` (the run is over; the default for a session
/// with a terminal), or `output:REGEX`. For `exit` the command's own code is passed through (128+N for a signal; 1 if the run was
/// lost). For `output:REGEX` the output of the current run is searched from its beginning, without
/// colours. Exit 6 after --timeout.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth wait fix.1                       the exit code says how that turn ended
  berth wait fix --for idle --timeout 10m
  berth wait tests --for exit
  berth wait tests --for 'output:test result: .*'")]
pub(crate) struct WaitArgs {
    /// The session, or a turn [default: the current session]
    #[arg(value_name = "S|T")]
    pub(crate) session: Option<String>,
    /// Condition to wait for: idle, done, needs-you, exit, or output:REGEX
    #[arg(long = "for", value_name = "CONDITION", value_parser = wait_for)]
    pub(crate) what: Option<WaitForArg>,
    /// Give up after this time, with exit 6
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print JSON, as `show --json` does
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum WaitForArg {
    Idle,
    Done,
    NeedsYou,
    Exit,
    Output(regex::bytes::Regex),
}

fn wait_for(text: &str) -> Result<WaitForArg, String> {
    match text.split_once(':') {
        None if text == "exit" => Ok(WaitForArg::Exit),
        None if text == "idle" => Ok(WaitForArg::Idle),
        None if text == "done" => Ok(WaitForArg::Done),
        None if text == "needs-you" => Ok(WaitForArg::NeedsYou),
        Some(("output", pattern)) => {
            let regex = regex::bytes::RegexBuilder::new(pattern).multi_line(true).build();
            Ok(WaitForArg::Output(regex.map_err(|error| error.to_string())?))
        }
        Some(_) | None => Err("use idle, done, needs-you, exit, or output:REGEX".to_owned()),
    }
}
