//! The built-in agents: they work without a config file.
//!
//! Promise: no entry claims an option that the program itself does not have.
//! Not here: changes from the config file (see [`super::AgentTable`]).
//! Start with [`agents`].

use super::{AgentDefinition, AgentSource, DriverKind};

/// One built-in agent. Words are separated by spaces; an empty text stands for `None`.
struct BuiltInAgent {
    name: &'static str,
    about: &'static str,
    driver: DriverKind,
    command: &'static str,
    tui: &'static str,
    resume_tui: &'static str,
    begin_tui: &'static str,
    conversation: &'static str,
    install: &'static str,
}

const ROWS: [BuiltInAgent; 6] = [
    BuiltInAgent {
        name: "claude",
        about: "Claude Code",
        driver: DriverKind::Claude,
        command: "claude",
        tui: "claude",
        resume_tui: "--resume {id}",
        begin_tui: "--session-id {id}",
        conversation: "claude",
        install: "npm install -g @anthropic-ai/claude-code",
    },
    BuiltInAgent {
        name: "codex",
        about: "Codex",
        driver: DriverKind::Codex,
        command: "codex app-server",
        // Without this option a daemon owns the conversation: it outlives the terminal, and hooks come from it.
        tui: "codex --no-daemon",
        resume_tui: "resume {id}",
        begin_tui: "",
        conversation: "codex",
        install: "npm install -g @openai/codex",
    },
    BuiltInAgent {
        name: "claude-acp",
        about: "Claude Code through its ACP adapter, which bundles its own Claude Code",
        driver: DriverKind::Acp,
        command: "claude-agent-acp",
        tui: "",
        resume_tui: "",
        begin_tui: "",
        conversation: "claude",
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
    },
    BuiltInAgent {
        name: "codex-acp",
        about: "Codex through its ACP adapter, which bundles its own Codex",
        driver: DriverKind::Acp,
        command: "codex-acp",
        tui: "",
        resume_tui: "",
        begin_tui: "",
        conversation: "codex",
        install: "npm install -g @agentclientprotocol/codex-acp",
    },
    BuiltInAgent {
        name: "opencode",
        about: "OpenCode",
        driver: DriverKind::Acp,
        command: "opencode acp",
        tui: "opencode",
        resume_tui: "--session {id}",
        begin_tui: "",
        conversation: "opencode",
        install: "npm install -g opencode-ai",
    },
    BuiltInAgent {
        name: "gemini",
        about: "Gemini CLI",
        driver: DriverKind::Acp,
        command: "gemini --acp",
        tui: "gemini",
        resume_tui: "",
        begin_tui: "",
        conversation: "gemini",
        install: "npm install -g @google/gemini-cli",
    },
];

/// Every built-in agent, in the order in which lists show them.
pub(crate) fn agents() -> Vec<AgentDefinition> {
    ROWS.iter().map(agent).collect()
}

fn agent(row: &BuiltInAgent) -> AgentDefinition {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let some = |text: &str| Some(words(text)).filter(|words| !words.is_empty());
    AgentDefinition {
        name: row.name.to_owned(),
        about: Some(row.about.to_owned()),
        driver: row.driver,
        command: words(row.command),
        tui: some(row.tui),
        resume_tui: some(row.resume_tui),
        begin_tui: some(row.begin_tui),
        env: Vec::new(),
        conversation: Some(row.conversation.to_owned()),
        install: Some(row.install.to_owned()),
        // Tested with all six: each prints its version at once and starts nothing.
        version: some("--version"),
        source: AgentSource::BuiltIn,
    }
}
