//! The description of the API (OpenAPI 3.1), made from the table of routes.
//!
//! Promise: the description has every route of the table and no other; it names every status that a route may answer
//! with, and the schema of the body. Tests compare it with real answers.
//! Not here: requests and answers of a route (see `routes` and the handlers), schemas (derived from the types).
//! Start with [`openapi_document`]. Reasons: docs/design/openapi.md.

mod problems;
mod schemas;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::routes::{self, Route, RouteRequest};
use schemas::SchemaSets;

/// Nouns of the API, in the order of the description, each with a text. See [`noun`] for the paths of each.
const NOUNS: [(&str, &str); 12] = [
    ("sessions", "Sessions: list, read, create, change, end and delete."),
    ("turns", "Turns: prompts to an agent, and their results."),
    ("queue", "Queues: the turns that wait in a session."),
    ("answers", "Answers to the questions of an agent."),
    ("events", "Events of sessions, in pages or as a stream."),
    ("terminal", "Terminals: output, screen, typing, and attaching."),
    ("evidence", "Evidence for the state of sessions: facts, processes, ports, and searches."),
    ("helpers", "Helpers: servers that sessions share."),
    ("hosts", "Other hosts, and requests that are passed on to them."),
    ("tokens", "Tokens, logins and links, and the rights of the caller."),
    ("gateway", "The gateway itself: health, metrics and this description."),
    ("page", "The page for browsers, and its login."),
];

/// The whole description, as a JSON document.
pub fn openapi_document() -> Value {
    let mut schemas = SchemaSets::default();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for route in routes::all_routes() {
        let operation = operation(&route, &mut schemas);
        let path = paths.entry(template(route.path)).or_default();
        path.insert(route.method.as_str().to_lowercase(), operation);
    }
    let tags: Vec<Value> =
        NOUNS.iter().map(|(name, about)| json!({"name": name, "description": about})).collect();
    let mut whole = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "berth",
            "description": "AI agent sessions: each has one writer, and no accepted turn is lost.\n\nEvery response that \
             is not a success is a `Problem` (`application/problem+json`, RFC 9457): branch on its `code`, show \
             people its \
                `title` and `detail`.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "this gateway"}],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token (`berth token new` makes one), or the secret that `POST /login` gave to a \
                        browser. A page sends its login secret over a WebSocket as the sub-protocol `berth.login.SECRET`.",
                },
            },
        },
        "security": [{"token": []}],
    });
    schemas.name(&mut whole);
    whole
}

/// A path as OpenAPI writes it. axum writes `{*rest}` for a parameter that takes the rest of the path.
pub fn template(path: &str) -> String {
    path.replace("{*", "{")
}

/// The noun that a path belongs to.
fn noun(path: &str) -> &'static str {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts.as_slice() {
        ["v1", "sessions", _, "turns" | "wait", ..] => "turns",
        ["v1", "sessions", _, "queue", ..] => "queue",
        ["v1", "sessions", _, "answers", ..] => "answers",
        ["v1", "sessions", _, "events", ..] | ["v1", "events", ..] => "events",
        ["v1", "sessions", _, "output" | "screen" | "input" | "terminal", ..] => "terminal",
        ["v1", "sessions", _, "why" | "processes", ..]
        | ["v1", "why" | "processes" | "ports" | "grep" | "doctor" | "sweep", ..] => "evidence",
        ["v1", "sessions", ..] => "sessions",
        ["v1", "helpers", ..] => "helpers",
        ["v1", "hosts", ..] => "hosts",
        ["v1", "tokens" | "links" | "whoami", ..] => "tokens",
        [""] | ["assets" | "login" | "logout", ..] => "page",
        [..] => "gateway",
    }
}

fn operation(route: &Route, schemas: &mut SchemaSets) -> Value {
    let mut description = route.about.to_owned();
    match route.scope {
        Some(scope) => description.push_str(&format!("\n\nNeeds the scope `{scope}`.")),
        None => description.push_str("\n\nNeeds no token."),
    }
    if route.scope.is_some() && !route.filtered {
        description.push_str(" Not for a token that is for some sessions only.");
    }
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.about.split_inclusive(['.', ':', ';']).next().unwrap_or_default().trim_end_matches(['.', ':', ';']),
        "description": description,
        "tags": [noun(route.path)],
        "parameters": parameters(route),
        "responses": responses(route, schemas),
    });
    match &route.takes {
        None => {}
        Some(RouteRequest { media_type, schema }) => {
            let schema = schemas.taken(*schema);
            // The body may be absent if all of its fields may be.
            let required = schemas.is_required(&schema);
            operation["requestBody"] =
                json!({"required": required, "content": {*media_type: {"schema": schema}}});
        }
    }
    match route.scope {
        Some(scope) => operation["x-scope"] = json!(scope),
        None => operation["security"] = json!([]),
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut parameters = Vec::new();
    for name in route.path.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name)) {
        let (about, schema) = path_parameter(name);
        let name = name.trim_start_matches('*');
        parameters.push(
            json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema}),
        );
    }
    if let Some(query) = route.query {
        parameters.extend(SchemaSets::query(query));
    }
    for (name, about) in &route.headers {
        let schema = match *name {
            "Idempotency-Key" => {
                json!({"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[!-~]+$"})
            }
            "Last-Event-ID" => {
                json!({"type": "string", "pattern": "^[0-9]{1,20}$"})
            }
            _ => json!({"type": "string"}),
        };
        parameters.push(json!({"name": name, "in": "header", "description": about, "schema": schema}));
    }
    parameters
}

/// Description and schema of a path parameter.
fn path_parameter(name: &str) -> (&'static str, Value) {
    match name {
        "agent" => (
            "Kind of the conversation, as `conversation_kind` of an agent has it.",
            json!({"type": "string", "minLength": 1}),
        ),
        "conversation" => {
            ("Id of the conversation, as its agent names it.", json!({"type": "string", "minLength": 1}))
        }
        "session" => ("Name or id of the session.", json!({"type": "string", "minLength": 1})),
        "turn" => (
            "Number of the turn in the session.",
            json!({"type": "integer", "format": "uint64", "minimum": 1, "maximum": u64::MAX}),
        ),
        "port" => ("Number of the port.", json!({"type": "integer", "minimum": 1, "maximum": u16::MAX})),
        "helper" => ("Name or id of the helper.", json!({"type": "string", "minLength": 1})),
        "token" => ("Name or id of the token.", json!({"type": "string", "minLength": 1})),
        "host" => ("Name of the host.", json!({"type": "string", "minLength": 1})),
        name if name.starts_with('*') => {
            ("Rest of the path; it may have slashes.", json!({"type": "string", "minLength": 1}))
        }
        _ => ("", json!({"type": "string", "minLength": 1})),
    }
}

fn responses(route: &Route, schemas: &mut SchemaSets) -> Map<String, Value> {
    let mut responses: Map<String, Value> = Map::new();
    for gives in &route.gives {
        let status = match gives.status {
            routes::ANY_STATUS => "default".to_owned(),
            status => status.to_string(),
        };
        let answer = responses.entry(status).or_insert_with(|| json!({"description": gives.about}));
        // Some statuses have no body by the rules of HTTP, and the body of another host's answer is unknown.
        let has_body = !matches!(gives.status, routes::ANY_STATUS | 101 | 204 | 303 | 304);
        if has_body {
            let schema = gives.schema.map(|schema| json!({"schema": schemas.given(schema)}));
            let bare = gives.media_type.split(';').next().unwrap_or_default();
            answer["content"][bare] = schema.unwrap_or_else(|| json!({}));
        }
        for (name, about) in route.response_headers.iter().filter(|_| (200..300).contains(&gives.status)) {
            answer["headers"][*name] = json!({"description": about, "schema": {"type": "string"}});
        }
    }
    let problem = schemas.problem();
    for (status, about) in problems::of(route) {
        let told = responses.entry(status.to_string()).or_insert_with(|| json!({"description": about}));
        told["content"][problems::MEDIA_TYPE] = json!({"schema": problem});
        if matches!(status, 429 | 503) {
            told["headers"]["Retry-After"] = json!({
                "description": "Seconds after which a retry may succeed.",
                "schema": {"type": "integer", "minimum": 0},
            });
        }
        if status == 401 {
            told["headers"]["WWW-Authenticate"] =
                json!({"description": "Ways to authenticate.", "schema": {"type": "string"}});
        }
    }
    responses
}

#[cfg(test)]
mod tests;
