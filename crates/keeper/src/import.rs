//! Import of a conversation that took place outside of berth: makes a session for it, and starts nothing.
//!
//! Promise: the session is whole on disk before its name is visible; no session of berth writes the conversation
//! meanwhile; a failed import leaves nothing. The agent's transcript is not touched.
//! Not here: finding such conversations (`berth_transcript::conversation_catalog`), the command of such a session (see the verbs).
//! Start with [`import_session`].

use std::path::PathBuf;
use std::time::Duration;

use berth_api::{Problem, SessionStatus};
use berth_core::{ClockReading, Command, Conversation, Event, Observation, SafeName, SessionId, SessionSpec};
use berth_host::clock;
use berth_host::identity::ProcessIdentity;
use berth_host::lock::LockFile;
use berth_store::conversation_locks::ConversationClaim;
use berth_store::names::RequestedName;
use berth_store::state_dir::StateDir;
use berth_store::store::{self};

use crate::agent_launch;
use crate::journaled_session::{JournaledSession, SessionInput};

/// The time to wait for another command that imports a conversation.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// A conversation that took place outside of berth.
#[derive(Clone, Debug)]
pub struct ImportSource {
    /// The spec of the session that goes on with it.
    pub spec: SessionSpec,
    /// The name for the session.
    pub name: RequestedName,
    /// The conversation, by the agent's kind and id.
    pub conversation: Conversation,
    /// The agent's record of the conversation.
    pub file: PathBuf,
    /// The size of that record, in bytes.
    pub bytes: u64,
    /// The time of its beginning, in milliseconds since 1970.
    pub began_at_ms: u64,
    /// The time of its last message, in milliseconds since 1970.
    pub last_at_ms: u64,
}

/// The lock for importing a conversation. Given back on drop.
#[derive(Debug)]
pub struct ImportLock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] LockFile);

impl ImportLock {
    /// Waits for the lock.
    pub fn acquire(home: &StateDir) -> Result<Self, Problem> {
        let path = home.root().join("import.lock");
        let locked = LockFile::open_or_create(&path)
            .and_then(|file| Ok((file.acquire(LOCK_PATIENCE)?, file)))
            .map_err(|error| Problem::refused(format!("cannot lock {}: {error}", path.display())))?;
        match locked {
            (true, file) => Ok(Self(file)),
            (false, _) => Err(Problem::timed_out(format!("{} stays locked", path.display()))
                .hint("another berth command holds it; look for one that hangs")),
        }
    }
}

/// Makes its session. The lock, held since the caller looked for a session of this conversation, keeps two imports of it
/// from making two sessions.
pub fn import_session(home: &StateDir, _: &ImportLock, past: ImportSource) -> Result<SessionStatus, Problem> {
    let cannot = |what: &str, error: &dyn std::fmt::Display| {
        Problem::refused(format!("cannot make a session: {what}: {error}"))
    };
    let id = home.mint().map_err(|error| cannot("making its directory", &error))?;
    let made = home.claim_name(&past.name, &id).and_then(|(name, claim)| {
        let made = make(home, &id, name, past);
        made.map_err(|problem| (claim.give_up(), problem).1)
    });
    if made.is_err() {
        // The session is empty, and no caller has heard of it.
        home.session(&id).remove_unmade();
    }
    made
}

fn make(
    home: &StateDir,
    id: &SessionId,
    name: SafeName,
    past: ImportSource,
) -> Result<SessionStatus, Problem> {
    let ImportSource { spec, name: _, conversation, file, bytes, began_at_ms, last_at_ms } = past;
    let files = home.session(id);
    let conversation_id = conversation.id.clone();
    let trouble = |error: std::io::Error| {
        Problem::refused(format!("cannot make session {id} of {conversation_id}: {error}"))
    };
    let lease = files.claim().map_err(trouble)?.ok_or_else(|| {
        Problem::held(format!("session {id} is in use by another command")).hint("try again")
    })?;
    let _ = ProcessIdentity::me().and_then(|me| lease.sign(&me, 0));
    // Held until the session exists: a process that wants the conversation meanwhile is refused with this session's id.
    let claimed = home.claim_conversation(&spec.conversation, &conversation.id, id);
    let _lock = match claimed.map_err(trouble)? {
        ConversationClaim::Ours(lock) => lock,
        ConversationClaim::Held(by) => {
            let by = by.map_or_else(|| "another session".to_owned(), |by| format!("session {by}"));
            let what = format!("conversation {} is being written by {by}", conversation.id);
            return Err(Problem::in_use(what).hint("`berth ls` shows it"));
        }
    };
    let mut owner = JournaledSession::create(&lease)?;
    let inputs = vec![
        SessionInput::Command(Command::Create { spec: agent_launch::with_traits(spec), name: Some(name) }),
        SessionInput::Report(Observation::Conversation { conversation }),
        SessionInput::Note(Event::Imported {
            file: file.display().to_string(),
            bytes,
            began_at_ms,
            last_at_ms,
        }),
    ];
    let now = ClockReading { wall_ms: clock::wall_ms(), boot_ms: clock::boot_ms() };
    lease.confirm()?;
    let taken = owner.take(inputs, now).map_err(|error| store::journal_problem(&error, id.as_str()))?;
    if let Some(refusal) = taken.answers.into_iter().find_map(Result::err) {
        return Err(berth_api::problem::refusal(&refusal, id.as_str()));
    }
    files.sync_new().map_err(trouble)?;
    let status = files.describe(owner.history(), false);
    owner.close().map_err(|error| store::journal_problem(&error, id.as_str()))?;
    files.write_status_cache(&status);
    Ok(status)
}
