//! Table of agents that berth knows: each agent's name, start command, driver and kind of conversation.
//!
//! Promise: every agent in a [`AgentTable`] has a command, a driver and a name that can be typed. A key of the config file
//! overrides the built-in value of that key only.
//! Not here: talking to an agent (the keeper's drivers get a finished command and never see this table), the config
//! file itself (see [`crate::config`]), asking for versions (see `cmd/agents`).
//! Start with [`AgentTable::load`], then [`AgentDefinition::structured_command`] and [`AgentDefinition::tui_command`].

mod built_in;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use berth_api::Problem;
use berth_host::spawn::{ProgramError, find_program};

use crate::config::{AgentConfig, Config, ConfigPosition, ID, did_you_mean};

/// Protocol between berth and an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverKind {
    /// Any command, in a terminal; berth sees only its bytes.
    Pty,
    /// The Agent Client Protocol.
    Acp,
    /// Claude Code's stream of JSON messages (stream-json).
    Claude,
    /// Codex' own protocol, `codex app-server`.
    Codex,
}

impl DriverKind {
    /// Every driver, in the order in which lists show them.
    pub const ALL: [Self; 4] = [Self::Pty, Self::Acp, Self::Claude, Self::Codex];

    /// The driver's name as records, the config file and the screen write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pty => "pty",
            Self::Acp => "acp",
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }
}

/// Where an agent's entry comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgentSource {
    /// The table in this program, without a change by the config file.
    BuiltIn,
    /// The config file: it adds the agent, or overrides at least one key of a built-in one.
    Config {
        /// Place of the agent's table in the config file.
        spot: ConfigPosition,
    },
}

impl AgentSource {
    /// A single word for tables and JSON: `built-in` or `config`.
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Config { .. } => "config",
        }
    }
}

/// Conversation with which an agent's own terminal interface begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TuiStart<'a> {
    /// A new conversation; the agent chooses its id.
    Fresh,
    /// A new conversation; berth chose its id.
    FreshAs(&'a str),
    /// An existing conversation, by its id.
    Resume(&'a str),
}

/// Agent: a program that does the work of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentDefinition {
    /// Name on the command line, as in `berth run --agent NAME`.
    pub name: String,
    /// Description in one line; `None` if the config file gives none.
    pub about: Option<String>,
    /// Protocol between berth and the agent.
    pub driver: DriverKind,
    /// Command that starts the agent for its driver. The driver may append arguments of its own.
    pub command: Vec<String>,
    /// Command that starts the agent's own terminal interface, if it has one.
    pub tui: Option<Vec<String>>,
    /// Arguments that make `tui` resume a conversation; [`ID`] stands for its id.
    pub resume_tui: Option<Vec<String>>,
    /// Arguments that make `tui` give a new conversation an id that berth chose.
    pub begin_tui: Option<Vec<String>>,
    /// Variables that berth sets for the agent, in addition to the environment.
    pub env: Vec<(String, String)>,
    /// Kind of conversation that the agent writes. Agents of one kind can write the same conversation, so they share
    /// one lock. `None`: the agent has no conversations that berth knows of.
    pub conversation: Option<String>,
    /// Command that installs the agent; error hints show it.
    pub install: Option<String>,
    /// Arguments that make the program print its version and do nothing else. `None`: not known, so berth never asks.
    pub version: Option<Vec<String>>,
    /// Origin of the entry: the built-in table or the config file.
    pub source: AgentSource,
}

/// All agents: the built-in ones in their order, then those of the config file by name.
#[derive(Debug)]
pub struct AgentTable {
    agents: Vec<AgentDefinition>,
    config: Option<PathBuf>,
}

impl AgentTable {
    /// The built-in agents, with what the user's config file adds and changes.
    pub fn load() -> Result<Self, Problem> {
        Self::new(Config::load()?)
    }

    /// Builds the table from a config that the caller has already read.
    pub fn new(mut config: Config) -> Result<Self, Problem> {
        let mut agents = built_in::agents();
        for agent in &mut agents {
            if let Some(keys) = config.agents.remove(&agent.name) {
                check_change(&config, agent, &keys)?;
                agent.change(keys);
            }
        }
        for (name, keys) in std::mem::take(&mut config.agents) {
            agents.push(added(&config, name, keys)?);
        }
        Ok(Self { agents, config: config.path })
    }

    /// Finds an agent by name; the error suggests a similar name.
    pub fn find(&self, name: &str) -> Result<&AgentDefinition, Problem> {
        self.agents.iter().find(|agent| agent.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.agents.iter().map(|agent| agent.name.as_str()).collect();
            let what = format!("no agent is called `{name}`{}", did_you_mean(name, &names));
            let add = self.config.as_ref();
            let add = add.map(|path| format!("; [agents.NAME] in {} adds one", path.display()));
            Problem::not_found(what).hint(format!("`berth agents` lists them{}", add.unwrap_or_default()))
        })
    }

    /// Every agent, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = &AgentDefinition> {
        self.agents.iter()
    }

    /// Path of the config file, also if the file does not exist yet.
    pub fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }
}

impl AgentDefinition {
    /// The command that starts the agent for its driver, with `extra` arguments appended.
    pub fn structured_command(&self, extra: &[String]) -> Vec<String> {
        [self.command.as_slice(), extra].concat()
    }

    /// The command that starts the agent's own terminal interface, with `extra` arguments appended.
    pub fn tui_command(&self, begin: TuiStart<'_>, extra: &[String]) -> Result<Vec<String>, Problem> {
        let name = &self.name;
        let refused = |what: String, key: &str| {
            Problem::refused(what)
                .hint(format!("if it can, say how with `{key}` in [agents.{name}] of the config file"))
        };
        let tui = self.tui.as_ref().ok_or_else(|| {
            refused(format!("agent `{name}` has no terminal interface of its own that berth knows of"), "tui")
        })?;
        let added = match begin {
            TuiStart::Fresh => Vec::new(),
            TuiStart::FreshAs(id) => {
                let words = self.begin_tui.as_ref().ok_or_else(|| {
                    let what = format!(
                        "the terminal interface of agent `{name}` cannot be told the id of a new conversation"
                    );
                    refused(what, "begin_tui")
                })?;
                filled_in(words, id)?
            }
            TuiStart::Resume(id) => {
                let words = self.resume_tui.as_ref().ok_or_else(|| {
                    let what = format!(
                        "the terminal interface of agent `{name}` cannot be told to resume a conversation"
                    );
                    refused(what, "resume_tui")
                })?;
                filled_in(words, id)?
            }
        };
        Ok([tui.as_slice(), &added, extra].concat())
    }

    /// Finds the program of a command of this agent, in the way the keeper will. The error for a missing program names
    /// the command that installs it.
    pub fn locate(&self, command: &[String], cwd: &Path) -> Result<PathBuf, Problem> {
        let path = self.path_variable();
        let program = command.first().map(String::as_str).unwrap_or_default();
        find_program(program.as_ref(), path.as_deref(), cwd).map_err(|error| {
            let name = &self.name;
            let what = match &error {
                ProgramError::NotInPath(_) => {
                    let looked = path.unwrap_or_default();
                    format!("agent `{name}` is not installed: {error} ({})", looked.display())
                }
                ProgramError::NoFile(_) => format!("agent `{name}` is not installed: {error}"),
                ProgramError::NotExecutable(_) | ProgramError::Look { .. } => {
                    format!("agent `{name}` cannot be started: {error}")
                }
            };
            let elsewhere = format!("say where it is with `command` in [agents.{name}] of the config file");
            let hint = match &self.install {
                Some(install) => {
                    format!("install it with `{install}`, or {elsewhere}; any other command can be kept as well: `berth run -- bash`")
                }
                None => elsewhere,
            };
            Problem::not_found(what).hint(hint)
        })
    }

    fn path_variable(&self) -> Option<OsString> {
        let own = self.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.into());
        own.or_else(|| std::env::var_os("PATH"))
    }

    /// Overrides this entry with the keys that the config file gives.
    fn change(&mut self, keys: AgentConfig) {
        // `--version` is safe for the built-in program. Another program might do anything with that option.
        let same_program = |command: &Vec<String>| file_name(command) == file_name(&self.command);
        if !keys.command.as_ref().is_none_or(same_program) {
            self.version = None;
        }
        let AgentConfig { spot, about, driver, command, tui, resume_tui, begin_tui, env, .. } = keys;
        let AgentConfig { conversation, install, version, .. } = keys;
        self.source = AgentSource::Config { spot };
        self.about = about.or(self.about.take());
        self.driver = driver.unwrap_or(self.driver);
        if let Some(command) = command {
            self.command = command;
        }
        replace(&mut self.tui, tui);
        replace(&mut self.resume_tui, resume_tui);
        replace(&mut self.begin_tui, begin_tui);
        replace(&mut self.version, version);
        self.env.extend(env);
        self.conversation = conversation.or(self.conversation.take());
        self.install = install.or(self.install.take());
    }
}

/// A list in the config file replaces the built-in one; an empty list removes it.
fn replace(words: &mut Option<Vec<String>>, given: Option<Vec<String>>) {
    if let Some(given) = given {
        *words = Some(given).filter(|given| !given.is_empty());
    }
}

fn file_name(command: &[String]) -> Option<&std::ffi::OsStr> {
    Path::new(command.first()?).file_name()
}

fn filled_in(words: &[String], id: &str) -> Result<Vec<String>, Problem> {
    // The agent would take it for an option, or for a missing id and ask a person.
    if id.is_empty() || id.starts_with('-') || id.contains('\0') {
        return Err(Problem::usage(format!("{id:?} is not a valid id of a conversation")));
    }
    Ok(words.iter().map(|word| word.replace(ID, id)).collect())
}

/// Rejects another driver for a built-in agent without a command: another protocol needs another program.
fn check_change(config: &Config, agent: &AgentDefinition, keys: &AgentConfig) -> Result<(), Problem> {
    match keys.driver {
        Some(driver) if driver != agent.driver && keys.command.is_none() => {
            let what = format!(
                "[agents.{}] has another `driver` than the built-in one, and no `command` that goes with it",
                agent.name
            );
            Err(config.refusal(keys.spot, &what))
        }
        Some(_) | None => Ok(()),
    }
}

/// Builds an agent that only the config file defines.
fn added(config: &Config, name: String, keys: AgentConfig) -> Result<AgentDefinition, Problem> {
    let missing = |key: &str, example: &str| {
        let names: Vec<String> = built_in::agents().into_iter().map(|agent| agent.name).collect();
        let meant = did_you_mean(&name, &names);
        let what = format!("[agents.{name}] is a new agent and has no `{key}`{meant}");
        config.refusal(keys.spot, &what).hint(format!("set it, as in {key} = {example}"))
    };
    let driver = keys.driver.ok_or_else(|| missing("driver", "\"acp\""))?;
    let command = keys.command.clone().ok_or_else(|| missing("command", "[\"my-agent\", \"--acp\"]"))?;
    // A command in a terminal is its own terminal interface.
    let tui = Some(command.clone()).filter(|_| driver == DriverKind::Pty);
    let conversation = match driver {
        DriverKind::Pty => None,
        // Ids of different programs must not share a kind.
        DriverKind::Acp => Some(name.clone()),
        DriverKind::Claude | DriverKind::Codex => Some(driver.name().to_owned()),
    };
    let mut agent = AgentDefinition {
        name,
        about: None,
        driver,
        command,
        tui,
        resume_tui: None,
        begin_tui: None,
        env: Vec::new(),
        conversation,
        install: None,
        version: None,
        source: AgentSource::Config { spot: keys.spot },
    };
    agent.change(keys);
    Ok(agent)
}

#[cfg(test)]
mod tests;
