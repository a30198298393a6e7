//! What a client sent, understood completely or refused with the place of the mistake.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::fault::Fault;
use berth_store::killpoint;

/// The largest body.
pub(crate) const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;

/// The variable by which tests are less patient with clients, in milliseconds. Not in release builds.
pub(crate) const PATIENCE_VARIABLE: &str = "BERTH_CLIENT_MS";
/// How long a client may take to send it.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(60);

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, _: &S) -> Result<Self, Fault> {
        let kind = request.headers().get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
        let is_json = kind.is_none_or(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/json")
        });
        let bytes = read(request.into_body(), MAX_BODY_BYTES, BODY_PATIENCE).await?;
        if !is_json && !bytes.is_empty() {
            return Err(Fault::usage("the body is not of the type application/json")
                .status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        // No body is an empty object: everything that may be left out is.
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        let mut json = serde_json::Deserializer::from_slice(text);
        let read: Result<Object<T>, _> = serde_path_to_error::deserialize(&mut json);
        let Object(read) = read.map_err(|error| {
            let path = error.path().to_string();
            let place = if path == "." { String::new() } else { format!("`{path}`: ") };
            Fault::usage(format!("the body cannot be used: {place}{}", error.inner()))
        })?;
        json.end().map_err(|error| Fault::usage(format!("the body cannot be used: {error}")))?;
        Ok(Self(read))
    }
}

/// All of a body, within the limits.
pub(crate) async fn read(
    body: axum::body::Body,
    most_bytes: usize,
    patience: Duration,
) -> Result<bytes::Bytes, Fault> {
    let read = axum::body::to_bytes(body, most_bytes);
    let read = tokio::time::timeout(killpoint::patience(PATIENCE_VARIABLE, patience), read).await;
    match read {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_long(&error) => {
            Err(Fault::usage(format!("the body has more than {most_bytes} bytes"))
                .hint("send less at once")
                .status(StatusCode::PAYLOAD_TOO_LARGE))
        }
        Ok(Err(error)) => Err(Fault::usage(format!("the body is cut off, or not valid: {error}"))),
        Err(_) => Err(Fault::usage("the body did not come in time").status(StatusCode::REQUEST_TIMEOUT)),
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

/// The key that makes a call repeatable, as its header has it.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let Some(key) = keys.next() else { return Ok(None) };
    if keys.next().is_some() {
        return Err(Fault::usage("there is more than one `Idempotency-Key`"));
    }
    let key = key.to_str().map_err(|_| Fault::usage("the `Idempotency-Key` is not plain text"))?;
    Ok(Some(key.to_owned()))
}

/// An object, and nothing else: serde takes the fields of a struct in a list, too, and nobody described that.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
            }
        }
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// The same for a field.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(read)| read)
}

/// The same for a field that may be `null`.
pub(crate) fn object_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::<Object<T>>::deserialize(deserializer).map(|read| read.map(|Object(read)| read))
}

/// The parts of a path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        let axum::extract::Path(read) =
            read.map_err(|error| Fault::usage(format!("the path cannot be used: {}", error.body_text())))?;
        Ok(Self(read))
    }
}

/// What stands behind `?`.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let query = parts.uri.query().unwrap_or_default();
        // `?all` is what people write first, and means `?all=true`.
        let pair = |pair: &str| if pair.contains('=') { pair.to_owned() } else { format!("{pair}=true") };
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(pair);
        let uri = format!("/?{}", pairs.collect::<Vec<_>>().join("&")).parse::<axum::http::Uri>();
        let uri = uri.map_err(|_| Fault::usage("the query is not UTF-8"))?;
        let axum::extract::Query(read) = axum::extract::Query::<T>::try_from_uri(&uri).map_err(|error| {
            let why = error.body_text();
            let why = why.strip_prefix("Failed to deserialize query string: ").unwrap_or(&why);
            Fault::usage(format!("the query cannot be used: {why}"))
        })?;
        Ok(Self(read))
    }
}
