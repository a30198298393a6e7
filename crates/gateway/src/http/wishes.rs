//! What people may wish for a session, as JSON: understood here, refused by name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use berth_api::life::{PolicyChange, Term};
use berth_api::record::{Grant, Limits};
use berth_api::turn::{OnFailed, OnUnknown};
use berth_api::{Code, Problem, Scope};
use berth_core::{Notify, Occasion};
use berth_verbs::run::Wanted;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::http::body::{object, object_or_null};

/// Tells what is left out from what is `null`.
pub(crate) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// When a session ends and is archived by itself. What is left out stays as it is; `null` is never.
#[derive(Deserialize, JsonSchema, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyWish {
    /// End an agent that has had nothing to do for so long.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<u64>")]
    idle_ms: Option<Option<u64>>,
    /// End the session after so long.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<u64>")]
    ttl_ms: Option<Option<u64>>,
    /// Put it away after so long at rest.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<u64>")]
    archive_after_ms: Option<Option<u64>>,
    /// Whether the queue goes on after a turn whose end is unknown.
    on_unknown: Option<OnUnknown>,
    /// What the queue does behind a turn that failed because of the model: usage limit, overload or login.
    on_failed: Option<OnFailed>,
}

impl PolicyWish {
    /// As the verbs take it.
    pub(crate) fn change(self) -> PolicyChange {
        let term = |wish: Option<Option<u64>>| match wish {
            None => Term::Same,
            Some(None) => Term::Never,
            Some(Some(ms)) => Term::After(ms),
        };
        PolicyChange {
            idle: term(self.idle_ms),
            ttl: term(self.ttl_ms),
            archive_after: term(self.archive_after_ms),
            on_unknown: self.on_unknown,
            on_failed: self.on_failed,
            notify: None,
        }
    }
}

/// What people are told of: these occasions, or what the config says.
pub(crate) fn told_of(words: Option<&[String]>) -> Result<Notify, Problem> {
    let occasion = |word: &String| {
        Occasion::named(word).ok_or_else(|| {
            let known: Vec<_> = Occasion::ALL.iter().map(|occasion| occasion.word()).collect();
            let what = format!("`notify`: `{}` is not one of {}", word.escape_debug(), known.join(", "));
            Problem::new(Code::Usage, what)
        })
    };
    let Some(words) = words else { return Ok(Notify::AsConfigured) };
    Ok(Notify::Only(words.iter().map(occasion).collect::<Result<_, _>>()?))
}

/// What a session may use.
#[derive(Deserialize, JsonSchema, Clone, Copy, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsWish {
    /// So much memory.
    #[schemars(range(min = 1))]
    memory_bytes: Option<u64>,
    /// So many processes and threads.
    #[schemars(range(min = 1))]
    processes: Option<u64>,
    /// So much of a core; 200 is two.
    #[schemars(range(min = 1))]
    cpu_percent: Option<u64>,
}

impl LimitsWish {
    fn limits(self) -> Result<Limits, Problem> {
        let Self { memory_bytes, processes, cpu_percent } = self;
        let all = [("memory_bytes", memory_bytes), ("processes", processes), ("cpu_percent", cpu_percent)];
        if let Some((name, _)) = all.into_iter().find(|(_, limit)| *limit == Some(0)) {
            return Err(Problem::new(
                Code::Usage,
                format!("`limits.{name}` is 0, and nothing runs with that"),
            )
            .hint("leave it out for no limit"));
        }
        Ok(Limits { memory_bytes, processes, cpu_percent })
    }
}

/// A session to start: an agent, or a command.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSession {
    /// What people call it.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: Option<String>,
    /// The absolute path of its directory; by default that of the gateway.
    #[schemars(regex(pattern = "^/"))]
    pub(crate) cwd: Option<PathBuf>,
    /// Variables on top of the gateway's own environment. What looks like a secret is in no record.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// What makes the call repeatable; the header `Idempotency-Key` is the same.
    pub(crate) key: Option<String>,
    /// An agent that `GET /v1/agents` lists.
    agent: Option<String>,
    /// The agent's own terminal interface.
    #[serde(default)]
    tui: bool,
    /// The agent's own id of the conversation to go on with.
    resume: Option<String>,
    /// End other programs that write that conversation.
    #[serde(default)]
    take: bool,
    /// The first turn.
    pub(crate) prompt: Option<String>,
    /// When it ends and is archived by itself, over what the config says.
    #[serde(default, deserialize_with = "object_or_null")]
    policy: Option<PolicyWish>,
    /// What it may use.
    #[serde(default, deserialize_with = "object")]
    limits: LimitsWish,
    /// What people sort it by.
    #[serde(default)]
    tags: Vec<String>,
    /// The note about the session.
    note: Option<String>,
    /// What to tell people of, over what the config says.
    #[schemars(with = "Option<berth_api::turn::Notify>")]
    notify: Option<Vec<String>>,
    /// The command and its arguments; with an agent, more arguments for it.
    #[serde(default)]
    command: Vec<String>,
    /// How far its agent may command other sessions; no further than the caller may.
    grant: Option<Scope>,
}

impl NewSession {
    /// How far one must be allowed to go for this. An agent of the table, as it is, asks before it does something; a
    /// command, arguments and variables of one's own do what they say.
    pub(crate) fn scope(&self) -> Scope {
        let is_plain = self.agent.is_some() && self.command.is_empty() && self.env.is_empty() && !self.take;
        let least = if is_plain { Scope::Send } else { Scope::Control };
        self.grant.map_or(least, |grant| grant.max(least))
    }

    /// As the verbs take it.
    pub(crate) fn wanted(self) -> Result<Wanted, Problem> {
        if let Some(dir) = self.cwd.as_ref().filter(|dir| !dir.is_absolute()) {
            return Err(Problem::new(
                Code::Usage,
                format!("`cwd` is not an absolute path: {}", dir.display()),
            )
            .hint("write the directory from / on: the gateway is somewhere else than you"));
        }
        let notify = self.notify.as_deref().map(|words| told_of(Some(words))).transpose()?;
        let limits = self.limits.limits()?;
        if self.prompt.is_some() && self.agent.is_none() {
            return Err(Problem::new(Code::Usage, "a command takes no turns: `prompt` goes with `agent`")
                .hint("name an agent, or leave the prompt out"));
        }
        if self.agent.is_none() && (self.tui || self.resume.is_some() || self.take) {
            return Err(Problem::new(Code::Usage, "`tui`, `resume` and `take` go with `agent`"));
        }
        Ok(Wanted {
            name: self.name,
            cwd: self.cwd,
            env: self.env.into_iter().collect(),
            key: self.key,
            agent: self.agent,
            tui: self.tui,
            resume: self.resume,
            take: self.take,
            prompt: self.prompt,
            policy: self.policy.map(PolicyWish::change).unwrap_or_default(),
            limits,
            tags: self.tags,
            note: self.note,
            notify,
            command: self.command,
            grant: match self.grant {
                None | Some(Scope::Read) => Grant::None,
                Some(Scope::Send) => Grant::Send,
                Some(Scope::Control) => Grant::Control,
                Some(Scope::Admin) => Grant::Admin,
            },
        })
    }
}
