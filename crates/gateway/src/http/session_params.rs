//! Settings of sessions in JSON bodies: parsed here, and refused with the name of the wrong field.

use std::collections::BTreeMap;
use std::path::PathBuf;

use berth_api::policy_change::{PolicyChange, TimeoutChange};
use berth_api::record::{Grant, RunLimits};
use berth_api::turn::{OnFailed, OnUnknown};
use berth_api::{AccessScope, Problem};
use berth_core::{NotificationKind, NotificationPolicy};
use berth_verbs::run::RunRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::http::extractors::{object, object_or_null};

/// Distinguishes a field that is absent from one that is `null`.
pub(crate) fn present_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Rules for ending and archiving a session automatically. An absent field stays as it is; `null` means never.
#[derive(Deserialize, JsonSchema, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyParams {
    /// Time without work after which the agent is ended, in milliseconds.
    #[serde(default, deserialize_with = "present_or_null")]
    #[schemars(with = "Option<u64>")]
    idle_ms: Option<Option<u64>>,
    /// Time after which the session is ended, in milliseconds.
    #[serde(default, deserialize_with = "present_or_null")]
    #[schemars(with = "Option<u64>")]
    ttl_ms: Option<Option<u64>>,
    /// Time without a run after which the session is archived, in milliseconds.
    #[serde(default, deserialize_with = "present_or_null")]
    #[schemars(with = "Option<u64>")]
    archive_after_ms: Option<Option<u64>>,
    /// Behaviour of the queue after a turn whose end is unknown.
    on_unknown: Option<OnUnknown>,
    /// Behaviour of the queue after a turn that failed because of the model: usage limit, overload or login.
    on_failed: Option<OnFailed>,
}

impl PolicyParams {
    /// Converts to the type of the verbs.
    pub(crate) fn change(self) -> PolicyChange {
        let term = |given: Option<Option<u64>>| match given {
            None => TimeoutChange::Same,
            Some(None) => TimeoutChange::Never,
            Some(Some(ms)) => TimeoutChange::After(ms),
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

/// Occasions for notifications: the given ones, or those of the config.
pub(crate) fn told_of(words: Option<&[String]>) -> Result<NotificationPolicy, Problem> {
    let occasion = |word: &String| {
        NotificationKind::named(word).ok_or_else(|| {
            let known: Vec<_> = NotificationKind::ALL.iter().map(|occasion| occasion.word()).collect();
            let what = format!("`notify`: `{}` is not one of {}", word.escape_debug(), known.join(", "));
            Problem::usage(what)
        })
    };
    let Some(words) = words else { return Ok(NotificationPolicy::AsConfigured) };
    Ok(NotificationPolicy::Only(words.iter().map(occasion).collect::<Result<_, _>>()?))
}

/// Limits on the resources of a session.
#[derive(Deserialize, JsonSchema, Clone, Copy, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsParams {
    /// Memory in bytes.
    #[schemars(range(min = 1))]
    memory_bytes: Option<u64>,
    /// Number of processes and threads.
    #[schemars(range(min = 1))]
    processes: Option<u64>,
    /// Percentage of a processor core; 200 is two cores.
    #[schemars(range(min = 1))]
    cpu_percent: Option<u64>,
}

impl LimitsParams {
    fn limits(self) -> Result<RunLimits, Problem> {
        let Self { memory_bytes, processes, cpu_percent } = self;
        let all = [("memory_bytes", memory_bytes), ("processes", processes), ("cpu_percent", cpu_percent)];
        if let Some((name, _)) = all.into_iter().find(|(_, limit)| *limit == Some(0)) {
            return Err(Problem::usage(format!("`limits.{name}` is 0: no process could run"))
                .hint("leave it out for no limit"));
        }
        Ok(RunLimits { memory_bytes, processes, cpu_percent })
    }
}

/// A session to start: an agent, or a command.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateSession {
    /// Name of the session.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: Option<String>,
    /// Absolute path of the session's directory; by default that of the gateway.
    #[schemars(regex(pattern = "^/"))]
    pub(crate) cwd: Option<PathBuf>,
    /// Environment variables in addition to the gateway's own. Values that look like secrets are not stored.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Idempotency key, which makes the call repeatable; the header `Idempotency-Key` has the same effect.
    pub(crate) key: Option<String>,
    /// Name of an agent that `GET /v1/agents` lists.
    agent: Option<String>,
    /// Run the agent in its own terminal interface.
    #[serde(default)]
    tui: bool,
    /// Id of the agent's conversation to continue, as the agent names it.
    resume: Option<String>,
    /// End other programs that write that conversation.
    #[serde(default)]
    take: bool,
    /// Prompt of the first turn.
    pub(crate) prompt: Option<String>,
    /// Rules for ending and archiving the session automatically, instead of those of the config.
    #[serde(default, deserialize_with = "object_or_null")]
    policy: Option<PolicyParams>,
    /// Limits on the resources of the session.
    #[serde(default, deserialize_with = "object")]
    limits: LimitsParams,
    /// Tags of the session.
    #[serde(default)]
    tags: Vec<String>,
    /// Note about the session.
    note: Option<String>,
    /// Occasions for notifications, instead of those of the config.
    #[schemars(with = "Option<berth_api::turn::NotificationPolicy>")]
    notify: Option<Vec<String>>,
    /// Command and its arguments; with `agent`, further arguments for the agent.
    #[serde(default)]
    command: Vec<String>,
    /// Scope in which the agent may command other sessions; no further than that of the caller.
    grant: Option<AccessScope>,
}

impl CreateSession {
    /// Scope that a caller needs to start this session. An agent of the table, without further settings, asks before it
    /// acts; a command, arguments and variables of the caller's choice do anything.
    pub(crate) fn scope(&self) -> AccessScope {
        let is_plain = self.agent.is_some() && self.command.is_empty() && self.env.is_empty() && !self.take;
        let least = if is_plain { AccessScope::Send } else { AccessScope::Control };
        self.grant.map_or(least, |grant| grant.max(least))
    }

    /// Converts to the type of the verbs.
    pub(crate) fn into_run_request(self) -> Result<RunRequest, Problem> {
        if let Some(dir) = self.cwd.as_ref().filter(|dir| !dir.is_absolute()) {
            return Err(Problem::usage(format!("`cwd` is not an absolute path: {}", dir.display()))
                .hint("write the directory from / on: the gateway runs in another directory than you"));
        }
        let notify = self.notify.as_deref().map(|words| told_of(Some(words))).transpose()?;
        let limits = self.limits.limits()?;
        if self.prompt.is_some() && self.agent.is_none() {
            return Err(Problem::usage("a command takes no turns: `prompt` needs `agent`")
                .hint("name an agent, or leave the prompt out"));
        }
        if self.agent.is_none() && (self.tui || self.resume.is_some() || self.take) {
            return Err(Problem::usage("`tui`, `resume` and `take` need `agent`"));
        }
        Ok(RunRequest {
            name: self.name,
            cwd: self.cwd,
            env: self.env.into_iter().collect(),
            key: self.key,
            agent: self.agent,
            tui: self.tui,
            resume: self.resume,
            take: self.take,
            prompt: self.prompt,
            policy: self.policy.map(PolicyParams::change).unwrap_or_default(),
            limits,
            tags: self.tags,
            note: self.note,
            notify,
            command: self.command,
            grant: match self.grant {
                None | Some(AccessScope::Read) => Grant::None,
                Some(AccessScope::Send) => Grant::Send,
                Some(AccessScope::Control) => Grant::Control,
                Some(AccessScope::Admin) => Grant::Admin,
            },
        })
    }
}
