//! How many terminals may be open at once.

use berth_harness::{GatewayWebSocket, HttpResponse, retry};

use crate::gateway_live::lab;

/// The most terminals of one token.
const OF_A_TOKEN: usize = 32;
/// The most terminals of one session.
const OF_A_SESSION: usize = 48;

/// Asserts a refusal that says what to do, and when.
fn is_full(refused: Result<GatewayWebSocket, HttpResponse>, about: &str) {
    let refused = refused.err().expect("there is no room");
    let told = refused.problem(429, "full");
    assert!(told["title"].as_str().is_some_and(|title| title.contains(about)), "{told}");
    assert!(refused.header("retry-after").is_some_and(|after| after.parse::<u64>().is_ok()), "{refused:?}");
}

#[test]
fn a_token_has_a_limit_of_terminals_and_keeps_no_other_token_out() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_echo();
    let secret =
        |name: &str| format!("Bearer {}", lab.ok(["token", "new", "--scope", "control", "--name", name]));
    let (one, other) = (secret("one"), secret("other"));
    let mut open: Vec<GatewayWebSocket> = (0..OF_A_TOKEN)
        .map(|_| gateway.terminal_as(&id, &[("Authorization", &one)]).expect("a terminal"))
        .collect();
    is_full(gateway.terminal_as(&id, &[("Authorization", &one)]), "your token");
    // Another token has a limit of its own, and so has the owner of the gateway.
    let mut others = gateway.terminal_as(&id, &[("Authorization", &other)]).expect("a terminal");
    others.wait_for("ready");
    gateway.terminal(&id, "role=writer").wait_for("ready");
    // A terminal that is closed makes room for the next.
    open.pop().expect("many").close();
    let mut next = retry("room", || gateway.terminal_as(&id, &[("Authorization", &one)]).ok());
    next.wait_for("ready");
}

#[test]
fn a_session_has_a_limit_of_terminals_and_room_for_a_user_at_the_machine() {
    let lab = lab();
    let gateway = lab.serve();
    let id = lab.start_echo();
    let mut open: Vec<GatewayWebSocket> =
        (0..OF_A_SESSION).map(|_| gateway.terminal(&id, "role=observer")).collect();
    open.iter_mut().for_each(|terminal| terminal.wait_for("ready"));
    is_full(gateway.terminal_as(&id, &[]), "of this session");
    let second = lab.start(&["say:ready", "hang"]);
    gateway.terminal(&second, "role=observer").wait_for("ready");
    let mut person = lab.terminal(["attach", &id]);
    person.wait_for("ready");
    drop(open);
    retry("room", || gateway.terminal_as(&id, &[]).ok()).wait_for("ready");
    person.type_keys("\x1c");
    assert_eq!(person.wait_exit(), 0);
}
