//! Extractors of requests: bodies, paths, queries and keys.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::http_problem::HttpProblem;
use berth_store::killpoint;

/// Size limit of a request body.
pub(crate) const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;

/// Environment variable with which tests shorten the timeouts of clients, in milliseconds. Not in release builds.
pub(crate) const PATIENCE_VARIABLE: &str = "BERTH_CLIENT_MS";
/// Timeout for a client to send a whole body.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(60);

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = HttpProblem;

    async fn from_request(request: Request, _: &S) -> Result<Self, HttpProblem> {
        let kind = request.headers().get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
        let is_json = kind.is_none_or(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/json")
        });
        let bytes = read(request.into_body(), MAX_BODY_BYTES, BODY_PATIENCE).await?;
        if !is_json && !bytes.is_empty() {
            return Err(HttpProblem::usage("the body is not of the type application/json")
                .status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        // A request without a body counts as an empty object: every optional field is left out.
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        let mut json = serde_json::Deserializer::from_slice(text);
        let read: Result<StrictObject<T>, _> = serde_path_to_error::deserialize(&mut json);
        let StrictObject(read) = read.map_err(|error| {
            let path = error.path().to_string();
            let place = if path == "." { String::new() } else { format!("`{path}`: ") };
            HttpProblem::usage(format!("the body cannot be used: {place}{}", error.inner()))
        })?;
        json.end().map_err(|error| HttpProblem::usage(format!("the body cannot be used: {error}")))?;
        Ok(Self(read))
    }
}

/// Reads a whole body, within the limits of size and time.
pub(crate) async fn read(
    body: axum::body::Body,
    most_bytes: usize,
    patience: Duration,
) -> Result<bytes::Bytes, HttpProblem> {
    let read = axum::body::to_bytes(body, most_bytes);
    let read = tokio::time::timeout(killpoint::patience(PATIENCE_VARIABLE, patience), read).await;
    match read {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_long(&error) => {
            Err(HttpProblem::usage(format!("the body has more than {most_bytes} bytes"))
                .hint("send less at once")
                .status(StatusCode::PAYLOAD_TOO_LARGE))
        }
        Ok(Err(error)) => Err(HttpProblem::usage(format!("the body is cut off, or not valid: {error}"))),
        Err(_) => {
            Err(HttpProblem::usage("the body did not come in time").status(StatusCode::REQUEST_TIMEOUT))
        }
    }
}

fn is_too_long(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Reads the idempotency key from its header.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, HttpProblem> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let Some(key) = keys.next() else { return Ok(None) };
    if keys.next().is_some() {
        return Err(HttpProblem::usage("there is more than one `Idempotency-Key`"));
    }
    let key = key.to_str().map_err(|_| HttpProblem::usage("the `Idempotency-Key` is not plain text"))?;
    Ok(Some(key.to_owned()))
}

/// Accepts an object only. By itself serde also accepts a struct's fields as an array, which the API does not describe.
pub(crate) struct StrictObject<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for StrictObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = StrictObject<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields)).map(StrictObject)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// Deserializes a field that has to be an object.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    StrictObject::deserialize(deserializer).map(|StrictObject(read)| read)
}

/// Deserializes a field that may be an object or `null`.
pub(crate) fn object_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::<StrictObject<T>>::deserialize(deserializer).map(|read| read.map(|StrictObject(read)| read))
}

/// The parameters of a path.
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpProblem> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        let axum::extract::Path(read) = read
            .map_err(|error| HttpProblem::usage(format!("the path cannot be used: {}", error.body_text())))?;
        Ok(Self(read))
    }
}

/// The parameters of a query.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpProblem> {
        let query = parts.uri.query().unwrap_or_default();
        // People often write `?all` for `?all=true`.
        let pair = |pair: &str| if pair.contains('=') { pair.to_owned() } else { format!("{pair}=true") };
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(pair);
        let uri = format!("/?{}", pairs.collect::<Vec<_>>().join("&")).parse::<axum::http::Uri>();
        let uri = uri.map_err(|_| HttpProblem::usage("the query is not UTF-8"))?;
        let axum::extract::Query(read) = axum::extract::Query::<T>::try_from_uri(&uri).map_err(|error| {
            let why = error.body_text();
            let why = why.strip_prefix("Failed to deserialize query string: ").unwrap_or(&why);
            HttpProblem::usage(format!("the query cannot be used: {why}"))
        })?;
        Ok(Self(read))
    }
}
