//! Questions: requests of Codex for a decision, and the answers to them.
//!
//! Promise: every question can be refused; an answer is one that Codex offered or that its protocol has for the
//! question; a question ends once.
//! Not here: the person who is asked (the keeper knows), the end of questions (see the parent).
//! Start with [`PendingQuestions::ask`].

use berth_core::{AgentQuestion, ChosenReply, MOST_ASKS, QuestionOption, QuestionOptionKind};
use serde_json::{Value, json};

use super::items::{MAX_DETAIL_BYTES, RecentFileChanges, line, text, within};

/// Place of the reason of a refusal in the older protocol. The current one has no field for it.
const REJECTION: &str = "/decision/denied/rejection";

/// The waiting questions.
#[derive(Debug, Default)]
pub(super) struct PendingQuestions(Vec<CodexQuestion>);

#[derive(Debug)]
struct CodexQuestion {
    /// Id of the request, as Codex numbers it.
    id: Value,
    /// Name of the question for people.
    request: String,
    /// Answer to Codex for each option.
    answers: Vec<(String, Value)>,
    refusal: Value,
    /// Id of the turn in which the question is asked, if a text can be added to that turn.
    turn: Option<String>,
    /// Questions of the model, if the request has any.
    questions: Option<QuestionSeries>,
}

/// Questions of the model, asked one after the other.
#[derive(Debug)]
struct QuestionSeries {
    all: Vec<Value>,
    /// The answers so far, by the ids of their questions.
    given: serde_json::Map<String, Value>,
}

/// Result of an answer.
#[derive(Debug)]
pub(super) enum CodexAnswerStep {
    /// The answer to Codex. A reason without a field in the protocol is sent into the turn before that.
    Respond { id: Value, result: Value, reason: Option<TurnText> },
    /// The request has one more question.
    AskNext(AgentQuestion),
    /// There is no such question or option.
    Nothing,
}

/// A text for a turn of Codex.
#[derive(Debug)]
pub(super) struct TurnText {
    pub(super) turn: String,
    pub(super) text: String,
}

/// Result of a request.
#[derive(Debug)]
pub(super) enum QuestionOutcome {
    /// The question waits for an answer.
    Waits(AgentQuestion),
    /// There are too many questions already: this is the answer.
    TooMany(Value),
    /// The kind of question is unknown.
    Unknown,
}

/// Possible answer to a question.
struct CodexChoice {
    id: String,
    name: String,
    kind: QuestionOptionKind,
    /// The answer to Codex.
    result: Value,
}

fn choice(id: &str, name: impl Into<String>, kind: QuestionOptionKind, result: Value) -> CodexChoice {
    CodexChoice { id: id.to_owned(), name: name.into(), kind, result }
}

impl PendingQuestions {
    /// Takes a request of Codex. `of_ours` is true if the request is from the session's own conversation and not from a
    /// sub-agent.
    pub(super) fn ask(
        &mut self,
        id: &Value,
        method: &str,
        params: &Value,
        changes: &RecentFileChanges,
        of_ours: bool,
    ) -> QuestionOutcome {
        if method == "item/tool/requestUserInput" {
            return self.ask_questions(id, params);
        }
        let Some((tool, detail, mut choices)) = question(method, params, changes) else {
            return QuestionOutcome::Unknown;
        };
        choices.retain(|choice| choice.result.to_string().len() <= MAX_DETAIL_BYTES);
        // A repeated question replaces the first one with its name.
        self.0.retain(|pending| pending.id != *id);
        let refusal = choices.iter().find(|choice| choice.kind == QuestionOptionKind::RejectOnce);
        let refusal = refusal.map(|choice| choice.result.clone()).unwrap_or_default();
        if self.0.len() >= MOST_ASKS {
            return QuestionOutcome::TooMany(refusal);
        }
        let tool = if of_ours { tool } else { format!("{tool} (sub-agent)") };
        let turn = Some(text(params, "turnId").to_owned()).filter(|turn| of_ours && !turn.is_empty());
        let has_field = refusal.pointer(REJECTION).is_some();
        let ask = AgentQuestion {
            request: name(id),
            takes_reason: has_field || turn.is_some(),
            tool,
            detail: within(detail.trim(), MAX_DETAIL_BYTES),
            options: choices
                .iter()
                .map(|CodexChoice { id, name, kind, .. }| QuestionOption {
                    id: id.clone(),
                    name: name.clone(),
                    kind: *kind,
                })
                .collect(),
            ..AgentQuestion::default()
        };
        let answers = choices.into_iter().map(|choice| (choice.id, choice.result)).collect();
        let request = name(id);
        self.0.push(CodexQuestion { id: id.clone(), request, answers, refusal, turn, questions: None });
        QuestionOutcome::Waits(ask)
    }

    /// Takes questions of the model to the user.
    fn ask_questions(&mut self, id: &Value, params: &Value) -> QuestionOutcome {
        let all = params.get("questions").and_then(Value::as_array).cloned().unwrap_or_default();
        // The answer to a question for a secret would stay in the journal for ever.
        let is_secret = |question: &Value| question.get("isSecret").and_then(Value::as_bool) == Some(true);
        if all.is_empty() || all.iter().any(is_secret) || params.to_string().len() > MAX_DETAIL_BYTES {
            return QuestionOutcome::Unknown;
        }
        self.0.retain(|pending| pending.id != *id);
        let refusal = json!({ "answers": {} });
        if self.0.len() >= MOST_ASKS {
            return QuestionOutcome::TooMany(refusal);
        }
        let ask = question_ask(name(id), &all[0]);
        let questions = Some(QuestionSeries { all, given: serde_json::Map::new() });
        let (id, request, answers) = (id.clone(), name(id), Vec::new());
        self.0.push(CodexQuestion { id, request, answers, refusal, turn: None, questions });
        QuestionOutcome::Waits(ask)
    }

    /// Takes the answer to a waiting question.
    pub(super) fn answer(&mut self, request: &str, reply: &ChosenReply) -> CodexAnswerStep {
        let Some(at) = self.0.iter().position(|pending| pending.request == request) else {
            return CodexAnswerStep::Nothing;
        };
        let pending = &mut self.0[at];
        if let Some(questions) = &mut pending.questions {
            if let Some(next) = questions.take(reply) {
                pending.request = format!("{}/{}", name(&pending.id), questions.given.len() + 1);
                return CodexAnswerStep::AskNext(question_ask(pending.request.clone(), &next));
            }
            let result = json!({ "answers": std::mem::take(&mut questions.given) });
            return CodexAnswerStep::Respond { id: self.0.swap_remove(at).id, result, reason: None };
        }
        let known = pending.answers.iter().find(|(id, _)| reply.is_only(id));
        let Some(mut result) = known.map(|(_, result)| result.clone()) else {
            return CodexAnswerStep::Nothing;
        };
        let CodexQuestion { id, turn, .. } = self.0.swap_remove(at);
        let reason = match (&reply.text, result.pointer_mut(REJECTION)) {
            (Some(text), Some(field)) => {
                *field = Value::from(text.as_str());
                None
            }
            (Some(text), None) => turn.map(|turn| TurnText { turn, text: text.clone() }),
            (None, _) => None,
        };
        CodexAnswerStep::Respond { id, result, reason }
    }

    /// Codex reports that a question no longer waits. Returns its name if it was waiting.
    pub(super) fn resolved(&mut self, id: &Value) -> Option<String> {
        let at = self.0.iter().position(|pending| pending.id == *id)?;
        Some(self.0.remove(at).request)
    }

    /// Ends all questions. Returns their names, their ids, and the answers to Codex.
    pub(super) fn end(&mut self) -> Vec<(String, Value, Value)> {
        self.0.drain(..).map(|pending| (pending.request, pending.id, pending.refusal)).collect()
    }
}

/// The name of a question for people. Codex numbers them; a text with the same digits is another id.
fn name(id: &Value) -> String {
    id.to_string()
}

/// The tool, the detail and the answers of a question.
fn question(
    method: &str,
    params: &Value,
    changes: &RecentFileChanges,
) -> Option<(String, String, Vec<CodexChoice>)> {
    match method {
        "item/commandExecution/requestApproval" => Some(command(params)),
        "item/fileChange/requestApproval" => {
            let change = changes.of(text(params, "itemId")).unwrap_or_default();
            let detail = paragraphs([text(params, "reason"), change, &describe_permissions(params)]);
            Some(("edit".into(), detail, approvals(&Value::Null)))
        }
        "item/permissions/requestApproval" => Some(permissions(params)),
        "mcpServer/elicitation/request" => Some(elicitation(params)),
        "execCommandApproval" => {
            let words = params.get("command").and_then(Value::as_array).into_iter().flatten();
            let command = words.filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
            let detail = paragraphs([text(params, "reason"), &command]);
            Some(("shell".into(), detail, reviews()))
        }
        "applyPatchApproval" => {
            let files = params.get("fileChanges").map(Value::to_string).unwrap_or_default();
            let detail = paragraphs([text(params, "reason"), &files, &describe_permissions(params)]);
            Some(("edit".into(), detail, reviews()))
        }
        _ => None,
    }
}

fn paragraphs<const N: usize>(parts: [&str; N]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn describe_permissions(params: &Value) -> String {
    match text(params, "grantRoot") {
        "" => String::new(),
        root => format!("and everything else below {root}, for this session"),
    }
}

fn command(params: &Value) -> (String, String, Vec<CodexChoice>) {
    let host = params.get("networkApprovalContext").map_or("", |context| text(context, "host"));
    let network = if host.is_empty() { String::new() } else { format!("network access to {host}") };
    let place = match text(params, "cwd") {
        "" => String::new(),
        cwd => format!("in {cwd}"),
    };
    let tool = match text(params, "kind") {
        "writeStdin" => "input to a running command",
        _ if !host.is_empty() => "network",
        _ => "shell",
    };
    let detail = paragraphs([text(params, "reason"), &network, text(params, "command"), &place]);
    let offered = params.get("availableDecisions").unwrap_or(&Value::Null);
    (tool.into(), detail, approvals(offered))
}

/// The answers to an approval: those offered, and always a plain refusal. (Codex leaves `decline` out of its offer, but
/// accepts it.)
fn approvals(offered: &Value) -> Vec<CodexChoice> {
    let usual = ["accept", "acceptForSession", "decline", "cancel"].map(Value::from);
    let offered = offered.as_array().map_or(&usual[..], Vec::as_slice);
    let mut choices: Vec<CodexChoice> = Vec::new();
    for decision in offered.iter().chain([&json!("decline")]) {
        if let Some(choice) = choice_of_decision(decision)
            && choices.iter().all(|known| known.id != choice.id)
        {
            choices.push(choice);
        }
    }
    // Readers find the yes first, the strongest no last.
    choices.sort_by_key(|choice| match choice.kind {
        QuestionOptionKind::AllowOnce => 0,
        QuestionOptionKind::AllowAlways => 1,
        QuestionOptionKind::RejectOnce => 2,
        QuestionOptionKind::RejectAlways => 3,
        QuestionOptionKind::Other => 4,
    });
    choices
}

fn choice_of_decision(decision: &Value) -> Option<CodexChoice> {
    let result = json!({ "decision": decision });
    if let Some(word) = decision.as_str() {
        return match word {
            "accept" => Some(choice(word, "yes", QuestionOptionKind::AllowOnce, result)),
            "acceptForSession" => Some(choice(
                word,
                "yes, and do not ask again in this session",
                QuestionOptionKind::AllowAlways,
                result,
            )),
            "decline" => Some(choice(word, "no", QuestionOptionKind::RejectOnce, result)),
            "cancel" => Some(choice(word, "no, and interrupt the turn", QuestionOptionKind::Other, result)),
            _ => None,
        };
    }
    if let Some(rule) = decision.pointer("/acceptWithExecpolicyAmendment/execpolicy_amendment") {
        let words = rule.as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        let name = format!("yes, and never again for commands that begin with `{}`", line(&words));
        return Some(choice("acceptWithExecpolicyAmendment", name, QuestionOptionKind::AllowAlways, result));
    }
    let rule = decision.pointer("/applyNetworkPolicyAmendment/network_policy_amendment")?;
    let host = line(text(rule, "host"));
    match text(rule, "action") {
        "allow" => {
            let name = format!("yes, and always for {host}");
            Some(choice("allowHost", name, QuestionOptionKind::AllowAlways, result))
        }
        "deny" => {
            let name = format!("no, and never for {host}");
            Some(choice("denyHost", name, QuestionOptionKind::RejectAlways, result))
        }
        _ => None,
    }
}

fn permissions(params: &Value) -> (String, String, Vec<CodexChoice>) {
    let wanted = params.get("permissions").cloned().unwrap_or_else(|| json!({}));
    let shown = serde_json::to_string_pretty(&wanted).unwrap_or_default();
    let detail = paragraphs([text(params, "reason"), &shown]);
    let granted = |scope: &str| json!({ "permissions": wanted, "scope": scope });
    let none = json!({ "permissions": {}, "scope": "turn" });
    let choices = vec![
        choice("accept", "yes, for this turn", QuestionOptionKind::AllowOnce, granted("turn")),
        choice(
            "acceptForSession",
            "yes, for this session",
            QuestionOptionKind::AllowAlways,
            granted("session"),
        ),
        choice("decline", "no", QuestionOptionKind::RejectOnce, none),
    ];
    ("permissions".into(), detail, choices)
}

/// An MCP server, or Codex on behalf of one of its tools, asks for something.
fn elicitation(params: &Value) -> (String, String, Vec<CodexChoice>) {
    let meta = params.get("_meta").unwrap_or(&Value::Null);
    let arguments = match meta.get("tool_params") {
        Some(arguments) if !arguments.is_null() => arguments.to_string(),
        Some(_) | None => String::new(),
    };
    let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
    let needs_a_form =
        schema.get("required").and_then(Value::as_array).is_some_and(|fields| !fields.is_empty());
    let form = if needs_a_form {
        format!("The server asks for a form, which berth cannot fill in: {schema}")
    } else {
        String::new()
    };
    let detail = paragraphs([text(params, "message"), text(params, "url"), &arguments, &form]);
    let mut choices = Vec::new();
    if !needs_a_form {
        let yes = json!({ "action": "accept", "content": {} });
        choices.push(choice("accept", "yes", QuestionOptionKind::AllowOnce, yes));
        // The request says how long an answer may last: in one word or several.
        let offers = |word: &str| match meta.get("persist") {
            Some(Value::String(only)) => only == word,
            Some(Value::Array(words)) => words.iter().any(|offered| offered == word),
            Some(_) | None => false,
        };
        for (id, word, name) in [
            ("acceptForSession", "session", "yes, and do not ask again in this session"),
            ("acceptAlways", "always", "yes, and never ask again"),
        ] {
            if offers(word) {
                let yes = json!({ "action": "accept", "content": {}, "_meta": { "persist": word } });
                choices.push(choice(id, name, QuestionOptionKind::AllowAlways, yes));
            }
        }
    }
    choices.push(choice("decline", "no", QuestionOptionKind::RejectOnce, json!({ "action": "decline" })));
    choices.push(choice("cancel", "no answer", QuestionOptionKind::Other, json!({ "action": "cancel" })));
    (line(&format!("mcp {}", text(params, "serverName"))), detail, choices)
}

impl QuestionSeries {
    /// Takes the answer to the current question. Returns the next one.
    fn take(&mut self, reply: &ChosenReply) -> Option<Value> {
        let question = self.all.get(self.given.len())?;
        let labels = reply.ids().filter_map(|id| {
            let at = id.parse::<usize>().ok()?.checked_sub(1)?;
            Some(text(options_of(question).nth(at)?, "label").to_owned())
        });
        // Codex's own interface marks text of the user in the same way.
        let written = reply.text.iter().map(|text| format!("user_note: {text}"));
        let answers: Vec<String> = labels.chain(written).collect();
        // All questions are answered, even if two have the same id.
        let count = self.given.len();
        let key = match text(question, "id") {
            id if !self.given.contains_key(id) => id.to_owned(),
            id => format!("{id}/{}", count + 1),
        };
        self.given.insert(key, json!({ "answers": answers }));
        self.all.get(self.given.len()).cloned()
    }
}

fn options_of(question: &Value) -> impl Iterator<Item = &Value> {
    question.get("options").and_then(Value::as_array).into_iter().flatten()
}

/// A question of the model: with options, for a text, or both.
fn question_ask(request: String, question: &Value) -> AgentQuestion {
    let mut detail = text(question, "question").to_owned();
    let mut options = Vec::new();
    for (at, option) in options_of(question).enumerate() {
        let label = text(option, "label");
        detail.push_str(&format!("\n{}. {label}: {}", at + 1, text(option, "description")));
        options.push(QuestionOption {
            id: (at + 1).to_string(),
            name: line(label),
            kind: QuestionOptionKind::Other,
        });
    }
    let is_other = question.get("isOther").and_then(Value::as_bool) == Some(true);
    let takes_text = is_other || options.is_empty();
    options.push(QuestionOption {
        id: "decline".into(),
        name: "no answer".into(),
        kind: QuestionOptionKind::RejectOnce,
    });
    // A reason is sent like an answer: the model reads both.
    let takes_reason = takes_text;
    let tool = "question".to_owned();
    AgentQuestion { request, tool, detail, options, several: false, takes_text, takes_reason }
}

/// The answers of the older protocol, which the current program still has.
fn reviews() -> Vec<CodexChoice> {
    let told = |decision: Value| json!({ "decision": decision });
    vec![
        choice("accept", "yes", QuestionOptionKind::AllowOnce, told(json!("approved"))),
        choice(
            "acceptForSession",
            "yes, and do not ask again in this session",
            QuestionOptionKind::AllowAlways,
            told(json!("approved_for_session")),
        ),
        choice(
            "decline",
            "no",
            QuestionOptionKind::RejectOnce,
            told(json!({ "denied": { "rejection": "rejected by the user" } })),
        ),
        choice("cancel", "no, and interrupt the turn", QuestionOptionKind::Other, told(json!("abort"))),
    ]
}
