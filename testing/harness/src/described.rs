//! The description as a judge: does an answer look as it says?

use std::collections::BTreeSet;

use berth_harness::{Gateway, Reply};
use serde_json::{Value, json};

/// The description a gateway gives.
pub(crate) struct Description {
    whole: Value,
    /// What was held against it, and did: the operation's name and the status.
    pub(crate) seen: BTreeSet<(String, u16)>,
}

impl Description {
    /// As the gateway tells it.
    pub(crate) fn of(gateway: &Gateway) -> Self {
        Self { whole: gateway.get("/openapi.json").ok(), seen: BTreeSet::new() }
    }

    /// The description itself.
    pub(crate) fn whole(&self) -> &Value {
        &self.whole
    }

    /// All operations: method, path and the operation itself.
    pub(crate) fn operations(&self) -> Vec<(String, String, Value)> {
        let paths = self.whole["paths"].as_object().expect("paths");
        let of_path = paths.iter().flat_map(|(path, operations)| {
            let operations = operations.as_object().expect("operations").iter();
            operations.map(|(method, operation)| (method.to_uppercase(), path.clone(), operation.clone()))
        });
        of_path.collect()
    }

    /// The operation of this name.
    pub(crate) fn operation(&self, name: &str) -> Value {
        let found = self.operations().into_iter().find(|(_, _, operation)| operation["operationId"] == name);
        found.unwrap_or_else(|| panic!("no operation is called {name}")).2
    }

    /// Checks an answer: its status, its media type and its body are those of the description.
    pub(crate) fn holds(&mut self, name: &str, reply: &Reply) {
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
        self.seen.insert((name.to_owned(), reply.status));
    }

    /// Checks that a value has this shape.
    pub(crate) fn fits(&self, schema: &Value, value: &Value, about: &str) {
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
