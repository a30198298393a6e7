//! A session for a conversation that was had without us: made, and nothing started.
//!
//! Promise: the session is whole on disk before anybody can see its name; nobody of ours writes the conversation
//! meanwhile; what fails leaves nothing. The agent's own record is not touched.
//! Not here: finding such conversations (`berth_transcript::shelf`), what such a session runs (see the verbs).
//! Start with [`import`].

use std::path::PathBuf;
use std::time::Duration;

use berth_api::{Code, Problem, Status};
use berth_core::{Command, Conversation, Event, Name, Now, Observation, SessionId, Spec};
use berth_host::clock;
use berth_host::identity::Identity;
use berth_host::lock::LockFile;
use berth_store::conversations::Claim;
use berth_store::home::Home;
use berth_store::names::Naming;
use berth_store::store::{self};

use crate::driver;
use crate::journaled_session::{Input, JournaledSession};

/// How long to wait for a command that imports another conversation.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// A conversation that was had without us.
#[derive(Clone, Debug)]
pub struct Past {
    /// What goes on with it.
    pub spec: Spec,
    /// What people will call it.
    pub name: Naming,
    /// Which it is.
    pub conversation: Conversation,
    /// The agent's record of it.
    pub file: PathBuf,
    /// How long that is.
    pub bytes: u64,
    /// When it began, in milliseconds since 1970.
    pub began_at_ms: u64,
    /// When something was last said in it.
    pub last_at_ms: u64,
}

/// The right to import a conversation. Given back on drop.
#[derive(Debug)]
pub struct ImportLock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] LockFile);

impl ImportLock {
    /// Waits for the right to import.
    pub fn acquire(home: &Home) -> Result<Self, Problem> {
        let path = home.root().join("import.lock");
        let locked = LockFile::open_or_create(&path)
            .and_then(|file| Ok((file.acquire(LOCK_PATIENCE)?, file)))
            .map_err(|error| {
                Problem::new(Code::Refused, format!("cannot lock {}: {error}", path.display()))
            })?;
        match locked {
            (true, file) => Ok(Self(file)),
            (false, _) => Err(Problem::new(Code::TimedOut, format!("{} stays locked", path.display()))
                .hint("another berth command holds it; look for one that hangs")),
        }
    }
}

/// Makes its session. The lock, held since the caller looked for a session of this conversation, keeps two imports of it
/// from making two sessions.
pub fn import(home: &Home, _: &ImportLock, past: Past) -> Result<Status, Problem> {
    let cannot = |what: &str, error: &dyn std::fmt::Display| {
        Problem::new(Code::Refused, format!("cannot make a session: {what}: {error}"))
    };
    let id = home.mint().map_err(|error| cannot("making its directory", &error))?;
    let made = home.claim_name(&past.name, &id).and_then(|(name, claim)| {
        let made = make(home, &id, name, past);
        made.map_err(|problem| (claim.give_up(), problem).1)
    });
    if made.is_err() {
        // Nothing was ever said in it, and nobody has heard of it.
        home.session(&id).remove_unmade();
    }
    made
}

fn make(home: &Home, id: &SessionId, name: Name, past: Past) -> Result<Status, Problem> {
    let Past { spec, name: _, conversation, file, bytes, began_at_ms, last_at_ms } = past;
    let files = home.session(id);
    let conversation_id = conversation.id.clone();
    let trouble = |error: std::io::Error| {
        Problem::new(Code::Refused, format!("cannot make session {id} of {conversation_id}: {error}"))
    };
    let lease = files.claim().map_err(trouble)?.ok_or_else(|| {
        Problem::new(Code::Held, format!("session {id} is in use by another command")).hint("try again")
    })?;
    let _ = Identity::me().and_then(|me| lease.sign(&me, 0));
    // Held until the session is there: who else wants the conversation finds it ours, or not at all.
    let claimed = home.claim_conversation(&spec.conversation, &conversation.id, id);
    let _lock = match claimed.map_err(trouble)? {
        Claim::Ours(lock) => lock,
        Claim::Held(by) => {
            let by = by.map_or_else(|| "another session".to_owned(), |by| format!("session {by}"));
            let what = format!("conversation {} is being written by {by}", conversation.id);
            return Err(Problem::new(Code::InUse, what).hint("`berth ls` shows it"));
        }
    };
    let mut owner = JournaledSession::create(&lease)?;
    let inputs = vec![
        Input::Command(Command::Create { spec: driver::with_traits(spec), name: Some(name) }),
        Input::Report(Observation::Conversation { conversation }),
        Input::Note(Event::Imported { file: file.display().to_string(), bytes, began_at_ms, last_at_ms }),
    ];
    let now = Now { wall_ms: clock::wall_ms(), boot_ms: clock::boot_ms() };
    lease.confirm()?;
    let taken = owner.take(inputs, now).map_err(|error| store::journal_problem(&error, id.as_str()))?;
    if let Some(refusal) = taken.answers.into_iter().find_map(Result::err) {
        return Err(berth_api::problem::refusal(&refusal, id.as_str()));
    }
    files.sync_new().map_err(trouble)?;
    let status = files.describe(owner.history(), false);
    owner.close().map_err(|error| store::journal_problem(&error, id.as_str()))?;
    files.write_short_cut(&status);
    Ok(status)
}
