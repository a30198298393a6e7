//! Foreign writers: found by each of their signs, distinguished from lookalikes, and ended.
//!
//! The agents here are shells under an agent's name. Real ones are in `tests/real`.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use berth_conversations::foreign_writers::{
    ForeignWriter, OrphanProcess, OrphanProcesses, WriterEvidence, end_foreign_writer, find_foreign_writers,
    orphaned_agents, registered_writers,
};
use berth_harness::{ProcessKillGuard, TestDir};
use berth_host::identity::{ProcessIdentity, ProcessLiveness, process_stat};
use berth_host::lock::LockFile;
use berth_host::process_tree;

const ID: &str = "11111111-2222-4333-8444-555555555555";
const GRACE: Duration = Duration::from_secs(20);

/// A home directory for agents. On drop the processes that carry its mark are ended, then it is removed.
struct AgentTestHome(TestDir);

impl AgentTestHome {
    fn new() -> Self {
        let path = TestDir::new();
        fs::create_dir_all(path.join(".claude/sessions")).unwrap();
        fs::create_dir_all(path.join(".codex/thread-writer-locks")).unwrap();
        for name in ["claude", "codex", "other"] {
            fs::copy("/bin/sh", path.join(name)).unwrap();
        }
        AgentTestHome(path)
    }

    fn env(&self) -> impl Fn(&str) -> Option<OsString> {
        let home = self.0.to_path_buf();
        move |name| (name == "HOME").then(|| home.clone().into_os_string())
    }

    /// Runs a script under a name.
    fn start(&self, name: &str, script: &str, args: &[&str], env: &[(&str, &str)]) -> WriterProcess {
        let mut command = Command::new(self.0.join(name));
        command.arg0(name).arg("-c").arg(script).args(args);
        command.env_clear().env("HOME", &self.0).env("BERTH_TEST_HOME", &self.0).env("PATH", "/usr/bin:/bin");
        command.envs(env.iter().copied()).current_dir(&self.0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        WriterProcess { input: child.stdin.take(), child: ProcessKillGuard::new(child), output }
    }

    /// Like [`AgentTestHome::start`], and waits until the agent is done with the script. Then the agent lives on.
    fn run(&self, name: &str, script: &str, args: &[&str], env: &[(&str, &str)]) -> WriterProcess {
        let mut agent = self.start(name, &format!("{script}; echo ready; read end"), args, env);
        assert_eq!(agent.line(), "ready");
        agent
    }

    /// An agent that does nothing to be found by.
    fn quiet(&self, name: &str) -> WriterProcess {
        self.run(name, ":", &[], &[])
    }

    /// Claude Code's own note of a process.
    fn register(&self, pid: u32, session: &str, start: &str) -> PathBuf {
        let file = self.0.join(format!(".claude/sessions/{pid}.json"));
        let domain = fs::read_link("/proc/self/ns/pid").unwrap();
        let text = format!(
            r#"{{"pid":{pid},"sessionId":"{session}","cwd":"/x","startedAt":1,"procStart":"{start}","kind":"interactive","pidDomain":"linux:0:{}"}}"#,
            domain.display()
        );
        fs::write(&file, text).unwrap();
        file
    }

    fn lock(&self, id: &str) -> PathBuf {
        self.0.join(format!(".codex/thread-writer-locks/{id}.lock"))
    }

    /// A process that holds a lock it took itself, as Codex does: this very program, told to.
    fn locker(&self, file: &Path) -> WriterProcess {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "writers::a_lock_is_held_on_request", "--nocapture", "--test-threads=1"]);
        command.env("BERTH_TEST_LOCK", file).env("BERTH_TEST_HOME", &self.0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut agent =
            WriterProcess { input: child.stdin.take(), child: ProcessKillGuard::new(child), output };
        while agent.line() != "locked" {}
        agent
    }

    fn find(&self, kind: &str) -> Vec<ForeignWriter> {
        find_foreign_writers(kind, ID, self.env(), |_| false).unwrap()
    }

    fn registered(&self, kind: &str) -> Vec<ForeignWriter> {
        registered_writers(kind, ID, self.env(), |_| false).unwrap()
    }
}

impl Drop for AgentTestHome {
    fn drop(&mut self) {
        let mark = self.0.display().to_string();
        for left in process_tree::processes_with_variable("BERTH_TEST_HOME", &mark).unwrap().processes {
            if let ProcessLiveness::Alive(pidfd) = left.check() {
                // A process that is just leaving needs no signal.
                let _ = pidfd.signal(9);
            }
        }
    }
}

/// A process that waits for the end of its input.
struct WriterProcess {
    child: ProcessKillGuard,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl WriterProcess {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn start(&self) -> String {
        process_stat(self.pid()).unwrap().start_ticks.to_string()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn say(&mut self, what: &str) {
        writeln!(self.input.as_mut().unwrap(), "{what}").unwrap();
    }

    /// Kills it the hard way.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn pids(writers: &[ForeignWriter]) -> Vec<u32> {
    writers.iter().map(|writer| writer.identity.pid).collect()
}

fn await_end(pid: u32) {
    let identity = ProcessIdentity { pid, ..ProcessIdentity::me().unwrap() };
    if let Ok(pidfd) = berth_host::identity::Pidfd::open(identity.pid) {
        let mut fds = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
        let limit = rustix::event::Timespec { tv_sec: 30, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut fds, Some(&limit)).unwrap(), 1, "process {pid} did not end");
    }
}

#[test]
fn the_list_of_claude_code_names_a_writer() {
    let home = AgentTestHome::new();
    let agent = home.quiet("claude");
    let file = home.register(agent.pid(), ID, &agent.start());
    let found = home.registered("claude");
    let [writer] = &found[..] else { panic!("{found:?}") };
    assert_eq!(writer.identity, ProcessIdentity::of(agent.pid()).unwrap());
    assert_eq!(writer.evidence, WriterEvidence::Registry { file });
    assert_eq!(writer.cwd.as_deref(), Some(&*home.0));
    assert!(writer.command.starts_with("claude -c"), "{}", writer.command);
    let line = writer.line();
    let expected = format!("claude, pid {}, since ", agent.pid());
    assert!(line.starts_with(&expected) && line.ends_with(&format!(", in {}", home.0.display())), "{line}");
    assert_eq!(pids(&home.find("claude")), pids(&found), "one writer is one, however it is looked for");
}

#[test]
fn a_note_of_a_process_that_is_gone_or_another_is_stale() {
    let home = AgentTestHome::new();
    let mut agent = home.quiet("claude");
    let start = agent.start();
    home.register(agent.pid(), ID, "1");
    assert_eq!(home.find("claude"), [], "the pid is another process's now");
    home.register(agent.pid(), "another", &start);
    assert_eq!(home.find("claude"), [], "it writes another conversation");
    home.register(agent.pid(), ID, &start);
    assert_eq!(pids(&home.find("claude")), [agent.pid()]);
    agent.child.kill().unwrap();
    await_end(agent.pid());
    assert_eq!(home.find("claude"), [], "it ended, and was not reaped yet");
    agent.kill();
    assert_eq!(home.find("claude"), [], "it is gone");
}

#[test]
fn notes_that_are_damaged_or_of_elsewhere_are_passed_over() {
    let home = AgentTestHome::new();
    let agent = home.quiet("claude");
    let file = home.register(agent.pid(), ID, &agent.start());
    let note = fs::read_to_string(&file).unwrap();
    let domain = fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
    for (damage, what) in [
        (note.replace(&domain, "pid:[1]"), "another pid namespace"),
        (note.replace(&agent.pid().to_string(), "1"), "another pid than its name"),
        (note[..note.len() / 2].to_owned(), "torn"),
        (String::new(), "empty"),
        (format!("{note}{}", " ".repeat(100_000)), "huge"),
    ] {
        fs::write(&file, damage).unwrap();
        assert_eq!(home.find("claude"), [], "{what}");
    }
    fs::write(&file, note.replace("\"procStart\"", "\"p\"")).unwrap();
    assert_eq!(pids(&home.find("claude")), [agent.pid()], "an older version does not say when it started");
    let other = home.quiet("other");
    let old = home.register(other.pid(), ID, "1");
    let note = fs::read_to_string(&old).unwrap().replace("\"procStart\"", "\"p\"");
    fs::write(&old, note).unwrap();
    assert_eq!(pids(&home.find("claude")), [agent.pid()], "then it has to be one by its name");
}

#[test]
fn the_lock_of_codex_names_a_writer_and_a_free_one_names_no_process() {
    let home = AgentTestHome::new();
    assert_eq!(home.find("codex"), [], "there is no lock");
    fs::write(home.lock(ID), "").unwrap();
    assert_eq!(home.find("codex"), [], "it is free");
    let take = |id: &str| format!("exec 8<>{0}; flock 8", home.lock(id).display());
    let mut agent = home.run("codex", &take(ID), &[], &[]);
    let found = home.registered("codex");
    let [writer] = &found[..] else { panic!("{found:?}") };
    assert_eq!(writer.identity.pid, agent.pid());
    assert_eq!((&writer.evidence, writer.others), (&WriterEvidence::Lock { file: home.lock(ID) }, 0));
    assert_eq!(
        registered_writers("codex", ID, home.env(), |pid| pid == agent.pid()),
        Ok(vec![]),
        "it is ours"
    );
    assert_eq!(registered_writers("codex", "another", home.env(), |_| false), Ok(vec![]));
    agent.kill();
    assert_eq!(home.find("codex"), [], "a lock ends with its holder");
}

/// Does nothing unless [`AgentTestHome::locker`] asks.
#[test]
fn a_lock_is_held_on_request() {
    let Some(file) = std::env::var_os("BERTH_TEST_LOCK") else { return };
    let lock = LockFile::open_or_create(file.as_ref()).unwrap();
    assert!(lock.try_exclusive().unwrap());
    println!("\nlocked");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn a_process_that_took_the_lock_itself_is_found_by_the_kernels_list() {
    let home = AgentTestHome::new();
    let mut codex = home.locker(&home.lock(ID));
    assert_eq!(process_tree::listed_lockers(&home.lock(ID)).unwrap(), [codex.pid()]);
    assert_eq!(pids(&home.registered("codex")), [codex.pid()]);
    codex.kill();
    assert!(process_tree::listed_lockers(&home.lock(ID)).unwrap().is_empty());
    assert_eq!(home.registered("codex"), []);
}

#[test]
fn a_writer_with_several_conversations_is_described_so() {
    let home = AgentTestHome::new();
    let path = home.lock(ID).display().to_string();
    let other = home.lock("another").display().to_string();
    let agent = home.run("codex", &format!("exec 7<>{path} 8<>{other}; flock 7; flock 8"), &[], &[]);
    let found = home.registered("codex");
    assert_eq!(pids(&found), [agent.pid()]);
    assert!(found[0].line().ends_with(", with another conversation"), "{}", found[0].line());
}

#[test]
fn a_lock_that_was_handed_on_is_found_with_its_current_holder() {
    let home = AgentTestHome::new();
    let path = home.lock(ID).display().to_string();
    // The kernel's list names the shell that took it, which is gone; the lock lives on below.
    let script = format!("exec 8<>{path}; flock 8; sleep 1000 </dev/null >/dev/null 2>&1 & echo $!; exit");
    let mut agent = home.start("codex", &script, &[], &[]);
    let child: u32 = agent.line().parse().unwrap();
    agent.child.wait().unwrap();
    assert_eq!(pids(&home.registered("codex")), [child]);
}

#[test]
fn a_command_line_names_a_writer() {
    let home = AgentTestHome::new();
    let resumed = home.run("claude", ":", &["--resume", ID], &[]);
    let found = home.find("claude");
    assert_eq!(pids(&found), [resumed.pid()]);
    assert_eq!(found[0].evidence, WriterEvidence::CommandLine);
    assert_eq!(home.registered("claude"), []);
    let codex = home.run("codex", ":", &["exec", "resume", "--json", ID], &[]);
    assert_eq!(pids(&home.find("codex")), [codex.pid()]);
    let lock = |id: &str| format!("exec 8<>{}; flock 8", home.lock(id).display());
    let _moved = home.run("codex", &lock("another"), &["resume", ID], &[]);
    assert_eq!(pids(&home.find("codex")), [codex.pid()], "the other holds the lock of another conversation");
    assert_eq!(
        find_foreign_writers("claude", ID, home.env(), |pid| pid == resumed.pid()),
        Ok(vec![]),
        "it is ours"
    );
    home.register(resumed.pid(), "another", &resumed.start());
    assert_eq!(home.find("claude"), [], "it went on to another conversation, by its own word");
}

#[test]
fn a_command_line_of_another_program_or_another_directory_names_no_writer() {
    let home = AgentTestHome::new();
    let _search = home.run("other", ":", &["--resume", ID], &[]);
    let _fork = home.run("claude", ":", &["--resume", ID, "--fork-session"], &[]);
    let _elsewhere = home.run("claude", ":", &["--resume", ID], &[("CLAUDE_CONFIG_DIR", "/nowhere")]);
    assert_eq!(home.find("claude"), []);
}

#[test]
fn a_launcher_is_not_named_beside_its_program() {
    let home = AgentTestHome::new();
    let inner = home.0.join("claude").display().to_string();
    let script = format!("exec 3<&0; {inner} -c 'echo ready; read end' --resume {ID} <&3 & read end");
    let mut outer = home.start("claude", &script, &["--resume", ID], &[]);
    assert_eq!(outer.line(), "ready", "says what was launched");
    let found = home.find("claude");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(process_stat(found[0].identity.pid).unwrap().ppid, outer.pid());
}

#[test]
fn a_child_of_an_agent_names_it() {
    let home = AgentTestHome::new();
    let start_child = |id: &str| {
        format!("CLAUDE_CODE_SESSION_ID={id} CLAUDE_PID=$$ sleep 1000 </dev/null >/dev/null & child=$!")
    };
    let mut agent = home.run("claude", &start_child(ID), &[], &[]);
    let found = home.find("claude");
    assert_eq!(pids(&found), [agent.pid()], "the agent, and not its child");
    assert!(matches!(found[0].evidence, WriterEvidence::Child { .. }), "{found:?}");
    // The agent went on to another conversation meanwhile, by its own word.
    home.register(agent.pid(), "another", &agent.start());
    assert_eq!(home.find("claude"), []);
    home.register(agent.pid(), ID, &agent.start());
    assert_eq!(pids(&home.find("claude")), [agent.pid()]);
    agent.kill();
    assert_eq!(home.find("claude"), [], "an orphan does not write");
    // Another program under the pid that the child names.
    let other = home.quiet("other");
    let pid = other.pid().to_string();
    let child = [("CLAUDE_CODE_SESSION_ID", ID), ("CLAUDE_PID", pid.as_str())];
    let _child = home.run("other", ":", &[], &child);
    assert_eq!(home.find("claude"), []);
}

#[test]
fn an_unknown_kind_is_found_by_its_command_line() {
    let home = AgentTestHome::new();
    let agent = home.run("other", ":", &["--session", ID], &[]);
    assert_eq!(pids(&home.find("other")), [agent.pid()]);
    assert_eq!(home.registered("other"), []);
}

#[test]
fn without_a_home_directory_the_search_fails() {
    for kind in ["claude", "codex"] {
        assert!(find_foreign_writers(kind, ID, |_| None, |_| false).is_err());
        assert!(registered_writers(kind, ID, |_| None, |_| false).is_err());
    }
}

#[test]
fn a_writer_that_listens_is_asked_to_end() {
    let home = AgentTestHome::new();
    let mut agent = home.run("claude", "trap 'echo asked; exit 3' TERM", &["--resume", ID], &[]);
    let writer = home.find("claude").remove(0);
    let ended = end_foreign_writer(&writer, GRACE, None).unwrap();
    assert!(!ended.killed && ended.children == 0, "{ended:?}");
    assert_eq!(agent.line(), "asked");
    assert_eq!(agent.child.wait().unwrap().code(), Some(3));
    assert!(end_foreign_writer(&writer, GRACE, None).is_ok(), "what is gone has ended");
}

#[test]
fn a_writer_that_does_not_listen_is_killed_with_the_processes_that_carry_its_id() {
    let home = AgentTestHome::new();
    // The child is in a session of its own and does not listen either, as the tools of Claude Code are.
    let child = "setsid sh -c 'trap \"\" TERM HUP; echo $$; while :; do sleep 0.1; done' </dev/null";
    let script = format!("trap '' TERM; CLAUDE_CODE_SESSION_ID={ID} CLAUDE_PID=$$ {child} & read line");
    let mut agent = home.start("claude", &script, &["--resume", ID], &[]);
    let tool: u32 = agent.line().parse().unwrap();
    let tool = ProcessIdentity::of(tool).unwrap();
    let writer = home.find("claude").remove(0);
    assert_eq!(writer.identity.pid, agent.pid());
    let ended = end_foreign_writer(&writer, Duration::from_millis(50), None).unwrap();
    assert!(ended.killed && ended.children >= 1, "{ended:?}");
    assert!(matches!(tool.check(), ProcessLiveness::Gone));
    assert!(matches!(writer.identity.check(), ProcessLiveness::Gone));
    assert_eq!(home.find("claude"), []);
}

#[test]
fn a_writer_that_is_stopped_hears_that_it_shall_end() {
    let home = AgentTestHome::new();
    let mut agent = home.run("claude", ":", &["--resume", ID], &[]);
    let writer = home.find("claude").remove(0);
    let ProcessLiveness::Alive(pidfd) = writer.identity.check() else { panic!("it lives") };
    pidfd.signal(19).unwrap();
    let ended = end_foreign_writer(&writer, GRACE, None).unwrap();
    assert!(!ended.killed, "{ended:?}");
    agent.child.wait().unwrap();
}

#[test]
fn only_the_very_process_is_ended() {
    let home = AgentTestHome::new();
    let agent = home.run("claude", ":", &["--resume", ID], &[]);
    let writer = home.find("claude").remove(0);
    // As if the pid had been given to another one since.
    let mut another = writer.clone();
    another.identity.start_ticks -= 1;
    end_foreign_writer(&another, GRACE, None).unwrap();
    assert!(matches!(writer.identity.check(), ProcessLiveness::Alive(_)));
    drop(agent);
}

#[test]
fn a_process_inside_a_writer_cannot_end_it() {
    let home = AgentTestHome::new();
    let script = "sleep 1000 </dev/null >/dev/null & echo $!; read end";
    let mut agent = home.start("claude", script, &["--resume", ID], &[]);
    let asker: u32 = agent.line().parse().unwrap();
    let writer = home.find("claude").remove(0);
    let error = end_foreign_writer(&writer, GRACE, Some(asker)).unwrap_err();
    assert!(error.contains("runs inside claude, pid"), "{error}");
    let ourselves = ForeignWriter { identity: ProcessIdentity::me().unwrap(), ..writer.clone() };
    assert!(end_foreign_writer(&ourselves, GRACE, None).is_err());
    assert!(matches!(writer.identity.check(), ProcessLiveness::Alive(_)));
    agent.say("end");
}

#[test]
fn processes_of_others_with_an_equal_id_are_left_alone() {
    let home = AgentTestHome::new();
    let agent = home.run("claude", ":", &["--resume", ID], &[]);
    // This process carries the id, and the pid of another agent.
    let other = home.quiet("claude");
    let pid = other.pid().to_string();
    let stranger = home.run("other", ":", &[], &[("CLAUDE_CODE_SESSION_ID", ID), ("CLAUDE_PID", &pid)]);
    let found = home.find("claude");
    let writer = found.iter().find(|writer| writer.identity.pid == agent.pid()).unwrap();
    end_foreign_writer(writer, GRACE, None).unwrap();
    assert!(matches!(ProcessIdentity::of(stranger.pid()).unwrap().check(), ProcessLiveness::Alive(_)));
}

/// Waits for the pid that a process writes down as soon as it runs.
fn pid_in(file: &Path) -> ProcessIdentity {
    let begun = Instant::now();
    loop {
        let said = fs::read_to_string(file).unwrap_or_default();
        if let Some(pid) = said.strip_suffix('\n') {
            return ProcessIdentity::of(pid.parse().unwrap()).unwrap();
        }
        assert!(begun.elapsed() < GRACE, "{} was not written", file.display());
        std::thread::yield_now();
    }
}

/// The words that Claude Code wraps the command of a tool in, as far as they matter here.
const WRAPPING: &str = ": .claude/shell-snapshots/snapshot-sh-1.sh; ";

/// Starts a process as a dead agent would have: a command in a session of its own, identified by the file it writes
/// its pid to.
fn leave(
    home: &AgentTestHome,
    how: &[&str],
    terminal: Option<&std::os::fd::OwnedFd>,
    name: &str,
    script: &str,
) -> ProcessIdentity {
    let mut dead = Command::new("true").spawn().unwrap();
    let agent = dead.id().to_string();
    dead.wait().unwrap();
    let file = home.0.join(name);
    let mut command = Command::new(how[0]);
    command.args(&how[1..]).args(["sh", "-c", &format!("echo $$ >{}; {script}", file.display())]);
    command.env_clear().env("HOME", &home.0).env("BERTH_TEST_HOME", &home.0).env("PATH", "/usr/bin:/bin");
    command.env("CLAUDE_CODE_SESSION_ID", ID).env("CLAUDE_PID", agent).current_dir(&home.0);
    command.env("CODEX_THREAD_ID", ID);
    command.stdin(terminal.map_or_else(Stdio::null, |end| Stdio::from(end.try_clone().unwrap())));
    // A leader of a group cannot begin a session: setsid makes another process and ends. So does a shell with `&`.
    command.stdout(Stdio::null()).process_group(0);
    assert!(command.status().unwrap().success());
    pid_in(&file)
}

fn is_alive(one: &ProcessIdentity) -> bool {
    matches!(one.check(), ProcessLiveness::Alive(_))
}

fn left_by_dead_agents(home: &AgentTestHome) -> (OrphanProcesses, Vec<u32>, Vec<u32>) {
    let found = orphaned_agents("claude", ID, home.env()).unwrap();
    let pids = |list: &[OrphanProcess]| list.iter().map(|one| one.identity.pid).collect();
    let (tools, others) = (pids(&found.tools), pids(&found.others));
    (found, tools, others)
}

#[test]
fn a_tool_of_a_dead_agent_is_ended_with_its_session_and_a_server_left_on_purpose_is_not() {
    let home = AgentTestHome::new();
    let tool = leave(&home, &["setsid"], None, "tool", &format!("{WRAPPING}sleep 1000; true"));
    // `setsid sh -c 'npm run dev' &`, in a tool that was over long before its agent.
    let server = leave(&home, &["setsid"], None, "server", "sleep 1000; true");
    let (found, tools, others) = left_by_dead_agents(&home);
    assert_eq!((tools, others.contains(&server.pid)), (vec![tool.pid], true), "{found:?}");
    let ended = found.end().unwrap();
    assert!(ended.iter().any(|line| line.starts_with(&format!("pid {} (sh -c", tool.pid))), "{ended:?}");
    assert!(!is_alive(&tool) && is_alive(&server));
    assert_eq!(left_by_dead_agents(&home).1, Vec::<u32>::new());
}

#[test]
fn processes_left_by_codex_are_reported_when_its_lock_is_free_and_never_ended() {
    let home = AgentTestHome::new();
    let left = || orphaned_agents("codex", ID, home.env()).unwrap();
    let tool = leave(&home, &["setsid"], None, "tool", &format!("{WRAPPING}sleep 1000; true"));
    let server = leave(&home, &["sh", "-c", "\"$@\" &", "sh"], None, "server", "sleep 1000; true");
    assert_eq!(left(), OrphanProcesses::default(), "there was no lock: the owner is unknown");
    let mut agent = home.run("codex", &format!("exec 8<>{0}; flock 8", home.lock(ID).display()), &[], &[]);
    assert_eq!(left(), OrphanProcesses::default(), "a process holds it");
    agent.kill();
    // A process of an agent that lives and has another conversation by now.
    let living = home.run(
        "codex",
        "setsid sh -c 'sleep 1000; true' </dev/null >/dev/null & :",
        &[],
        &[("CODEX_THREAD_ID", ID)],
    );
    let found = left();
    let pids = |list: &[OrphanProcess]| list.iter().map(|one| one.identity.pid).collect::<Vec<_>>();
    // Its agent may live, and have gone on to another conversation: nothing that Codex leaves names it.
    assert_eq!(pids(&found.tools), Vec::<u32>::new(), "{found:?}");
    assert!([tool.pid, server.pid].iter().all(|pid| pids(&found.others).contains(pid)), "{found:?}");
    assert!(found.others[0].line().ends_with("left by one that is gone"), "{found:?}");
    assert!(found.end().unwrap().is_empty());
    assert!(is_alive(&tool) && is_alive(&server));
    drop(living);
}

#[test]
fn a_writer_that_only_a_hook_names_is_ended_only_if_it_is_an_agent() {
    let home = AgentTestHome::new();
    let writer = |agent: &WriterProcess| ForeignWriter {
        kind: "claude".to_owned(),
        conversation_id: ID.to_owned(),
        identity: ProcessIdentity::of(agent.pid()).unwrap(),
        since_ms: 0,
        cwd: None,
        terminal: None,
        command: String::new(),
        others: 0,
        evidence: WriterEvidence::Hook { file: PathBuf::new() },
    };
    let (mut innocent, mut claude) = (home.quiet("other"), home.quiet("claude"));
    let refused = end_foreign_writer(&writer(&innocent), GRACE, None).unwrap_err();
    assert!(
        refused.contains(&format!("pid {}", innocent.pid())) && refused.contains("is not claude"),
        "{refused}"
    );
    // The process ends by itself when its input ends, and not by a signal.
    drop(innocent.input.take());
    assert!(innocent.child.wait().unwrap().code().is_some());
    assert_eq!(
        end_foreign_writer(&writer(&claude), GRACE, None),
        Ok(berth_conversations::foreign_writers::EndedWriter::default())
    );
    claude.child.wait().unwrap();
}

#[test]
fn a_process_in_a_terminal_is_not_a_tool() {
    let home = AgentTestHome::new();
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let window = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&window).unwrap();
    rustix::pty::unlockpt(&window).unwrap();
    let name = rustix::pty::ptsname(&window, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let end = rustix::fs::open(&*name, flags, rustix::fs::Mode::empty()).unwrap();
    let pane =
        leave(&home, &["setsid", "--ctty"], Some(&end), "pane", &format!("{WRAPPING}sleep 1000; true"));
    assert_ne!(process_stat(pane.pid).unwrap().tty, 0);
    let (found, tools, others) = left_by_dead_agents(&home);
    assert!(tools.is_empty() && others.contains(&pane.pid), "{found:?}");
    assert_eq!(found.end(), Ok(vec![]));
    assert!(is_alive(&pane));
}

#[test]
fn a_process_started_by_another_with_equal_marks_is_not_a_tool() {
    let home = AgentTestHome::new();
    // A multiplexer does this for programs that it runs without a terminal.
    let inner = home.0.join("inner");
    let script = format!("setsid sh -c '{WRAPPING}echo $$ >{}; sleep 1000; true'; true", inner.display());
    let server = leave(&home, &["sh", "-c", "\"$@\" &", "sh"], None, "server", &script);
    let inner = pid_in(&inner);
    assert_eq!(process_stat(inner.pid).unwrap().ppid, server.pid);
    let (found, tools, others) = left_by_dead_agents(&home);
    assert!(tools.is_empty() && others.contains(&inner.pid), "{found:?}");
    found.end().unwrap();
    assert!(is_alive(&inner) && is_alive(&server));
}

#[test]
fn a_session_with_an_agent_in_it_is_left_alone_also_if_that_came_later() {
    let home = AgentTestHome::new();
    let (go, agent) = (home.0.join("go"), home.0.join("agent"));
    let inner = format!("{}/claude -c 'echo $$ >{}; sleep 1000; true'", home.0.display(), agent.display());
    let wait = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
    let tool = leave(&home, &["setsid"], None, "tool", &format!("{WRAPPING}{wait}; {inner}; true"));
    let (before, tools, _) = left_by_dead_agents(&home);
    assert_eq!(tools, [tool.pid]);
    fs::write(&go, "").unwrap();
    let agent = pid_in(&agent);
    let (found, tools, others) = left_by_dead_agents(&home);
    assert!(tools.is_empty() && others.contains(&tool.pid), "{found:?}");
    for found in [found, before] {
        assert_eq!(found.end(), Ok(vec![]));
        assert!(is_alive(&agent) && is_alive(&tool));
    }
}

#[test]
fn a_tool_whose_number_is_another_process_now_is_gone() {
    let home = AgentTestHome::new();
    let other = leave(&home, &["setsid"], None, "other-one", "sleep 1000; true");
    let identity = ProcessIdentity { start_ticks: other.start_ticks - 1, ..other.clone() };
    let tool = OrphanProcess { identity, agent: Some(1), command: "sh".to_owned() };
    assert_eq!(OrphanProcesses { tools: vec![tool], others: vec![] }.end(), Ok(vec![]));
    assert!(is_alive(&other));
}

/// Prints the figures as well: `cargo nextest run -p berth-conversations -E 'test(the_search_for_writers)' --no-capture`.
/// `BERTH_TEST_PROCESSES` sets the number of processes.
#[test]
fn the_search_for_writers_is_fast_among_many_processes() {
    let home = AgentTestHome::new();
    let count: usize = std::env::var("BERTH_TEST_PROCESSES").map_or(20, |count| count.parse().unwrap());
    let crowd: Vec<WriterProcess> = (0..count).map(|_| home.quiet("other")).collect();
    for pid in 0..200 {
        home.register(4_000_000 + pid, "gone", "1");
    }
    let agent = home.quiet("claude");
    home.register(agent.pid(), ID, &agent.start());
    let codex = home.locker(&home.lock(ID));
    let cost = |what: &str, look: &dyn Fn() -> usize| {
        let mut times: Vec<Duration> = (0..20)
            .map(|_| {
                let begun = Instant::now();
                assert_eq!(look(), 1);
                begun.elapsed()
            })
            .collect();
        times.sort();
        println!("{what}: median {:?}", times[10]);
        times[10]
    };
    let quick = cost("claude, its list", &|| home.registered("claude").len());
    cost("codex, its lock", &|| home.registered("codex").len());
    cost("claude, everything", &|| home.find("claude").len());
    assert!(quick < Duration::from_millis(200), "{quick:?}");
    drop((crowd, codex));
}

#[test]
fn paths_of_agents_are_taken_as_they_are() {
    // A home through a link is the same home.
    let home = AgentTestHome::new();
    let link = home.0.join("link");
    std::os::unix::fs::symlink(&home.0, &link).unwrap();
    let agent = home.run("claude", ":", &["--resume", ID], &[]);
    let env = |name: &str| (name == "HOME").then(|| link.clone().into_os_string());
    assert_eq!(pids(&find_foreign_writers("claude", ID, env, |_| false).unwrap()), [agent.pid()]);
}
