use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn lines_are_whole_for_any_split_and_an_overlong_line_is_reported() {
    for size in [1, 3, 100] {
        let (mut lines, mut all) = (OutputLines::default(), Vec::new());
        for piece in b"one\ntwo\n\nthree\nopen".chunks(size) {
            lines.feed(piece, |line| all.push(String::from_utf8_lossy(line.expect("short")).into_owned()));
        }
        assert_eq!(all, ["one", "two", "", "three"], "in pieces of {size}");
    }
    let (mut lines, mut all) = (OutputLines::default(), Vec::new());
    let long = vec![b'x'; MAX_LINE_BYTES];
    for piece in [&long[..], b"x", b"\nshort\n"] {
        lines.feed(piece, |line| all.push(line.map(<[u8]>::len)));
    }
    assert_eq!(all, [None, Some(5)]);
}

#[test]
fn a_patch_tells_the_first_line_that_differs() {
    let hunk =
        json!({"oldStart": 19, "oldLines": 2, "newStart": 20, "newLines": 2, "lines": [" w", "-x", "+y"]});
    let line = json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t"}]},
        "tool_use_result": {"filePath": "/a", "structuredPatch": [hunk]}});
    let items = OutputReader::default().read(line.to_string().as_bytes());
    let [OutputItem::ToolEnded(end)] = &items[..] else { panic!("{items:?}") };
    assert_eq!(
        (end.patched_line, end.patch.as_ref().map(|patch| patch.path.as_str())),
        (Some(21), Some("/a"))
    );
}

#[test]
fn a_question_names_the_use_of_a_tool_in_each_protocol() {
    let asked = |line: Value| match OutputReader::default().read(line.to_string().as_bytes()).pop() {
        Some(OutputItem::Question { request, tool, acp }) => (request, tool, acp.is_some()),
        other => panic!("{other:?}"),
    };
    let claude = json!({"type": "control_request", "request_id": "r",
        "request": {"subtype": "can_use_tool", "tool_use_id": "t"}});
    assert_eq!(asked(claude), ("r".into(), "t".into(), false));
    let acp =
        json!({"id": 7, "method": "session/request_permission", "params": {"toolCall": {"toolCallId": "u"}}});
    assert_eq!(asked(acp), ("7".into(), "u".into(), true));
    let codex = json!({"id": 8, "method": "item/fileChange/requestApproval", "params": {"itemId": "i"}});
    assert_eq!(asked(codex), ("8".into(), "i".into(), false));
}

/// A message of one of the protocols with one part replaced.
fn odd_message() -> impl Strategy<Value = Value> {
    let odd = prop_oneof![
        Just(json!(null)),
        Just(json!(7)),
        Just(json!("x")),
        Just(json!([])),
        Just(json!([1, "a", null])),
        Just(json!({})),
        Just(json!({"item": 1, "update": [], "type": {}})),
    ];
    (0..8_usize, odd).prop_map(|(at, odd)| match at {
        0 => json!({"type": "assistant", "message": odd}),
        1 => json!({"type": "user", "message": {"content": [{"type": "tool_result", "content": odd}]}, "tool_use_result": odd}),
        2 => json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "TodoWrite", "input": odd}]}}),
        3 => json!({"method": "session/update", "params": odd, "update": 1}),
        4 => json!({"method": "session/update", "params": {"update": {"sessionUpdate": "tool_call", "content": odd, "rawInput": odd}}}),
        5 => json!({"method": "item/completed", "params": {"item": {"type": "fileChange", "changes": odd, "id": odd}}}),
        6 => json!(["message", odd]),
        _ => json!({"method": "session/request_permission", "id": odd, "params": odd}),
    })
}

proptest! {
    #[test]
    fn any_output_of_an_agent_is_read_without_a_panic(message in odd_message(), bytes: Vec<u8>) {
        let mut reader = OutputReader::default();
        reader.read(message.to_string().as_bytes());
        reader.read(&bytes);
        let mut lines = OutputLines::default();
        lines.feed(&bytes, |line| drop(reader.read(line.unwrap_or_default())));
    }
}
