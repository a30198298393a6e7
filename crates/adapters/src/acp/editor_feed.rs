//! Reports a session to an editor that has it open: the turns of all clients, in order, and the agent's questions.
//!
//! Promise: each turn is reported once, from its beginning to its end, even if the keeper dies or is replaced
//! meanwhile. A question of the agent stays open in the editor until any client has answered it.
//! Not here: answering prompts (see `open`), turns from before the session was opened (see `replay`).
//! Start with [`EditorFeed::run`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_client_protocol_schema::v1::{
    ContentChunk, PermissionOption, PermissionOptionKind, RequestPermissionRequest, SessionUpdate,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use berth_api::Problem;
use berth_api::message::{KeeperNotice, KeeperRequest};
use berth_api::record::Event;
use berth_api::turn::{AgentQuestion, ChosenReply, QuestionOption, QuestionOptionKind, TurnEnd, turn_id};
use berth_store::output::OutputFiles;
use berth_verbs::session_cursor::{CursorNews, SessionCursor};

use super::editor_connection::PendingPermission;
use super::editor_session::EditorSession;
use super::replay::SessionReplay;
use super::tool_calls::{self, ToolCallReader};
use super::{AcpServer, replay};

/// How often to check if a session without a keeper has one again.
const LOOK: Duration = Duration::from_millis(500);
/// How long to wait for news before the output is read.
const TICK: Duration = Duration::from_millis(200);
const READ_BYTES: usize = 256 << 10;

/// Tells an editor about a session.
pub(super) struct EditorFeed {
    server: Arc<AcpServer>,
    open: Arc<EditorSession>,
    output: OutputFiles,
    /// The number of the first event to report.
    from: u64,
    /// Accepted turns that have not begun, by number: their prompt and key.
    waiting: HashMap<u64, (String, Option<String>)>,
    current: Option<FeedTurn>,
    /// The epoch of the current run, or of the last one.
    epoch: u64,
    /// Open questions in the editor, by the id that the agent gave each.
    asked: HashMap<String, EditorQuestion>,
}

/// The turn that the agent has.
struct FeedTurn {
    turn: u64,
    key: Option<String>,
    said: String,
    /// How many bytes of text to skip: a keeper repeats them to a client that reconnects.
    skip: usize,
    /// The offset in the output up to which it was read.
    offset: u64,
    tools: ToolCallReader,
}

struct EditorQuestion {
    /// The id of the JSON-RPC request.
    id: String,
    /// A tool call made up only for this question, so its end must be reported here.
    own_tool: Option<String>,
}

impl EditorFeed {
    /// Watches from the end of the past on, with the turns that are not over.
    pub(super) fn new(
        server: Arc<AcpServer>,
        open: Arc<EditorSession>,
        past: &SessionReplay,
    ) -> Result<Self, Problem> {
        let output = server.ctx().home.session(&open.id).output();
        let mut watch = Self {
            server,
            open,
            output,
            from: past.seq() + 1,
            waiting: HashMap::new(),
            current: None,
            epoch: past.epoch(),
            asked: HashMap::new(),
        };
        for turn in &past.left()? {
            match turn.output_from {
                Some(offset) => watch.current = Some(FeedTurn::new(turn.number, turn.key.clone(), offset)),
                None => drop(watch.waiting.insert(turn.number, (turn.prompt.clone(), turn.key.clone()))),
            }
        }
        Ok(watch)
    }

    /// Watches until the editor closes the session.
    pub(super) fn run(mut self) {
        let mut cursor = self.server.ctx().session(&self.open.id).events(self.from).every(LOOK);
        while !self.open.is_closed() {
            match self.next(&mut cursor) {
                Some(CursorNews::Connected(_)) => {
                    if let Some(current) = &mut self.current {
                        current.skip = current.said.len();
                        cursor.ask(KeeperRequest::Follow { turn: current.turn });
                    }
                }
                Some(CursorNews::Event { entry, .. }) => self.happened(&entry.event, &mut cursor),
                Some(CursorNews::Notice(notice)) => self.noticed(notice),
                Some(CursorNews::Purged(_)) => {
                    self.server.tell(&self.open.wire, "this session was purged");
                    break;
                }
                Some(
                    CursorNews::Refused(problem)
                    | CursorNews::Trouble(problem)
                    | CursorNews::NoKeeper(Err(problem)),
                ) => {
                    tracing::info!(problem = problem.what, "the session cannot be watched now");
                }
                Some(
                    CursorNews::Answer(_)
                    | CursorNews::Silent
                    | CursorNews::Lost
                    | CursorNews::NoKeeper(Ok(_)),
                ) => {}
                None => self.look_at_output(),
            }
        }
        for question in self.asked.values() {
            self.server.wire.unask(&question.id);
        }
    }

    /// The next news; none after a moment. Without a keeper, a prompt of the editor ends the wait,
    /// because it starts the session.
    fn next(&self, cursor: &mut SessionCursor) -> Option<CursorNews> {
        cursor.look_if_due();
        let news = cursor.take();
        if news.is_some() || cursor.fd().is_some() {
            return news.or_else(|| cursor.next(Some(Instant::now() + TICK)));
        }
        self.open.pause(cursor.due().map_or(LOOK, |due| due.saturating_duration_since(Instant::now())));
        cursor.look_soon();
        None
    }

    fn noticed(&mut self, notice: KeeperNotice) {
        match notice {
            KeeperNotice::Said { turn, text } => self.said(turn, &text),
            // The agent's text has its own notice, which comes after this one; a tool call behind the
            // text must not be reported first.
            KeeperNotice::Doing { activity, .. } if matches!(activity.as_str(), "writing" | "thinking") => {}
            KeeperNotice::Doing { .. } => self.look_at_output(),
            KeeperNotice::Event { .. }
            | KeeperNotice::Output { .. }
            | KeeperNotice::Replaced { .. }
            | KeeperNotice::Resized { .. } => {}
        }
    }

    fn said(&mut self, turn: u64, text: &str) {
        let Some(current) = self.current.as_mut().filter(|current| current.turn == turn) else { return };
        let known = current.skip.min(text.len());
        current.skip -= known;
        let Some(news) = text.get(known..).filter(|news| !news.is_empty()) else { return };
        if current.said.len() < berth_driver::MAX_ANSWER_BYTES {
            current.said.push_str(news);
        }
        self.update(replay::agent(news));
    }

    fn update(&self, update: SessionUpdate) {
        self.server.wire.update(&self.open.wire, update);
    }

    /// Reports the agent's tool calls since the last read of its output.
    fn look_at_output(&mut self) {
        let Some(current) = &mut self.current else { return };
        let mut buffer = vec![0; READ_BYTES];
        let mut updates = Vec::new();
        while let Ok((count, at)) = self.output.read_at(current.offset, &mut buffer) {
            if count == 0 {
                break;
            }
            current.offset = at + count as u64;
            updates.extend(current.tools.feed(&buffer[..count]));
        }
        updates.into_iter().for_each(|update| self.update(update));
    }

    fn happened(&mut self, event: &Event, cursor: &mut SessionCursor) {
        match event {
            Event::TurnAccepted { turn, prompt } => {
                self.waiting.insert(*turn, (prompt.text.clone(), prompt.key.clone()));
            }
            Event::TurnEdited { turn, text, .. } => {
                if let Some((waiting, _)) = self.waiting.get_mut(turn) {
                    waiting.clone_from(text);
                }
            }
            Event::RunStarting { epoch, .. } => {
                self.unask_all();
                self.epoch = *epoch;
            }
            // Open questions end with the run: the agent accepts no more answers.
            Event::RunEnded { .. } => self.unask_all(),
            Event::TurnDelivered { turn, output_from, .. } => self.begin(*turn, *output_from, cursor),
            Event::TurnEnded { turn, end, .. } => self.end(*turn, end),
            Event::LateResult { end, .. } if !end.answer.is_empty() => {
                self.update(replay::agent(&end.answer))
            }
            Event::QuestionAsked { ask } => self.ask(ask),
            Event::Answered { request, reply, .. } => self.unask(request, Some(reply)),
            Event::QuestionWithdrawn { request } => self.unask(request, None),
            _ => {}
        }
    }

    fn begin(&mut self, turn: u64, output_from: u64, cursor: &mut SessionCursor) {
        let (text, key) = self.waiting.remove(&turn).unwrap_or_default();
        self.show_prompt(&text, key.as_deref());
        if self.current.as_ref().is_some_and(|current| current.turn != turn) {
            // Text that joins the running turn, which goes on.
            return;
        }
        self.current = Some(FeedTurn::new(turn, key, output_from));
        cursor.ask(KeeperRequest::Follow { turn });
    }

    /// Shows the prompt of another client. The editor shows its own prompts itself.
    fn show_prompt(&self, text: &str, key: Option<&str>) {
        if !self.open.is_ours(key) && !text.is_empty() {
            self.update(SessionUpdate::UserMessageChunk(ContentChunk::new(text.into())));
        }
    }

    fn end(&mut self, turn: u64, end: &TurnEnd) {
        let Some(mut current) = self.current.take_if(|current| current.turn == turn) else {
            let key = self.waiting.remove(&turn).and_then(|(_, key)| key);
            return self.open.told(key.as_deref());
        };
        self.unask_all();
        let is_ours = self.open.is_ours(current.key.as_deref());
        let said = std::mem::take(&mut current.said);
        let key = current.key.clone();
        self.current = Some(current);
        self.look_at_output();
        self.current = None;
        // The part of the answer that was not reported live: there was no keeper to report
        // it, or the turn ended at once.
        if let Some(rest) = end.answer.strip_prefix(&said).filter(|rest| !rest.is_empty()) {
            self.update(replay::agent(rest));
        }
        if let Some(how) = replay::ending(end.state.into(), end.reason.as_deref()).filter(|_| !is_ours) {
            let turn = turn_id(self.open.id.as_str(), turn);
            self.server.tell(&self.open.wire, &format!("turn {turn} {how}"));
        }
        self.open.told(key.as_deref());
    }

    fn ask(&mut self, ask: &AgentQuestion) {
        if self.asked.contains_key(&ask.request) {
            return;
        }
        self.look_at_output();
        let known =
            self.current.as_ref().and_then(|current| current.tools.tool_of_question(&ask.request)).cloned();
        let (tool, own_tool) = match known {
            Some(tool) => (tool, None),
            None => {
                let id = format!("berth-ask-{}", ask.request);
                let fields = ToolCallUpdateFields::new().kind(tool_calls::kind(&ask.tool));
                (ToolCallUpdate::new(id.clone(), fields.status(ToolCallStatus::Pending)), Some(id))
            }
        };
        let mut tool = tool;
        // In full, because a user decides by it.
        if tool.fields.title.is_none() {
            tool.fields.title = Some(format!("{}: {}", ask.tool, ask.detail));
        }
        if tool.fields.content.is_none() && !ask.detail.is_empty() {
            tool.fields.content = Some(vec![ask.detail.clone().into()]);
        }
        let options = ask.options.iter().map(option).collect();
        let params = RequestPermissionRequest::new(self.open.wire.clone(), tool, options);
        let about = PendingPermission {
            session: self.open.id.clone(),
            wire: self.open.wire.clone(),
            request: ask.request.clone(),
            epoch: self.epoch,
        };
        if let Some(id) = self.server.wire.ask(about, &params) {
            self.asked.insert(ask.request.clone(), EditorQuestion { id, own_tool });
        }
    }

    /// Closes all open questions: an answer to one must never reach the next question.
    fn unask_all(&mut self) {
        let requests: Vec<String> = self.asked.keys().cloned().collect();
        requests.iter().for_each(|request| self.unask(request, None));
    }

    /// Closes a question that was answered, in any client, or withdrawn.
    fn unask(&mut self, request: &str, reply: Option<&ChosenReply>) {
        let Some(EditorQuestion { id, own_tool }) = self.asked.remove(request) else { return };
        self.server.wire.unask(&id);
        if let Some(tool) = own_tool {
            let status = if reply.is_some() { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
            let said = reply.map_or("withdrawn".to_owned(), |reply| format!("answered: {reply}"));
            let fields = ToolCallUpdateFields::new().status(status).content(vec![said.into()]);
            self.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(tool, fields)));
        }
    }
}

impl FeedTurn {
    fn new(turn: u64, key: Option<String>, offset: u64) -> Self {
        Self { turn, key, said: String::new(), skip: 0, offset, tools: ToolCallReader::default() }
    }
}

fn option(option: &QuestionOption) -> PermissionOption {
    let kind = match option.kind {
        QuestionOptionKind::AllowOnce => PermissionOptionKind::AllowOnce,
        QuestionOptionKind::AllowAlways => PermissionOptionKind::AllowAlways,
        QuestionOptionKind::RejectOnce => PermissionOptionKind::RejectOnce,
        QuestionOptionKind::RejectAlways => PermissionOptionKind::RejectAlways,
        // One of several answers. ACP has no kind for it, and choosing it is not a refusal.
        QuestionOptionKind::Other => PermissionOptionKind::AllowOnce,
    };
    PermissionOption::new(option.id.clone(), option.name.clone(), kind)
}
