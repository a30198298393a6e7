//! Traits of agents: the differences between kinds of agents, as plain values.
//!
//! Promise: code that decides by a trait also works with an agent of an unknown kind, which has no traits.
//! Not here: the agents' protocols (see [`crate::Driver`]), the place and format of the agents' own files
//! (`berth_transcript`).
//! Start with [`AgentTraits::of`].

use berth_core::TerminalTraits;

use crate::hooks::HookCarrier;

/// Properties of one kind of agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgentTraits {
    /// Behaviour of its terminal interface with typed text.
    pub terminal: TerminalTraits,
    /// True if an interrupt before the first answer puts the prompt back into the input box.
    pub restores_prompt: bool,
    /// True if its hooks report nothing before the first prompt.
    pub tells_late: bool,
    /// True if it reports the end of a turn a second time, without the path of its transcript, and maybe after the next
    /// turn began.
    pub tells_ends_twice: bool,
    /// True if its terminal changes as long as it works, so that a still terminal may mean an end that no hook
    /// reported.
    pub paints_while_working: bool,
    /// True if the id of a conversation goes onto its command line even where berth speaks its protocol.
    pub takes_id_as_argument: bool,
    /// Sign by which its processes show the conversation that they write.
    pub writer_sign: WriterSign,
    /// Variables by which the processes that it starts name its conversation.
    pub child_marks: Option<ChildEnvVars>,
    /// Texts that only the agent writes around the command of a tool, in the arguments of a shell.
    pub tool_wrappings: &'static [&'static str],
    /// Variables that belong to one run of it. A session that is started from inside such a run must not inherit them:
    /// its agent would refuse to start, or be taken for a writer of the first one's conversation.
    pub run_variables: &'static [&'static str],
    /// The way in which a run of it carries hooks.
    pub hooks: HookCarrier,
}

/// Sign by which an agent's process shows the conversation that it writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterSign {
    /// No sign is known.
    None,
    /// A file for each process, named by its pid, with the id of its conversation and the activity of the process.
    ProcessFile {
        /// Folder of these files, in the agent's directory.
        folder: &'static str,
    },
    /// A lock for each conversation, which its writer holds.
    ConversationLock {
        /// Folder of the locks, in the agent's directory.
        folder: &'static str,
        /// Folder of the transcripts, which a writer keeps open.
        transcripts: &'static str,
    },
}

/// Variables by which the processes that an agent starts name its conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildEnvVars {
    /// Variable with the id of the conversation.
    pub conversation: &'static str,
    /// Variable with the pid of the agent, if there is one.
    pub agent_pid: Option<&'static str>,
}

/// An agent of an unknown kind.
const UNKNOWN: AgentTraits = AgentTraits {
    terminal: TerminalTraits { joins_prompts: false, hash_makes_note: false },
    restores_prompt: false,
    tells_late: false,
    tells_ends_twice: false,
    paints_while_working: false,
    takes_id_as_argument: false,
    writer_sign: WriterSign::None,
    child_marks: None,
    tool_wrappings: &[],
    run_variables: &[],
    hooks: HookCarrier::None,
};

/// Traits of Claude Code; docs/agents.md has the verified version.
const CLAUDE: AgentTraits = AgentTraits {
    terminal: TerminalTraits { joins_prompts: false, hash_makes_note: true },
    restores_prompt: true,
    takes_id_as_argument: true,
    writer_sign: WriterSign::ProcessFile { folder: "sessions" },
    child_marks: Some(ChildEnvVars { conversation: "CLAUDE_CODE_SESSION_ID", agent_pid: Some("CLAUDE_PID") }),
    // The shell's settings before the command, if the agent could read them, and the shell's directory afterwards.
    tool_wrappings: &["/shell-snapshots/snapshot-", " && pwd -P >| "],
    run_variables: &[
        "CLAUDECODE",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_MESSAGING_SOCKET",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CLAUDE_ENV_FILE",
        "CLAUDE_PID",
        "AI_AGENT",
    ],
    hooks: HookCarrier::Plugin { protocol: "claude" },
    ..UNKNOWN
};

/// Traits of Codex; docs/agents.md has the verified version.
const CODEX: AgentTraits = AgentTraits {
    terminal: TerminalTraits { joins_prompts: true, hash_makes_note: false },
    tells_late: true,
    tells_ends_twice: true,
    paints_while_working: true,
    writer_sign: WriterSign::ConversationLock { folder: "thread-writer-locks", transcripts: "sessions" },
    child_marks: Some(ChildEnvVars { conversation: "CODEX_THREAD_ID", agent_pid: None }),
    run_variables: &[
        "CODEX_THREAD_ID",
        "CODEX_SESSION_ID",
        "CODEX_TOOL_CALL_ID",
        "CODEX_VERSION",
        "CODEX_CI",
    ],
    hooks: HookCarrier::NotifySetting { trusts_all: "--dangerously-bypass-hook-trust" },
    ..UNKNOWN
};

impl AgentTraits {
    /// All kinds that have traits, by the names of their conversations' kinds.
    pub const ALL: [(&'static str, Self); 2] = [("claude", CLAUDE), ("codex", CODEX)];

    /// The traits of agents whose conversations are of this kind; none for an unknown kind.
    pub fn of(kind: &str) -> Self {
        Self::ALL.into_iter().find(|(known, _)| *known == kind).map_or(UNKNOWN, |(_, traits)| traits)
    }
}
