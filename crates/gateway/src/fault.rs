//! What went wrong, on the wire: RFC 9457, from the same table as the exit codes.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use berth_api::{Code, Problem};
use schemars::JsonSchema;
use serde::Serialize;

/// A problem on its way to a client.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) problem: Problem,
    /// The status, where the table's is not fine enough.
    pub(crate) status: Option<StatusCode>,
    /// When asking again may help, in seconds.
    pub(crate) retry_after: Option<u64>,
}

/// The body of every answer that is not a success (`application/problem+json`).
#[derive(Serialize, JsonSchema, Debug)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemBody {
    /// A name for this kind of problem: `urn:berth:problem:` and the code.
    pub r#type: String,
    /// The code, for programs; the same table as the exit codes of the command line.
    #[schemars(with = "Code")]
    pub code: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, to what.
    pub title: String,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The exit code the command line has for it.
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

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self { problem, status: None, retry_after: None }
    }
}

impl Fault {
    /// A request that makes no sense.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Problem::new(Code::Usage, what).into()
    }

    /// The same with another status than the table's.
    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// Says what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.problem = self.problem.hint(hint);
        self
    }

    /// Says when asking again may help.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The body of an answer with this status.
    fn body(self, status: StatusCode) -> ProblemBody {
        ProblemBody { status: status.as_u16(), ..self.problem.into() }
    }

    /// The same as text, for who answers without a router.
    pub(crate) fn json(self, status: StatusCode) -> String {
        serde_json::to_string(&self.body(status)).expect("a problem is plain data")
    }
}

impl IntoResponse for Fault {
    fn into_response(mut self) -> Response {
        let status = self.status.or(StatusCode::from_u16(self.problem.code.http_status()).ok());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after;
        crate::visible::for_caller(|viewer| self.problem.hide_from(viewer));
        let mut response = (status, Json(self.body(status))).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        crate::auth::how_to_ask(&mut response);
        response
    }
}
