//! The agents' own terminal interfaces against the fake model: no dialog stands in the way, and one paste is one prompt.
//!
//! Not here: berth. Needs `testing/agents/install`.

use berth_harness::{RealAgents, TestTerminal, wait_until};

/// Pastes a prompt once the screen says that the agent listens, and waits for the answer.
fn asks_and_answers(agents: &RealAgents, mut terminal: TestTerminal, listens: &str) {
    terminal.wait_for(listens);
    // Text that is typed before the agent listens is lost, and there is no event for that: paste until it shows.
    let mut pasted = 0;
    terminal.wait_until("the prompt on the screen", |terminal| {
        if !terminal.text().contains("hello there") && pasted < 20 {
            terminal.type_keys("\x1b[200~hello there\x1b[201~");
            pasted += 1;
        }
        terminal.text().contains("hello there")
    });
    let mut pressed = 0;
    terminal.wait_until("the answer", |terminal| {
        if agents.model().turns().is_empty() && pressed < 100 {
            terminal.type_keys("\r");
            pressed += 1;
        }
        terminal.text().contains("ECHO: hello there")
    });
    // Both agents write later than they show: a kill at this moment loses the turn.
    wait_until("the answer in the transcript", || {
        agents.transcripts().first().is_some_and(|transcript| !transcript.answers().is_empty())
    });
    drop(terminal);
    let transcripts = agents.transcripts();
    assert_eq!(transcripts.len(), 1);
    assert_eq!(transcripts[0].no_fork(), Ok(()));
    let pasted = transcripts[0].prompts();
    assert!(pasted.len() == 1 && pasted[0].starts_with("hello there"), "{pasted:?}");
}

#[test]
fn claude_listens_without_a_dialog() {
    let agents = RealAgents::alone();
    let terminal = agents.terminal("claude", ["--permission-mode", "manual"]);
    asks_and_answers(&agents, terminal, "shortcuts");
}

#[test]
fn codex_listens_without_a_dialog() {
    let agents = RealAgents::alone();
    let terminal = agents.terminal("codex", ["--no-daemon"]);
    asks_and_answers(&agents, terminal, "shortcuts");
}
