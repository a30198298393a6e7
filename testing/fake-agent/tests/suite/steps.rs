//! The fake agent run for real: its output, its end, and the processes it leaves behind.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use berth_harness::{ProcessKillGuard, TestDir};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

fn agent(script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-agent"));
    command.args(script.split(' ')).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(script: &str, input: &[u8]) -> Output {
    let mut child = agent(script).spawn().expect("spawn fake-agent");
    // A script that ends early has closed its input; that is its right.
    let _ = child.stdin.take().expect("piped").write_all(input);
    child.wait_with_output().expect("wait for fake-agent")
}

/// A directory of its own, and the pids that have to be gone with it.
struct StepsTestDir(TestDir);

impl StepsTestDir {
    fn new() -> Self {
        Self(TestDir::new())
    }

    fn path(&self, name: &str) -> String {
        self.0.text(name)
    }

    fn pids(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.0.join("pids")).unwrap_or_default();
        let mut pids: Vec<i32> = text.lines().map(|line| line.parse().expect("a pid")).collect();
        pids.dedup();
        pids
    }
}

impl Drop for StepsTestDir {
    fn drop(&mut self) {
        for pid in self.pids() {
            // Most are gone by now, which is fine.
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

/// Starts a script and waits until it says `ready`.
fn ready(script: &str) -> ProcessKillGuard {
    let mut agent = ProcessKillGuard::new(agent(script).spawn().expect("spawn fake-agent"));
    let mut line = String::new();
    let mut stdout = BufReader::new(agent.stdout.as_mut().expect("piped"));
    stdout.read_line(&mut line).expect("read from fake-agent");
    assert_eq!(line, "ready\n");
    agent
}

/// Fields 4 (parent), 5 (group), 6 (session) of /proc/PID/stat.
fn family(pid: i32) -> [i32; 3] {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is alive");
    let fields = stat.rsplit_once(") ").expect("a stat line").1.split(' ').skip(1).take(3);
    let fields: Vec<i32> = fields.map(|field| field.parse().expect("a number")).collect();
    fields.try_into().expect("three fields")
}

fn proc_file(pid: i32, name: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/{name}")).expect("the process is alive")
}

#[test]
fn the_steps_run_in_order_and_the_exit_code_is_the_scripts() {
    let said = output("say:hello nl expect:go say:got\\xc3 exit:3", b"not yet, go");
    assert_eq!(said.stdout, b"hello\ngot\xc3");
    assert_eq!(said.status.code(), Some(3));
}

#[test]
fn input_that_ends_too_early_is_exit_90_with_the_text_that_was_missing() {
    let said = output("expect:one expect", b"one two");
    assert_eq!(said.status.code(), Some(90));
    assert_eq!(String::from_utf8_lossy(&said.stderr), "fake-agent: the input ended while expecting a line\n");
}

#[test]
fn a_script_that_is_wrong_at_its_end_does_not_begin() {
    let said = output("say:hello dance", b"");
    assert_eq!((said.status.code(), said.stdout), (Some(2), Vec::new()));
}

#[test]
fn a_flood_has_exactly_the_bytes_asked_for_in_numbered_lines() {
    let said = output("flood:300K", b"");
    assert_eq!(said.stdout.len(), 300 << 10);
    let numbers = said.stdout.split(|byte| *byte == b'\n').filter(|line| line.len() > 12);
    let numbers: Vec<u64> =
        numbers.map(|line| str::from_utf8(&line[..12]).unwrap().parse().expect("a number")).collect();
    let count = numbers.len() as u64;
    assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
    let coloured = output("flood-colour:100K", b"").stdout;
    assert_eq!(coloured.len(), 100 << 10);
    assert!(coloured.starts_with(b"\x1b[1;30m000000000001\x1b[0m "));
}

#[test]
fn echo_writes_every_byte_back_until_it_has_seen_the_last_word() {
    let said = output("echo:quit say:!", b"abcquiz quit rest");
    assert_eq!(said.stdout, b"abcquiz quit rest!");
    assert_eq!(output("echo say:!", b"abc").stdout, b"abc!");
}

#[test]
fn loops_repeat() {
    assert_eq!(output("loop:2 [ say:a loop:2 [ say:b ] ] say:c", b"").stdout, b"abbabbc");
}

#[test]
fn a_witness_lives_on_and_has_written_down_every_signal() {
    let scratch = StepsTestDir::new();
    let heard = scratch.path("heard");
    let running = ready(&format!("witness:{heard} say:ready nl hang"));
    let pid = Pid::from_raw(running.id().cast_signed()).expect("a pid");
    for (signal, count) in [(Signal::TERM, 1), (Signal::HUP, 2), (Signal::USR1, 3)] {
        kill_process(pid, signal).expect("our own child");
        let lines = || std::fs::read_to_string(&heard).expect("its file").lines().count();
        while lines() < count {
            std::thread::yield_now();
        }
    }
    assert_eq!(std::fs::read_to_string(&heard).expect("its file"), "   15\n    1\n   10\n");
}

#[test]
fn a_process_that_closed_everything_holds_nothing_that_it_inherited() {
    let scratch = StepsTestDir::new();
    let (pids, socket) = (scratch.path("pids"), scratch.path("socket"));
    let script = format!("listen-unix:{socket} child [ pidfile:{pids} close-all hang ] say:ready nl hang");
    let mut child = agent(&script).spawn().expect("spawn fake-agent");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.as_mut().expect("piped"));
    while line != "ready\n" {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).expect("read from fake-agent"), 0);
    }
    let _running = ProcessKillGuard::new(child);
    let pid = scratch.pids()[0];
    for descriptor in std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives") {
        let target = std::fs::read_link(descriptor.expect("a descriptor").path()).expect("a link");
        assert_eq!(target, Path::new("/dev/null"));
    }
}

#[test]
fn an_agent_dies_by_a_signal_that_it_ignored_before() {
    assert_eq!(output("ignore:TERM die:TERM", b"").status.signal(), Some(15));
    assert_eq!(output("die:9", b"").status.signal(), Some(9));
}

#[test]
fn an_ignored_signal_does_nothing() {
    let agent = ready("ignore:TERM,HUP,INT say:ready\\n expect:on say:still\\n hang");
    let pid = Pid::from_child(&agent);
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        kill_process(pid, signal).expect("signal the agent");
    }
    let mut agent = agent;
    agent.stdin.as_mut().unwrap().write_all(b"on").unwrap();
    let mut answer = [0; 6];
    agent.stdout.as_mut().unwrap().read_exact(&mut answer).expect("it is still there");
    assert_eq!(&answer, b"still\n");
}

#[test]
fn a_child_outlives_the_agent_and_keeps_its_stdout_open() {
    let scratch = StepsTestDir::new();
    let script = format!("pidfile:{} child [ hang ] say:ready\\n", scratch.path("pids"));
    let mut agent = ready(&script);
    assert_eq!(agent.wait().unwrap().code(), Some(0));
    let [_, child] = scratch.pids()[..] else { panic!("two pids, got {:?}", scratch.pids()) };
    assert!(proc_file(child, "cmdline").starts_with(env!("CARGO_BIN_EXE_fake-agent").as_bytes()));
    let mut poll = [rustix::event::PollFd::new(agent.stdout.as_ref().unwrap(), rustix::event::PollFlags::IN)];
    let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut poll, Some(&none)), Ok(0), "stdout is open and silent");
}

#[test]
fn a_child_has_its_final_form_when_its_parent_goes_on() {
    let scratch = StepsTestDir::new();
    let children =
        "child [ setsid ignore:TERM,HUP hang ] child [ orphan hang ] child [ daemonise env-i hang ]";
    let _agent = ready(&format!("pidfile:{} {children} say:ready\\n hang", scratch.path("pids")));
    let pids = scratch.pids();
    let [agent, leader, orphan, daemon] = pids[..] else { panic!("four pids, got {pids:?}") };
    assert_eq!(proc_file(daemon, "environ"), b"");
    let [parent, _, session] = family(leader);
    assert_eq!((parent, session), (agent, leader));
    let status = String::from_utf8(proc_file(leader, "status")).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    assert_eq!(ignored & (1 << 14 | 1), 1 << 14 | 1, "TERM and HUP are ignored");
    let [parent, group, _] = family(orphan);
    assert_ne!(parent, agent);
    assert_eq!(group, family(agent)[1]);
}

#[test]
fn a_daemon_with_an_empty_environment_has_left_everything_behind() {
    let scratch = StepsTestDir::new();
    let (pids, up) = (scratch.path("pids"), scratch.path("up"));
    let child = format!("child [ daemonise env-i touch:{up} hang ]");
    let _agent = ready(&format!("pidfile:{pids} {child} wait-file:{up} say:ready\\n hang"));
    let [agent, daemon] = scratch.pids()[..] else { panic!("two pids, got {:?}", scratch.pids()) };
    let [parent, group, session] = family(daemon);
    assert!(parent != agent && group != daemon && session != family(agent)[2], "a daemon leads nothing");
    assert_eq!(proc_file(daemon, "environ"), b"");
    assert_eq!(std::fs::read_link(format!("/proc/{daemon}/cwd")).unwrap(), Path::new("/"));
    // The file that says that it is up is open for a moment longer.
    let open = || std::fs::read_dir(format!("/proc/{daemon}/fd")).unwrap().map(|fd| fd.unwrap().path());
    let is_nothing = |fd: PathBuf| std::fs::read_link(fd).is_ok_and(|to| to == Path::new("/dev/null"));
    let begun = std::time::Instant::now();
    while !open().all(is_nothing) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "it has more than that open");
        std::thread::yield_now();
    }
}

#[test]
fn closing_stdout_is_seen_by_the_reader_while_the_agent_goes_on() {
    let scratch = StepsTestDir::new();
    let mut agent = ready(&format!("say:ready\\n close say:lost touch:{} hang", scratch.path("on")));
    let mut rest = Vec::new();
    agent.stdout.as_mut().unwrap().read_to_end(&mut rest).expect("end of file");
    assert_eq!(rest, b"");
    assert_eq!(agent.try_wait().unwrap(), None);
}

#[test]
fn records_are_whole_numbered_lines_until_one_is_torn() {
    let scratch = StepsTestDir::new();
    let path = scratch.path("transcript");
    output(&format!("record:{path}:2 record:{path}:1 tear:{path}"), b"");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines = text.split('\n');
    for n in 1..=3 {
        let record: Value = serde_json::from_str(lines.next().unwrap()).expect("JSON");
        assert_eq!(record["n"], n);
        assert!(record["pid"].is_u64());
    }
    assert_eq!(lines.next(), Some("{\"n\":4,\"pi"));
    let _endless = ready(&format!("say:ready\\n records:{}", scratch.path("endless")));
    while std::fs::metadata(scratch.path("endless")).map_or(0, |meta| meta.len()) < 100 {
        std::thread::yield_now();
    }
}

#[test]
fn listeners_can_be_connected_to_and_the_address_is_said() {
    let scratch = StepsTestDir::new();
    let path = scratch.path("sock");
    let mut child =
        agent(&format!("listen-tcp:0 listen-unix:{path} hang")).spawn().expect("spawn fake-agent");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let agent = ProcessKillGuard::new(child);
    let tcp = lines.next().expect("a line").expect("readable");
    let address = tcp.strip_prefix("listening tcp:").expect("the address");
    std::net::TcpStream::connect(address).expect("the agent listens");
    assert_eq!(lines.next().expect("a line").expect("readable"), format!("listening unix:{path}"));
    std::os::unix::net::UnixStream::connect(&path).expect("the agent listens");
    drop(agent);
    std::net::TcpStream::connect(address).expect_err("the listener ended with the agent");
}

#[test]
fn in_a_terminal_it_reports_the_size_and_every_change_of_it() {
    let keyboard =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("open a pty");
    grantpt(&keyboard).and_then(|()| unlockpt(&keyboard)).expect("unlock the pty");
    let name = ptsname(&keyboard, Vec::new()).expect("name of the pty").into_string().unwrap();
    let size = |ws_col, ws_row| Winsize { ws_col, ws_row, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&keyboard, size(100, 30)).unwrap();
    let open = || Stdio::from(File::options().read(true).write(true).open(&name).expect("open the terminal"));
    // `setsid -c` makes the terminal the controlling one, without which there is no SIGWINCH.
    let mut setsid = Command::new("setsid");
    setsid.args(["-c", env!("CARGO_BIN_EXE_fake-agent"), "raw", "winch", "report:FAKE", "echo:q"]);
    setsid.env("FAKE", "1").env("TERM", "xterm").stdin(open()).stdout(open()).stderr(open());
    let mut child = setsid.spawn().expect("spawn setsid");
    drop(setsid);
    let mut screen = BufReader::new(File::from(keyboard.try_clone().unwrap()));
    let mut line = String::new();
    screen.read_line(&mut line).unwrap();
    let report: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!((&report["cols"], &report["rows"]), (&100.into(), &30.into()));
    assert_eq!((&report["env"]["TERM"], &report["env"]["FAKE"]), (&"xterm".into(), &"1".into()));
    assert_eq!(report["tty"], true);
    // The test runner's own parents may have left us more.
    assert!(report["fds"].as_array().unwrap().starts_with(&[0.into(), 1.into(), 2.into()]));
    assert_eq!(report["sid"], child.id());
    tcsetwinsize(&keyboard, size(80, 9)).unwrap();
    line.clear();
    screen.read_line(&mut line).unwrap();
    assert_eq!(line, "size 80x9\n");
    let mut answer = [0; 1];
    for key in [b'a', 0x03, b'q'] {
        File::from(keyboard.try_clone().unwrap()).write_all(&[key]).unwrap();
        screen.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [key]);
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
