//! Conversations that agents keep themselves: those had without berth, live and past, and whose the others are.
//!
//! Promise: what is listed is of this account's agents only (another HOME or config directory is another account);
//! who has one open was alive when we looked; a conversation that a session here has is named with it. Only what is
//! shown is read, and of that the beginning and the end.
//! Not here: bringing one here (see `adopt`, `import`), reading one (see `said`).
//! Start with [`list`], or [`find`] for one.

pub mod adopt;
pub mod import;
pub(crate) mod record;
pub mod said;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::env::var_os;
use std::path::{Path, PathBuf};

use berth_api::{Code, Problem, Status, Timestamp};
use berth_keeper::writers::{self, Writer};
use berth_store::conversations;
use berth_transcript::Kind;
use berth_transcript::shelf::{self, Kept, Look, Shelf};
use schemars::JsonSchema;
use serde::Serialize;

use crate::ctx::Ctx;

/// How many past ones a list has if nobody says.
pub const USUAL_PAST: usize = 50;
/// An id's beginning that is shorter names nothing.
const SHORTEST_PREFIX: usize = 4;

/// A conversation that an agent keeps.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Conversation")]
pub struct Conversation {
    /// The agent's own id of it.
    #[serde(rename = "conversation_id")]
    pub id: String,
    /// Which agent writes it: `claude` or `codex`.
    pub agent: String,
    /// The agent's own record; nothing if nothing was said yet.
    pub file: Option<PathBuf>,
    /// How large that is.
    pub bytes: u64,
    /// Where it was had.
    pub cwd: Option<PathBuf>,
    /// What it is called there.
    pub title: Option<String>,
    /// How it began, on one line.
    pub first_words: Option<String>,
    /// The version of the agent that began it.
    pub version: Option<String>,
    /// The branch that was checked out then.
    pub branch: Option<String>,
    /// When it began.
    pub began_at: Option<Timestamp>,
    /// When something was last written in it.
    pub last_activity_at: Timestamp,
    /// The agent put it away: it is there to read, and not to go on.
    pub archived: bool,
    /// Who has it open now.
    pub held_by: Vec<Holder>,
    /// The session here that has it.
    pub session: Option<Ours>,
    /// Why more is not known.
    pub unreadable: Option<String>,
}

/// A process that has a conversation open.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ConversationHolder")]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// Since when it runs.
    pub since: Timestamp,
    /// Its terminal.
    pub terminal: Option<PathBuf>,
    /// Where it is.
    pub cwd: Option<PathBuf>,
    /// What it runs, without secrets.
    pub command: String,
    /// Why that is said.
    pub evidence: String,
}

/// A session here.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ConversationSession")]
pub struct Ours {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: Option<String>,
    /// Its state in one word.
    pub state: berth_api::SessionState,
}

impl Ours {
    /// How people address it.
    pub fn handle(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }
}

/// Which conversations are wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only those of this agent.
    pub agent: Option<Kind>,
    /// Only those that were had in this directory or below it.
    pub under: Option<PathBuf>,
    /// Those that sessions here have, too.
    pub ours_too: bool,
    /// At most so many that nobody has open.
    pub limit: Option<usize>,
}

/// What was found.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Conversations")]
pub struct Found {
    /// Open ones first, then the last written ones.
    pub conversations: Vec<Conversation>,
    /// How many more there may be.
    pub beyond: usize,
    /// What could not be looked at.
    pub damaged: Vec<String>,
}

/// The kind that a person names.
pub fn kind(name: &str) -> Result<Kind, Problem> {
    Kind::of(name).ok_or_else(|| {
        Problem::new(Code::Usage, format!("how `{name}` keeps its conversations is not known"))
            .hint("claude and codex are")
    })
}

/// Everything one kind of agent keeps, and who has what open.
struct Account {
    kind: Kind,
    dir: PathBuf,
    shelf: Shelf,
    live: BTreeMap<String, Vec<Writer>>,
    /// The sessions here that have a conversation of an agent, once somebody had to ask for all.
    sessions: OnceCell<Vec<Status>>,
}

impl Account {
    fn look(kind: Kind) -> Result<Self, String> {
        let dir = berth_transcript::config_dir(kind, |name| var_os(name))?;
        let shelf = shelf::list(kind, |name| var_os(name))?;
        let mut live: BTreeMap<String, Vec<Writer>> = BTreeMap::new();
        for writer in writers::live(kind, |name| var_os(name))? {
            live.entry(writer.conversation_id.clone()).or_default().push(writer);
        }
        Ok(Self { kind, dir, shelf, live, sessions: OnceCell::new() })
    }

    fn session(&self, ctx: &Ctx, id: &str) -> Option<Ours> {
        let all = || {
            let all = self.sessions.get_or_init(|| conversations::sessions(&ctx.home));
            all.iter().filter(|status| conversations::has(status, self.kind.word(), id)).cloned().collect()
        };
        let status = conversations::session_of(&ctx.home, self.kind.word(), id, &self.dir, all)?;
        Some(Ours { id: status.id, name: status.name, state: status.state })
    }

    /// Who has it open and is not kept: what runs in a session is that session's.
    fn holders(&self, id: &str) -> Vec<Holder> {
        let writers = self.live.get(id).map(Vec::as_slice).unwrap_or_default();
        writers.iter().filter(|writer| writer.kept_in().is_none()).map(Holder::from).collect()
    }

    fn of(&self, ctx: &Ctx, kept: &Kept) -> Conversation {
        let (look, unreadable) = match kept.look() {
            Ok(look) => (look, None),
            Err(why) => (Look::default(), Some(why)),
        };
        Conversation {
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

    /// One in which nothing was said yet: agents write nothing before the first prompt.
    fn unwritten(&self, ctx: &Ctx, id: &str) -> Conversation {
        let held_by = self.holders(id);
        Conversation {
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

impl From<&Writer> for Holder {
    fn from(writer: &Writer) -> Self {
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

fn accounts(wanted: Option<Kind>, damaged: &mut Vec<String>) -> Vec<Account> {
    let kinds = Kind::ALL.into_iter().filter(|kind| wanted.is_none_or(|wanted| wanted == *kind));
    let looked = kinds.filter_map(|kind| Account::look(kind).map_err(|why| damaged.push(why)).ok());
    looked.collect()
}

/// The conversations there are: those that somebody has open, then the others, the last written first.
pub fn list(ctx: &Ctx, wanted: &Wanted) -> Found {
    let mut found = Found::default();
    let accounts = accounts(wanted.agent, &mut found.damaged);
    let is_wanted = |one: &Conversation| {
        let is_there = |dir: &PathBuf| one.cwd.as_ref().is_some_and(|cwd| cwd.starts_with(dir));
        (wanted.ours_too || one.session.is_none()) && wanted.under.as_ref().is_none_or(is_there)
    };
    let mut past: Vec<(&Account, &Kept)> = Vec::new();
    for account in &accounts {
        found.damaged.extend(account.shelf.damaged.iter().cloned());
        found.beyond += account.shelf.beyond;
        let (open, closed): (Vec<&Kept>, Vec<&Kept>) =
            account.shelf.kept.iter().partition(|kept| account.live.contains_key(&kept.id));
        past.extend(closed.into_iter().map(|kept| (account, kept)));
        for id in account.live.keys() {
            let known = open.iter().find(|kept| kept.id == *id);
            let one = known.map_or_else(|| account.unwritten(ctx, id), |kept| account.of(ctx, kept));
            // What only a keeper has open is its session's.
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
            found.beyond += 1;
            continue;
        }
        // The cheap question first: most of many are ours, or nobody asked for them.
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

/// The conversation a person means: by its id, a unique beginning of it, or its file.
pub fn find(ctx: &Ctx, text: &str, agent: Option<Kind>) -> Result<Conversation, Problem> {
    let mut damaged = Vec::new();
    let accounts = accounts(agent, &mut damaged);
    find_among(ctx, &accounts, &damaged, text)
}

/// The same for many: what agents keep is looked through once.
pub fn find_each(ctx: &Ctx, texts: &[String], agent: Option<Kind>) -> Result<Vec<Conversation>, Problem> {
    let mut damaged = Vec::new();
    let accounts = accounts(agent, &mut damaged);
    texts.iter().map(|text| find_among(ctx, &accounts, &damaged, text)).collect()
}

fn find_among(
    ctx: &Ctx,
    accounts: &[Account],
    damaged: &[String],
    text: &str,
) -> Result<Conversation, Problem> {
    let by_file = Path::new(text).is_file().then(|| shelf::id_in(Path::new(text))).flatten();
    let meant = by_file.as_deref().unwrap_or(text).to_ascii_lowercase();
    let is_meant = |id: &str| {
        id.eq_ignore_ascii_case(&meant)
            || (meant.len() >= SHORTEST_PREFIX && id.to_ascii_lowercase().starts_with(&meant))
    };
    let mut found: Vec<Conversation> = Vec::new();
    for account in accounts {
        let kept = account.shelf.kept.iter().filter(|kept| is_meant(&kept.id));
        found.extend(kept.map(|kept| account.of(ctx, kept)));
        let is_unwritten = |id: &&String| is_meant(id) && !found.iter().any(|one| one.id == **id);
        let unwritten: Vec<Conversation> =
            account.live.keys().filter(is_unwritten).map(|id| account.unwritten(ctx, id)).collect();
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
                Some(why) => format!("not all could be looked at: {why}"),
                None => "`berth ls --foreign --all` lists those that are not a session's".to_owned(),
            };
            Err(Problem::new(Code::NotFound, what).hint(hint))
        }
        count => {
            let ids: Vec<&str> = found.iter().take(8).map(|one| one.id.as_str()).collect();
            let more = if count > ids.len() { ", …" } else { "" };
            let what = format!("`{text}` could mean {count} conversations: {}{more}", ids.join(", "));
            Err(Problem::new(Code::NotFound, what).hint("type more of the id"))
        }
    }
}

/// The variables that say where a conversation is kept, if it is not where the agent looks by itself: whoever goes on
/// with it may have another environment.
fn place_variables(kind: Kind) -> Vec<(String, String)> {
    let variable = match kind {
        Kind::Claude => "CLAUDE_CONFIG_DIR",
        Kind::Codex => "CODEX_HOME",
    };
    let value = var_os(variable).and_then(|value| value.into_string().ok());
    value.filter(|value| !value.is_empty()).map(|value| (variable.to_owned(), value)).into_iter().collect()
}

/// What people call who has it open, for a sentence.
pub fn who(holders: &[Holder]) -> String {
    let line = |holder: &Holder| {
        let place = match (&holder.terminal, &holder.cwd) {
            (Some(terminal), _) => format!(" on {}", terminal.display()),
            (None, Some(cwd)) => format!(" in {}", cwd.display()),
            (None, None) => String::new(),
        };
        format!("pid {}{place}", holder.pid)
    };
    holders.iter().map(line).collect::<Vec<_>>().join(", ")
}
