//! `[agents.NAME]`: agents that are added, and what is different about built-in ones.
//!
//! Not here: what is built in, and the two put together (see [`crate::agents`]).

use std::collections::BTreeMap;

use berth_api::Problem;
use berth_core::Name;

use super::keys::{Found, Keys, Spot};
use super::registry::{Key, Kind, Table};
use crate::agents::Driver;

/// More agents than anybody has. `berth agents` asks all of them at once.
pub(crate) const MAX_AGENTS: usize = 100;
/// What stands for the id of a conversation in `resume_tui` and `begin_tui`.
pub const ID: &str = "{id}";

pub(super) const TABLE: Table = Table {
    path: "agents.NAME",
    about: "Adds an agent, or changes a built-in one (`berth agents` lists them). What you do not give stays \
            as it is built in. An empty array takes away what is built in. A name is made of letters, digits, \
            `.`, `_` and `-`; there is room for 100 agents.",
    keys: &[
        Key::new("about", Kind::Text, "What it is, in a line")
            .otherwise("none")
            .example("\"the one from next door\""),
        Key::new(
            "driver",
            Kind::Choice(&["pty", "acp", "claude", "codex"]),
            "How berth talks to it; `pty` is any command in a terminal",
        )
        .otherwise("needed for a new agent")
        .example("\"acp\""),
        Key::new(
            "command",
            Kind::Words,
            "How it is started for its driver: a program, then its arguments. A program without `/` is looked \
             up in PATH. No shell reads it, so `~` and `$X` mean themselves",
        )
        .otherwise("needed for a new agent")
        .example("[\"my-agent\", \"--acp\"]"),
        Key::new("tui", Kind::Words, "How its own terminal interface is started")
            .otherwise("`command` for `pty`, else it has none")
            .example("[\"my-agent\"]"),
        Key::new(
            "resume_tui",
            Kind::Words,
            "What is added to `tui` to go on with a conversation; `{id}` stands for its id",
        )
        .otherwise("it cannot")
        .example("[\"--resume\", \"{id}\"]"),
        Key::new(
            "begin_tui",
            Kind::Words,
            "What is added to `tui` to give a new conversation an id that berth chose",
        )
        .otherwise("it cannot")
        .example("[\"--session-id\", \"{id}\"]"),
        Key::new(
            "env",
            Kind::Texts,
            "Variables on top of the environment. Names beginning with BERTH_ are berth's own. Not the place for \
             keys: a session's record has its variables in it. Export keys where you start berth",
        )
        .otherwise("none")
        .example("{ MY_AGENT_HOME = \"/srv/my-agent\" }"),
        Key::new(
            "conversation_kind",
            Kind::Text,
            "Which kind of conversations it writes. Agents of one kind are kept apart by one lock: give \
             `claude` to anything that writes Claude Code's conversations",
        )
        .otherwise(
            "the driver's name for `claude` and `codex`, the agent's name for `acp`, none for `pty`",
        )
        .example("\"claude\""),
        Key::new("install", Kind::Text, "The command that installs it, shown when it is missing")
            .otherwise("none")
            .example("\"cargo install my-agent\""),
        Key::new(
            "version",
            Kind::Words,
            "What makes the program (the first word of `command`) print its version and do nothing else",
        )
        .otherwise("it is not asked")
        .example("[\"--version\"]"),
    ],
};

/// The keys of one `[agents.NAME]`. What is not given stays as it is, or gets its default.
#[derive(Debug)]
pub struct AgentKeys {
    /// Where its name is.
    pub spot: Spot,
    pub about: Option<String>,
    pub driver: Option<Driver>,
    pub command: Option<Vec<String>>,
    pub tui: Option<Vec<String>>,
    pub resume_tui: Option<Vec<String>>,
    pub begin_tui: Option<Vec<String>>,
    pub env: Vec<(String, String)>,
    pub conversation: Option<String>,
    pub install: Option<String>,
    pub version: Option<Vec<String>>,
}

/// All of them, by name.
pub(crate) fn read(top: &mut Keys<'_>) -> Result<BTreeMap<String, AgentKeys>, Problem> {
    let mut agents = BTreeMap::new();
    for (name, keys) in top.tables("agents")? {
        if let Err(bad) = Name::parse(&name) {
            return Err(keys.refusal(&format!("`{name}` cannot be an agent's name: {bad}")));
        }
        if agents.len() == MAX_AGENTS {
            return Err(keys.refusal(&format!("there are more than {MAX_AGENTS} agents")));
        }
        agents.insert(name, AgentKeys::read(keys)?);
    }
    Ok(agents)
}

impl AgentKeys {
    fn read(mut keys: Keys<'_>) -> Result<Self, Problem> {
        let read = Self {
            spot: keys.spot(),
            about: keys.text("about")?.map(|found| found.value),
            driver: keys.choice("driver", &Driver::ALL, Driver::name)?,
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

fn command(keys: &mut Keys<'_>) -> Result<Option<Vec<String>>, Problem> {
    let Some(found) = keys.words("command")? else { return Ok(None) };
    started(keys, "command", found).map(Some)
}

/// The same; or no word at all, for an agent that has none.
fn tui(keys: &mut Keys<'_>) -> Result<Option<Vec<String>>, Problem> {
    match keys.words("tui")? {
        Some(found) if !found.value.is_empty() => started(keys, "tui", found).map(Some),
        found => Ok(found.map(|found| found.value)),
    }
}

fn started(keys: &Keys<'_>, key: &str, found: Found<Vec<String>>) -> Result<Vec<String>, Problem> {
    if found.value.first().is_none_or(String::is_empty) {
        return Err(keys
            .refuse(key, &found.origin, "is empty")
            .hint("the first word names a program, the others are given to it"));
    }
    Ok(found.value)
}

/// Words of which one has the id in it; or none at all, for what cannot be done.
fn with_id(keys: &mut Keys<'_>, key: &'static str) -> Result<Option<Vec<String>>, Problem> {
    let Some(Found { origin, value }) = keys.words(key)? else { return Ok(None) };
    if !value.is_empty() && !value.iter().any(|word| word.contains(ID)) {
        return Err(keys
            .refuse(key, &origin, "says nowhere where the id goes")
            .hint(format!("write it as {ID}, as in [\"--resume\", \"{ID}\"]")));
    }
    Ok(Some(value))
}

fn env(keys: &mut Keys<'_>) -> Result<Vec<(String, String)>, Problem> {
    let mut env = Vec::new();
    for (name, Found { origin, value }) in keys.texts("env")? {
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

fn conversation(keys: &mut Keys<'_>) -> Result<Option<String>, Problem> {
    let Some(Found { origin, value }) = keys.text("conversation_kind")? else { return Ok(None) };
    // It becomes the name of a directory.
    match Name::parse(&value) {
        Ok(_) => Ok(Some(value)),
        Err(bad) => Err(keys.refuse("conversation_kind", &origin, &format!("is not a kind: {bad}"))),
    }
}
