//! The real agents, with a private home and a model of their own.
//!
//! Promise: they see nothing of the user's: no home, no key, no variable but those listed here; their model is on
//! loopback and dummy keys are all they have. An agent that is left when this is dropped fails the test; the lab
//! reports those that berth started.
//! Not here: installing them (`testing/agents/install`), and the model's answers (see `fake_model::script`).
//! Start with [`RealAgents::new`].

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use berth_host::identity::{ProcessIdentity, ProcessLiveness};
use berth_host::process_tree;
use berth_test_dir::TestDir;
use fake_model::FakeModel;

use crate::terminal::TestTerminal;
use crate::transcript::{ParsedTranscript, TranscriptAgent};

/// Programs that `testing/agents/install` installs.
const PROGRAMS: [&str; 5] = ["claude", "codex", "claude-agent-acp", "codex-acp", "node"];
/// The only key there is.
const KEY: &str = "test-key";
/// How long an agent that was told to end may take to do so.
const GOODBYE: Duration = Duration::from_secs(30);

/// The agents of one test.
#[derive(Debug)]
pub struct RealAgents {
    home: PathBuf,
    bin: PathBuf,
    model: FakeModel,
    /// Removed at the end; `None` if the directory belongs to a lab.
    own_dir: Option<TestDir>,
}

impl RealAgents {
    /// Agents for a test that has no lab.
    pub fn alone() -> Self {
        let dir = TestDir::new();
        let mut agents = Self::new(&dir);
        agents.own_dir = Some(dir);
        agents
    }

    /// Makes a home for the agents below `dir` (a lab's own directory), and a model that no other test asks.
    pub fn new(dir: &Path) -> Self {
        let bin = bin();
        let home = dir.join("agents");
        let model = FakeModel::start().expect("a port on loopback");
        for part in [".claude", ".codex", "tmp", "work"] {
            fs::create_dir_all(home.join(part)).expect("a home for the agents");
        }
        let agents = Self { home, bin, model, own_dir: None };
        agents.no_dialogs();
        agents
    }

    /// True if `testing/agents/install` was run here: [`Self::new`] fails where it was not.
    pub fn are_installed() -> bool {
        let bin = bin_dir();
        PROGRAMS.iter().all(|name| bin.join(name).exists())
    }

    /// The fake model that these agents ask.
    pub fn model(&self) -> &FakeModel {
        &self.model
    }

    /// The home directory of these agents.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// A directory to work in, which they trust.
    pub fn work(&self) -> PathBuf {
        self.home.join("work")
    }

    /// Where the programs are: `claude`, `codex`, `claude-agent-acp`, `codex-acp`, `node`.
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// All variables an agent gets: give these and no others.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        let mut path = OsString::from(&self.bin);
        path.push(":/usr/local/bin:/usr/bin:/bin");
        let home = self.home.as_os_str();
        let below = |part: &str| self.home.join(part).into_os_string();
        let mut env: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), path),
            ("HOME".into(), home.into()),
            ("TMPDIR".into(), below("tmp")),
            ("XDG_CACHE_HOME".into(), below(".cache")),
            ("XDG_CONFIG_HOME".into(), below(".config")),
            ("XDG_DATA_HOME".into(), below(".local/share")),
            ("XDG_STATE_HOME".into(), below(".local/state")),
            ("LANG".into(), "C.UTF-8".into()),
            ("TERM".into(), "xterm-256color".into()),
            ("CLAUDE_CONFIG_DIR".into(), below(".claude")),
            ("ANTHROPIC_BASE_URL".into(), self.model.url().into()),
            ("CODEX_HOME".into(), below(".codex")),
        ];
        let fixed = [
            ("ANTHROPIC_API_KEY", KEY),
            ("OPENAI_API_KEY", KEY),
            ("CLAUDE_CODE_MAX_RETRIES", "0"),
            // These variables keep the agents from asking any server but the model.
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("NO_PROXY", "127.0.0.1"),
        ];
        env.extend(fixed.map(|(name, value)| (name.into(), value.into())));
        env
    }

    /// An agent's program, not yet started: in [`Self::work`], with these variables only and nothing to read.
    pub fn command<A: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.args(args).env_clear().envs(self.env()).current_dir(self.work()).stdin(Stdio::null());
        command
    }

    /// An agent's own terminal interface, in a terminal of its own.
    pub fn terminal<A: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = A>,
    ) -> TestTerminal {
        TestTerminal::start_with(&self.bin.join(program), args, &self.env(), &self.work(), 40, 120)
    }

    /// Gives a command (of berth, say) the agents' variables on top of its own, in [`Self::work`].
    pub fn around<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.env()).current_dir(self.work())
    }

    /// The transcripts that the agents wrote, sub-agents left out.
    pub fn transcripts(&self) -> Vec<ParsedTranscript> {
        let mut all = self.claude_transcripts();
        all.extend(self.codex_transcripts());
        all
    }

    /// The transcripts of Claude Code, under any driver.
    pub fn claude_transcripts(&self) -> Vec<ParsedTranscript> {
        let mut found = Vec::new();
        for project in entries(&self.home.join(".claude/projects")) {
            found.extend(entries(&project).into_iter().filter(|path| is_jsonl(path)));
        }
        found.iter().map(|path| ParsedTranscript::read(TranscriptAgent::Claude, path)).collect()
    }

    /// The transcripts of Codex: its rollouts.
    pub fn codex_transcripts(&self) -> Vec<ParsedTranscript> {
        let mut found = Vec::new();
        let mut places = vec![self.home.join(".codex/sessions")];
        while let Some(place) = places.pop() {
            for entry in entries(&place) {
                if entry.is_dir() {
                    places.push(entry);
                } else if is_jsonl(&entry) {
                    found.push(entry);
                }
            }
        }
        found.sort();
        found.iter().map(|path| ParsedTranscript::read(TranscriptAgent::Codex, path)).collect()
    }

    /// Every process that has this home, and so every process of these agents that kept its environment. A process that
    /// berth started has a `BERTH_HOME` as well, and is the lab's to look after.
    pub fn processes(&self) -> Vec<ProcessIdentity> {
        let home = self.home.display().to_string();
        let mut found =
            process_tree::processes_with_variable("HOME", &home).expect("/proc can be read").processes;
        found.retain(|identity| {
            matches!(process_tree::process_variables(identity.pid, ["BERTH_HOME"]), Ok([None]))
        });
        found
    }

    /// Lets Claude Code use these tools without asking.
    pub fn allow_claude(&self, tools: &[&str]) {
        let settings = serde_json::json!({"permissions": {"allow": tools}});
        fs::write(self.home.join(".claude/settings.json"), settings.to_string())
            .expect("settings of Claude Code");
    }

    /// Sets when Codex asks (`never`, `on-request`), and what its sandbox lets it do.
    pub fn set_codex_policy(&self, approval_policy: &str, sandbox_mode: &str) {
        let file = self.home.join(".codex/config.toml");
        let before = fs::read_to_string(&file).expect("settings of Codex");
        // Before the first table.
        let all =
            format!("approval_policy = \"{approval_policy}\"\nsandbox_mode = \"{sandbox_mode}\"\n{before}");
        fs::write(&file, all).expect("settings of Codex");
    }

    /// Settings that keep the agents from asking a user, and from asking any server but the model.
    fn no_dialogs(&self) {
        let work = self.work().display().to_string();
        let claude = serde_json::json!({
            "hasCompletedOnboarding": true,
            "projects": {work: {"hasTrustDialogAccepted": true}},
            "customApiKeyResponses": {"approved": [KEY], "rejected": []},
        });
        fs::write(self.home.join(".claude/.claude.json"), claude.to_string())
            .expect("settings of Claude Code");
        let codex = format!(
            // The one model Codex knows that has the plain shell tool.
            "model = \"gpt-5.5\"\nmodel_provider = \"fake\"\ncheck_for_update_on_startup = false\n\
             [features]\nplugins = false\napps = false\n[analytics]\nenabled = false\n\
             [model_providers.fake]\nname = \"fake\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\n\
             env_key = \"OPENAI_API_KEY\"\nrequest_max_retries = 0\nstream_max_retries = 0\n\
             [tui]\nscreen_reader_detection_done = true\n\
             [notice.model_migrations]\n\"gpt-5.5\" = \"gpt-6-sol\"\n\
             [projects.\"{}\"]\ntrust_level = \"trusted\"\n",
            self.model.url(),
            self.work().display()
        );
        fs::write(self.home.join(".codex/config.toml"), codex).expect("settings of Codex");
    }
}

impl Drop for RealAgents {
    fn drop(&mut self) {
        // An agent whose input was closed may need a moment for its last words.
        let until = Instant::now() + GOODBYE;
        while !self.processes().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let left = self.processes();
        let named: Vec<String> = left.iter().map(|identity| described(identity.pid)).collect();
        for identity in &left {
            if let ProcessLiveness::Alive(pidfd) = identity.check() {
                let _ = pidfd.signal(rustix::process::Signal::KILL.as_raw());
            }
        }
        self.own_dir = None;
        if !std::thread::panicking() {
            assert!(left.is_empty(), "agents are left behind: {named:?}");
        }
    }
}

/// Where `testing/agents/install` puts the programs.
fn bin_dir() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = var("BERTH_AGENTS").unwrap_or_else(|| {
        let caches = var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")));
        caches.expect("HOME is set").join("berth-agents")
    });
    cache.join("bin")
}

/// Like [`bin_dir`]. Fails with a hint if the programs are not there.
fn bin() -> PathBuf {
    let bin = bin_dir();
    for name in PROGRAMS {
        assert!(
            bin.join(name).exists(),
            "{name} is not in {}: run testing/agents/install, or `./test --no-agents` to leave these tests out",
            bin.display()
        );
    }
    bin
}

fn described(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid}: {}", String::from_utf8_lossy(&line).replace('\0', " "))
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn is_jsonl(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}
