//! Output, screens, and one-time input.

use berth_harness::wait_until;
use serde_json::json;

use crate::gateway_live::lab;

#[test]
fn output_is_given_by_offset_byte_for_byte_and_says_how_far_it_reaches() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["raw", "flood:3M", "say:\\xc3\\e[31mdone", "hang"]);
    lab.wait_output(&id, "done");
    let all = lab.output(&id);
    let end = all.len().to_string();
    let path = format!("/v1/sessions/{id}/output");
    let mut got = Vec::new();
    while got.len() < all.len() {
        let piece = gateway.get(&format!("{path}?from={}&limit=700001", got.len()));
        assert_eq!(piece.status, 200);
        assert_eq!(piece.header("x-output-from"), Some(got.len().to_string().as_str()));
        assert_eq!(piece.header("x-output-end"), Some(end.as_str()));
        assert_eq!(piece.body.len(), 700_001.min(all.len() - got.len()));
        got.extend(piece.body);
    }
    assert!(got == all);
    assert_eq!(gateway.get(&path).body, all[..1024 * 1024]);
    for behind in [all.len() as u64, u64::MAX] {
        let nothing = gateway.get(&format!("{path}?from={behind}"));
        assert_eq!((nothing.body.len(), nothing.header("x-output-end")), (0, Some(end.as_str())));
    }
    assert_eq!(gateway.get(&format!("{path}?limit=0")).header("x-output-end"), Some(end.as_str()));
    for query in ["limit=8388609", "from=-1", "form=3"] {
        gateway.get(&format!("{path}?{query}")).problem(400, "usage");
    }
    gateway.get("/v1/sessions/nobody/output").problem(404, "not-found");
}

#[test]
fn a_screen_is_shown_with_and_without_colours_and_also_when_the_session_is_over() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["say:\\e[31mred\\e[0m", "expect:go"]);
    lab.wait_output(&id, "red");
    let path = format!("/v1/sessions/{id}/screen");
    for _ in 0..2 {
        let plain = gateway.get(&path);
        assert_eq!(plain.text().trim_end(), "red");
        assert_eq!(plain.header("content-type"), Some("text/plain; charset=utf-8"));
        let coloured = gateway.get(&format!("{path}?format=ansi")).text();
        assert!(coloured.contains("31mred"), "{coloured:?}");
        lab.ok(["stop", &id]);
    }
    gateway.get(&format!("{path}?format=html")).problem(400, "usage");
}

#[test]
fn typing_once_is_one_writer_that_types_and_leaves() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start(&["say:ready", "expect:hello", "expect", "say:got", "hang"]);
    let path = format!("/v1/sessions/{id}/input");
    let status = gateway.post(&path, &json!({"text": "hello", "enter": true})).ok();
    assert_eq!((&status["id"], &status["writer"]), (&json!(id), &json!(null)));
    lab.wait_output(&id, "got");
    let typed = lab.events(&id, "typed");
    assert_eq!(typed[0]["bytes"], 6);
    // Another client sits at the terminal.
    let mut terminal = gateway.terminal(&id, "role=writer");
    terminal.wait_for("got");
    gateway.post(&path, &json!({"text": "x"})).problem(409, "held");
    assert_eq!(lab.events(&id, "typed").len(), 1);
    gateway.post(&path, &json!({"text": "x", "take": true})).ok();
    assert!(terminal.wait_remark("replaced")["by"].as_str().is_some_and(|by| by.contains("socket")));
    gateway.post(&path, &json!({"text": "x", "then": 1})).problem(400, "usage");
    gateway.post(&path, &json!({"enter": true})).problem(400, "usage");
    let too_much = gateway.post(&path, &json!({"text": "x".repeat(128 * 1024 + 1)}));
    assert_eq!(too_much.json()["code"], "refused", "{}", too_much.text());
    lab.ok(["stop", &id]);
    wait_until("its end", || lab.show(&id)["state"] == "stopped");
    let over = gateway.post(&path, &json!({"text": "x"}));
    assert!((400..500).contains(&over.status), "{}", over.text());
}
