//! Commands that are refused to an agent without a grant, and that they change nothing.

use berth_harness::wait_until;

use crate::grants::{agent, file, inside, lab, wait_asks};

#[test]
fn an_agent_commands_neither_strangers_nor_its_own_session() {
    let lab = lab();
    let outer = agent(&lab, "outer", &[]);
    agent(&lab, "other", &[]);
    lab.ok(["send", "other", "--wait", "hello"]);
    lab.ok(["send", "other", "ask:Bash:rm -rf x"]);
    wait_asks(&lab, "other");
    let term = lab.start_with(&["--name", "term"], &["echo"]);
    lab.start_with(&["--name", "old"], &["say:over"]);
    lab.berth(["wait", "old", "--for", "exit"]);
    lab.ok(["run", "-d", "--name", "away", "--", &lab.agent(), "say:over"]);
    lab.berth(["wait", "away", "--for", "exit"]);
    lab.ok(["archive", "away"]);
    lab.ok(["helper", "ensure", "served", "--owner", "other", "--", &lab.agent(), "hang"]);
    let before: Vec<_> = ["outer", "other", "term", "old", "away"].map(|name| lab.show(name)).into();
    for command in [
        "berth stop other",
        "berth stop outer",
        "berth stop term --grace 1ms",
        "berth cancel other.2",
        "berth cancel outer.1",
        "berth send other 'do this'",
        "berth send outer 'do that'",
        "berth send other --interrupt 'do this'",
        "berth queue other pause",
        "berth queue outer pause",
        "berth answer other allow",
        "berth answer outer allow",
        "berth input term --enter 'rm -rf x'",
        "berth input term --take --enter 'rm -rf x'",
        "berth rename other mine",
        "berth rename outer mine",
        "berth rename old mine",
        "berth policy other --ttl 1s",
        "berth policy outer --ttl never",
        "berth tag other mine",
        "berth note other mine",
        "berth note old mine",
        "berth archive old",
        "berth archive other --stop",
        "berth archive outer --stop",
        "berth restore away",
        "berth resume old -d",
        "berth resume away -d",
        "berth fork other",
        "berth purge old --yes",
        "berth purge --archived --yes",
        "berth sweep",
        "berth serve",
        "berth hosts add box --no-check",
        "berth hosts rm box",
        "berth token new --scope read --name mine",
        "berth token revoke mine",
        "berth link",
        "berth restore old --history",
        "CLAUDE_CONFIG_DIR=$BERTH_HOME/mine berth setup claude",
        "CODEX_HOME=$BERTH_HOME/mine berth setup codex",
        "XDG_CONFIG_HOME=$BERTH_HOME berth setup systemd --force",
        "XDG_CONFIG_HOME=$BERTH_HOME berth setup systemd --remove",
        "berth run -d --replace term --name term --yes -- sleep 1000",
        "berth run -d --grant send -- true",
        "berth run -d --grant control -- true",
        "berth run -d --grant admin --agent fake",
        "berth run -d --agent fake --resume 00000000-0000-4000-8000-000000000000 --take",
        "berth helper stop served",
        "berth helper release served --owner other",
        "berth helper ensure another --owner other -- sleep 1000",
    ] {
        inside(&lab, "outer", command).refused("outer");
    }
    let after: Vec<_> = ["outer", "other", "term", "old", "away"].map(|name| lab.show(name)).into();
    for (before, after) in before.iter().zip(&after) {
        for field in ["name", "state", "epoch", "pid", "tags", "note", "policy", "archived_at", "parent"] {
            assert_eq!(before[field], after[field], "{field} of {}", before["name"]);
        }
    }
    assert_eq!(after[1]["turns"]["asks"], before[1]["turns"]["asks"], "the question was not answered");
    assert!(lab.output(&term).is_empty(), "nothing was typed");
    assert_eq!(
        lab.json(["ls", "--all", "--json"]).as_array().expect("a list").len(),
        5,
        "nothing was started"
    );
    assert_eq!(lab.json(["helper", "show", "served", "--json"])["state"], "running");
    assert!(lab.berth(["helper", "show", "another"]).code != 0);
    // Outside of the session, the user may.
    lab.ok(["answer", "other", "deny"]);
    lab.ok(["stop", "other"]);
    assert_eq!(lab.show(&outer)["state"], "idle");
}

#[test]
fn an_agent_approves_no_request_of_its_own_or_of_its_children() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    inside(&lab, "outer", "berth run -d --agent fake --name child").ok();
    inside(&lab, "outer", "berth send child 'ask:Bash:rm -rf x'").ok();
    wait_asks(&lab, "child");
    let said = inside(&lab, "outer", "berth answer child allow").refused("outer");
    assert!(said.contains("cannot approve its own requests"), "{said}");
    assert_eq!(lab.show("child")["state"], "needs-you");

    // The agent's own request: a process that it left running answers while the agent asks.
    let (go, told) = (file(&lab, "go"), file(&lab, "told"));
    let (go, told) = (go.display(), told.display());
    let wait = format!("until [ -e {go} ]; do sleep 0.02; done");
    let answer =
        format!("berth answer outer allow >{told}.text 2>&1; echo $? >{told}.part; mv {told}.part {told}");
    inside(&lab, "outer", &format!("({wait}; {answer}) >/dev/null 2>&1 &:")).ok();
    lab.ok(["send", "outer", "ask:Bash:rm -rf y"]);
    wait_asks(&lab, "outer");
    std::fs::write(file(&lab, "go"), "").expect("a file");
    wait_until("it to have tried", || file(&lab, "told").exists());
    let text = std::fs::read_to_string(file(&lab, "told.text")).expect("the answer it got");
    assert_eq!(std::fs::read_to_string(file(&lab, "told")).expect("a code").trim(), "11", "{text}");
    assert!(text.contains("may not answer what session `outer` asks"), "{text}");
    assert_eq!(lab.show("outer")["state"], "needs-you");
    lab.ok(["answer", "outer", "deny"]);
    lab.ok(["wait", "outer", "--for", "idle", "--timeout", "60s"]);
    let turns = lab.json(["turns", "outer", "--json"]);
    let last = turns.as_array().and_then(|turns| turns.last()).expect("a turn");
    assert_eq!(last["answer"], "Bash: reject\n", "the answer of a user, and no other");
}

#[test]
fn keys_into_an_agents_own_interface_are_answers() {
    let lab = lab();
    let known = std::fs::read_to_string(lab.config()).expect("a config");
    let tui = format!("[agents.screen]\ndriver = \"pty\"\ncommand = [{:?}, \"echo\"]\n", lab.agent());
    std::fs::write(lab.config(), known + &tui).expect("a config file");
    agent(&lab, "outer", &[]);
    inside(&lab, "outer", "berth run -d --agent screen --name interface").ok();
    inside(&lab, "outer", "berth input interface --enter 1").refused("outer");
    let agent = lab.agent();
    inside(&lab, "outer", &format!("berth run -d --name command -- {agent} echo")).ok();
    inside(&lab, "outer", "berth input command 1").ok();
    lab.wait_output("command", "1");
}

#[test]
fn a_process_of_a_helper_counts_as_inside() {
    let lab = lab();
    agent(&lab, "outer", &[]);
    let told = file(&lab, "told");
    let script = file(&lab, "script.sh");
    let berth = crate::grants::BERTH;
    std::fs::write(
        &script,
        format!(
            "{berth} stop outer >{0}.text 2>&1\necho $? >{0}.part\nmv {0}.part {0}\nexec sleep 1000\n",
            told.display()
        ),
    )
    .expect("a script");
    inside(&lab, "outer", &format!("berth helper ensure proxy -- sh {}", script.display())).ok();
    wait_until("it to have tried", || told.exists());
    let text = std::fs::read_to_string(told.with_extension("text")).expect("the answer it got");
    assert_eq!(std::fs::read_to_string(&told).expect("a code").trim(), "11", "{text}");
    assert_eq!(lab.show("outer")["state"], "idle");
}
