//! Foreign conversations over HTTP: a program can do all that the command line can.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use berth_harness::{GatewayProcess, request, wait_until};
use serde_json::json;

use crate::foreign::{ForeignFixture, id, ids};

/// A gateway that looks where the world's agents keep their conversations.
fn serve(world: &ForeignFixture) -> GatewayProcess {
    let variables = world.env();
    let variables: Vec<(&str, String)> =
        variables.iter().map(|(name, value)| (*name, value.display().to_string())).collect();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    world.lab.serve_in(&[], &variables)
}

#[test]
fn everything_about_foreign_conversations_can_be_asked_over_http() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "mend the login page", 1);
    world.claude(&id('b'), "write a poem", 2);
    let open = world.open(&id('b'));
    let gateway = serve(&world);
    let list = gateway.get("/v1/foreign").ok();
    assert_eq!(ids(&list["conversations"]), [id('b'), id('a')]);
    assert_eq!(list["conversations"][0]["held_by"][0]["pid"], open.pid());
    assert_eq!(ids(&gateway.get("/v1/foreign?agent=codex").ok()["conversations"]), [""; 0]);
    gateway.get("/v1/foreign?agent=emacs").problem(400, "usage");
    gateway.get("/v1/foreign?cwd=relative").problem(400, "usage");
    let one = gateway.get("/v1/foreign/claude/aaaa").ok();
    assert_eq!(one["dialogue"]["exchanges"][0]["prompt"], "mend the login page");
    gateway.get("/v1/foreign/claude/ffff").problem(404, "not-found");
    let path = format!("/v1/foreign/claude/{}/adopt", id('b'));
    gateway.post(&path, &json!({"tui": true})).problem(409, "in-use");
    gateway.post(&path, &json!({"tui": true, "take": true, "wait_ms": 5})).problem(400, "usage");
    gateway.post(&path, &json!({"take": true, "take_only": [1]})).problem(400, "usage");
    gateway.post(&path, &json!({"tui": true, "take_only": [open.pid() + 1]})).problem(409, "in-use");
    gateway.post(&path, &json!({"wait_ms": 1})).problem(504, "timed-out");
    gateway.post("/v1/foreign/import", &json!({})).problem(400, "usage");
    let dry = gateway.post("/v1/foreign/import", &json!({"all": true, "dry_run": true})).ok();
    assert_eq!(dry["conversations"].as_array().map(Vec::len), Some(2), "{dry}");
    assert!(world.sessions().is_empty());
    let done = gateway.post("/v1/foreign/import", &json!({"conversations": [id('a')], "name": "login"})).ok();
    assert_eq!(done["conversations"][0]["outcome"], "imported");
    let again = gateway.post("/v1/foreign/import", &json!({"all": true})).ok();
    assert_eq!(
        again["conversations"].as_array().map(Vec::len),
        Some(1),
        "only the one that is open: {again}"
    );
    let taken = gateway.post(&path, &json!({"tui": true, "take_only": [open.pid()], "name": "poem"}));
    assert_eq!((taken.status, &taken.json()["state"]), (201, &"running".into()), "{}", taken.text());
    let sessions = gateway.get("/v1/sessions?all").ok();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(2), "{sessions}");
}

#[test]
fn b6_the_transcript_of_imported_and_terminal_sessions_has_what_the_agents_own_record_has() {
    let world = ForeignFixture::new();
    let file = world.claude(&id('a'), "mend the login page", 1);
    world.claude(&id('b'), "sing a song", 2);
    let mut more = File::options().append(true).open(&file).expect("the record");
    for number in 2..=50 {
        let prompt = json!({"type": "user", "uuid": format!("u{number}"), "message": {"content": format!("prompt {number}")}});
        let answer = json!([{"type": "text", "text": format!("answer {number}")}]);
        let answer =
            json!({"type": "assistant", "uuid": format!("a{number}"), "message": {"content": answer}});
        let books = json!({"type": "last-prompt", "lastPrompt": format!("prompt {number}")});
        writeln!(more, "{prompt}\n{answer}\n{books}").expect("a record");
    }
    let gateway = serve(&world);
    gateway.post("/v1/foreign/import", &json!({"conversations": [id('a')], "name": "login"})).ok();
    let prompts = |page: &serde_json::Value| -> Vec<String> {
        let all = page["record"]["exchanges"].as_array().expect("exchanges").iter();
        all.map(|one| one["prompt"].as_str().expect("a prompt").to_owned()).collect()
    };
    // An imported session: the newest first, and page by page to the beginning.
    let mut page = gateway.get("/v1/sessions/login/transcript?limit=20").ok();
    assert_eq!(
        (page["turns"].as_array().map(Vec::len), &page["record"]["agent"]),
        (Some(0), &"claude".into())
    );
    let mut all = prompts(&page);
    assert_eq!((all.len(), all[0].as_str(), all[19].as_str()), (20, "prompt 31", "prompt 50"));
    while let Some(before) = page["record"]["before"].as_u64() {
        page = gateway.get(&format!("/v1/sessions/login/transcript?limit=20&before={before}")).ok();
        all.splice(0..0, prompts(&page));
    }
    assert_eq!((all.len(), all[0].as_str(), all[1].as_str()), (50, "mend the login page", "prompt 2"));
    // A conversation that goes on in the agent's own terminal interface.
    let path = format!("/v1/foreign/claude/{}/adopt", id('b'));
    let adopted = gateway.post(&path, &json!({"tui": true, "name": "song"}));
    assert_eq!(adopted.status, 201, "{}", adopted.text());
    let page = gateway.get("/v1/sessions/song/transcript").ok();
    assert_eq!(prompts(&page), ["sing a song"]);
    assert_eq!(page["record"]["exchanges"][0]["items"][0]["text"], "the answer to sing a song");
    // A terminal without a conversation has no transcript.
    world.ok(&["run", "-d", "--name", "bare", "--", &world.lab.agent(), "hang"]);
    gateway.get("/v1/sessions/bare/transcript").problem(409, "refused");
}

#[test]
fn a_send_token_adopts_and_imports_only_conversations_of_directories_that_the_owner_chose() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "mend the login page", 1);
    let variables = world.env();
    let variables: Vec<(&str, String)> =
        variables.iter().map(|(name, value)| (*name, value.display().to_string())).collect();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let gateway = world.lab.serve_in(&["--listen=127.0.0.1:0"], &variables);
    let secret = world.ok(&["token", "new", "--scope", "send", "--name", "sends"]);
    let bearer = format!("Bearer {}", secret.trim());
    let post = |path: &str, body: &serde_json::Value| {
        gateway.ask_tcp("POST", path, &[("Authorization", &bearer)], Some(body))
    };
    let adopt = format!("/v1/foreign/claude/{}/adopt", id('a'));
    let problem = post(&adopt, &json!({"tui": true})).problem(403, "not-allowed");
    assert!(problem["detail"].as_str().is_some_and(|it| it.contains("[send]")), "{problem}");
    for dry_run in [true, false] {
        let body = json!({"conversations": [id('a')], "dry_run": dry_run});
        let done = post("/v1/foreign/import", &body).ok();
        assert_eq!(done["conversations"][0]["outcome"], "refused", "{done}");
    }
    assert!(world.sessions().is_empty());
    world.ok(&["run", "-d", "--", &world.lab.agent(), "hang"]);
    let adopted = post(&adopt, &json!({"tui": true}));
    assert_eq!(adopted.status, 201, "{}", adopted.text());
}

/// Makes a file longer by zeroes that take no room on the disk.
fn stretch(file: &Path, bytes: u64) {
    File::options().append(true).open(file).and_then(|file| file.set_len(bytes)).expect("a sparse file");
}

/// How many bytes a process has read.
fn read_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a count");
    line.trim().parse().expect("a number")
}

#[test]
fn a_transcript_of_20_gib_is_refused_before_it_is_read_and_the_list_still_has_it() {
    let world = ForeignFixture::new();
    let file = world.claude(&id('a'), "mend the login page", 1);
    world.claude(&id('b'), "write a poem", 2);
    stretch(&file, 20 << 30);
    let gateway = serve(&world);
    let before = read_bytes(gateway.pid());
    let one = gateway.get(&format!("/v1/foreign/claude/{}", id('a')));
    assert!(one.status == 409 && one.text().contains("for one request 1024 MiB"), "{one:?}");
    let tree = gateway.get(&format!("/v1/foreign/claude/{}/tree", id('a')));
    assert!(tree.status == 409 && tree.text().contains("for one request 1024 MiB"), "{tree:?}");
    let check = gateway.get(&format!("/v1/foreign/claude/{}/check", id('a'))).ok();
    assert!(check["is_clean"] == false && check.to_string().contains("1024 MiB"), "{check}");
    let list = gateway.get("/v1/foreign").ok();
    assert_eq!(list["conversations"].as_array().map(Vec::len), Some(2), "{list}");
    assert!(gateway.get(&format!("/v1/foreign/claude/{}/check", id('b'))).ok()["is_clean"] == true);
    let read = read_bytes(gateway.pid()) - before;
    assert!(read < 1 << 30, "{read} bytes were read");
}

#[test]
fn a_transcript_is_read_no_further_once_its_client_has_left() {
    const SIZE: u64 = 1000 << 20;
    let world = ForeignFixture::new();
    let file = world.claude(&id('a'), "mend the login page", 1);
    world.claude(&id('b'), "write a poem", 2);
    stretch(&file, SIZE);
    let gateway = serve(&world);
    let before = read_bytes(gateway.pid());
    let path = format!("/v1/foreign/claude/{}/check", id('a'));
    // As many as may read at once.
    let mut leaving = Vec::new();
    for _ in 0..4 {
        let mut stream = gateway.connect();
        stream.write_all(&request("GET", &path, &[], None)).expect("the gateway listens");
        leaving.push(stream);
    }
    wait_until("them to be read for", || read_bytes(gateway.pid()) - before > 16 << 20);
    drop(leaving);
    assert!(gateway.get(&format!("/v1/foreign/claude/{}/check", id('b'))).ok()["is_clean"] == true);
    let read = read_bytes(gateway.pid()) - before;
    assert!(read < SIZE, "{read} bytes were read, although no client waited");
}
