//! The table of routes: each is declared once, with the scope it needs, what it takes, gives and refuses.
//!
//! Promise: no route without a scope; the router, the check of scopes and the OpenAPI description come from this
//! one table, so they cannot differ.
//! Start with [`all`].

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use berth_api::{Code, Problem, Scope};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::auth::Peer;
use crate::fault::Fault;
use crate::gate::Gate;

/// Makes the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

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
    pub(crate) takes: Option<SchemaOf>,
    pub(crate) query: Option<SchemaOf>,
    /// Header parameters, with what each is for.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) gives: Vec<Gives>,
    pub(crate) fails: Vec<Code>,
    handler: MethodRouter<Arc<Gate>>,
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Route {
    /// A route that needs this scope.
    pub(crate) fn new<H, T>(
        method: Method,
        path: &'static str,
        scope: Scope,
        name: &'static str,
        about: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<Gate>>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("a method that axum knows");
        Self {
            method,
            path,
            name,
            about,
            scope: Some(scope),
            takes: None,
            query: None,
            headers: vec![],
            gives: vec![],
            fails: vec![],
            handler: on(filter, handler),
        }
    }

    /// Everybody may ask.
    pub(crate) fn open(mut self) -> Self {
        self.scope = None;
        self
    }

    /// The JSON body it takes.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.takes = Some(schema_of::<T>);
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

    /// What it may refuse for, besides what every route may.
    pub(crate) fn fails(mut self, codes: &[Code]) -> Self {
        self.fails.extend(codes);
        self
    }
}

/// All of them.
pub fn all() -> Vec<Route> {
    [crate::http::sessions::routes(), crate::http::system::routes()].into_iter().flatten().collect()
}

/// The paths that everybody may ask for, for as long as this process lives.
static OPEN: OnceLock<HashSet<&'static str>> = OnceLock::new();

/// Whether everybody may ask for what is at this path.
pub(crate) fn is_open(path: &str) -> bool {
    OPEN.get().is_some_and(|open| open.contains(path))
}

/// The route that answered, for records: it goes with the answer as far as the door.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matched(pub(crate) &'static str);

/// The router: every request past `auth`, every route behind the check of its scope. Made once.
pub(crate) fn router(gate: Arc<Gate>) -> Router {
    let mut router = Router::new();
    let mut open = HashSet::new();
    for route in all() {
        let path = route.path;
        let is_open =
            route.scope.is_none() || (gate.options.open_metrics && path == crate::http::system::METRICS);
        let handler = match route.scope.filter(|_| !is_open) {
            Some(scope) => route.handler.layer(axum::middleware::from_fn(
                move |caller: crate::caller::Caller, request, next: Next| async move {
                    crate::trace::came_from(&caller.place);
                    let answer = match caller.needs(scope) {
                        Ok(()) => next.run(request).await,
                        Err(fault) => fault.into_response(),
                    };
                    matched(answer, path)
                },
            )),
            None => {
                open.insert(path);
                route.handler.layer(axum::middleware::from_fn(move |request, next: Next| async move {
                    matched(next.run(request).await, path)
                }))
            }
        };
        router = router.route(path, handler);
    }
    let _ = OPEN.set(open);
    router
        .fallback(crate::http::system::nothing_here)
        .method_not_allowed_fallback(crate::http::system::not_like_this)
        .with_state(gate)
        .layer(axum::middleware::from_fn(|mut request: Request, next: Next| async move {
            match request.extensions_mut().remove::<Peer>() {
                Some(peer) => crate::auth::admit(peer, request, next).await,
                None => Fault::from(Problem::new(Code::Bug, "a request came from nowhere")).into_response(),
            }
        }))
}

fn matched(mut answer: Response, path: &'static str) -> Response {
    answer.extensions_mut().insert(Matched(path));
    answer
}
