//! The tree of sessions: under each, the sessions that were started in it and the helpers that it shares.
//!
//! Promise: every listed session is in the tree once, under the session it was started in if that is listed, else at
//! the top. A helper is under each of its owners.
//! Start with [`grow`].

use std::collections::{BTreeMap, BTreeSet};

use berth_api::{Problem, ProblemCode, SessionState, SessionStatus};
use berth_store::session_status;
use serde::Serialize;

use super::row::ListingRow;
use crate::ctx::CommandContext;

/// A session and the nodes under it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SessionTreeNode {
    #[serde(flatten)]
    pub(crate) status: SessionStatus,
    /// Helpers that the session owns, alone or with others.
    pub(crate) helpers: Vec<SessionStatus>,
    /// Sessions that were started in the session.
    pub(crate) children: Vec<SessionTreeNode>,
}

/// The running helpers, and a problem for each that cannot be read.
pub(crate) fn helpers(ctx: &CommandContext) -> Result<(Vec<SessionStatus>, Vec<Problem>), Problem> {
    let Some(helpers) = ctx.home.folders().into_iter().find(|helpers| helpers.is_helpers()) else {
        return Ok((Vec::new(), Vec::new()));
    };
    let ids = helpers.list()?;
    let (mut up, mut damaged) = (Vec::new(), Vec::new());
    for id in ids {
        match session_status::status(&helpers, &id) {
            Ok(status) if status.state == SessionState::Stopped => {}
            Ok(status) => up.push(status),
            Err(problem) if problem.code == ProblemCode::NotFound => {}
            Err(problem) => damaged.push(problem),
        }
    }
    Ok((up, damaged))
}

/// Puts sessions under those they were started in; siblings keep their order.
pub(crate) fn grow(sessions: Vec<SessionStatus>, helpers: &[SessionStatus]) -> Vec<SessionTreeNode> {
    let listed: BTreeSet<String> = sessions.iter().map(|status| status.id.clone()).collect();
    let mut tops = Vec::new();
    let mut below: BTreeMap<String, Vec<SessionStatus>> = BTreeMap::new();
    for status in sessions {
        // An id is minted before anything runs in its session, so only a damaged record has a session above itself.
        match status.what.parent.clone().filter(|parent| listed.contains(parent) && *parent != status.id) {
            Some(parent) => below.entry(parent).or_default().push(status),
            None => tops.push(status),
        }
    }
    let mut nodes: Vec<SessionTreeNode> =
        tops.into_iter().map(|top| node(top, &mut below, helpers)).collect();
    // The remaining sessions form circles: their records are damaged, but they must be shown.
    while let Some((_, circle)) = below.pop_first() {
        nodes.extend(circle.into_iter().map(|status| node(status, &mut below, helpers)).collect::<Vec<_>>());
    }
    nodes
}

fn node(
    status: SessionStatus,
    below: &mut BTreeMap<String, Vec<SessionStatus>>,
    helpers: &[SessionStatus],
) -> SessionTreeNode {
    let children = below.remove(&status.id).unwrap_or_default();
    let children = children.into_iter().map(|child| node(child, below, helpers)).collect();
    let is_owner = |helper: &&SessionStatus| {
        helper
            .helper
            .as_ref()
            .is_some_and(|helper| helper.owners.iter().any(|owner| owner.session == status.id))
    };
    let helpers = helpers.iter().filter(is_owner).cloned().collect();
    SessionTreeNode { status, helpers, children }
}

/// The lines of a tree, without their table.
pub(crate) fn rows(nodes: &[SessionTreeNode], now_ms: u64, current: Option<&str>) -> Vec<ListingRow> {
    let mut rows = Vec::new();
    for node in nodes {
        push(&mut rows, node, "", "", now_ms, current);
    }
    rows
}

fn push(
    rows: &mut Vec<ListingRow>,
    node: &SessionTreeNode,
    own: &str,
    rest: &str,
    now_ms: u64,
    current: Option<&str>,
) {
    let is_current = current == Some(node.status.id.as_str());
    rows.push(ListingRow { lines: own.to_owned(), is_current, ..ListingRow::of(&node.status, now_ms) });
    let total = node.helpers.len() + node.children.len();
    let lines = |at: usize| {
        let (corner, bar) = if at + 1 == total { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        (format!("{rest}{corner}"), format!("{rest}{bar}"))
    };
    for (at, helper) in node.helpers.iter().enumerate() {
        let row = ListingRow::of(helper, now_ms);
        let name = helper.helper.as_ref().map_or(row.session.as_str(), |helper| helper.name.as_str());
        rows.push(ListingRow { lines: lines(at).0, session: format!("helper {name}"), ..row });
    }
    for (at, child) in node.children.iter().enumerate() {
        let (own, rest) = lines(node.helpers.len() + at);
        push(rows, child, &own, &rest, now_ms, current);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::helper::{HelperStatus, OwnerStatus};
    use berth_api::status::SpecView;

    fn session(id: &str, parent: Option<&str>) -> SessionStatus {
        let what = SpecView { parent: parent.map(str::to_owned), ..SpecView::default() };
        SessionStatus { id: id.to_owned(), state: SessionState::Running, what, ..SessionStatus::default() }
    }

    fn drawn(nodes: &[SessionTreeNode]) -> Vec<String> {
        rows(nodes, 0, None).iter().map(|row| format!("{}{}", row.lines, row.session)).collect()
    }

    #[test]
    fn sessions_and_helpers_are_drawn_under_the_session_they_belong_to() {
        let owner = OwnerStatus { session: "a".to_owned(), ..OwnerStatus::default() };
        let web = HelperStatus { name: "web".to_owned(), owners: vec![owner], ..HelperStatus::default() };
        let web = SessionStatus { helper: Some(web), ..session("h", None) };
        let all = vec![
            session("a", None),
            session("b", Some("a")),
            session("c", Some("b")),
            session("d", Some("a")),
            session("e", None),
        ];
        let nodes = grow(all, &[web]);
        assert_eq!(drawn(&nodes), ["a", "├─ helper web", "├─ b", "│  └─ c", "└─ d", "e"]);
        let json = serde_json::to_value(&nodes).expect("plain data");
        assert_eq!(json[0]["children"][0]["children"][0]["id"], "c");
        assert_eq!(json[0]["helpers"][0]["helper"]["name"], "web");
        assert_eq!(json[1]["children"], serde_json::json!([]));
    }

    #[test]
    fn sessions_with_an_unlisted_or_circular_parent_are_still_in_the_tree() {
        let all = vec![
            session("a", Some("gone")),
            session("b", Some("b")),
            session("c", Some("d")),
            session("d", Some("c")),
        ];
        let mut ids: Vec<String> =
            drawn(&grow(all, &[])).iter().map(|line| line.trim_matches(['└', '─', ' ']).to_owned()).collect();
        ids.sort();
        assert_eq!(ids, ["a", "b", "c", "d"]);
    }
}
