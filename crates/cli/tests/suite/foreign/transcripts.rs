//! `berth transcript`: looked at, drawn and copied, under each of its names, and never written.

use std::fs;
use std::io::Read;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};

use crate::foreign::{ForeignFixture, id};

/// A transcript that two real processes wrote at once.
fn two_writers(world: &ForeignFixture) -> PathBuf {
    let real =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../transcript/tests/real/claude/two-writers.jsonl");
    let path = world.work("talk.jsonl");
    fs::copy(real, &path).expect("a copy");
    path
}

/// A thread of Codex; its file.
fn codex(world: &ForeignFixture, digit: char) -> PathBuf {
    let dir = world.account("codex").join("sessions/2026/11/16");
    fs::create_dir_all(&dir).expect("a directory");
    let line = |kind: &str, payload: String| {
        format!(r#"{{"timestamp":"2026-11-16T09:00:00.000Z","type":"{kind}","payload":{payload}}}"#)
    };
    let lines = [
        line("session_meta", format!(r#"{{"id":"{}","cwd":"/x"}}"#, id(digit))),
        line("response_item", r#"{"type":"message","role":"user","content":[{"text":"list"}]}"#.to_owned()),
    ];
    let path = dir.join(format!("rollout-2026-11-16T09-00-00-{}.jsonl", id(digit)));
    fs::write(&path, lines.join("\n") + "\n").expect("a file");
    path
}

#[test]
fn all_of_both_agents_are_checked_and_the_exit_code_says_how_they_are() {
    let world = ForeignFixture::new();
    let main = world.claude(&id('a'), "whole", 1);
    codex(&world, 'b');
    let clean = world.berth(&["transcript", "check", "--all"]);
    assert!(clean.code == 0 && clean.out.is_empty(), "{clean:?}");
    assert!(clean.err.contains("2 transcripts: 2 clean, 0 broken"), "{clean:?}");
    // A sub-agent was killed.
    let beside = main.with_extension("").join("subagents");
    fs::create_dir_all(&beside).expect("a directory");
    let torn = fs::read_to_string(&main).expect("text") + "{\"type\":\"us";
    fs::write(beside.join("agent-1.jsonl"), torn).expect("a file");
    let broken = world.berth(&["transcript", "check", "--all"]);
    assert!(broken.code == 12 && broken.out.contains("agent-1.jsonl: 1 fault"), "{broken:?}");
    assert!(broken.err.contains("3 transcripts: 2 clean, 1 broken"), "{broken:?}");
    // A transcript that cannot be read does not keep the others from being checked.
    fs::create_dir(main.with_file_name(format!("{}.jsonl", id('c')))).expect("a directory");
    let unread = world.berth(&["transcript", "check", "--all", "--json"]);
    assert_eq!(unread.code, 1, "{unread:?}");
    let all: serde_json::Value = serde_json::from_str(&unread.out).expect("JSON");
    let errors: Vec<_> = all.as_array().expect("an array").iter().map(|one| one.get("error")).collect();
    assert_eq!((errors.len(), errors.iter().flatten().count()), (4, 1), "{all}");
}

#[test]
fn the_first_report_is_printed_before_the_last_file_is_looked_at() {
    let world = ForeignFixture::new();
    assert_eq!(world.json(&["transcript", "check", "--all", "--json"]), serde_json::json!([]));
    let talk = fs::read(world.claude(&id('a'), "list", 1)).expect("a file");
    // So many that their reports do not fit into a pipe: the command goes on only while its output is read.
    let files: Vec<PathBuf> = (0..1000).map(|number| world.work(&format!("{number}.jsonl"))).collect();
    files.iter().for_each(|file| fs::write(file, &talk).expect("a file"));
    let mut command = world.command(&["transcript", "check", "--json"]);
    let mut child = command.args(&files).stdout(Stdio::piped()).spawn().expect("berth can be started");
    let mut out = child.stdout.take().expect("a pipe");
    let mut begin = [0; 1];
    out.read_exact(&mut begin).expect("its first word");
    fs::write(&files[999], b"{\"torn").expect("a file");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    let all: Vec<serde_json::Value> = serde_json::from_str(&format!("[{}", &rest)).expect("JSON");
    assert_eq!((begin, all.len()), (*b"[", 1000));
    assert_eq!(all[999]["bytes"], 6, "{}", all[999]);
    assert_eq!(child.wait().expect("our own child").code(), Some(12));
}

#[test]
fn a_tool_without_result_is_at_work_while_a_process_has_the_transcript_open_and_interrupted_after() {
    let world = ForeignFixture::new();
    let file = world.claude(&id('a'), "list", 1);
    let call = r#"{"type":"assistant","uuid":"a2","parentUuid":"a1","sessionId":"ID","message":{"id":"m","model":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}"#;
    let text = fs::read_to_string(&file).expect("text") + &call.replace("ID", &id('a')) + "\n";
    fs::write(&file, &text).expect("a file");
    let copy = world.work("copy.jsonl").display().to_string();
    let repair = ["transcript", "repair", &id('a'), "--force", "--to", &copy];
    let open = world.open(&id('a'));
    let named = format!("claude, pid {}", open.identity.pid);
    let live = world.berth(&["transcript", "check", "--all"]);
    assert!(live.code == 0 && live.out.contains("no result yet") && live.out.contains(&named), "{live:?}");
    // Its copy has what it had: the repair does not claim that the tool was interrupted.
    let made = world.berth(&repair);
    assert!(made.code == 12 && made.err.contains(&named), "{made:?}");
    assert_eq!(fs::read_to_string(&copy).expect("a copy"), text);
    // A copy has no writer, even while the original is open.
    assert_eq!(world.berth(&["transcript", "check", &copy]).code, 12);
    drop(open);
    assert_eq!(world.berth(&["transcript", "check", "--all"]).code, 12);
    let made = world.berth(&repair);
    assert!(made.code == 0 && !made.err.contains("has it open"), "{made:?}");
}

#[test]
fn a_folder_that_cannot_be_listed_keeps_no_other_from_being_checked() {
    let world = ForeignFixture::new();
    codex(&world, 'b');
    // The link points at itself, so listing the folder fails for every user, root included.
    std::os::unix::fs::symlink("projects", world.account("claude").join("projects")).expect("a link");
    let said = world.berth(&["transcript", "check", "--all"]);
    assert!(said.code == 1 && said.err.contains("cannot list"), "{said:?}");
    assert!(said.err.contains("1 transcript: 1 clean, 0 broken, 1 could not be read"), "{said:?}");
}

#[test]
fn branches_are_drawn_beside_what_a_resume_takes() {
    let world = ForeignFixture::new();
    let talk = two_writers(&world).display().to_string();
    let mut tree = world.command(&["transcript", "tree", &talk]);
    let said = berth_harness::said(tree.env("TZ", "UTC").output().expect("berth can be started"));
    let expected = "\
●      3  2026-11-16 09:07:33  base words
●     19  2026-11-16 09:07:34  A words SLOW 60
├─╮
│ ○     23  2026-11-16 09:07:36  B words
●     27  2026-11-16 09:07:40  answer: tick 1 tick 2 tick 3 tick 4 tick 5…  ◀ a resume goes on here
";
    assert_eq!((said.out.as_str(), said.code), (expected, 0));
}

#[test]
fn branches_of_branches_are_drawn_however_many_there_are() {
    const DEEP: usize = 24_000;
    let world = ForeignFixture::new();
    let line = |number: usize, parent: usize| {
        let parent = if parent == 0 { "null".to_owned() } else { format!("\"{parent}\"") };
        format!(
            r#"{{"type":"user","sessionId":"s","uuid":"{number}","parentUuid":{parent},"message":{{"content":"x"}}}}"#
        )
    };
    // A long line, and from each of its turns another one that was said later, the last first.
    let deep = (1..=DEEP).map(|number| line(number, number - 1));
    let beside = (1..DEEP).rev().map(|parent| line(DEEP + parent, parent));
    let path = world.work("deep.jsonl");
    fs::write(&path, deep.chain(beside).collect::<Vec<_>>().join("\n")).expect("a file");
    let drawn = world.ok(&["transcript", "tree", &path.display().to_string()]);
    let turns = drawn.lines().filter(|line| line.contains(['●', '○'])).count();
    assert_eq!(turns, 2 * DEEP - 1);
}

#[test]
fn a_conversation_is_found_by_its_file_its_id_or_its_session() {
    let world = ForeignFixture::new();
    let file = world.claude(&id('a'), "mend the login page", 1);
    let path = file.display().to_string();
    world.ok(&["import", &id('a'), "--name", "fix"]);
    let (whole, copy) = (id('a'), world.work("mended.jsonl").display().to_string());
    for word in [path.as_str(), &whole, "aaaaaaaa", "fix"] {
        assert!(world.ok(&["transcript", "check", word]).contains(": clean"), "{word}");
        assert!(world.ok(&["transcript", "tree", word]).contains("mend the login page"), "{word}");
        assert!(world.ok(&["transcript", "show", word]).contains("the answer to mend"), "{word}");
        world.ok(&["transcript", "repair", word, "--force", "--to", &copy]);
        assert_eq!(fs::read(&copy).expect("a copy"), fs::read(&file).expect("a file"));
    }
    // A copy may be called anything.
    assert!(world.ok(&["transcript", "show", &copy]).contains("the answer to mend"));
    for verb in ["check", "tree", "show"] {
        let said = world.berth(&["transcript", verb, "nobody"]);
        assert!(said.code == 3 && said.err.contains("neither a file, nor a session"), "{said:?}");
    }
}

#[test]
fn an_original_is_never_opened_for_writing() {
    let world = ForeignFixture::new();
    let main = world.claude(&id('a'), "mend the login page", 1);
    let originals = [main.clone(), codex(&world, 'b'), two_writers(&world)];
    let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("a watch");
    let changes = WatchFlags::MODIFY
        | WatchFlags::ATTRIB
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::MOVE_SELF
        | WatchFlags::DELETE_SELF;
    for path in &originals {
        add_watch(&watch, path, changes).expect("it is there");
    }
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut seen = Reader::new(&watch, &mut buffer);
    let to = |name: &str| world.work(name).display().to_string();
    let talk = originals[2].display().to_string();
    let verbs: Vec<Vec<String>> = [
        "transcript ls",
        "transcript check --all",
        "ls --foreign",
        "import --all",
        "grep answer",
        "history mend-the-login-page",
    ]
    .iter()
    .map(|line| line.split(' ').map(str::to_owned).collect())
    .collect();
    for args in verbs {
        world.ok(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(seen.next().is_err(), "{args:?}");
    }
    for path in &originals {
        let path = path.display().to_string();
        for verb in ["check", "tree", "show"] {
            world.berth(&["transcript", verb, &path]);
        }
        for wish in ["--beside", "--new-id", "--keep=newest"] {
            let copy = to(&format!("copy{}-{}", wish, path.len()));
            world.ok(&["transcript", "repair", &path, wish, "--force", "--to", &copy]);
        }
        assert!(seen.next().is_err(), "{path}");
    }
    world.ok(&["restore", "mend-the-login-page", "--history", "--to", &to("put-back")]);
    world.berth(&["restore", "mend-the-login-page", "--history"]);
    world.berth(&["transcript", "repair", &talk, "--force", "--to", &talk]);
    assert!(seen.next().is_err());
    // The watch sees what it is for.
    drop(fs::File::options().append(true).open(&main).expect("a file"));
    assert!(seen.next().is_ok());
}
