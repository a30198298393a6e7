//! The description of the API, made from the table of routes.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::fault::ProblemBody;
use crate::routes::{self, Route};

/// OpenAPI 3.1.
pub fn description() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut schemas = settings.into_generator();
    let problem = schemas.subschema_for::<ProblemBody>();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes::all() {
        let operation = operation(&route, &mut schemas, problem.as_value());
        let path = paths.entry(route.path.replace("{*", "{")).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "berth",
            "description": "AI agent sessions: one writer each, nothing that was said is lost.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    })
}

fn operation(route: &Route, schemas: &mut schemars::SchemaGenerator, problem: &Value) -> Value {
    let mut parameters = Vec::new();
    for name in route.path.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name)) {
        // `{*rest}` is what axum calls all that is left.
        let name = name.trim_start_matches('*');
        parameters.push(json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    }
    let mut responses = Map::new();
    for gives in &route.gives {
        let mut answer = json!({"description": gives.about});
        if let Some(schema) = gives.schema {
            answer["content"] = json!({gives.media_type: {"schema": schema(schemas)}});
        }
        responses.insert(gives.status.to_string(), answer);
    }
    responses.insert(
        "default".to_owned(),
        json!({"description": "a problem", "content": {"application/problem+json": {"schema": problem}}}),
    );
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.about,
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(takes) = route.takes {
        operation["requestBody"] = json!({"content": {"application/json": {"schema": takes(schemas)}}});
    }
    if route.scope.is_none() {
        operation["security"] = json!([]);
    }
    operation
}
