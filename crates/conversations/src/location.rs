//! Where the agent of a session keeps its conversation, by its own variables.
//!
//! Promise: the place is that of the agent, as it was when the agent ran, whatever the variables of this process are.
//! Not here: the files themselves (see `berth_transcript`). Start with [`conversation_files`].

use std::ffi::OsString;
use std::path::PathBuf;

use berth_core::{Conversation, ConversationOrigin, Session, SessionSpec};

/// The directory in which the agent of this session keeps its conversations; empty if unknown.
pub fn transcript_dir_setting(spec: &SessionSpec) -> String {
    let kind = berth_transcript::TranscriptKind::of(&spec.conversation);
    let dir = kind.and_then(|kind| berth_transcript::config_dir(kind, |name| variable(spec, name)).ok());
    dir.and_then(|dir| dir.into_os_string().into_string().ok()).unwrap_or_default()
}

/// Looks up the environment variables that locate the agent's conversations, with their values when the agent ran:
/// the reading process may have another home.
pub fn where_kept<'a>(
    spec: &'a SessionSpec,
    conversation: Option<&'a Conversation>,
) -> impl Fn(&str) -> Option<OsString> + 'a {
    let store =
        conversation.map(|conversation| conversation.store.as_str()).filter(|store| !store.is_empty());
    let variable = berth_transcript::TranscriptKind::of(&spec.conversation)
        .map(berth_transcript::TranscriptKind::dir_variable);
    move |name| match store.filter(|_| variable == Some(name)) {
        Some(store) => Some(store.into()),
        None => self::variable(spec, name),
    }
}

/// True if the agent has a record of a conversation; `None` if that is unknown.
pub fn conversation_exists(spec: &SessionSpec, known: Option<&Conversation>, id: &str) -> Option<bool> {
    berth_transcript::transcript_exists(&spec.conversation, id, where_kept(spec, known))
}

/// The files in which the agent of this session records its conversation.
pub fn conversation_files(session: &Session) -> Result<Vec<PathBuf>, String> {
    let Some(spec) = &session.spec else { return Ok(Vec::new()) };
    let known = session.conversation.as_ref();
    let named = match &spec.origin {
        ConversationOrigin::Named(id) | ConversationOrigin::Resumed(id) => Some(id.as_str()),
        ConversationOrigin::New | ConversationOrigin::Forked(_) => None,
    };
    let Some(id) = known.map(|known| known.id.as_str()).or(named) else { return Ok(Vec::new()) };
    berth_transcript::transcript_files(&spec.conversation, id, where_kept(spec, known))
}

/// A variable as the agent of this session sees it.
pub fn variable(spec: &SessionSpec, name: &str) -> Option<OsString> {
    let given = spec.env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.into());
    given.or_else(|| std::env::var_os(name))
}
