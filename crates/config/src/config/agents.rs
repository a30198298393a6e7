//! `[agents.NAME]`: additional agents, and changes of built-in ones.
//!
//! Not here: the built-in agents, and merging the two (see [`crate::agents`]).

use std::collections::BTreeMap;

use berth_api::Problem;
use berth_core::SafeName;

use super::registry::{KeySpec, TableSpec, ValueKind};
use super::table_reader::{ConfigPosition, ConfigValue, TableReader};
use crate::agents::DriverKind;

/// Limit for agents in the config file. `berth agents` asks all of them for their version at once.
pub(crate) const MAX_AGENTS: usize = 100;
/// Placeholder for the id of a conversation in `resume_tui` and `begin_tui`.
pub const ID: &str = "{id}";

pub(super) const TABLE: TableSpec = TableSpec {
    path: "agents.NAME",
    about: "Adds an agent, or changes a built-in one (`berth agents` lists them). A key that you leave out keeps \
            its built-in value. An empty array removes the built-in value. A name is made of letters, digits, `.`, \
            `_` and `-`; there is room for 100 agents.",
    keys: &[
        KeySpec::new("about", ValueKind::Text, "Description of the agent, in one line")
            .otherwise("none")
            .example("\"the one from next door\""),
        KeySpec::new(
            "driver",
            ValueKind::Choice(&["pty", "acp", "claude", "codex"]),
            "Protocol between berth and the agent; `pty` is any command in a terminal",
        )
        .otherwise("required for a new agent")
        .example("\"acp\""),
        KeySpec::new(
            "command",
            ValueKind::Words,
            "Command that starts the agent for its driver: a program, then its arguments. A program without `/` is \
             searched for in PATH. No shell reads the command, so `~` and `$X` are not expanded",
        )
        .otherwise("required for a new agent")
        .example("[\"my-agent\", \"--acp\"]"),
        KeySpec::new("tui", ValueKind::Words, "Command that starts the agent's own terminal interface")
            .otherwise("`command` for `pty`, else none")
            .example("[\"my-agent\"]"),
        KeySpec::new(
            "resume_tui",
            ValueKind::Words,
            "Arguments that make `tui` resume a conversation; `{id}` stands for its id",
        )
        .otherwise("not supported")
        .example("[\"--resume\", \"{id}\"]"),
        KeySpec::new(
            "begin_tui",
            ValueKind::Words,
            "Arguments that make `tui` give a new conversation an id that berth chose; `{id}` stands for it",
        )
        .otherwise("not supported")
        .example("[\"--session-id\", \"{id}\"]"),
        KeySpec::new(
            "env",
            ValueKind::Texts,
            "Variables in addition to the environment. Names beginning with BERTH_ are reserved for berth. Not the \
             place for secret keys: a session's record contains these variables. Export secret keys where you \
             start berth",
        )
        .otherwise("none")
        .example("{ MY_AGENT_HOME = \"/srv/my-agent\" }"),
        KeySpec::new(
            "conversation_kind",
            ValueKind::Text,
            "Kind of conversation that the agent writes. One lock keeps agents of one kind apart: give `claude` to \
             every agent that writes Claude Code's conversations",
        )
        .otherwise(
            "the driver's name for `claude` and `codex`, the agent's name for `acp`, none for `pty`",
        )
        .example("\"claude\""),
        KeySpec::new("install", ValueKind::Text, "Command that installs the agent, shown when its program is missing")
            .otherwise("none")
            .example("\"cargo install my-agent\""),
        KeySpec::new(
            "version",
            ValueKind::Words,
            "Arguments that make the program (the first word of `command`) print its version and do nothing else",
        )
        .otherwise("the program is not asked")
        .example("[\"--version\"]"),
    ],
};

/// The keys of one `[agents.NAME]`. `None` keeps the built-in value, or the default of a new agent.
#[derive(Debug)]
pub struct AgentConfig {
    /// Place of the table in the file.
    pub spot: ConfigPosition,
    pub about: Option<String>,
    pub driver: Option<DriverKind>,
    pub command: Option<Vec<String>>,
    pub tui: Option<Vec<String>>,
    pub resume_tui: Option<Vec<String>>,
    pub begin_tui: Option<Vec<String>>,
    pub env: Vec<(String, String)>,
    pub conversation: Option<String>,
    pub install: Option<String>,
    pub version: Option<Vec<String>>,
}

/// Reads the tables of all agents, by name.
pub(crate) fn read(top: &mut TableReader<'_>) -> Result<BTreeMap<String, AgentConfig>, Problem> {
    let mut agents = BTreeMap::new();
    for (name, keys) in top.tables("agents")? {
        if let Err(bad) = SafeName::parse(&name) {
            return Err(keys.refusal(&format!("`{name}` cannot be an agent's name: {bad}")));
        }
        if agents.len() == MAX_AGENTS {
            return Err(keys.refusal(&format!("there are more than {MAX_AGENTS} agents")));
        }
        agents.insert(name, AgentConfig::read(keys)?);
    }
    Ok(agents)
}

impl AgentConfig {
    fn read(mut keys: TableReader<'_>) -> Result<Self, Problem> {
        let read = Self {
            spot: keys.spot(),
            about: keys.text("about")?.map(|found| found.value),
            driver: keys.choice("driver", &DriverKind::ALL, DriverKind::name)?,
            command: command(&mut keys)?,
            tui: tui(&mut keys)?,
            resume_tui: with_id(&mut keys, "resume_tui")?,
            begin_tui: with_id(&mut keys, "begin_tui")?,
            env: env(&mut keys)?,
            conversation: conversation(&mut keys)?,
            install: keys.text("install")?.map(|found| found.value),
            version: keys.words("version")?.map(|found| found.value),
        };
        keys.finish()?;
        Ok(read)
    }
}

fn command(keys: &mut TableReader<'_>) -> Result<Option<Vec<String>>, Problem> {
    let Some(found) = keys.words("command")? else { return Ok(None) };
    started(keys, "command", found).map(Some)
}

/// Reads the command of the terminal interface; an empty array for an agent without one.
fn tui(keys: &mut TableReader<'_>) -> Result<Option<Vec<String>>, Problem> {
    match keys.words("tui")? {
        Some(found) if !found.value.is_empty() => started(keys, "tui", found).map(Some),
        found => Ok(found.map(|found| found.value)),
    }
}

fn started(
    keys: &TableReader<'_>,
    key: &str,
    found: ConfigValue<Vec<String>>,
) -> Result<Vec<String>, Problem> {
    if found.value.first().is_none_or(String::is_empty) {
        return Err(keys
            .refuse(key, &found.origin, "is empty")
            .hint("the first word names a program, the others are given to it"));
    }
    Ok(found.value)
}

/// Reads arguments of which one contains the id; an empty array for an operation that the agent does not support.
fn with_id(keys: &mut TableReader<'_>, key: &'static str) -> Result<Option<Vec<String>>, Problem> {
    let Some(ConfigValue { origin, value }) = keys.words(key)? else { return Ok(None) };
    if !value.is_empty() && !value.iter().any(|word| word.contains(ID)) {
        return Err(keys
            .refuse(key, &origin, "has no place for the id of the conversation")
            .hint(format!("write it as {ID}, as in [\"--resume\", \"{ID}\"]")));
    }
    Ok(Some(value))
}

fn env(keys: &mut TableReader<'_>) -> Result<Vec<(String, String)>, Problem> {
    let mut env = Vec::new();
    for (name, ConfigValue { origin, value }) in keys.texts("env")? {
        if name.is_empty() || name.contains(['=', '\0']) {
            let what = format!("cannot set {name:?}: that is not a valid name of a variable");
            return Err(keys.refuse("env", &origin, &what));
        }
        if name.starts_with("BERTH_") {
            let what = format!("cannot set {name}: it is berth's own; choose another name");
            return Err(keys.refuse("env", &origin, &what));
        }
        env.push((name, value));
    }
    Ok(env)
}

fn conversation(keys: &mut TableReader<'_>) -> Result<Option<String>, Problem> {
    let Some(ConfigValue { origin, value }) = keys.text("conversation_kind")? else { return Ok(None) };
    // The kind becomes the name of a directory.
    match SafeName::parse(&value) {
        Ok(_) => Ok(Some(value)),
        Err(bad) => Err(keys.refuse("conversation_kind", &origin, &format!("is not a valid kind: {bad}"))),
    }
}
