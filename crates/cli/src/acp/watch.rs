//! What happens in a session, told to an editor that has it open: its own turns and everyone else's, in their order.
//!
//! Promise: each turn is told once, from its beginning to its end, also if the keeper dies or is replaced on the way; what an
//! agent asks is asked here as well, until somebody, anywhere, has answered.
//! Not here: answering prompts (see `open`), what was before the session was opened (see `replay`).
//! Start with [`Watch::run`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_client_protocol_schema::v1::{
    ContentChunk, PermissionOption, PermissionOptionKind, RequestPermissionRequest, SessionUpdate,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use berth_api::message::{Notice, Request};
use berth_api::record::Event;
use berth_api::turn::{Ask, AskKind, AskOption, Reply, TurnEnd, turn_id};
use berth_store::output::OutputFiles;
use berth_verbs::cursor::{Cursor, News};

use super::open::Open;
use super::replay::Past;
use super::tools::{self, Tools};
use super::wire::Asked;
use super::{Server, replay};

/// How often it is looked whether somebody keeps the session again.
const LOOK: Duration = Duration::from_millis(500);
/// How long to wait for news before the output is looked at.
const TICK: Duration = Duration::from_millis(200);
const READ_BYTES: usize = 256 << 10;

/// Tells an editor about a session.
pub(super) struct Watch {
    server: Arc<Server>,
    open: Arc<Open>,
    output: OutputFiles,
    /// The first event to be told.
    from: u64,
    /// Turns that are accepted and not begun: what was said, and the key.
    waiting: HashMap<u64, (String, Option<String>)>,
    current: Option<Current>,
    /// The run it is in, or was in last.
    epoch: u64,
    /// What the editor's person is asked: by the agent's name of the question, ours.
    asked: HashMap<String, Question>,
}

/// The turn the agent has.
struct Current {
    turn: u64,
    key: Option<String>,
    said: String,
    /// How much of what the keeper tells again was told before.
    skip: usize,
    /// How far the output was read.
    offset: u64,
    tools: Tools,
}

struct Question {
    /// What it is called on the wire.
    id: String,
    /// A tool call that is only there for the question: nobody else will tell its end.
    own_tool: Option<String>,
}

impl Watch {
    /// A watch from behind the past on, over the turns that are not over.
    pub(super) fn new(server: Arc<Server>, open: Arc<Open>, past: &Past) -> Self {
        let output = server.ctx().home.session(&open.id).output();
        let mut watch = Self {
            server,
            open,
            output,
            from: past.seq + 1,
            waiting: HashMap::new(),
            current: None,
            epoch: past.epoch,
            asked: HashMap::new(),
        };
        for turn in &past.left() {
            match turn.output_from {
                Some(offset) => watch.current = Some(Current::new(turn.number, turn.key.clone(), offset)),
                None => drop(watch.waiting.insert(turn.number, (turn.prompt.clone(), turn.key.clone()))),
            }
        }
        watch
    }

    /// Watches until the editor closes the session.
    pub(super) fn run(mut self) {
        let mut cursor = self.server.ctx().session(&self.open.id).events(self.from).every(LOOK);
        while !self.open.is_closed() {
            match self.next(&mut cursor) {
                Some(News::Connected(_)) => {
                    if let Some(current) = &mut self.current {
                        current.skip = current.said.len();
                        cursor.ask(Request::Follow { turn: current.turn });
                    }
                }
                Some(News::Event { entry, .. }) => self.happened(&entry.event, &mut cursor),
                Some(News::Notice(notice)) => self.noticed(notice),
                Some(News::Purged(_)) => {
                    self.server.tell(&self.open.wire, "this session was purged");
                    break;
                }
                Some(News::Refused(problem) | News::Trouble(problem) | News::NoKeeper(Err(problem))) => {
                    tracing::info!(problem = problem.what, "the session cannot be watched now");
                }
                Some(News::Answer(_) | News::Silent | News::Lost | News::NoKeeper(Ok(_))) => {}
                None => self.look_at_output(),
            }
        }
        for question in self.asked.values() {
            self.server.wire.unask(&question.id);
        }
    }

    /// The next news; none after a moment. Without a keeper, a prompt of the editor ends the wait: it starts the session.
    fn next(&self, cursor: &mut Cursor) -> Option<News> {
        cursor.look_if_due();
        let news = cursor.take();
        if news.is_some() || cursor.fd().is_some() {
            return news.or_else(|| cursor.next(Some(Instant::now() + TICK)));
        }
        self.open.pause(cursor.due().map_or(LOOK, |due| due.saturating_duration_since(Instant::now())));
        cursor.look_soon();
        None
    }

    fn noticed(&mut self, notice: Notice) {
        match notice {
            Notice::Said { turn, text } => self.said(turn, &text),
            // Of what it says it is told before it is said, and a tool behind it must not come first.
            Notice::Doing { what, .. } if matches!(what.as_str(), "writing" | "thinking") => {}
            Notice::Doing { .. } => self.look_at_output(),
            Notice::Event { .. }
            | Notice::Output { .. }
            | Notice::Replaced { .. }
            | Notice::Resized { .. } => {}
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

    /// Tells what the agent did since the last look.
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

    fn happened(&mut self, event: &Event, cursor: &mut Cursor) {
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
            // What was asked is over with it; the agent takes nothing back any more.
            Event::RunEnded { .. } => self.unask_all(),
            Event::TurnDelivered { turn, output_from, .. } => self.begin(*turn, *output_from, cursor),
            Event::TurnEnded { turn, end, .. } => self.end(*turn, end),
            Event::TurnLate { end, .. } if !end.answer.is_empty() => self.update(replay::agent(&end.answer)),
            Event::Asked { ask } => self.ask(ask),
            Event::Answered { request, reply, .. } => self.unask(request, Some(reply)),
            Event::Unasked { request } => self.unask(request, None),
            _ => {}
        }
    }

    fn begin(&mut self, turn: u64, output_from: u64, cursor: &mut Cursor) {
        let (text, key) = self.waiting.remove(&turn).unwrap_or_default();
        self.show_prompt(&text, key.as_deref());
        if self.current.as_ref().is_some_and(|current| current.turn != turn) {
            // Text for the turn that is running, which goes on.
            return;
        }
        self.current = Some(Current::new(turn, key, output_from));
        cursor.ask(Request::Follow { turn });
    }

    /// The editor shows its own prompts by itself.
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
        // What nobody could tell while it was said: there was no keeper to tell it, or it was over at once.
        if let Some(rest) = end.answer.strip_prefix(&said).filter(|rest| !rest.is_empty()) {
            self.update(replay::agent(rest));
        }
        if let Some(how) = replay::ending(end.state.into(), end.reason.as_deref()).filter(|_| !is_ours) {
            let turn = turn_id(self.open.id.as_str(), turn);
            self.server.tell(&self.open.wire, &format!("turn {turn} {how}"));
        }
        self.open.told(key.as_deref());
    }

    fn ask(&mut self, ask: &Ask) {
        if self.asked.contains_key(&ask.request) {
            return;
        }
        self.look_at_output();
        let known =
            self.current.as_ref().and_then(|current| current.tools.asked_about(&ask.request)).cloned();
        let (tool, own_tool) = match known {
            Some(tool) => (tool, None),
            None => {
                let id = format!("berth-ask-{}", ask.request);
                let fields = ToolCallUpdateFields::new().kind(tools::kind(&ask.tool));
                (ToolCallUpdate::new(id.clone(), fields.status(ToolCallStatus::Pending)), Some(id))
            }
        };
        let mut tool = tool;
        // In full: a person decides by it.
        if tool.fields.title.is_none() {
            tool.fields.title = Some(format!("{}: {}", ask.tool, ask.detail));
        }
        if tool.fields.content.is_none() && !ask.detail.is_empty() {
            tool.fields.content = Some(vec![ask.detail.clone().into()]);
        }
        let options = ask.options.iter().map(option).collect();
        let params = RequestPermissionRequest::new(self.open.wire.clone(), tool, options);
        let about = Asked {
            session: self.open.id.clone(),
            wire: self.open.wire.clone(),
            request: ask.request.clone(),
            epoch: self.epoch,
        };
        if let Some(id) = self.server.wire.ask(about, &params) {
            self.asked.insert(ask.request.clone(), Question { id, own_tool });
        }
    }

    /// Nothing that was asked so far is asked any more: an answer to it must never reach what is asked next.
    fn unask_all(&mut self) {
        let requests: Vec<String> = self.asked.keys().cloned().collect();
        requests.iter().for_each(|request| self.unask(request, None));
    }

    /// The question is answered, here or elsewhere, or withdrawn.
    fn unask(&mut self, request: &str, reply: Option<&Reply>) {
        let Some(Question { id, own_tool }) = self.asked.remove(request) else { return };
        self.server.wire.unask(&id);
        if let Some(tool) = own_tool {
            let status = if reply.is_some() { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
            let said = reply.map_or("withdrawn".to_owned(), |reply| format!("answered: {reply}"));
            let fields = ToolCallUpdateFields::new().status(status).content(vec![said.into()]);
            self.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(tool, fields)));
        }
    }
}

impl Current {
    fn new(turn: u64, key: Option<String>, offset: u64) -> Self {
        Self { turn, key, said: String::new(), skip: 0, offset, tools: Tools::default() }
    }
}

fn option(option: &AskOption) -> PermissionOption {
    let kind = match option.kind {
        AskKind::AllowOnce => PermissionOptionKind::AllowOnce,
        AskKind::AllowAlways => PermissionOptionKind::AllowAlways,
        AskKind::RejectOnce => PermissionOptionKind::RejectOnce,
        AskKind::RejectAlways => PermissionOptionKind::RejectAlways,
        // One of several answers: ACP has no word for it, and choosing it is no refusal.
        AskKind::Other => PermissionOptionKind::AllowOnce,
    };
    PermissionOption::new(option.id.clone(), option.name.clone(), kind)
}
