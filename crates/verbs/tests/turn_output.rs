//! Exports and searches give each turn the output from its delivery to the next delivery or run, and no more.

use std::ops::ControlFlow;

use berth_api::AccessScope;
use berth_core::{
    Actor, ClockReading, Command, Epoch, Event, FinalState, ProcessRef, RunBoundary, SafeName, SendMode,
    SessionId, SessionSpec, TurnEnd, TurnPrompt,
};
use berth_keeper::journaled_session::{JournaledSession, SessionInput};
use berth_store::{StateDir, session_status};
use berth_test_dir::TestDir;
use berth_verbs::export::{self, SessionExport};
use berth_verbs::grep::{self, ContextLines, PatternOptions, SearchExtent, SearchPattern, SearchSubject};
use berth_verbs::{VerbContext, transcript};

/// A session with events and output of its agent, without a keeper.
struct RecordedSession {
    _dir: TestDir,
    ctx: VerbContext,
    id: SessionId,
}

impl RecordedSession {
    /// Each event comes with the name of a tool that the agent used after it.
    fn new(events: impl IntoIterator<Item = (Event, Option<&'static str>)>) -> Self {
        let dir = TestDir::new();
        let home = StateDir::open(dir.to_path_buf()).expect("a state directory");
        let id = SessionId::parse("0123456789ab").expect("an id");
        let files = home.session(&id);
        files.make().expect("a directory");
        let lease = files.claim().expect("a lease").expect("free");
        let mut owner = JournaledSession::create(&lease).expect("a journal");
        let spec = SessionSpec { driver: "acp".to_owned(), ..SessionSpec::default() };
        let name = Some(SafeName::parse("bot").expect("a name"));
        let create = SessionInput::Command(Command::Create { spec, name });
        owner.take(vec![create], ClockReading::default()).expect("room");
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
        owner.close().expect("room");
        drop(lease);
        let ctx = VerbContext {
            home,
            place: "a test".to_owned(),
            size: None,
            parent: None,
            also: vec![],
            unseen: None,
            scope: AccessScope::Admin,
        };
        Self { _dir: dir, ctx, id }
    }

    /// The tools of each turn in the exported transcript, by turn.
    fn exported(&self) -> Vec<(u64, Vec<String>)> {
        let session = SessionExport::load(&self.ctx, &self.id, None).expect("readable");
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
        let page = transcript::page(&self.ctx, &self.id, 0, 10).expect("readable");
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
        let status = session_status::status(&self.ctx.home, &self.id).expect("readable");
        let subject = SearchSubject { id: self.id.clone(), files: self.ctx.home.session(&self.id), status };
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
    let prompt = TurnPrompt {
        by: Actor::default(),
        text: format!("prompt {turn}"),
        key: None,
        start_by: None,
        manner,
        retry: None,
    };
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
    let starting = Event::RunStarting {
        epoch: Epoch(2),
        keeper: ProcessRef::default(),
        output_from: 0,
        boundary: RunBoundary::default(),
    };
    (starting, tool)
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
