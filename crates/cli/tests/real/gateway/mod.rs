//! The real agents over HTTP: a turn is posted and waited for, a question of the agent is answered through the API, and
//! the gateway is killed on the way. Against the fake model; nothing of the user's is used.

use berth_harness::{GatewayProcess, HttpResponse, RealAgentFixture, wait_until};
use serde_json::{Value, json};

/// Agents that ask before they run a command.
fn asking_agents() -> RealAgentFixture {
    let world = RealAgentFixture::new(env!("CARGO_BIN_EXE_berth"));
    world.agents.allow_claude(&[]);
    world.agents.set_codex_policy("on-request", "read-only");
    world
}

/// A gateway in the agents' environment: sessions that it starts inherit it.
fn serve(world: &RealAgentFixture) -> GatewayProcess {
    world.lab.serve_as(world.command(&["serve"]), 1)
}

fn at(id: &str, rest: &str) -> String {
    format!("/v1/sessions/{id}{rest}")
}

fn answer(gateway: &GatewayProcess, id: &str, body: &Value) -> HttpResponse {
    gateway.post(&at(id, "/answers"), body)
}

/// A prompt for a command that is asked for.
fn asking(agent: &str, file: &str) -> String {
    if agent == "claude" {
        return format!("TOOL touch {file}");
    }
    // Codex asks when the model says that its sandbox is in the way.
    let call = json!({"cmd": format!("touch {file}"), "sandbox_permissions": "require_escalated", "justification": "may I"});
    format!("CALL exec_command {call}")
}

/// Posted and waited for; asked, and answered by one of two tabs; the gateway killed while the agent asks.
fn a_life_over_http(agent: &str) {
    let world = asking_agents();
    let mut gateway = serve(&world);
    let id = world.ok(&["run", "-d", "--agent", agent]);
    let post = |gateway: &GatewayProcess, key: &str, text: &str| {
        let body = json!({"text": text, "wait": true, "expected_session": id});
        gateway.begin("POST", &at(&id, "/turns"), &[("Idempotency-Key", key)], Some(&body))
    };
    let first = post(&gateway, "first", "hello").reply().ok();
    assert_eq!((&first["state"], &first["answer"]), (&json!("done"), &json!("ECHO: hello")), "{first}");
    for (decision, runs) in [("allow", true), ("deny", false)] {
        let client = post(&gateway, decision, &asking(agent, decision));
        let needs = gateway.post(&at(&id, "/wait"), &json!({"for": "needs-you", "timeout_ms": 60_000})).ok();
        let ask = &needs["session"]["turns"]["asks"][0];
        assert!(ask["detail"].as_str().is_some_and(|what| what.contains("touch")), "{ask}");
        // The gateway goes, and with it the waiting client: the question stays, and so does the turn.
        gateway.kill();
        assert!(!client.is_answered());
        gateway = serve(&world);
        let client = post(&gateway, decision, &asking(agent, decision));
        let epoch = &needs["session"]["epoch"];
        let body = json!({"answer": decision, "request": ask["request"], "epoch": epoch});
        let answered = answer(&gateway, &id, &body).ok();
        assert_eq!(answered["turns"]["asks"], json!([]), "{answered}");
        answer(&gateway, &id, &body).problem(409, "refused");
        let turn = client.reply().ok();
        assert_eq!((&turn["state"], &turn["in_progress"]), (&json!("done"), &json!(false)), "{turn}");
        assert_eq!(world.agents.work().join(decision).exists(), runs, "{decision}");
    }
    // Interrupted in the middle of its text, and the conversation goes on.
    let client = post(&gateway, "held", "HOLD text");
    world.agents.model().arrived("text");
    let cancelled = gateway.post(&at(&id, "/turns/4/cancel"), &json!({})).ok();
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    assert_eq!(client.reply().ok()["state"], "cancelled");
    // Without a keeper: the next turn resumes the session, through the gateway, in the same conversation.
    world.ok(&["stop", &id]);
    wait_until("the keeper to leave", || gateway.get(&at(&id, "")).ok()["keeper_pid"].is_null());
    let last = post(&gateway, "last", "after all that").reply().ok();
    assert_eq!((&last["state"], &last["answer"]), (&json!("done"), &json!("ECHO: after all that")), "{last}");
    let all =
        if agent == "claude" { world.agents.claude_transcripts() } else { world.agents.codex_transcripts() };
    assert_eq!(all.len(), 1, "one conversation");
    all[0].no_fork().unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
fn a_turn_of_claude_is_posted_asked_about_answered_and_taken_up_again() {
    a_life_over_http("claude");
}

#[test]
fn a_turn_of_codex_is_posted_asked_about_answered_and_taken_up_again() {
    a_life_over_http("codex");
}

/// Settings in `dir` that make each agent run a command as soon as a session begins there; the file that it makes.
fn booby_trap(world: &RealAgentFixture, dir: &std::path::Path) -> std::path::PathBuf {
    let ran = dir.join("ran");
    let command = format!("touch {}", ran.display());
    for folder in [".claude", ".codex"] {
        std::fs::create_dir_all(dir.join(folder)).expect("a directory");
    }
    let hook = json!([{"hooks": [{"type": "command", "command": command}]}]);
    std::fs::write(dir.join(".claude/settings.json"), json!({"hooks": {"SessionStart": hook}}).to_string())
        .expect("settings of Claude Code");
    let server = format!("[mcp_servers.trap]\ncommand = \"sh\"\nargs = [\"-c\", {command:?}]\n");
    std::fs::write(dir.join(".codex/config.toml"), server).expect("settings of Codex");
    // Codex obeys the settings of directories that its owner trusts.
    let file = world.agents.home().join(".codex/config.toml");
    let before = std::fs::read_to_string(&file).expect("settings of Codex");
    let trusted = format!("{before}[projects.{:?}]\ntrust_level = \"trusted\"\n", dir.display().to_string());
    std::fs::write(&file, trusted).expect("settings of Codex");
    ran
}

/// Asks for one directory with `send` and with `control`: only `control` makes the agent run a command of the directory.
fn a_directory_with_a_command(agent: &str) {
    let world = asking_agents();
    let dir = world.lab.dir().canonicalize().expect("the lab").join("trap");
    std::fs::create_dir_all(&dir).expect("a directory");
    let ran = booby_trap(&world, &dir);
    let gateway = world.lab.serve_as(world.command(&["serve", "--listen=127.0.0.1:0"]), 2);
    let post = |scope: &str| {
        let secret = world.ok(&["token", "new", "--scope", scope, "--name", scope]);
        let bearer = format!("Bearer {}", secret.trim());
        let body = json!({"agent": agent, "cwd": dir, "prompt": "hello"});
        gateway.ask_tcp("POST", "/v1/sessions", &[("Authorization", &bearer)], Some(&body))
    };
    let problem = post("send").problem(403, "not-allowed");
    assert!(problem["detail"].as_str().is_some_and(|it| it.contains("[send]")), "{problem}");
    assert_eq!(world.ok(&["ls", "--all", "--ids"]), "");
    assert!(!ran.exists(), "the agent ran a command of the directory");
    assert_eq!(post("control").status, 201);
    wait_until("the agent to run the command of the directory", || ran.exists());
}

#[test]
fn a_send_token_does_not_make_claude_run_the_hook_of_a_directory() {
    a_directory_with_a_command("claude");
}

#[test]
fn a_send_token_does_not_make_codex_run_the_mcp_server_of_a_directory() {
    a_directory_with_a_command("codex");
}

#[test]
fn a_send_token_does_not_make_claude_over_acp_run_the_hook_of_a_directory() {
    a_directory_with_a_command("claude-acp");
}

#[test]
fn a_send_token_does_not_make_codex_over_acp_run_the_mcp_server_of_a_directory() {
    a_directory_with_a_command("codex-acp");
}
