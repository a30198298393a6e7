//! The table of routes: each is declared once, with its scope, its request, its answers and its errors.
//!
//! Promise: no route without a scope; the router, the check of scopes and the OpenAPI description come from this
//! one table, so they cannot differ.
//! Start with [`all_routes`].

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use berth_api::{AccessScope, ProblemCode};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::app_state::AppState;
use crate::caller::RequestCaller;
use crate::http_problem::HttpProblem;
use crate::viewer_filter;

/// A function that makes the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Stands for every status: another host decides it.
pub(crate) const ANY_STATUS: u16 = 0;

/// The body a route takes.
pub(crate) struct RouteRequest {
    pub(crate) media_type: &'static str,
    pub(crate) schema: SchemaOf,
}

/// One answer a route may give.
pub(crate) struct RouteResponse {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) schema: Option<SchemaOf>,
}

/// A route of the API: its path, its rules, its texts and its handler.
pub struct Route {
    /// HTTP method of the route.
    pub method: Method,
    /// Path of the route; `{name}` is a parameter.
    pub path: &'static str,
    /// Name of the operation in generated clients.
    pub name: &'static str,
    /// Text for the description. Its first sentence is the summary.
    pub about: &'static str,
    /// Scope that a caller needs; absent for routes that need no token.
    pub scope: Option<AccessScope>,
    /// True if callers that are limited to some sessions may call it, because it shows them nothing of others. This
    /// holds for every route with `{session}` in its path, by the way it finds that session.
    pub filtered: bool,
    pub(crate) takes: Option<RouteRequest>,
    pub(crate) query: Option<SchemaOf>,
    /// Header parameters, each with its description.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) gives: Vec<RouteResponse>,
    /// Headers of successful answers, each with its description.
    pub(crate) response_headers: Vec<(&'static str, &'static str)>,
    pub(crate) fails: Vec<ProblemCode>,
    /// Errors whose status differs from the one in the table of codes.
    pub(crate) fails_with: Vec<(u16, ProblemCode, &'static str)>,
    handler: MethodRouter<Arc<AppState>>,
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
    pub(crate) fn get<H: Handler<T, Arc<AppState>>, T: 'static>(
        name: &'static str,
        path: &'static str,
        scope: AccessScope,
        handler: H,
    ) -> Self {
        Self::new(Method::GET, name, path, scope, handler)
    }

    pub(crate) fn post<H: Handler<T, Arc<AppState>>, T: 'static>(
        name: &'static str,
        path: &'static str,
        scope: AccessScope,
        handler: H,
    ) -> Self {
        Self::new(Method::POST, name, path, scope, handler)
    }

    pub(crate) fn new<H: Handler<T, Arc<AppState>>, T: 'static>(
        method: Method,
        name: &'static str,
        path: &'static str,
        scope: AccessScope,
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
            response_headers: vec![],
            fails: vec![],
            fails_with: vec![],
            handler: on(filter, handler),
        }
    }

    /// Sets the text of the description. Its first sentence becomes the summary.
    pub(crate) fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Removes the need for a token.
    pub(crate) fn open(mut self) -> Self {
        self.scope = None;
        self
    }

    /// Admits callers that are limited to some sessions: the handler shows them nothing of others.
    pub(crate) fn filtered(mut self) -> Self {
        self.filtered = true;
        self
    }

    /// Declares a JSON request body.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.takes = Some(RouteRequest { media_type: "application/json", schema: schema_of::<T> });
        self
    }

    /// Declares a form as the request body.
    pub(crate) fn takes_form<T: JsonSchema>(mut self) -> Self {
        self.takes =
            Some(RouteRequest { media_type: "application/x-www-form-urlencoded", schema: schema_of::<T> });
        self
    }

    /// Declares the query parameters: one for each property of the type.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(schema_of::<T>);
        self
    }

    /// Declares a header parameter.
    pub(crate) fn header(mut self, name: &'static str, about: &'static str) -> Self {
        self.headers.push((name, about));
        self
    }

    /// Declares a JSON answer.
    pub(crate) fn gives<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.gives_as(status, about, "application/json", Some(schema_of::<T>))
    }

    /// Declares an answer of another media type.
    pub(crate) fn gives_as(
        mut self,
        status: u16,
        about: &'static str,
        media_type: &'static str,
        schema: Option<SchemaOf>,
    ) -> Self {
        self.gives.push(RouteResponse { status, about, media_type, schema });
        self
    }

    /// Declares a header of successful answers.
    pub(crate) fn response_header(mut self, name: &'static str, about: &'static str) -> Self {
        self.response_headers.push((name, about));
        self
    }

    /// Declares an error whose status differs from the one in the table of codes.
    pub(crate) fn fails_with(mut self, status: u16, code: ProblemCode, about: &'static str) -> Self {
        self.fails_with.push((status, code, about));
        self
    }

    /// Declares errors, besides those that every route may answer with.
    pub(crate) fn fails(mut self, codes: &[ProblemCode]) -> Self {
        self.fails.extend(codes);
        self
    }
}

/// All routes, in the order of the API description.
pub fn all_routes() -> Vec<Route> {
    use crate::http;
    [
        http::sessions::routes(),
        http::lifecycle::routes(),
        http::diagnostics::routes(),
        http::transcript::routes(),
        http::foreign::routes(),
        http::transcript_files::routes(),
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

/// The route that made an answer. Stored in the answer, so that the outer layers can log it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchedRoute {
    /// Path of the route, for logs and metrics.
    pub(crate) path: &'static str,
    /// True if the caller was authenticated.
    pub(crate) is_known: bool,
}

/// The scope that a route needs, and its other conditions on a caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteGuard {
    pub(crate) scope: AccessScope,
    /// See [`Route::filtered`].
    pub(crate) filtered: bool,
    pub(crate) path: &'static str,
}

impl RouteGuard {
    /// Refuses a caller that has no right to use this route.
    pub(crate) fn allows(&self, state: &AppState, caller: &RequestCaller) -> Result<(), HttpProblem> {
        caller.needs(self.scope)?;
        if !self.filtered {
            caller.needs_all_sessions()?;
        }
        caller.check_agent_route(state, self.scope, self.path)
    }
}

/// The router: every request goes through `auth`, and every route checks its scope. Made once.
pub(crate) fn router(state: Arc<AppState>) -> Router {
    let mut router = Router::new();
    for route in all_routes() {
        let (state, path) = (Arc::clone(&state), route.path);
        let is_open =
            route.scope.is_none() || (state.options.open_metrics && path == crate::http::system::METRICS);
        let handler = match route.scope.filter(|_| !is_open) {
            Some(scope) => {
                let guard = RouteGuard { scope, filtered: route.filtered, path };
                route.handler.layer(axum::middleware::from_fn(
                    move |caller: RequestCaller, request: Request, next: Next| {
                        let state = Arc::clone(&state);
                        async move {
                            let method = request.method().clone();
                            crate::trace::came_from(&caller.place);
                            let answer = match guard.allows(&state, &caller) {
                                Ok(()) => viewer_filter::within(caller.viewer(), next.run(request)).await,
                                Err(fault) => fault.into_response(),
                            };
                            if answer.status() == StatusCode::FORBIDDEN {
                                state.access.audit.refused(&caller, method.as_str(), path);
                            }
                            matched(answer, MatchedRoute { path, is_known: true })
                        }
                    },
                ))
            }
            None => route.handler.layer(axum::middleware::from_fn(move |request, next: Next| async move {
                matched(next.run(request).await, MatchedRoute { path, is_known: false })
            })),
        };
        router = router.route(path, handler);
    }
    let admission = axum::middleware::from_fn_with_state(state.clone(), crate::auth::admit);
    router
        .fallback(crate::http::system::route_not_found)
        .method_not_allowed_fallback(crate::http::system::method_not_allowed)
        .layer(admission)
        .with_state(state)
}

fn matched(mut answer: Response, route: MatchedRoute) -> Response {
    answer.extensions_mut().insert(route);
    answer
}
