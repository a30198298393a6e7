//! Arguments of `berth run` and `berth resume`, and the limits of a run.

use std::path::PathBuf;

use berth_core::Grant;
use clap::builder::TypedValueParser;

use super::{AgentRunArgs, LeaveKeyArgs, SessionLabelArgs, occasions};

/// Run an agent or a command in a new session.
///
/// With --agent, the session takes turns (see `berth send`): the id is printed once the agent is ready; with --prompt,
/// the answer is printed. With a command, or with --tui: on a terminal you are attached to it; Ctrl-\ leaves, and the
/// session goes on. Off a terminal the output is streamed and the command's exit code is passed through; killing
/// `berth run` does not kill the session. With -d, only the id is printed, once the command really runs. Without an
/// agent and a command you choose from the agents on this host; if the name is taken you may resume or replace that
/// session. Both questions are asked at a terminal only, without --detach and --json.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth run --agent claude --name fix                 then `berth send fix TEXT`
  berth run --agent codex --prompt 'why is it slow?'  prints its answer
  berth run --agent claude --tui                      its own interface
  berth run -- claude                                 likewise, as a command
  berth run -d --name tests -- cargo test             in the background
  id=$(berth run -d --key nightly-42 -- ./job.sh)     same key, same session
  berth run --replace fix --name fix -- claude        ends the old session
  berth run --max-memory 4G --max-procs 500 -- claude  limits its resources
  berth run --grant control --agent claude     may stop and answer sessions")]
pub(crate) struct RunArgs {
    /// Do not attach; print the id once the command runs
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// A name for the session
    #[arg(short, long, value_name = "N")]
    pub(crate) name: Option<String>,
    /// Directory to run the command in [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Set a variable, in addition to this environment (stored in the session's record, unless its name or value
    /// looks like a secret: such a variable has to be in the environment when the session is resumed)
    #[arg(long = "env", value_name = "K=V")]
    pub(crate) env: Vec<String>,
    /// Make this call repeatable: a second `run` with the same key starts no second session
    #[arg(long, value_name = "K")]
    pub(crate) key: Option<String>,
    /// End this session, after asking, once the new one runs; with its name as --name, the new session takes it over
    #[arg(long, value_name = "OLD")]
    pub(crate) replace: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) agent: AgentRunArgs,
    #[command(flatten)]
    pub(crate) leave: LeaveKeyArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) sorting: SessionLabelArgs,
    /// Notifications while no client watches, instead of those of the config file: needs-you, finished, failed
    /// (separated by commas), or none
    #[arg(long, value_name = "OCCASIONS", value_parser = occasions)]
    pub(crate) notify: Option<berth_core::NotificationPolicy>,
    /// Rights of the session's processes over other sessions, in addition to those of every agent: send, control,
    /// admin (docs/grants.md)
    #[arg(long, value_name = "GRANT", value_parser = grant())]
    pub(crate) grant: Option<berth_api::record::Grant>,
    /// Print JSON, as `show --json` does, and not the id or the output
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments; with --agent, more arguments for the agent
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

fn grant() -> impl clap::builder::TypedValueParser<Value = berth_api::record::Grant> {
    let words = [Grant::Send, Grant::Control, Grant::Admin];
    let named = move |text: String| words.into_iter().find(|grant| grant.word() == text);
    clap::builder::PossibleValuesParser::new(words.map(Grant::word))
        .try_map(move |text| named(text).map(Into::into).ok_or("no such word"))
}

/// Limits of a run, for all its processes together.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct LimitArgs {
    /// Limit of memory, swap included, as in 512M or 4G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_memory: Option<u64>,
    /// Limit of processes and threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_procs: Option<u64>,
    /// Limit of processor time, in cores (1.5) or in hundredths of a core (150%)
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub(crate) max_cpu: Option<u64>,
}

impl From<&LimitArgs> for berth_api::record::RunLimits {
    fn from(limits: &LimitArgs) -> Self {
        Self { memory_bytes: limits.max_memory, processes: limits.max_procs, cpu_percent: limits.max_cpu }
    }
}

/// Resume a session that stopped or was lost.
///
/// The session's command runs again in its directory, and the record goes on. If the last keeper died, berth first
/// ends the processes it left behind, and proves that they are gone. --last takes the current session of this
/// terminal if it is at rest; else the session that was lost last in this directory; else the one lost last
/// anywhere; else the one that stopped last, here or anywhere. --last never takes a command that ended by itself
/// with 0: its work is done.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "\
Examples:
  berth resume old                      attached; in a script, streamed
  berth resume old --detach
  berth resume --last                   the session that was interrupted last
  berth resume old --tui                in the agent's own interface")]
pub(crate) struct ResumeArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S", conflicts_with = "last")]
    pub(crate) session: Option<String>,
    /// Resume the session that was interrupted last
    #[arg(long)]
    pub(crate) last: bool,
    /// Begin a new conversation in the session, because the old one is gone or not wanted
    #[arg(long)]
    pub(crate) fresh: bool,
    /// End other programs that write the conversation
    #[arg(long)]
    pub(crate) take: bool,
    #[command(flatten)]
    pub(crate) switch: super::InterfaceArgs,
    /// Attach to the session (the default on a terminal)
    #[arg(long, conflicts_with_all = ["detach", "json"])]
    pub(crate) attach: bool,
    /// Do not attach; print the id once the command runs
    #[arg(short, long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) leave: LeaveKeyArgs,
    /// Print JSON, as `show --json` does, and not the id or the output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses a size in bytes: `512M`, `4G`, `1.5GiB`, or plain bytes; always in powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    const LEAST: f64 = 1024.0 * 1024.0;
    let odd = || format!("`{text}` is not a size; write one as 512M or 4G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().map_err(|_| odd())?;
    let power = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return Err(odd()),
    };
    let bytes = number * 1024_f64.powi(power);
    if !bytes.is_finite() || bytes >= i64::MAX as f64 {
        return Err(odd());
    }
    if bytes < LEAST {
        return Err(format!("{text} is less than any program needs; 1M is the least"));
    }
    Ok(bytes as u64)
}

/// Parses a number of cores, `1.5` or `150%`, into hundredths of one core.
fn cores(text: &str) -> Result<u64, String> {
    let odd = || format!("`{text}` is not a number of cores; write one as 1.5 or 150%");
    let (digits, scale) = match text.strip_suffix('%') {
        Some(percent) => (percent, 1.0),
        None => (text, 100.0),
    };
    let percent = digits.parse::<f64>().map_err(|_| odd())? * scale;
    if (1.0..=1_000_000.0).contains(&percent) { Ok(percent as u64) } else { Err(odd()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_cores_are_read_as_people_write_them() {
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("1.5GiB"), Ok(3 << 29));
        assert_eq!(size("2097152"), Ok(2 << 20));
        for bad in ["", "G", "-1G", "4X", "12", "nan", "inf", "99999999T"] {
            assert!(size(bad).is_err(), "{bad} was taken for a size");
        }
        assert_eq!((cores("1.5"), cores("150%"), cores("0.5")), (Ok(150), Ok(150), Ok(50)));
        for bad in ["", "%", "0", "-1", "x", "nan", "1e9"] {
            assert!(cores(bad).is_err(), "{bad} was taken for cores");
        }
    }
}
