//! Taking up a conversation at the start of a run: its choice, the lock to write it, and a check for foreign writers.
//!
//! Promise: before an agent is started that may write a conversation, the keeper holds its lock and has looked for
//! writers that are not its own; a conversation that is gone is an error with a choice, never a fresh start
//! that was not asked for.
//! Not here: the lock itself (`berth_store::conversation_locks`), the search (`writers`), the conversation during
//! the run (`run_conversation`).

use std::time::Duration;

use berth_api::message::WriterTakeover;
use berth_api::{Problem, problem};
use berth_conversations::foreign_writers;
use berth_conversations::location;
use berth_core::{
    Actor, AgentInterface, Conversation, ConversationOrigin, Event, Observation, Refusal, Session, SessionId,
    SessionSpec,
};
use berth_driver::{AgentTraits, ConversationStart};
use berth_store::SessionFiles;
use berth_store::audit::{self, AuditEvent};
use berth_store::conversation_locks::{ConversationClaim, ConversationLock};

use super::trouble;
use crate::journaled_session::SessionInput;
use crate::{agent_launch, turn_outcome};

/// The time that a foreign writer may take to end before it is killed.
const TAKE_GRACE: Duration = Duration::from_secs(5);
/// The longest id of a conversation that is only sent over a protocol.
const MAX_ID_BYTES: usize = 512;

/// The way a run will take up its conversation.
#[derive(Debug)]
pub(super) struct PreparedConversation {
    pub(super) begin: ConversationStart,
    pub(super) lock: Option<ConversationLock>,
    /// The events to record about it, in one commit with the run's start.
    pub(super) inputs: Vec<SessionInput>,
}

impl PreparedConversation {
    /// Decides the way, and takes the lock to write the conversation. Foreign writers are ended if `take` allows it.
    pub(super) fn prepare(
        files: &SessionFiles,
        session: &Session,
        spec: &SessionSpec,
        take: &WriterTakeover,
        by: &Actor,
    ) -> Result<Self, Problem> {
        let id = files.id();
        let name = session.name.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
        let begin = begin_of(session, spec, id, &name)?;
        let known = match &begin {
            ConversationStart::New { id } | ConversationStart::Fork { id, .. } => id.clone(),
            ConversationStart::Resume { id } => Some(id.clone()),
        };
        let Some(known) = known.filter(|_| !spec.conversation.is_empty()) else {
            return Ok(Self { begin, lock: None, inputs: vec![] });
        };
        let lock = claim(files, spec, &known)?;
        let mut notes = vec![];
        let ended = |writer: &foreign_writers::ForeignWriter| {
            let event = AuditEvent::ConversationTaken {
                session: id.to_string(),
                name: name.clone(),
                conversation_id: audit::text_for_log(&known),
                ended: audit::text_for_log(&writer.line()),
            };
            audit::append_audit_event(files.root(), &problem::describe(by), event);
        };
        if matches!(begin, ConversationStart::Resume { .. }) {
            look_for_others(session, spec, &known, &name, take, &ended)?;
            let left = end_orphans(session, spec, &known)?;
            // The end of orphans may have taken long: another program may have opened the conversation meanwhile.
            if left.ended {
                look_for_others(session, spec, &known, &name, take, &ended)?;
            }
            notes = left.notes;
        }
        let conversation = Conversation { id: known, store: location::transcript_dir_setting(spec) };
        let mut inputs = vec![SessionInput::Report(Observation::Conversation { conversation })];
        inputs.extend(notes.into_iter().map(|what| SessionInput::Note(Event::Warned { what })));
        Ok(Self { begin, lock: Some(lock), inputs })
    }
}

fn claim(files: &SessionFiles, spec: &SessionSpec, known: &str) -> Result<ConversationLock, Problem> {
    let id = files.id();
    match files.home().claim_conversation(&spec.conversation, known, id) {
        Ok(ConversationClaim::Ours(lock)) => Ok(lock),
        // The last keeper of this session, in its last moment.
        Ok(ConversationClaim::Held(Some(by))) if by == *id => {
            Err(Problem::held(format!("conversation {known} is being closed right now")).hint("try again"))
        }
        Ok(ConversationClaim::Held(by)) => {
            let by = by.map_or_else(|| "another session".to_owned(), |by| format!("session {by}"));
            let other = by.strip_prefix("session ").unwrap_or("S");
            Err(Problem::in_use(format!("conversation {known} is being written by {by}")).hint(format!(
                "send to it with `berth send {other} TEXT`, watch it with `berth log {other} --follow`, \
                 wait for it with `berth wait {other} --for exit`, or copy it with `berth fork {other}`"
            )))
        }
        Err(error) => Err(trouble(&format!("lock conversation {known}"), &error)),
    }
}

/// Rejects, or ends, writers that are not ours. No process of ours runs at this moment.
fn look_for_others(
    session: &Session,
    spec: &SessionSpec,
    known: &str,
    name: &str,
    take: &WriterTakeover,
    told: &dyn Fn(&foreign_writers::ForeignWriter),
) -> Result<(), Problem> {
    let find = || {
        foreign_writers::find_foreign_writers(
            &spec.conversation,
            known,
            location::where_kept(spec, session.conversation.as_ref()),
            |_| false,
        )
    };
    let unclear = |why: String| {
        Problem::in_use(format!("cannot tell whether another program writes conversation {known}: {why}"))
            .hint("fix the cause, then try again")
    };
    let mut found = find().map_err(unclear)?;
    if !found.is_empty() && found.iter().all(|writer| take.includes(writer.identity.pid)) {
        // Checked before any process is ended: a writer in another session is not ended here, and then the others
        // stay as well.
        if let Some((writer, kept)) = found.iter().find_map(|writer| Some((writer, writer.kept_in()?))) {
            let session = kept.id();
            let what =
                format!("conversation {known} is being written in session {session}: {}", writer.line());
            return Err(Problem::in_use(what).hint(format!("end that with `berth stop {session}`")));
        }
        for writer in &found {
            let ended = foreign_writers::end_foreign_writer(writer, TAKE_GRACE, None);
            ended.map_err(|why| Problem::refused(format!("cannot take conversation {known} over: {why}")))?;
            told(writer);
        }
        found = find().map_err(unclear)?;
    }
    if found.is_empty() {
        return Ok(());
    }
    let who: Vec<String> = found.iter().map(foreign_writers::ForeignWriter::line).collect();
    Err(Problem::in_use(format!("conversation {known} is being written by {}", who.join("; and by ")))
    .hint(format!(
        "close it there and try again; or end it and go on (`berth resume {name} --take`, `berth run … --resume ID --take`); or go on in a copy with `berth fork {name}`"
    )))
}

/// The result of looking for processes that killed agents left.
#[derive(Default)]
struct LeftoverCleanup {
    /// True if a process was ended.
    ended: bool,
    /// The actions taken, for people.
    notes: Vec<String>,
}

/// Ends tools that an agent of this conversation left at work when it was killed: they would go on changing files
/// under the next one's feet. No program writes the conversation at this moment.
fn end_orphans(session: &Session, spec: &SessionSpec, known: &str) -> Result<LeftoverCleanup, Problem> {
    let env = location::where_kept(spec, session.conversation.as_ref());
    let orphans = match foreign_writers::orphaned_agents(&spec.conversation, known, env) {
        Ok(orphans) => orphans,
        // These tools do not write the conversation: a failed search for them does not prevent the run.
        Err(why) => return Ok(LeftoverCleanup { ended: false, notes: vec![why] }),
    };
    let ended = orphans.end().map_err(|why| {
        Problem::refused(format!(
            "a tool of an agent that was killed still runs in conversation {known}: {why}"
        ))
        .hint("end it, then try again")
    })?;
    let mut left = LeftoverCleanup { ended: !ended.is_empty(), notes: vec![] };
    if left.ended {
        left.notes.push(format!("ended processes that a killed agent left running: {}", ended.join("; ")));
    }
    if !orphans.others.is_empty() {
        let others: Vec<String> = orphans.others.iter().map(foreign_writers::OrphanProcess::line).collect();
        left.notes.push(format!("left alone, because it may be meant to stay: {}", others.join("; ")));
    }
    Ok(left)
}

/// The conversation that the next run writes, and the way it gets there.
fn begin_of(
    session: &Session,
    spec: &SessionSpec,
    id: &SessionId,
    name: &str,
) -> Result<ConversationStart, Problem> {
    let mints = agent_launch::of(&spec.driver, id).is_some_and(|driver| driver.mints());
    let minted = || mints.then(mint);
    let gone = |id: &str| {
        let what = format!("session `{name}` cannot go on: {}", turn_outcome::no_conversation(id, name));
        Problem::not_found(what)
            .hint(format!(
                "if `berth history {name}` has a copy, `berth restore {name} --history` puts it back; `berth turns {name}` shows what was said in it"
            ))
    };
    let Some(known) = &session.conversation else {
        if let ConversationOrigin::Resumed(of) | ConversationOrigin::Forked(of) = &spec.origin {
            is_safe_to_name(spec, of)?;
        }
        return match &spec.origin {
            ConversationOrigin::New => Ok(ConversationStart::New { id: minted() }),
            ConversationOrigin::Named(id) => Ok(ConversationStart::New { id: Some(id.clone()) }),
            ConversationOrigin::Resumed(id)
                if location::conversation_exists(spec, None, id) == Some(false) =>
            {
                Err(gone(id))
            }
            ConversationOrigin::Resumed(id) => Ok(ConversationStart::Resume { id: id.clone() }),
            ConversationOrigin::Forked(of)
                if location::conversation_exists(spec, None, of) == Some(false) =>
            {
                Err(gone(of))
            }
            ConversationOrigin::Forked(of) => Ok(ConversationStart::Fork { of: of.clone(), id: minted() }),
        };
    };
    // The user's own choice is on the session's command line already.
    let own_word = match &spec.origin {
        ConversationOrigin::Named(word)
        | ConversationOrigin::Resumed(word)
        | ConversationOrigin::Forked(word) => *word == known.id,
        ConversationOrigin::New => false,
    };
    if !own_word && !is_an_id(spec, &known.id) {
        let what = format!("`{}` is not the id of a conversation", known.id.escape_debug());
        return Err(Problem::refused(format!("session `{name}` cannot go on: {what}"))
            .hint("an agent gave it that; begin a new session"));
    }
    let was_given = session.turns.last_given > session.given_up_after;
    let came_with_one = matches!(spec.origin, ConversationOrigin::Resumed(_) | ConversationOrigin::Forked(_));
    match location::conversation_exists(spec, Some(known), &known.id) {
        Some(true) => Ok(ConversationStart::Resume { id: known.id.clone() }),
        Some(false) if has_a_past(session, spec) => Err(gone(&known.id)),
        // An agent records nothing before its first prompt.
        // The agent may have begun a file all the same. Then the id is in use and there is nothing to resume, so a
        // new id is used.
        Some(false) if spec.takes_turns() => Ok(ConversationStart::New { id: minted() }),
        Some(false) => Ok(ConversationStart::New { id: Some(known.id.clone()) }),
        None if was_given || came_with_one => Ok(ConversationStart::Resume { id: known.id.clone() }),
        None => Ok(ConversationStart::New { id: minted() }),
    }
}

/// True if an agent may use this id for its conversation. An id that may be put on a command line must not be taken
/// for anything else there.
pub(super) fn is_an_id(spec: &SessionSpec, id: &str) -> bool {
    match spec.takes_turns() && !AgentTraits::of(&spec.conversation).takes_id_as_argument {
        false => berth_transcript::is_plain_id(id),
        true => {
            (1..=MAX_ID_BYTES).contains(&id.len())
                && !id.starts_with('-')
                && !id.contains(|letter: char| letter.is_control())
        }
    }
}

/// Rejects an id that goes onto a command line and is not known to be one: the agent would take it for an option.
fn is_safe_to_name(spec: &SessionSpec, id: &str) -> Result<(), Problem> {
    if !AgentTraits::of(&spec.conversation).takes_id_as_argument {
        return Ok(());
    }
    let found = berth_transcript::transcript_files(&spec.conversation, id, location::where_kept(spec, None));
    found.map(drop).map_err(|why| {
        Problem::refused(format!("cannot go on with conversation {}: {why}", id.escape_debug()))
            .hint("name the id of one that is there")
    })
}

/// True if a session whose conversation is gone would lose its past.
pub(super) fn has_a_past(session: &Session, spec: &SessionSpec) -> bool {
    let was_answered = session.turns.last_done > session.given_up_after;
    was_answered || matches!(spec.origin, ConversationOrigin::Resumed(_) | ConversationOrigin::Forked(_))
}

/// Rejects a switch to another interface if there is no recorded conversation to go on with.
pub(super) fn can_go_on(session: &Session, to: AgentInterface, name: &str) -> Result<(), Problem> {
    let Some((spec, known)) = session.spec.as_ref().zip(session.conversation.as_ref()) else { return Ok(()) };
    let is_another = spec.interface() != to && spec.other.is_some();
    if is_another && location::conversation_exists(spec, Some(known), &known.id) == Some(false) {
        return Err(problem::refusal(&Refusal::NoConversation, name));
    }
    Ok(())
}

/// A new id: a random UUID.
fn mint() -> String {
    let mut bytes = [0; 16];
    // Random bytes are available on every kernel that has our other requirements. Otherwise the agent rejects the id
    // as in use.
    let _ = berth_host::random_bytes(&mut bytes);
    berth_host::uuid_from_random_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use berth_api::ProblemCode;

    use super::*;

    #[test]
    fn a_text_that_is_not_an_id_is_not_put_on_a_command_line() {
        let spec = SessionSpec { conversation: "claude".to_owned(), ..SessionSpec::default() };
        for id in ["--settings={}", "", "a b", "../x"] {
            let session = Session::default();
            let me = SessionId::parse("0123456789ab").expect("an id");
            for origin in
                [ConversationOrigin::Resumed(id.to_owned()), ConversationOrigin::Forked(id.to_owned())]
            {
                let spec = SessionSpec { origin, ..spec.clone() };
                let refused = begin_of(&session, &spec, &me, "fix").expect_err(id);
                assert_eq!(refused.code, ProblemCode::Refused, "{refused:?}");
            }
        }
    }

    #[test]
    fn an_agents_id_of_its_conversation_is_never_taken_for_an_option() {
        let me = SessionId::parse("0123456789ab").expect("an id");
        for (driver, kind) in
            [("pty", "claude"), ("pty", "codex"), ("pty", ""), ("claude", "claude"), ("acp", "opencode")]
        {
            let spec = SessionSpec {
                conversation: kind.to_owned(),
                driver: driver.to_owned(),
                ..SessionSpec::default()
            };
            for id in ["--permission-mode=bypassPermissions", "-c", "", "a\nb"] {
                assert!(!is_an_id(&spec, id), "{driver} {kind} {id:?}");
                let conversation = Conversation { id: id.to_owned(), store: String::new() };
                let session = Session { conversation: Some(conversation), ..Session::default() };
                let refused = begin_of(&session, &spec, &me, "fix").expect_err(id);
                assert_eq!(refused.code, ProblemCode::Refused, "{refused:?}");
            }
            assert!(is_an_id(&spec, "0198a7c2-5d1e-7b90-8f3a-2c4d5e6f7a8b"));
        }
        let terminal = SessionSpec {
            conversation: "claude".to_owned(),
            driver: "pty".to_owned(),
            ..SessionSpec::default()
        };
        for id in ["a b", "../x", "a=b", "a;b"] {
            assert!(!is_an_id(&terminal, id), "{id:?}");
        }
    }
}
