//! Files that are damaged, missing, from the past or from the future: said loudly, nothing made worse.

use std::fs;
use std::path::PathBuf;

use berth_harness::TestEnvironment;
use berth_journal::{Journal, JournalLimits, JournalRecord, RealDisk};

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// A session that has said `said` and ended with exit 3.
fn ended(lab: &TestEnvironment, options: &[&str]) -> String {
    let id = lab.start_with(options, &["say:said", "exit:3"]);
    assert_eq!(lab.berth(["wait", &id]).code, 3);
    berth_harness::wait_until("the keeper's end", || lab.processes().is_empty());
    id
}

fn first_segment(lab: &TestEnvironment, id: &str) -> PathBuf {
    lab.session_dir(id).join("journal").join("00000000000000000001.log")
}

/// Everything that needs the journal refuses, names the file, and leaves it as it is; everything
/// else goes on.
fn assert_refused(lab: &TestEnvironment, id: &str, name: &str, why: &str) {
    let segment = first_segment(lab, id);
    let before = fs::read(&segment).expect("the segment");
    let other = lab.start_with(&["--name", "healthy"], &["hang"]);
    let agent = lab.agent();
    for session in [id, name] {
        let refused: [&[&str]; 7] = [
            &["show", session],
            &["log", session],
            &["why", session],
            &["resume", session],
            &["stop", session],
            &["rename", session, "another"],
            &["wait", session],
        ];
        for args in refused {
            let said = lab.berth(args);
            assert_eq!((said.code, said.out.as_str()), (1, ""), "{args:?}: {said:?}");
            assert!(said.err.contains(&segment.display().to_string()), "{args:?}: {said:?}");
            assert!(said.err.contains(why), "{args:?}: {said:?}");
        }
    }
    // The session keeps its name and its key: whether it gave them up cannot be known.
    for option in [["--name", name], ["--key", "its-key"]] {
        let said = lab.berth(["run", "-d", option[0], option[1], "--", &agent, "hang"]);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{option:?}: {said:?}");
    }
    let _ = fs::remove_file(lab.session_dir(id).join("status.json"));
    let said = lab.berth(["ls", "--json"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains(&segment.display().to_string()), "{said:?}");
    let listed: serde_json::Value = serde_json::from_str(&said.out).expect("still an array");
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["id"], other.as_str());
    assert_eq!(fs::read(&segment).expect("the segment"), before, "the file is untouched");
    lab.ok(["rename", "healthy", "still-healthy"]);
    lab.ok(["stop", "still-healthy"]);
}

#[test]
fn a_flipped_byte_in_a_journal_is_refused_only_by_commands_that_need_the_journal() {
    let lab = lab();
    let id = ended(&lab, &["--name", "hurt", "--key", "its-key"]);
    let segment = first_segment(&lab, &id);
    let mut bytes = fs::read(&segment).expect("the segment");
    bytes[60] ^= 1;
    fs::write(&segment, bytes).expect("the segment");
    assert_refused(&lab, &id, "hurt", "is damaged at byte");
}

#[test]
fn a_damaged_session_is_told_by_a_command_with_conditions_and_the_others_are_handled() {
    let lab = lab();
    let hurt = ended(&lab, &["--name", "hurt"]);
    let segment = first_segment(&lab, &hurt);
    let mut bytes = fs::read(&segment).expect("the segment");
    bytes[60] ^= 1;
    fs::write(&segment, bytes).expect("the segment");
    fs::remove_file(lab.session_dir(&hurt).join("status.json")).expect("the status cache");
    lab.start_with(&["--name", "well", "--tag", "nightly"], &["hang"]);
    for args in [
        &["tag", "--tag", "nightly", "seen"][..],
        &["stop", "--tag", "nightly", "--grace", "0s", "--yes"],
        &["archive", "--tag", "nightly", "--yes"],
        &["restore", "--tag", "nightly"],
        &["purge", "--tag", "nightly", "--yes"],
    ] {
        let said = lab.berth(args);
        assert_eq!(said.code, 1, "{args:?}: {said:?}");
        assert!(said.err.contains("is damaged at byte") && said.err.contains("well"), "{args:?}: {said:?}");
    }
    assert_eq!(lab.berth(["show", "well"]).code, 3, "it was purged");
}

/// The advice of docs/recovery.md, for a session that people know by its name.
#[test]
fn session_with_a_damaged_journal_is_stopped_and_its_output_read_by_name() {
    let lab = lab();
    let id = lab.start_with(&["--name", "hurt"], &["say:said", "hang"]);
    lab.wait_output(&id, "said");
    let segment = first_segment(&lab, &id);
    let mut bytes = fs::read(&segment).expect("the segment");
    bytes[60] ^= 1;
    // In place: the keeper has the file open.
    let file = fs::OpenOptions::new().write(true).open(&segment).expect("the segment");
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[60..61], 60).expect("the segment");
    let agent = lab.processes();
    assert_eq!(lab.berth(["log", "hurt"]).code, 1, "the journal is damaged");
    let output = lab.berth(["output", "hurt"]);
    assert!(output.out.contains("said"), "{output:?}");
    let stopped = lab.berth(["stop", "--grace", "0s", "hurt"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    agent.iter().for_each(berth_harness::wait_gone);
    // From here on only the journal says how the session ended.
    fs::remove_file(lab.session_dir(&id).join("status.json")).expect("the status cache");
    let output = lab.berth(["output", "hurt"]);
    assert!(output.out.contains("said") && output.err.contains("is damaged at byte"), "{output:?}");
}

#[test]
fn a_journal_that_lost_its_first_file_is_refused() {
    let lab = lab();
    let id = ended(&lab, &["--name", "hurt", "--key", "its-key"]);
    // A small first file would be taken over by the next.
    let limits = JournalLimits { merge_bytes: 0, ..JournalLimits::default() };
    let disk = RealDisk::new(lab.session_dir(&id).join("journal"));
    let (mut journal, _) = Journal::open(disk, &id, limits).expect("a journal");
    let renamed = OtherVersionRecord(r#"{"at_ms":1,"event":"renamed","name":"hurt-more"}"#.to_owned());
    journal.append(vec![renamed]).expect("room on the disk");
    journal.close().expect("room on the disk");
    fs::rename(lab.home().join("names/hurt"), lab.home().join("names/hurt-more")).expect("a rename");
    fs::remove_file(lab.session_dir(&id).join("status.json")).expect("the status cache");
    let segment = first_segment(&lab, &id);
    fs::rename(&segment, lab.dir().join("elsewhere")).expect("a rename");
    let said = lab.berth(["show", &id]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("are missing: a file is gone"), "{said:?}");
    fs::rename(lab.dir().join("elsewhere"), &segment).expect("a rename");
    assert_eq!(lab.show("hurt-more")["exit"], 3, "put back, all is well");
}

#[test]
fn a_damaged_journal_of_a_lost_session_leaves_its_processes_and_files_alone() {
    let lab = lab();
    let id = lab.start_with(&["--name", "hurt", "--key", "its-key"], &["say:up", "hang"]);
    lab.wait_output(&id, "up");
    let agent = lab.process(&id, "pid");
    lab.kill_keeper(&id);
    let segment = first_segment(&lab, &id);
    let mut bytes = fs::read(&segment).expect("the segment");
    bytes[60] ^= 1;
    fs::write(&segment, &bytes).expect("the segment");
    assert_refused(&lab, &id, "hurt", "is damaged at byte");
    bytes[60] ^= 1;
    fs::write(&segment, bytes).expect("the segment");
    assert_eq!(lab.show("hurt")["state"], "lost", "repaired, it is found and cleared up");
    berth_harness::wait_gone(&agent);
}

#[test]
fn a_journal_of_a_newer_format_is_refused_with_the_advice_to_upgrade() {
    let lab = lab();
    let id = ended(&lab, &["--name", "new", "--key", "its-key"]);
    let segment = first_segment(&lab, &id);
    let mut bytes = fs::read(&segment).expect("the segment");
    bytes[8..10].copy_from_slice(&2_u16.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..28]);
    bytes[28..32].copy_from_slice(&sum.to_le_bytes());
    fs::write(&segment, bytes).expect("the segment");
    assert_refused(
        &lab,
        &id,
        "new",
        "was written by a newer berth (format 2, this one reads up to 1): upgrade",
    );
}

#[test]
fn an_event_of_a_newer_version_is_refused_and_not_guessed() {
    let lab = lab();
    lab.ok(["ls"]);
    let id = "00000000000a";
    write_journal(
        &lab,
        id,
        &[r#"{"event":"created","name":"new","key":"its-key"}"#, r#"{"event":"hibernated"}"#],
    );
    fs::write(lab.home().join("names/new"), id).expect("a pointer");
    fs::write(lab.home().join("keys/its-key"), id).expect("a pointer");
    assert_refused(&lab, id, "new", "cannot understand event 2");
}

#[test]
fn f5_a_bad_status_cache_is_rebuilt_from_the_journal_and_nothing_is_lost() {
    let lab = lab();
    let id = ended(&lab, &["--name", "steady"]);
    let good = lab.show(&id);
    let file = lab.session_dir(&id).join("status.json");
    let other = format!(r#"{{"id":"{}","state":"stopped"}}"#, "0".repeat(12));
    let odd = format!(r#"{{"id":"{id}","state":"hibernating"}}"#);
    let bad: [&[u8]; 7] = [b"", b"garbage", b"{", b"[]", b"\xff\x00\xff", other.as_bytes(), odd.as_bytes()];
    for content in bad {
        fs::write(&file, content).expect("the status cache");
        let listed = lab.json(["ls", "--json"]);
        assert_eq!((&listed[0]["state"], &listed[0]["exit"]), (&good["state"], &good["exit"]), "{content:?}");
        assert_eq!(lab.show("steady")["created_at"], good["created_at"]);
    }
    fs::remove_file(&file).expect("the status cache");
    assert_eq!(lab.json(["ls", "--json"])[0]["name"], "steady");
    assert_eq!((lab.ok(["output", &id]).as_str(), lab.ok(["screen", &id]).trim_end()), ("said", "said"));
    fs::write(&file, "garbage").expect("the status cache");
    assert_eq!(lab.berth(["resume", &id]).code, 3);
    let aside = fs::read_to_string(lab.session_dir(&id).join("status.json.aside")).expect("kept aside");
    assert_eq!(aside, "garbage", "nothing is thrown away");
    let rebuilt = fs::read_to_string(&file).expect("the next run wrote it again");
    assert!(rebuilt.contains(r#""epoch":2"#), "{rebuilt}");
}

#[test]
fn f5_a_bad_status_cache_of_a_running_session_changes_no_run() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    let agent = lab.process(&id, "pid");
    for content in ["", "garbage"] {
        fs::write(lab.session_dir(&id).join("status.json"), content).expect("the status cache");
        assert_eq!(lab.json(["ls", "--json"])[0]["state"], "running");
        assert_eq!(lab.process(&id, "pid"), agent);
    }
}

#[test]
fn a_status_cache_of_the_last_run_says_nothing_about_the_next() {
    let lab = lab();
    for point in ["starting", "spawned", "started"] {
        let id = ended(&lab, &[]);
        let mut resume = lab.command(["resume", "-d", &id]);
        let failed = resume.env("BERTH_KILLPOINT", point).output().expect("berth");
        assert!(!failed.status.success());
        let listed = lab.json(["ls", "--json"]);
        let states: Vec<_> =
            listed.as_array().expect("an array").iter().map(|status| &status["state"]).collect();
        assert_eq!(
            states[0], "lost",
            "{point}: the keeper died and the end of the run is not known: {listed}"
        );
        berth_harness::wait_until("the end of what was left", || lab.processes().is_empty());
        assert_eq!(lab.show(&id)["state"], "lost", "{point}");
        fs::remove_dir_all(lab.home()).expect("the state directory");
    }
}

#[test]
fn f12_the_last_screen_keeps_its_size_after_a_rename_and_after_a_crash() {
    let lab = lab();
    let line = "x".repeat(100);
    // The text is not on the first line, which leaving a terminal scrolls away.
    let say = format!("say:\\n\\n{line}");
    let run = |name: &str, last: &str| {
        let mut terminal =
            lab.terminal_of_size(["run", "--name", name, "--", &lab.agent(), &say, last], 30, 120);
        terminal.wait_for(&line);
        terminal
    };
    assert_eq!(run("wide", "exit:0").wait_exit(), 0);
    assert_eq!(lab.ok(["screen", "wide"]).trim(), line);
    lab.ok(["rename", "wide", "renamed"]);
    assert_eq!(lab.ok(["screen", "renamed"]).trim(), line);
    let _client = run("killed", "hang");
    lab.kill_keeper("killed");
    assert_eq!(lab.ok(["screen", "killed"]).trim(), line);
    assert_eq!(lab.show("killed")["state"], "lost");
    assert_eq!(lab.ok(["screen", "killed"]).trim(), line);
}

#[test]
fn f12_the_screen_of_a_killed_run_shows_nothing_of_the_run_before() {
    let lab = lab();
    let flag = lab.dir().join("again");
    let script = format!(
        "if [ -e {0} ]; then echo second; exec {1} hang; fi; touch {0}; echo first",
        flag.display(),
        lab.agent()
    );
    let id = lab.ok(["run", "-d", "--", "sh", "-c", &script]);
    assert_eq!(lab.berth(["wait", &id]).code, 0);
    assert_eq!(lab.ok(["screen", &id]).trim(), "first");
    lab.ok(["resume", "-d", &id]);
    lab.wait_output(&id, "second");
    lab.kill_keeper(&id);
    assert_eq!(lab.ok(["screen", &id]).trim(), "second");
    assert_eq!(lab.show(&id)["state"], "lost");
    assert_eq!(lab.ok(["screen", &id]).trim(), "second");
}

#[test]
fn the_output_of_a_session_can_be_read_when_its_journal_is_damaged() {
    let lab = lab();
    let id = ended(&lab, &[]);
    fs::remove_file(lab.session_dir(&id).join("status.json")).expect("the status cache");
    let segment = first_segment(&lab, &id);
    let mut bytes = fs::read(&segment).expect("the segment");
    bytes[60] ^= 1;
    fs::write(&segment, bytes).expect("the segment");
    for args in [&["output", &id][..], &["output", &id, "--follow"]] {
        let said = lab.berth(args);
        assert_eq!((said.code, said.out.as_str()), (1, "said"), "{args:?}: {said:?}");
        assert!(said.err.contains("is damaged at byte"), "{args:?}: {said:?}");
    }
}

#[test]
fn a_torn_end_that_is_found_while_clearing_up_is_in_the_log() {
    let lab = lab();
    let id = lab.start(&["hang"]);
    lab.kill_keeper(&id);
    let segment = first_segment(&lab, &id);
    let mut bytes = fs::read(&segment).expect("the segment");
    bytes.extend_from_slice(b"half a rec");
    fs::write(&segment, bytes).expect("the segment");
    assert_eq!(lab.show(&id)["state"], "lost");
    let kinds: Vec<_> = lab.log(&id).iter().map(|event| event["event"].clone()).collect();
    assert_eq!(kinds, ["created", "run_starting", "run_started", "warned", "run_ended"]);
    let warned = &lab.events(&id, "warned")[0];
    assert!(warned["what"].as_str().expect("a text").contains("10 bytes"), "{warned}");
}

/// A journal line written by another version of berth.
struct OtherVersionRecord(String);

impl JournalRecord for OtherVersionRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        String::from_utf8(bytes.to_vec()).map(OtherVersionRecord).map_err(|error| error.to_string())
    }
}

fn write_journal(lab: &TestEnvironment, id: &str, lines: &[&str]) {
    let dir = lab.session_dir(id).join("journal");
    fs::create_dir_all(&dir).expect("a directory");
    let mut journal = Journal::create(RealDisk::new(dir), id, JournalLimits::default()).expect("a journal");
    for line in lines {
        journal.append(vec![OtherVersionRecord((*line).to_owned())]).expect("room on the disk");
    }
    journal.close().expect("room on the disk");
}

/// Writes the journal of a session anew, with checksums that are right.
fn edit_journal(lab: &TestEnvironment, id: &str, edit: impl Fn(Vec<String>) -> Vec<String>) {
    let dir = lab.session_dir(id).join("journal");
    let read = berth_journal::read_journal::<OtherVersionRecord, _>(
        &RealDisk::new(dir.clone()),
        id,
        berth_journal::Seq(1),
    );
    let lines = read.expect("a whole journal").into_iter().map(|line| line.into_inner().0).collect();
    fs::remove_dir_all(&dir).expect("the journal");
    let lines = edit(lines);
    write_journal(lab, id, &lines.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Checksums show damage. Only a head that was noted elsewhere shows an edit by a program that knows the format.
#[test]
fn edit_of_a_journal_with_right_checksums_shows_against_a_head_that_was_noted_before() {
    let lab = lab();
    let id = ended(&lab, &["--name", "s"]);
    let first = lab.ok(["log", "s", "--head"]);
    let described = lab.json(["log", "s", "--head", "--json"]);
    assert_eq!(described["head"], first.as_str());
    let number = described["number"].as_u64().expect("a number");
    assert!(first.starts_with(&format!("{number}:")), "{first}");
    // Neither later events nor the way the journal is split into files changes it.
    lab.ok(["resume", "-d", "s"]);
    assert_eq!(lab.berth(["wait", "s"]).code, 3);
    berth_harness::wait_until("the keeper's end", || lab.processes().is_empty());
    let second = lab.ok(["log", "s", "--head"]);
    assert_ne!(first, second);
    for heads in
        [&["--verify", &first][..], &["--verify", &second], &["--verify", &first, "--verify", &second]]
    {
        let said = lab.berth([&["log", "s"], heads].concat());
        assert!(said.code == 0 && said.out.contains("unchanged up to event"), "{said:?}");
    }
    // An edit of the second run by a program that knows the format.
    edit_journal(&lab, &id, |mut lines| {
        let end = lines.last_mut().expect("an event");
        assert!(end.contains("run_ended"), "{end}");
        *end = end.replace("\"Code\":3", "\"Code\":0").replace("\"code\":3", "\"code\":0");
        *end = end.replace("at_ms\":1", "at_ms\":2");
        lines
    });
    lab.ok(["log", "s"]);
    let said = lab.berth(["log", "s", "--verify", &first]);
    assert_eq!(said.code, 0, "the first run is what it was: {said:?}");
    let said = lab.berth(["log", "s", "--verify", &first, "--verify", &second]);
    let (from, to) = (number + 1, second.split(':').next().expect("a number").to_owned());
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains(&format!("from number {from} to {to} was changed")), "{said:?}");
    assert!(said.err.contains("00000000000000000001.log"), "{said:?}");
    let said = lab.berth(["log", "s", "--verify", &second, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(
        (said.code, &json["unchanged"], &json["changed_from"]),
        (1, &false.into(), &1.into()),
        "{json}"
    );
    // For a journal that was cut off, the message says how many events are left.
    edit_journal(&lab, &id, |lines| lines[..2].to_vec());
    let said = lab.berth(["log", "s", "--verify", &first]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.err.contains("it has 2 events") && said.err.contains(&format!("at event {number}")),
        "{said:?}"
    );
    let said = lab.berth(["log", "s", "--verify", "12"]);
    assert!(said.code == 2 && said.err.contains("is not a valid head"), "{said:?}");
}

#[test]
fn i1_a_record_of_an_older_version_with_fields_missing_is_read_and_used() {
    let lab = lab();
    lab.ok(["ls"]);
    let id = "00000000000b";
    let created = r#"{"event":"created","command":["sh","-c","echo again"],"cwd":"/","colour":"an old key"}"#;
    let ended = r#"{"event":"run_ended","epoch":1,"outcome":{"exited":{"code":4}}}"#;
    write_journal(&lab, id, &[created, r#"{"event":"run_starting","epoch":1}"#, ended]);
    let shown = lab.show(id);
    assert_eq!((&shown["state"], &shown["exit"], &shown["epoch"]), (&"stopped".into(), &4.into(), &1.into()));
    assert_eq!(lab.json(["ls", "--all", "--json"])[0]["id"], id);
    assert_eq!(lab.ok(["log", id]).lines().count(), 3);
    assert_eq!(lab.berth(["wait", id]).code, 4);
    let again = lab.berth(["resume", id]);
    assert_eq!((again.code, again.out.as_str()), (0, "again\n"), "{again:?}");
    assert_eq!(lab.show(id)["epoch"], 2);
    let nothing = "00000000000c";
    write_journal(&lab, nothing, &[r#"{"event":"created"}"#]);
    assert_eq!(lab.show(nothing)["state"], "stopped");
    let refused = lab.berth(["resume", nothing]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(!refused.err.contains("panicked"), "{refused:?}");
}

#[test]
fn i1_a_live_run_of_unknown_processes_is_not_called_dead_while_its_lock_is_held() {
    let lab = lab();
    lab.ok(["ls"]);
    let id = "00000000000d";
    let started = [
        r#"{"event":"created","command":["true"],"cwd":"/"}"#,
        r#"{"event":"run_starting","epoch":1}"#,
        r#"{"event":"run_started","epoch":1}"#,
    ];
    write_journal(&lab, id, &started);
    // Another process holds the run's lock through a descriptor that shows in no list of ours: a socket.
    let lock = berth_host::lock::LockFile::open_or_create(&lab.session_dir(id).join("run")).expect("a lock");
    assert!(lock.try_exclusive().expect("a lock"));
    let (sender, receiver) = std::os::unix::net::UnixStream::pair().expect("a pair");
    send_away(&sender, lock.into_fd());
    for args in [["show", id], ["stop", id], ["resume", id]] {
        let said = lab.berth(args);
        assert_ne!(said.code, 0, "{args:?}: {said:?}");
        assert!(said.err.contains("a process we cannot see holds the run's lock"), "{args:?}: {said:?}");
    }
    // The held lock does not keep the session from being shown.
    for args in [&["show", id, "--json"][..], &["ls", "--json"]] {
        let said = lab.berth(args);
        assert_eq!(said.code, 1, "{args:?}: {said:?}");
        assert!(said.err.contains("a process we cannot see holds the run's lock"), "{args:?}: {said:?}");
        let shown: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        let shown = shown.get(0).unwrap_or(&shown);
        assert_eq!((&shown["id"], &shown["state"]), (&id.into(), &"lost".into()), "{args:?}");
    }
    assert!(lab.ok(["log", id]).lines().count() == 3, "nothing was recorded about it");
    drop((sender, receiver));
    assert_eq!(lab.show(id)["state"], "lost", "now it is proven");
}

/// Puts a descriptor into a socket's queue and closes it here: the lock lives on, in no process's table of open files.
fn send_away(socket: &std::os::unix::net::UnixStream, fd: std::os::fd::OwnedFd) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::os::fd::AsFd;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let fds = [fd.as_fd()];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(socket, &[std::io::IoSlice::new(b"x")], &mut control, SendFlags::empty())
        .expect("room in the socket");
}
