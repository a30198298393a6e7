//! A permission that Claude Code asks for in its terminal: the first answer counts, there or through berth.

use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;

use super::*;

impl RealActivityFixture {
    /// Has it ask for a tool in turn 1, and returns the question.
    fn asked_for(&self, tool: &str) -> Value {
        self.claude();
        self.ok(&["send", "s", &format!("TOOL {tool}")]);
        self.ok(&["wait", "s", "--for", "needs-you", "--timeout", "60s"]);
        self.show()["turns"]["asks"][0].clone()
    }

    fn shows_dialog(&self) -> bool {
        self.ok(&["screen", "s"]).contains("1. Yes")
    }

    /// Presses a key of the dialog until that is gone. One that is just being painted takes no keys.
    fn press(&self, key: &str) {
        wait_until("the dialog", || self.shows_dialog());
        let mut looks = 0;
        wait_until("the answer at the terminal", || {
            if looks % 40 == 0 && self.shows_dialog() {
                self.ok(&["input", "s", key]);
            }
            looks += 1;
            !self.shows_dialog()
        });
    }

    /// The hooks that wait for an answer.
    fn waiting_hooks(&self) -> usize {
        let is_hook = |identity: &berth_host::identity::ProcessIdentity| {
            let line = fs::read(format!("/proc/{}/cmdline", identity.pid)).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.get(1) == Some(&&b"hook"[..])
        };
        self.lab.processes().iter().filter(|identity| is_hook(identity)).count()
    }
}

#[test]
fn a_permission_is_allowed_from_elsewhere_while_the_terminal_shows_it() {
    let world = RealActivityFixture::new();
    let ask = world.asked_for("touch made.txt");
    assert_eq!((&ask["tool"], &ask["detail"]), (&json!("Bash"), &json!("touch made.txt")), "{ask}");
    let options: Vec<&str> =
        ask["options"].as_array().expect("options").iter().filter_map(|it| it["id"].as_str()).collect();
    assert_eq!((options, &ask["takes_reason"]), (vec!["allow", "deny"], &json!(true)), "{ask}");
    wait_until("the dialog in the terminal", || world.shows_dialog());
    world.ok(&["answer", "s", "allow", "--yes"]);
    world.wait_turn(1, "done");
    assert!(world.agents.work().join("made.txt").exists());
    assert_eq!(world.waiting_hooks(), 0);
    let again =
        world.berth(&["answer", "s", "--request", ask["request"].as_str().expect("a request"), "deny"]);
    assert!(again.code == 1 && again.err.contains("was answered already"), "{again:?}");
}

#[test]
fn a_permission_is_denied_from_elsewhere_with_a_reason_that_the_model_reads() {
    let world = RealActivityFixture::new();
    world.asked_for("touch made.txt");
    world.ok(&["answer", "s", "deny", "use mktemp instead"]);
    world.wait_turn(1, "done");
    assert!(world.turn(1)["answer"].to_string().contains("use mktemp instead"), "{}", world.turn(1));
    assert!(!world.agents.work().join("made.txt").exists());
}

#[test]
fn a_permission_that_is_given_at_the_terminal_is_closed_everywhere() {
    let world = RealActivityFixture::new();
    fs::write(world.agents.work().join("wait.sh"), "while [ ! -e go ]; do sleep 0.05; done")
        .expect("a script");
    let ask = world.asked_for("sh wait.sh");
    world.press("1");
    // The tool still runs: no hook tells that it was allowed, and the agent's own list does.
    wait_until("the question is closed", || world.show()["turns"]["asks"] == json!([]));
    let request = ask["request"].as_str().expect("a request");
    let late = world.berth(&["answer", "s", "--request", request, "deny"]);
    assert!(late.code == 1 && late.err.contains("at its terminal"), "{late:?}");
    wait_until("the hook hears of it", || world.waiting_hooks() == 0);
    fs::write(world.agents.work().join("go"), "").expect("a file");
    world.wait_turn(1, "done");
}

#[test]
fn a_permission_whose_keeper_is_replaced_is_left_to_the_terminal() {
    let world = RealActivityFixture::new();
    world.asked_for("touch made.txt");
    let dir = world.lab.session_dir(world.show()["id"].as_str().expect("an id"));
    let mut keeper = KeeperConnection::open(&dir, "a test".into()).expect("a keeper");
    keeper.ask(KeeperRequest::Restart).expect("it does");
    wait_until("the hook is gone", || world.waiting_hooks() == 0);
    wait_until("a question of the terminal alone", || {
        let asks = &world.show()["turns"]["asks"];
        asks.as_array().is_some_and(|asks| asks.len() == 1) && asks[0]["options"] == json!([])
    });
    let refused = world.berth(&["answer", "s", "allow", "--yes"]);
    assert!(refused.code == 1 && refused.err.contains("no Claude Code hook is waiting"), "{refused:?}");
    world.press("1");
    world.wait_turn(1, "done");
    assert!(world.agents.work().join("made.txt").exists());
}
