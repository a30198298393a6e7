//! Arguments of `berth attach`, `input`, `screen` and `output`, which use a session's terminal.

use berth_api::Problem;
use berth_api::record::AgentInterface;
use berth_config::config::CtrlKey;

/// Options for leaving an attached session.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct LeaveKeyArgs {
    /// The key that leaves the session running, as in ctrl-b [default: `ui.leave_key` of the config, else ctrl-\]
    #[arg(long, value_name = "KEY", value_parser = leave_key)]
    pub(crate) leave_key: Option<CtrlKey>,
}

fn leave_key(text: &str) -> Result<CtrlKey, String> {
    CtrlKey::parse(text).map_err(|bad| format!("this is {bad}"))
}

/// Attach to a session's terminal or chat. Ctrl-\ leaves it running.
///
/// One client types, the others watch. While another client is attached, attaching is refused (exit 4); watch
/// with --observe, or take over with --take, which makes the other client an observer. An observer's terminal shows the
/// part of the session's screen around the cursor, at any size of the terminal, and a line that says "only watching".
///
/// Lines that scrolled off the screen are printed first, from the session's output, unless an application uses the
/// whole screen. A session that is not running can be resumed: at a terminal you are asked.
///
/// An agent that takes turns has a chat instead of a terminal: Enter sends your message, Alt-Enter begins a new line,
/// Ctrl-C cancels, Ctrl-D leaves. docs/terminal.md has all keys.
///
/// Claude Code and Codex have two interfaces for one conversation: --tui goes on with the agent's own interface in a
/// terminal, --chat with the turns. The running turn is finished first; --now interrupts it. Queued turns stay in the
/// queue.
///
/// Leaving is exit 0. When the command ends while you are attached, its exit code is passed through
/// (128+N for a signal; 1 if the run was lost).
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "\
Examples:
  berth attach fix                      Ctrl-\\ leaves it running
  berth attach fix --observe            only watch, while another client types
  berth attach fix --take
  berth attach fix --tui                the agent's own interface; see --chat
  berth attach fix --leave-key ctrl-b   for a program that needs Ctrl-\\")]
pub(crate) struct AttachArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Watch without typing
    #[arg(short, long, conflicts_with = "take")]
    pub(crate) observe: bool,
    /// Take over from the client that is attached
    #[arg(short, long)]
    pub(crate) take: bool,
    /// Number of lines to print from above the screen, at most 20000; 0 for none [default: 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=20_000))]
    pub(crate) lines: Option<u16>,
    #[command(flatten)]
    pub(crate) leave: LeaveKeyArgs,
    #[command(flatten)]
    pub(crate) switch: InterfaceArgs,
}

/// Choice of the agent's interface.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct InterfaceArgs {
    /// Go on with the agent's own interface in a terminal, in the same conversation
    #[arg(long, conflicts_with = "chat")]
    pub(crate) tui: bool,
    /// Go on with the chat: turns, in the same conversation
    #[arg(long)]
    pub(crate) chat: bool,
    /// With --tui or --chat: interrupt the running turn instead of waiting for its end
    #[arg(long)]
    pub(crate) now: bool,
}

impl InterfaceArgs {
    /// The chosen interface; `None` to keep the current one.
    pub(crate) fn to(&self) -> Result<Option<AgentInterface>, Problem> {
        match (self.tui, self.chat) {
            (true, _) => Ok(Some(AgentInterface::Terminal)),
            (false, true) => Ok(Some(AgentInterface::Chat)),
            (false, false) if self.now => Err(Problem::usage("--now needs --tui or --chat")),
            (false, false) => Ok(None),
        }
    }
}

/// Type into a session's terminal, from a script.
///
/// Refused (exit 4) while another client is attached; --take types anyway and makes that client an observer. `-` types
/// the text from standard input; text that begins with a dash follows `--`.
#[derive(clap::Args, Debug)]
#[command(override_usage = "berth input [OPTIONS] <S> <TEXT>...")]
#[command(after_help = "\
Examples:
  berth input fix --enter 'run the tests again'
  berth input fix $'\\x03'              Ctrl-C
  berth input fix --enter -- --help     text that begins with a dash
  git diff | berth input fix -")]
pub(crate) struct InputArgs {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// Press Enter afterwards
    #[arg(short, long)]
    pub(crate) enter: bool,
    /// Type even if another client is attached
    #[arg(short, long)]
    pub(crate) take: bool,
    /// The text to type; `-` for standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
}

/// Print a session's screen, now or at its end.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth screen fix
  berth screen fix --ansi | less -R")]
pub(crate) struct ScreenArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Plain text (the default)
    #[arg(long, conflicts_with = "ansi")]
    pub(crate) text: bool,
    /// Text with colours and other styles
    #[arg(long)]
    pub(crate) ansi: bool,
}

/// Print a session's raw output, from the beginning or from an offset.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth output tests
  berth output tests --follow | grep error
  berth output tests --from 1000")]
pub(crate) struct OutputArgs {
    /// The session [default: the current one]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// Follow new output until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Begin at this byte of the output
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    pub(crate) from: u64,
}
