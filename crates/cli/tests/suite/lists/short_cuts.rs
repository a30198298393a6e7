//! Lists are read from short cuts, and know as much as the journal.

use std::process::Stdio;

use berth_harness::wait_until;
use serde_json::{Value, json};

use super::{keep_busy, lab};

/// Waits until the agent was released, and its keeper is gone: the lease is the last thing it lets go.
fn gone(dir: &std::path::Path) {
    use berth_host::lock::{Probe, probe};
    wait_until("its keeper to be gone", || {
        !dir.join("sock").exists() && matches!(probe(&dir.join("lease")), Ok(Some(Probe::Free)))
    });
}

#[test]
fn a_list_knows_of_a_turn_as_soon_as_its_receipt_is_given() {
    let lab = lab();
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

#[test]
fn a_list_says_what_the_agent_does_at_the_moment() {
    let lab = lab();
    let id = lab.ok(["run", "-d", "--name", "busy", "--agent", "fake"]);
    let first = lab.dir().join("first");
    let steps = format!("tool:Bash:begin\nwait-file:{}\ntool:Bash:make all", first.display());
    let gate = keep_busy(&lab, &id, &steps);
    // By then the short cut has all that the journal tells; what comes next is in no journal.
    let short_cut = || std::fs::read(lab.session_dir(&id).join("status.json")).unwrap_or_default();
    let told = || serde_json::from_slice::<serde_json::Value>(&short_cut()).unwrap_or_default();
    wait_until("the short cut to have it all", || {
        told()["turns"]["activity"] == "Bash: begin" && told()["seq"] == lab.log(&id).len()
    });
    std::fs::write(first, "").expect("our own directory");
    let doing = || lab.json(["ls", "--json"])[0]["turns"]["activity"].as_str().unwrap_or_default().to_owned();
    wait_until("the list to say what it does", || doing() == "Bash: make all");
    let text = lab.ok(["ls"]);
    assert!(text.contains("working") && text.ends_with("Bash: make all"), "{text}");
    std::fs::write(gate, "").expect("our own directory");
    lab.ok(["wait", &id, "--for", "idle"]);
    let text = lab.ok(["ls"]);
    let asked = format!("> tool:Bash:begin wait-file:{}", lab.dir().join("first").display());
    assert!(text.contains("idle") && text.contains(&asked), "it said nothing, so what it was asked: {text}");
    lab.ok(["send", &id, "say:All done.", "--wait"]);
    let text = lab.ok(["ls"]);
    assert!(text.ends_with("All done."), "{text}");
}

#[test]
fn the_short_cut_of_a_released_agent_is_believed_until_something_happens() {
    let lab = lab();
    let id = lab.ok(["run", "-d", "--agent", "fake", "--idle", "50ms"]);
    lab.ok(["send", &id, "hello", "--wait"]);
    let dir = lab.session_dir(&id);
    gone(&dir);
    let released = lab.json(["ls", "--json"]);
    assert_eq!(
        (&released[0]["state"], &released[0]["keeper_pid"]),
        (&json!("idle"), &json!(null)),
        "{released}"
    );
    assert_eq!(released, json!([lab.show(&id)]), "a list and a look into it agree");
    // Whoever reads the journal notices that it is damaged; a list has no reason to.
    let journal =
        std::fs::read_dir(dir.join("journal")).expect("a journal").flatten().map(|file| file.path());
    let journal = journal.max().expect("a file of the journal");
    let whole = std::fs::read(&journal).expect("a journal");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(&journal, &damaged).expect("our own directory");
    assert_eq!(lab.json(["ls", "--json"]), released);
    // Once it is longer than the short cut says, that counts for nothing.
    damaged.push(0);
    std::fs::write(&journal, &damaged).expect("our own directory");
    let said = lab.berth(["ls", "--json"]);
    assert_eq!((said.code, said.out.as_str()), (1, "[]\n"), "{said:?}");
    assert!(said.err.contains(&id), "{said:?}");
    std::fs::write(&journal, &whole).expect("our own directory");
    assert_eq!(lab.json(["ls", "--json"]), released);
}

#[test]
fn a_released_session_that_is_tagged_is_still_listed_by_its_short_cut() {
    let lab = lab();
    let id = lab.ok(["run", "-d", "--agent", "fake", "--idle", "50ms"]);
    let dir = lab.session_dir(&id);
    gone(&dir);
    lab.ok(["tag", &id, "work"]);
    let text = std::fs::read(dir.join("status.json")).expect("a short cut");
    let short_cut: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let journal = dir.join("journal").join(short_cut["journal_file"].as_str().expect("a name"));
    let length = std::fs::metadata(journal).expect("a journal").len();
    assert_eq!((&short_cut["tags"], &short_cut["journal_bytes"]), (&json!(["work"]), &json!(length)));
    assert_eq!(lab.json(["ls", "--json"])[0]["tags"], json!(["work"]));
}

#[test]
fn a_released_session_that_is_taken_up_again_is_not_called_idle() {
    let lab = lab();
    let id = lab.ok(["run", "-d", "--agent", "fake", "--idle", "50ms"]);
    gone(&lab.session_dir(&id));
    assert_eq!(lab.json(["ls", "--json"])[0]["state"], "idle");
    let gate = keep_busy(&lab, &id, "say:on it");
    wait_until("its agent to work", || {
        let state = lab.json(["ls", "--json"])[0]["state"].clone();
        assert_ne!(state, "idle", "it has a turn");
        state == "working"
    });
    std::fs::write(gate, "").expect("our own directory");
}

#[test]
fn a_run_that_ends_while_somebody_looks_is_not_called_lost() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    // Who asks why reads the journal and tries the lease, and clears nothing up that would hide a wrong claim.
    let mut why = lab.command(["why", &id, "--json"]);
    why.env("BERTH_KILLPOINT", "stop:view-between-journal-and-lease").stdout(Stdio::piped());
    let why = why.spawn().expect("berth starts");
    let is_stopped = || berth_host::identity::stat(why.id()).is_ok_and(|stat| stat.state == 'T');
    wait_until("it to have read the journal", is_stopped);
    lab.ok(["stop", &id]);
    gone(&lab.session_dir(&id));
    let pid = rustix::process::Pid::from_raw(why.id().cast_signed()).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("our own child");
    let said = why.wait_with_output().expect("it ends");
    let why: Value = serde_json::from_slice(&said.stdout).expect("the evidence");
    assert_eq!(why["state"], "stopped", "{why}");
}
