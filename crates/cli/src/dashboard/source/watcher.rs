//! The list, as it changes: what is found goes into the box.

use std::sync::Arc;

use berth_verbs::changes::{self, Change};

use super::super::model::Found;
use super::super::row::Known;
use super::Mailbox;
use crate::ctx::Ctx;

pub(super) fn watch(ctx: &Arc<Ctx>, mailbox: &Mailbox) {
    changes::watch(ctx, None, &mut |change| match change {
        Change::Found(found) => mailbox.put(|inbox| {
            inbox.found.extend(found.into_iter().map(|(id, found)| {
                let found = match found {
                    changes::Found::Known(status) => Found::Known(Box::new(Known::Status(status))),
                    changes::Found::Damaged(problem) => Found::Known(Box::new(Known::Damaged(problem))),
                    changes::Found::Gone => Found::Gone,
                };
                (id, found)
            }));
        }),
        Change::Loaded => mailbox.put(|inbox| inbox.loaded = true),
        Change::Trouble(problem) => mailbox.put(|inbox| inbox.trouble = Some(problem)),
    });
}
