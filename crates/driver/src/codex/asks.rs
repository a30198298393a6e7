//! Questions: what Codex wants somebody's word on, and what it is told then.
//!
//! Promise: whatever is asked can be refused; what is answered is one of the answers that Codex offered or
//! that its protocol has for the question; a question ends once.
//! Not here: who is asked (the keeper knows), when questions end (see the parent).
//! Start with [`Asks::ask`].

use berth_core::{Ask, AskKind, AskOption, MOST_ASKS, Reply};
use serde_json::{Value, json};

use super::items::{Changes, MAX_DETAIL_BYTES, line, text, within};

/// Where the protocol before the present one has the reason of a refusal. The present one has no field for it.
const REJECTION: &str = "/decision/denied/rejection";

/// The questions that wait.
#[derive(Debug, Default)]
pub(super) struct Asks(Vec<Pending>);

#[derive(Debug)]
struct Pending {
    /// What Codex calls it.
    id: Value,
    /// What people call it.
    request: String,
    /// What Codex is told for each option.
    answers: Vec<(String, Value)>,
    refusal: Value,
    /// The turn in which it is asked, if a text can be added to that.
    turn: Option<String>,
    /// The questions in it, if it is the model that asks.
    questions: Option<Questions>,
}

/// Questions of the model, asked one after the other.
#[derive(Debug)]
struct Questions {
    all: Vec<Value>,
    /// The answers so far, by the ids of their questions.
    given: serde_json::Map<String, Value>,
}

/// What an answer leads to.
#[derive(Debug)]
pub(super) enum Then {
    /// Codex is told this. A reason that the protocol has no field for goes into the turn, before that.
    Respond { id: Value, result: Value, reason: Option<TurnText> },
    /// There is one more question in it.
    AskNext(Ask),
    /// There is no such question or option.
    Nothing,
}

/// A text for a turn of Codex.
#[derive(Debug)]
pub(super) struct TurnText {
    pub(super) turn: String,
    pub(super) text: String,
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Asked {
    /// It waits for somebody.
    Waits(Ask),
    /// There are too many already: this is the answer.
    TooMany(Value),
    /// It is no question we know.
    Unknown,
}

/// What can be said to a question.
struct Choice {
    id: String,
    name: String,
    kind: AskKind,
    /// What Codex is told.
    result: Value,
}

fn choice(id: &str, name: impl Into<String>, kind: AskKind, result: Value) -> Choice {
    Choice { id: id.to_owned(), name: name.into(), kind, result }
}

impl Asks {
    /// Takes a request of Codex. `of_ours` tells whether it comes from the session's own conversation rather
    /// than from another agent that works for it.
    pub(super) fn ask(
        &mut self,
        id: &Value,
        method: &str,
        params: &Value,
        changes: &Changes,
        of_ours: bool,
    ) -> Asked {
        if method == "item/tool/requestUserInput" {
            return self.ask_questions(id, params);
        }
        let Some((tool, detail, mut choices)) = question(method, params, changes) else {
            return Asked::Unknown;
        };
        choices.retain(|choice| choice.result.to_string().len() <= MAX_DETAIL_BYTES);
        // The question that came again under its name replaces the first.
        self.0.retain(|pending| pending.id != *id);
        let refusal = choices.iter().find(|choice| choice.kind == AskKind::RejectOnce);
        let refusal = refusal.map(|choice| choice.result.clone()).unwrap_or_default();
        if self.0.len() >= MOST_ASKS {
            return Asked::TooMany(refusal);
        }
        let tool = if of_ours { tool } else { format!("{tool} (sub-agent)") };
        let turn = Some(text(params, "turnId").to_owned()).filter(|turn| of_ours && !turn.is_empty());
        let has_field = refusal.pointer(REJECTION).is_some();
        let ask = Ask {
            request: name(id),
            takes_reason: has_field || turn.is_some(),
            tool,
            detail: within(detail.trim(), MAX_DETAIL_BYTES),
            options: choices
                .iter()
                .map(|Choice { id, name, kind, .. }| AskOption {
                    id: id.clone(),
                    name: name.clone(),
                    kind: *kind,
                })
                .collect(),
            ..Ask::default()
        };
        let answers = choices.into_iter().map(|choice| (choice.id, choice.result)).collect();
        let request = name(id);
        self.0.push(Pending { id: id.clone(), request, answers, refusal, turn, questions: None });
        Asked::Waits(ask)
    }

    /// The model asks people something.
    fn ask_questions(&mut self, id: &Value, params: &Value) -> Asked {
        let all = params.get("questions").and_then(Value::as_array).cloned().unwrap_or_default();
        // A secret would be in the journal, and for good.
        let is_secret = |question: &Value| question.get("isSecret").and_then(Value::as_bool) == Some(true);
        if all.is_empty() || all.iter().any(is_secret) || params.to_string().len() > MAX_DETAIL_BYTES {
            return Asked::Unknown;
        }
        self.0.retain(|pending| pending.id != *id);
        let refusal = json!({ "answers": {} });
        if self.0.len() >= MOST_ASKS {
            return Asked::TooMany(refusal);
        }
        let ask = question_ask(name(id), &all[0]);
        let questions = Some(Questions { all, given: serde_json::Map::new() });
        let (id, request, answers) = (id.clone(), name(id), Vec::new());
        self.0.push(Pending { id, request, answers, refusal, turn: None, questions });
        Asked::Waits(ask)
    }

    /// Takes the answer to a question that waits.
    pub(super) fn answer(&mut self, request: &str, reply: &Reply) -> Then {
        let Some(at) = self.0.iter().position(|pending| pending.request == request) else {
            return Then::Nothing;
        };
        let pending = &mut self.0[at];
        if let Some(questions) = &mut pending.questions {
            if let Some(next) = questions.take(reply) {
                pending.request = format!("{}/{}", name(&pending.id), questions.given.len() + 1);
                return Then::AskNext(question_ask(pending.request.clone(), &next));
            }
            let result = json!({ "answers": std::mem::take(&mut questions.given) });
            return Then::Respond { id: self.0.swap_remove(at).id, result, reason: None };
        }
        let known = pending.answers.iter().find(|(id, _)| reply.is_only(id));
        let Some(mut result) = known.map(|(_, result)| result.clone()) else { return Then::Nothing };
        let Pending { id, turn, .. } = self.0.swap_remove(at);
        let reason = match (&reply.text, result.pointer_mut(REJECTION)) {
            (Some(text), Some(field)) => {
                *field = Value::from(text.as_str());
                None
            }
            (Some(text), None) => turn.map(|turn| TurnText { turn, text: text.clone() }),
            (None, _) => None,
        };
        Then::Respond { id, result, reason }
    }

    /// Codex says that a question no longer waits. Gives its name if it did.
    pub(super) fn resolved(&mut self, id: &Value) -> Option<String> {
        let at = self.0.iter().position(|pending| pending.id == *id)?;
        Some(self.0.remove(at).request)
    }

    /// Ends all questions: their names, ids, and what Codex is told.
    pub(super) fn end(&mut self) -> Vec<(String, Value, Value)> {
        self.0.drain(..).map(|pending| (pending.request, pending.id, pending.refusal)).collect()
    }
}

/// What people call a question. Codex counts them; another number of a text is another question.
fn name(id: &Value) -> String {
    id.to_string()
}

/// The tool, the detail and the answers.
fn question(method: &str, params: &Value, changes: &Changes) -> Option<(String, String, Vec<Choice>)> {
    match method {
        "item/commandExecution/requestApproval" => Some(command(params)),
        "item/fileChange/requestApproval" => {
            let change = changes.of(text(params, "itemId")).unwrap_or_default();
            let detail = paragraphs([text(params, "reason"), change, &grant(params)]);
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
            let detail = paragraphs([text(params, "reason"), &files, &grant(params)]);
            Some(("edit".into(), detail, reviews()))
        }
        _ => None,
    }
}

fn paragraphs<const N: usize>(parts: [&str; N]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn grant(params: &Value) -> String {
    match text(params, "grantRoot") {
        "" => String::new(),
        root => format!("and everything else below {root}, for this session"),
    }
}

fn command(params: &Value) -> (String, String, Vec<Choice>) {
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

/// The answers to an approval: those offered, and always a plain no. (Codex leaves `decline` out of what it
/// offers and takes it.)
fn approvals(offered: &Value) -> Vec<Choice> {
    let usual = ["accept", "acceptForSession", "decline", "cancel"].map(Value::from);
    let offered = offered.as_array().map_or(&usual[..], Vec::as_slice);
    let mut choices: Vec<Choice> = Vec::new();
    for decision in offered.iter().chain([&json!("decline")]) {
        if let Some(choice) = decided(decision)
            && choices.iter().all(|known| known.id != choice.id)
        {
            choices.push(choice);
        }
    }
    // Whoever reads finds the yes first, the strongest no last.
    choices.sort_by_key(|choice| match choice.kind {
        AskKind::AllowOnce => 0,
        AskKind::AllowAlways => 1,
        AskKind::RejectOnce => 2,
        AskKind::RejectAlways => 3,
        AskKind::Other => 4,
    });
    choices
}

fn decided(decision: &Value) -> Option<Choice> {
    let result = json!({ "decision": decision });
    if let Some(word) = decision.as_str() {
        return match word {
            "accept" => Some(choice(word, "yes", AskKind::AllowOnce, result)),
            "acceptForSession" => {
                Some(choice(word, "yes, and do not ask again in this session", AskKind::AllowAlways, result))
            }
            "decline" => Some(choice(word, "no", AskKind::RejectOnce, result)),
            "cancel" => Some(choice(word, "no, and interrupt the turn", AskKind::Other, result)),
            _ => None,
        };
    }
    if let Some(rule) = decision.pointer("/acceptWithExecpolicyAmendment/execpolicy_amendment") {
        let words = rule.as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        let name = format!("yes, and never again for commands that begin with `{}`", line(&words));
        return Some(choice("acceptWithExecpolicyAmendment", name, AskKind::AllowAlways, result));
    }
    let rule = decision.pointer("/applyNetworkPolicyAmendment/network_policy_amendment")?;
    let host = line(text(rule, "host"));
    match text(rule, "action") {
        "allow" => {
            let name = format!("yes, and always for {host}");
            Some(choice("allowHost", name, AskKind::AllowAlways, result))
        }
        "deny" => {
            let name = format!("no, and never for {host}");
            Some(choice("denyHost", name, AskKind::RejectAlways, result))
        }
        _ => None,
    }
}

fn permissions(params: &Value) -> (String, String, Vec<Choice>) {
    let wanted = params.get("permissions").cloned().unwrap_or_else(|| json!({}));
    let shown = serde_json::to_string_pretty(&wanted).unwrap_or_default();
    let detail = paragraphs([text(params, "reason"), &shown]);
    let granted = |scope: &str| json!({ "permissions": wanted, "scope": scope });
    let none = json!({ "permissions": {}, "scope": "turn" });
    let choices = vec![
        choice("accept", "yes, for this turn", AskKind::AllowOnce, granted("turn")),
        choice("acceptForSession", "yes, for this session", AskKind::AllowAlways, granted("session")),
        choice("decline", "no", AskKind::RejectOnce, none),
    ];
    ("permissions".into(), detail, choices)
}

/// An MCP server, or Codex on behalf of a tool of it, wants to know something.
fn elicitation(params: &Value) -> (String, String, Vec<Choice>) {
    let meta = params.get("_meta").unwrap_or(&Value::Null);
    let arguments = match meta.get("tool_params") {
        Some(arguments) if !arguments.is_null() => arguments.to_string(),
        Some(_) | None => String::new(),
    };
    let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
    let needs_a_form =
        schema.get("required").and_then(Value::as_array).is_some_and(|fields| !fields.is_empty());
    let form = if needs_a_form {
        format!("It wants a form filled in, which berth cannot do: {schema}")
    } else {
        String::new()
    };
    let detail = paragraphs([text(params, "message"), text(params, "url"), &arguments, &form]);
    let mut choices = Vec::new();
    if !needs_a_form {
        let yes = json!({ "action": "accept", "content": {} });
        choices.push(choice("accept", "yes", AskKind::AllowOnce, yes));
        // It says how long an answer may count: a word, or several.
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
                choices.push(choice(id, name, AskKind::AllowAlways, yes));
            }
        }
    }
    choices.push(choice("decline", "no", AskKind::RejectOnce, json!({ "action": "decline" })));
    choices.push(choice("cancel", "no answer", AskKind::Other, json!({ "action": "cancel" })));
    (line(&format!("mcp {}", text(params, "serverName"))), detail, choices)
}

impl Questions {
    /// Takes the answer to the question that is asked at the moment. Gives the next one.
    fn take(&mut self, reply: &Reply) -> Option<Value> {
        let question = self.all.get(self.given.len())?;
        let labels = reply.ids().filter_map(|id| {
            let at = id.parse::<usize>().ok()?.checked_sub(1)?;
            Some(text(options_of(question).nth(at)?, "label").to_owned())
        });
        // So does its own interface mark what a person wrote.
        let written = reply.text.iter().map(|text| format!("user_note: {text}"));
        let answers: Vec<String> = labels.chain(written).collect();
        // Every question counts, though two may have the same id.
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

/// A question of the model: with answers to choose from, for a text, or both.
fn question_ask(request: String, question: &Value) -> Ask {
    let mut detail = text(question, "question").to_owned();
    let mut options = Vec::new();
    for (at, option) in options_of(question).enumerate() {
        let label = text(option, "label");
        detail.push_str(&format!("\n{}. {label}: {}", at + 1, text(option, "description")));
        options.push(AskOption { id: (at + 1).to_string(), name: line(label), kind: AskKind::Other });
    }
    let is_other = question.get("isOther").and_then(Value::as_bool) == Some(true);
    let takes_text = is_other || options.is_empty();
    options.push(AskOption { id: "decline".into(), name: "no answer".into(), kind: AskKind::RejectOnce });
    // A reason is given as an answer is: the model reads both.
    let takes_reason = takes_text;
    let tool = "question".to_owned();
    Ask { request, tool, detail, options, several: false, takes_text, takes_reason }
}

/// The answers of the protocol before the present one, which the present program still has.
fn reviews() -> Vec<Choice> {
    let told = |decision: Value| json!({ "decision": decision });
    vec![
        choice("accept", "yes", AskKind::AllowOnce, told(json!("approved"))),
        choice(
            "acceptForSession",
            "yes, and do not ask again in this session",
            AskKind::AllowAlways,
            told(json!("approved_for_session")),
        ),
        choice(
            "decline",
            "no",
            AskKind::RejectOnce,
            told(json!({ "denied": { "rejection": "rejected by the user" } })),
        ),
        choice("cancel", "no, and interrupt the turn", AskKind::Other, told(json!("abort"))),
    ]
}
