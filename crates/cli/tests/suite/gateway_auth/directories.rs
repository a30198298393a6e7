//! A token below `control` starts sessions only in directories that the owner chose: the files in a directory decide
//! what an agent runs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use berth_harness::{GatewayProcess, HttpResponse, TestEnvironment};
use serde_json::{Value, json};

use crate::gateway_auth::{ask, serve, token};

/// The uid of an account that does not exist, for directories of another account.
const OTHER_ACCOUNT: u32 = 54_321;

/// The gateway comes first: the lab looks for processes that are left behind.
struct DirectoryScopeFixture {
    gateway: GatewayProcess,
    lab: TestEnvironment,
    sends: String,
}

impl DirectoryScopeFixture {
    fn new() -> Self {
        let lab = TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"));
        let gateway = serve(&lab);
        let sends = token(&lab, "send", "sends", &[]);
        Self { lab, gateway, sends }
    }

    fn dir(&self, name: &str) -> PathBuf {
        let dir = self.lab.dir().canonicalize().expect("the lab").join(name);
        fs::create_dir_all(&dir).expect("a directory");
        dir
    }

    fn list(&self, dir: &Path) {
        let known = fs::read_to_string(self.lab.config()).expect("a config");
        fs::write(self.lab.config(), format!("{known}[send]\ndirectories = [{dir:?}]\n")).expect("a config");
    }

    fn post(&self, path: &str, body: &Value) -> HttpResponse {
        ask(&self.gateway, "POST", path, &self.sends, Some(body))
    }

    fn start(&self, cwd: &Path) -> HttpResponse {
        self.post("/v1/sessions", &json!({"agent": "fake", "cwd": cwd}))
    }

    fn run(&self, dir: &Path, name: &str) {
        let dir = dir.to_str().expect("UTF-8");
        self.lab.ok(["run", "-d", "--agent", "fake", "--cwd", dir, "--name", name]);
    }
}

/// The directory was refused, and the answer says which key to set.
fn refused(reply: &HttpResponse) -> String {
    let problem = reply.problem(403, "not-allowed");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("[send]") && detail.contains("directories"), "{problem}");
    problem["title"].as_str().expect("words").to_owned()
}

fn is_of_another_account(reply: &HttpResponse) {
    let problem = reply.problem(403, "not-allowed");
    assert!(problem["title"].as_str().is_some_and(|it| it.contains("another account")), "{problem}");
}

#[test]
fn a_send_token_starts_no_session_in_a_directory_that_the_owner_did_not_choose() {
    let world = DirectoryScopeFixture::new();
    let dir = world.dir("any");
    refused(&world.start(&dir));
    refused(&world.post("/v1/sessions", &json!({"agent": "fake", "cwd": dir, "tui": true})));
    refused(&world.post("/v1/sessions", &json!({"agent": "fake", "cwd": dir, "resume": "x"})));
    // The directory in which the gateway was started is not a chosen one, either.
    refused(&world.post("/v1/sessions", &json!({"agent": "fake"})));
    // A directory that is not there, and a file, get the same answer.
    let words = |path: PathBuf| {
        let reply = world.start(&path);
        refused(&reply).replace(path.to_str().expect("UTF-8"), "DIR")
    };
    fs::write(dir.join("file"), "").expect("a file");
    assert_eq!(words(dir.join("missing")), words(dir.join("file")));
    assert_eq!(world.lab.ok(["ls", "--all", "--ids"]), "");
}

#[test]
fn a_send_token_starts_a_session_where_the_owner_has_one_and_not_below_it() {
    let world = DirectoryScopeFixture::new();
    let (dir, below) = (world.dir("mine"), world.dir("mine/below"));
    world.run(&dir, "owners");
    refused(&world.start(&below));
    refused(&world.start(&world.lab.dir().canonicalize().expect("the lab")));
    assert_eq!(world.start(&dir).status, 201);
    // A copy is made in the directory of its original.
    world.lab.ok(["send", "--wait", "owners", "say:something"]);
    assert_eq!(world.post("/v1/sessions/owners/fork", &json!({})).status, 201);
}

#[test]
fn a_send_token_starts_a_session_in_a_listed_directory_and_a_link_does_not_lead_out_of_it() {
    let world = DirectoryScopeFixture::new();
    let (listed, below, outside) = (world.dir("src"), world.dir("src/app"), world.dir("src-not"));
    world.list(&listed);
    assert_eq!(world.start(&listed).status, 201);
    assert_eq!(world.start(&below).status, 201);
    symlink(&outside, listed.join("link")).expect("a link");
    refused(&world.start(&listed.join("link")));
    refused(&world.start(&listed.join("../src-not")));
    refused(&world.start(&outside));
    // A link to a listed directory is that directory.
    symlink(&below, outside.join("link")).expect("a link");
    assert_eq!(world.start(&outside.join("link")).status, 201);
}

#[test]
fn a_send_token_starts_nothing_in_a_directory_that_another_account_can_write() {
    let world = DirectoryScopeFixture::new();
    let (listed, open) = (world.dir("src"), world.dir("src/open"));
    world.list(&listed);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("our own directory");
    let problem = world.start(&open).problem(403, "not-allowed");
    assert!(problem["title"].as_str().is_some_and(|it| it.contains("every account")), "{problem}");
    // A sticky directory keeps others from replacing what is below it, not from adding files to it.
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).expect("our own directory");
    world.start(&open).problem(403, "not-allowed");
    assert_eq!(world.start(&world.dir("src/open/mine")).status, 201);
    if !rustix::process::geteuid().is_root() {
        println!("the rest is left out: only root can give a directory to another account");
        return;
    }
    let (theirs, below) = (world.dir("src/theirs"), world.dir("src/theirs/below"));
    world.run(&theirs, "owners");
    world.lab.ok(["send", "--wait", "owners", "say:something"]);
    world.lab.ok(["stop", "owners"]);
    chown(&theirs, Some(OTHER_ACCOUNT), None).expect("root may");
    is_of_another_account(&world.start(&theirs));
    is_of_another_account(&world.start(&below));
    is_of_another_account(&world.post("/v1/sessions/owners/resume", &json!({})));
    is_of_another_account(&world.post("/v1/sessions/owners/fork", &json!({})));
    is_of_another_account(&world.post("/v1/sessions/owners/turns", &json!({"text": "say:more"})));
    assert_eq!(world.lab.show("owners")["epoch"], 1, "nothing was started");
    // The owner of the state directory is not restricted.
    world.lab.ok(["resume", "-d", "owners"]);
}

#[test]
fn a_send_token_does_not_resume_a_session_whose_directory_became_a_link_to_another_one() {
    let world = DirectoryScopeFixture::new();
    let (dir, other) = (world.dir("mine"), world.dir("other"));
    world.run(&dir, "owners");
    world.lab.ok(["stop", "owners"]);
    fs::remove_dir(&dir).expect("an empty directory");
    symlink(&other, &dir).expect("a link");
    refused(&world.post("/v1/sessions/owners/resume", &json!({})));
    assert_eq!(world.lab.show("owners")["epoch"], 1, "nothing was started");
}

#[test]
fn a_control_token_starts_a_session_anywhere() {
    let world = DirectoryScopeFixture::new();
    let controls = token(&world.lab, "control", "controls", &[]);
    let body = json!({"agent": "fake", "cwd": world.dir("any")});
    assert_eq!(ask(&world.gateway, "POST", "/v1/sessions", &controls, Some(&body)).status, 201);
}

#[test]
fn suggested_directories_are_those_that_the_caller_may_start_a_session_in() {
    let world = DirectoryScopeFixture::new();
    let (mine, listed, stolen) = (world.dir("mine"), world.dir("src"), world.dir("stolen"));
    world.run(&mine, "mine");
    world.run(&stolen, "stolen");
    chown(&stolen, Some(OTHER_ACCOUNT), None).expect("root may");
    world.list(&listed);
    let suggested = |token: &str| {
        let reply = ask(&world.gateway, "GET", "/v1/directories", token, None);
        let found = reply.ok()["directories"].as_array().expect("a list").clone();
        found.iter().map(|dir| PathBuf::from(dir.as_str().expect("a path"))).collect::<Vec<_>>()
    };
    assert_eq!(suggested(&world.sends), [mine.clone(), listed.clone()]);
    for dir in suggested(&world.sends) {
        assert_eq!(world.start(&dir).status, 201, "{}", dir.display());
    }
    // A token of the scope `control` may start anywhere; one for some sessions starts none.
    let everywhere = suggested(&token(&world.lab, "control", "controls", &[]));
    assert!([&mine, &listed, &stolen].iter().all(|dir| everywhere.contains(dir)), "{everywhere:?}");
    let some = token(&world.lab, "send", "some", &["--session", "mine"]);
    assert!(suggested(&some).is_empty());
    let reads = token(&world.lab, "read", "reads", &[]);
    assert_eq!(ask(&world.gateway, "GET", "/v1/directories", &reads, None).status, 403);
}
