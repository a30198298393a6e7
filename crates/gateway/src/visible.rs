//! Answers as typed values: what the caller may not see is taken out before they are written.
//!
//! Promise: every JSON answer of a route is a [`Json`], and so says by [`Visible`] what it hides; without a known caller
//! everything that can be hidden is. Events for many readers are written once, and again only for a reader that may
//! not see all of one ([`Shared`]).
//! Not here: what is hidden from whom (see `berth_api::viewer`).
//! Start with [`Json`].

use std::future::Future;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use berth_api::turn::TurnView;
use berth_api::{NewToken, Status, Viewer};
use berth_verbs::events::Line;
use bytes::Bytes;
use serde::Serialize;

tokio::task_local! {
    /// The caller that this task answers.
    static VIEWER: Viewer;
}

/// Answers a request of this caller.
pub(crate) fn within<F: Future>(viewer: Viewer, answer: F) -> impl Future<Output = F::Output> {
    VIEWER.scope(viewer, answer)
}

/// Takes something out for the caller that this task answers.
pub(crate) fn for_caller(hide: impl FnOnce(&Viewer)) {
    let mut hide = Some(hide);
    let mut once = |viewer: &Viewer| hide.take().into_iter().for_each(|hide| hide(viewer));
    if VIEWER.try_with(&mut once).is_err() {
        once(&Viewer::LEAST);
    }
}

/// What can be an answer.
pub(crate) trait Visible: Serialize {
    /// Takes out what the caller may not see.
    fn hide_from(&mut self, viewer: &Viewer);
}

/// A JSON answer.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Visible> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let Self(mut answer) = self;
        for_caller(|viewer| answer.hide_from(viewer));
        axum::Json(answer).into_response()
    }
}

/// Implements [`Visible`] for answers without hidden parts: a caller that may ask for one may see all of it.
macro_rules! nothing_hidden {
    ($($answer:ty),+ $(,)?) => {
        $(impl $crate::visible::Visible for $answer {
            fn hide_from(&mut self, _: &berth_api::Viewer) {}
        })+
    };
}
pub(crate) use nothing_hidden;

nothing_hidden!(
    TurnView,
    NewToken,
    berth_keeper::sweep::Report,
    berth_verbs::history::History,
    berth_verbs::history::Restored,
    berth_verbs::ps::Block,
    berth_verbs::purge::Doomed,
    berth_verbs::transcript::Page,
    Arc<berth_verbs::doctor::Report>,
);

impl Visible for Status {
    fn hide_from(&mut self, viewer: &Viewer) {
        Self::hide_from(self, viewer);
    }
}

impl Visible for Line {
    fn hide_from(&mut self, viewer: &Viewer) {
        self.event.hide_from(viewer);
    }
}

impl<T: Visible> Visible for Vec<T> {
    fn hide_from(&mut self, viewer: &Viewer) {
        self.iter_mut().for_each(|one| one.hide_from(viewer));
    }
}

/// A value for many readers: serialized once for readers that may see all of it. The value itself is kept only if parts of
/// it are hidden from other readers.
#[derive(Clone, Debug)]
pub(crate) struct Shared<T> {
    whole: Bytes,
    hides: Option<Arc<T>>,
    write: fn(&T) -> Bytes,
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole
    }
}

impl<T: Visible + Clone + PartialEq> Shared<T> {
    pub(crate) fn new(value: &T, write: fn(&T) -> Bytes) -> Self {
        let mut least = value.clone();
        least.hide_from(&Viewer::LEAST);
        let hides = (least != *value).then(|| Arc::new(value.clone()));
        Self { whole: write(value), hides, write }
    }

    /// Whether some callers may not see all of it.
    pub(crate) fn hides(&self) -> bool {
        self.hides.is_some()
    }

    /// As the caller may see it.
    pub(crate) fn bytes(&self, viewer: &Viewer) -> Bytes {
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
