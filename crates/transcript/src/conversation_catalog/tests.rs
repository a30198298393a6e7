use berth_test_dir::TestDir;

use super::*;

const ID: &str = "11111111-2222-4333-8444-555555555555";

/// A home directory of an agent.
struct CatalogTestDir(TestDir);

impl CatalogTestDir {
    fn new() -> Self {
        Self(TestDir::new())
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    fn list(&self, kind: TranscriptKind) -> ConversationCatalog {
        let dir = self.0.to_path_buf();
        list_conversations(kind, move |name| (name != "HOME").then(|| dir.clone().into())).expect("a list")
    }
}

#[test]
fn a_conversation_of_claude_tells_where_and_how_it_began() {
    let dir = CatalogTestDir::new();
    let lines = [
        r#"{"type":"queue-operation","operation":"enqueue","timestamp":"2026-11-16T08:00:00.000Z","content":"x"}"#,
        r#"{"type":"user","isMeta":true,"message":{"role":"user","content":"not this"},"cwd":"/w"}"#,
        r#"{"type":"user","message":{"role":"user","content":"<command-name>/init</command-name>"}}"#,
        r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"mend\nthe  login"}]},"cwd":"/w","version":"2.1.325","gitBranch":"main","timestamp":"2026-11-16T08:00:01.000Z"}"#,
        r#"{"type":"ai-title","aiTitle":"Login, mended"}"#,
        r#"{"type":"assistant","message":{},"timestamp":"2026-11-16T09:00:00.500Z"}"#,
        r#"{"type":"mode"}"#,
        r#"{"torn"#,
    ];
    dir.write(&format!("projects/-w/{ID}.jsonl"), lines.join("\n"));
    dir.write("projects/-w/agent-1.jsonl", "{}");
    dir.write(&format!("projects/-w/{ID}/subagents/agent-2.jsonl"), "{}");
    let catalog = dir.list(TranscriptKind::Claude);
    assert_eq!(catalog.kept.len(), 1, "{catalog:?}");
    let kept = &catalog.kept[0];
    assert_eq!((kept.kind, kept.id.as_str(), kept.is_archived), (TranscriptKind::Claude, ID, false));
    let details = kept.details().expect("details");
    assert_eq!(details.cwd.as_deref(), Some(Path::new("/w")));
    assert_eq!(details.first_words.as_deref(), Some("mend the login"));
    assert_eq!(details.title.as_deref(), Some("Login, mended"));
    assert_eq!((details.version.as_deref(), details.branch.as_deref()), (Some("2.1.325"), Some("main")));
    assert_eq!(details.began_ms, parse_timestamp_ms("2026-11-16T08:00:00.000Z"));
    assert_eq!(details.last_ms, parse_timestamp_ms("2026-11-16T09:00:00.500Z"));
}

#[test]
fn a_rollout_of_codex_tells_the_same() {
    let dir = CatalogTestDir::new();
    let lines = [
        r#"{"timestamp":"2026-11-16T08:00:00.000Z","type":"session_meta","payload":{"id":"x","cwd":"/w","cli_version":"0.166.0","git":{"branch":"main"}}}"#,
        r#"{"timestamp":"2026-11-16T08:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]}}"#,
        r#"{"timestamp":"2026-11-16T08:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello codex"}]}}"#,
    ];
    dir.write(&format!("sessions/2026/11/16/rollout-2026-11-16T08-00-00-{ID}.jsonl"), lines.join("\n"));
    dir.write(&format!("archived_sessions/rollout-2026-11-15T08-00-00-{}.jsonl", ID.replace('1', "a")), "");
    let catalog = dir.list(TranscriptKind::Codex);
    let mut archived: Vec<bool> = catalog.kept.iter().map(|kept| kept.is_archived).collect();
    archived.sort_unstable();
    assert_eq!(archived, [false, true]);
    let kept = catalog.kept.iter().find(|kept| kept.id == ID).expect("the first one");
    let details = kept.details().expect("details");
    assert_eq!(details.first_words.as_deref(), Some("hello codex"));
    assert_eq!((details.cwd.as_deref(), details.branch.as_deref()), (Some(Path::new("/w")), Some("main")));
}

#[test]
fn an_odd_file_is_listed_with_the_facts_that_are_known() {
    let dir = CatalogTestDir::new();
    let id = |digit: &str| ID.replace('1', digit);
    dir.write(&format!("projects/-w/{}.jsonl", id("a")), "");
    dir.write(&format!("projects/-w/{}.jsonl", id("b")), [0u8, 255, 10, 0, 0]);
    // A line longer than the limit for reading.
    dir.write(&format!("projects/-w/{}.jsonl", id("c")), vec![b'x'; 2 << 20]);
    fs::create_dir_all(dir.0.join(format!("projects/-w/{}.jsonl", id("d")))).expect("a directory");
    dir.write(&format!("projects/-w/not-{}.jsonl", id("e")), "{}");
    let catalog = dir.list(TranscriptKind::Claude);
    assert_eq!(catalog.kept.len(), 3, "{catalog:?}");
    for kept in &catalog.kept {
        assert_eq!(kept.details().expect("details"), ConversationDetails::default(), "{kept:?}");
    }
    assert_eq!(CatalogTestDir::new().list(TranscriptKind::Codex), ConversationCatalog::default());
}

#[test]
fn one_file_by_two_names_is_one_conversation() {
    let dir = CatalogTestDir::new();
    dir.write(&format!("projects/-w/{ID}.jsonl"), "{}");
    std::os::unix::fs::symlink(dir.0.join("projects/-w"), dir.0.join("projects/-v")).expect("a link");
    assert_eq!(dir.list(TranscriptKind::Claude).kept.len(), 1);
}

#[test]
fn first_words_are_one_line_and_never_too_long() {
    assert_eq!(first_words(" \n\t"), None);
    assert_eq!(first_words("a\u{1b}[31m b").as_deref(), Some("a[31m b"));
    for long in ["word ".repeat(500), "é".repeat(5000)] {
        let line = first_words(&long).expect("words");
        assert!(line.chars().count() <= MAX_WORDS_CHARS + 1, "{}", line.chars().count());
    }
}

#[test]
fn a_rollout_that_works_for_another_conversation_is_of_a_sub_agent() {
    let dir = CatalogTestDir::new();
    let is_one = |meta: &str| {
        dir.write("rollout.jsonl", format!("{{\"type\":\"session_meta\",\"payload\":{meta}}}\n"));
        is_of_sub_agent(&dir.0.join("rollout.jsonl"))
    };
    assert!(!is_one(r#"{"session_id":"a","id":"a","source":"cli"}"#));
    assert!(!is_one(r#"{"id":"a"}"#));
    assert!(is_one(r#"{"session_id":"a","id":"b"}"#));
    assert!(is_one(r#"{"id":"b","source":{"subagent":{"thread_spawn":{"parent_thread_id":"a"}}}}"#));
    assert!(!is_of_sub_agent(Path::new("/nowhere")));
}
