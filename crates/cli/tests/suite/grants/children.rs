//! Rights of every agent without a grant: look, start sessions, and see to those.

use crate::grants::{agent, inside, lab};

#[test]
fn an_agent_sees_to_its_children_and_their_children() {
    let lab = lab();
    let outer = agent(&lab, "outer", &[]);
    let child = inside(&lab, "outer", "berth run -d --agent fake --name child").ok().trim().to_owned();
    assert_eq!(lab.show("child")["parent"], outer.as_str());
    inside(&lab, "child", "berth run -d --agent fake --name grandchild").ok();
    assert_eq!(lab.show("grandchild")["parent"], child.as_str());
    for command in [
        "berth send child --wait hello",
        "berth send grandchild --wait hello",
        "berth queue child pause",
        "berth queue child resume",
        "berth tag child mine",
        "berth note child mine",
        "berth policy child --ttl 1h",
        "berth rename child kid",
        "berth rename kid child",
        "berth stop grandchild",
        "berth resume grandchild -d",
        "berth stop grandchild",
        "berth archive grandchild",
        "berth restore grandchild",
        "berth fork child --name twin",
        "berth stop twin",
        "berth archive child --stop",
    ] {
        inside(&lab, "outer", command).ok();
    }
    // With an import the agent could make any conversation its child's, and end the process that has it open.
    let said = inside(&lab, "outer", "berth resume grandchild -d --take").refused("outer");
    assert!(said.contains("end another writer of a conversation: this needs the grant `control`"), "{said}");
    assert_eq!(lab.show("child")["state"], "archived");
    assert_eq!(lab.show("twin")["parent"], outer.as_str());
    // A child has no rights over its siblings, and its parent is a stranger to it.
    inside(&lab, "outer", "berth run -d --agent fake --name one").ok();
    inside(&lab, "outer", "berth run -d --agent fake --name two").ok();
    inside(&lab, "one", "berth stop two").refused("one");
    inside(&lab, "one", "berth stop outer").refused("one");
}

#[test]
fn an_agent_looks_at_everything_and_describes_itself() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    lab.ok(["send", "other", "--wait", "hello"]);
    for command in [
        "berth ls --json",
        "berth show other",
        "berth why other",
        "berth ps",
        "berth turns other",
        "berth result other.1",
        "berth log other",
        "berth wait other --for idle",
        "berth grep hello",
        "berth export other",
        "berth sweep --dry-run",
        "berth helper ls",
        "berth note outer 'what I am at'",
        "berth tag outer busy",
    ] {
        inside(&lab, "outer", command).ok();
    }
    assert_eq!(lab.show("outer")["note"], "what I am at");
}

#[test]
fn an_agent_uses_and_ends_helpers_of_its_own_and_leaves_shared_ones_to_the_others() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    let sleeper = format!("{} hang", lab.agent());
    inside(&lab, "outer", &format!("berth helper ensure mine -- {sleeper}")).ok();
    inside(&lab, "outer", &format!("berth helper ensure shared -- {sleeper}")).ok();
    inside(&lab, "other", &format!("berth helper ensure shared -- {sleeper}")).ok();
    inside(&lab, "outer", "berth helper stop shared").refused("outer");
    inside(&lab, "outer", "berth helper release shared --owner other").refused("outer");
    inside(&lab, "outer", "berth helper release shared").ok();
    inside(&lab, "outer", "berth helper stop mine").ok();
    assert_eq!(lab.json(["helper", "show", "shared", "--json"])["state"], "running");
    inside(&lab, "other", "berth helper stop shared").ok();
}
