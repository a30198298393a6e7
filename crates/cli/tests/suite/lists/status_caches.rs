//! Lists are read from status caches, and know as much as the journal.

use std::process::Stdio;

use berth_harness::wait_until;
use serde_json::{Value, json};

use super::{keep_busy, lab};

/// Waits until the agent was released, and its keeper is gone: the lease is the last thing it lets go.
fn gone(dir: &std::path::Path) {
    use berth_host::lock::{LockState, lock_state};
    wait_until("its keeper to be gone", || {
        !dir.join("sock").exists() && matches!(lock_state(&dir.join("lease")), Ok(Some(LockState::Free)))
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
    // The status cache is written after a while, so that not every list has to read the journal.
    let status_cache = lab.session_dir(&id).join("status.json");
    wait_until("the status cache to say so", || {
        let text = std::fs::read_to_string(&status_cache).unwrap_or_default();
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
    // By then the status cache has all that the journal tells; later changes are in no journal.
    let status_cache = || std::fs::read(lab.session_dir(&id).join("status.json")).unwrap_or_default();
    let told = || serde_json::from_slice::<serde_json::Value>(&status_cache()).unwrap_or_default();
    wait_until("the status cache to have it all", || {
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
fn the_status_cache_of_a_released_agent_is_believed_until_something_happens() {
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
    // A reader of the journal notices that it is damaged; a list has no reason to.
    let journal =
        std::fs::read_dir(dir.join("journal")).expect("a journal").flatten().map(|file| file.path());
    let journal = journal.max().expect("a file of the journal");
    let whole = std::fs::read(&journal).expect("a journal");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(&journal, &damaged).expect("our own directory");
    assert_eq!(lab.json(["ls", "--json"]), released);
    // A journal that is longer than the status cache says invalidates the status cache.
    damaged.push(0);
    std::fs::write(&journal, &damaged).expect("our own directory");
    let said = lab.berth(["ls", "--json"]);
    assert_eq!((said.code, said.out.as_str()), (1, "[]\n"), "{said:?}");
    assert!(said.err.contains(&id), "{said:?}");
    std::fs::write(&journal, &whole).expect("our own directory");
    assert_eq!(lab.json(["ls", "--json"]), released);
}

#[test]
fn a_released_session_that_is_tagged_is_still_listed_by_its_status_cache() {
    let lab = lab();
    let id = lab.ok(["run", "-d", "--agent", "fake", "--idle", "50ms"]);
    let dir = lab.session_dir(&id);
    gone(&dir);
    lab.ok(["tag", &id, "work"]);
    let text = std::fs::read(dir.join("status.json")).expect("a status cache");
    let status_cache: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let journal = dir.join("journal").join(status_cache["journal_file"].as_str().expect("a name"));
    let length = std::fs::metadata(journal).expect("a journal").len();
    assert_eq!((&status_cache["tags"], &status_cache["journal_bytes"]), (&json!(["work"]), &json!(length)));
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
fn a_run_that_ends_while_a_command_reads_it_is_not_called_lost() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    // `why` reads the journal and tries the lease, and clears nothing up that would hide a wrong claim.
    let mut why = lab.command(["why", &id, "--json"]);
    why.env("BERTH_KILLPOINT", "stop:view-between-journal-and-lease").stdout(Stdio::piped());
    let why = why.spawn().expect("berth starts");
    let is_stopped = || berth_host::identity::process_stat(why.id()).is_ok_and(|stat| stat.state == 'T');
    wait_until("it to have read the journal", is_stopped);
    lab.ok(["stop", &id]);
    gone(&lab.session_dir(&id));
    let pid = rustix::process::Pid::from_raw(why.id().cast_signed()).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("our own child");
    let said = why.wait_with_output().expect("it ends");
    let why: Value = serde_json::from_slice(&said.stdout).expect("the evidence");
    assert_eq!(why["state"], "stopped", "{why}");
}
