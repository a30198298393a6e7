//! Answers as typed values, redacted for the caller before they are serialized.
//!
//! Promise: every JSON answer of a route is a [`JsonAnswer`], whose type declares by [`ViewerFiltered`] what it hides. If the caller
//! is unknown, everything that can be hidden is. Events for many readers are serialized once, and again only for a
//! reader that may not see all of an event ([`SharedJson`]).
//! Not here: the rules for hiding (see `berth_api::viewer`).
//! Start with [`JsonAnswer`].

use std::future::Future;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use berth_api::turn::TurnView;
use berth_api::{NewToken, SessionStatus, ViewerRights};
use berth_verbs::events::EventLine;
use bytes::Bytes;
use serde::Serialize;

tokio::task_local! {
    /// The caller that this task answers.
    static VIEWER: ViewerRights;
}

/// Runs a future that answers a request of this caller.
pub(crate) fn within<F: Future>(viewer: ViewerRights, answer: F) -> impl Future<Output = F::Output> {
    VIEWER.scope(viewer, answer)
}

/// Redacts a value for the caller that this task answers.
pub(crate) fn for_caller(hide: impl FnOnce(&ViewerRights)) {
    let mut hide = Some(hide);
    let mut once = |viewer: &ViewerRights| hide.take().into_iter().for_each(|hide| hide(viewer));
    if VIEWER.try_with(&mut once).is_err() {
        once(&ViewerRights::LEAST);
    }
}

/// A value that can be the body of an answer.
pub(crate) trait ViewerFiltered: Serialize {
    /// Removes the parts that the caller may not see.
    fn hide_from(&mut self, viewer: &ViewerRights);
}

/// A JSON answer.
pub(crate) struct JsonAnswer<T>(pub(crate) T);

impl<T: ViewerFiltered> IntoResponse for JsonAnswer<T> {
    fn into_response(self) -> Response {
        let Self(mut answer) = self;
        for_caller(|viewer| answer.hide_from(viewer));
        axum::Json(answer).into_response()
    }
}

/// Implements [`ViewerFiltered`] for answers without hidden parts: a caller that may ask for one may see all of it.
macro_rules! nothing_hidden {
    ($($answer:ty),+ $(,)?) => {
        $(impl $crate::viewer_filter::ViewerFiltered for $answer {
            fn hide_from(&mut self, _: &berth_api::ViewerRights) {}
        })+
    };
}
pub(crate) use nothing_hidden;

nothing_hidden!(
    TurnView,
    NewToken,
    berth_verbs::sweep::SweepReport,
    berth_verbs::history::SessionHistory,
    berth_verbs::history::RestoredHistory,
    berth_verbs::ps::SessionProcesses,
    berth_verbs::purge::PurgedSession,
    berth_verbs::transcript::TranscriptPage,
    Arc<berth_verbs::doctor::DoctorReport>,
);

impl ViewerFiltered for SessionStatus {
    fn hide_from(&mut self, viewer: &ViewerRights) {
        Self::hide_from(self, viewer);
    }
}

impl ViewerFiltered for EventLine {
    fn hide_from(&mut self, viewer: &ViewerRights) {
        self.event.hide_from(viewer);
    }
}

impl<T: ViewerFiltered> ViewerFiltered for Vec<T> {
    fn hide_from(&mut self, viewer: &ViewerRights) {
        self.iter_mut().for_each(|one| one.hide_from(viewer));
    }
}

/// A value for many readers, serialized once for readers that may see all of it. The value itself is kept only if parts
/// of it are hidden from other readers.
#[derive(Clone, Debug)]
pub(crate) struct SharedJson<T> {
    whole: Bytes,
    hides: Option<Arc<T>>,
    write: fn(&T) -> Bytes,
}

impl<T> PartialEq for SharedJson<T> {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole
    }
}

impl<T: ViewerFiltered + Clone + PartialEq> SharedJson<T> {
    pub(crate) fn new(value: &T, write: fn(&T) -> Bytes) -> Self {
        let mut least = value.clone();
        least.hide_from(&ViewerRights::LEAST);
        let hides = (least != *value).then(|| Arc::new(value.clone()));
        Self { whole: write(value), hides, write }
    }

    /// True if parts are hidden from some callers.
    pub(crate) fn hides(&self) -> bool {
        self.hides.is_some()
    }

    /// The bytes as the caller may see them.
    pub(crate) fn bytes(&self, viewer: &ViewerRights) -> Bytes {
        match self.hides.as_deref().filter(|_| !viewer.sees_all()) {
            None => self.whole.clone(),
            Some(value) => {
                let mut value = value.clone();
                value.hide_from(viewer);
                (self.write)(&value)
            }
        }
    }
}
