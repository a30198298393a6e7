//! Watches the list of sessions, and puts changes into the mailbox.

use std::sync::Arc;

use berth_verbs::VerbContext;
use berth_verbs::session_list_watch::{self, SessionListChange};

use super::super::model::SessionLookup;
use super::super::row::RowStatus;
use super::DashboardMailbox;

pub(super) fn watch(ctx: &Arc<VerbContext>, mailbox: &DashboardMailbox) {
    session_list_watch::watch(ctx, None, &mut |change| match change {
        SessionListChange::Found(found) => mailbox.put(|inbox| {
            inbox.found.extend(found.into_iter().map(|(id, found)| {
                let found = match found {
                    session_list_watch::SessionObservation::Known(status) => {
                        SessionLookup::Known(Box::new(RowStatus::Status(status)))
                    }
                    session_list_watch::SessionObservation::Damaged(problem) => {
                        SessionLookup::Known(Box::new(RowStatus::Damaged(problem)))
                    }
                    session_list_watch::SessionObservation::Gone => SessionLookup::Gone,
                };
                (id, found)
            }));
        }),
        SessionListChange::Loaded => mailbox.put(|inbox| inbox.loaded = true),
        SessionListChange::Trouble(problem) => mailbox.put(|inbox| inbox.trouble = Some(problem)),
    });
}
