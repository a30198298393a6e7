//! The table of routes: each is declared once, with the scope it needs, what it takes, gives and refuses.
//!
//! Promise: no route without a scope; the router, the check of scopes and the OpenAPI description come from this
//! one table, so they cannot differ.
//! Start with [`all`].

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use berth_api::{Code, Scope};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::caller::Caller;
use crate::fault::Fault;
use crate::gate::Gate;
use crate::visible;

/// Makes the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Stands for whatever status somebody else answers with.
pub(crate) const ANY_STATUS: u16 = 0;

/// The body a route takes.
pub(crate) struct Takes {
    pub(crate) media_type: &'static str,
    pub(crate) schema: SchemaOf,
}

/// One answer a route may give.
pub(crate) struct Gives {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) schema: Option<SchemaOf>,
}

/// One route.
pub struct Route {
    /// How it is asked.
    pub method: Method,
    /// Where; `{name}` is a parameter.
    pub path: &'static str,
    /// What it is called in generated clients.
    pub name: &'static str,
    /// One sentence about it.
    pub about: &'static str,
    /// How far one must be allowed to go; nothing for what everybody may see.
    pub scope: Option<Scope>,
    /// Whether it is for callers with some sessions only as well, and tells them nothing of others. One with
    /// `{session}` in its path is, by the way it finds that session.
    pub filtered: bool,
    pub(crate) takes: Option<Takes>,
    pub(crate) query: Option<SchemaOf>,
    /// Header parameters, with what each is for.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) gives: Vec<Gives>,
    /// Headers of its successes, with what each tells.
    pub(crate) told: Vec<(&'static str, &'static str)>,
    pub(crate) fails: Vec<Code>,
    /// What it refuses for with another status than the table of codes has.
    pub(crate) fails_with: Vec<(u16, Code, &'static str)>,
    handler: MethodRouter<Arc<Gate>>,
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The schema of plain text.
pub(crate) fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string"})
}

/// The schema of any JSON.
pub(crate) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({})
}

/// The schema of bytes.
pub(crate) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "binary"})
}

impl Route {
    pub(crate) fn get<H: Handler<T, Arc<Gate>>, T: 'static>(
        name: &'static str,
        path: &'static str,
        scope: Scope,
        handler: H,
    ) -> Self {
        Self::new(Method::GET, name, path, scope, handler)
    }

    pub(crate) fn post<H: Handler<T, Arc<Gate>>, T: 'static>(
        name: &'static str,
        path: &'static str,
        scope: Scope,
        handler: H,
    ) -> Self {
        Self::new(Method::POST, name, path, scope, handler)
    }

    /// A route that needs this scope.
    pub(crate) fn new<H: Handler<T, Arc<Gate>>, T: 'static>(
        method: Method,
        name: &'static str,
        path: &'static str,
        scope: Scope,
        handler: H,
    ) -> Self {
        let filter = MethodFilter::try_from(method.clone()).expect("a method that axum knows");
        Self {
            method,
            path,
            name,
            about: "",
            scope: Some(scope),
            filtered: path.contains("{session}"),
            takes: None,
            query: None,
            headers: vec![],
            gives: vec![],
            told: vec![],
            fails: vec![],
            fails_with: vec![],
            handler: on(filter, handler),
        }
    }

    /// One sentence about it.
    pub(crate) fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Needs no token.
    pub(crate) fn open(mut self) -> Self {
        self.scope = None;
        self
    }

    /// Callers with some sessions only may ask as well: the handler shows them nothing of others.
    pub(crate) fn filtered(mut self) -> Self {
        self.filtered = true;
        self
    }

    /// The JSON body it takes.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.takes = Some(Takes { media_type: "application/json", schema: schema_of::<T> });
        self
    }

    /// The form it takes.
    pub(crate) fn takes_form<T: JsonSchema>(mut self) -> Self {
        self.takes = Some(Takes { media_type: "application/x-www-form-urlencoded", schema: schema_of::<T> });
        self
    }

    /// What may stand behind `?`: an object, one property each.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(schema_of::<T>);
        self
    }

    /// A header it looks at.
    pub(crate) fn header(mut self, name: &'static str, about: &'static str) -> Self {
        self.headers.push((name, about));
        self
    }

    /// JSON it gives.
    pub(crate) fn gives<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.gives_as(status, about, "application/json", Some(schema_of::<T>))
    }

    /// Something else it gives.
    pub(crate) fn gives_as(
        mut self,
        status: u16,
        about: &'static str,
        media_type: &'static str,
        schema: Option<SchemaOf>,
    ) -> Self {
        self.gives.push(Gives { status, about, media_type, schema });
        self
    }

    /// A header of its successes.
    pub(crate) fn tells(mut self, name: &'static str, about: &'static str) -> Self {
        self.told.push((name, about));
        self
    }

    /// What it may refuse for with another status than the table of codes has.
    pub(crate) fn fails_with(mut self, status: u16, code: Code, about: &'static str) -> Self {
        self.fails_with.push((status, code, about));
        self
    }

    /// What it may refuse for, besides what every route may.
    pub(crate) fn fails(mut self, codes: &[Code]) -> Self {
        self.fails.extend(codes);
        self
    }
}

/// All of them.
pub fn all() -> Vec<Route> {
    use crate::http;
    [
        http::sessions::routes(),
        http::life::routes(),
        http::look::routes(),
        http::transcript::routes(),
        http::foreign::routes(),
        http::records::routes(),
        http::turns::routes(),
        http::queue::routes(),
        http::agents::routes(),
        http::history::routes(),
        http::answers::routes(),
        http::wait::routes(),
        http::events::routes(),
        http::output::routes(),
        http::terminal::routes(),
        http::helpers::routes(),
        http::hosts::routes(),
        http::system::routes(),
        crate::page::routes(),
        http::tokens::routes(),
        http::login::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The route that answered: it goes with the answer as far as the door.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matched {
    /// For records.
    pub(crate) path: &'static str,
    /// Whether it is known who asks.
    pub(crate) is_known: bool,
}

/// How far one must be allowed to go for a route, and what else is asked of who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub(crate) scope: Scope,
    /// See [`Route::filtered`].
    pub(crate) filtered: bool,
    pub(crate) path: &'static str,
}

impl Guard {
    /// Refuses who may not go so far.
    pub(crate) fn allows(&self, gate: &Gate, caller: &Caller) -> Result<(), Fault> {
        caller.needs(self.scope)?;
        if !self.filtered {
            caller.needs_all_sessions()?;
        }
        caller.may_as_an_agent(gate, self.scope, self.path)
    }
}

/// The router: every request past `auth`, every route behind the check of its scope. Made once.
pub(crate) fn router(gate: Arc<Gate>) -> Router {
    let mut router = Router::new();
    for route in all() {
        let (gate, path) = (Arc::clone(&gate), route.path);
        let is_open =
            route.scope.is_none() || (gate.options.open_metrics && path == crate::http::system::METRICS);
        let handler = match route.scope.filter(|_| !is_open) {
            Some(scope) => {
                let guard = Guard { scope, filtered: route.filtered, path };
                route.handler.layer(axum::middleware::from_fn(
                    move |caller: Caller, request: Request, next: Next| {
                        let gate = Arc::clone(&gate);
                        async move {
                            let method = request.method().clone();
                            crate::trace::came_from(&caller.place);
                            let answer = match guard.allows(&gate, &caller) {
                                Ok(()) => visible::within(caller.viewer(), next.run(request)).await,
                                Err(fault) => fault.into_response(),
                            };
                            if answer.status() == StatusCode::FORBIDDEN {
                                gate.door.audit.refused(&caller, method.as_str(), path);
                            }
                            matched(answer, Matched { path, is_known: true })
                        }
                    },
                ))
            }
            None => route.handler.layer(axum::middleware::from_fn(move |request, next: Next| async move {
                matched(next.run(request).await, Matched { path, is_known: false })
            })),
        };
        router = router.route(path, handler);
    }
    let door = axum::middleware::from_fn_with_state(gate.clone(), crate::auth::admit);
    router
        .fallback(crate::http::system::nothing_here)
        .method_not_allowed_fallback(crate::http::system::not_like_this)
        .layer(door)
        .with_state(gate)
}

fn matched(mut answer: Response, route: Matched) -> Response {
    answer.extensions_mut().insert(route);
    answer
}
