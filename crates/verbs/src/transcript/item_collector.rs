//! Parser of an agent's output: collects its items in order, with all that is known of each.
//!
//! Start with [`ItemCollector::hear`].

use berth_driver::output::{
    FileChange, OutputItem, OutputReader, ToolEnd, ToolStatus, ToolUse, texts_in_json,
};
use serde_json::Value;

use super::item::{FileDiff, TranscriptItem, TranscriptToolUse};

/// The items parsed so far.
#[derive(Debug, Default)]
pub(crate) struct ItemCollector {
    items: Vec<TranscriptItem>,
    bytes: usize,
    reader: OutputReader,
}

impl ItemCollector {
    /// The items, in order.
    pub(crate) fn items(self) -> Vec<TranscriptItem> {
        self.items
    }

    /// Approximate size of the items in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Parses a line.
    pub(crate) fn hear(&mut self, line: &[u8]) {
        for item in self.reader.read(line) {
            match item {
                OutputItem::Text { text, continues: true } => self.piece(false, &text),
                OutputItem::Thought { text, continues: true } => self.piece(true, &text),
                OutputItem::Text { text, continues: false } => self.push(TranscriptItem::text(&text)),
                OutputItem::Thought { text, continues: false } => self.push(TranscriptItem::thought(&text)),
                OutputItem::ToolBegan(tool) if self.has_tool(&tool.id) => {}
                OutputItem::ToolBegan(told) | OutputItem::ToolChanged(told) => self.tool_told(told),
                OutputItem::ToolEnded(end) if self.has_tool(&end.id) => self.tool_over(&end),
                OutputItem::ToolEnded(_) | OutputItem::Plan(_) | OutputItem::Question { .. } => {}
            }
        }
    }

    /// Adds a text of the agent.
    pub(crate) fn said(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(TranscriptItem::text(text));
        }
    }

    /// Adds a use of a tool, as Codex records it.
    pub(crate) fn codex_call(&mut self, call: &Value) {
        let name = word(call, "name");
        let arguments =
            [word(call, "arguments"), word(call, "input")].into_iter().find(|text| !text.is_empty());
        let input = arguments.map_or(call["action"].clone(), |text| {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
        });
        self.tool(word(call, "call_id"), |tool| {
            if name.is_empty() { "shell" } else { name }.clone_into(&mut tool.name);
            tool.give(&input);
        });
    }

    /// Adds the result of a use of a tool, as Codex records it.
    pub(crate) fn codex_output(&mut self, result: &Value) {
        let id = word(result, "call_id");
        if self.has_tool(id) {
            self.tool(id, |tool| {
                tool.result(&texts_in_json(&result["output"]));
                tool.is_over = true;
            });
        }
    }

    /// Adds the changes of files, as Codex records them beside the use of the tool.
    pub(crate) fn codex_changes(&mut self, item: &Value) {
        let id = word(item, "id");
        if !self.has_tool(id) {
            return;
        }
        let changes = item["changes"].as_object().into_iter().flatten();
        let diffs = changes.map(|(path, change)| match word(change, "type") {
            "add" => FileDiff::whole(path, None, change["content"].as_str()),
            "delete" => FileDiff::whole(path, change["content"].as_str(), None),
            _ => FileDiff::unified(path, word(change, "unified_diff")),
        });
        let diffs = diffs.collect();
        self.tool(id, |tool| tool.diffs = diffs);
    }

    fn push(&mut self, item: TranscriptItem) {
        self.bytes += item.bytes();
        self.items.push(item);
    }

    /// Appends a piece of text that continues the last one.
    fn piece(&mut self, is_thought: bool, text: &str) {
        self.bytes += text.len();
        if !self.items.last_mut().is_some_and(|last| last.add(is_thought, text)) && !text.is_empty() {
            self.items.push(if is_thought {
                TranscriptItem::thought(text)
            } else {
                TranscriptItem::text(text)
            });
        }
    }

    /// Changes the use of a tool with this id, or adds it. Later values override earlier ones.
    fn tool(&mut self, id: &str, change: impl FnOnce(&mut TranscriptToolUse)) {
        let known =
            self.items.iter().rposition(|item| matches!(item, TranscriptItem::Tool(tool) if tool.id == id));
        let at = known.unwrap_or_else(|| {
            self.items.push(TranscriptItem::Tool(Box::new(TranscriptToolUse {
                id: id.to_owned(),
                ..TranscriptToolUse::default()
            })));
            self.items.len() - 1
        });
        let before = self.items[at].bytes();
        if let TranscriptItem::Tool(tool) = &mut self.items[at] {
            change(tool);
        }
        self.bytes = self.bytes.saturating_sub(before) + self.items[at].bytes();
    }

    fn has_tool(&self, id: &str) -> bool {
        self.items.iter().any(|item| matches!(item, TranscriptItem::Tool(tool) if tool.id == id))
    }

    fn tool_told(&mut self, told: ToolUse) {
        let id = told.id.clone();
        self.tool(&id, |tool| {
            if let Some(name) = told.name {
                tool.name = name;
            }
            if let Some(input) = told.input {
                tool.give(&input);
            }
            if let Some(output) = told.output {
                tool.result(&output);
            }
            if let Some(changes) = told.changes {
                tool.diffs = changes.iter().map(FileDiff::from).collect();
            }
            if told.within.is_some() {
                tool.within = told.within;
            }
            tool.is_error |= told.status == Some(ToolStatus::Failed);
            tool.is_over |= match told.status {
                Some(ToolStatus::Done | ToolStatus::Failed | ToolStatus::Declined) => true,
                Some(ToolStatus::Running) | None => false,
            };
        });
    }

    fn tool_over(&mut self, end: &ToolEnd) {
        self.tool(&end.id, |tool| {
            tool.result(&end.output);
            tool.is_error = end.failed;
            tool.is_over = true;
            // The arguments know a part of the file; the result knows the place of that part.
            if let Some(patch) = end.patch.as_ref().filter(|_| !tool.diffs.is_empty()) {
                tool.diffs = vec![patch.into()];
            }
        });
    }
}

impl From<&FileChange> for FileDiff {
    fn from(change: &FileChange) -> Self {
        let (path, old, new) = (&change.path, change.old.as_deref(), change.new.as_deref());
        match &change.unified {
            Some(text) => Self::unified(path, text),
            None if change.whole => Self::whole(path, old, new),
            None => Self::of(path, old, new),
        }
    }
}

fn word<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn heard(lines: &[&str]) -> Vec<TranscriptItem> {
        let mut heard = ItemCollector::default();
        lines.iter().for_each(|line| heard.hear(line.as_bytes()));
        heard.items()
    }

    fn tools(lines: &[&str]) -> Vec<(String, String, Option<String>, bool)> {
        let tool = |item: TranscriptItem| match item {
            TranscriptItem::Tool(tool) => Some((tool.name, tool.given, tool.output, tool.is_error)),
            TranscriptItem::Text { .. } | TranscriptItem::Thought { .. } => None,
        };
        heard(lines).into_iter().filter_map(tool).collect()
    }

    #[test]
    fn the_tools_of_each_protocol_are_understood() {
        let claude = [
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls","description":"look"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"no"}]}]}}"#,
        ];
        assert_eq!(tools(&claude), [("Bash".into(), "ls".into(), Some("no".into()), true)]);
        let acp = [
            r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"Read","rawInput":{"path":"/x"}}}}"#,
            r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","content":[{"type":"content","content":{"type":"text","text":"done"}}]}}}"#,
        ];
        assert_eq!(tools(&acp), [("Read".into(), "/x".into(), Some("done".into()), false)]);
        let codex = [
            r#"{"method":"item/completed","params":{"item":{"type":"commandExecution","id":"i","command":"make","aggregatedOutput":"ok\n","status":"completed"}}}"#,
            r#"{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"j","text":"hello"}}}"#,
        ];
        assert_eq!(tools(&codex), [("shell".into(), "make".into(), Some("ok\n".into()), false)]);
        assert_eq!(tools(&["garbage \"message\"", "{}"]), []);
    }

    #[test]
    fn texts_and_thoughts_stay_in_their_order() {
        let claude = heard(&[
            r#"{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"}]}}"#,
            r#"{"type":"stream_event","event":{"type":"content_block_delta","message":"again"}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"first"}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Task","input":{}}]}}"#,
            r#"{"type":"assistant","parent_tool_use_id":"t","message":{"content":[{"type":"text","text":"inner"},{"type":"tool_use","id":"u","name":"Read","input":{"file_path":"/x"}}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"last"}]}}"#,
        ]);
        let told = serde_json::to_value(&claude).expect("plain data");
        let kinds: Vec<_> = claude
            .iter()
            .map(|item| serde_json::to_value(item).expect("plain data")["kind"].clone())
            .collect();
        assert_eq!(kinds, ["thought", "text", "tool", "tool", "text"]);
        assert_eq!((&told[1]["text"], &told[4]["text"]), (&json!("first"), &json!("last")));
        assert_eq!((&told[3]["within"], &told[2]["within"]), (&json!("t"), &json!(null)));
        let chunk = |kind: &str, text: &str| {
            let update = json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
            json!({"method": "session/update", "params": {"update": update}}).to_string()
        };
        let chunks =
            [("agent_thought_chunk", "a"), ("agent_message_chunk", "b"), ("agent_message_chunk", "c")];
        let lines: Vec<String> = chunks.iter().map(|(kind, text)| chunk(kind, text)).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(heard(&lines), [TranscriptItem::thought("a"), TranscriptItem::text("bc")]);
        let codex = heard(&[
            r#"{"method":"item/completed","params":{"item":{"type":"reasoning","id":"r","summary":["why"],"content":[]}}}"#,
            r#"{"method":"item/started","params":{"item":{"type":"commandExecution","id":"i","command":"make"}}}"#,
            r#"{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"j","text":"hello"}}}"#,
        ]);
        assert_eq!((&codex[0], &codex[2]), (&TranscriptItem::thought("why"), &TranscriptItem::text("hello")));
        assert!(matches!(&codex[1], TranscriptItem::Tool(tool) if !tool.is_over && tool.name == "shell"));
    }

    #[test]
    fn changes_of_files_are_told_with_what_was_there() {
        let diffs = |lines: &[&str]| match heard(lines).pop() {
            Some(TranscriptItem::Tool(tool)) => tool.diffs,
            other => panic!("no tool: {other:?}"),
        };
        let claude = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Edit","input":{"file_path":"/a","old_string":"x","new_string":"y"}}]}}"#;
        assert_eq!(diffs(&[claude]), [FileDiff::of("/a", Some("x"), Some("y"))]);
        let write = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Write","input":{"file_path":"/a","content":"y"}}]}}"#;
        assert_eq!(diffs(&[write]), [FileDiff::whole("/a", None, Some("y"))]);
        let acp = r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"Edit","content":[{"type":"diff","path":"/a","oldText":"x","newText":"y"}]}}}"#;
        assert_eq!(diffs(&[acp]), [FileDiff::of("/a", Some("x"), Some("y"))]);
        let codex = r#"{"method":"item/completed","params":{"item":{"type":"fileChange","id":"i","changes":[{"path":"/a","kind":"update","diff":"@@ -1 +1 @@\n-x\n+y\n"}]}}}"#;
        assert_eq!(diffs(&[codex]), [FileDiff::unified("/a", "@@ -1 +1 @@\n-x\n+y\n")]);
        let added = r#"{"method":"item/completed","params":{"item":{"type":"fileChange","id":"i","changes":[{"path":"/a","kind":{"type":"add"},"diff":"y\n"}]}}}"#;
        assert_eq!(diffs(&[added]), [FileDiff::whole("/a", None, Some("y\n"))]);
    }

    #[test]
    fn lines_of_a_change_have_the_numbers_they_have_in_the_file() {
        let call = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Edit","input":{"file_path":"/a","old_string":"x","new_string":"y"}}]}}"#;
        let patch = json!({"filePath": "/a", "originalFile": "…", "structuredPatch": [
            {"oldStart": 19, "oldLines": 2, "newStart": 19, "newLines": 2, "lines": [" w", "-x", "+y"]}]});
        let result = json!([{"type": "tool_result", "tool_use_id": "t", "content": "done"}]);
        for field in ["tool_use_result", "toolUseResult"] {
            let done = json!({"type": "user", "message": {"content": result}, field: patch}).to_string();
            let Some(TranscriptItem::Tool(tool)) = heard(&[call, &done]).pop() else { panic!("no tool") };
            assert_eq!(tool.diffs, [FileDiff::unified("/a", "@@ -19,2 +19,2 @@\n w\n-x\n+y\n")], "{field}");
        }
        // A part of a file at an unknown place has no line numbers.
        let Some(TranscriptItem::Tool(tool)) = heard(&[call]).pop() else { panic!("no tool") };
        assert!(!tool.diffs[0].whole && tool.diffs[0].unified.is_none());
    }

    #[test]
    fn a_compaction_is_told_and_the_answers_that_it_kept_are_not_repeated() {
        let local = |text: &str| {
            json!({"type": "assistant", "local_command_source": text, "message": {"content": [{"type": "text", "text": text}]}})
                .to_string()
        };
        let boundary = r#"{"type":"system","subtype":"compact_boundary"}"#;
        let summary =
            r#"{"type":"user","isSynthetic":true,"message":{"content":"This session is being continued"}}"#;
        let output = r#"{"type":"user","isReplay":true,"message":{"content":"<local-command-stdout>Compacted </local-command-stdout>"}}"#;
        assert_eq!(
            heard(&[boundary, summary, &local("Total cost: $1"), output]),
            [TranscriptItem::text("Compacted")]
        );
        assert_eq!(heard(&[&local("Total cost: $1"), output]), [TranscriptItem::text("Total cost: $1")]);
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_and_marked_as_cut() {
        let long = "é".repeat(1 << 20);
        let line = json!({"type": "assistant", "message": {"content": [
            {"type": "text", "text": long},
            {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": "/a", "content": long}},
        ]}});
        let items = heard(&[&line.to_string()]);
        assert!(matches!(&items[0], TranscriptItem::Text { text, cut: true } if text.len() <= 256 * 1024));
        let TranscriptItem::Tool(tool) = &items[1] else { panic!("{items:?}") };
        assert!(
            tool.input.is_null() && tool.given.contains("bytes more") && tool.summary.chars().count() <= 200
        );
        assert!(tool.diffs[0].cut && tool.diffs[0].new.as_ref().is_some_and(|new| new.len() <= 64 * 1024));
    }
}
