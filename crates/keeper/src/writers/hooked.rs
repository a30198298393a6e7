//! Writers by what their hooks told.
//!
//! Promise: only those that live and have the conversation open, in the account that is meant.

use std::path::Path;

use berth_host::identity::Identity;
use berth_store::home::Home;

use super::{Evidence, signs};
use crate::holders::Holders;

/// Those who told that they have this conversation open. `account` is where the agent keeps its conversations.
pub(super) fn hooked(kind: &str, id: &str, account: Option<&Path>) -> Vec<(Identity, Evidence)> {
    let Ok(root) = Home::place() else { return Vec::new() };
    let holders = Holders::of(&root);
    let is_here = |place: Option<&Path>| match (place, account) {
        (Some(place), Some(account)) => signs::is_same(place, account),
        (None, _) | (_, None) => true,
    };
    let mut all = holders.all().holders;
    all.retain(|holder| holder.kind == kind && holder.conversation_id == id && is_here(holder.account()));
    all.retain(|holder| holder.is_open());
    all.into_iter()
        .map(|holder| {
            let file = holders.file(&holder.kind, &holder.identity);
            (holder.identity, Evidence::Hook { file })
        })
        .collect()
}
