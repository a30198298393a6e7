//! The agents berth knows: what each is called, how it is started, and whose conversations it writes.
//!
//! Promise: every agent in a [`Table`] has a command and a driver, and a name that can be typed. What the
//! config file says counts over what is built in, key by key.
//! Not here: talking to one (the keeper's drivers: they get a finished command and never see this table),
//! the file itself (see [`crate::config`]), asking for versions (see `cmd/agents`).
//! Start with [`Table::load`], then [`Agent::structured_command`] and [`Agent::tui_command`].

mod built_in;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use berth_api::{Code, Problem};
use berth_host::spawn::{ProgramError, find_program};

use crate::config::{AgentKeys, Config, ID, Spot, did_you_mean};

/// How we talk to an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// Any command, in a terminal.
    Pty,
    /// The Agent Client Protocol.
    Acp,
    /// Claude Code's own stream of JSON.
    Claude,
    /// Codex' app-server.
    Codex,
}

impl Driver {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Pty, Self::Acp, Self::Claude, Self::Codex];

    /// As it is written in records, the config file and on the screen.
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
pub enum Source {
    /// From the table in this program.
    BuiltIn,
    /// The config file says all of it, or changes something.
    Config {
        /// Where it does.
        spot: Spot,
    },
}

impl Source {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Config { .. } => "config",
        }
    }
}

/// How an agent's own terminal interface is to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TuiBegin<'a> {
    /// With a new conversation, whose id the agent chooses.
    Fresh,
    /// With a new conversation, whose id we chose.
    FreshAs(&'a str),
    /// With the conversation that has this id.
    Resume(&'a str),
}

/// A program that does the work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agent {
    /// What it is called on the command line.
    pub name: String,
    /// What it is, in a line.
    pub about: Option<String>,
    /// How we talk to it.
    pub driver: Driver,
    /// How it is started for its driver. The driver may add words of its own.
    pub command: Vec<String>,
    /// How its own terminal interface is started, if it has one.
    pub tui: Option<Vec<String>>,
    /// What is added to that to go on with a conversation; [`ID`] stands for its id.
    pub resume_tui: Option<Vec<String>>,
    /// What is added to that to give a new conversation an id of ours.
    pub begin_tui: Option<Vec<String>>,
    /// Variables on top of the environment.
    pub env: Vec<(String, String)>,
    /// Which kind of conversations it writes. Agents that write the same kind can meet in one
    /// conversation, and one lock keeps them apart. `None`: it has none that we know of.
    pub conversation: Option<String>,
    /// The command that installs it.
    pub install: Option<String>,
    /// What makes its program print its version and do nothing else. `None`: we do not know, and so
    /// never try.
    pub version: Option<Vec<String>>,
    /// Who says so.
    pub source: Source,
}

/// All agents: the built-in ones in their order, then those of the config file by name.
#[derive(Debug)]
pub struct Table {
    agents: Vec<Agent>,
    config: Option<PathBuf>,
}

impl Table {
    /// The built-in agents, with what this person's config file adds and changes.
    pub fn load() -> Result<Self, Problem> {
        Self::new(Config::load()?)
    }

    /// The same with a config that was read before.
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

    /// The agent of this name.
    pub fn find(&self, name: &str) -> Result<&Agent, Problem> {
        self.agents.iter().find(|agent| agent.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.agents.iter().map(|agent| agent.name.as_str()).collect();
            let what = format!("no agent is called `{name}`{}", did_you_mean(name, &names));
            let add = self.config.as_ref();
            let add = add.map(|path| format!("; [agents.NAME] in {} adds one", path.display()));
            Problem::new(Code::NotFound, what)
                .hint(format!("`berth agents` lists them{}", add.unwrap_or_default()))
        })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.agents.iter()
    }

    /// Where the config file is, or would be.
    pub fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }
}

impl Agent {
    /// How it is started for its driver, with more words for it.
    pub fn structured_command(&self, extra: &[String]) -> Vec<String> {
        [self.command.as_slice(), extra].concat()
    }

    /// How its own terminal interface is started, with more words for it.
    pub fn tui_command(&self, begin: TuiBegin<'_>, extra: &[String]) -> Result<Vec<String>, Problem> {
        let name = &self.name;
        let refused = |what: String, key: &str| {
            Problem::new(Code::Refused, what)
                .hint(format!("if it can, say how with `{key}` in [agents.{name}] of the config file"))
        };
        let tui = self.tui.as_ref().ok_or_else(|| {
            refused(format!("agent `{name}` has no terminal interface of its own that berth knows of"), "tui")
        })?;
        let added = match begin {
            TuiBegin::Fresh => Vec::new(),
            TuiBegin::FreshAs(id) => {
                let words = self.begin_tui.as_ref().ok_or_else(|| {
                    let what = format!(
                        "the terminal interface of agent `{name}` cannot be told the id of a new conversation"
                    );
                    refused(what, "begin_tui")
                })?;
                filled_in(words, id)?
            }
            TuiBegin::Resume(id) => {
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

    /// The file of a command of this agent, as the keeper will find it. What is missing is told with the
    /// command that installs it.
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
                Some(install) => format!("install it with `{install}`, or {elsewhere}"),
                None => elsewhere,
            };
            Problem::new(Code::NotFound, what).hint(hint)
        })
    }

    fn path_variable(&self) -> Option<OsString> {
        let own = self.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.into());
        own.or_else(|| std::env::var_os("PATH"))
    }

    /// Takes over what the config file says.
    fn change(&mut self, keys: AgentKeys) {
        // `--version` is a question to the program we know. Another one might do anything with it.
        let same_program = |command: &Vec<String>| file_name(command) == file_name(&self.command);
        if !keys.command.as_ref().is_none_or(same_program) {
            self.version = None;
        }
        let AgentKeys { spot, about, driver, command, tui, resume_tui, begin_tui, env, .. } = keys;
        let AgentKeys { conversation, install, version, .. } = keys;
        self.source = Source::Config { spot };
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

/// A list in the config file counts; an empty one means that there is none.
fn replace(words: &mut Option<Vec<String>>, given: Option<Vec<String>>) {
    if let Some(given) = given {
        *words = Some(given).filter(|given| !given.is_empty());
    }
}

fn file_name(command: &[String]) -> Option<&std::ffi::OsStr> {
    Path::new(command.first()?).file_name()
}

fn filled_in(words: &[String], id: &str) -> Result<Vec<String>, Problem> {
    // The agent would take it for an option, or for no id at all and ask a person.
    if id.is_empty() || id.starts_with('-') || id.contains('\0') {
        return Err(Problem::new(Code::Usage, format!("{id:?} cannot be the id of a conversation")));
    }
    Ok(words.iter().map(|word| word.replace(ID, id)).collect())
}

/// A built-in agent that is talked to in another way is another program.
fn check_change(config: &Config, agent: &Agent, keys: &AgentKeys) -> Result<(), Problem> {
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

/// An agent that only the config file knows.
fn added(config: &Config, name: String, keys: AgentKeys) -> Result<Agent, Problem> {
    let missing = |key: &str, example: &str| {
        let names: Vec<String> = built_in::agents().into_iter().map(|agent| agent.name).collect();
        let meant = did_you_mean(&name, &names);
        let what = format!("[agents.{name}] is a new agent and has no `{key}`{meant}");
        config.refusal(keys.spot, &what).hint(format!("say it, as in {key} = {example}"))
    };
    let driver = keys.driver.ok_or_else(|| missing("driver", "\"acp\""))?;
    let command = keys.command.clone().ok_or_else(|| missing("command", "[\"my-agent\", \"--acp\"]"))?;
    // Any command in a terminal is a terminal interface.
    let tui = Some(command.clone()).filter(|_| driver == Driver::Pty);
    let conversation = match driver {
        Driver::Pty => None,
        // Ids of different programs must not meet in one kind.
        Driver::Acp => Some(name.clone()),
        Driver::Claude | Driver::Codex => Some(driver.name().to_owned()),
    };
    let mut agent = Agent {
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
        source: Source::Config { spot: keys.spot },
    };
    agent.change(keys);
    Ok(agent)
}

#[cfg(test)]
mod tests;
