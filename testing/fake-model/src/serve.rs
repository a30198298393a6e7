//! Connections: each request is read, recorded, planned and answered.
//!
//! Promise: a request is in the record before its answer begins; a held answer ends when its agent hangs up.
//! Start with [`SharedModelState::connection`].

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{self, HttpRequest, HttpResponseWriter};
use crate::recorded_request::{AnswerState, MessageRole, ModelApi, ModelRequest};
use crate::response_stream::{AnswerWriter, error};
use crate::script::{AnswerPlan, AnswerStep, plan};

/// Between the pieces of a slow answer.
const PIECE_EVERY: Duration = Duration::from_millis(100);
/// How often a held answer looks whether its agent is still there.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// State shared by all connections and the test.
#[derive(Debug, Default)]
pub(crate) struct SharedModelState {
    state: Mutex<ModelState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ModelState {
    asked: Vec<ModelRequest>,
    held: HashMap<String, usize>,
    released: HashSet<String>,
    open: HashMap<usize, TcpStream>,
    connections: usize,
    over: bool,
}

/// The requests, locked against changes.
pub(crate) struct LockedRequests<'a>(MutexGuard<'a, ModelState>);

impl std::ops::Deref for LockedRequests<'_> {
    type Target = Vec<ModelRequest>;
    fn deref(&self) -> &Self::Target {
        &self.0.asked
    }
}

impl SharedModelState {
    fn lock(&self) -> MutexGuard<'_, ModelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn asked(&self) -> LockedRequests<'_> {
        LockedRequests(self.lock())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().over
    }

    pub(crate) fn arrivals(&self, name: &str) -> usize {
        self.lock().held.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn release(&self, name: &str) {
        self.lock().released.insert(name.to_owned());
        self.changed.notify_all();
    }

    /// Ends every connection, and waits until each has noticed.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.over = true;
        for stream in state.open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
        let noticed =
            self.changed.wait_timeout_while(state, Duration::from_secs(5), |state| !state.open.is_empty());
        drop(noticed);
    }

    pub(crate) fn wait(&self, patience: Duration, happened: impl Fn(&[ModelRequest]) -> bool) -> bool {
        self.wait_state(patience, |state| happened(&state.asked))
    }

    pub(crate) fn wait_held(&self, patience: Duration, name: &str) -> bool {
        self.wait_state(patience, |state| state.held.contains_key(name))
    }

    fn wait_state(&self, patience: Duration, happened: impl Fn(&ModelState) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |state| !happened(state));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Serves one connection to its end.
    pub(crate) fn connection(&self, stream: &TcpStream) {
        let key = {
            let mut state = self.lock();
            let Ok(copy) = stream.try_clone() else { return };
            if state.over {
                return;
            }
            state.connections += 1;
            let key = state.connections;
            state.open.insert(key, copy);
            key
        };
        let _ = stream.set_nodelay(true);
        if let Ok(Some(request)) = http::read(stream) {
            let _ = self.answer(stream, &request);
        }
        let _ = stream.shutdown(Shutdown::Both);
        self.lock().open.remove(&key);
        self.changed.notify_all();
    }

    fn answer(&self, stream: &TcpStream, request: &HttpRequest) -> io::Result<()> {
        let mut reply = HttpResponseWriter::new(stream);
        let line = (request.method.as_str(), request.path.as_str());
        let mut whole = |status: u16, body: &Value| {
            let head_only = request.method == "HEAD";
            reply.whole(status, "application/json", body.to_string().as_bytes(), head_only)
        };
        match line {
            ("POST", path) if path.starts_with("/release/") => {
                self.release(&path["/release/".len()..]);
                return whole(200, &json!({}));
            }
            ("GET", "/requests") => {
                let all: Vec<Value> = self.asked().iter().map(on_paper).collect();
                return whole(200, &json!(all));
            }
            ("GET", "/bodies") => {
                let all: Vec<Value> = self.asked().iter().map(|asked| asked.body.clone()).collect();
                return whole(200, &json!(all));
            }
            _ => {}
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        let asked = ModelRequest::read(&request.method, &request.path, &body);
        let number = self.record(&asked);
        let answered = match (line, asked.api) {
            (("POST", "/v1/messages/count_tokens"), _) => {
                whole(200, &json!({"input_tokens": request.body.len() / 4}))
            }
            (("GET" | "HEAD", "/"), _) => whole(200, &json!({})),
            (_, ModelApi::Messages | ModelApi::Responses) if body.is_object() => {
                self.speak(stream, &asked, &body, number, request.body.len())
            }
            (_, ModelApi::Messages | ModelApi::Responses) => whole(400, &error(asked.api, 400)),
            (_, ModelApi::Other) => whole(404, &error(ModelApi::Other, 404)),
        };
        let answer = if answered.is_ok() { AnswerState::Whole } else { AnswerState::Cut };
        if let Some(asked) = self.lock().asked.get_mut(number) {
            asked.answer = answer;
        }
        self.changed.notify_all();
        answered
    }

    /// Writes a request down; its number.
    fn record(&self, asked: &ModelRequest) -> usize {
        let mut state = self.lock();
        state.asked.push(asked.clone());
        self.changed.notify_all();
        state.asked.len() - 1
    }

    fn speak(
        &self,
        stream: &TcpStream,
        asked: &ModelRequest,
        body: &Value,
        number: usize,
        body_bytes: usize,
    ) -> io::Result<()> {
        let plan = if asked.housekeeping {
            AnswerPlan::Answer(vec![AnswerStep::Text(plainly(body))])
        } else {
            let mut plan = plan(asked.prompt(), asked.round, last_result(asked));
            // A test sees in the answer that the steer was heard.
            if let (AnswerPlan::Answer(steps), false) = (&mut plan, asked.steers.is_empty()) {
                steps.insert(0, AnswerStep::Text(format!("STEERED: {}\n", asked.steers.join("\n"))));
            }
            plan
        };
        let steps = match plan {
            AnswerPlan::Answer(steps) => steps,
            AnswerPlan::Refuse { status, times }
                if times.is_none_or(|times| self.tries(asked, number) <= times) =>
            {
                let body = error(asked.api, status).to_string();
                return HttpResponseWriter::new(stream).whole(
                    status,
                    "application/json",
                    body.as_bytes(),
                    false,
                );
            }
            AnswerPlan::Refuse { .. } => vec![AnswerStep::Text(format!("ECHO: {}", asked.prompt()))],
        };
        let mut speech = AnswerWriter::begin(HttpResponseWriter::new(stream), asked, number, body_bytes)?;
        for step in steps {
            match step {
                AnswerStep::Text(piece) => speech.text(&piece)?,
                AnswerStep::Think(piece) => speech.think(&piece)?,
                AnswerStep::Pause => self.pause(stream, Instant::now() + PIECE_EVERY, |_| false)?,
                AnswerStep::Hold(name) => self.hold(stream, &name)?,
                AnswerStep::Shell(command) => speech.shell(&command)?,
                AnswerStep::Call { tool, input } => speech.call(&tool, &input)?,
                AnswerStep::Cut => {
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "as the prompt says"));
                }
            }
        }
        speech.end()
    }

    /// The count of requests with this prompt and round, up to this one.
    fn tries(&self, asked: &ModelRequest, number: usize) -> usize {
        let same = |other: &&ModelRequest| {
            !other.housekeeping && other.round == asked.round && other.user_texts() == asked.user_texts()
        };
        self.asked()[..=number].iter().filter(same).count()
    }

    fn hold(&self, stream: &TcpStream, name: &str) -> io::Result<()> {
        *self.lock().held.entry(name.to_owned()).or_default() += 1;
        self.changed.notify_all();
        let never = Instant::now() + Duration::from_secs(24 * 60 * 60);
        self.pause(stream, never, |state| state.released.contains(name))
    }

    /// Waits until it is time or something happened; an error when the agent has hung up.
    fn pause(
        &self,
        stream: &TcpStream,
        until: Instant,
        happened: impl Fn(&ModelState) -> bool,
    ) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let mut state = self.lock();
        let ended = loop {
            let now = Instant::now();
            if now >= until || happened(&state) {
                break Ok(());
            }
            if state.over || has_hung_up(stream) {
                break Err(io::Error::new(io::ErrorKind::BrokenPipe, "the agent has hung up"));
            }
            let a_while = LOOK_EVERY.min(until - now);
            state = self.changed.wait_timeout(state, a_while).unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(state);
        stream.set_nonblocking(false)?;
        ended
    }
}

/// Agents say nothing more on a connection while they wait, so readable bytes mean its end.
fn has_hung_up(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

fn last_result(asked: &ModelRequest) -> Option<&str> {
    if asked.round == 0 { None } else { asked.results.last().map(|result| result.text.as_str()) }
}

/// The answer to housekeeping: a word, or what the schema wants.
fn plainly(body: &Value) -> String {
    let schema = [&body["text"]["format"]["schema"], &body["output_config"]["format"]["schema"]]
        .into_iter()
        .find(|one| one.is_object());
    schema.map_or("ok".into(), |schema| fitting(schema).to_string())
}

/// A small value that fits a schema.
fn fitting(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            Value::Object(fields.map(|(name, field)| (name.clone(), fitting(field))).collect())
        }
        Some("array") => json!([]),
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(0),
        _ => json!("fake"),
    }
}

fn on_paper(asked: &ModelRequest) -> Value {
    let texts: Vec<Value> = asked
        .texts
        .iter()
        .map(|text| match text.role {
            MessageRole::User => json!({"user": text.text}),
            MessageRole::Assistant => json!({"assistant": text.text}),
        })
        .collect();
    let results: Vec<Value> =
        asked.results.iter().map(|result| json!({"call": result.call, "text": result.text})).collect();
    json!({"line": asked.line, "model": asked.model, "conversation": asked.conversation,
        "housekeeping": asked.housekeeping, "stream": asked.stream, "texts": texts, "calls": asked.calls,
        "results": results, "round": asked.round, "steers": asked.steers, "answer": format!("{:?}", asked.answer).to_lowercase()})
}
