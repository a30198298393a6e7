//! Turning an answer into bytes: the streams of the two APIs, and whole answers for agents that want no stream.
//!
//! Promise: the order and the fields of the real services, as far as the agents look at them.
//! Not here: what to say (see `script`). Start with [`AnswerWriter`].

use std::io;

use serde_json::{Value, json};

use crate::http::HttpResponseWriter;
use crate::recorded_request::{ModelApi, ModelRequest};

/// One answer on its way.
pub(crate) struct AnswerWriter<'a> {
    reply: HttpResponseWriter<'a>,
    api: ModelApi,
    stream: bool,
    id: String,
    model: String,
    shell: &'static str,
    input_tokens: usize,
    output_bytes: usize,
    sequence: usize,
    /// The block or item that is open, and its text.
    open: Option<(AnswerBlockKind, String)>,
    /// All that are done.
    done: Vec<Value>,
    called: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum AnswerBlockKind {
    Text,
    Thought,
}

impl<'a> AnswerWriter<'a> {
    /// The beginning of the answer to this request. `number` makes ids of it.
    pub(crate) fn begin(
        reply: HttpResponseWriter<'a>,
        asked: &ModelRequest,
        number: usize,
        body_bytes: usize,
    ) -> io::Result<Self> {
        let prefix = match asked.api {
            ModelApi::Messages => "msg",
            ModelApi::Responses | ModelApi::Other => "resp",
        };
        let known = ["Bash", "exec_command", "shell_command", "shell"];
        let has = |name: &&&str| asked.tools.iter().any(|tool| tool == **name);
        let shell = known.iter().find(has).copied().unwrap_or(match asked.api {
            ModelApi::Messages => "Bash",
            ModelApi::Responses | ModelApi::Other => "exec_command",
        });
        let mut speech = Self {
            reply,
            api: asked.api,
            stream: asked.stream,
            id: format!("{prefix}_fake{:08x}{number:08x}", std::process::id()),
            model: asked.model.clone(),
            shell,
            input_tokens: body_bytes / 4,
            output_bytes: 0,
            sequence: 0,
            open: None,
            done: Vec::new(),
            called: false,
        };
        if speech.stream {
            speech.reply.begin("text/event-stream")?;
        }
        match speech.api {
            ModelApi::Messages => {
                let message = speech.message(Value::Null, 1);
                speech.event("message_start", json!({"message": message}))?;
                speech.event("ping", json!({}))?;
            }
            ModelApi::Responses | ModelApi::Other => {
                let response = speech.response("in_progress");
                speech.event("response.created", json!({"response": response}))?;
                speech.event("response.in_progress", json!({"response": response}))?;
            }
        }
        Ok(speech)
    }

    /// A piece of text.
    pub(crate) fn text(&mut self, piece: &str) -> io::Result<()> {
        self.piece(AnswerBlockKind::Text, piece)
    }

    /// A piece of a thought.
    pub(crate) fn think(&mut self, piece: &str) -> io::Result<()> {
        self.piece(AnswerBlockKind::Thought, piece)
    }

    /// A call of the shell tool.
    pub(crate) fn shell(&mut self, command: &str) -> io::Result<()> {
        let input = match self.shell {
            "exec_command" => json!({"cmd": command}),
            "shell" => json!({"command": ["bash", "-c", command]}),
            "Bash" => json!({"command": command, "description": "as the prompt says"}),
            _ => json!({"command": command}),
        };
        self.call(self.shell, &input)
    }

    /// A call of any tool.
    pub(crate) fn call(&mut self, tool: &str, input: &Value) -> io::Result<()> {
        self.close()?;
        let index = self.done.len();
        let text = input.to_string();
        self.output_bytes += text.len();
        self.called = true;
        match self.api {
            ModelApi::Messages => {
                let id = self.sub_id("toolu", index);
                let empty = json!({"type": "tool_use", "id": id, "name": tool, "input": {}});
                self.event("content_block_start", json!({"index": index, "content_block": empty}))?;
                let delta = json!({"type": "input_json_delta", "partial_json": text});
                self.event("content_block_delta", json!({"index": index, "delta": delta}))?;
                self.event("content_block_stop", json!({"index": index}))?;
                self.done.push(json!({"type": "tool_use", "id": id, "name": tool, "input": input}));
            }
            ModelApi::Responses | ModelApi::Other => {
                let (id, call) = (self.sub_id("fc", index), self.sub_id("call", index));
                let item = |status: &str, arguments: &str| {
                    json!({"type": "function_call", "id": id, "call_id": call, "name": tool,
                        "arguments": arguments, "status": status})
                };
                let (begun, over) = (item("in_progress", ""), item("completed", &text));
                self.event("response.output_item.added", json!({"output_index": index, "item": begun}))?;
                let of = json!({"item_id": id, "output_index": index});
                self.event("response.function_call_arguments.delta", with(&of, "delta", text.as_str()))?;
                self.event("response.function_call_arguments.done", with(&of, "arguments", text.as_str()))?;
                self.event("response.output_item.done", json!({"output_index": index, "item": over}))?;
                self.done.push(over);
            }
        }
        Ok(())
    }

    /// The end of the answer.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.close()?;
        let whole = match self.api {
            ModelApi::Messages => {
                let reason = if self.called { "tool_use" } else { "end_turn" };
                let delta = json!({"stop_reason": reason, "stop_sequence": null});
                let usage = json!({"output_tokens": self.output_tokens()});
                self.event("message_delta", json!({"delta": delta, "usage": usage}))?;
                self.event("message_stop", json!({}))?;
                self.message(json!(reason), self.output_tokens())
            }
            ModelApi::Responses | ModelApi::Other => {
                let response = self.response("completed");
                self.event("response.completed", json!({"response": response}))?;
                response
            }
        };
        if self.stream {
            self.reply.end()
        } else {
            self.reply.whole(200, "application/json", whole.to_string().as_bytes(), false)
        }
    }

    fn piece(&mut self, kind: AnswerBlockKind, piece: &str) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|(open, _)| *open != kind) {
            self.close()?;
        }
        let index = self.done.len();
        if self.open.is_none() {
            self.open = Some((kind, String::new()));
            match (self.api, kind) {
                (ModelApi::Messages, AnswerBlockKind::Text) => {
                    let block = json!({"type": "text", "text": ""});
                    self.event("content_block_start", json!({"index": index, "content_block": block}))?;
                }
                (ModelApi::Messages, AnswerBlockKind::Thought) => {
                    let block = json!({"type": "thinking", "thinking": "", "signature": ""});
                    self.event("content_block_start", json!({"index": index, "content_block": block}))?;
                }
                (ModelApi::Responses | ModelApi::Other, AnswerBlockKind::Text) => {
                    let item = self.said("in_progress", None, index);
                    self.event("response.output_item.added", json!({"output_index": index, "item": item}))?;
                    let of = self.of("msg", "content_index", index);
                    let part = json!({"type": "output_text", "text": "", "annotations": []});
                    self.event("response.content_part.added", with(&of, "part", part.clone()))?;
                }
                (ModelApi::Responses | ModelApi::Other, AnswerBlockKind::Thought) => {
                    let item = json!({"type": "reasoning", "id": self.sub_id("rs", index), "summary": []});
                    self.event("response.output_item.added", json!({"output_index": index, "item": item}))?;
                    let of = self.of("rs", "summary_index", index);
                    let part = json!({"type": "summary_text", "text": ""});
                    self.event("response.reasoning_summary_part.added", with(&of, "part", part.clone()))?;
                }
            }
        }
        self.output_bytes += piece.len();
        self.open.as_mut().expect("opened above").1.push_str(piece);
        match (self.api, kind) {
            (ModelApi::Messages, AnswerBlockKind::Text) => {
                let delta = json!({"type": "text_delta", "text": piece});
                self.event("content_block_delta", json!({"index": index, "delta": delta}))
            }
            (ModelApi::Messages, AnswerBlockKind::Thought) => {
                let delta = json!({"type": "thinking_delta", "thinking": piece});
                self.event("content_block_delta", json!({"index": index, "delta": delta}))
            }
            (ModelApi::Responses | ModelApi::Other, AnswerBlockKind::Text) => {
                let of = self.of("msg", "content_index", index);
                self.event("response.output_text.delta", with(&of, "delta", piece))
            }
            (ModelApi::Responses | ModelApi::Other, AnswerBlockKind::Thought) => {
                let of = self.of("rs", "summary_index", index);
                self.event("response.reasoning_summary_text.delta", with(&of, "delta", piece))
            }
        }
    }

    /// Ends the block that is open, if there is one.
    fn close(&mut self) -> io::Result<()> {
        let Some((kind, text)) = self.open.take() else { return Ok(()) };
        let index = self.done.len();
        match (self.api, kind) {
            (ModelApi::Messages, AnswerBlockKind::Text) => {
                self.event("content_block_stop", json!({"index": index}))?;
                self.done.push(json!({"type": "text", "text": text}));
            }
            (ModelApi::Messages, AnswerBlockKind::Thought) => {
                let signature = "ZmFrZSBzaWduYXR1cmU=";
                let delta = json!({"type": "signature_delta", "signature": signature});
                self.event("content_block_delta", json!({"index": index, "delta": delta}))?;
                self.event("content_block_stop", json!({"index": index}))?;
                self.done.push(json!({"type": "thinking", "thinking": text, "signature": signature}));
            }
            (ModelApi::Responses | ModelApi::Other, AnswerBlockKind::Text) => {
                let of = self.of("msg", "content_index", index);
                self.event("response.output_text.done", with(&of, "text", text.as_str()))?;
                let part = json!({"type": "output_text", "text": text, "annotations": []});
                self.event("response.content_part.done", with(&of, "part", part.clone()))?;
                let item = self.said("completed", Some(&part), index);
                self.event("response.output_item.done", json!({"output_index": index, "item": item}))?;
                self.done.push(item);
            }
            (ModelApi::Responses | ModelApi::Other, AnswerBlockKind::Thought) => {
                let of = self.of("rs", "summary_index", index);
                self.event("response.reasoning_summary_text.done", with(&of, "text", text.as_str()))?;
                let part = json!({"type": "summary_text", "text": text});
                self.event("response.reasoning_summary_part.done", with(&of, "part", part.clone()))?;
                let item = json!({"type": "reasoning", "id": self.sub_id("rs", index), "summary": [part],
                    "encrypted_content": "ZmFrZQ=="});
                self.event("response.output_item.done", json!({"output_index": index, "item": item}))?;
                self.done.push(item);
            }
        }
        Ok(())
    }

    fn event(&mut self, kind: &str, mut data: Value) -> io::Result<()> {
        if !self.stream {
            return Ok(());
        }
        data["type"] = json!(kind);
        if self.api != ModelApi::Messages {
            data["sequence_number"] = json!(self.sequence);
            self.sequence += 1;
        }
        self.reply.chunk(format!("event: {kind}\ndata: {data}\n\n").as_bytes())
    }

    fn message(&self, reason: Value, output_tokens: usize) -> Value {
        json!({"id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": self.done,
            "stop_reason": reason, "stop_sequence": null, "usage": {"input_tokens": self.input_tokens,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output_tokens,
            "service_tier": "standard"}})
    }

    fn response(&self, status: &str) -> Value {
        let usage = json!({"input_tokens": self.input_tokens, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": self.output_tokens(), "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.input_tokens + self.output_tokens()});
        json!({"id": self.id, "object": "response", "created_at": 0, "status": status, "model": self.model,
            "output": self.done, "error": null, "incomplete_details": null,
            "usage": if status == "completed" { usage } else { Value::Null }})
    }

    fn said(&self, status: &str, part: Option<&Value>, index: usize) -> Value {
        json!({"type": "message", "id": self.sub_id("msg", index), "role": "assistant", "status": status,
            "content": part.into_iter().collect::<Vec<_>>()})
    }

    fn of(&self, prefix: &str, part: &str, index: usize) -> Value {
        let mut of = json!({"item_id": self.sub_id(prefix, index), "output_index": index});
        of[part] = json!(0);
        of
    }

    fn sub_id(&self, prefix: &str, index: usize) -> String {
        let (_, tail) = self.id.split_once('_').unwrap_or(("", &self.id));
        format!("{prefix}_{tail}{index}")
    }

    fn output_tokens(&self) -> usize {
        self.output_bytes / 4 + 1
    }
}

/// An error as the real service words it.
pub(crate) fn error(api: ModelApi, status: u16) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    let message = format!("the prompt asked for status {status}");
    match api {
        ModelApi::Messages => {
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"})
        }
        ModelApi::Responses | ModelApi::Other => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
        }
    }
}

fn with(of: &Value, name: &str, value: impl Into<Value>) -> Value {
    let mut of = of.clone();
    of[name] = value.into();
    of
}
