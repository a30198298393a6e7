//! Arguments of `berth acp` and `berth mcp`, the servers for editors and other agents.

/// Serve sessions to an editor: Agent Client Protocol on stdio.
///
/// An editor that speaks ACP (Zed, say) starts this as its agent. Each of its conversations is a session that berth
/// keeps: prompts join the session's queue, permissions are asked in the editor and everywhere else until one is
/// answered, and closing the editor ends nothing. Only the protocol is on stdout; BERTH_LOG=info logs more to stderr.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth acp < /dev/null                 new sessions with Claude Code
  berth acp --agent codex < /dev/null   with another agent
  berth acp fix < /dev/null             the session `fix`, and no other")]
pub(crate) struct AcpArgs {
    /// The session to use [default: one session for each of the editor's conversations]
    #[arg(value_name = "S")]
    pub(crate) session: Option<String>,
    /// The agent of new sessions
    #[arg(long, value_name = "NAME", default_value = "claude")]
    pub(crate) agent: String,
}

/// Serve sessions to other agents: MCP on stdio.
///
/// Tools: list_sessions, status, start_session, send, wait, result, screen. An agent that runs in a session may do with
/// them what its session may do, and no more. Only the protocol is on stdout; BERTH_LOG=info logs more to stderr.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth mcp < /dev/null
  claude mcp add berth -- berth mcp     for all of Claude Code's own sessions")]
pub(crate) struct McpArgs {}
