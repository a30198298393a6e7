//! An agent's own interface in a terminal of ours: it comes back as it was, and leaves nothing switched on.

use berth_api::KeeperConnection;
use berth_api::client::KeeperMessage;
use berth_api::message::{AttachMode, KeeperAnswer, KeeperRequest, WindowSize};
use berth_harness::{TestTerminal, wait_until};
use berth_screen::Screen;

use crate::agents::resumes::berth_in_terminal_of_size as in_terminal;
use crate::agents::turns::asking;
use crate::agents::{AgentKindFixture, CommandTrust, RealAgentKind, for_kinds};

/// The screen that a terminal gets when it attaches: the text, and all that a terminal can be told. An observer's own terminal
/// shows the text only, so the keeper is asked.
fn kept_screen(world: &AgentKindFixture, session: &str) -> Vec<u8> {
    let id = world.show(session)["id"].as_str().expect("an id").to_owned();
    let mut keeper =
        KeeperConnection::open(&world.lab.session_dir(&id), "a test".to_owned()).expect("a keeper");
    let request =
        KeeperRequest::Attach { role: AttachMode::Observer, size: WindowSize { rows: 24, cols: 80 } };
    let mut screen = match keeper.ask(request).expect("observing is free") {
        KeeperAnswer::Attached { size, .. } => {
            Screen::new(berth_screen::ScreenSize { rows: size.rows, cols: size.cols })
        }
        other => panic!("an odd answer: {other:?}"),
    };
    loop {
        match keeper.next().expect("the keeper tells").expect("the keeper stays") {
            KeeperMessage::Screen(bytes) => {
                screen.feed(&bytes);
                return screen.restore();
            }
            KeeperMessage::Answer(_) | KeeperMessage::Output(_) | KeeperMessage::Notice(_) => {}
        }
    }
}

/// Waits until an observer's terminal shows the text of the writer's one above its own status line.
fn wait_watched(watcher: &mut TestTerminal, writer: &mut TestTerminal) {
    watcher.wait_until("the writer's text above a status line", |watcher| {
        writer.look();
        let text = watcher.text();
        let (watched, status) = text.rsplit_once('\n').unwrap_or_default();
        status.contains("only watching") && watched.trim_end() == writer.text().trim_end()
    });
}

#[test]
fn claude_codes_interface_comes_back_as_it_was_in_any_size_and_leaves_the_terminal_sane() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let run = ["run", "--agent", "claude", "--tui", "--name", "tui", "--", "--permission-mode", "manual"];
    let mut terminal = in_terminal(&world, &run, 24, 80);
    terminal.wait_for("shortcuts");
    // Text that is typed before the agent listens is lost, and there is no event for that.
    let mut pasted = 0;
    terminal.wait_until("the prompt on the screen", |terminal| {
        if !terminal.text().contains("hello 漢字 👍") && pasted < 20 {
            terminal.type_keys("\x1b[200~hello 漢字 👍\x1b[201~");
            pasted += 1;
        }
        terminal.text().contains("hello 漢字 👍")
    });
    for (rows, cols) in [(24, 80), (20, 40), (30, 100)] {
        terminal.resize(rows, cols);
        wait_until("the agent's terminal to follow", || world.show("tui")["cols"] == cols);
        terminal.wait_until("the screen that the keeper has", |terminal| {
            terminal.restore() == kept_screen(&world, "tui")
        });
        // One row more, for the line that says that it only watches.
        let mut watcher = in_terminal(&world, &["attach", "--observe", "tui"], rows + 1, cols);
        watcher.wait_for("hello 漢字 👍");
        wait_watched(&mut watcher, &mut terminal);
        watcher.type_keys("\x1c");
        assert_eq!(watcher.wait_exit(), 0);
    }
    terminal.type_keys("\x1b[92;5u");
    assert_eq!(terminal.wait_exit(), 0);
    let left_on = String::from_utf8_lossy(&terminal.restore()).into_owned();
    for mode in
        ["\x1b[?1049h", "\x1b[?2004h", "\x1b[?1004h", "\x1b[?1000h", "\x1b[?1003h", "\x1b[?25l", "\x1b[>1u"]
    {
        assert!(!left_on.contains(mode), "{mode:?} is still set");
    }
    let mut again = in_terminal(&world, &["attach", "tui"], 30, 100);
    again.wait_for("hello 漢字 👍");
    world.ok(&["stop", "tui"]);
    again.wait_exit();
}

for_kinds!(a_person_talks_to_it_and_answers_with_a_key: Claude, Codex, ClaudeAcp);

/// At a terminal of berth's own, for an agent that takes turns.
fn a_person_talks_to_it_and_answers_with_a_key(kind: RealAgentKind) {
    let world = AgentKindFixture::with(kind, CommandTrust::Nothing);
    let id = world.run(&["--name", "s"]);
    let mut terminal = in_terminal(&world, &["attach", "s"], 24, 80);
    terminal.wait_for("Ctrl-D leaves it running");
    terminal.type_keys("hello 漢字\r");
    terminal.wait_for("ECHO: hello 漢字");
    for (key, runs) in [("n", false), ("y", true)] {
        terminal.type_keys(&format!("{}\r", asking(kind, key)));
        terminal.wait_for("answer with [");
        terminal.type_keys(key);
        wait_until("the turn", || world.show(&id)["turns"]["current"].is_null());
        assert_eq!(world.agents.work().join(key).exists(), runs, "{key}: {}", terminal.text());
        // The rest of this question would be taken for the next one.
        terminal.wait_until("the end of the question", |terminal| !terminal.text().contains("answer with ["));
    }
    terminal.type_keys("\x04");
    assert_eq!(terminal.wait_exit(), 0);
    assert_eq!(world.states(&id), ["done"; 3]);
}

#[test]
fn a_compaction_of_claude_is_told_once_and_earlier_answers_are_not_repeated() {
    let world = AgentKindFixture::new(RealAgentKind::Claude);
    let id = world.run(&["--name", "s"]);
    let mut terminal = in_terminal(&world, &["attach", "s"], 50, 160);
    terminal.wait_for("Ctrl-D leaves it running");
    let done = |count: usize| {
        wait_until("the turn", || world.states(&id).iter().filter(|state| *state == "done").count() == count);
    };
    // Claude Code keeps, and repeats, what follows the last use of a tool.
    for (before, prompt) in
        ["hello", "TOOL echo hi", "/help", "/cost", "/compact", "bye"].into_iter().enumerate()
    {
        terminal.type_keys(&format!("{prompt}\r"));
        done(before + 1);
    }
    terminal.wait_for("ECHO: bye");
    let told = terminal.text();
    for text in ["/help isn't available", "Estimated cost:", "Compacted"] {
        assert_eq!(told.matches(text).count(), 1, "{text}:\n{told}");
    }
    let turn = world.json(&["turn", "s.5", "--items", "--json"]);
    assert_eq!(turn["answer"], "Compacted", "{turn}");
    let texts: Vec<_> = turn["items"].as_array().into_iter().flatten().map(|item| &item["text"]).collect();
    assert_eq!(texts, ["Compacted"], "{turn}");
}
