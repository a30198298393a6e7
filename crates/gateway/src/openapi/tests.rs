use std::collections::BTreeSet;

use serde_json::Value;

use super::{NOUNS, openapi_document, template};
use crate::routes;

fn walk(value: &Value, found: &mut impl FnMut(&Value)) {
    found(value);
    match value {
        Value::Object(object) => object.values().for_each(|value| walk(value, found)),
        Value::Array(values) => values.iter().for_each(|value| walk(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_route_of_the_table_is_described_and_none_else() {
    let table: BTreeSet<(String, String)> = routes::all_routes()
        .iter()
        .map(|route| (route.method.as_str().to_lowercase(), template(route.path)))
        .collect();
    let whole = openapi_document();
    let paths = whole["paths"].as_object().expect("paths");
    let described = paths.iter().flat_map(|(path, operations)| {
        operations.as_object().expect("operations").keys().map(move |method| (method.clone(), path.clone()))
    });
    assert_eq!(described.collect::<BTreeSet<_>>(), table);
}

#[test]
fn every_operation_has_its_own_name_a_described_noun_and_all_parameters_of_its_path() {
    let whole = openapi_document();
    let mut names = BTreeSet::new();
    let nouns: BTreeSet<&str> = NOUNS.iter().map(|(noun, _)| *noun).collect();
    let mut used = BTreeSet::new();
    for (path, operations) in whole["paths"].as_object().expect("paths") {
        // A template may have one `{name}` alone between two slashes.
        let named: Vec<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        assert!(named.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric())), "{path}");
        for (method, operation) in operations.as_object().expect("operations") {
            let name = operation["operationId"].as_str().expect("a name");
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            let noun = operation["tags"][0].as_str().expect("a noun").to_owned();
            assert!(nouns.contains(noun.as_str()), "{noun}");
            used.insert(noun);
            let parameters = operation["parameters"].as_array().expect("parameters");
            let in_path: Vec<&str> = parameters
                .iter()
                .filter(|parameter| parameter["in"] == "path")
                .filter_map(|parameter| parameter["name"].as_str())
                .collect();
            assert_eq!(in_path, named, "{method} {path}");
            let is_told = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
            for parameter in parameters {
                assert!(is_told(&parameter["description"]), "{method} {path}: {parameter}");
            }
        }
    }
    assert_eq!(used, nouns.iter().map(ToString::to_string).collect(), "no noun without a route");
}

#[test]
fn every_reference_leads_somewhere_and_every_shape_is_used() {
    let whole = openapi_document();
    let mut referred = BTreeSet::new();
    walk(&whole, &mut |value| {
        if let Some(place) = value.get("$ref").and_then(Value::as_str) {
            let pointer = place.strip_prefix('#').expect("one of our own");
            assert!(whole.pointer(pointer).is_some(), "{place} leads nowhere");
            referred.insert(place.trim_start_matches("#/components/schemas/").to_owned());
        }
    });
    let shapes = whole["components"]["schemas"].as_object().expect("shapes");
    assert_eq!(shapes.keys().cloned().collect::<BTreeSet<_>>(), referred);
}

#[test]
fn every_operation_answers_errors_with_a_problem_and_successes_with_a_schema() {
    let whole = openapi_document();
    for (path, operations) in whole["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            for (status, answer) in operation["responses"].as_object().expect("answers") {
                let problem = &answer["content"]["application/problem+json"]["schema"]["$ref"];
                let is_error = status.starts_with(['4', '5']);
                assert_eq!(problem == "#/components/schemas/Problem", is_error, "{method} {path} {status}");
                let json = &answer["content"]["application/json"];
                assert!(json.is_null() || json["schema"].is_object(), "{method} {path} {status}: {json}");
            }
            let has = |status: &str| !operation["responses"][status].is_null();
            assert_eq!(
                has("401"),
                operation["security"].is_null() || path == "/login" && method == "post",
                "{method} {path}"
            );
            assert_eq!(has("413"), !operation["requestBody"].is_null(), "{method} {path}");
            assert!(has("400") && has("403") && has("500") && has("503"), "{method} {path}");
            assert!(!path.contains("{session}") || has("404"), "{method} {path}");
        }
    }
}

#[test]
fn every_kind_of_event_and_every_field_is_described() {
    let whole = openapi_document();
    let mut missing = BTreeSet::new();
    for (name, shape) in whole["components"]["schemas"].as_object().expect("shapes") {
        walk(shape, &mut |value| {
            let is_told = |value: &Value| value["description"].as_str().is_some_and(|text| !text.is_empty());
            if let Some(kind) = value.pointer("/properties/event/const").and_then(Value::as_str)
                && !is_told(value)
            {
                missing.insert(format!("{name}: event {kind}"));
            }
            // The only field of a value is described with the value: `{"code": 1}`.
            let fields = value.get("properties").and_then(Value::as_object);
            let fields = fields.filter(|fields| fields.len() > 1 || !is_told(value));
            for (field, of) in fields.into_iter().flatten() {
                if !is_told(of) && of.get("const").is_none() {
                    missing.insert(format!("{name}.{field}"));
                }
            }
        });
    }
    assert_eq!(missing, BTreeSet::new());
}
