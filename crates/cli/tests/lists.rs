//! Lists of sessions that take turns: they are read from a short cut, and know as much as the journal.
//!
//! Not here: how fast that is (see `bench`), and short cuts that are damaged (see `damage`).

use berth_harness::{Lab, wait_until};
use serde_json::json;

#[test]
fn a_list_knows_of_a_turn_as_soon_as_its_receipt_is_given() {
    let lab = Lab::new(env!("CARGO_BIN_EXE_berth"));
    let command = json!([lab.agent(), "acp"]);
    let config = format!("[agents.fake]\ndriver = \"acp\"\ncommand = {command}\n");
    std::fs::write(lab.config(), config).expect("a config file");
    let id = lab.ok(["run", "-d", "--agent", "fake"]).trim().to_owned();
    let gate = lab.dir().join("gate");
    lab.ok(["send", &id, &format!("wait-file:{}", gate.display())]);
    for total in 2..=20 {
        lab.ok(["send", &id, "hello"]);
        let listed = lab.json(["ls", "--json"]);
        let turns = &listed[0]["turns"];
        assert_eq!(turns["total"], total, "{listed}");
        assert_eq!(turns["queued"].as_array().map(Vec::len), Some(total - 1), "{listed}");
        assert_eq!(listed[0]["state"], "working", "{listed}");
    }
    std::fs::write(&gate, "").expect("our own directory");
    lab.ok(["wait", &id, "--for", "idle"]);
    let listed = lab.json(["ls", "--json"]);
    assert_eq!((&listed[0]["state"], &listed[0]["turns"]["queued"]), (&json!("idle"), &json!([])));
    // And the short cut is written, by and by, so that not every list has to read the journal.
    let short_cut = lab.session_dir(&id).join("status.json");
    wait_until("the short cut to say so", || {
        let text = std::fs::read_to_string(&short_cut).unwrap_or_default();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        value["turns"]["total"] == 20 && value["state"] == "idle"
    });
    lab.ok(["stop", &id]);
}
