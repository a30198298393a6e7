//! Exports and searches give each turn the output from its delivery to the next delivery or run, and no more.

use std::ops::ControlFlow;

use berth_core::{ClockReading, Epoch, Event, FinalState, SendMode, TurnEnd};
use berth_keeper::journaled_session::SessionInput;
use berth_store::session_status;
use berth_verbs::export::{self, SessionExport};
use berth_verbs::grep::{self, ContextLines, PatternOptions, SearchExtent, SearchPattern, SearchSubject};
use berth_verbs::transcript;

use crate::common::{KeeperlessSession, prompt, run_starting};

/// A session with events and output of its agent.
struct RecordedSession(KeeperlessSession);

impl RecordedSession {
    /// Each event comes with the name of a tool that the agent used after it.
    fn new(events: impl IntoIterator<Item = (Event, Option<&'static str>)>) -> Self {
        Self(KeeperlessSession::new("acp", "bot", |files, owner| {
            let mut output = files.output().open_log().expect("an output");
            for (mut event, tool) in events {
                if let Event::TurnDelivered { output_from, .. } | Event::RunStarting { output_from, .. } =
                    &mut event
                {
                    *output_from = output.end();
                }
                owner.take(vec![SessionInput::Note(event)], ClockReading::default()).expect("room");
                let line = tool.map(tool_line).unwrap_or_default();
                output.append(line.as_bytes(), ClockReading::default()).expect("room");
            }
            output.finish().expect("room");
        }))
    }

    /// The tools of each turn in the exported transcript, by turn.
    fn exported(&self) -> Vec<(u64, Vec<String>)> {
        let session = SessionExport::load(&self.0.ctx(), &self.0.id, None).expect("readable");
        let mut text = Vec::new();
        export::markdown(&session, &(), &mut |bytes| {
            text.extend_from_slice(bytes);
            Ok(())
        })
        .expect("readable");
        let text = String::from_utf8(text).expect("text");
        let turns = text.split("\n## bot.").skip(1).map(|turn| {
            let number = turn.split(':').next().and_then(|number| number.parse().ok()).expect("a number");
            let tools = turn.split("<summary>").skip(1).filter_map(|tool| tool.split('<').next());
            (number, tools.map(str::to_owned).collect())
        });
        turns.collect()
    }

    /// The tools of each turn on a page of the transcript, by turn.
    fn on_page(&self) -> Vec<(u64, Vec<String>)> {
        let page = transcript::page(&self.0.ctx(), &self.0.id, 0, 10).expect("readable");
        let tools = |items: &[transcript::TranscriptItem]| {
            let tool = |item: &transcript::TranscriptItem| match item {
                transcript::TranscriptItem::Tool(tool) => Some(tool.name.clone()),
                _ => None,
            };
            items.iter().filter_map(tool).collect()
        };
        page.turns.iter().map(|shown| (shown.turn.number, tools(&shown.items))).collect()
    }

    /// The turn of each match.
    fn found(&self, pattern: &str) -> Vec<Option<u64>> {
        let status = session_status::status(&self.0.home, &self.0.id).expect("readable");
        let subject = SearchSubject { id: self.0.id.clone(), files: self.0.files(), status };
        let pattern =
            SearchPattern::new(&[pattern.to_owned()], PatternOptions::default()).expect("a pattern");
        let extent = SearchExtent { context: ContextLines::default(), most: 100, one_each: false };
        let mut found = Vec::new();
        let problems = grep::find(&[subject], &pattern, extent, &(), |_, hits| {
            found.extend(hits.iter().map(|hit| hit.turn));
            Ok(ControlFlow::Continue(()))
        });
        assert_eq!(problems.expect("readable"), []);
        found
    }
}

/// The line with which an ACP agent reports the use of a tool.
fn tool_line(name: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s\",\"update\":\
         {{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"{name}\",\"title\":\"{name}\"}}}}}}\n"
    )
}

fn accepted(turn: u64, manner: SendMode) -> (Event, Option<&'static str>) {
    let prompt = prompt(format!("prompt {turn}"), None, manner);
    (Event::TurnAccepted { turn, prompt }, None)
}

/// The delivery of a turn, and the tool that the agent uses for it.
fn delivered(turn: u64, tool: &'static str) -> (Event, Option<&'static str>) {
    (Event::TurnDelivered { turn, epoch: Epoch(1), output_from: 0 }, Some(tool))
}

fn ended(turn: u64) -> (Event, Option<&'static str>) {
    let end = TurnEnd::without_answer(FinalState::Done, "done");
    (Event::TurnEnded { turn, end, at_boot_ms: 0 }, None)
}

/// The start of a run, and the tool in its replay of the conversation.
fn run(tool: Option<&'static str>) -> (Event, Option<&'static str>) {
    (run_starting(2, 0), tool)
}

#[test]
fn output_of_a_turn_that_was_moved_forward_belongs_to_no_turn_before_it() {
    let session = RecordedSession::new([
        accepted(1, SendMode::Queue),
        delivered(1, "first-tool"),
        accepted(2, SendMode::Queue),
        accepted(3, SendMode::Interrupt),
        ended(1),
        delivered(3, "third-tool"),
        ended(3),
        delivered(2, "second-tool"),
        ended(2),
        run(Some("replayed-tool")),
    ]);
    let expected = [(1, "first-tool"), (2, "second-tool"), (3, "third-tool")];
    let expected = expected.map(|(turn, tool)| (turn, vec![tool.to_owned()]));
    assert_eq!(session.exported(), expected);
    assert_eq!(session.on_page(), expected);
}

#[test]
fn a_match_in_a_replay_belongs_to_no_turn_and_repeats_no_match_of_a_turn() {
    let session = RecordedSession::new([
        accepted(1, SendMode::Queue),
        delivered(1, "known-tool"),
        ended(1),
        run(Some("known-tool")),
        run(Some("other-tool")),
        accepted(2, SendMode::Queue),
        delivered(2, "known-tool"),
        ended(2),
    ]);
    assert_eq!(session.found("known-tool"), [Some(1), Some(2)]);
    assert_eq!(session.found("other-tool"), [None]);
}
