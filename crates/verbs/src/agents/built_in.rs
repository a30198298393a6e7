//! The agents that need no config file.
//!
//! Promise: no entry says of a program what the program itself does not offer.
//! Not here: what a config file makes of it (see [`super::Table`]).
//! Start with [`agents`].

use super::{Agent, Driver, Source};

/// One row. Words are separated by spaces; an empty text means that there is none.
struct Row {
    name: &'static str,
    about: &'static str,
    driver: Driver,
    command: &'static str,
    tui: &'static str,
    resume_tui: &'static str,
    begin_tui: &'static str,
    conversation: &'static str,
    install: &'static str,
}

const ROWS: [Row; 6] = [
    Row {
        name: "claude",
        about: "Claude Code",
        driver: Driver::Claude,
        command: "claude",
        tui: "claude",
        resume_tui: "--resume {id}",
        begin_tui: "--session-id {id}",
        conversation: "claude",
        install: "npm install -g @anthropic-ai/claude-code",
    },
    Row {
        name: "codex",
        about: "Codex",
        driver: Driver::Codex,
        command: "codex app-server",
        // Else a daemon has the conversation: it outlives the terminal, and hooks come from it.
        tui: "codex --no-daemon",
        resume_tui: "resume {id}",
        begin_tui: "",
        conversation: "codex",
        install: "npm install -g @openai/codex",
    },
    Row {
        name: "claude-acp",
        about: "Claude Code behind its ACP adapter, which brings a Claude Code of its own",
        driver: Driver::Acp,
        command: "claude-agent-acp",
        tui: "",
        resume_tui: "",
        begin_tui: "",
        conversation: "claude",
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
    },
    Row {
        name: "codex-acp",
        about: "Codex behind its ACP adapter, which brings a Codex of its own",
        driver: Driver::Acp,
        command: "codex-acp",
        tui: "",
        resume_tui: "",
        begin_tui: "",
        conversation: "codex",
        install: "npm install -g @agentclientprotocol/codex-acp",
    },
    Row {
        name: "opencode",
        about: "OpenCode",
        driver: Driver::Acp,
        command: "opencode acp",
        tui: "opencode",
        resume_tui: "--session {id}",
        begin_tui: "",
        conversation: "opencode",
        install: "npm install -g opencode-ai",
    },
    Row {
        name: "gemini",
        about: "Gemini CLI",
        driver: Driver::Acp,
        command: "gemini --acp",
        tui: "gemini",
        resume_tui: "",
        begin_tui: "",
        conversation: "gemini",
        install: "npm install -g @google/gemini-cli",
    },
];

/// All of them.
pub(crate) fn agents() -> Vec<Agent> {
    ROWS.iter().map(agent).collect()
}

fn agent(row: &Row) -> Agent {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let some = |text: &str| Some(words(text)).filter(|words| !words.is_empty());
    Agent {
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
        // Tried with all six: it is answered at once, and nothing is started.
        version: some("--version"),
        source: Source::BuiltIn,
    }
}
