//! Questions of Claude Code: permissions, and questions to the user.
//!
//! A permission is asked with `can_use_tool`; so is the tool `AskUserQuestion`, whose answers are its input. Several
//! questions in one request are asked one after the other, so that each has its own options, and an answer in own words.
//! A refusal carries its reason in the response's `message`, which the model reads as the tool's result.
//! An MCP server asks for input with `elicitation`: a question that a choice can answer is asked, others are declined.
//! Promise: every request gets an answer, whatever its form. Not here: the requests that wait (see `claude`).
//! Start with [`ClaudeQuestion::read`].

use berth_core::{AgentQuestion, ChosenReply, QuestionOption, QuestionOptionKind};
use serde_json::{Value, json};

use super::text;
use crate::common::truncated;

/// Size limit of a question's text.
const MAX_DETAIL_BYTES: usize = 64 << 10;
/// Longest name of a tool or an option.
const MAX_NAME_BYTES: usize = 256;
/// Size limit of an input that is kept for the answer. Without it Claude Code uses its own copy.
const MAX_INPUT_BYTES: usize = 1 << 20;
/// Number of options of one question.
const MOST_OPTIONS: usize = 32;

const ALLOW: &str = "allow";
const ALLOW_ALWAYS: &str = "allow-always";
const DENY: &str = "deny";
const DENIED: &str = "The user denied this action.";

/// A request that waits for an answer.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ClaudeQuestion {
    /// Id of the request, as Claude Code names it.
    pub(super) id: String,
    /// True if a sub-agent asked that may go on after the end of the turn.
    pub(super) of_helper: bool,
    /// The current question.
    pub(super) ask: AgentQuestion,
    kind: ClaudeQuestionKind,
}

#[derive(Clone, PartialEq, Debug)]
enum ClaudeQuestionKind {
    Permission {
        input: Option<Value>,
        always: Vec<Value>,
    },
    /// Questions to the user: their input, and the answers so far.
    Choices {
        input: Value,
        answers: Vec<String>,
    },
    Elicitation,
}

/// Result of an answer.
#[derive(Debug)]
pub(super) enum ClaudeAnswerStep {
    /// The response to the request is complete.
    Respond(Value),
    /// The request has one more question.
    AskNext,
    /// The question has no such option.
    Nothing,
}

impl ClaudeQuestion {
    /// Reads the question in a control request. Fails for a request that is not asked.
    pub(super) fn read(id: &str, request: &Value) -> Result<Self, UnanswerableReason> {
        match text(request, "subtype") {
            "can_use_tool" => Ok(Self::permission(id, request)),
            "elicitation" if needs_text(request) => Err(UnanswerableReason::Decline),
            "elicitation" => Ok(Self::elicitation(id, request)),
            // Only dialogs that a client says it can show are asked, and we claimed none: this is for another client.
            "request_user_dialog" => Err(UnanswerableReason::Leave),
            _ => Err(UnanswerableReason::NotSupported),
        }
    }

    /// Takes the answer to the current question.
    pub(super) fn answer(&mut self, reply: &ChosenReply) -> ClaudeAnswerStep {
        if reply.ids().any(|id| self.ask.options.iter().all(|option| option.id != id)) {
            return ClaudeAnswerStep::Nothing;
        }
        let text = reply.text.as_deref();
        match &mut self.kind {
            ClaudeQuestionKind::Elicitation if reply.is_only(ALLOW) => {
                ClaudeAnswerStep::Respond(json!({"action": "accept", "content": {}}))
            }
            ClaudeQuestionKind::Elicitation => ClaudeAnswerStep::Respond(decline_response()),
            ClaudeQuestionKind::Permission { .. } | ClaudeQuestionKind::Choices { .. }
                if reply.is_only(DENY) =>
            {
                ClaudeAnswerStep::Respond(deny_response(text))
            }
            ClaudeQuestionKind::Permission { input, always } => {
                let mut response = json!({"behavior": "allow"});
                if let Some(input) = input.take() {
                    response["updatedInput"] = input;
                }
                if reply.is_only(ALLOW_ALWAYS) {
                    response["updatedPermissions"] = Value::Array(std::mem::take(always));
                }
                ClaudeAnswerStep::Respond(response)
            }
            ClaudeQuestionKind::Choices { input, answers } => {
                let question = questions(input).get(answers.len()).unwrap_or(&Value::Null);
                let label = |id: &str| {
                    let at = id.parse::<usize>().ok()?.checked_sub(1)?;
                    Some(self::text(options_of(question).nth(at)?, "label"))
                };
                let said: Vec<&str> = reply.ids().filter_map(label).chain(text).collect();
                answers.push(said.join(", "));
                if let Some(next) = questions(input).get(answers.len()) {
                    let request = format!("{}/{}", self.id, answers.len() + 1);
                    self.ask = choice_ask(request, next);
                    return ClaudeAnswerStep::AskNext;
                }
                let mut given = serde_json::Map::new();
                for (question, answer) in questions(input).iter().zip(answers.drain(..)) {
                    given.insert(self::text(question, "question").to_owned(), Value::String(answer));
                }
                let mut input = input.take();
                input["answers"] = Value::Object(given);
                ClaudeAnswerStep::Respond(json!({"behavior": "allow", "updatedInput": input}))
            }
        }
    }

    fn permission(id: &str, request: &Value) -> Self {
        let of_helper = request.get("agent_id").is_some_and(Value::is_string);
        let id = truncated(id, MAX_NAME_BYTES).to_owned();
        let tool = text(request, "tool_name");
        let input = request.get("input").filter(|input| input.is_object()).cloned().unwrap_or(json!({}));
        let fits = serde_json::to_string(&input).is_ok_and(|whole| whole.len() <= MAX_INPUT_BYTES);
        if tool == "AskUserQuestion" && fits && !questions(&input).is_empty() {
            let ask = choice_ask(id.clone(), &questions(&input)[0]);
            return Self {
                id,
                of_helper,
                ask,
                kind: ClaudeQuestionKind::Choices { input, answers: Vec::new() },
            };
        }
        let always = suggested(request);
        let mut options = vec![option(ALLOW, "allow", QuestionOptionKind::AllowOnce)];
        if let Some(name) = always_name(&always) {
            options.push(option(ALLOW_ALWAYS, &name, QuestionOptionKind::AllowAlways));
        }
        options.push(option(DENY, "deny", QuestionOptionKind::RejectOnce));
        let ask = AgentQuestion {
            request: id.clone(),
            tool: name(tool),
            detail: detail(tool, &input),
            options,
            takes_reason: true,
            ..AgentQuestion::default()
        };
        Self {
            id,
            of_helper,
            ask,
            kind: ClaudeQuestionKind::Permission { input: fits.then_some(input), always },
        }
    }

    fn elicitation(id: &str, request: &Value) -> Self {
        let id = truncated(id, MAX_NAME_BYTES).to_owned();
        let options = vec![
            option(ALLOW, "accept", QuestionOptionKind::AllowOnce),
            option(DENY, "decline", QuestionOptionKind::RejectOnce),
        ];
        let detail = bounded([text(request, "message"), text(request, "url")].join("\n").trim());
        let tool = name(text(request, "mcp_server_name"));
        let ask = AgentQuestion { request: id.clone(), tool, detail, options, ..AgentQuestion::default() };
        Self { id, of_helper: false, ask, kind: ClaudeQuestionKind::Elicitation }
    }
}

/// Reason that a request is not asked.
#[derive(Debug)]
pub(super) enum UnanswerableReason {
    /// The request is unknown: the answer says so.
    NotSupported,
    /// The request needs text, and there are only choices: the answer declines it.
    Decline,
    /// The request is for another client: there is no answer.
    Leave,
}

/// A refusal for a tool, with its reason.
pub(super) fn deny_response(reason: Option<&str>) -> Value {
    let message = match reason {
        Some(reason) => format!("{DENIED} They said: {reason}"),
        None => DENIED.to_owned(),
    };
    json!({"behavior": "deny", "message": message})
}

/// A refusal for a server that wants input.
pub(super) fn decline_response() -> Value {
    json!({"action": "decline"})
}

fn needs_text(request: &Value) -> bool {
    let schema = request.get("requested_schema");
    let fields = schema.and_then(|schema| schema.get("properties")?.as_object());
    fields.is_some_and(|fields| !fields.is_empty())
}

fn questions(input: &Value) -> &[Value] {
    input.get("questions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn options_of(question: &Value) -> impl Iterator<Item = &Value> {
    question.get("options").and_then(Value::as_array).into_iter().flatten().take(MOST_OPTIONS)
}

fn choice_ask(request: String, question: &Value) -> AgentQuestion {
    let mut detail = text(question, "question").to_owned();
    let mut options = Vec::new();
    for (number, choice) in options_of(question).enumerate().map(|(at, choice)| (at + 1, choice)) {
        let (label, description) = (text(choice, "label"), text(choice, "description"));
        let colon = if description.is_empty() { "" } else { ": " };
        detail.push_str(&format!("\n{number}. {label}{colon}{description}"));
        options.push(option(&number.to_string(), label, QuestionOptionKind::Other));
    }
    options.push(option(DENY, "no answer", QuestionOptionKind::RejectOnce));
    AgentQuestion {
        request,
        tool: "question".to_owned(),
        detail: bounded(&detail),
        options,
        several: question.get("multiSelect").and_then(Value::as_bool).unwrap_or(false),
        takes_text: true,
        takes_reason: true,
    }
}

/// The narrowest of the rules that Claude Code offers to remember: a rule for the tool if there is one, rather than a
/// mode that allows much more.
fn suggested(request: &Value) -> Vec<Value> {
    let all = request.get("permission_suggestions").and_then(Value::as_array);
    let all = all.map(Vec::as_slice).unwrap_or_default();
    let allows = |suggestion: &&Value| match text(suggestion, "type") {
        "addRules" => text(suggestion, "behavior") == "allow",
        "setMode" => text(suggestion, "mode") == "acceptEdits",
        _ => false,
    };
    let rules = |suggestion: &&Value| text(suggestion, "type") == "addRules";
    let allowing: Vec<&Value> = all.iter().take(MOST_OPTIONS).filter(allows).collect();
    if allowing.iter().any(rules) {
        allowing.into_iter().filter(rules).cloned().collect()
    } else {
        allowing.into_iter().take(1).cloned().collect()
    }
}

/// Name of the option to always allow, if there is one.
fn always_name(always: &[Value]) -> Option<String> {
    let rules: Vec<String> = always
        .iter()
        .filter_map(|suggestion| suggestion.get("rules")?.as_array())
        .flatten()
        .map(|rule| match text(rule, "ruleContent") {
            "" => text(rule, "toolName").to_owned(),
            content => format!("{}({content})", text(rule, "toolName")),
        })
        .collect();
    match (always.is_empty(), rules.is_empty()) {
        (true, _) => None,
        (false, false) => Some(format!("allow, and always allow {}", rules.join(", "))),
        (false, true) => Some("allow, and accept all edits from now on".to_owned()),
    }
}

fn option(id: &str, said: &str, kind: QuestionOptionKind) -> QuestionOption {
    QuestionOption { id: id.to_owned(), name: name(said), kind }
}

fn name(said: &str) -> String {
    truncated(said, MAX_NAME_BYTES).to_owned()
}

fn bounded(detail: &str) -> String {
    let kept = truncated(detail, MAX_DETAIL_BYTES);
    match detail.len() - kept.len() {
        0 => detail.to_owned(),
        more => format!("{kept}\n… and {more} bytes more"),
    }
}

/// Full description of the tool's action.
fn detail(tool: &str, input: &Value) -> String {
    let file = text(input, "file_path");
    let all = match tool {
        "Bash" => text(input, "command").to_owned(),
        "Write" => format!("{file}\n{}", with_diff_mark('+', text(input, "content"))),
        "Edit" => {
            let (old, new) = (text(input, "old_string"), text(input, "new_string"));
            format!("{file}\n{}{}", with_diff_mark('-', old), with_diff_mark('+', new))
        }
        "ExitPlanMode" => match text(input, "plan") {
            "" => "leave plan mode and begin".to_owned(),
            plan => plan.to_owned(),
        },
        _ => match input.as_object().map(|fields| (fields.len(), fields.values().next())) {
            Some((1, Some(Value::String(only)))) => only.clone(),
            Some(_) | None => serde_json::to_string_pretty(input).unwrap_or_default(),
        },
    };
    bounded(all.trim_end())
}

fn with_diff_mark(mark: char, lines: &str) -> String {
    lines.lines().map(|line| format!("{mark}{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use berth_core::ChosenReply;
    use serde_json::{Value, json};

    use super::{ClaudeAnswerStep, ClaudeQuestion};
    use crate::common::chosen;

    fn asked(tool: &str, input: Value) -> ClaudeQuestion {
        let request = json!({"subtype": "can_use_tool", "tool_name": tool, "input": input});
        ClaudeQuestion::read("r", &request).expect("it is a question")
    }

    fn response(then: ClaudeAnswerStep) -> Value {
        match then {
            ClaudeAnswerStep::Respond(response) => response,
            ClaudeAnswerStep::AskNext | ClaudeAnswerStep::Nothing => panic!("it is answered: {then:?}"),
        }
    }

    #[test]
    fn the_reason_of_a_refusal_is_in_the_message_that_the_model_reads() {
        let mut question = asked("Bash", json!({"command": "rm -r /tmp/x"}));
        assert!(question.ask.takes_reason && !question.ask.takes_text && !question.ask.several);
        let reply = ChosenReply { text: Some("use mktemp instead".to_owned()), ..chosen("deny") };
        let said = response(question.answer(&reply));
        assert_eq!(said["behavior"], "deny");
        assert_eq!(said["message"], "The user denied this action. They said: use mktemp instead");
    }

    #[test]
    fn several_options_and_own_words_are_one_answer_to_a_question() {
        let option = |label: &str| json!({"label": label, "description": ""});
        let questions = json!([
            {"question": "Colours?", "multiSelect": true, "options": [option("Red"), option("Blue"), option("Green")]},
            {"question": "Store?", "multiSelect": false, "options": [option("files"), option("sqlite")]},
        ]);
        let mut question = asked("AskUserQuestion", json!({"questions": questions}));
        assert!(question.ask.several && question.ask.takes_text && question.ask.takes_reason);
        let mut reply = chosen("1");
        reply.chosen.extend(chosen("3").chosen);
        reply.text = Some("and pink".to_owned());
        assert!(matches!(question.answer(&reply), ClaudeAnswerStep::AskNext));
        assert!(!question.ask.several && question.ask.takes_text);
        let own = ChosenReply { chosen: vec![], text: Some("neither: redis".to_owned()) };
        let said = response(question.answer(&own));
        let answers = json!({"Colours?": "Red, Green, and pink", "Store?": "neither: redis"});
        assert_eq!((&said["behavior"], &said["updatedInput"]["answers"]), (&json!("allow"), &answers));
    }
}
