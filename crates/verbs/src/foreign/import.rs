//! Import of past conversations as sessions: searchable and resumable, without starting anything.
//!
//! Promise: a conversation becomes one session, however often it is imported; the session's times are those of the
//! agent's transcript; a conversation that cannot be imported does not stop the others. No policy archives an imported
//! session just because it is old: the user wants it here.
//! Start with [`import`].

use std::path::{Path, PathBuf};

use berth_api::{Problem, Timestamp};
use berth_core::{CallerAction, Grant, SafeName};
use berth_keeper::import::{self as keeper, ImportLock, ImportSource};
use berth_store::conversation_locks;
use berth_store::names::RequestedName;
use berth_transcript::TranscriptKind;
use schemars::JsonSchema;
use serde::Serialize;

use super::{AgentConversation, ConversationSession, describe_holder, place_variables};
use crate::context::VerbContext;
use crate::progress::ProgressSink;
use crate::{auto_name, history, run};

/// Result for one conversation.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ImportedConversation {
    /// Id that the agent gave the conversation.
    #[serde(rename = "conversation_id")]
    pub conversation: String,
    /// Agent that writes the conversation: `claude` or `codex`.
    pub agent: String,
    /// Outcome of the import.
    pub outcome: ImportOutcome,
    /// Id of the session that has the conversation.
    pub session: Option<String>,
    /// Name of that session; in a dry run the name that it would get.
    pub name: Option<String>,
    /// Directory of the conversation.
    pub cwd: Option<PathBuf>,
    /// Time of the last record of the conversation.
    pub last_activity_at: Timestamp,
    /// Reason of a refusal.
    pub why: Option<String>,
}

/// Outcome of the import of one conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ImportOutcome")]
pub enum ImportOutcome {
    /// The conversation is a session now.
    Imported,
    /// The conversation would be imported without `--dry-run`.
    Would,
    /// A session has the conversation already.
    Already,
    /// The import was refused; `why` has the reason.
    Refused,
}

/// Choices of a caller that imports a conversation.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Name for the session; only valid for one conversation.
    pub name: Option<String>,
    /// Only report the outcomes, and change nothing.
    pub dry_run: bool,
}

/// Imports these conversations, one after the other.
pub fn import(
    ctx: &VerbContext,
    conversations: &[AgentConversation],
    order: &ImportOptions,
    progress: &dyn ProgressSink,
) -> Result<Vec<ImportedConversation>, Problem> {
    // Needs the rights of a start without a grant: the session can be run later, and no process is ended for it.
    ctx.may_at_all(CallerAction::Start { grant: Grant::Nothing, takes: false }, "a session")?;
    let wanted = order.name.as_deref().map(SafeName::parse).transpose();
    let wanted = wanted.map_err(|bad| Problem::usage(bad.to_string()))?;
    if wanted.is_some() && conversations.len() != 1 {
        return Err(
            Problem::usage("a name is only valid for one conversation").hint("import one, or leave it out")
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

fn one(
    ctx: &VerbContext,
    conversation: &AgentConversation,
    wanted: Option<&SafeName>,
    dry_run: bool,
) -> ImportedConversation {
    let told = |outcome, session: Option<ConversationSession>, why: Option<String>| ImportedConversation {
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
        return told(ImportOutcome::Already, Some(session.clone()), None);
    }
    if let Some(why) = unfit(conversation) {
        return told(ImportOutcome::Refused, None, Some(why));
    }
    if let Some(Err(problem)) = conversation.cwd.as_deref().map(|cwd| ctx.may_start_in(cwd)) {
        return told(ImportOutcome::Refused, None, Some(problem.what));
    }
    if dry_run {
        let name = Some(wanted.cloned().unwrap_or_else(|| stem(conversation)).to_string());
        return ImportedConversation { name, ..told(ImportOutcome::Would, None, None) };
    }
    match make(ctx, conversation, wanted, false) {
        Ok((outcome, session)) => told(outcome, Some(session), None),
        Err(problem) => told(ImportOutcome::Refused, None, Some(problem.what)),
    }
}

/// Reason why a conversation cannot be resumed later.
fn unfit(conversation: &AgentConversation) -> Option<String> {
    if let Some(why) = &conversation.unreadable {
        return Some(why.clone());
    }
    let has_words = conversation.first_words.is_some() || conversation.title.is_some();
    match &conversation.file {
        None => Some("it is still empty".to_owned()),
        Some(_) if conversation.cwd.is_none() => Some("its record does not name a directory".to_owned()),
        Some(_) if conversation.archived => {
            Some("its agent has archived it: bring it back there first".to_owned())
        }
        Some(_) if !conversation.held_by.is_empty() => Some(format!(
            "{} has it open: `berth adopt {}` takes it over",
            describe_holder(&conversation.held_by),
            conversation.id
        )),
        Some(_) if !has_words && conversation.bytes == 0 => Some("its record is empty".to_owned()),
        Some(_) => None,
    }
}

/// A name for a conversation: from its title, or from its first words.
fn stem(conversation: &AgentConversation) -> SafeName {
    let words = [conversation.title.as_deref(), conversation.first_words.as_deref()];
    auto_name::suggest_name(&words, conversation.cwd.as_deref().unwrap_or(Path::new("/")))
}

/// Creates the session; with `tui`, one of the agent's own terminal interface.
pub(super) fn make(
    ctx: &VerbContext,
    conversation: &AgentConversation,
    wanted: Option<&SafeName>,
    tui: bool,
) -> Result<(ImportOutcome, ConversationSession), Problem> {
    let kind = super::kind(&conversation.agent)?;
    let (file, cwd) = conversation
        .file
        .clone()
        .zip(conversation.cwd.clone())
        .ok_or_else(|| Problem::refused(format!("conversation {} has no record", conversation.id)))?;
    let cwd = cwd.into_os_string().into_string().map_err(|odd| {
        Problem::refused(format!("the directory {odd:?} of conversation {} is not UTF-8", conversation.id))
    })?;
    ctx.may_start_in(Path::new(&cwd))?;
    let store = store(kind)?;
    let spec = run::spec_of_kept(kind.word(), &conversation.id, tui, cwd, place_variables(kind))?;
    let spec =
        berth_api::record::SessionSpec { parent: ctx.parent.as_ref().map(ToString::to_string), ..spec };
    // Held until the session exists: two imports of one conversation at once make one session, not two.
    let lock = ImportLock::acquire(&ctx.home)?;
    let all = || conversation_locks::sessions_with(&ctx.home, kind.word(), &conversation.id);
    let ours = conversation_locks::session_of(&ctx.home, kind.word(), &conversation.id, store.as_ref(), all);
    if let Some(status) = ours {
        return Ok((
            ImportOutcome::Already,
            ConversationSession { id: status.id, name: status.name, state: status.state },
        ));
    }
    let name = wanted
        .map_or_else(|| RequestedName::Stem(stem(conversation)), |name| RequestedName::Chosen(name.clone()));
    let last_at_ms = conversation.last_activity_at.0;
    let spec: berth_core::SessionSpec = spec.into();
    let known = berth_core::Conversation { id: conversation.id.clone(), store };
    let past = ImportSource {
        spec: spec.clone(),
        name,
        conversation: known.clone(),
        file,
        bytes: conversation.bytes,
        began_at_ms: conversation.began_at.map_or(last_at_ms, |began| began.0.min(last_at_ms)),
        last_at_ms,
    };
    let status = keeper::import_session(&ctx.home, &lock, past)?;
    drop(lock);
    history::copy_now(ctx, &status, &spec, &known);
    Ok((
        ImportOutcome::Imported,
        ConversationSession { id: status.id, name: status.name, state: status.state },
    ))
}

fn store(kind: TranscriptKind) -> Result<String, Problem> {
    let dir = berth_transcript::config_dir(kind, |name| std::env::var_os(name));
    let dir = dir.map_err(Problem::refused)?;
    dir.into_os_string().into_string().map_err(|odd| Problem::refused(format!("{odd:?} is not UTF-8")))
}
