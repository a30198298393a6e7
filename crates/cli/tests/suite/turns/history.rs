//! Copies of the agent's own transcript: made at the end of each turn, and there when the agent's file is gone.
//!
//! The agent here is the fake one, under the name of Claude Code; the test writes the records that
//! Claude Code would write.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_harness::{TestEnvironment, said, wait_until};
use berth_host::lock;
use serde_json::Value;

use super::*;

/// A session whose agent's transcripts are those of Claude Code, as far as berth knows.
struct TranscriptHistoryFixture {
    lab: TestEnvironment,
    id: String,
    file: PathBuf,
}

impl TranscriptHistoryFixture {
    /// A session after one turn, of which there is no transcript yet.
    fn new(killpoint: Option<&str>) -> Self {
        let lab = TestEnvironment::new(env!("CARGO_BIN_EXE_berth"));
        fs::create_dir(lab.store()).expect("a directory for transcripts");
        let command = [lab.agent(), "acp".into(), "--store".into(), lab.store().display().to_string()];
        let agent = format!(
            "[agents.fake]\ndriver = \"acp\"\nconversation_kind = \"claude\"\ncommand = {command:?}\n"
        );
        fs::write(lab.config(), agent).expect("a config file");
        let env = format!("CLAUDE_CONFIG_DIR={}", lab.dir().join("claude").display());
        let mut run = lab.command(["run", "-d", "--agent", "fake", "--name", "fix", "--env", &env]);
        if let Some(point) = killpoint {
            run.env("BERTH_KILLPOINT", point).env("BERTH_LAST_COPY_MS", "0");
        }
        let ran = said(run.output().expect("berth starts"));
        assert_eq!(ran.code, 0, "{ran:?}");
        let id = ran.out.trim().to_owned();
        let native = text(&lab.show(&id), "conversation_id");
        let project = lab.dir().join("claude/projects/-work");
        fs::create_dir_all(&project).expect("a directory");
        Self { file: project.join(format!("{native}.jsonl")), lab, id }
    }

    /// A turn in which the transcript gets another line, as agents write; returns the contents of the file then. A line
    /// that comes between two turns belongs to another writer, and the agent is started anew for it.
    fn turn(&self, words: &str) -> Vec<u8> {
        let mut bytes = fs::read(&self.file).unwrap_or_default();
        let line = format!(
            "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{words}\"}},\"uuid\":\"{words}\"}}\n"
        );
        bytes.extend_from_slice(line.as_bytes());
        let (begun, touch) = mark(&self.lab, &format!("begun-{words}"));
        let (gate, wait) = gate(&self.lab, &format!("gate-{words}"));
        let sent = spawn(&self.lab, ["send", "--wait", &self.id, &format!("{touch} {wait} say:{words}")]);
        wait_mark(&begun);
        fs::write(&self.file, &bytes).expect("a transcript");
        open(&gate);
        let sent = finish(sent);
        assert_eq!(sent.code, 0, "{sent:?}");
        bytes
    }

    fn points(&self) -> Vec<Value> {
        self.lab.json(["history", &self.id, "--json"])["points"].as_array().expect("an array").clone()
    }

    /// Waits until there are so many copies.
    fn wait_points(&self, count: usize) {
        wait_until(&format!("{count} copies"), || self.points().len() == count);
    }

    fn stop(&self) {
        self.lab.ok(["stop", &self.id]);
        wait_unkept(&self.lab, &self.id);
    }

    fn copies(&self) -> PathBuf {
        self.lab.home().join("history")
    }
}

/// How many files are below a directory.
fn files(dir: &std::path::Path) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

#[test]
fn a_conversation_outlives_the_agents_own_file() {
    let kept = TranscriptHistoryFixture::new(None);
    let one = kept.turn("one");
    kept.wait_points(1);
    let two = kept.turn("two");
    kept.wait_points(2);
    let points = kept.points();
    assert_eq!(points.iter().map(|point| &point["turn"]).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(points[1]["size"], two.len());
    kept.stop();
    assert_eq!(kept.points().len(), 2, "the end of a run in which nothing was said adds nothing");
    fs::remove_file(&kept.file).expect("the agent cleans up");
    let shown = kept.lab.berth(["history", "fix"]);
    assert!(shown.err.contains("berth restore fix --history"), "{shown:?}");
    let resumed = kept.lab.berth(["resume", "-d", "fix"]);
    assert_eq!(resumed.code, 3, "{resumed:?}");
    assert!(resumed.err.contains("berth restore fix --history"), "{resumed:?}");
    assert_eq!(kept.lab.ok(["restore", "fix", "--history"]), kept.file.display().to_string());
    assert_eq!(fs::read(&kept.file).expect("a transcript"), two);
    kept.lab.ok(["resume", "-d", "fix"]);
    kept.lab.ok(["send", "--wait", "fix", "say:three"]);
    let to = kept.lab.dir().join("copy.jsonl");
    kept.lab.ok(["restore", "fix", "--history", "--at", "1", "--to", &to.display().to_string()]);
    assert_eq!(fs::read(&to).expect("a copy"), one);
}

#[test]
fn a_file_that_is_there_is_never_written_over() {
    let kept = TranscriptHistoryFixture::new(None);
    kept.turn("one");
    kept.wait_points(1);
    let running = kept.lab.berth(["restore", "fix", "--history"]);
    assert!(running.code == 4 && running.err.contains("runs"), "{running:?}");
    kept.stop();
    fs::write(&kept.file, "something else\n").expect("a file");
    let there = kept.lab.berth(["restore", "fix", "--history"]);
    assert!(there.code == 4 && there.err.contains("--to FILE"), "{there:?}");
    assert_eq!(fs::read(&kept.file).expect("a file"), b"something else\n");
    // The target of a link is not copied, either.
    let (link, aim) = (kept.lab.dir().join("link"), kept.lab.dir().join("aim"));
    std::os::unix::fs::symlink(&aim, &link).expect("a link");
    let linked = kept.lab.berth(["restore", "fix", "--history", "--to", &link.display().to_string()]);
    assert_eq!(linked.code, 4, "{linked:?}");
    assert!(!aim.exists());
    assert_eq!(kept.lab.berth(["restore", "fix", "--history", "--at", "7"]).code, 3);
    assert_eq!(kept.lab.berth(["restore", "fix", "--at", "1"]).code, 2, "--at is of a history");
}

#[test]
fn nothing_is_copied_when_the_config_file_says_so() {
    let kept = TranscriptHistoryFixture::new(None);
    let config = fs::read_to_string(kept.lab.config()).expect("a config file");
    fs::write(kept.lab.config(), config + "[history]\nkeep = \"off\"\n").expect("a config file");
    kept.stop();
    kept.turn("one");
    kept.stop();
    assert_eq!(files(&kept.copies()), 0);
    assert!(kept.lab.berth(["history", "fix"]).err.contains("no copies yet"));
}

#[test]
fn a_keeper_killed_while_it_copies_loses_no_copy_and_the_next_one_copies_all() {
    for point in ["copying", "copied-pieces:2", "copied"] {
        let kept = TranscriptHistoryFixture::new(Some(point));
        let id = kept.id.clone();
        let _ = kept.lab.berth(["send", "--wait", &id, "say:zero"]);
        let bytes: Vec<u8> = {
            let line = |words: &str| {
                format!(
                    "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{words}\"}},\"uuid\":\"{words}\"}}\n"
                )
            };
            (0..3).flat_map(|turn| line(&turn.to_string()).into_bytes()).collect()
        };
        for turn in 1..=3 {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n').take(turn).collect::<Vec<_>>().concat();
            fs::write(&kept.file, lines).expect("a transcript");
            // The session's keeper dies in one of these turns; the next command brings it back.
            let _ = kept.lab.berth(["send", "--wait", &id, "say:more"]);
        }
        kept.lab.berth(["send", "--wait", &id, "say:last"]);
        wait_until("a copy of all", || {
            kept.points().last().is_some_and(|point| point["size"] == bytes.len())
        });
        assert!(kept.lab.show(&id)["epoch"].as_u64() >= Some(2), "its keeper was killed at {point}");
        kept.stop();
        fs::remove_file(&kept.file).expect("the agent cleans up");
        kept.lab.ok(["restore", "fix", "--history"]);
        assert_eq!(fs::read(&kept.file).expect("a transcript"), bytes, "killed at {point}");
        kept.lab.ok(["sweep"]);
        assert_eq!(kept.points().last().expect("a point")["size"], bytes.len());
    }
}

#[test]
fn a_copy_that_hangs_holds_up_neither_turns_nor_the_end() {
    let kept = TranscriptHistoryFixture::new(Some("stall:copying"));
    kept.turn("one");
    kept.turn("two");
    let from = Instant::now();
    kept.stop();
    println!("stopped after {:?}", from.elapsed());
    assert_eq!(kept.points().len(), 0);
}

#[test]
fn a_purge_takes_the_history_with_it() {
    let kept = TranscriptHistoryFixture::new(None);
    kept.turn("one");
    kept.wait_points(1);
    kept.stop();
    kept.lab.ok(["purge", "fix", "--yes"]);
    assert_eq!(files(&kept.copies().join("of")), 0);
    kept.lab.ok(["sweep"]);
    assert_eq!(files(&kept.copies().join("pieces")), 0);
    assert!(kept.file.exists(), "the agent's own file is not ours");
}

/// A keeper reports that its run is over, and then makes the last copy: a purge waits for that.
#[test]
fn a_purge_waits_for_the_last_copy() {
    let kept = TranscriptHistoryFixture::new(None);
    kept.turn("one");
    kept.wait_points(1);
    let lease = kept.lab.session_dir(&kept.id).join("lease");
    kept.stop();
    wait_until("its keeper to leave", || matches!(lock::lock_state(&lease), Ok(Some(lock::LockState::Free))));
    // As if the keeper were still copying, after a slow farewell to a client that does not listen.
    let dir = kept.lab.session_dir(&kept.id);
    let copying = berth_store::SessionFiles::understand(dir.as_os_str())
        .expect("a session")
        .claim()
        .expect("its lease")
        .expect("the lock is free");
    copying.sign(&berth_host::identity::ProcessIdentity::me().expect("this process"), 1).expect("its lease");
    let mut purge = spawn(&kept.lab, ["purge", "fix", "--yes"]);
    let begun = Instant::now();
    wait_until("it to have claimed in vain", || {
        begun.elapsed() > Duration::from_secs(4) || purge.try_wait().expect("our own child").is_some()
    });
    drop(copying);
    let purge = finish(purge);
    assert_eq!(purge.code, 0, "{purge:?}");
}

/// The purging process is killed: the next sweep finishes the purge.
#[test]
fn a_purge_that_was_broken_off_takes_the_history_with_it_in_the_end() {
    for point in ["purging", "purged-names"] {
        let kept = TranscriptHistoryFixture::new(None);
        kept.turn("one");
        kept.wait_points(1);
        kept.stop();
        let purge = kept.lab.command(["purge", "fix", "--yes"]).env("BERTH_KILLPOINT", point).output();
        assert_ne!(said(purge.expect("berth starts")).code, 0, "{point}");
        assert_ne!(files(&kept.copies().join("of")), 0, "{point}");
        kept.lab.ok(["sweep"]);
        assert_eq!(files(&kept.copies().join("of")), 0, "{point}");
        kept.lab.ok(["sweep"]);
        assert_eq!(files(&kept.copies().join("pieces")), 0, "{point}");
    }
    let kept = TranscriptHistoryFixture::new(None);
    kept.turn("one");
    kept.wait_points(1);
    kept.stop();
    let other = kept.copies().join("of/claude/other");
    fs::create_dir(&other).expect("a directory");
    fs::write(other.join("00000001.json"), "{").expect("a damaged description");
    // The owner of this history cannot be known. It stays, and disturbs no session.
    kept.lab.ok(["purge", "fix", "--yes"]);
    assert_eq!(kept.lab.berth(["show", &kept.id]).code, 3, "it is in no list any more");
    assert_eq!(files(&kept.copies().join("of")), 1);
    assert!(!kept.lab.home().join("purging").join(&kept.id).exists());
}

#[test]
fn files_of_sub_agents_are_restored_beside_the_file_under_any_name() {
    let kept = TranscriptHistoryFixture::new(None);
    let beside = kept.file.with_extension("").join("subagents");
    fs::create_dir_all(&beside).expect("a directory");
    fs::write(beside.join("agent-1.jsonl"), "{}\n").expect("a file");
    kept.turn("one");
    kept.wait_points(1);
    kept.turn("two");
    kept.wait_points(2);
    kept.stop();
    for (name, folder) in [("plain", "plain.d"), ("ended.jsonl", "ended")] {
        let to = kept.lab.dir().join(name);
        let out = kept.lab.ok(["restore", "fix", "--history", "--to", &to.display().to_string()]);
        let agent = kept.lab.dir().join(folder).join("subagents/agent-1.jsonl");
        assert_eq!(out, format!("{}\n{}", to.display(), agent.display()));
        assert_eq!(fs::read(&agent).expect("a file"), b"{}\n");
        assert_eq!(fs::read(&to).expect("a file"), fs::read(&kept.file).expect("a transcript"));
    }
}
