//! A session that the editor has open, with its prompts under way and their answers.
//!
//! Promise: prompts go to the session in the order in which they came. Each is answered once, after everything that the
//! agent said in its turn. A cancel reaches the editor's own turns and no others.
//! Not here: how the turns of all clients reach the editor (see `editor_feed`). Start with [`EditorSession::prompt`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use agent_client_protocol_schema::v1::{Meta, PromptResponse, StopReason};
use berth_api::message::KeeperRequest;
use berth_api::turn::{NewTurn, TurnReceipt, TurnView};
use berth_api::{KeeperConnection, Problem, TurnState};
use berth_core::{Command, SessionId};
use berth_driver::{InterruptionReason, acp};
use berth_verbs::turns;
use serde_json::{Value, json};

use super::{AcpServer, spawn};

/// How many prompts of one editor may wait to be accepted by one session.
const MOST_UNSENT: usize = 64;
/// How long the answer to a prompt waits until all updates of its turn are sent.
const TELLING_PATIENCE: Duration = Duration::from_secs(5);

/// A session that is open in the editor.
#[derive(Debug)]
pub(super) struct EditorSession {
    /// The session id that the editor uses.
    pub(super) wire: String,
    pub(super) id: SessionId,
    unsent: SyncSender<UnsentPrompt>,
    /// Prompts under way, by the key of their turn.
    prompts: Mutex<HashMap<String, EditorPrompt>>,
    changed: Condvar,
    closed: AtomicBool,
}

/// A prompt that is not sent yet: the session, the key of the turn, the text.
type UnsentPrompt = (Arc<EditorSession>, String, String);

/// A prompt under way.
#[derive(Debug)]
struct EditorPrompt {
    /// The id of the JSON-RPC request to answer.
    request: Value,
    turn: Option<u64>,
    is_cancelled: bool,
    /// True once all updates of the turn are sent.
    is_told: bool,
}

impl EditorSession {
    /// Opens the session. Prompts are accepted from now on.
    pub(super) fn new(server: &Arc<AcpServer>, wire: String, id: SessionId) -> Result<Arc<Self>, Problem> {
        let (unsent, waiting) = sync_channel(MOST_UNSENT);
        let open = Arc::new(Self {
            wire,
            id,
            unsent,
            prompts: Mutex::default(),
            changed: Condvar::new(),
            closed: AtomicBool::new(false),
        });
        let server = server.clone();
        spawn("prompts", move || send_in_order(&server, &waiting))?;
        Ok(open)
    }

    fn prompts(&self) -> MutexGuard<'_, HashMap<String, EditorPrompt>> {
        self.prompts.lock().expect("no thread panics while holding this lock")
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits for `moment`, or until a prompt of this session changes.
    pub(super) fn pause(&self, moment: Duration) {
        if !self.is_closed() {
            let _ = self.changed.wait_timeout(self.prompts(), moment);
        }
    }

    /// True if the turn with this key is a prompt of this editor.
    pub(super) fn is_ours(&self, key: Option<&str>) -> bool {
        key.is_some_and(|key| self.prompts().contains_key(key))
    }

    /// Marks that all updates of a turn are sent.
    pub(super) fn told(&self, key: Option<&str>) {
        let mut prompts = self.prompts();
        if let Some(prompt) = key.and_then(|key| prompts.get_mut(key)) {
            prompt.is_told = true;
            self.changed.notify_all();
        }
    }

    /// Takes a prompt. The answer comes when its turn is over.
    pub(super) fn prompt(
        self: &Arc<Self>,
        server: &AcpServer,
        request: &Value,
        text: String,
    ) -> Result<(), Problem> {
        turns::check_prompt(&text)?;
        let key = turns::random_turn_key()?;
        let prompt =
            EditorPrompt { request: request.clone(), turn: None, is_cancelled: false, is_told: false };
        self.prompts().insert(key.clone(), prompt);
        server.busy(1);
        self.unsent.try_send((self.clone(), key.clone(), text)).map_err(|full| {
            server.busy(-1);
            self.prompts().remove(&key);
            let what = match full {
                TrySendError::Full(_) => format!("{MOST_UNSENT} prompts wait to be accepted already"),
                TrySendError::Disconnected(_) => "the session is closed".to_owned(),
            };
            Problem::full(format!("{what}; nothing was sent")).hint("wait for an answer first")
        })
    }

    /// Cancels the turns of this editor, or only the turn of the given request.
    pub(super) fn cancel(&self, server: &AcpServer, only: Option<&Value>) {
        let mut turns = Vec::new();
        for prompt in self.prompts().values_mut() {
            if only.is_none_or(|request| *request == prompt.request) {
                prompt.is_cancelled = true;
                turns.extend(prompt.turn);
            }
        }
        turns.into_iter().for_each(|turn| self.cancel_turn(server, turn));
    }

    fn cancel_turn(&self, server: &AcpServer, turn: u64) {
        let ctx = server.ctx();
        let command = Command::Cancel { turn, by: ctx.me() };
        if let Err(problem) = turns::change(&ctx, &self.id, KeeperRequest::Cancel { turn }, command) {
            // The turn ended earlier; its answer says how.
            tracing::info!(turn, problem = problem.what, "not cancelled");
        }
    }

    fn send(self: &Arc<Self>, server: &Arc<AcpServer>, key: String, text: String) {
        if self.prompts().get(&key).is_none_or(|prompt| prompt.is_cancelled) {
            let meta =
                json!({"state": TurnState::Cancelled, "reason": "it was cancelled before it was sent"});
            return self.answer(server, &key, Ok((StopReason::Cancelled, meta)));
        }
        let submit = NewTurn { text, key: Some(key.clone()), wait: true, ..NewTurn::default() };
        let (connection, receipt) = match server.ctx().session(&self.id).send(submit) {
            Ok(sent) => sent,
            Err(problem) => return self.answer(server, &key, Err(Box::new((problem, None)))),
        };
        let is_cancelled = match self.prompts().get_mut(&key) {
            Some(prompt) => {
                prompt.turn = Some(receipt.number);
                prompt.is_cancelled
            }
            None => false,
        };
        self.changed.notify_all();
        if is_cancelled {
            self.cancel_turn(server, receipt.number);
        } else if let Some(before) = receipt.position.filter(|before| *before > 0) {
            server.remark(&self.wire, &format!("{before} turns of this session come first"));
        }
        let (open, all) = (self.clone(), server.clone());
        let lost = key.clone();
        if let Err(problem) = spawn("turn", move || open.follow(&all, &key, &receipt, connection)) {
            self.answer(server, &lost, Err(Box::new((problem, None))));
        }
    }

    /// Waits for the end of a turn, then answers its prompt.
    fn follow(
        &self,
        server: &AcpServer,
        key: &str,
        receipt: &TurnReceipt,
        connection: Option<KeeperConnection>,
    ) {
        let end = turns::follow(&server.ctx(), &self.id, receipt.number, connection, None, |_| Ok(false));
        let until = Instant::now() + TELLING_PATIENCE;
        self.changed.notify_all();
        let mut prompts = self.prompts();
        while end.is_ok() && !self.is_closed() && prompts.get(key).is_some_and(|prompt| !prompt.is_told) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::warn!(turn = receipt.turn, "the turn ended before all of its updates were sent");
                break;
            }
            prompts =
                self.changed.wait_timeout(prompts, left).expect("no thread panics while holding this lock").0;
        }
        drop(prompts);
        let answer = match end {
            Ok(view) => outcome(&view),
            Err(problem) => Err(Box::new((problem, Some(json!({"turn": receipt.turn}))))),
        };
        if let Ok((StopReason::Cancelled, meta)) = &answer
            && self.prompts().get(key).is_some_and(|prompt| !prompt.is_cancelled)
        {
            let why = meta["reason"].as_str().unwrap_or("another client interrupted it");
            server.tell(&self.wire, &format!("turn {} was {}: {why}", receipt.turn, text(&meta["state"])));
        }
        self.answer(server, key, answer);
    }

    fn answer(&self, server: &AcpServer, key: &str, answer: PromptAnswer) {
        let Some(EditorPrompt { request, .. }) = self.prompts().remove(key) else { return };
        match answer {
            Ok((stop, meta)) => {
                let meta = Meta::from_iter([("berth".to_owned(), meta)]);
                server.wire.answer(&request, &PromptResponse::new(stop).meta(meta));
            }
            Err(why) => {
                let (problem, turn) = *why;
                server.wire.problem(&request, &problem, turn);
            }
        }
    }
}

/// How a prompt is answered: why the turn stopped, or a problem, each with what berth knows of the turn.
type PromptAnswer = Result<(StopReason, Value), Box<(Problem, Option<Value>)>>;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The end of a turn as an ACP stop reason, or as an error where ACP has no such reason.
fn outcome(view: &TurnView) -> PromptAnswer {
    let TurnView { turn, state, reason, .. } = view;
    let meta = json!({
        "turn": turn, "state": state, "reason": reason,
        "inputTokens": view.input_tokens, "outputTokens": view.output_tokens, "cut": view.cut,
    });
    let why = reason.as_deref().unwrap_or("the reason is unknown");
    let failed =
        |what: String, hint: String| Err(Box::new((Problem::refused(what).hint(hint), Some(meta.clone()))));
    match state {
        TurnState::Done => Ok((StopReason::EndTurn, meta)),
        TurnState::Cancelled => Ok((StopReason::Cancelled, meta)),
        TurnState::Interrupted if view.cancelled_by.is_some() || InterruptionReason::of(why).is_some() => {
            Ok((StopReason::Cancelled, meta))
        }
        // No client asked for this end: the agent died, or the session was stopped during the turn.
        TurnState::Interrupted => failed(
            format!("turn {turn} was interrupted: {why}; its changes up to that point remain"),
            format!("`berth turn {turn}` shows it"),
        ),
        TurnState::Failed if why == acp::REFUSAL => Ok((StopReason::Refusal, meta)),
        TurnState::Failed if why == acp::MAX_TOKENS => Ok((StopReason::MaxTokens, meta)),
        TurnState::Failed if why == acp::MAX_TURN_REQUESTS => Ok((StopReason::MaxTurnRequests, meta)),
        TurnState::Failed => {
            failed(format!("turn {turn} failed: {why}"), format!("`berth turn {turn}` shows it"))
        }
        // Must never look like a known end: no process saw this turn end.
        TurnState::Unknown | TurnState::Queued | TurnState::Delivered | TurnState::Working => failed(
            format!("turn {turn} was given to the agent, and its end is unknown: {why}; it was not repeated"),
            format!("look at what it did, then `berth queue {} resume`", view.session),
        ),
    }
}

fn send_in_order(server: &Arc<AcpServer>, unsent: &Receiver<UnsentPrompt>) {
    while let Ok((open, key, text)) = unsent.recv() {
        open.send(server, key, text);
        server.busy(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unproven_end_is_never_reported_as_end_of_turn() {
        let ended = |state, reason: Option<&str>| {
            let view = TurnView {
                turn: "s.1".into(),
                state,
                reason: reason.map(str::to_owned),
                ..TurnView::default()
            };
            outcome(&view).map(|(stop, _)| stop).map_err(|why| why.0.what)
        };
        assert_eq!(ended(TurnState::Done, None), Ok(StopReason::EndTurn));
        assert_eq!(ended(TurnState::Cancelled, None), Ok(StopReason::Cancelled));
        let denied = InterruptionReason::AfterDenial.reason();
        assert_eq!(ended(TurnState::Interrupted, Some(denied)), Ok(StopReason::Cancelled));
        let died = "the agent was killed by signal 9";
        assert!(ended(TurnState::Interrupted, Some(died)).is_err_and(|what| what.contains(died)));
        assert_eq!(ended(TurnState::Failed, Some(acp::REFUSAL)), Ok(StopReason::Refusal));
        assert_eq!(ended(TurnState::Failed, Some(acp::MAX_TOKENS)), Ok(StopReason::MaxTokens));
        assert!(ended(TurnState::Failed, Some("no key")).is_err_and(|what| what.contains("no key")));
        assert!(ended(TurnState::Unknown, None).is_err_and(|what| what.contains("its end is unknown")));
    }
}
