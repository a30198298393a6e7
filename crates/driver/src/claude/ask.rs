//! What Claude Code wants to know: permissions, and the questions it has for people.
//!
//! A permission is asked with `can_use_tool`; so is the tool `AskUserQuestion`, whose answers are its input. Several
//! questions in one request are asked one after the other, so that each has its own options, and an answer in own words.
//! A refusal carries its reason in the response's `message`, which the model reads as the tool's result.
//! An MCP server's wish for input comes as `elicitation`: what a choice can answer is asked, the rest is declined.
//! Promise: whatever the request looks like, there is an answer to it. Not here: which requests wait (see `claude`).
//! Start with [`Question::read`].

use berth_core::{Ask, AskKind, AskOption, Reply};
use serde_json::{Value, json};

use super::text;
use crate::common::within;

/// How much of a question is shown.
const MAX_DETAIL_BYTES: usize = 64 << 10;
/// The longest name of a tool or an option.
const MAX_NAME_BYTES: usize = 256;
/// How large an input may be that is kept to be given back. Claude Code goes on with its own copy otherwise.
const MAX_INPUT_BYTES: usize = 1 << 20;
/// How many options a question may have.
const MOST_OPTIONS: usize = 32;

const ALLOW: &str = "allow";
const ALLOW_ALWAYS: &str = "allow-always";
const DENY: &str = "deny";
const DENIED: &str = "The person who was asked said no.";

/// A request that waits for an answer.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Question {
    /// Claude Code's name for it.
    pub(super) id: String,
    /// Whether a helper of the agent asked that may go on when the turn is over.
    pub(super) of_helper: bool,
    /// What is asked at the moment.
    pub(super) ask: Ask,
    kind: Kind,
}

#[derive(Clone, PartialEq, Debug)]
enum Kind {
    Permission {
        input: Option<Value>,
        always: Vec<Value>,
    },
    /// Questions for people: their input, and what was answered so far.
    Choices {
        input: Value,
        answers: Vec<String>,
    },
    Elicitation,
}

/// What an answer leads to.
#[derive(Debug)]
pub(super) enum Then {
    /// This is the response to the request.
    Respond(Value),
    /// There is one more question in it.
    AskNext,
    /// There is no such option.
    Nothing,
}

impl Question {
    /// The question in a control request; an error is the response to one that nobody can answer.
    pub(super) fn read(id: &str, request: &Value) -> Result<Self, Unanswerable> {
        match text(request, "subtype") {
            "can_use_tool" => Ok(Self::permission(id, request)),
            "elicitation" if needs_text(request) => Err(Unanswerable::Decline),
            "elicitation" => Ok(Self::elicitation(id, request)),
            // Only what a client says it can show is asked, and we said nothing: it is not for us.
            "request_user_dialog" => Err(Unanswerable::Leave),
            _ => Err(Unanswerable::NotSupported),
        }
    }

    /// Takes an answer.
    pub(super) fn answer(&mut self, reply: &Reply) -> Then {
        if reply.ids().any(|id| self.ask.options.iter().all(|option| option.id != id)) {
            return Then::Nothing;
        }
        let text = reply.text.as_deref();
        match &mut self.kind {
            Kind::Elicitation if reply.is_only(ALLOW) => {
                Then::Respond(json!({"action": "accept", "content": {}}))
            }
            Kind::Elicitation => Then::Respond(declined()),
            Kind::Permission { .. } | Kind::Choices { .. } if reply.is_only(DENY) => {
                Then::Respond(denied(text))
            }
            Kind::Permission { input, always } => {
                let mut response = json!({"behavior": "allow"});
                if let Some(input) = input.take() {
                    response["updatedInput"] = input;
                }
                if reply.is_only(ALLOW_ALWAYS) {
                    response["updatedPermissions"] = Value::Array(std::mem::take(always));
                }
                Then::Respond(response)
            }
            Kind::Choices { input, answers } => {
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
                    return Then::AskNext;
                }
                let mut given = serde_json::Map::new();
                for (question, answer) in questions(input).iter().zip(answers.drain(..)) {
                    given.insert(self::text(question, "question").to_owned(), Value::String(answer));
                }
                let mut input = input.take();
                input["answers"] = Value::Object(given);
                Then::Respond(json!({"behavior": "allow", "updatedInput": input}))
            }
        }
    }

    fn permission(id: &str, request: &Value) -> Self {
        let of_helper = request.get("agent_id").is_some_and(Value::is_string);
        let id = within(id, MAX_NAME_BYTES).to_owned();
        let tool = text(request, "tool_name");
        let input = request.get("input").filter(|input| input.is_object()).cloned().unwrap_or(json!({}));
        let fits = serde_json::to_string(&input).is_ok_and(|whole| whole.len() <= MAX_INPUT_BYTES);
        if tool == "AskUserQuestion" && fits && !questions(&input).is_empty() {
            let ask = choice_ask(id.clone(), &questions(&input)[0]);
            return Self { id, of_helper, ask, kind: Kind::Choices { input, answers: Vec::new() } };
        }
        let always = suggested(request);
        let mut options = vec![option(ALLOW, "allow", AskKind::AllowOnce)];
        if let Some(name) = always_name(&always) {
            options.push(option(ALLOW_ALWAYS, &name, AskKind::AllowAlways));
        }
        options.push(option(DENY, "deny", AskKind::RejectOnce));
        let ask = Ask {
            request: id.clone(),
            tool: name(tool),
            detail: detail(tool, &input),
            options,
            takes_reason: true,
            ..Ask::default()
        };
        Self { id, of_helper, ask, kind: Kind::Permission { input: fits.then_some(input), always } }
    }

    fn elicitation(id: &str, request: &Value) -> Self {
        let id = within(id, MAX_NAME_BYTES).to_owned();
        let options =
            vec![option(ALLOW, "accept", AskKind::AllowOnce), option(DENY, "decline", AskKind::RejectOnce)];
        let detail = bounded([text(request, "message"), text(request, "url")].join("\n").trim());
        let tool = name(text(request, "mcp_server_name"));
        let ask = Ask { request: id.clone(), tool, detail, options, ..Ask::default() };
        Self { id, of_helper: false, ask, kind: Kind::Elicitation }
    }
}

/// Why a request is not asked.
#[derive(Debug)]
pub(super) enum Unanswerable {
    /// Nobody knows what it means: say so.
    NotSupported,
    /// It wants text, and there are only choices: decline.
    Decline,
    /// It is not for us: no answer.
    Leave,
}

/// No, to a tool, and why.
pub(super) fn denied(reason: Option<&str>) -> Value {
    let message = match reason {
        Some(reason) => format!("{DENIED} They said: {reason}"),
        None => DENIED.to_owned(),
    };
    json!({"behavior": "deny", "message": message})
}

/// No, to a server that wants input.
pub(super) fn declined() -> Value {
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

fn choice_ask(request: String, question: &Value) -> Ask {
    let mut detail = text(question, "question").to_owned();
    let mut options = Vec::new();
    for (number, choice) in options_of(question).enumerate().map(|(at, choice)| (at + 1, choice)) {
        let (label, description) = (text(choice, "label"), text(choice, "description"));
        let colon = if description.is_empty() { "" } else { ": " };
        detail.push_str(&format!("\n{number}. {label}{colon}{description}"));
        options.push(option(&number.to_string(), label, AskKind::Other));
    }
    options.push(option(DENY, "no answer", AskKind::RejectOnce));
    Ask {
        request,
        tool: "question".to_owned(),
        detail: bounded(&detail),
        options,
        several: question.get("multiSelect").and_then(Value::as_bool).unwrap_or(false),
        takes_text: true,
        takes_reason: true,
    }
}

/// What Claude Code offers to remember, the narrowest of it: a rule for the tool if there is one, rather than a
/// mode in which much more is allowed.
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

/// What will not be asked again, if anything.
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

fn option(id: &str, said: &str, kind: AskKind) -> AskOption {
    AskOption { id: id.to_owned(), name: name(said), kind }
}

fn name(said: &str) -> String {
    within(said, MAX_NAME_BYTES).to_owned()
}

fn bounded(detail: &str) -> String {
    let kept = within(detail, MAX_DETAIL_BYTES);
    match detail.len() - kept.len() {
        0 => detail.to_owned(),
        more => format!("{kept}\n… and {more} bytes more"),
    }
}

/// What the tool would do, in full.
fn detail(tool: &str, input: &Value) -> String {
    let file = text(input, "file_path");
    let all = match tool {
        "Bash" => text(input, "command").to_owned(),
        "Write" => format!("{file}\n{}", marked('+', text(input, "content"))),
        "Edit" => {
            let (old, new) = (text(input, "old_string"), text(input, "new_string"));
            format!("{file}\n{}{}", marked('-', old), marked('+', new))
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

fn marked(mark: char, lines: &str) -> String {
    lines.lines().map(|line| format!("{mark}{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use berth_core::Reply;
    use serde_json::{Value, json};

    use super::{Question, Then};
    use crate::common::chosen;

    fn asked(tool: &str, input: Value) -> Question {
        let request = json!({"subtype": "can_use_tool", "tool_name": tool, "input": input});
        Question::read("r", &request).expect("it is a question")
    }

    fn response(then: Then) -> Value {
        match then {
            Then::Respond(response) => response,
            Then::AskNext | Then::Nothing => panic!("it is answered: {then:?}"),
        }
    }

    #[test]
    fn the_reason_of_a_refusal_is_in_the_message_that_the_model_reads() {
        let mut question = asked("Bash", json!({"command": "rm -r /tmp/x"}));
        assert!(question.ask.takes_reason && !question.ask.takes_text && !question.ask.several);
        let reply = Reply { text: Some("use mktemp instead".to_owned()), ..chosen("deny") };
        let said = response(question.answer(&reply));
        assert_eq!(said["behavior"], "deny");
        assert_eq!(said["message"], "The person who was asked said no. They said: use mktemp instead");
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
        assert!(matches!(question.answer(&reply), Then::AskNext));
        assert!(!question.ask.several && question.ask.takes_text);
        let own = Reply { chosen: vec![], text: Some("neither: redis".to_owned()) };
        let said = response(question.answer(&own));
        let answers = json!({"Colours?": "Red, Green, and pink", "Store?": "neither: redis"});
        assert_eq!((&said["behavior"], &said["updatedInput"]["answers"]), (&json!("allow"), &answers));
    }
}
