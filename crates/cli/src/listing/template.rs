//! Templates for `--format '{{.id}} {{.name}}'`: fields of a session in a text that the user gives.
//!
//! Promise: a field that no session can have is an error before anything is printed; a field
//! that this session lacks is empty.
//! Not here: conditions and loops. `--json` and `jq` have them.
//! Start with [`RowTemplate::parse`].

use berth_api::helper::HelperStatus;
use berth_api::record::Actor;
use berth_api::status::{SpecView, Timestamp, TurnsStatus, WriterStatus};
use berth_api::{Problem, SessionStatus};
use serde_json::Value;

/// How many fields an error names: all of them would be hard to read.
const NAMED: usize = 8;

/// A text with fields in it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RowTemplate(Vec<TemplatePart>);

#[derive(Clone, PartialEq, Debug)]
enum TemplatePart {
    Text(String),
    Field(Vec<String>),
}

impl RowTemplate {
    /// Parses a template. `\t`, `\n` and `\\` are a tab, a line break and a backslash.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (field, after) =
                after.split_once("}}").ok_or_else(|| odd(format!("`{{{{{after}` in --format has no end")))?;
            parts.push(TemplatePart::Text(unescaped(before)));
            parts.push(TemplatePart::Field(path(field.trim())?));
            rest = after;
        }
        parts.push(TemplatePart::Text(unescaped(rest)));
        if !parts.iter().any(|part| matches!(part, TemplatePart::Field(_))) {
            return Err(odd(format!("--format '{text}' names no field")));
        }
        Ok(Self(parts))
    }

    /// The text for a session.
    pub(crate) fn fill(&self, status: &SessionStatus) -> Result<String, Problem> {
        let object = serde_json::to_value(status)
            .map_err(|error| Problem::bug(format!("cannot print as JSON: {error}")))?;
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Field(path) => {
                match path.iter().try_fold(&object, |value, field| below(value, field)) {
                    None | Some(Value::Null) => String::new(),
                    Some(Value::String(text)) => text.clone(),
                    Some(
                        value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)),
                    ) => value.to_string(),
                }
            }
        };
        Ok(self.0.iter().map(part).collect())
    }
}

fn odd(what: String) -> Problem {
    Problem::usage(what)
        .hint("write fields as --format '{{.id}} {{.name}}', with \\t and \\n between them if you like")
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, false) => out.push(c),
            (_, true) => match chars.next() {
                Some('t') => out.push('\t'),
                Some('n') => out.push('\n'),
                Some('\\') | None => out.push('\\'),
                Some(other) => out.extend(['\\', other]),
            },
        }
    }
    out
}

fn below<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(field),
        Value::Array(items) => field.parse::<usize>().ok().and_then(|at| items.get(at)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The field names on the way to a value. Refuses a field that no session can have.
fn path(text: &str) -> Result<Vec<String>, Problem> {
    let fields = text.strip_prefix('.').filter(|fields| !fields.is_empty());
    let fields = fields.ok_or_else(|| odd(format!("`{{{{{text}}}}}` in --format is not a field")))?;
    let fields: Vec<String> = fields.split('.').map(str::to_owned).collect();
    let whole = fullest();
    let mut value = &whole;
    let mut above = String::new();
    for field in &fields {
        match value {
            Value::Object(known) => match known.get(field) {
                Some(found) => value = found,
                None => return Err(unknown(field, &above, known.keys())),
            },
            // The length of a list differs between sessions.
            Value::Array(_) if field.parse::<usize>().is_ok() => break,
            Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                let what = format!("`.{above}` in --format has no field `{field}`: it is not an object");
                return Err(Problem::usage(what).hint(format!("write {{{{.{above}}}}}")));
            }
        }
        above = if above.is_empty() { field.clone() } else { format!("{above}.{field}") };
    }
    Ok(fields)
}

fn unknown<'a>(field: &str, above: &str, known: impl Iterator<Item = &'a String>) -> Problem {
    let mut known: Vec<&str> = known.map(String::as_str).collect();
    let far = |name: &str| strsim::damerau_levenshtein(name, field);
    let is_near = |name: &str| far(name) <= 2 || (field.len() > 2 && name.starts_with(field));
    known.sort_by_key(|name| (!is_near(name), far(name), *name));
    let place = if above.is_empty() { String::new() } else { format!("{above}.") };
    let what = format!("no session has a field `.{place}{field}`");
    let near = known.first().filter(|name| is_near(name));
    let meant = near.map(|name| format!("did you mean {{{{.{place}{name}}}}}? ")).unwrap_or_default();
    let fields = if known.len() > NAMED {
        format!("there are {} and more: `berth show S --json` has them all", known[..NAMED].join(", "))
    } else {
        format!("the fields are: {}", known.join(", "))
    };
    Problem::usage(what).hint(meant + &fields)
}

/// A session that has every field, as JSON.
fn fullest() -> Value {
    let some = || Some(String::new());
    let what = SpecView {
        key: some(),
        agent: some(),
        conversation: "claude".to_owned(),
        parent: some(),
        policy: berth_api::turn::SessionPolicy { idle_ms: Some(0), ttl_ms: Some(0), ..Default::default() },
        ..SpecView::default()
    };
    let status = SessionStatus {
        name: some(),
        note: some(),
        archived_at: Some(Timestamp::default()),
        what,
        stopped_by: Some(Actor { uid: Some(0), ..Actor::default() }),
        writer: Some(WriterStatus {
            holder: Actor { uid: Some(0), ..Actor::default() },
            ..WriterStatus::default()
        }),
        helper: Some(HelperStatus::default()),
        turns: Some(TurnsStatus::default()),
        ..SessionStatus::default()
    };
    serde_json::to_value(status).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use berth_api::ProblemCode;

    use super::*;

    fn status() -> SessionStatus {
        let turns = TurnsStatus { queued: vec!["x.2".to_owned()], total: 2, ..TurnsStatus::default() };
        let what = SpecView { command: vec!["sh".to_owned(), "-c".to_owned()], ..SpecView::default() };
        SessionStatus { id: "x".to_owned(), turns: Some(turns), what, ..SessionStatus::default() }
    }

    fn filled(text: &str) -> String {
        RowTemplate::parse(text).and_then(|template| template.fill(&status())).expect("a good template")
    }

    #[test]
    fn fields_are_filled_in_however_deep_they_are() {
        assert_eq!(filled("{{.id}}"), "x");
        assert_eq!(filled(r"{{ .id }}\t{{.name}}\t{{.turns.total}}\n"), "x\t\t2\n");
        assert_eq!(
            filled(r"{{.turns.queued}} {{.turns.queued.0}} {{.command.1}} {{.command.9}}"),
            r#"["x.2"] x.2 -c "#
        );
        assert_eq!(filled(r"\{{.oom}}\\x\d"), r"\false\x\d");
    }

    #[test]
    fn a_field_that_no_session_can_have_is_refused_with_the_ones_there_are() {
        let hint = |text: &str| {
            let problem = RowTemplate::parse(text).expect_err("a bad template");
            assert_eq!(problem.code, ProblemCode::Usage);
            format!("{}; {}", problem.what, problem.hint.unwrap_or_default())
        };
        assert!(
            hint("{{.nmae}}").contains("did you mean {{.name}}? there are name, "),
            "{}",
            hint("{{.nmae}}")
        );
        assert!(
            hint("{{.turns.que}}").contains("did you mean {{.turns.queued}}?"),
            "{}",
            hint("{{.turns.que}}")
        );
        assert!(hint("{{.id.x}}").contains("it is not an object"), "{}", hint("{{.id.x}}"));
        for bad in ["{{id}}", "{{.}}", "{{", "plain", "{{.id", "{{.writer.pid.x}}", "{{.command.x}}", ""] {
            hint(bad);
        }
    }

    #[test]
    fn every_field_of_a_session_with_everything_can_be_named() {
        for field in [
            "helper.name",
            "writer.since",
            "stopped_by.uid",
            "policy.idle_ms",
            "archived_at",
            "parent",
            "conversation_kind",
            "conversation_id",
        ] {
            RowTemplate::parse(&format!("{{{{.{field}}}}}"))
                .unwrap_or_else(|problem| panic!("{field}: {problem}"));
        }
    }
}
