//! How a run takes a conversation up: which one, whether it may write it, and which other programs do.
//!
//! Promise: before an agent is started that may write a conversation, the keeper holds its lock and has looked for
//! writers that are not its own; a conversation that is gone is an error with a choice, never a fresh start
//! that was not asked for.
//! Not here: the lock itself (`berth_store::conversations`), the search (`writers`), the conversation during the run
//! (`agent_conversation`).

use std::time::Duration;

use berth_api::message::Take;
use berth_api::{Code, Problem, problem};
use berth_core::{
    Actor, Conversation, Event, Interface, Observation, Origin, Refusal, Session, SessionId, Spec,
};
use berth_driver::{AgentTraits, Begin};
use berth_store::SessionFiles;
use berth_store::conversations::{Claim, ConversationLock};

use super::trouble;
use crate::audit::{self, AuditEvent};
use crate::journaled_session::Input;
use crate::{driver, turn, writers};

/// How long a writer that is to be ended may take before it is killed.
const TAKE_GRACE: Duration = Duration::from_secs(5);
/// The longest id of a conversation that is only ever said over a protocol.
const MAX_ID_BYTES: usize = 512;

/// How a run will take its conversation up.
#[derive(Debug)]
pub(super) struct TakeUp {
    pub(super) begin: Begin,
    pub(super) lock: Option<ConversationLock>,
    /// What is to be recorded about it, in one commit with the run's start.
    pub(super) inputs: Vec<Input>,
}

impl TakeUp {
    /// Decides how, and takes the right to write it. Others who write it are ended if `take` means them.
    pub(super) fn prepare(
        files: &SessionFiles,
        session: &Session,
        spec: &Spec,
        take: &Take,
        by: &Actor,
    ) -> Result<Self, Problem> {
        let id = files.id();
        let name = session.name.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
        let begin = begin_of(session, spec, id, &name)?;
        let known = match &begin {
            Begin::New { id } | Begin::Fork { id, .. } => id.clone(),
            Begin::Resume { id } => Some(id.clone()),
        };
        let Some(known) = known.filter(|_| !spec.conversation.is_empty()) else {
            return Ok(Self { begin, lock: None, inputs: vec![] });
        };
        let lock = claim(files, spec, &known)?;
        let mut notes = vec![];
        let ended = |writer: &writers::Writer| {
            let event = AuditEvent::ConversationTaken {
                session: id.to_string(),
                name: name.clone(),
                conversation_id: audit::plain(&known),
                ended: audit::plain(&writer.line()),
            };
            audit::note(files.root(), &problem::describe(by), event);
        };
        if matches!(begin, Begin::Resume { .. }) {
            look_for_others(session, spec, &known, &name, take, &ended)?;
            let left = end_orphans(session, spec, &known)?;
            // That may have taken long: another program may have opened it meanwhile.
            if left.ended {
                look_for_others(session, spec, &known, &name, take, &ended)?;
            }
            notes = left.notes;
        }
        let conversation = Conversation { id: known, store: turn::store_of(spec) };
        let mut inputs = vec![Input::Report(Observation::Conversation { conversation })];
        inputs.extend(notes.into_iter().map(|what| Input::Note(Event::Warned { what })));
        Ok(Self { begin, lock: Some(lock), inputs })
    }
}

fn claim(files: &SessionFiles, spec: &Spec, known: &str) -> Result<ConversationLock, Problem> {
    let id = files.id();
    match files.home().claim_conversation(&spec.conversation, known, id) {
        Ok(Claim::Ours(lock)) => Ok(lock),
        // Our own last keeper, in its last moment.
        Ok(Claim::Held(Some(by))) if by == *id => {
            Err(Problem::new(Code::Held, format!("conversation {known} is just being left"))
                .hint("try again"))
        }
        Ok(Claim::Held(by)) => {
            let by = by.map_or_else(|| "another session".to_owned(), |by| format!("session {by}"));
            let other = by.strip_prefix("session ").unwrap_or("S");
            Err(Problem::new(Code::InUse, format!("conversation {known} is being written by {by}")).hint(
                format!(
                    "send to it with `berth send {other} TEXT`, watch it with `berth log {other} --follow`, \
                 wait for it with `berth wait {other} --for exit`, or copy it with `berth fork {other}`"
                ),
            ))
        }
        Err(error) => Err(trouble(&format!("lock conversation {known}"), &error)),
    }
}

/// Refuses, or ends, writers that are not ours. Nothing of our own runs at this moment.
fn look_for_others(
    session: &Session,
    spec: &Spec,
    known: &str,
    name: &str,
    take: &Take,
    told: &dyn Fn(&writers::Writer),
) -> Result<(), Problem> {
    let find = || {
        writers::find(
            &spec.conversation,
            known,
            turn::where_kept(spec, session.conversation.as_ref()),
            |_| false,
        )
    };
    let unclear = |why: String| {
        Problem::new(
            Code::InUse,
            format!("cannot tell whether another program writes conversation {known}: {why}"),
        )
        .hint("mend that, then try again")
    };
    let mut found = find().map_err(unclear)?;
    if !found.is_empty() && found.iter().all(|writer| take.means(writer.identity.pid)) {
        // Before anybody is ended: what another session keeps is not ended here, and then the rest stays as well.
        if let Some((writer, kept)) = found.iter().find_map(|writer| Some((writer, writer.kept_in()?))) {
            let session = kept.id();
            let what =
                format!("conversation {known} is being written in session {session}: {}", writer.line());
            return Err(Problem::new(Code::InUse, what).hint(format!("end that with `berth stop {session}`")));
        }
        for writer in &found {
            let ended = writers::end(writer, TAKE_GRACE, None);
            ended.map_err(|why| {
                Problem::new(Code::Refused, format!("cannot take conversation {known} over: {why}"))
            })?;
            told(writer);
        }
        found = find().map_err(unclear)?;
    }
    if found.is_empty() {
        return Ok(());
    }
    let who: Vec<String> = found.iter().map(writers::Writer::line).collect();
    Err(Problem::new(
        Code::InUse,
        format!("conversation {known} is being written by {}", who.join("; and by ")),
    )
    .hint(format!(
        "close it there and try again; or end it and go on (`berth resume {name} --take`, `berth run … --resume ID --take`); or go on in a copy with `berth fork {name}`"
    )))
}

/// What came of looking for what killed agents left.
#[derive(Default)]
struct Left {
    /// Something was ended.
    ended: bool,
    /// What was done, for people.
    notes: Vec<String>,
}

/// Ends tools that an agent of this conversation left at work when it was killed: they would go on changing files
/// under the next one's feet. No program writes the conversation at this moment.
fn end_orphans(session: &Session, spec: &Spec, known: &str) -> Result<Left, Problem> {
    let env = turn::where_kept(spec, session.conversation.as_ref());
    let orphans = match writers::orphans(&spec.conversation, known, env) {
        Ok(orphans) => orphans,
        // They do not write the conversation: a failed search for them is no reason not to go on.
        Err(why) => return Ok(Left { ended: false, notes: vec![why] }),
    };
    let ended = orphans.end().map_err(|why| {
        Problem::new(
            Code::Refused,
            format!("a tool of an agent that was killed still runs in conversation {known}: {why}"),
        )
        .hint("end it, then try again")
    })?;
    let mut left = Left { ended: !ended.is_empty(), notes: vec![] };
    if left.ended {
        left.notes.push(format!("ended what an agent that was killed left running: {}", ended.join("; ")));
    }
    if !orphans.others.is_empty() {
        let others: Vec<String> = orphans.others.iter().map(writers::Orphan::line).collect();
        left.notes.push(format!("left alone, because it may be meant to stay: {}", others.join("; ")));
    }
    Ok(left)
}

/// Which conversation the next run writes, and how it gets there.
fn begin_of(session: &Session, spec: &Spec, id: &SessionId, name: &str) -> Result<Begin, Problem> {
    let mints = driver::of(&spec.driver, id).is_some_and(|driver| driver.mints());
    let minted = || mints.then(mint);
    let gone = |id: &str| {
        let what = format!("session `{name}` cannot go on: {}", turn::no_conversation(id, name));
        Problem::new(Code::NotFound, what)
            .hint(format!(
                "if `berth history {name}` has a copy, `berth restore {name} --history` puts it back; `berth turns {name}` shows what was said in it"
            ))
    };
    let Some(known) = &session.conversation else {
        if let Origin::Resumed(of) | Origin::Forked(of) = &spec.origin {
            is_safe_to_name(spec, of)?;
        }
        return match &spec.origin {
            Origin::New => Ok(Begin::New { id: minted() }),
            Origin::Named(id) => Ok(Begin::New { id: Some(id.clone()) }),
            Origin::Resumed(id) if turn::exists(spec, None, id) == Some(false) => Err(gone(id)),
            Origin::Resumed(id) => Ok(Begin::Resume { id: id.clone() }),
            Origin::Forked(of) if turn::exists(spec, None, of) == Some(false) => Err(gone(of)),
            Origin::Forked(of) => Ok(Begin::Fork { of: of.clone(), id: minted() }),
        };
    };
    // A user's own word is on the session's command line already.
    let own_word = match &spec.origin {
        Origin::Named(word) | Origin::Resumed(word) | Origin::Forked(word) => *word == known.id,
        Origin::New => false,
    };
    if !own_word && !is_an_id(spec, &known.id) {
        let what = format!("`{}` is not the id of a conversation", known.id.escape_debug());
        return Err(Problem::new(Code::Refused, format!("session `{name}` cannot go on: {what}"))
            .hint("an agent gave it that; begin a new session"));
    }
    let was_given = session.turns.last_given > session.given_up_after;
    let came_with_one = matches!(spec.origin, Origin::Resumed(_) | Origin::Forked(_));
    match turn::exists(spec, Some(known), &known.id) {
        Some(true) => Ok(Begin::Resume { id: known.id.clone() }),
        Some(false) if has_a_past(session, spec) => Err(gone(&known.id)),
        // An agent records nothing before its first prompt.
        // It may have begun a file all the same, and then the id is in use and there is nothing to resume.
        Some(false) if spec.takes_turns() => Ok(Begin::New { id: minted() }),
        Some(false) => Ok(Begin::New { id: Some(known.id.clone()) }),
        None if was_given || came_with_one => Ok(Begin::Resume { id: known.id.clone() }),
        None => Ok(Begin::New { id: minted() }),
    }
}

/// Whether an agent may call its conversation so. What can come to stand on a command line must not be taken for
/// anything else there.
pub(super) fn is_an_id(spec: &Spec, id: &str) -> bool {
    match spec.takes_turns() && !AgentTraits::of(&spec.conversation).takes_id_as_argument {
        false => berth_transcript::is_plain_id(id),
        true => {
            (1..=MAX_ID_BYTES).contains(&id.len())
                && !id.starts_with('-')
                && !id.contains(|letter: char| letter.is_control())
        }
    }
}

/// Refuses an id that goes onto a command line and is not known to be one: the agent would take it for an option.
fn is_safe_to_name(spec: &Spec, id: &str) -> Result<(), Problem> {
    if !AgentTraits::of(&spec.conversation).takes_id_as_argument {
        return Ok(());
    }
    let found = berth_transcript::files(&spec.conversation, id, turn::where_kept(spec, None));
    found.map(drop).map_err(|why| {
        Problem::new(Code::Refused, format!("cannot go on with conversation {}: {why}", id.escape_debug()))
            .hint("name the id of one that is there")
    })
}

/// Whether something is forgotten if a session's conversation is not there any more.
pub(super) fn has_a_past(session: &Session, spec: &Spec) -> bool {
    let was_answered = session.turns.last_done > session.given_up_after;
    was_answered || matches!(spec.origin, Origin::Resumed(_) | Origin::Forked(_))
}

/// Refuses another interface where nothing was recorded that it could go on with.
pub(super) fn can_go_on(session: &Session, to: Interface, name: &str) -> Result<(), Problem> {
    let Some((spec, known)) = session.spec.as_ref().zip(session.conversation.as_ref()) else { return Ok(()) };
    let is_another = spec.interface() != to && spec.other.is_some();
    if is_another && turn::exists(spec, Some(known), &known.id) == Some(false) {
        return Err(problem::refusal(&Refusal::NoConversation, name));
    }
    Ok(())
}

/// A new id: a random UUID.
fn mint() -> String {
    let mut bytes = [0; 16];
    // It fails on no kernel that has the rest of what we need; and then the agent refuses the id in use.
    let _ = berth_host::random_bytes(&mut bytes);
    berth_host::uuid(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_id_is_not_put_on_a_command_line() {
        let spec = Spec { conversation: "claude".to_owned(), ..Spec::default() };
        for id in ["--settings={}", "", "a b", "../x"] {
            let session = Session::default();
            let me = SessionId::parse("0123456789ab").expect("an id");
            for origin in [Origin::Resumed(id.to_owned()), Origin::Forked(id.to_owned())] {
                let spec = Spec { origin, ..spec.clone() };
                let refused = begin_of(&session, &spec, &me, "fix").expect_err(id);
                assert_eq!(refused.code, Code::Refused, "{refused:?}");
            }
        }
    }

    #[test]
    fn what_an_agent_calls_its_conversation_is_never_taken_for_an_option() {
        let me = SessionId::parse("0123456789ab").expect("an id");
        for (driver, kind) in
            [("pty", "claude"), ("pty", "codex"), ("pty", ""), ("claude", "claude"), ("acp", "opencode")]
        {
            let spec = Spec { conversation: kind.to_owned(), driver: driver.to_owned(), ..Spec::default() };
            for id in ["--permission-mode=bypassPermissions", "-c", "", "a\nb"] {
                assert!(!is_an_id(&spec, id), "{driver} {kind} {id:?}");
                let conversation = Conversation { id: id.to_owned(), store: String::new() };
                let session = Session { conversation: Some(conversation), ..Session::default() };
                let refused = begin_of(&session, &spec, &me, "fix").expect_err(id);
                assert_eq!(refused.code, Code::Refused, "{refused:?}");
            }
            assert!(is_an_id(&spec, "0198a7c2-5d1e-7b90-8f3a-2c4d5e6f7a8b"));
        }
        let terminal =
            Spec { conversation: "claude".to_owned(), driver: "pty".to_owned(), ..Spec::default() };
        for id in ["a b", "../x", "a=b", "a;b"] {
            assert!(!is_an_id(&terminal, id), "{id:?}");
        }
    }
}
