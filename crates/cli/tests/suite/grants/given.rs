//! Grants: the rights each adds, who gives them, and that no child inherits one.

use crate::grants::{agent, inside, lab, wait_asks};

#[test]
fn each_grant_goes_as_far_as_it_says() {
    let lab = lab();
    agent(&lab, "sender", &["--grant", "send"]);
    agent(&lab, "decider", &["--grant", "control"]);
    agent(&lab, "master", &["--grant", "admin"]);
    agent(&lab, "other", &[]);
    lab.start_with(&["--name", "term"], &["echo"]);
    inside(&lab, "sender", "berth send other --wait hello").ok();
    inside(&lab, "sender", "berth send sender 'go on'").ok();
    inside(&lab, "sender", "berth stop other").refused("sender");
    lab.ok(["send", "other", "ask:Bash:rm -rf x"]);
    wait_asks(&lab, "other");
    let said = inside(&lab, "sender", "berth answer other allow").refused("sender");
    assert!(said.contains("--grant control"), "{said}");
    inside(&lab, "decider", "berth answer other deny").ok();
    inside(&lab, "decider", "berth input term hello").ok();
    lab.wait_output("term", "hello");
    inside(&lab, "decider", "berth sweep").ok();
    inside(&lab, "decider", "berth stop term").ok();
    let said = inside(&lab, "decider", "berth purge term --yes").refused("decider");
    assert!(said.contains("--grant admin"), "{said}");
    inside(&lab, "master", "berth purge term --yes").ok();
    assert_eq!(lab.berth(["show", "term"]).code, 3);
    // The session may end itself: it was given that right.
    lab.ok(["send", "decider", &format!("sh:{} stop decider", crate::grants::BERTH)]);
    // A session that takes its time to leave is ended, and has that code.
    let waited = lab.berth(["wait", "decider", "--for", "exit", "--timeout", "60s"]);
    assert!(matches!(waited.code, 0 | 143), "{waited:?}");
    assert_eq!(lab.show("decider")["state"], "stopped");
}

#[test]
fn a_grant_is_shown_kept_over_runs_and_not_inherited() {
    let lab = lab();
    agent(&lab, "outer", &["--grant", "control"]);
    agent(&lab, "other", &[]);
    assert_eq!(lab.show("outer")["grant"], "control");
    assert_eq!(lab.show("other")["grant"], "none");
    let shown = lab.ok(["show", "outer"]);
    assert!(shown.contains("grant      control"), "{shown}");
    let why = lab.ok(["why", "outer"]);
    assert!(why.contains("control: processes inside may end and answer any session"), "{why}");
    // A session that it starts has no grant unless the command asks for one, and then at most its own.
    inside(&lab, "outer", "berth run -d --agent fake --name child").ok();
    assert_eq!(lab.show("child")["grant"], "none");
    inside(&lab, "child", "berth stop other").refused("child");
    inside(&lab, "outer", "berth run -d --agent fake --name deputy --grant control").ok();
    inside(&lab, "outer", "berth run -d --agent fake --name more --grant admin").refused("outer");
    assert_eq!(lab.berth(["show", "more"]).code, 3, "nothing of it is left");
    inside(&lab, "deputy", "berth fork outer --name copy").ok();
    assert_eq!(lab.show("copy")["grant"], "none");
    lab.ok(["stop", "deputy"]);
    lab.ok(["resume", "deputy", "-d"]);
    inside(&lab, "deputy", "berth stop other").ok();
}

#[test]
fn a_grant_that_is_only_in_the_status_cache_is_none() {
    let lab = lab();
    let outer = agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    let path = lab.session_dir(&outer).join("status.json");
    let forge = format!("sed -i 's/\"grant\":\"none\"/\"grant\":\"admin\"/' {}", path.display());
    let said =
        inside(&lab, "outer", &format!("{forge}; grep -c admin {} && berth stop other", path.display()));
    assert!(said.text.starts_with('1'), "it was forged: {said:?}");
    said.refused("outer");
}
