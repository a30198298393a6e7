//! Problems on the wire: RFC 9457, from the same table as the exit codes.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use berth_api::{Problem, ProblemCode};
use schemars::JsonSchema;
use serde::Serialize;

/// A problem on its way to a client.
#[derive(Clone, Debug)]
pub(crate) struct HttpProblem {
    pub(crate) problem: Problem,
    /// HTTP status, where it differs from the one in the table of codes.
    pub(crate) status: Option<StatusCode>,
    /// Seconds after which a retry may succeed.
    pub(crate) retry_after: Option<u64>,
}

/// Problem: the body of every answer that is not a success (`application/problem+json`, RFC 9457).
#[derive(Serialize, JsonSchema, Debug)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemBody {
    /// Name of this kind of problem: `urn:berth:problem:` and the code.
    pub r#type: String,
    /// Code of the problem, for programs. The exit codes of the command line have the same table.
    #[schemars(with = "ProblemCode")]
    pub code: String,
    /// HTTP status of the answer.
    pub status: u16,
    /// Message: what happened, and to what.
    pub title: String,
    /// Hint: what to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Exit code that the command line has for this code.
    pub exit_code: u8,
}

impl From<Problem> for ProblemBody {
    fn from(problem: Problem) -> Self {
        let code = problem.code;
        Self {
            r#type: format!("urn:berth:problem:{}", code.word()),
            code: code.word().to_owned(),
            status: code.http_status(),
            title: problem.what,
            detail: problem.hint,
            exit_code: code.exit_code(),
        }
    }
}

impl From<Problem> for HttpProblem {
    fn from(problem: Problem) -> Self {
        Self { problem, status: None, retry_after: None }
    }
}

impl HttpProblem {
    /// A request that is not valid.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Problem::usage(what).into()
    }

    /// Sets an HTTP status that differs from the one in the table of codes.
    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets the hint, which names the next step of the caller.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.problem = self.problem.hint(hint);
        self
    }

    /// Sets the time after which a retry may succeed.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The body of an answer with this status.
    fn body(self, status: StatusCode) -> ProblemBody {
        ProblemBody { status: status.as_u16(), ..self.problem.into() }
    }

    /// The body as JSON text, for answers that no router makes.
    pub(crate) fn json(self, status: StatusCode) -> String {
        serde_json::to_string(&self.body(status)).expect("a problem is plain data")
    }
}

impl IntoResponse for HttpProblem {
    fn into_response(mut self) -> Response {
        let status = self.status.or(StatusCode::from_u16(self.problem.code.http_status()).ok());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after;
        crate::viewer_filter::for_caller(|viewer| self.problem.hide_from(viewer));
        let mut response = (status, Json(self.body(status))).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        crate::auth::add_www_authenticate(&mut response);
        response
    }
}
