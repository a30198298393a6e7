//! Requests of an agent, read from either API into one shape.
//!
//! Promise: texts are in the order they were sent, without the wrapping that agents add: a text that is one element
//! (`<system-reminder>…</system-reminder>`, `<environment_context>…`) is context, not something said.
//! Not here: the answers (see `script`). Start with [`ModelRequest`].

use serde_json::Value;

/// The API through which a request came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModelApi {
    /// `POST /v1/messages`, as Claude Code asks.
    Messages,
    /// `POST /v1/responses`, as Codex asks.
    Responses,
    /// Anything else: counting tokens, listing models, checking whether the server is there.
    Other,
}

/// The speaker of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageRole {
    /// The user, or a program in the place of one.
    User,
    /// The model, in an earlier answer.
    Assistant,
}

/// One text of a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageText {
    /// The speaker: the user or the model.
    pub role: MessageRole,
    /// The text, without context that the agent wrapped around it.
    pub text: String,
}

/// The result of a tool call, as the agent passes it to the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelToolResult {
    /// The call it answers.
    pub call: String,
    /// The output of the tool.
    pub text: String,
}

/// How far the answer got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerState {
    /// The answer is being given, or held.
    Open,
    /// Given to its end (an HTTP error counts as an end).
    Whole,
    /// The agent hung up first, or the answer was to be cut.
    Cut,
}

/// One request of an agent, with the state of its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelRequest {
    /// The API it came in through.
    pub api: ModelApi,
    /// Method and path, without the query.
    pub line: String,
    /// The model that was asked for.
    pub model: String,
    /// The agent's own id of the conversation, where it sends one.
    pub conversation: Option<String>,
    /// Not of a conversation: titles, quota checks, reviews, counting. Tests leave these out.
    pub housekeeping: bool,
    /// True if the agent asked for a stream of events; false for one JSON object.
    pub stream: bool,
    /// The names of the tools on offer.
    pub tools: Vec<String>,
    /// All texts of the conversation so far, in order; the last user text is the prompt.
    pub texts: Vec<MessageText>,
    /// The ids of all tool calls so far, in order.
    pub calls: Vec<String>,
    /// All tool results so far, in order.
    pub results: Vec<ModelToolResult>,
    /// How many of them came after the prompt.
    pub round: usize,
    /// Texts that Claude Code passed on while it worked on the prompt: not prompts of their own.
    pub steers: Vec<String>,
    /// How far the answer got.
    pub answer: AnswerState,
    /// All of it, as it was sent.
    pub body: Value,
}

impl ModelRequest {
    /// The last thing a user said.
    pub fn prompt(&self) -> &str {
        self.texts.iter().rev().find(|text| text.role == MessageRole::User).map_or("", |text| &text.text)
    }

    /// All texts of users, in order.
    pub fn user_texts(&self) -> Vec<&str> {
        self.texts
            .iter()
            .filter(|text| text.role == MessageRole::User)
            .map(|text| text.text.as_str())
            .collect()
    }

    /// Reads a request by its path and body.
    pub(crate) fn read(method: &str, path: &str, body: &Value) -> Self {
        let mut asked = Self {
            api: ModelApi::Other,
            line: format!("{method} {path}"),
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            conversation: None,
            housekeeping: true,
            stream: body["stream"].as_bool().unwrap_or(false),
            tools: Vec::new(),
            texts: Vec::new(),
            calls: Vec::new(),
            results: Vec::new(),
            round: 0,
            steers: Vec::new(),
            answer: AnswerState::Open,
            body: body.clone(),
        };
        match (method, path) {
            ("POST", "/v1/messages") => asked.read_messages(body),
            ("POST", "/v1/responses") => asked.read_responses(body),
            _ => {}
        }
        asked
    }

    fn read_messages(&mut self, body: &Value) {
        self.api = ModelApi::Messages;
        self.tools = names(&body["tools"]);
        // The user id is JSON in a string, with the session in it.
        let user = body["metadata"]["user_id"].as_str().unwrap_or_default();
        let user: Value = serde_json::from_str(user).unwrap_or(Value::Null);
        self.conversation = user["session_id"].as_str().map(str::to_owned);
        self.housekeeping = self.tools.is_empty() || body["max_tokens"] == 1;
        for message in list(&body["messages"]) {
            let role = match message["role"].as_str() {
                Some("user") => MessageRole::User,
                Some("assistant") => MessageRole::Assistant,
                Some("system") => {
                    list(&message["content"]).iter().for_each(|block| self.steer(block));
                    continue;
                }
                _ => continue,
            };
            if let Some(text) = message["content"].as_str() {
                self.say(role, text);
            }
            for block in list(&message["content"]) {
                match block["type"].as_str() {
                    Some("text") => self.say(role, block["text"].as_str().unwrap_or_default()),
                    Some("tool_use") => self.calls.extend(block["id"].as_str().map(str::to_owned)),
                    Some("tool_result") => self.gave(&block["tool_use_id"], &block["content"]),
                    _ => {}
                }
            }
        }
    }

    fn read_responses(&mut self, body: &Value) {
        self.api = ModelApi::Responses;
        self.tools = names(&body["tools"]);
        // Newer models get their tools as an item, in groups.
        for item in list(&body["input"]).iter().filter(|item| item["type"] == "additional_tools") {
            for group in list(&item["tools"]) {
                self.tools.extend(names(&group["tools"]));
            }
        }
        self.conversation = body["prompt_cache_key"].as_str().map(str::to_owned);
        // A schema for the answer is for a program: a review, a title, a memory.
        self.housekeeping = self.tools.is_empty() || body["text"]["format"]["type"] == "json_schema";
        for item in list(&body["input"]) {
            match (item["type"].as_str(), item["role"].as_str()) {
                (Some("message") | None, Some("user")) => self.say_all(MessageRole::User, &item["content"]),
                (Some("message") | None, Some("assistant")) => {
                    self.say_all(MessageRole::Assistant, &item["content"])
                }
                (Some("function_call" | "custom_tool_call" | "local_shell_call"), _) => {
                    self.calls.extend(item["call_id"].as_str().map(str::to_owned));
                }
                (Some("function_call_output" | "custom_tool_call_output"), _) => {
                    self.gave(&item["call_id"], &item["output"]);
                }
                _ => {}
            }
        }
    }

    /// Claude Code passes on messages from the middle of a turn as a text of the system.
    fn steer(&mut self, block: &Value) {
        let told = block["text"].as_str().and_then(|text| text.split_once("while you were working:\n"));
        if let Some((_, text)) = told {
            let said = text.split_once("\n\nThis is how Claude Code").map_or(text, |(said, _)| said);
            self.steers.push(said.to_owned());
        }
    }

    fn say_all(&mut self, role: MessageRole, content: &Value) {
        for block in list(content) {
            self.say(role, block["text"].as_str().unwrap_or_default());
        }
    }

    fn say(&mut self, role: MessageRole, text: &str) {
        let text = without_reminders(text);
        let text = text.trim();
        if text.is_empty() || is_context(text) {
            return;
        }
        if role == MessageRole::User {
            self.round = 0;
            self.steers.clear();
        }
        self.texts.push(MessageText { role, text: text.to_owned() });
    }

    fn gave(&mut self, call: &Value, content: &Value) {
        let mut text = content.as_str().or(content["content"].as_str()).unwrap_or_default().to_owned();
        for block in list(content) {
            text.push_str(block["text"].as_str().unwrap_or_default());
        }
        let text = without_reminders(&text);
        // Codex says a few things about the process first.
        let text = text.split_once("\nOutput:\n").map_or(text.as_str(), |(_, output)| output);
        let call = call.as_str().unwrap_or_default().to_owned();
        self.results.push(ModelToolResult { call, text: text.trim_end().to_owned() });
        self.round += 1;
    }
}

/// A text that is one element from its beginning to its end.
fn is_context(text: &str) -> bool {
    let Some((tag, _)) = text.strip_prefix('<').and_then(|rest| rest.split_once('>')) else {
        return text.starts_with("# AGENTS.md instructions");
    };
    let name = tag.split(' ').next().unwrap_or_default();
    text.ends_with(&format!("</{name}>"))
}

/// Claude Code puts these anywhere in a text.
fn without_reminders(text: &str) -> String {
    let (open, close) = ("<system-reminder>", "</system-reminder>");
    let mut left = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(open) {
        left.push_str(before);
        rest = after.split_once(close).map_or("", |(_, after)| after);
    }
    left + rest
}

fn names(tools: &Value) -> Vec<String> {
    let name = |tool: &Value| tool["name"].as_str().or(tool["type"].as_str()).map(str::to_owned);
    list(tools).iter().filter_map(name).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_wrapped_around_a_prompt_is_left_out() {
        let asked = ModelRequest::read(
            "POST",
            "/v1/messages",
            &json!({"model": "m", "tools": [{"name": "Bash"}], "metadata": {"user_id": "{\"session_id\":\"s1\"}"}, "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "<system-reminder>one</system-reminder>"},
                    {"type": "text", "text": "first <system-reminder>two</system-reminder>"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "ECHO"}, {"type": "tool_use", "id": "t1"}]},
                {"role": "system", "content": "not said"},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "hi\n"}]}]}),
        );
        assert_eq!(asked.user_texts(), ["first"]);
        assert_eq!(asked.prompt(), "first");
        assert_eq!((asked.round, asked.housekeeping), (1, false));
        assert_eq!(asked.results, [ModelToolResult { call: "t1".into(), text: "hi".into() }]);
        assert_eq!(asked.conversation.as_deref(), Some("s1"));
    }

    #[test]
    fn the_other_api_gives_the_same_shape() {
        let message = |role: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]});
        let asked = ModelRequest::read(
            "POST",
            "/v1/responses",
            &json!({"model": "m", "tools": [{"type": "function", "name": "exec_command"}], "prompt_cache_key": "t", "input": [
                message("developer", "rules"),
                message("user", "<environment_context>\n  <cwd>/</cwd>\n</environment_context>"),
                message("user", "first"),
                {"type": "function_call", "name": "exec_command", "call_id": "c1", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "Wall time: 1\nOutput:\nhi\n"}]}),
        );
        assert_eq!(asked.user_texts(), ["first"]);
        assert_eq!(asked.results, [ModelToolResult { call: "c1".into(), text: "hi".into() }]);
        assert_eq!((asked.round, asked.housekeeping), (1, false));
    }

    #[test]
    fn a_request_without_tools_is_housekeeping() {
        let body = json!({"messages": [{"role": "user", "content": "quota"}], "max_tokens": 1});
        assert!(ModelRequest::read("POST", "/v1/messages", &body).housekeeping);
        assert!(ModelRequest::read("HEAD", "/", &Value::Null).housekeeping);
    }
}
