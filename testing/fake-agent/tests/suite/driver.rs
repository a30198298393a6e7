//! The ACP driver with a real program that speaks ACP: each understands the other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use berth_core::{ChosenReply, FinalState, TurnEnd};
use berth_driver::acp::AcpDriver;
use berth_driver::{AgentFailure, AgentUpdate, ConversationStart, Driver, DriverOutput};
use berth_harness::{ProcessKillGuard, TestDir};

const NEW: ConversationStart = ConversationStart::New { id: None };

/// An agent with its driver, as far as a keeper would go.
struct DrivenAgent {
    /// Killed with the test.
    _child: ProcessKillGuard,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    driver: AcpDriver,
    /// Every line it wrote, as it would be in the output files.
    lines: Vec<Vec<u8>>,
    /// Updates that the driver gave and the test has not looked at.
    news: Vec<AgentUpdate>,
    /// All updates that the driver gave.
    updates: Vec<AgentUpdate>,
}

impl DrivenAgent {
    fn start(begin: &ConversationStart, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-agent"));
        command.arg("acp").args(flags).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("spawn fake-agent");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let input = child.stdin.take().expect("piped");
        let child = ProcessKillGuard::new(child);
        let (lines, news, updates) = (Vec::new(), Vec::new(), Vec::new());
        let mut agent = Self { _child: child, input, output, driver: AcpDriver::new(), lines, news, updates };
        agent.with(|driver, out| driver.begin(begin, "/", out));
        agent
    }

    fn ready(begin: &ConversationStart, flags: &[&str]) -> Self {
        let mut agent = Self::start(begin, flags);
        agent.until(|update| matches!(update, AgentUpdate::Ready | AgentUpdate::Broken { .. }));
        agent
    }

    fn with(&mut self, call: impl FnOnce(&mut AcpDriver, &mut DriverOutput)) {
        let mut out = DriverOutput::default();
        call(&mut self.driver, &mut out);
        self.input.write_all(&out.bytes).expect("write to the agent");
        self.news.extend(out.updates.iter().cloned());
        self.updates.extend(out.updates);
    }

    /// Listens until an update fits.
    fn until(&mut self, is_it: impl Fn(&AgentUpdate) -> bool) -> AgentUpdate {
        loop {
            while !self.news.is_empty() {
                let update = self.news.remove(0);
                if is_it(&update) {
                    return update;
                }
            }
            let mut line = Vec::new();
            let count = self.output.read_until(b'\n', &mut line).expect("read from the agent");
            assert_ne!(count, 0, "the agent ended: {:?}", self.updates);
            line.pop();
            self.with(|driver, out| driver.hear(&line, out));
            self.lines.push(line);
        }
    }

    fn prompt(&mut self, turn: u64, text: &str) {
        self.with(|driver, out| driver.prompt(turn, text, out));
    }

    fn end(&mut self, wanted: u64) -> TurnEnd {
        match self.until(|update| matches!(update, AgentUpdate::Ended { turn, .. } if *turn == wanted)) {
            AgentUpdate::Ended { end, .. } => end,
            other => panic!("{other:?}"),
        }
    }

    fn turn(&mut self, turn: u64, text: &str) -> TurnEnd {
        self.prompt(turn, text);
        self.end(turn)
    }

    fn conversation(&self) -> String {
        let mut ids = self.updates.iter().filter_map(|update| match update {
            AgentUpdate::Conversation { id } => Some(id.clone()),
            _ => None,
        });
        ids.next_back().expect("a conversation")
    }
}

fn trouble(begin: &ConversationStart, flags: &[&str]) -> AgentFailure {
    let mut agent = DrivenAgent::start(begin, flags);
    match agent.until(|update| matches!(update, AgentUpdate::Ready | AgentUpdate::Broken { .. })) {
        AgentUpdate::Broken { trouble } => trouble,
        other => panic!("{begin:?} {flags:?}: {other:?}"),
    }
}

#[test]
fn a_conversation_goes_on_in_the_next_process_and_in_a_fork() {
    let store = TestDir::new();
    let store = store.text("");
    let mut first = DrivenAgent::ready(&NEW, &["--store", &store]);
    let end = first.turn(1, "hello");
    assert_eq!((end.state, end.answer.as_str()), (FinalState::Done, "ECHO: hello"));
    let id = first.conversation();
    first.with(|driver, out| driver.goodbye(out));
    drop(first);
    // Resumed, and loaded with its history: earlier messages are not said again.
    for flags in [&["--store", &store][..], &["--store", &store, "--no-resume"]] {
        let mut next = DrivenAgent::ready(&ConversationStart::Resume { id: id.clone() }, flags);
        assert_eq!(next.conversation(), id);
        assert_eq!(next.turn(1, "again").answer, "ECHO: again");
        let said = next.updates.iter().filter(|update| matches!(update, AgentUpdate::Said { .. })).count();
        assert_eq!(said, 1);
    }
    let mut fork =
        DrivenAgent::ready(&ConversationStart::Fork { of: id.clone(), id: None }, &["--store", &store]);
    assert_ne!(fork.conversation(), id);
    assert_eq!(fork.turn(1, "elsewhere").state, FinalState::Done);
}

#[test]
fn the_reason_why_there_is_no_conversation_is_known() {
    let store = TestDir::new();
    let store = store.text("");
    let resume = ConversationStart::Resume { id: "fake-1".to_owned() };
    let fork = ConversationStart::Fork { of: "fake-1".to_owned(), id: None };
    let gone = AgentFailure::NoConversation { id: "fake-1".to_owned() };
    assert_eq!(trouble(&resume, &["--store", &store]), gone);
    assert_eq!(trouble(&resume, &["--store", &store, "--no-resume"]), gone);
    assert_eq!(trouble(&fork, &["--store", &store]), gone);
    assert!(matches!(trouble(&NEW, &["--not-logged-in"]), AgentFailure::NotLoggedIn { .. }));
    assert!(matches!(trouble(&resume, &["--not-logged-in"]), AgentFailure::NotLoggedIn { .. }));
    assert!(matches!(trouble(&resume, &["--refuse-load"]), AgentFailure::Protocol { .. }));
    assert!(matches!(trouble(&resume, &["--no-load", "--no-resume"]), AgentFailure::Protocol { .. }));
    assert!(matches!(trouble(&fork, &["--no-fork"]), AgentFailure::Protocol { .. }));
}

#[test]
fn questions_are_answered_withdrawn_or_cancelled() {
    let scratch = TestDir::new();
    let go = scratch.text("go");
    let mut agent = DrivenAgent::ready(&NEW, &[]);
    agent.prompt(1, "ask:Bash:rm -rf x\nask:Edit:/a/b");
    for (tool, detail, choice) in
        [("Bash", "rm -rf x", "allow-always"), ("Edit", "/a/b\n-old line\n+new line", "reject")]
    {
        let AgentUpdate::Asks { ask } = agent.until(|update| matches!(update, AgentUpdate::Asks { .. }))
        else {
            panic!()
        };
        assert_eq!((ask.tool.as_str(), ask.detail.as_str()), (tool, detail));
        let chosen = ask.options.iter().filter(|option| option.id == choice).cloned().collect();
        let reply = ChosenReply { chosen, text: None };
        agent.with(|driver, out| driver.answer(&ask.request, &reply, out));
    }
    assert_eq!(agent.end(1).answer, "Bash: allow-always\nEdit: reject\n");

    agent.prompt(2, &format!("ask:Bash:x\nwait-file:{go}\nunask"));
    let AgentUpdate::Asks { ask } = agent.until(|update| matches!(update, AgentUpdate::Asks { .. })) else {
        panic!()
    };
    std::fs::write(&go, "").expect("write a file");
    agent.until(|update| *update == AgentUpdate::QuestionWithdrawn { request: ask.request.clone() });
    assert_eq!(agent.end(2).state, FinalState::Done);

    agent.prompt(3, "say:before\nask:Bash:x\nsay:after");
    agent.until(|update| matches!(update, AgentUpdate::Asks { .. }));
    agent.with(|driver, out| driver.interrupt(3, out));
    let end = agent.end(3);
    assert_eq!((end.state, end.answer.as_str()), (FinalState::Interrupted, "before"));
    assert_eq!(agent.turn(4, "and on").state, FinalState::Done);
}

#[test]
fn an_interrupt_ends_a_silent_turn_and_a_deaf_agent_ends_it_when_it_likes() {
    let scratch = TestDir::new();
    let go = scratch.text("go");
    let mut agent = DrivenAgent::ready(&NEW, &[]);
    agent.prompt(1, "say:x\nsilent");
    agent.until(|update| matches!(update, AgentUpdate::Began { turn: 1 }));
    agent.with(|driver, out| driver.interrupt(1, out));
    assert_eq!(agent.end(1).state, FinalState::Interrupted);
    agent.prompt(2, &format!("deaf say:x\nwait-file:{go}"));
    agent.until(|update| matches!(update, AgentUpdate::Began { turn: 2 }));
    agent.with(|driver, out| driver.interrupt(2, out));
    std::fs::write(&go, "").expect("write a file");
    assert_eq!(agent.end(2).state, FinalState::Done, "done is what it is");
}

#[test]
fn text_goes_into_a_running_turn() {
    let scratch = TestDir::new();
    let go = scratch.text("go");
    let mut agent = DrivenAgent::ready(&NEW, &[]);
    assert!(agent.driver.proves().steer);
    agent.prompt(1, &format!("say:x\nwait-file:{go}"));
    agent.until(|update| matches!(update, AgentUpdate::Began { turn: 1 }));
    agent.with(|driver, out| driver.steer(2, "left", out));
    agent.until(|update| matches!(update, AgentUpdate::Began { turn: 2 }));
    std::fs::write(&go, "").expect("write a file");
    assert_eq!(agent.end(1).answer, "xSTEERED: left\n");
    assert!(!DrivenAgent::ready(&NEW, &["--no-steer"]).driver.proves().steer);
}

#[test]
fn trouble_in_a_turn_is_its_own() {
    let mut agent = DrivenAgent::ready(&NEW, &[]);
    let end = agent.turn(1, "say:half\nfail:-32000:log in");
    assert_eq!((end.state, end.answer.as_str()), (FinalState::Failed, "half"));
    assert_eq!(end.reason.as_deref(), Some("not logged in or wrong key: log in"));
    let end = agent.turn(2, "garbage\ngarbage:100000\nsay:fine");
    assert_eq!((end.state, end.answer.as_str()), (FinalState::Done, "fine"));
    let remarks = agent.updates.iter().filter(|update| matches!(update, AgentUpdate::Remark { .. })).count();
    assert_eq!(remarks, 2);
    assert_eq!(agent.turn(3, "stop:whatever").state, FinalState::Done);
    assert_eq!(agent.turn(4, "stop:refusal").state, FinalState::Failed);
    let end = agent.turn(5, "flood:3M");
    assert!(end.cut && end.answer.len() == berth_driver::MAX_ANSWER_BYTES);
    assert_eq!(agent.turn(6, "tool:Grep:x\nsay:a\ntool:Grep:y\nsay:b").answer, "a\n\nb");
}

#[test]
fn a_conversation_that_moves_can_be_taken_up_under_its_new_name() {
    let store = TestDir::new();
    let flags = ["--store", &store.text("")];
    let mut agent = DrivenAgent::ready(&NEW, &flags);
    let old = agent.conversation();
    agent.turn(1, "new-id\nhello");
    let new = agent.conversation();
    assert_ne!(old, new);
    assert_eq!(agent.turn(2, "still here").state, FinalState::Done);
    drop(agent);
    assert_eq!(
        DrivenAgent::ready(&ConversationStart::Resume { id: new }, &flags).turn(1, "and on").state,
        FinalState::Done
    );
}

#[test]
fn the_lines_of_a_run_tell_the_outcome_of_its_turns() {
    let mut agent = DrivenAgent::ready(&NEW, &[]);
    let mut ends =
        vec![agent.turn(1, "one"), agent.turn(2, "say:two\nfail:no"), agent.turn(3, "tool:a:b\nsay:three")];
    agent.prompt(4, "say:four\nsilent");
    agent.until(|update| matches!(update, AgentUpdate::Said { .. }));
    agent.with(|driver, out| driver.interrupt(4, out));
    ends.push(TurnEnd { reason: Some("the agent interrupted it".to_owned()), ..agent.end(4) });
    for (turn, end) in (1..).zip(ends) {
        let mut late = AcpDriver::new();
        let mut out = DriverOutput::default();
        late.begin(&NEW, "/", &mut out);
        late.prompt(turn, "whatever it was", &mut out);
        agent.lines.iter().for_each(|line| late.hear(line, &mut out));
        let found: Vec<_> =
            out.updates.iter().filter(|update| matches!(update, AgentUpdate::Ended { .. })).collect();
        assert_eq!(found, [&AgentUpdate::Ended { turn, end }]);
    }
    // Another driver that makes the same calls at the same places says the same.
    let mut again = AcpDriver::new();
    let mut out = DriverOutput::default();
    again.begin(&NEW, "/", &mut out);
    let prompts = ["one", "say:two\nfail:no", "tool:a:b\nsay:three", "say:four\nsilent"];
    let mut prompts = (1..).zip(prompts);
    let mut seen = 0;
    for line in &agent.lines {
        again.hear(line, &mut out);
        for update in out.updates.split_off(seen) {
            match &update {
                AgentUpdate::Ready | AgentUpdate::Ended { .. } => {
                    out.update(update);
                    if let Some((turn, prompt)) = prompts.next() {
                        again.prompt(turn, prompt, &mut out);
                    }
                }
                AgentUpdate::Said { text } if text == "four" => {
                    out.update(update);
                    again.interrupt(4, &mut out);
                }
                _ => out.update(update),
            }
        }
        seen = out.updates.len();
    }
    assert_eq!(out.updates, agent.updates);
}
