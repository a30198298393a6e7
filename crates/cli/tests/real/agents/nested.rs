//! An agent that starts agents: a tool of one session runs `berth run`, and the two do not disturb each other.

use berth_harness::wait_gone;

use crate::agents::{AgentKindFixture, RealAgentKind, for_kinds};

for_kinds!(an_agent_started_by_an_agent_has_a_session_of_its_own: Claude, Codex);

fn an_agent_started_by_an_agent_has_a_session_of_its_own(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let outer = world.run(&["--name", "outer"]);
    let berth = env!("CARGO_BIN_EXE_berth");
    // Codex runs commands in a login shell, which has a path of its own.
    let path = format!("{}:/usr/bin:/bin", world.agents.bin().display());
    let inner = format!(
        "PATH={path} {berth} run --agent {} --name inner --prompt 'from the inside' 2>/dev/null",
        kind.name()
    );
    let (code, turn) = world.send(&outer, &format!("TOOL {inner}"));
    assert_eq!((code, &turn["answer"]), (0, &"TOOLDONE ECHO: from the inside".into()), "{turn}");
    // The inner agent has the outer one's variables, and is not a second writer of its conversation.
    world.echoed("outer", "still there");
    world.echoed("inner", "here as well");
    let natives = ["outer", "inner"]
        .map(|name| world.show(name)["conversation_id"].as_str().expect("an id").to_owned());
    assert_ne!(natives[0], natives[1]);
    let agent = world.lab.process("inner", "pid");
    let marks = ["CLAUDE_CODE_SESSION_ID", "CLAUDE_PID", "CODEX_THREAD_ID"];
    let lent = berth_host::process_tree::process_variables(agent.pid, marks).expect("our own process");
    assert_eq!(lent, [None, None, None], "the outer agent's name is not lent to the inner one");
    world.ok(&["stop", "outer"]);
    assert_eq!(world.lab.process("inner", "pid"), agent, "it lives on");
    world.echoed("inner", "on my own");
    // The outer session comes back while the inner one runs.
    world.ok(&["resume", "outer", "-d"]);
    world.echoed("outer", "back again");
    world.ok(&["stop", "inner"]);
    wait_gone(&agent);
    let all = world.transcripts();
    assert_eq!(all.len(), 2);
    for one in all {
        one.no_fork().unwrap_or_else(|fault| panic!("{fault}"));
    }
}

for_kinds!(an_agent_that_would_stop_or_answer_its_own_session_is_refused_and_goes_on: Claude, Codex);

fn an_agent_that_would_stop_or_answer_its_own_session_is_refused_and_goes_on(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let outer = world.run(&["--name", "outer"]);
    let before = world.lab.process("outer", "pid");
    let berth = env!("CARGO_BIN_EXE_berth");
    for (order, refusal) in [
        ("stop outer", "may not stop session `outer`"),
        ("stop --yes", "may not stop session `outer`"),
        ("answer outer allow", "may not answer what session `outer` asks"),
        ("send outer more", "may not change what session `outer` is to do"),
    ] {
        let (code, turn) =
            world.send(&outer, &format!("TOOL o=$({berth} {order} 2>&1); echo \"code $? $o\""));
        let answer = turn["answer"].as_str().unwrap_or_default();
        assert_eq!(code, 0, "{turn}");
        assert!(answer.contains(refusal) && answer.contains("code 11"), "{order}: {turn}");
    }
    assert_eq!(world.lab.process("outer", "pid"), before, "the very same agent");
    world.echoed("outer", "still there");
    let transcript = world.one_transcript("outer");
    let text = std::fs::read_to_string(&transcript.path).expect("its transcript");
    assert!(text.contains("may not stop session `outer`"), "the agent was told why");
    // A person outside of it may.
    world.ok(&["stop", "outer"]);
    wait_gone(&before);
}
