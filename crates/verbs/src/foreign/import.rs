//! Past conversations as sessions: searchable, resumable, and nothing started.
//!
//! Promise: a conversation becomes one session, however often it is imported; its times are those of the agent's own
//! record; what cannot be imported keeps no other one from it. Nothing is put away by a policy just because it is old:
//! whoever brings it here wants it here.
//! Start with [`import`].

use std::path::{Path, PathBuf};

use berth_api::{Code, Problem, Timestamp};
use berth_core::{Deed, Grant, Name};
use berth_keeper::import::{self as keeper, ImportLock, Past};
use berth_store::conversations;
use berth_store::names::Naming;
use berth_transcript::Kind;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Conversation, Ours, place_variables, who};
use crate::ctx::Ctx;
use crate::progress::Progress;
use crate::{auto_name, history, run};

/// What became of one.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Imported {
    /// The agent's own id of the conversation.
    #[serde(rename = "conversation_id")]
    pub conversation: String,
    /// Which agent writes it.
    pub agent: String,
    /// What happened.
    pub outcome: Outcome,
    /// The session that has it.
    pub session: Option<String>,
    /// What people call that, or would.
    pub name: Option<String>,
    /// Where it was had.
    pub cwd: Option<PathBuf>,
    /// When something was last said in it.
    pub last_activity_at: Timestamp,
    /// Why not, if not.
    pub why: Option<String>,
}

/// What became of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ImportOutcome")]
pub enum Outcome {
    /// It is a session now.
    Imported,
    /// It would be, were this not a dry run.
    Would,
    /// A session has it already.
    Already,
    /// It was left as it is.
    Refused,
}

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// What people will call it; only for one.
    pub name: Option<String>,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// Imports these, one after the other.
pub fn import(
    ctx: &Ctx,
    conversations: &[Conversation],
    order: &Order,
    progress: &dyn Progress,
) -> Result<Vec<Imported>, Problem> {
    // The same as a start without a grant: it can be run later, and nothing is ended for it.
    ctx.may_at_all(Deed::Start { grant: Grant::Nothing, takes: false }, "a session")?;
    let wanted = order.name.as_deref().map(Name::parse).transpose();
    let wanted = wanted.map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
    if wanted.is_some() && conversations.len() != 1 {
        return Err(
            Problem::new(Code::Usage, "a name is for one conversation").hint("import one, or leave it out")
        );
    }
    progress.begin(conversations.len() as u64);
    let mut done = Vec::new();
    for conversation in conversations {
        if progress.is_enough() {
            break;
        }
        done.push(one(ctx, conversation, wanted.as_ref(), order.dry_run));
        progress.add(1);
    }
    Ok(done)
}

fn one(ctx: &Ctx, conversation: &Conversation, wanted: Option<&Name>, dry_run: bool) -> Imported {
    let told = |outcome, session: Option<Ours>, why: Option<String>| Imported {
        conversation: conversation.id.clone(),
        agent: conversation.agent.clone(),
        outcome,
        name: session.as_ref().and_then(|session| session.name.clone()),
        session: session.map(|session| session.id),
        cwd: conversation.cwd.clone(),
        last_activity_at: conversation.last_activity_at,
        why,
    };
    if let Some(session) = &conversation.session {
        return told(Outcome::Already, Some(session.clone()), None);
    }
    if let Some(why) = unfit(conversation) {
        return told(Outcome::Refused, None, Some(why));
    }
    if let Some(Err(problem)) = conversation.cwd.as_deref().map(|cwd| ctx.may_start_in(cwd)) {
        return told(Outcome::Refused, None, Some(problem.what));
    }
    if dry_run {
        let name = Some(wanted.cloned().unwrap_or_else(|| stem(conversation)).to_string());
        return Imported { name, ..told(Outcome::Would, None, None) };
    }
    match make(ctx, conversation, wanted, false) {
        Ok((outcome, session)) => told(outcome, Some(session), None),
        Err(problem) => told(Outcome::Refused, None, Some(problem.what)),
    }
}

/// Why one cannot be gone on with later.
fn unfit(conversation: &Conversation) -> Option<String> {
    if let Some(why) = &conversation.unreadable {
        return Some(why.clone());
    }
    let has_words = conversation.first_words.is_some() || conversation.title.is_some();
    match &conversation.file {
        None => Some("nothing was said in it yet".to_owned()),
        Some(_) if conversation.cwd.is_none() => Some("its record does not say where it was had".to_owned()),
        Some(_) if conversation.archived => {
            Some("its agent has archived it: bring it back there first".to_owned())
        }
        Some(_) if !conversation.held_by.is_empty() => Some(format!(
            "{} has it open: `berth adopt {}` takes it over",
            who(&conversation.held_by),
            conversation.id
        )),
        Some(_) if !has_words && conversation.bytes == 0 => Some("there is nothing in it".to_owned()),
        Some(_) => None,
    }
}

/// A name for a conversation: what it is called, or how it began.
fn stem(conversation: &Conversation) -> Name {
    let words = [conversation.title.as_deref(), conversation.first_words.as_deref()];
    auto_name::stem(&words, conversation.cwd.as_deref().unwrap_or(Path::new("/")))
}

/// Makes its session; with `tui`, one of the agent's own terminal interface.
pub(super) fn make(
    ctx: &Ctx,
    conversation: &Conversation,
    wanted: Option<&Name>,
    tui: bool,
) -> Result<(Outcome, Ours), Problem> {
    let kind = super::kind(&conversation.agent)?;
    let (file, cwd) = conversation.file.clone().zip(conversation.cwd.clone()).ok_or_else(|| {
        Problem::new(Code::Refused, format!("conversation {} has no record", conversation.id))
    })?;
    let cwd = cwd.into_os_string().into_string().map_err(|odd| {
        Problem::new(
            Code::Refused,
            format!("the directory {odd:?} of conversation {} is not UTF-8", conversation.id),
        )
    })?;
    ctx.may_start_in(Path::new(&cwd))?;
    let store = store(kind)?;
    let spec = run::spec_of_kept(kind.word(), &conversation.id, tui, cwd, place_variables(kind))?;
    let spec = berth_api::record::Spec { parent: ctx.parent.as_ref().map(ToString::to_string), ..spec };
    // Held until the session is there: two who import the same find one session, not two.
    let lock = ImportLock::acquire(&ctx.home)?;
    let all = || conversations::sessions_with(&ctx.home, kind.word(), &conversation.id);
    let ours = conversations::session_of(&ctx.home, kind.word(), &conversation.id, store.as_ref(), all);
    if let Some(status) = ours {
        return Ok((Outcome::Already, Ours { id: status.id, name: status.name, state: status.state }));
    }
    let name = wanted.map_or_else(|| Naming::Stem(stem(conversation)), |name| Naming::Chosen(name.clone()));
    let last_at_ms = conversation.last_activity_at.0;
    let spec: berth_core::Spec = spec.into();
    let known = berth_core::Conversation { id: conversation.id.clone(), store };
    let past = Past {
        spec: spec.clone(),
        name,
        conversation: known.clone(),
        file,
        bytes: conversation.bytes,
        began_at_ms: conversation.began_at.map_or(last_at_ms, |began| began.0.min(last_at_ms)),
        last_at_ms,
    };
    let status = keeper::import(&ctx.home, &lock, past)?;
    drop(lock);
    history::copy_now(ctx, &status, &spec, &known);
    Ok((Outcome::Imported, Ours { id: status.id, name: status.name, state: status.state }))
}

fn store(kind: Kind) -> Result<String, Problem> {
    let dir = berth_transcript::config_dir(kind, |name| std::env::var_os(name));
    let dir = dir.map_err(|why| Problem::new(Code::Refused, why))?;
    dir.into_os_string()
        .into_string()
        .map_err(|odd| Problem::new(Code::Refused, format!("{odd:?} is not UTF-8")))
}
