//! Who belongs under whom: sessions that were started in a session, and helpers that it shares.
//!
//! Promise: every session that is listed is in the tree once, under the session it was started in if that is
//! listed, else on top. A helper is under each of its owners.
//! Start with [`grow`].

use std::collections::{BTreeMap, BTreeSet};

use berth_api::{Code, Problem, SessionState, Status};
use berth_store::view;
use serde::Serialize;

use super::row::Row;
use crate::ctx::Ctx;

/// A session and what belongs under it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Node {
    #[serde(flatten)]
    pub(crate) status: Status,
    /// The helpers it shares.
    pub(crate) helpers: Vec<Status>,
    /// The sessions that were started in it.
    pub(crate) children: Vec<Node>,
}

/// The helpers that are up, and what is wrong with those that cannot be read.
pub(crate) fn helpers(ctx: &Ctx) -> Result<(Vec<Status>, Vec<Problem>), Problem> {
    let Some(shelf) = ctx.home.shelves().into_iter().find(|shelf| shelf.is_helpers()) else {
        return Ok((Vec::new(), Vec::new()));
    };
    let ids = shelf.list()?;
    let (mut up, mut damaged) = (Vec::new(), Vec::new());
    for id in ids {
        match view::status(&shelf, &id) {
            Ok(status) if status.state == SessionState::Stopped => {}
            Ok(status) => up.push(status),
            Err(problem) if problem.code == Code::NotFound => {}
            Err(problem) => damaged.push(problem),
        }
    }
    Ok((up, damaged))
}

/// Puts sessions under the ones they were started in; those on one level keep their order.
pub(crate) fn grow(sessions: Vec<Status>, helpers: &[Status]) -> Vec<Node> {
    let listed: BTreeSet<String> = sessions.iter().map(|status| status.id.clone()).collect();
    let mut tops = Vec::new();
    let mut below: BTreeMap<String, Vec<Status>> = BTreeMap::new();
    for status in sessions {
        // Ids are minted before anything runs in them, so nobody is above itself but in a damaged record.
        match status.what.parent.clone().filter(|parent| listed.contains(parent) && *parent != status.id) {
            Some(parent) => below.entry(parent).or_default().push(status),
            None => tops.push(status),
        }
    }
    let mut nodes: Vec<Node> = tops.into_iter().map(|top| node(top, &mut below, helpers)).collect();
    // What is left goes round in circles: damaged, and still to be seen.
    while let Some((_, circle)) = below.pop_first() {
        nodes.extend(circle.into_iter().map(|status| node(status, &mut below, helpers)).collect::<Vec<_>>());
    }
    nodes
}

fn node(status: Status, below: &mut BTreeMap<String, Vec<Status>>, helpers: &[Status]) -> Node {
    let children = below.remove(&status.id).unwrap_or_default();
    let children = children.into_iter().map(|child| node(child, below, helpers)).collect();
    let is_owner = |helper: &&Status| {
        helper
            .helper
            .as_ref()
            .is_some_and(|helper| helper.owners.iter().any(|owner| owner.session == status.id))
    };
    let helpers = helpers.iter().filter(is_owner).cloned().collect();
    Node { status, helpers, children }
}

/// The lines of a tree, without their table.
pub(crate) fn rows(nodes: &[Node], now_ms: u64, current: Option<&str>) -> Vec<Row> {
    let mut rows = Vec::new();
    for node in nodes {
        push(&mut rows, node, "", "", now_ms, current);
    }
    rows
}

fn push(rows: &mut Vec<Row>, node: &Node, own: &str, rest: &str, now_ms: u64, current: Option<&str>) {
    let is_current = current == Some(node.status.id.as_str());
    rows.push(Row { lines: own.to_owned(), is_current, ..Row::of(&node.status, now_ms) });
    let total = node.helpers.len() + node.children.len();
    let lines = |at: usize| {
        let (corner, bar) = if at + 1 == total { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        (format!("{rest}{corner}"), format!("{rest}{bar}"))
    };
    for (at, helper) in node.helpers.iter().enumerate() {
        let row = Row::of(helper, now_ms);
        let name = helper.helper.as_ref().map_or(row.session.as_str(), |helper| helper.name.as_str());
        rows.push(Row { lines: lines(at).0, session: format!("helper {name}"), ..row });
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
    use berth_api::status::What;

    fn session(id: &str, parent: Option<&str>) -> Status {
        let what = What { parent: parent.map(str::to_owned), ..What::default() };
        Status { id: id.to_owned(), state: SessionState::Running, what, ..Status::default() }
    }

    fn drawn(nodes: &[Node]) -> Vec<String> {
        rows(nodes, 0, None).iter().map(|row| format!("{}{}", row.lines, row.session)).collect()
    }

    #[test]
    fn sessions_and_helpers_are_drawn_under_the_session_they_belong_to() {
        let owner = OwnerStatus { session: "a".to_owned(), ..OwnerStatus::default() };
        let web = HelperStatus { name: "web".to_owned(), owners: vec![owner], ..HelperStatus::default() };
        let web = Status { helper: Some(web), ..session("h", None) };
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
    fn nobody_is_lost_whose_parent_is_not_listed_or_who_is_above_itself() {
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
