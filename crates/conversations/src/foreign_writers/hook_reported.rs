//! Writers by the reports of their hooks.
//!
//! Promise: only living processes are returned, with the conversation open in the given account.
//! Not here: other signs (see `writer_evidence`). Start with [`hooked`].

use std::path::Path;

use berth_host::identity::ProcessIdentity;
use berth_store::state_dir::StateDir;

use super::{WriterEvidence, writer_evidence};
use crate::open_conversations::OpenConversations;

/// The processes whose hooks reported this conversation as open. `account` is where the agent keeps its conversations.
pub(super) fn hooked(kind: &str, id: &str, account: Option<&Path>) -> Vec<(ProcessIdentity, WriterEvidence)> {
    let Ok(root) = StateDir::place() else { return Vec::new() };
    let holders = OpenConversations::of(&root);
    let is_here = |place: Option<&Path>| match (place, account) {
        (Some(place), Some(account)) => writer_evidence::is_same(place, account),
        (None, _) | (_, None) => true,
    };
    let mut all = holders.all().holders;
    all.retain(|holder| holder.kind == kind && holder.conversation_id == id && is_here(holder.account()));
    all.retain(|holder| holder.is_open());
    all.into_iter()
        .map(|holder| {
            let file = holders.file(&holder.kind, &holder.identity);
            (holder.identity, WriterEvidence::Hook { file })
        })
        .collect()
}
