//! C9: the store cannot be written. Refused with 503; nothing runs unrecorded, and it is well again when there is room.

use std::fs;
use std::io::Write;

use berth_harness::TmpfsMount;
use serde_json::json;

use crate::gateway_turns::{at, did, lab, prompts, seen_states, send_keyed, start, text, told};

#[test]
fn c9_without_room_for_the_record_a_turn_is_refused_with_503_and_never_run() {
    let lab = lab();
    let Some(_mount) = TmpfsMount::new(&lab.home(), "size=2m") else { return };
    let gateway = lab.serve();
    let (kept, unkept) = (start(&lab, &[]), start(&lab, &[]));
    told(&gateway, &kept, "first");
    told(&gateway, &unkept, "first");
    lab.ok(["stop", "--grace", "0s", &unkept]);
    let ballast = lab.home().join("ballast");
    let mut file = fs::File::create(&ballast).expect("a file");
    let mut chunk = 64 * 1024;
    while chunk > 0 {
        if file.write_all(&vec![0; chunk]).is_err() {
            chunk /= 2;
        }
    }
    let body = json!({"text": "x".repeat(20_000), "wait": true});
    for id in [&kept, &unkept] {
        let reply = send_keyed(&gateway, id, "k", &body);
        assert_eq!(reply.status, 503, "{id}: {}", reply.text());
        assert!(reply.header("retry-after").is_some(), "{}", reply.text());
    }
    let mut changed = send_keyed(&gateway, &kept, "k", &body);
    assert_eq!(changed.status, 503);
    changed = gateway.ask("PATCH", &at(&kept, "queue"), &[], Some(&json!({"paused": true})));
    assert!(matches!(changed.status, 200 | 503), "{}", changed.text());
    drop(file);
    fs::remove_file(&ballast).expect("the ballast");
    for id in [&kept, &unkept] {
        assert_eq!(prompts(&did(&lab, id)), ["first"], "nothing ran unrecorded");
        assert_eq!(seen_states(&gateway, id), ["done"], "and nothing is half stored");
        gateway.ask("PATCH", &at(id, "queue"), &[], Some(&json!({"paused": false}))).ok();
        let done = send_keyed(&gateway, id, "k", &body).ok();
        assert_eq!(text(&done, "state"), "done");
        assert_eq!(did(&lab, id).len(), 2, "once");
    }
    drop(gateway);
    for id in [&kept, &unkept] {
        lab.ok(["stop", "--grace", "0s", id]);
    }
}
