//! The API description as a judge: does an answer look as described?
//!
//! Every problem that a test hears from a gateway is checked against it, even if the test is about
//! something else: see [`judge`].

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::{GatewayProcess, HttpResponse};

/// The description a gateway gives.
#[derive(Debug)]
pub struct OpenApiDescription {
    whole: Value,
    /// Answers that were checked and matched: the operation's name and the status.
    pub seen: BTreeSet<(String, u16)>,
}

impl OpenApiDescription {
    /// Reads the description that the gateway serves.
    pub fn of(gateway: &GatewayProcess) -> Self {
        Self { whole: gateway.get("/openapi.json").ok(), seen: BTreeSet::new() }
    }

    /// The description itself.
    pub fn whole(&self) -> &Value {
        &self.whole
    }

    /// All operations: method, path and the operation itself.
    pub fn operations(&self) -> Vec<(String, String, Value)> {
        let paths = self.whole["paths"].as_object().expect("paths");
        let of_path = paths.iter().flat_map(|(path, operations)| {
            let operations = operations.as_object().expect("operations").iter();
            operations.map(|(method, operation)| (method.to_uppercase(), path.clone(), operation.clone()))
        });
        of_path.collect()
    }

    /// The operation of this name.
    pub fn operation(&self, name: &str) -> Value {
        let found = self.operations().into_iter().find(|(_, _, operation)| operation["operationId"] == name);
        found.unwrap_or_else(|| panic!("no operation is called {name}")).2
    }

    /// The operation behind a method and a path, if there is one.
    fn asked(&self, method: &str, path: &str) -> Option<String> {
        let path = path.split('?').next().unwrap_or_default();
        let fits = |template: &str| {
            let (mut known, mut given) = (template.split('/'), path.split('/'));
            loop {
                match (known.next(), given.next()) {
                    (None, None) => return true,
                    // All the rest is of another host.
                    (Some("{path}"), Some(_)) => return true,
                    (Some(known), Some(given)) if known == given => {}
                    (Some(known), Some(given)) if known.starts_with('{') && !given.is_empty() => {}
                    _ => return false,
                }
            }
        };
        let all = self.operations().into_iter();
        let fitting = all.filter(|(known, template, _)| known == method && fits(template));
        // A path with fewer placeholders wins: a fixed word is not a value of a placeholder.
        let found = fitting.min_by_key(|(_, template, _)| template.matches('{').count())?;
        found.2["operationId"].as_str().map(str::to_owned)
    }

    /// Checks an answer: its status, its media type and its body are those of the description.
    pub fn holds(&mut self, name: &str, reply: &HttpResponse) {
        self.check(name, reply);
        self.seen.insert((name.to_owned(), reply.status));
    }

    fn check(&self, name: &str, reply: &HttpResponse) {
        let operation = self.operation(name);
        let shown = || format!("{name}: {} {}", reply.status, reply.text());
        let answers = &operation["responses"];
        let answer = Some(&answers[reply.status.to_string()]).filter(|it| !it.is_null());
        let answer = answer.or(Some(&answers["default"]).filter(|it| !it.is_null()));
        let answer = answer.unwrap_or_else(|| panic!("the status is not described: {}", shown()));
        if let Some(content) = answer["content"].as_object() {
            let kind = reply.header("content-type").unwrap_or_else(|| panic!("no media type: {}", shown()));
            let kind = kind.split(';').next().unwrap_or_default().trim();
            let described =
                content.get(kind).unwrap_or_else(|| panic!("{kind} is not described: {}", shown()));
            if kind.ends_with("json") && kind != "application/x-ndjson" {
                self.fits(&described["schema"], &reply.json(), &shown());
            }
            if kind == "application/problem+json" {
                assert_eq!(reply.json()["status"], reply.status, "{}", shown());
            }
        } else if !answers["default"].is_object() {
            assert!(reply.body.is_empty(), "a body is not described: {}", shown());
        }
    }

    /// Checks a value against a schema; `about` names the value in the failure.
    pub fn fits(&self, schema: &Value, value: &Value, about: &str) {
        let mut schema = schema.clone();
        // References are from the root on.
        schema["components"] = json!({"schemas": self.whole["components"]["schemas"]});
        let validator =
            jsonschema::draft202012::new(&schema).unwrap_or_else(|error| panic!("{about}: {error}"));
        let errors: Vec<String> =
            validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{about}\ndoes not have the shape it should: {errors:#?}");
    }
}

/// Checks a problem against the description that this berth prints. An answer that is not a problem, or is of no
/// described route, passes.
pub(crate) fn judge(berth: &Path, method: &str, path: &str, reply: &HttpResponse) {
    static PRINTED: OnceLock<OpenApiDescription> = OnceLock::new();
    if reply.header("content-type") != Some("application/problem+json") {
        return;
    }
    let description = PRINTED.get_or_init(|| {
        let printed = Command::new(berth).arg("openapi").output().expect("berth can be started");
        OpenApiDescription {
            whole: serde_json::from_slice(&printed.stdout).expect("a description"),
            seen: BTreeSet::new(),
        }
    });
    if let Some(name) = description.asked(method, path) {
        description.check(&name, reply);
    }
}
