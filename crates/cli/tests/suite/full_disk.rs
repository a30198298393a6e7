//! F4: a disk without room. Errors are loud, nothing is lost, and sessions recover when there is room.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_harness::{TestEnvironment, TmpfsMount, wait_gone, wait_until};

/// A lab whose state directory is a small file system of its own. The lab goes first: its sessions must end before their
/// disk does. Its directory goes last: a mount point cannot be removed.
struct SmallDiskFixture {
    lab: TestEnvironment,
    _mount: TmpfsMount,
    _left: LabDirCleanup,
}

struct LabDirCleanup(PathBuf);

impl Drop for LabDirCleanup {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl SmallDiskFixture {
    /// `None` where mounting is not permitted.
    fn new(options: &str) -> Option<Self> {
        let lab = TestEnvironment::new(env!("CARGO_BIN_EXE_berth"));
        let mount = TmpfsMount::new(&lab.home(), options)?;
        let left = LabDirCleanup(lab.dir().to_owned());
        Some(Self { lab, _mount: mount, _left: left })
    }

    /// Leaves no room at all.
    fn fill(&self) {
        let mut ballast = fs::File::options().append(true).create(true).open(self.ballast()).expect("a file");
        let mut chunk = 64 * 1024;
        while chunk > 0 {
            if ballast.write_all(&vec![0; chunk]).is_err() {
                chunk /= 2;
            }
        }
    }

    fn empty(&self) {
        fs::remove_file(self.ballast()).expect("the ballast");
    }

    fn ballast(&self) -> PathBuf {
        self.lab.home().join("ballast")
    }
}

/// The run does not end, and its keeper does not work while it waits for room.
fn assert_idle(lab: &TestEnvironment, id: &str) {
    let keeper = lab.number(id, "keeper_pid");
    let before = cpu_ms(keeper);
    let waited = lab.berth(["wait", id, "--timeout", "2s"]);
    assert_eq!(waited.code, 6, "{waited:?}");
    let spent = cpu_ms(keeper) - before;
    assert!(spent < 300, "waiting for room took {spent} ms of work");
}

/// How much work a process has done.
fn cpu_ms(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, numbers) = stat.rsplit_once(')').expect("a name in parentheses");
    let ticks = numbers.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().expect("a number"));
    ticks.sum::<u64>() * 10
}

#[test]
fn f4_writes_that_do_not_fit_are_refused_with_an_error_and_work_when_there_is_room() {
    let Some(small) = SmallDiskFixture::new("size=2m") else { return };
    let lab = &small.lab;
    let agent = lab.agent();
    let id = lab.start_with(&["--name", "steady"], &["raw", "say:up", "echo"]);
    lab.wait_output(&id, "up");
    let running = lab.process(&id, "pid");
    let stopped = lab.start_with(&["--name", "over"], &["exit:3"]);
    assert_eq!(lab.berth(["wait", &stopped]).code, 3);
    // Resuming takes the status cache away first, and that would be room for a journal.
    wait_until("the keeper's end", || !lab.session_dir(&stopped).join("sock").exists());
    fs::remove_file(lab.session_dir(&stopped).join("status.json")).expect("the status cache");
    small.fill();
    // The last page of a journal may still have room; type until it has none.
    let mut typed = 0;
    let refused = loop {
        let said = lab.berth(["input", &id, "x"]);
        if said.code != 0 {
            break said;
        }
        typed += 1;
        assert!(typed < 100, "the disk is not full");
    };
    assert!(refused.err.contains("No space left"), "{refused:?}");
    let before = lab.log(&id);
    let commands: [&[&str]; 7] = [
        &["stop", "steady"],
        &["rename", "steady", "moved"],
        &["rename", "over", "moved"],
        &["resume", "-d", "over"],
        &["run", "-d", "--", &agent, "hang"],
        &["run", "-d", "--name", "new", "--key", "new", "--", &agent, "hang"],
        &["input", "steady", "x"],
    ];
    for args in commands {
        // A command that fails may have made a little room on the way.
        small.fill();
        let said = lab.berth(args);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{args:?}: {said:?}");
        assert!(said.err.contains("No space left"), "{args:?}: {said:?}");
        assert!(!said.err.contains("panicked"), "{args:?}: {said:?}");
    }
    assert_eq!(lab.log(&id), before, "nothing happened");
    assert_eq!(lab.process("steady", "pid"), running, "and nothing ended");
    assert_eq!(
        (lab.show("over")["state"].as_str(), lab.show("over")["exit"].as_u64()),
        (Some("stopped"), Some(3))
    );
    assert_eq!(lab.json(["ls", "--json"]).as_array().map(Vec::len), Some(2), "no half-made session");
    for dir in ["sessions", "names", "keys"] {
        let expected = if dir == "keys" { 0 } else { 2 };
        assert_eq!(fs::read_dir(lab.home().join(dir)).expect("a directory").count(), expected, "{dir}");
    }
    small.empty();
    lab.ok(["rename", "steady", "moved"]);
    lab.ok(["rename", "over", "still-over"]);
    assert_eq!(lab.berth(["resume", "still-over"]).code, 3);
    lab.ok(["input", "moved", "y"]);
    lab.wait_output("moved", &format!("^upx{{{typed}}}y$"));
    lab.ok(["run", "-d", "--name", "new", "--key", "new", "--", &agent, "hang"]);
    lab.ok(["stop", "moved"]);
    assert_eq!(lab.show("moved")["exit"], 143);
}

#[test]
fn f4_without_room_for_one_more_file_nothing_half_made_is_left() {
    let Some(small) = SmallDiskFixture::new("size=4m,nr_inodes=40") else { return };
    let lab = &small.lab;
    lab.ok(["ls"]);
    let mut files = 0;
    // From room for nothing up to room for everything, one file at a time: each command that fails, fails whole.
    while fs::write(lab.home().join(format!("file-{files}")), "").is_ok() {
        files += 1;
    }
    let agent = lab.agent();
    loop {
        let said = lab.berth(["run", "-d", "--name", "n", "--key", "k", "--", &agent, "say:hello", "hang"]);
        assert!(!said.err.contains("panicked"), "{said:?}");
        if said.code == 0 {
            break;
        }
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
        assert!(said.err.contains("No space left"), "{said:?}");
        wait_until("the end of the keeper", || lab.processes().is_empty());
        for dir in ["sessions", "names", "keys"] {
            assert_eq!(
                fs::read_dir(lab.home().join(dir)).expect("a directory").count(),
                0,
                "{dir}: {said:?}"
            );
        }
        assert!(files > 0, "an empty disk has room");
        files -= 1;
        fs::remove_file(lab.home().join(format!("file-{files}"))).expect("a file");
    }
    assert_eq!(lab.show("n")["state"], "running");
    for file in 0..files {
        fs::remove_file(lab.home().join(format!("file-{file}"))).expect("a file");
    }
    lab.wait_output("n", "hello");
}

#[test]
fn f4_output_waits_for_room_and_the_end_waits_for_the_output() {
    let Some(small) = SmallDiskFixture::new("size=2m") else { return };
    let lab = &small.lab;
    let path = |name: &str| lab.dir().join(name).display().to_string();
    let [go, said_all] = [path("go"), path("said-all")];
    let script = |last: &str| {
        let words =
            ["say:first\\n", &format!("wait-file:{go}"), "flood:9000", &format!("touch:{said_all}"), last];
        words.map(str::to_owned)
    };
    let start = |name: &str, last: &str| {
        let words = script(last);
        lab.start_with(&["--name", name], &words.each_ref().map(String::as_str))
    };
    let ends = start("ends", "exit:5");
    lab.wait_output(&ends, "first");
    let agent = lab.process(&ends, "pid");
    small.fill();
    fs::write(&go, "").expect("a file");
    wait_until("the agent to have said all", || fs::exists(&said_all).unwrap_or(false));
    wait_gone(&agent);
    let state = lab.show(&ends)["state"].as_str().map(str::to_owned);
    assert_ne!(state.as_deref(), Some("stopped"), "its output is not on disk yet");
    assert_idle(lab, &ends);
    let refused = lab.berth(["stop", &ends, "--grace", "0s"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("output waits for room on the disk"), "{refused:?}");
    small.empty();
    assert_eq!(lab.berth(["wait", &ends, "--timeout", "60s"]).code, 5);
    let output = lab.output(&ends);
    // This session has room all along.
    let easy = start("easy", "exit:5");
    assert_eq!(lab.berth(["wait", &easy]).code, 5);
    assert_eq!(String::from_utf8_lossy(&output), String::from_utf8_lossy(&lab.output(&easy)));
}

#[test]
fn f4_an_order_to_kill_that_cannot_be_recorded_is_given_when_it_can() {
    let Some(small) = SmallDiskFixture::new("size=2m") else { return };
    let lab = &small.lab;
    let id = lab.start(&["ignore:TERM,HUP", "raw", "say:up", "echo"]);
    lab.wait_output(&id, "up");
    let grace_was_set_at = Instant::now();
    let mut stop = lab.command(["stop", &id, "--grace", "15s"]).spawn().expect("berth");
    wait_until("the order to stop", || lab.show(&id)["state"] == "stopping");
    small.fill();
    while lab.berth(["input", &id, "x"]).code == 0 {}
    wait_until("the end of the grace", || grace_was_set_at.elapsed() > Duration::from_secs(15));
    assert_idle(lab, &id);
    small.empty();
    assert!(stop.wait().expect("our own child").success());
    assert_eq!(lab.show(&id)["exit"], 137);
}

#[test]
fn f4_an_agent_that_talks_into_a_full_disk_is_held_up_and_loses_nothing() {
    let Some(small) = SmallDiskFixture::new("size=8m") else { return };
    let lab = &small.lab;
    let path = |name: &str| lab.dir().join(name).display().to_string();
    let [go, said_all] = [path("go"), path("said-all")];
    let id = lab.start(&[
        "say:first\\n",
        &format!("wait-file:{go}"),
        "flood:2M",
        &format!("touch:{said_all}"),
        "hang",
    ]);
    lab.wait_output(&id, "first");
    small.fill();
    fs::write(&go, "").expect("a file");
    wait_until("the last bit of room to be used", || lab.output(&id).len() > "first\r\n".len());
    assert!(!fs::exists(&said_all).unwrap_or(false), "two megabytes fit nowhere");
    assert_eq!(lab.show(&id)["state"], "running");
    small.empty();
    wait_until("the agent to have said all", || fs::exists(&said_all).unwrap_or(false));
    lab.ok(["stop", &id]);
    let output = lab.output(&id);
    let easy = lab.start(&["say:first\\n", "flood:2M", "exit:0"]);
    assert_eq!(lab.berth(["wait", &easy]).code, 0);
    let whole = lab.output(&easy);
    assert_eq!(output.len(), whole.len());
    assert!(output == whole, "the bytes differ");
}
