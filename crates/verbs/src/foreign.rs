//! Conversations that agents keep themselves: open and past ones without berth, and the sessions that have the others.
//!
//! Promise: only conversations of this account's agents are listed (another HOME or config directory is another
//! account); every listed writer was alive at the time of the check; a conversation of a session is listed with that
//! session. Only listed conversations are read, and of those only the beginning and the end.
//! Not here: bringing a conversation into berth (see `adopt`, `import`), reading its dialogue (see `conversation_text`).
//! Start with [`list`], or [`find`] for one.

pub mod adopt;
pub mod conversation_text;
pub mod import;
pub(crate) mod record_filter;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::env::var_os;
use std::path::{Path, PathBuf};

use berth_api::{Problem, SessionStatus, Timestamp};
use berth_conversations::foreign_writers::{self, ForeignWriter};
use berth_store::conversation_locks;
use berth_transcript::TranscriptKind;
use berth_transcript::conversation_catalog::{
    self, ConversationCatalog, ConversationDetails, StoredConversation,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::context::VerbContext;

/// Default limit for past conversations in a list.
pub const USUAL_PAST: usize = 50;
/// Minimum length of an id's beginning that names a conversation.
const SHORTEST_PREFIX: usize = 4;

/// A conversation that an agent keeps.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Conversation")]
pub struct AgentConversation {
    /// Id that the agent gave the conversation.
    #[serde(rename = "conversation_id")]
    pub id: String,
    /// Agent that writes the conversation: `claude` or `codex`.
    pub agent: String,
    /// The agent's transcript; null if the conversation is still empty.
    pub file: Option<PathBuf>,
    /// Size of that record, in bytes.
    pub bytes: u64,
    /// Directory of the conversation; null if the record does not name it.
    pub cwd: Option<PathBuf>,
    /// Title that the agent gave the conversation.
    pub title: Option<String>,
    /// First words of the conversation, on one line.
    pub first_words: Option<String>,
    /// Version of the agent that began the conversation.
    pub version: Option<String>,
    /// Branch that was checked out when the conversation began.
    pub branch: Option<String>,
    /// Time of the first record.
    pub began_at: Option<Timestamp>,
    /// Time of the last record.
    pub last_activity_at: Timestamp,
    /// True if the agent archived the conversation: it can be read, but not resumed.
    pub archived: bool,
    /// Processes that have the conversation open now.
    pub held_by: Vec<ConversationHolder>,
    /// Session of berth that has the conversation.
    pub session: Option<ConversationSession>,
    /// Reason why some of the fields are not known.
    pub unreadable: Option<String>,
}

/// A process that has a conversation open.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ConversationHolder")]
pub struct ConversationHolder {
    /// Process id.
    pub pid: u32,
    /// Start time of the process.
    pub since: Timestamp,
    /// Terminal of the process.
    pub terminal: Option<PathBuf>,
    /// Working directory of the process.
    pub cwd: Option<PathBuf>,
    /// Command line of the process, with secrets redacted.
    pub command: String,
    /// Evidence that this process has the conversation open.
    pub evidence: String,
}

/// Session of berth that has a conversation.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ConversationSession")]
pub struct ConversationSession {
    /// Id of the session.
    pub id: String,
    /// Name of the session.
    pub name: Option<String>,
    /// State of the session in one word.
    pub state: berth_api::SessionState,
}

impl ConversationSession {
    /// The session's name, else its id.
    pub fn handle(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }
}

/// Filter for the list of conversations.
#[derive(Clone, Debug, Default)]
pub struct ConversationFilter {
    /// Only conversations of this agent.
    pub agent: Option<TranscriptKind>,
    /// Only conversations in this directory or below it.
    pub under: Option<PathBuf>,
    /// Also conversations that sessions of berth have.
    pub ours_too: bool,
    /// Limit for conversations that no process has open.
    pub limit: Option<usize>,
}

/// Result of [`list`].
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Conversations")]
pub struct ConversationList {
    /// Conversations that a process has open first, then the others, the last written first.
    pub conversations: Vec<AgentConversation>,
    /// Number of further conversations that may match.
    pub more: usize,
    /// Errors of records and directories that could not be read.
    pub damaged: Vec<String>,
}

/// Parses the name of an agent.
pub fn kind(name: &str) -> Result<TranscriptKind, Problem> {
    TranscriptKind::of(name).ok_or_else(|| {
        Problem::usage(format!("berth cannot read the conversations of agent `{name}`"))
            .hint("it can read those of claude and codex")
    })
}

/// The conversations of one kind of agent, and the processes that have them open.
struct AgentAccount {
    kind: TranscriptKind,
    dir: PathBuf,
    catalog: ConversationCatalog,
    live: BTreeMap<String, Vec<ForeignWriter>>,
    /// Sessions with a conversation of an agent; filled at the first need to read all sessions.
    sessions: OnceCell<Vec<SessionStatus>>,
}

impl AgentAccount {
    fn load(kind: TranscriptKind) -> Result<Self, String> {
        let dir = berth_transcript::config_dir(kind, |name| var_os(name))?;
        let catalog = conversation_catalog::list_conversations(kind, |name| var_os(name))?;
        let mut live: BTreeMap<String, Vec<ForeignWriter>> = BTreeMap::new();
        for writer in foreign_writers::live_writers(kind, |name| var_os(name))? {
            live.entry(writer.conversation_id.clone()).or_default().push(writer);
        }
        Ok(Self { kind, dir, catalog, live, sessions: OnceCell::new() })
    }

    fn session(&self, ctx: &VerbContext, id: &str) -> Option<ConversationSession> {
        let all = || {
            let all = self.sessions.get_or_init(|| conversation_locks::all_session_statuses(&ctx.home));
            all.iter()
                .filter(|status| conversation_locks::has_conversation(status, self.kind.word(), id))
                .cloned()
                .collect()
        };
        let status = conversation_locks::session_of(&ctx.home, self.kind.word(), id, &self.dir, all)?;
        Some(ConversationSession { id: status.id, name: status.name, state: status.state })
    }

    /// Processes outside of all sessions that have the conversation open: a process inside of a session belongs to that
    /// session.
    fn holders(&self, id: &str) -> Vec<ConversationHolder> {
        let writers = self.live.get(id).map(Vec::as_slice).unwrap_or_default();
        writers.iter().filter(|writer| writer.kept_in().is_none()).map(ConversationHolder::from).collect()
    }

    fn of(&self, ctx: &VerbContext, kept: &StoredConversation) -> AgentConversation {
        let (look, unreadable) = match kept.details() {
            Ok(look) => (look, None),
            Err(why) => (ConversationDetails::default(), Some(why)),
        };
        AgentConversation {
            id: kept.id.clone(),
            agent: self.kind.word().to_owned(),
            file: Some(kept.path.clone()),
            bytes: kept.bytes,
            last_activity_at: Timestamp(kept.last_ms(&look)),
            began_at: look.began_ms.map(Timestamp),
            cwd: look.cwd,
            title: look.title,
            first_words: look.first_words,
            version: look.version,
            branch: look.branch,
            archived: kept.is_archived,
            held_by: self.holders(&kept.id),
            session: self.session(ctx, &kept.id),
            unreadable,
        }
    }

    /// A conversation without a record: agents write nothing before the first prompt.
    fn empty_conversation(&self, ctx: &VerbContext, id: &str) -> AgentConversation {
        let held_by = self.holders(id);
        AgentConversation {
            id: id.to_owned(),
            agent: self.kind.word().to_owned(),
            file: None,
            bytes: 0,
            cwd: held_by.iter().find_map(|holder| holder.cwd.clone()),
            title: None,
            first_words: None,
            version: None,
            branch: None,
            began_at: None,
            last_activity_at: held_by.iter().map(|holder| holder.since).max().unwrap_or_default(),
            archived: false,
            session: self.session(ctx, id),
            held_by,
            unreadable: None,
        }
    }
}

impl From<&ForeignWriter> for ConversationHolder {
    fn from(writer: &ForeignWriter) -> Self {
        Self {
            pid: writer.identity.pid,
            since: Timestamp(writer.since_ms),
            terminal: writer.terminal.clone(),
            cwd: writer.cwd.clone(),
            command: writer.command.clone(),
            evidence: writer.evidence.to_string(),
        }
    }
}

fn accounts(wanted: Option<TranscriptKind>, damaged: &mut Vec<String>) -> Vec<AgentAccount> {
    let kinds = TranscriptKind::ALL.into_iter().filter(|kind| wanted.is_none_or(|wanted| wanted == *kind));
    let looked = kinds.filter_map(|kind| AgentAccount::load(kind).map_err(|why| damaged.push(why)).ok());
    looked.collect()
}

/// Lists the conversations: those that a process has open, then the others, the last written first.
pub fn list(ctx: &VerbContext, wanted: &ConversationFilter) -> ConversationList {
    let mut found = ConversationList::default();
    let accounts = accounts(wanted.agent, &mut found.damaged);
    let is_wanted = |one: &AgentConversation| {
        let is_there = |dir: &PathBuf| one.cwd.as_ref().is_some_and(|cwd| cwd.starts_with(dir));
        (wanted.ours_too || one.session.is_none()) && wanted.under.as_ref().is_none_or(is_there)
    };
    let mut past: Vec<(&AgentAccount, &StoredConversation)> = Vec::new();
    for account in &accounts {
        found.damaged.extend(account.catalog.damaged.iter().cloned());
        found.more += account.catalog.more;
        let (open, closed): (Vec<&StoredConversation>, Vec<&StoredConversation>) =
            account.catalog.kept.iter().partition(|kept| account.live.contains_key(&kept.id));
        past.extend(closed.into_iter().map(|kept| (account, kept)));
        for id in account.live.keys() {
            let known = open.iter().find(|kept| kept.id == *id);
            let one = known.map_or_else(|| account.empty_conversation(ctx, id), |kept| account.of(ctx, kept));
            // A conversation that only a keeper has open belongs to its session.
            let is_somebodys = !one.held_by.is_empty() || (wanted.ours_too && one.session.is_some());
            if is_somebodys && is_wanted(&one) {
                found.conversations.push(one);
            }
        }
    }
    found.conversations.sort_by_key(|one| std::cmp::Reverse(one.last_activity_at));
    past.sort_by_key(|(_, kept)| std::cmp::Reverse(kept.modified_ms));
    let mut room = wanted.limit.unwrap_or(usize::MAX);
    for (account, kept) in past {
        if room == 0 {
            found.more += 1;
            continue;
        }
        // The cheap check first: most of many conversations belong to sessions, or the filter excludes them.
        if !wanted.ours_too && account.session(ctx, &kept.id).is_some() {
            continue;
        }
        let one = account.of(ctx, kept);
        if is_wanted(&one) {
            found.conversations.push(one);
            room -= 1;
        }
    }
    found
}

/// Finds a conversation by its id, a unique beginning of the id, or its file.
pub fn find(
    ctx: &VerbContext,
    text: &str,
    agent: Option<TranscriptKind>,
) -> Result<AgentConversation, Problem> {
    let mut damaged = Vec::new();
    let accounts = accounts(agent, &mut damaged);
    find_among(ctx, &accounts, &damaged, text)
}

/// Finds several conversations: the agents' directories are read once.
pub fn find_each(
    ctx: &VerbContext,
    texts: &[String],
    agent: Option<TranscriptKind>,
) -> Result<Vec<AgentConversation>, Problem> {
    let mut damaged = Vec::new();
    let accounts = accounts(agent, &mut damaged);
    texts.iter().map(|text| find_among(ctx, &accounts, &damaged, text)).collect()
}

fn find_among(
    ctx: &VerbContext,
    accounts: &[AgentAccount],
    damaged: &[String],
    text: &str,
) -> Result<AgentConversation, Problem> {
    let by_file =
        Path::new(text).is_file().then(|| conversation_catalog::id_of_path(Path::new(text))).flatten();
    let meant = by_file.as_deref().unwrap_or(text).to_ascii_lowercase();
    let is_meant = |id: &str| {
        id.eq_ignore_ascii_case(&meant)
            || (meant.len() >= SHORTEST_PREFIX && id.to_ascii_lowercase().starts_with(&meant))
    };
    let mut found: Vec<AgentConversation> = Vec::new();
    for account in accounts {
        let kept = account.catalog.kept.iter().filter(|kept| is_meant(&kept.id));
        found.extend(kept.map(|kept| account.of(ctx, kept)));
        let is_unwritten = |id: &&String| is_meant(id) && !found.iter().any(|one| one.id == **id);
        let unwritten: Vec<AgentConversation> =
            account.live.keys().filter(is_unwritten).map(|id| account.empty_conversation(ctx, id)).collect();
        found.extend(unwritten);
    }
    if let Some(exact) = found.iter().position(|one| one.id.eq_ignore_ascii_case(&meant)) {
        return Ok(found.swap_remove(exact));
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let what = format!("no agent of this account keeps a conversation `{}`", text.escape_debug());
            let hint = match damaged.first() {
                Some(why) => format!("some conversations could not be examined: {why}"),
                None => "`berth ls --foreign --all` lists conversations without a session".to_owned(),
            };
            Err(Problem::not_found(what).hint(hint))
        }
        count => {
            let ids: Vec<&str> = found.iter().take(8).map(|one| one.id.as_str()).collect();
            let more = if count > ids.len() { ", …" } else { "" };
            let what = format!("`{text}` could mean {count} conversations: {}{more}", ids.join(", "));
            Err(Problem::not_found(what).hint("type more of the id"))
        }
    }
}

/// Variables that say where an agent keeps its conversations, if that is not the default place: a session that resumes
/// the conversation may have another environment.
fn place_variables(kind: TranscriptKind) -> Vec<(String, String)> {
    let variable = match kind {
        TranscriptKind::Claude => "CLAUDE_CONFIG_DIR",
        TranscriptKind::Codex => "CODEX_HOME",
    };
    let value = var_os(variable).and_then(|value| value.into_string().ok());
    value.filter(|value| !value.is_empty()).map(|value| (variable.to_owned(), value)).into_iter().collect()
}

/// The processes that have a conversation open, for a sentence.
pub fn describe_holder(holders: &[ConversationHolder]) -> String {
    let line = |holder: &ConversationHolder| {
        let place = match (&holder.terminal, &holder.cwd) {
            (Some(terminal), _) => format!(" on {}", terminal.display()),
            (None, Some(cwd)) => format!(" in {}", cwd.display()),
            (None, None) => String::new(),
        };
        format!("pid {}{place}", holder.pid)
    };
    holders.iter().map(line).collect::<Vec<_>>().join(", ")
}
