//! Tests of transcripts that are torn, huge, odd, repeated or missing.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;

use berth_transcript::{GivenPrompt, MAX_ANSWER_BYTES, TurnFate, transcript_exists, turn_fate};
use proptest::prelude::*;

use crate::common::{ID, TranscriptTestHome, done, fate_in, real, word};

const KINDS: [&str; 2] = ["claude", "codex"];

fn third() -> GivenPrompt<'static> {
    GivenPrompt::new("third words")
}

#[track_caller]
fn is(fate: &TurnFate, variant: &str, why: &str) {
    let (is, said) = word(fate);
    assert!(is == variant && said.contains(why), "expected {variant} ({why}), got {fate:?}");
}

/// A transcript cut at its last record of this kind.
fn before(kind: &str, what: &str) -> Vec<u8> {
    let whole = String::from_utf8(real(kind, "finished")).unwrap();
    let at = whole.rfind(what).unwrap();
    let start = whole[..at].rfind('\n').unwrap() + 1;
    whole.as_bytes()[..start].to_vec()
}

fn before_the_end(kind: &str) -> Vec<u8> {
    before(kind, if kind == "claude" { "\"type\":\"assistant\"" } else { "task_complete" })
}

#[test]
fn a_torn_end_allows_no_claim_that_the_turn_was_not_finished() {
    for kind in KINDS {
        let whole = before_the_end(kind);
        is(&fate_in(kind, &whole, &third()), "unfinished", "");
        let torn = [&whole[..], b"{\"type\":\"assis"].concat();
        is(&fate_in(kind, &torn, &third()), "cannot tell", "cannot be read");
        let zeroes = [&whole[..], &[0; 4096]].concat();
        is(&fate_in(kind, &zeroes, &third()), "cannot tell", "cannot be read");
        // Cut in the middle of a character.
        let split =
            [&whole[..], "{\"type\":\"assistant\",\"message\":\"é".as_bytes().split_last().unwrap().1]
                .concat();
        is(&fate_in(kind, &split, &third()), "cannot tell", "cannot be read");
    }
}

#[test]
fn an_end_that_is_there_counts_whatever_is_torn_around_it() {
    for kind in KINDS {
        let whole = real(kind, "finished");
        let answer = done("ECHO: third words");
        let without_newline = whole.strip_suffix(b"\n").unwrap();
        assert_eq!(fate_in(kind, without_newline, &third()), answer);
        assert_eq!(fate_in(kind, &[&whole[..], b"{\"type\":\"ass"].concat(), &third()), answer);
        assert_eq!(fate_in(kind, &[&whole[..], &[0; 512]].concat(), &third()), answer);
        // A torn record of an agent that went on: an invalid line in the middle.
        let mended = [b"{\"type\":\"user\",\"mess\n\xff\xfe\n", &whole[..]].concat();
        assert_eq!(fate_in(kind, &mended, &third()), answer);
        let mended = [b"{\"type\":\"us\n", &before_the_end(kind)[..]].concat();
        is(&fate_in(kind, &mended, &third()), "unfinished", "");
    }
}

#[test]
fn a_prompt_that_may_be_in_an_unreadable_part_is_not_called_missing() {
    for kind in KINDS {
        let torn = [&real(kind, "finished")[..], b"{\"type\":\"us"].concat();
        is(
            &fate_in(kind, &torn, &GivenPrompt::new("fourth words")),
            "cannot tell",
            "parts of it cannot be read",
        );
    }
}

#[test]
fn records_of_an_unknown_kind_or_shape_are_passed_over() {
    for kind in KINDS {
        let odd = b"{\"type\":\"new\",\"message\":7,\"payload\":[1]}\n{\"type\":\"other\",\"payload\":{\"item\":3}}\n";
        let bytes = [&odd[..], &before_the_end(kind), odd].concat();
        is(&fate_in(kind, &bytes, &third()), "unfinished", "");
        for damage in
            ["[]\n", "7\n", "{}\n", "\"text\"\n", "{\"type\":7}\n", "{\"type\":\"user\",\"message\":7}\n"]
        {
            let bytes = [&real(kind, "finished")[..], damage.as_bytes()].concat();
            assert_eq!(fate_in(kind, &bytes, &third()), done("ECHO: third words"), "{damage}");
        }
    }
}

#[test]
fn no_file_is_proof_only_for_the_first_prompt_of_a_conversation() {
    for kind in KINDS {
        let home = TranscriptTestHome::new();
        is(&home.fate(kind, &third()), "cannot tell", "kept no record");
        is(&home.fate(kind, &GivenPrompt { first: true, ..third() }), "unfinished", "kept no record");
        let lost = GivenPrompt { first: true, same_boot: false, ..third() };
        is(&home.fate(kind, &lost), "cannot tell", "kept no record");
        assert_eq!(transcript_exists(kind, ID, home.env()), Some(false));
    }
}

#[test]
fn a_conversation_exists_once_something_was_said_in_it() {
    for kind in KINDS {
        let home = TranscriptTestHome::new();
        let path = home.write(kind, b"");
        assert_eq!(transcript_exists(kind, ID, home.env()), Some(false));
        fs::write(&path, b"{\"type\":\"queue-operation\",\"operation\":\"enqueue\",\"content\":\"x\"}\n")
            .unwrap();
        assert_eq!(transcript_exists(kind, ID, home.env()), Some(false), "no agent resumes that");
        fs::write(&path, real(kind, "finished")).unwrap();
        assert_eq!(transcript_exists(kind, ID, home.env()), Some(true));
        assert_eq!(transcript_exists(kind, "11111111-2222-4333-8444-555555555556", home.env()), Some(false));
    }
}

#[test]
fn an_archived_conversation_can_be_read_and_not_resumed() {
    let home = TranscriptTestHome::new();
    let path = home.write("codex", &real("codex", "finished"));
    let away = home.0.join(".codex/archived_sessions");
    fs::create_dir(&away).unwrap();
    let away = away.join(path.file_name().unwrap());
    fs::rename(&path, &away).unwrap();
    assert_eq!(home.fate("codex", &third()), done("ECHO: third words"));
    assert_eq!(transcript_exists("codex", ID, home.env()), Some(false));
    // A compressed one can be resumed by its agent, and not read by us.
    fs::rename(&away, path.with_extension("jsonl.zst")).unwrap();
    assert_eq!(transcript_exists("codex", ID, home.env()), Some(true));
    is(&home.fate("codex", &third()), "cannot tell", "compressed");
}

#[test]
fn the_agents_environment_says_where_to_look_and_not_ours() {
    for (kind, variable, usual) in
        [("claude", "CLAUDE_CONFIG_DIR", ".claude"), ("codex", "CODEX_HOME", ".codex")]
    {
        let home = TranscriptTestHome::new();
        home.write(kind, &real(kind, "finished"));
        let elsewhere = home.0.join("elsewhere");
        fs::rename(home.0.join(usual), &elsewhere).unwrap();
        is(&home.fate(kind, &third()), "cannot tell", "kept no record");
        let env = |name: &str| (name == variable).then(|| elsewhere.clone().into_os_string());
        assert_eq!(turn_fate(kind, ID, env, &third()), done("ECHO: third words"));
        is(&turn_fate(kind, ID, |_| None, &third()), "cannot tell", "HOME is set");
        let relative = |name: &str| (name == variable).then(|| "elsewhere".into());
        is(&turn_fate(kind, ID, relative, &third()), "cannot tell", "not an absolute path");
        assert_eq!(transcript_exists(kind, ID, relative), None);
    }
}

#[test]
fn an_unknown_kind_or_an_id_that_is_none_is_not_looked_for() {
    let home = TranscriptTestHome::new();
    home.write("claude", &real("claude", "finished"));
    is(&turn_fate("opencode", ID, home.env(), &third()), "cannot tell", "opencode");
    assert_eq!(transcript_exists("opencode", ID, home.env()), None);
    let long = "x".repeat(200);
    for id in ["", "..", "a/b", "../-home-user-project/11111111-2222-4333-8444-555555555555", "a\0b", &long] {
        is(&turn_fate("claude", id, home.env(), &third()), "cannot tell", "id of the conversation");
        assert_eq!(transcript_exists("claude", id, home.env()), None);
    }
}

#[test]
fn links_are_followed_and_two_paths_to_one_file_are_one() {
    for kind in KINDS {
        let home = TranscriptTestHome::new();
        let path = home.write(kind, &real(kind, "finished"));
        let moved = home.0.join("moved");
        fs::rename(&path, &moved).unwrap();
        symlink(&moved, &path).unwrap();
        assert_eq!(home.fate(kind, &third()), done("ECHO: third words"));
        let dir = path.parent().unwrap();
        symlink(dir, dir.with_file_name("again")).unwrap();
        assert_eq!(home.fate(kind, &third()), done("ECHO: third words"));
        fs::remove_file(&moved).unwrap();
        is(&home.fate(kind, &third()), "cannot tell", "");
    }
}

#[test]
fn two_records_of_one_conversation_are_not_chosen_from() {
    for kind in KINDS {
        let home = TranscriptTestHome::new();
        let path = home.write(kind, &real(kind, "finished"));
        let other = path.parent().unwrap().with_file_name("other");
        fs::create_dir(&other).unwrap();
        fs::copy(&path, other.join(path.file_name().unwrap())).unwrap();
        is(&home.fate(kind, &third()), "cannot tell", "two records");
    }
}

#[test]
fn a_path_that_is_not_a_regular_file_is_refused_without_waiting() {
    for kind in KINDS {
        let home = TranscriptTestHome::new();
        let path = home.write(kind, b"");
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        is(&home.fate(kind, &third()), "cannot tell", "is not a file");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        is(&home.fate(kind, &third()), "cannot tell", "is not a file");
        assert_eq!(transcript_exists(kind, ID, home.env()), None);
    }
}

#[test]
fn a_long_answer_is_cut_at_the_end_of_a_character() {
    for kind in KINDS {
        let long = "é".repeat(MAX_ANSWER_BYTES / 2 + 10);
        let text = String::from_utf8(real(kind, "finished")).unwrap();
        let text = text.replace("ECHO: third words", &format!("x{long}"));
        let TurnFate::Done { answer, cut } = fate_in(kind, text.as_bytes(), &third()) else {
            panic!("not done")
        };
        assert_eq!((answer.len(), cut), (MAX_ANSWER_BYTES - 1, true));
    }
}

#[test]
fn a_transcript_of_100_mb_is_read_in_little_memory() {
    for kind in KINDS {
        let home = TranscriptTestHome::new();
        let path = home.write(kind, b"");
        let mut file = fs::File::create(&path).unwrap();
        let bulk = match kind {
            "claude" => {
                r#"{"type":"user","uuid":"u","parentUuid":"p","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"@"}]}}"#
            }
            _ => r#"{"type":"response_item","payload":{"type":"function_call_output","output":"@"}}"#,
        };
        let bulk = format!("{}\n", bulk.replace('@', &"0123456789".repeat(10_000)));
        for _ in 0..1000 {
            file.write_all(bulk.as_bytes()).unwrap();
        }
        file.write_all(&real(kind, "finished")).unwrap();
        drop(file);
        let before = peak_kib();
        let begun = std::time::Instant::now();
        assert_eq!(home.fate(kind, &third()), done("ECHO: third words"));
        let (took, grew) = (begun.elapsed(), peak_kib() - before);
        println!("{kind}: {took:?}, {grew} KiB");
        assert!(grew < 8 << 10, "reading took {grew} KiB");
    }
}

/// The most memory this process ever had.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn however_a_transcript_is_cut_a_claim_is_true(kind in 0..2_usize, at in 0.0..1.0_f64) {
        let kind = KINDS[kind];
        let whole = real(kind, "finished");
        let at = (whole.len() as f64 * at) as usize;
        let found = fate_in(kind, &whole[..at], &third());
        match &found {
            TurnFate::Done { answer, .. } => prop_assert_eq!(answer, "ECHO: third words"),
            // In this case nothing may be torn.
            TurnFate::Unfinished { .. } => {
                let end = &whole[..at];
                prop_assert!(end.is_empty() || end.ends_with(b"\n") || whole[at] == b'\n', "{:?}", found);
            }
            TurnFate::CannotTell { .. } => {}
            TurnFate::Failed { .. } | TurnFate::Rejected { .. } => prop_assert!(false, "{:?}", found),
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        kind in 0..2_usize,
        at in 0.0..1.0_f64,
        damage in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let kind = KINDS[kind];
        let mut bytes = real(kind, "tool");
        let at = (bytes.len() as f64 * at) as usize;
        let end = (at + damage.len()).min(bytes.len());
        bytes.splice(at..end, damage);
        let found = fate_in(kind, &bytes, &GivenPrompt::new("THINK TOOL echo hi"));
        prop_assert!(!matches!(found, TurnFate::Failed { .. } | TurnFate::Rejected { .. }), "{:?}", found);
    }
}

#[test]
fn a_record_with_more_in_it_than_is_held_cannot_be_told_about() {
    let blocks = |count: usize| vec![r#"{"type":"text","text":"x"}"#; count].join(",");
    let talk = |count: usize| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"u\",\"message\":{{\"content\":\"hello\"}}}}\n\
             {{\"type\":\"assistant\",\"uuid\":\"a\",\"parentUuid\":\"u\",\"message\":{{\"id\":\"m\",\
             \"stop_reason\":\"end_turn\",\"content\":[{}]}}}}\n",
            blocks(count)
        )
    };
    let fate = |count: usize| fate_in("claude", talk(count).as_bytes(), &GivenPrompt::new("hello"));
    assert_eq!(word(&fate(3)), ("done", "xxx"));
    assert_eq!(word(&fate(20_000)).0, "cannot tell");
}
